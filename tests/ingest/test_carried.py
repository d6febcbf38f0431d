"""An import of one more log goes on where the last one ended, and tells what all together tell."""

import os
import random
import shutil
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from kubeledger.analyze.histories.history import histories_of_ledger
from kubeledger.ingest import ingest
from kubeledger.ingest.api import import_sources
from kubeledger.ingest.planning.bundle import ImportOptions
from kubeledger.ledger.audit import audit
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.storage import CARRIED, NODES
from kubeledger.model.record import Body, Evidence, Record
from tests.marks import nightly, slow
from tests.recordings import extract

pytestmark = pytest.mark.slow

Told = tuple[int, Body, tuple[Evidence, ...], tuple[int, Body] | None]
"""Time, body, evidence and cause of a record."""

NODE = "node"
LOG = "kubelet.log"
SOME = 6_000
"""Lines at the begin of a log that do where it does not matter what it tells."""


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[bytes]]:
    """Recording -> lines of its kubelet's log."""
    return {
        name: (extract(name, tmp_path_factory.mktemp("node")) / LOG)
        .read_bytes()
        .splitlines(keepends=True)
        for name in ("node-a", "node-b", "node-e-evictions", "node-e-oom", "node-f")
    }


def days(lines: Sequence[bytes], count: int, dice: random.Random | None = None) -> list[bytes]:
    """A log in so many pieces, alike or of any length."""
    cuts = range(1, count)
    ends = [len(lines) * at // count for at in cuts]
    if dice is not None:
        ends = sorted(dice.sample(range(1, len(lines)), count - 1))
    return [
        b"".join(lines[begin:end])
        for begin, end in zip([0, *ends], [*ends, len(lines)], strict=True)
    ]


def named(count: int) -> list[str]:
    """Names that logs have where each day has its own file."""
    return [f"kubelet-{number:02}.log" for number in range(count)]


class Growing:
    """A ledger into which pieces are imported.

    Attributes:
        gone_on: how many logs were read by each import that went on; None: by one that read all.
    """

    def __init__(self, directory: Path, *, forgets: bool = False) -> None:
        """``forgets``: whatever an import hands on is removed."""
        self.ledger = Ledger.create(directory / "ledger")
        self.gone_on: list[int | None] = []
        self._directory = directory
        self._forgets = forgets

    def take(self, piece: bytes, name: str) -> list[str]:
        """Import one; returns findings about kept sources."""
        if self._forgets:
            shutil.rmtree(self.carried, ignore_errors=True)
        path = self._directory / str(len(self.gone_on)) / name
        path.parent.mkdir()
        path.write_bytes(piece)
        os.utime(path, (1_790_000_000, 1_790_000_000))
        self.gone_on.append(None)
        report = import_sources([str(path.parent)], self.ledger, ImportOptions(node=NODE))
        said = [each.finding for bundle in report.bundles for each in bundle.findings]
        return [finding for finding in said if finding.startswith("kept_sources")]

    @property
    def carried(self) -> Path:
        """Where what imports hand on is kept."""
        return self.ledger.path / NODES / NODE / CARRIED

    def records(self) -> list[Record]:
        """All, those superseded, too."""
        return [*self.ledger.records(NODE, superseded=True)]


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Growing, Growing]:
    """A ledger that goes on, and one that reads all again each time."""
    for name in ("goes on", "reads all"):
        (tmp_path / name).mkdir()
    goes_on = Growing(tmp_path / "goes on")
    real = ingest._gone_on

    def noted(*arguments: object) -> object:
        found = real(*arguments)  # type: ignore[arg-type]  # as it is called
        if found is not None and not goes_on.ledger.path.parent.name.startswith("reads"):
            seam, plan, _ = found
            goes_on.gone_on[-1] = len(plan.timing.logs) - len(seam.logs)
        return found

    monkeypatch.setattr(ingest, "_gone_on", noted)
    return goes_on, Growing(tmp_path / "reads all", forgets=True)


def told(ledger: Ledger) -> list[Told]:
    """What holds, in the order of replay, but for what is said about the sources themselves."""
    (history,) = histories_of_ledger(ledger)
    records = [*history.read(None)]
    bodies = {record.seq: (record.ts_ns, record.body) for record in records}
    return [
        (record.ts_ns, record.body, record.evidence, bodies.get(record.cause or 0))
        for record in records
        if not record.kind.startswith("ledger.")
    ]


def take(pair: tuple[Growing, Growing], pieces: Sequence[bytes], names: Sequence[str]) -> None:
    """Import pieces into both, and hold them against each other."""
    for piece, name in zip(pieces, names, strict=True):
        for growing in pair:
            growing.take(piece, name)
    goes_on, whole = pair
    assert told(goes_on.ledger) == told(whole.ledger)


@pytest.mark.parametrize(
    ("recording", "count"),
    [
        *slow(("node-e-evictions", 3), ("node-a", 6), ("node-b", 5)),
        *nightly(("node-a", 17), ("node-b", 30), ("node-f", 4), ("node-f", 11)),
    ],
)
def test_days_in_order(
    recording: str, count: int, logs: dict[str, list[bytes]], pair: tuple[Growing, Growing]
) -> None:
    """The same records with the same numbers, superseded alike."""
    take(pair, days(logs[recording], count), named(count))
    goes_on, whole = pair
    assert goes_on.records() == whole.records()
    assert goes_on.ledger.info(NODE).superseded == whole.ledger.info(NODE).superseded
    if recording == "node-b":
        assert pair[0].gone_on == [None, *[1] * (count - 1)]


@pytest.mark.slow
def test_what_a_kill_names_is_read_again(
    logs: dict[str, list[bytes]], pair: tuple[Growing, Growing]
) -> None:
    """A line of the last piece names containers of the one before, and of no earlier one."""
    lines = logs["node-a"][: len(logs["node-a"]) * 9 // 17]
    take(pair, days(lines, 9), named(9))
    assert pair[0].gone_on[-2:] == [1, 2]


@pytest.mark.parametrize("seed", [0, *slow(1, 2, 3), *nightly(*range(4, 24))])
def test_days_of_any_length(
    seed: int, logs: dict[str, list[bytes]], pair: tuple[Growing, Growing]
) -> None:
    """Cut anywhere, within one second, too; some come late, or twice."""
    dice = random.Random(seed)
    lines = logs[dice.choice(["node-a", "node-b", "node-b"])]
    if seed < 4:  # the nightly run reads whole logs
        begin = dice.randrange(len(lines) * 3 // 4)
        lines = lines[begin : begin + len(lines) // 4]
    count = dice.randrange(3, 9)
    pieces = days(lines, count, dice)
    names = named(count)
    if dice.random() < 0.5:
        late = dice.randrange(count)
        pieces.append(pieces.pop(late))
        names.append(names.pop(late))
    if dice.random() < 0.3:
        pieces.append(pieces[0])
        names.append("again.log")
    take(pair, pieces, names)


def test_files_of_one_name(logs: dict[str, list[bytes]], pair: tuple[Growing, Growing]) -> None:
    """What stands in a file is told as of it, though another one has its name now."""
    for piece in days(logs["node-b"][:SOME], 4):
        for growing in pair:
            growing.take(piece, LOG)
    assert told(pair[0].ledger) == told(pair[1].ledger)
    assert pair[0].gone_on == [None, 1, 1, 1]


@pytest.mark.parametrize("what", ["cut", "flipped", "empty", "version", "chain"])
def test_what_does_not_fit_is_thrown_away(
    what: str,
    logs: dict[str, list[bytes]],
    pair: tuple[Growing, Growing],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second, third = days(logs["node-b"][:SOME], 3)
    take(pair, [first, second], named(2))
    for path in pair[0].carried.iterdir():
        data = path.read_bytes()
        match what:
            case "cut":
                path.write_bytes(data[: len(data) // 2])
            case "flipped":
                middle = len(data) // 2
                path.write_bytes(data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :])
            case "empty":
                path.write_bytes(b"")
            case "chain":
                path.rename(path.with_name(f"{7:020d}.snapshot"))
            case _:
                monkeypatch.setattr("kubeledger.ingest.carried.modules_version", lambda _: "other")
    take(pair, [third], ["kubelet-02.log"])
    assert pair[0].gone_on == [None, 1, None]


@pytest.mark.slow
def test_a_document_is_read_with_all(
    logs: dict[str, list[bytes]], pair: tuple[Growing, Growing]
) -> None:
    """It may tell of any time; afterwards all is read each time."""
    pieces = days(logs["node-b"][:SOME], 4)
    take(pair, pieces[:2], named(2))
    config = b"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 7\n"
    take(pair, [config], ["kubelet-config.yaml"])
    take(pair, pieces[2:], named(4)[2:])
    assert pair[0].gone_on == [None, 1, None, None, None]


def test_a_log_with_lines_of_the_kernel_is_read_with_all(
    logs: dict[str, list[bytes]], pair: tuple[Growing, Growing]
) -> None:
    """Its reports are told at times that the whole shows."""
    pieces = days(logs["node-b"][:8000], 4)
    carried = [
        b"".join(b"Nov 21 02:52:41 node kubelet[8337]: " + line for line in piece.splitlines(True))
        for piece in pieces
    ]
    stamp = b"Nov 21 02:53:00 node kernel: "
    killed = (
        b"oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=c0,mems_allowed=0,"
        b"oom_memcg=/kubepods/burstable/pod1,task_memcg=/kubepods/burstable/pod1/c0,task=a,pid=7,uid=0"
    )
    process = b"Memory cgroup out of memory: Killed process 7 (a) total-vm:4kB, anon-rss:4kB"
    carried[1] = stamp + killed + b"\n" + stamp + process + b"\n" + carried[1]
    take(pair, carried, named(4))
    assert pair[0].gone_on == [None, None, None, None]


@pytest.mark.parametrize("forgets", [False, True])
def test_late_facts_are_replayed_in_their_place(
    forgets: bool, logs: dict[str, list[bytes]], tmp_path: Path
) -> None:
    """A status tells of a kill half a minute ago: in the replay it comes where the whole has it."""
    lines = logs["node-e-oom"]
    begin = next(at for at, line in enumerate(lines) if b"OOMKilled" in line and b"patch=" in line)
    excerpt = lines[max(0, begin - 100) : begin + 200]
    pieces = [b"".join(excerpt[:85]), b"".join(excerpt[85:212]), b"".join(excerpt[212:])]
    (tmp_path / "whole").mkdir()
    whole, growing = Growing(tmp_path / "whole"), Growing(tmp_path, forgets=forgets)
    whole.take(b"".join(excerpt), LOG)
    for piece, name in zip(pieces, named(3), strict=True):
        growing.take(piece, name)
    orders = [[(each[0], each[1]) for each in told(one.ledger)] for one in (growing, whole)]
    assert orders[0] == orders[1]
    assert any(later < earlier for (earlier, _), (later, _) in pairwise(orders[1]))


def test_more_than_is_kept(
    logs: dict[str, list[bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An import that goes on needs no content of the logs before; others say that they do."""
    pieces = days(logs["node-b"][:SOME], 6)
    (tmp_path / "whole").mkdir()
    whole = Growing(tmp_path / "whole")
    for piece, name in zip(pieces, named(6), strict=True):
        whole.take(piece, name)
    monkeypatch.setattr("kubeledger.ingest.pieces.REREAD_BYTES_MAX", int(2.5 * len(pieces[0])))
    growing = Growing(tmp_path)
    for piece, name in zip(pieces, named(6), strict=True):
        assert not growing.take(piece, name)
    assert told(growing.ledger) == told(whole.ledger)
    assert not audit(growing.ledger).findings
    shutil.rmtree(growing.carried)
    assert growing.take(b"".join(logs["node-b"][-1:]), "more.log") == ["kept_sources_too_much"]


def test_of_many_imports_the_last_are_kept(
    logs: dict[str, list[bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kubeledger.ingest.carried.KEPT_MAX", 2)
    growing = Growing(tmp_path)
    for piece, name in zip(days(logs["node-b"][:8000], 5), named(5), strict=True):
        growing.take(piece, name)
        assert len([*growing.carried.iterdir()]) <= 2
