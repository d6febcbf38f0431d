"""A bundle that comes in pieces, in any order, tells the same as the whole, and nothing twice."""

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

import kubeledger
from kubeledger.analyze.histories.history import histories_of_ledger
from kubeledger.ingest.api import import_sources
from kubeledger.ingest.planning.bundle import ImportOptions
from kubeledger.ledger.audit import audit
from kubeledger.ledger.kept import KEPT, KeptSources
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.record import Record
from kubeledger.verify import Finding
from tests.marks import nightly, slow
from tests.recordings import extract

pytestmark = pytest.mark.slow

Piece = dict[str, bytes]
NODES = ("node-a", "node-b")
LOG = "kubelet.log"


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Piece]:
    """Node -> file -> content, of the recordings."""
    found = {}
    for node in NODES:
        root = extract(node, tmp_path_factory.mktemp("node"))
        paths = sorted(path for path in root.rglob("*") if path.is_file())
        found[node] = {str(path.relative_to(root)): path.read_bytes() for path in paths}
    return found


@pytest.fixture(scope="module")
def whole(
    nodes: dict[str, Piece], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Ledger]:
    """Node -> the ledger of an import of all files at once."""
    return cache(lambda node: imported(node, [nodes[node]], tmp_path_factory.mktemp(node)))


def imported(node: str, pieces: list[Piece], directory: Path) -> Ledger:
    ledger = Ledger.create(directory / "ledger")
    for number, piece in enumerate(pieces):
        root = directory / str(number) / node
        for file, content in piece.items():
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            (root / file).write_bytes(content)
            os.utime(root / file, (0, 0))
        import_sources([str(root)], ledger, ImportOptions(node=node, year=2026))
    return ledger


def reported(ledger: Ledger) -> list[tuple[int, str, object]]:
    """Facts in the order of replay, without what the ledger tells of its imports."""
    return [
        (record.ts_ns, record.kind, record.body)
        for record in replayed(ledger)
        if not record.kind.startswith("ledger.")
    ]


def replayed(ledger: Ledger) -> Iterator[Record]:
    (history,) = histories_of_ledger(ledger)
    return history.read(None)


def verdicts(ledger: Ledger) -> Counter[tuple[object, ...]]:
    """What verification says of each decision."""
    (history,) = histories_of_ledger(ledger)
    return Counter(
        (outcome.ts_ns, outcome.kind, outcome.subject, outcome.verdict)
        if isinstance(outcome, Finding)
        else (outcome.ts_ns, outcome.why)
        for outcome in history.verify()
    )


def lines_of(log: bytes, begin: float, end: float) -> bytes:
    lines = log.splitlines(keepends=True)
    return b"".join(lines[int(len(lines) * begin) : int(len(lines) * end)])


def at_random(files: Piece, seed: int) -> list[Piece]:
    """Some pieces with files of any kind in each; the log grows, or comes in parts of any order."""
    dice = random.Random(seed)
    count = dice.randrange(2, 6)
    pieces: list[Piece] = [{} for _ in range(count)]
    for file, content in files.items():
        if file != LOG:
            pieces[dice.randrange(count)][file] = content
    ends = [*sorted(dice.random() for _ in range(count - 1)), 1.0]
    grows = dice.random() < 0.5
    for piece, begin, end in zip(pieces, [0.0, *ends], ends, strict=False):
        piece[LOG] = lines_of(files[LOG], 0.0 if grows else begin, end)
    if not grows:
        dice.shuffle(pieces)
    return pieces


def cuts_of(files: Piece) -> dict[str, list[Piece]]:
    """The pieces in which bundles really come."""
    log, rest = {LOG: files[LOG]}, {f: c for f, c in files.items() if f != LOG}
    return {
        "log first": [log, rest],
        "log last": [rest, log],
        **{f"seed {seed}": at_random(files, seed) for seed in range(3)},
    }


@pytest.mark.parametrize(
    ("node", "cut"),
    [
        ("node-b", "log last"),
        *slow(("node-b", "seed 2"), ("node-a", "log first")),
        *nightly(("node-a", "seed 0"), ("node-a", "seed 1")),
    ],
)
def test_pieces_tell_what_the_whole_tells(
    node: str, cut: str, nodes: dict[str, Piece], whole: Callable[[str], Ledger], tmp_path: Path
) -> None:
    """The same facts in the same order, judged alike; and the chain holds all of it."""
    ledger = imported(node, cuts_of(nodes[node])[cut], tmp_path)
    assert reported(ledger) == reported(whole(node))
    assert verdicts(ledger) == verdicts(whole(node))
    (history,) = histories_of_ledger(ledger)
    kinds = {record.kind for record in replayed(ledger)}
    assert [*history.read(kinds)] == [*replayed(ledger)]
    assert audit(ledger).findings == ()


def test_no_door_shows_what_is_superseded(
    nodes: dict[str, Piece], whole: Callable[[str], Ledger], tmp_path: Path
) -> None:
    """SQL, a list of records and the state show each decision once."""
    log, rest = cuts_of(nodes["node-b"])["log first"]
    ledger = imported("node-b", [log, rest], tmp_path)
    everything = sum(1 for _ in ledger.records(superseded=True))
    assert sum(1 for _ in ledger.records()) < everything
    count = "SELECT kind, count(*) FROM records WHERE kind NOT LIKE 'ledger.%' GROUP BY ALL"
    shown = []
    for each in (ledger, whole("node-b")):
        with kubeledger.open(each.path) as opened:
            shown.append((sorted(opened.sql(count)), opened.state().devicemanager))
    assert shown[0] == shown[1]


def test_one_more_piece_supersedes_nothing_that_it_does_not_change(
    nodes: dict[str, Piece], tmp_path: Path
) -> None:
    """A log that grew by itself: what was told stays as it was told, under its number."""
    log = nodes["node-b"][LOG]
    first = {LOG: lines_of(log, 0, 0.6)}
    ledger = imported("node-b", [first], tmp_path / "first")
    before = {(r.seq, r.kind) for r in ledger.records()}
    (tmp_path / "second").mkdir()
    (tmp_path / "second" / LOG).write_bytes(log)
    import_sources([str(tmp_path / "second")], ledger, ImportOptions(node="node-b", year=2026))
    after = {(r.seq, r.kind) for r in ledger.records()}
    assert len(before - after) < len(before) // 50


def test_damaged_copies_are_not_read_again(nodes: dict[str, Piece], tmp_path: Path) -> None:
    """What was kept is not what it was: nothing of that import is superseded, and this is said."""
    log, rest = cuts_of(nodes["node-b"])["log first"]
    ledger = imported("node-b", [log], tmp_path / "log")
    (kept,) = (ledger.path / "nodes" / "node-b" / KEPT).glob("*.zst")
    kept.write_bytes(kept.read_bytes()[:-9])
    before = {r.seq for r in ledger.records()}
    root = tmp_path / "rest"
    for file, content in rest.items():
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_bytes(content)
    report = import_sources([str(root)], ledger, ImportOptions(node="node-b", year=2026))
    assert before <= {r.seq for r in ledger.records()}
    (bundle,) = report.bundles
    assert "what the ledger kept of an earlier import is damaged" in bundle.findings[-1].message


def test_sources_of_a_dropped_time_are_forgotten(nodes: dict[str, Piece], tmp_path: Path) -> None:
    ledger = imported("node-b", [{LOG: nodes["node-b"][LOG]}], tmp_path)
    store = KeptSources(ledger.path, "node-b")
    digests = [run.digest for run in ledger.info("node-b").runs if run.digest]
    (known,) = store.imports(digests)
    (source,) = known.sources
    store.forget_before(source.last_ts_ns - 1)
    assert store.imports(digests) == [known]
    store.forget_before(source.last_ts_ns)
    assert store.imports(digests) == []
    assert not store.content(source.digest).exists()


def test_pieces_that_are_too_much_are_said(
    nodes: dict[str, Piece], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not read again changes what the next piece tells: nobody is left to find that out.

    The newest comes first: an import of a later one would go on where the last one ended.
    """
    lines = nodes["node-b"][LOG].splitlines(keepends=True)[:4000]
    ledger = Ledger.create(tmp_path / "ledger")
    told = []
    for number in range(3):
        root = tmp_path / str(number) / "node-b"
        root.mkdir(parents=True)
        begin = 1000 * (2 - number)
        (root / LOG).write_bytes(b"".join(lines[begin : begin + 1000]))
        if number == 2:
            monkeypatch.setattr("kubeledger.ingest.pieces.REREAD_BYTES_MAX", 1000)
        (report,) = import_sources([str(root)], ledger).bundles
        told.append([found.finding for found in report.findings])
    assert ["kept_sources_too_much" in codes for codes in told] == [False, False, True]
