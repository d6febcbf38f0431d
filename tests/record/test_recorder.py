"""A live stream ends as its files do: whatever its pieces, its ends and the crashes on the way."""

import errno
import gc
import weakref
from contextlib import suppress
from pathlib import Path

import pytest

import kubeledger
from kubeledger.ingest.planning.plan import Plan
from kubeledger.ledger.audit import audit
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.writer import LedgerWriter, WriterOptions
from kubeledger.model.bodies.ledger import GapObserved
from kubeledger.model.errors import LedgerUnavailableError
from kubeledger.model.units import NS_PER_S
from kubeledger.record import reading
from kubeledger.record.observations import Gap
from kubeledger.record.reading import Limits
from kubeledger.record.recorder import Recorder
from kubeledger.verify.finding import Finding
from tests.faults import LOSSES, Fault, FaultyDisk, PowerCut
from tests.ingest.node_files import write_node
from tests.marks import nightly
from tests.record.feeding import (
    NodeFiles,
    Standing,
    pieces,
    record_on,
    standing_of_import,
    standing_records,
)
from tests.recordings import extract


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> NodeFiles:
    return NodeFiles(write_node(tmp_path_factory.mktemp("small") / "node-x"))


@pytest.fixture(scope="module")
def of_small(small: NodeFiles, tmp_path_factory: pytest.TempPathFactory) -> list[Standing]:
    root = tmp_path_factory.mktemp("of-small")
    return standing_of_import(small.write(root / "files"), root / "ledger")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> NodeFiles:
    """The first minute of a real node."""
    return NodeFiles(extract("node-a", tmp_path_factory.mktemp("node")), 4000)


def test_of_a_chapter_one_reading_is_held(
    small: NodeFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When it is read again, the former reading is freed before."""
    readings: list[weakref.ref[reading._Reading]] = []

    class Watched(reading._Reading):
        def __init__(self, plan: Plan, ledger: Ledger, writer: LedgerWriter) -> None:
            assert not [each for each in readings if each() is not None]
            super().__init__(plan, ledger, writer)
            readings.append(weakref.ref(self))

    monkeypatch.setattr(reading, "_Reading", Watched)
    monkeypatch.setattr(reading.Reader, "_wants_look", lambda self, durable: True)
    monkeypatch.setattr(reading, "_LOOK_SHARE", 0)
    gc.disable()
    try:
        assert record_on(Ledger.create(tmp_path / "ledger"), small, pieces(small, 1, 5))
    finally:
        gc.enable()
    assert len(readings) > 1


def test_a_real_node_ends_as_its_files(recorded: NodeFiles, tmp_path: Path) -> None:
    """In odd pieces, with the recorder started again on the way."""
    expected = standing_of_import(recorded.write(tmp_path / "files"), tmp_path / "imported")
    ledger = Ledger.create(tmp_path / "ledger")
    ends = pieces(recorded, 1, 60)
    for steps in (7, 31, 1):
        assert not record_on(ledger, recorded, ends, steps=steps)
    assert record_on(ledger, recorded, ends)
    assert standing_records(ledger) == expected
    assert not audit(ledger).findings


def test_no_time_has_two_accounts(recorded: NodeFiles, tmp_path: Path) -> None:
    """A recorder that starts again knows more by then; what it says anew stands alone at once."""
    ledger = Ledger.create(tmp_path / "ledger")
    ends = pieces(recorded, 2, 40)
    for _ in range(4):
        record_on(ledger, recorded, ends, steps=9)
        starts = [
            (told[1], place.file, place.offset)
            for told in standing_records(ledger)
            if told[1].endswith((".ContainerRestarted", ".ContainerKilled", ".PodAdmitted"))
            for place in told[3][:1]
        ]
        assert len(starts) == len(set(starts))
        found = list(kubeledger.open(ledger.path).verify())
        assert all(isinstance(each, Finding) and each.verdict != "impossible" for each in found)


@pytest.mark.parametrize("seed", range(6))
def test_any_pieces_any_stops(
    seed: int, small: NodeFiles, of_small: list[Standing], tmp_path: Path
) -> None:
    """How the log is cut and how often the recorder is started again makes no difference."""
    ledger = Ledger.create(tmp_path / "ledger")
    ends = pieces(small, seed, 5 + 5 * seed)
    while not record_on(ledger, small, ends, steps=1 + seed):
        pass
    record_on(ledger, small, ends)
    assert standing_records(ledger) == of_small


def test_what_is_old_is_dropped_as_chapters_end(
    small: NodeFiles, of_small: list[Standing], tmp_path: Path
) -> None:
    """What is younger holds as ever, cited from what is left; the chain is proved from there."""
    ledger = Ledger.create(tmp_path / "ledger", WriterOptions(segment_bytes=4000))
    limits = Limits(bytes_max=4000, keep_ns=5 * NS_PER_S)
    record_on(ledger, small, pieces(small, 3, 20), limits=limits)
    base = ledger.begin("node-x").base
    assert base is not None
    assert not audit(ledger).findings
    kept = [each[:3] for each in standing_records(ledger) if "ledger.Records" not in each[1]]
    assert kept == [each[:3] for each in of_small if each[0] > base.dropped.latest_ts_ns]


def test_chapters_end_and_the_node_is_one(
    small: NodeFiles, of_small: list[Standing], tmp_path: Path
) -> None:
    """Chapters of a few lines: each is imported with those before it."""
    ledger = Ledger.create(tmp_path / "ledger")
    record_on(ledger, small, pieces(small, 3, 20), limits=Limits(bytes_max=4000))
    assert len({run.digest for run in ledger.info("node-x").runs if run.complete}) > 2
    # Lines are numbered in the chapter that they stand in.
    assert [told[:3] for told in standing_records(ledger)] == [told[:3] for told in of_small]


def _crash(small: NodeFiles, root: Path, at: int) -> int:
    """Record with a power cut at a call that touches the disk; how many calls there were."""
    place = root / str(at)
    ledger = Ledger.create(place / "ledger")
    ends = pieces(small, 5, 8)
    with suppress(PowerCut), FaultyDisk(place, Fault(at=at, crash=True)) as disk:
        record_on(ledger, small, ends)
    disk.lose_power(LOSSES[at % len(LOSSES)])
    with FaultyDisk(place):
        record_on(Ledger.open_or_create(ledger.path), small, ends)
    return len(disk.calls)


def _calls(small: NodeFiles, root: Path) -> int:
    ledger = Ledger.create(root / "whole")
    with FaultyDisk(root) as disk:
        record_on(ledger, small, pieces(small, 5, 8))
    return len(disk.calls)


def test_a_power_cut_at_some_calls(
    small: NodeFiles, of_small: list[Standing], tmp_path: Path
) -> None:
    """Nothing is lost and nothing comes twice."""
    for at in range(3, _calls(small, tmp_path), 23):
        _crash(small, tmp_path, at)
        assert standing_records(Ledger.open(tmp_path / str(at) / "ledger")) == of_small, at


@pytest.mark.nightly
def test_a_power_cut_at_any_call(
    small: NodeFiles, of_small: list[Standing], tmp_path: Path
) -> None:
    for at in range(1, _calls(small, tmp_path)):
        _crash(small, tmp_path, at)
        assert standing_records(Ledger.open(tmp_path / str(at) / "ledger")) == of_small, at


@pytest.mark.parametrize("at", [12, 25, 40, *nightly(*range(1, 56, 2))])
@pytest.mark.parametrize(
    ("code", "said", "advice"),
    [(errno.ENOSPC, "no space left", "free some space"), (errno.EROFS, "read-only", "")],
)
def test_a_full_disk_stops_it_and_nothing_is_lost(
    at: int,
    code: int,
    said: str,
    advice: str,
    small: NodeFiles,
    of_small: list[Standing],
    tmp_path: Path,
) -> None:
    """As chapters end, too: it says what to do, and goes on later."""
    ledger, limits = Ledger.create(tmp_path / "ledger"), Limits(bytes_max=4000)
    fault = Fault(at=at, call="write", error=code, lasting=True, short=True)
    with (
        pytest.raises(LedgerUnavailableError, match=said) as raised,
        FaultyDisk(tmp_path, fault),
    ):
        record_on(ledger, small, pieces(small, 2, 20), limits=limits)
    assert advice in (raised.value.advice or "")
    record_on(ledger, small, pieces(small, 2, 20), limits=limits)
    assert [told[:3] for told in standing_records(ledger)] == [told[:3] for told in of_small]
    assert not audit(ledger).findings


def test_facts_are_records_within_seconds(small: NodeFiles, tmp_path: Path) -> None:
    """While it goes on, an image's removal is there some seconds after its line."""
    ledger = Ledger.create(tmp_path / "ledger")
    ends = [number for number, line in enumerate(small.lines) if b"Removing image" in line.text]
    for steps in (6, 6):
        record_on(ledger, small, ends, steps=steps)
    now_ns = small.lines[ends[11] - 1].ts_ns
    settled_ns = [
        line.ts_ns
        for line in small.lines
        if b"Removing image" in line.text and line.ts_ns < now_ns - 4 * NS_PER_S
    ]
    deleted_ns = [r.ts_ns for r in ledger.records("node-x") if r.kind == "images.ImageDeleted"]
    assert len(settled_ns) > 5
    assert deleted_ns[: len(settled_ns)] == settled_ns


def test_half_an_entry_is_no_record(small: NodeFiles, tmp_path: Path) -> None:
    """A recorder that ends inside an entry of several lines, and others that begin there."""
    ledger = Ledger.create(tmp_path / "ledger")
    head = next(n for n, line in enumerate(small.lines) if b"output=<" in line.text)
    record_on(ledger, small, [head + 1], steps=1)
    for end in (head + 2, head + 3):
        record_on(ledger, small, [end], steps=1)
    record_on(ledger, small, [])
    told = [
        record
        for record in ledger.records("node-x", superseded=True)
        if record.kind == "prober.ProbeExecuted" and record.evidence[0].line == head + 1
    ]
    assert told
    assert len({record.body for record in told}) == 1


def test_a_gap_is_a_record(small: NodeFiles, tmp_path: Path) -> None:
    """Once, and it is still there when the chapter has ended."""
    ledger = Ledger.create(tmp_path / "ledger")
    gap = Gap("kubelet.log", "412 messages were suppressed", None, small.lines[0].ts_ns)
    record_on(ledger, small, [], gaps=(gap,), steps=2)
    record_on(ledger, small, [])
    (told,) = [r.body for r in ledger.records("node-x") if isinstance(r.body, GapObserved)]
    assert (told.stream, told.reason) == (gap.stream, gap.reason)
    assert (told.since_ts_ns, told.until_ts_ns) == (None, gap.until_ns)


def test_records_outlive_a_capture_that_was_cut(small: NodeFiles, tmp_path: Path) -> None:
    """What the capture has lost is not taken back from the ledger; reading goes on before it."""
    ledger = Ledger.create(tmp_path / "ledger")
    ends = pieces(small, 4, 12)
    record_on(ledger, small, ends, steps=8)
    before = standing_records(ledger)
    (chapter,) = ledger.path.rglob("*.open")
    chapter.write_bytes(chapter.read_bytes()[: chapter.stat().st_size // 2])
    with ledger.writer() as writer:
        recorder = Recorder(ledger, writer, "node-x", {}, small.last_ns)
        recorder.step(small.last_ns)
        recorder.close()
    assert before[-1] in standing_records(ledger)
    # What was read again is told when it is settled: by the time at which it was told before.
    record_on(ledger, small, ends, steps=3)
    of_node = {told for told in before if not told[1].startswith("ledger.")}  # the year shows now
    assert of_node <= set(standing_records(ledger))


def test_a_damaged_capture_is_a_gap(small: NodeFiles, tmp_path: Path) -> None:
    """What is whole of it is imported, no record is taken back, and the rest is recorded."""
    ledger = Ledger.create(tmp_path / "ledger")
    ends = pieces(small, 4, 12)
    record_on(ledger, small, ends, steps=8)
    before = standing_records(ledger)
    (chapter,) = ledger.path.rglob("*.open")
    data = chapter.read_bytes()
    chapter.write_bytes(data[:600] + b"?" * 300 + data[900:])
    record_on(ledger, small, ends)
    after = standing_records(ledger)
    assert set(before) <= set(after)
    (told,) = [r.body for r in ledger.records("node-x") if isinstance(r.body, GapObserved)]
    assert told.stream == "capture"
    assert "damaged" in told.reason
    last_ns = max(ts_ns for ts_ns, kind, _, _ in after if kind == "images.ImageDeleted")
    assert last_ns == max(line.ts_ns for line in small.lines if b"Removing image" in line.text)
