"""Parquet history and tail together answer as the lines themselves do, whatever happened."""

import shutil
from pathlib import Path

import duckdb
import pytest

from kubeledger.analyze.sql.api import connect
from kubeledger.analyze.sql.views import load_views
from kubeledger.ledger.history.history import Coverage, History, forget_dropped
from kubeledger.ledger.history.parts import HISTORY, load_index
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.tail import Draft, encode_batch
from kubeledger.ledger.writer import WriterOptions
from kubeledger.model.errors import DamagedLedgerError, LedgerUnavailableError
from kubeledger.model.record import Record
from tests.analyze.sql.fixture_ledger import whole_story
from tests.marks import nightly

DAY_NS = 86_400_000_000_000
STORY = len(whole_story())
"""Records of one day."""


def append(ledger: Ledger, records: list[Record]) -> None:
    with ledger.writer() as writer:
        for record in records:
            draft = Draft(record.ts_ns, record.body, record.evidence, record.cause)
            writer.append(record.node, [draft])


def later(records: list[Record], days: int = 1) -> list[Draft]:
    """The same facts on another day."""
    return [Draft(r.ts_ns + days * DAY_NS, r.body, r.evidence) for r in records]


def cover(ledger: Ledger, scratch: Path) -> Coverage:
    """Everything into Parquet, by a process of its own as it were."""
    scratch.mkdir(exist_ok=True)
    return History(ledger, scratch).cover(1)


def all_rows(ledger: Path) -> dict[str, list[tuple[object, ...]]]:
    """Every view, every row, in a fixed order."""
    with connect(ledger) as database:
        database.sql("SELECT body, evidence FROM records LIMIT 0")  # all is needed: load once
        return {
            name: sorted(database.sql(f"SELECT * FROM {name}").fetchall(), key=repr)
            for name in load_views()
        }


def open_segment(ledger: Ledger) -> Path:
    with ledger.writer() as writer:
        writer.append("node-a", later(whole_story(), 2)[:2])
    (segment,) = (ledger.path / "nodes" / "node-a" / "segments").glob("*.jsonl")
    return segment


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """A ledger of small segments: the story, and the same a day later."""
    opened = Ledger.create(tmp_path / "led [a]*ger", WriterOptions(segment_bytes=8_000, level=1))
    append(opened, whole_story())
    with opened.writer() as writer:
        writer.append("node-a", later(whole_story()))
    return opened


@pytest.mark.slow
def test_every_view_answers_the_same_from_parquet(ledger: Ledger, tmp_path: Path) -> None:
    plain = all_rows(ledger.path)
    assert plain["events"]
    assert not (ledger.path / HISTORY).exists()
    covered = cover(ledger, tmp_path / "a")
    assert covered.ends == {"node-a": 2 * STORY}
    assert all_rows(ledger.path) == plain
    with ledger.writer() as writer:
        writer.append("node-a", later(whole_story(), 2))
    longer = all_rows(ledger.path)
    shutil.rmtree(ledger.path / HISTORY)
    assert all_rows(ledger.path) == longer != plain


def test_other_engines_read_the_partitions(ledger: Ledger, tmp_path: Path) -> None:
    """The layout is Hive's: node and date are in the paths, and the dates are the rows'."""
    cover(ledger, tmp_path / "a")
    copy = tmp_path / "copy"  # no pattern in its name
    shutil.copytree(ledger.path / HISTORY, copy)
    rows = (
        duckdb.connect(":memory:")
        .execute(
            f"SELECT node, date::VARCHAR, count(*), bool_and(ts::DATE = date)"
            f" FROM read_parquet('{copy}/*/*/*.parquet', hive_partitioning = true)"
            " GROUP BY ALL ORDER BY ALL"
        )
        .fetchall()
    )
    assert [row[:2] for row in rows] == [("node-a", "2026-11-21"), ("node-a", "2026-11-22")]
    assert sum(row[2] for row in rows) == 2 * STORY
    assert all(row[3] for row in rows)


def test_it_grows_by_what_is_new(ledger: Ledger, tmp_path: Path) -> None:
    """Files that are there stay as they are; parts follow on each other."""
    before = {path: Path(path).resolve().stat() for path in cover(ledger, tmp_path / "a").paths}
    with ledger.writer() as writer:
        writer.append("node-a", later(whole_story(), 2))
    after = cover(ledger, tmp_path / "a")
    assert after.ends == {"node-a": 3 * STORY}
    assert set(before) < set(after.paths)
    for path, status in before.items():
        now = Path(path).resolve().stat()
        assert (now.st_ino, now.st_mtime_ns) == (status.st_ino, status.st_mtime_ns)
    parts = load_index(ledger.path / HISTORY).nodes["node-a"]
    assert parts[0].first_seq == 1
    assert [p.first_seq for p in parts[1:]] == [p.last_seq + 1 for p in parts[:-1]]


@pytest.mark.slow
def test_a_flipped_bit_is_never_answered_from(ledger: Ledger, tmp_path: Path) -> None:
    """At any place of any file: the part is left out, and made anew when it is grown again."""
    plain = all_rows(ledger.path)
    files = cover(ledger, tmp_path / "a").paths
    first = Path(files[0]).resolve()
    whole = first.read_bytes()
    for place in range(0, len(whole), max(1, len(whole) // 2)):
        damaged = bytearray(whole)
        damaged[place] ^= 4
        first.write_bytes(damaged)
        assert all_rows(ledger.path) == plain
        assert cover(ledger, tmp_path / "b").ends == {"node-a": 2 * STORY}
        assert first.read_bytes() == whole
    first.unlink()
    assert all_rows(ledger.path) == plain


@pytest.mark.slow
@pytest.mark.parametrize("content", [b"", None, *nightly(b"{}\n00000000\n", b"\xff\x00")])
def test_a_bad_index_counts_as_none(ledger: Ledger, tmp_path: Path, content: bytes | None) -> None:
    """Cut, false, no text, or with one byte changed."""
    plain = all_rows(ledger.path)
    cover(ledger, tmp_path / "a")
    index = ledger.path / HISTORY / "index.json"
    whole = index.read_bytes()
    index.write_bytes(
        whole.replace(b'"first_seq":1,', b'"first_seq":2,') if content is None else content
    )
    assert all_rows(ledger.path) == plain
    assert cover(ledger, tmp_path / "b").ends == {"node-a": 2 * STORY}
    assert index.read_bytes() == whole


@pytest.mark.slow
def test_a_history_of_other_records_does_not_count(ledger: Ledger, tmp_path: Path) -> None:
    """The chain digest ties it to its ledger: one with the same numbers is another one."""
    other = Ledger.create(tmp_path / "other")
    append(other, [r for r in whole_story() if r.seq <= 5])
    plain = all_rows(other.path)
    cover(ledger, tmp_path / "a")
    shutil.copytree(ledger.path / HISTORY, other.path / HISTORY)
    assert all_rows(other.path) == plain
    assert cover(other, tmp_path / "b").ends == {"node-a": 5}
    assert all_rows(other.path) == plain


def test_where_nothing_can_be_written_it_stands_elsewhere(ledger: Ledger, tmp_path: Path) -> None:
    """A ledger on a read-only disk is answered from a history in a temporary directory."""
    (ledger.path / HISTORY).write_text("a file where the directory should be")
    (tmp_path / "scratch").mkdir()
    history = History(ledger, tmp_path / "scratch")
    covered = history.cover(1)
    assert covered.ends == {"node-a": 2 * STORY}
    assert all(Path(p).resolve().is_relative_to(tmp_path / "scratch") for p in covered.paths)
    with pytest.raises(LedgerUnavailableError, match="cannot write the history"):
        history.require_kept()
    with ledger.writer() as writer:
        writer.append("node-a", later(whole_story(), 2))
    assert history.cover(1).ends == {"node-a": 3 * STORY}
    assert set(covered.paths) < set(history.cover(1).paths)


def test_small_ledgers_get_no_history(ledger: Ledger, tmp_path: Path) -> None:
    """What is read in a moment is not worth any file."""
    (tmp_path / "scratch").mkdir()
    assert History(ledger, tmp_path / "scratch").cover() == Coverage([], {})
    assert not (ledger.path / HISTORY).exists()
    lines_bytes = sum(each.size_bytes for each in ledger.info("node-a").segments)
    History(ledger, tmp_path / "scratch").cover(grow_bytes=lines_bytes // 2)
    assert (ledger.path / HISTORY).exists()


def test_a_damaged_segment_gives_no_history(ledger: Ledger, tmp_path: Path) -> None:
    """What is not as it was written is told with its file, and nothing of it is kept."""
    segment = open_segment(ledger)
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)
    with pytest.raises(DamagedLedgerError) as caught:
        cover(ledger, tmp_path / "a")
    assert caught.value.file == str(segment)
    kept = load_index(ledger.path / HISTORY).nodes["node-a"]
    assert kept[-1].last_seq == int(segment.name[:20]) - 1


def test_left_over_files_are_removed(ledger: Ledger, tmp_path: Path) -> None:
    """A crash between two files leaves some that no index names."""
    first = Path(cover(ledger, tmp_path / "a").paths[0]).resolve()
    stray = first.with_name("stray.parquet.tmp")
    stray.write_bytes(b"half a file")
    with ledger.writer() as writer:
        writer.append("node-a", later(whole_story(), 2))
    cover(ledger, tmp_path / "a")
    assert not stray.exists()
    assert first.exists()


def test_records_cut_off_since_take_their_part_along(ledger: Ledger, tmp_path: Path) -> None:
    """A reader may see lines that a crash takes back; other records then get their numbers."""
    segment = open_segment(ledger)
    with segment.open("ab") as file:  # as a writer does that is not done with its batch
        whole = segment.stat().st_size
        file.write(_next_line(ledger))
    assert cover(ledger, tmp_path / "a").ends == {"node-a": 2 * STORY + 3}
    with segment.open("rb+") as file:
        file.truncate(whole)
    with ledger.writer() as writer:
        writer.append("node-a", later(whole_story(), 3)[:2])
    covered = cover(ledger, tmp_path / "b")
    assert covered.ends == {"node-a": 2 * STORY + 4}
    expected = [(r.seq, r.ts_ns) for r in ledger.records("node-a")]
    with connect(ledger.path) as database:
        assert database.sql("SELECT seq, ts_ns FROM events ORDER BY seq").fetchall() == expected


def _next_line(ledger: Ledger) -> bytes:
    info = ledger.info("node-a")
    return encode_batch("node-a", later(whole_story(), 2)[:1], info.last_seq + 1, info.head).data


@pytest.mark.slow
@pytest.mark.parametrize(
    "linked", [f"{HISTORY}/node=x", *nightly(HISTORY, f"{HISTORY}/node=x/date=x")]
)
def test_no_link_is_followed(ledger: Ledger, tmp_path: Path, linked: str) -> None:
    """A ledger of somebody else's makes nobody's files go, and writes nowhere else."""
    precious = tmp_path / "precious"
    for below in (precious, precious / "date=2026", precious / "node=y" / "date=2026"):
        below.mkdir(parents=True, exist_ok=True)
        (below / "thesis.parquet").write_bytes(b"mine\n")
    before = sorted((p, p.is_file() and p.read_bytes()) for p in precious.rglob("*"))
    rows = all_rows(ledger.path)
    link = ledger.path / linked
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(precious)
    covered = cover(ledger, tmp_path / "scratch")
    assert sum(covered.ends.values()) > 0
    assert all_rows(ledger.path) == rows
    forget_dropped(ledger)
    assert sorted((p, p.is_file() and p.read_bytes()) for p in precious.rglob("*")) == before


@pytest.mark.slow
def test_a_part_behind_a_link_does_not_count(ledger: Ledger, tmp_path: Path) -> None:
    """Neither a linked file nor a linked directory, whatever its bytes are."""
    cover(ledger, tmp_path / "first")
    rows = all_rows(ledger.path)
    for moved in ("node=*", "node=*/date=*", "node=*/date=*/*.parquet"):
        path = next((ledger.path / HISTORY).glob(moved))
        elsewhere = tmp_path / f"elsewhere-{moved.count('/')}"
        shutil.move(path, elsewhere)
        path.symlink_to(elsewhere)
        assert all_rows(ledger.path) == rows
        made = cover(ledger, tmp_path / f"scratch-{moved.count('/')}")
        assert made.ends
        assert not path.is_symlink()
        assert elsewhere.exists()
