"""Copies of many files: readers see the same rows by them, whatever dies, and whoever grows."""

from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

from kubeledger.cli.main import cli
from kubeledger.fleet import compaction
from kubeledger.fleet.compaction import compact, files_to_read
from kubeledger.fleet.lake import Lake
from kubeledger.fleet.layout import COMPACT
from kubeledger.fleet.query import connect_lake
from kubeledger.ledger.history.parts import quoted
from tests.analyze.sql.fixture_ledger import manager_story, whole_story, write_ledger
from tests.buckets import DyingStore, Killed
from tests.fleet.places import put_node

pytestmark = pytest.mark.slow

QUESTIONS = (
    "SELECT * FROM records ORDER BY ALL",
    "SELECT * FROM verdicts ORDER BY ALL",
    "SELECT node, kind, count(*) FROM events WHERE node <> 'n0' GROUP BY ALL ORDER BY ALL",
)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = Lake.open_or_create(str(tmp_path / "lake"))
    for number, story in enumerate((whole_story()[:12], whole_story(), manager_story())):
        put_node(made, write_ledger(tmp_path / str(number), story), f"n{number}")
    put_node(made, write_ledger(tmp_path / "east", whole_story()[:30]), "East/it's")
    return made


def _answers(lake: Lake) -> list[list[tuple[object, ...]]]:
    with connect_lake(lake.store.url) as database:
        return [database.sql(question).fetchall() for question in QUESTIONS]


def _rows(lake: Lake) -> list[tuple[object, ...]]:
    found = []
    with duckdb.connect(":memory:") as connection:
        for room in ("records", "verdicts"):
            for part in files_to_read(lake, lake.heads().values(), room):
                rows = connection.execute(
                    "SELECT node, seq, kind FROM read_parquet("
                    f"{quoted(lake.store.address(part.path))}, hive_partitioning = false)"
                    " WHERE NOT list_contains($1, node)",
                    [list(part.without)],
                ).fetchall()
                found += [(room, *row) for row in rows]
    return sorted(found)


def _paths(lake: Lake) -> list[str]:
    return [each.path for each in lake.store.list()]


def _opened(lake: Lake) -> set[tuple[str, tuple[str, ...]]]:
    """Rooms of the files of records that are read, and the nodes that are left out of each."""
    parts = files_to_read(lake, lake.heads().values(), "records")
    return {(part.path.partition("/")[0], part.without) for part in parts}


def test_a_second_run_does_nothing(lake: Lake, tmp_path: Path) -> None:
    before = _answers(lake)
    done = compact(lake, tmp_path)
    lake.write_index()
    assert _opened(lake) == {("compact", ())}
    assert _answers(lake) == before
    paths = _paths(lake)
    assert done
    assert compact(lake, tmp_path) == ()
    lake.write_index()
    assert _paths(lake) == paths


def test_a_few_nodes_that_grew_are_left_out_of_copies(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their own files are read; small copies are made again with what is new, large ones stay."""
    monkeypatch.setattr(compaction, "_STALE_MAX", 0.3)
    compact(lake, tmp_path)
    put_node(lake, write_ledger(tmp_path / "grown", whole_story()[:28]), "East/it's")
    before = _rows(lake)
    assert compact(lake, tmp_path) == ()
    assert _opened(lake) == {("compact", ("East/it's",)), ("records", ())}
    assert _rows(lake) == before
    put_node(lake, write_ledger(tmp_path / "another", whole_story()[:28]), "another")
    answers = _answers(lake)
    assert compact(lake, tmp_path)
    assert _opened(lake) == {("compact", ())}
    assert _answers(lake) == answers
    monkeypatch.setattr(compaction, "_ROWS_FEW", 1)
    large = {each.file.path for each in lake.compacted()}
    for name in ("new-1", "new-2"):
        put_node(lake, write_ledger(tmp_path / name, whole_story()[:9]), name)
    assert compact(lake, tmp_path)
    assert {each.file.path for each in lake.compacted()} > large


def test_a_process_that_dies_before_any_write_changes_no_answer(lake: Lake, tmp_path: Path) -> None:
    """Neither the first time nor where copies take the place of others."""
    before = _rows(lake)
    for turn in range(2):
        deaths = 0
        for writes in range(100):
            store = DyingStore(lake.store.url)
            store.writes_left = writes
            try:
                compact(Lake(store), tmp_path)
                Lake(store).write_index()
            except Killed:
                deaths += 1
                assert _rows(lake) == before
            else:
                break
        assert deaths > 2
        assert _rows(lake) == before
        assert _opened(lake) == {("compact", ())}
        for name in ("new", "two"):
            key = f"{name}-{turn}"
            put_node(lake, write_ledger(tmp_path / key, whole_story()[:9]), key)
        before = _rows(lake)
    lake.sweep(1 << 62)
    assert _rows(lake) == before
    named = {each.file.path for each in lake.compacted()}
    assert {path for path in _paths(lake) if path.startswith(COMPACT)} > named
    assert len([path for path in _paths(lake) if path.endswith(".parquet")]) == len(named) + sum(
        file.path.endswith(".parquet") for head in lake.heads().values() for file in head.files
    )


def test_a_copy_that_is_replaced_while_it_is_read(lake: Lake, tmp_path: Path) -> None:
    compact(lake, tmp_path)
    with connect_lake(lake.store.url) as database:
        before = database.sql(QUESTIONS[0]).fetchall()
        lake.put_compacted([])
        assert database.sql(QUESTIONS[0]).fetchall() == before


def test_an_index_does_not_outlive_what_a_marker_says(lake: Lake, tmp_path: Path) -> None:
    """A marker of the same name may become that of a later generation."""
    lake.write_index()
    for size in (28, 30):
        head = put_node(lake, write_ledger(tmp_path / str(size), whole_story()[:size]), "East/it's")
    assert lake.heads()["East/it's"] == head


def test_command_line(lake: Lake) -> None:
    run = CliRunner().invoke
    done = run(cli, ["fleet", "compact", "--lake", lake.store.url, "-o", "csv"])
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (0, "markers in the index,4,")
    wrong = run(cli, ["fleet", "compact", "--lake", lake.store.url, "--older-than", "soon"])
    assert (wrong.exit_code, "is not a duration" in wrong.stderr) == (2, True)
