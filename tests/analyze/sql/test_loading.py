"""From segments on disk to rows: torn tails, sealed files, old versions, damage."""

import shutil
from pathlib import Path

import msgspec
import pytest

from kubeledger.analyze.sql.api import connect
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.sealing import compress
from kubeledger.ledger.storage import segment_file
from kubeledger.ledger.tail import Draft
from kubeledger.model.errors import BadQuestionError, DamagedLedgerError
from kubeledger.model.record import Record
from kubeledger.model.wire.codec import GENESIS, chained
from tests.analyze.sql.fixture_ledger import RECORDS, whole_story, write_ledger, write_segment

COUNT = "SELECT count(*), max(seq) FROM events"


def ask(ledger: Path, query: str) -> list[tuple[object, ...]]:
    with connect(ledger) as database:
        return database.sql(query).fetchall()


def only_segment(ledger: Path) -> Path:
    (path,) = ledger.glob("nodes/*/segments/*")
    return path


def seal(path: Path) -> Path:
    sealed = path.with_name(f"{path.name}.zst")
    with path.open("rb") as plain, sealed.open("wb") as out:
        compress(plain, out, 3)
    path.unlink()
    return sealed


def write_lines(path: Path, records: list[dict[str, object]]) -> None:
    """A segment of these records, each with a chain digest and CRC that fit."""
    digest, lines = GENESIS, []
    for record in records:
        fields = {name: record[name] for name in record if name not in {"chain", "crc"}}
        payload = msgspec.json.encode(fields)[:-1]
        frame, digest = chained(payload, digest)
        lines.append(payload + frame)
    path.write_bytes(b"".join(lines))


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return write_ledger(tmp_path / "ledger", whole_story())


def test_torn_tail_is_not_read(ledger: Path) -> None:
    """A line that a crash cut anywhere is not there yet; all before it is."""
    path = only_segment(ledger)
    whole = path.read_bytes()
    last = whole.rstrip(b"\n").rfind(b"\n") + 1
    for end in (last + 1, last + 50, len(whole) - 2, len(whole) - 1):
        path.write_bytes(whole[:end])
        assert ask(ledger, COUNT) == [(RECORDS - 1, RECORDS - 1)]
    path.write_bytes(whole[:10])
    assert ask(ledger, COUNT) == [(0, None)]
    path.write_bytes(b"")
    assert ask(ledger, COUNT) == [(0, None)]


@pytest.mark.parametrize("name", ["ledger", "odd [a]*?{b} 'c' %20 ü"])
def test_sealed_and_open_segments_together(tmp_path: Path, name: str) -> None:
    """Compressed and plain segments are one history, whatever the directory is called."""
    records = whole_story()
    directory = tmp_path / name / "nodes" / "node-a" / "segments"
    digest = write_segment(directory / segment_file(1), records[:30])
    seal(directory / segment_file(1))
    write_segment(directory / segment_file(31), records[30:], digest)
    assert ask(tmp_path / name, COUNT) == [(RECORDS, RECORDS)]
    rows = ask(tmp_path / name, "SELECT seq FROM events")
    assert [row[0] for row in rows] == list(range(1, RECORDS + 1))


def test_segment_that_is_there_twice_counts_once(ledger: Path) -> None:
    """As after a crash between sealing a segment and removing the plain file."""
    path = only_segment(ledger)
    with path.open("rb") as plain, path.with_name(segment_file(1, sealed=True)).open("wb") as out:
        compress(plain, out, 3)
    assert ask(ledger, COUNT) == [(RECORDS, RECORDS)]


def test_nodes_stand_side_by_side(tmp_path: Path) -> None:
    """Joins keep to one node: the same numbers mean other records on another."""
    ledger = write_ledger(tmp_path / "two", whole_story("a") + whole_story("b"))
    assert ask(ledger, "SELECT node, count(*) FROM events GROUP BY node ORDER BY node") == [
        ("a", RECORDS),
        ("b", RECORDS),
    ]
    for view, rows in (("device_allocations", 2), ("image_gc_runs", 2), ("image_gc_deletions", 3)):
        assert ask(ledger, f"SELECT node, count(*) FROM {view} GROUP BY node ORDER BY node") == [
            ("a", rows),
            ("b", rows),
        ]


def test_old_schema_version_is_upcast(ledger: Path) -> None:
    path = only_segment(ledger)
    records = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
    for record in records:
        if record["kind"] == "prober.ProbeExecuted":
            record["v"] = 1
            del record["body"]["handler"]
    write_lines(path, records)
    rows = ask(
        ledger, "SELECT seq, v, json_keys(body)[-1] FROM events WHERE kind LIKE 'prober.P%d'"
    )
    assert rows[:3] == [(16, 2, "handler"), (17, 2, "handler"), (18, 2, "handler")]
    ticks = ask(ledger, "SELECT result, handler FROM probe_ticks ORDER BY seq")
    assert ticks == [("success", None), ("failure", None), ("failure", None)]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [("v", 99, "newer version"), ("kind", "prober.ProbeImagined", "unknown kind")],
)
def test_newer_records_are_refused(ledger: Path, field: str, value: object, message: str) -> None:
    path = only_segment(ledger)
    records = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
    records[15][field] = value
    write_lines(path, records)
    with pytest.raises(DamagedLedgerError, match=message):
        ask(ledger, COUNT)


def test_a_damaged_line_is_reported_with_its_segment(ledger: Path) -> None:
    """A flipped bit in the middle, JSON or not, is damage, with the file's own name."""
    path = only_segment(ledger)
    lines = path.read_bytes().splitlines()
    lines[3] = b"{" + lines[3]
    path.write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(DamagedLedgerError) as caught:
        ask(ledger, COUNT)
    assert caught.value.file == str(path)
    assert "CRC" in caught.value.message


def test_damaged_compression_is_reported(ledger: Path) -> None:
    sealed = seal(only_segment(ledger))
    data = bytearray(sealed.read_bytes())
    data[len(data) // 2] ^= 0xFF
    sealed.write_bytes(data)
    with pytest.raises(DamagedLedgerError):
        ask(ledger, COUNT)


def test_missing_ledger_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(BadQuestionError, match="no "):
        ask(tmp_path / "nothing", "SELECT 1")


def real_ledger(path: Path, records: list[Record]) -> Ledger:
    ledger = Ledger.create(path)
    with ledger.writer() as writer:
        writer.append(
            records[0].node, [Draft(r.ts_ns, r.body, r.evidence, r.cause) for r in records]
        )
    return ledger


def test_what_the_writer_wrote(tmp_path: Path) -> None:
    records = whole_story()
    real_ledger(tmp_path / "real", records)
    rows = ask(tmp_path / "real", "SELECT seq, ts_ns, kind, cause_seq FROM events")
    assert rows == [(r.seq, r.ts_ns, r.kind, r.cause) for r in records]


def test_a_lost_segment_is_reported(tmp_path: Path) -> None:
    """Records that the manifest counts cannot go missing unnoticed."""
    real_ledger(tmp_path / "real", whole_story())
    only_segment(tmp_path / "real").unlink()
    with pytest.raises(DamagedLedgerError, match=f"some of records 1 to {RECORDS}"):
        ask(tmp_path / "real", "SELECT 1")


def test_appended_records_are_seen(tmp_path: Path) -> None:
    ledger = write_ledger(tmp_path / "ledger", whole_story()[:10])
    longer = write_ledger(tmp_path / "longer", whole_story())
    with connect(ledger) as database:
        assert database.sql(COUNT).fetchall() == [(10, 10)]
        shutil.copyfile(only_segment(longer), only_segment(ledger))
        assert database.sql(COUNT).fetchall() == [(RECORDS, RECORDS)]
