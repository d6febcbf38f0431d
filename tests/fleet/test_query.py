"""SQL over a lake: every view is that of the single ledgers together, and stays so."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pytest
from click.testing import CliRunner, Result

from kubeledger.analyze.sql.api import Queryable, connect
from kubeledger.analyze.sql.views import Needs, load_views
from kubeledger.cli.main import cli
from kubeledger.fleet.compaction import compact, files_to_read
from kubeledger.fleet.lake import Lake
from kubeledger.fleet.query import LakeTables, connect_lake
from kubeledger.fleet.types import Failure, Head
from kubeledger.model.errors import BadQuestionError, DamagedLedgerError, LedgerUnavailableError
from kubeledger.remote.store import StorageError, Store
from tests.analyze.sql.fixture_ledger import manager_story, whole_story, write_ledger
from tests.buckets import Place
from tests.fleet.places import put_node
from tests.recordings import import_recording

EVERYTHING = "SELECT 1 FROM evidence, verdicts LIMIT 0"
"""A question that needs all there is: a wider one later would load everything again."""


class Fleet(NamedTuple):
    lake: Lake
    ledgers: dict[str, Path]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """Two written nodes and a recorded one; the keys are not the names."""
    place = tmp_path_factory.mktemp("fleet")
    ledgers = {
        "east/node-a": write_ledger(place / "story", whole_story()),
        "managers": write_ledger(place / "managers", manager_story()),
        "oom'd": import_recording("node-e-oom", place / "recorded")[0].path,
    }
    lake = Lake.open_or_create(str(place / "lake"))
    for number, (key, ledger) in enumerate(ledgers.items()):
        put_node(lake, ledger, key, pool=f"pool-{number % 2}")
    return Fleet(lake, ledgers)


@pytest.fixture(scope="module")
def asked(fleet: Fleet) -> Iterator[Queryable]:
    with connect_lake(fleet.lake.store.url) as opened:
        opened.sql(EVERYTHING)
        yield opened


def rows(database: Queryable, query: str, **params: object) -> list[tuple[Any, ...]]:
    return sorted(database.sql(query, params or None).fetchall(), key=repr)


@pytest.mark.slow
def test_every_view_is_that_of_the_ledgers(fleet: Fleet, asked: Queryable) -> None:
    """Each row, each column, each type; only the node is called by its key."""
    for key, ledger in fleet.ledgers.items():
        with connect(ledger) as alone:
            alone.sql(EVERYTHING)
            for view in load_views():
                query = f"SELECT * EXCLUDE (node) FROM {view}"
                found = asked.sql(query + " WHERE node = $node", {"node": key})
                assert found.types == alone.sql(query).types, view
                assert sorted(found.fetchall(), key=repr) == rows(alone, query), (key, view)


def test_nodes_and_failures(fleet: Fleet, asked: Queryable) -> None:
    assert rows(asked, "SELECT node, pool, records FROM nodes") == rows(
        asked,
        "SELECT node, 'pool-' || CASE node WHEN 'managers' THEN 1 ELSE 0 END, count(*)::BIGINT"
        " FROM records GROUP BY node",
    )
    failed = Failure(source="s3://b/x.tar", kind="input", reason="cut", ts_ns=1_500)
    fleet.lake.fail(failed)
    query = "SELECT source, epoch_ns(ts), kind, reason, advice, attempts FROM failures"
    assert rows(asked, query) == [("s3://b/x.tar", 1_000, "input", "cut", None, 1)]
    fleet.lake.forget_failure(failed.source)
    assert rows(asked, query) == []


def test_only_what_markers_name_is_read(fleet: Fleet, asked: Queryable) -> None:
    """Neither files of an import that died, nor any other file, nor a setting."""
    (named,) = Path(fleet.lake.store.url).glob("records/*/node=managers/*.parquet")
    stray = named.with_name("0" * 32 + ".parquet")
    stray.write_bytes(named.read_bytes())
    try:
        with connect_lake(fleet.lake.store.url) as database:
            query = "SELECT count(*) FROM records"
            assert rows(database, query) == rows(asked, query)
            for table in (f"'{stray}'", f"'{fleet.lake.store.url}/lake.json'"):
                with pytest.raises(BadQuestionError):
                    database.sql(f"SELECT * FROM {table}")
    finally:
        stray.unlink()


class _Overtaken(LakeTables):
    """Tables that are out of date as soon as they are made, for once."""

    overtake: Callable[[], Head] | None = None

    def make(self, connection: duckdb.DuckDBPyConnection, needs: Needs, scratch: Path) -> list[str]:
        files = super().make(connection, needs, scratch)
        if self.overtake is not None:
            self.overtake()
            self.overtake = None
        return files


@pytest.mark.parametrize("node", ["first", "second"])
def test_files_are_removed_while_they_are_read(place: Place, tmp_path: Path, node: str) -> None:
    """A new generation took their place: the query looks once more, and runs again."""
    lake = Lake.open_or_create(place.url)
    for key in ("first", "second"):
        put_node(lake, write_ledger(tmp_path / key, whole_story()[:10]), key)
    longer = write_ledger(tmp_path / "longer", whole_story()[:20])
    tables = _Overtaken(place.url)
    tables.overtake = lambda: put_node(lake, longer, node)
    counts = {"first": 10, "second": 10, node: 20}
    with Queryable(tables) as database:
        query = "SELECT node, count(*) FROM events GROUP BY node"
        assert rows(database, query) == sorted(counts.items())


def test_a_file_that_is_lost_is_told(place: Place, tmp_path: Path) -> None:
    """Nothing took its place, so an answer without it would not be true."""
    lake = Lake.open_or_create(place.url)
    for key in ("m", "n"):
        head = put_node(lake, write_ledger(tmp_path / key, whole_story()[:10]), key)
    lake.store.delete(file.path for file in head.files)
    with (
        connect_lake(place.url) as database,
        pytest.raises(DamagedLedgerError, match=rf"{head.id}\.parquet: .* is missing or damaged"),
    ):
        rows(database, "SELECT * FROM events")


@pytest.mark.parametrize("how", ["cut off", "overwritten", "flipped"])
def test_a_file_that_is_damaged_is_told(place: Place, tmp_path: Path, how: str) -> None:
    """By its name, also where DuckDB does not say which one it was; and only where it is so."""
    lake = Lake.open_or_create(place.url)
    for key in ("m", "n"):
        head = put_node(lake, write_ledger(tmp_path / key, whole_story()[:10]), key)
    with connect_lake(place.url) as database, pytest.raises(BadQuestionError, match=r"x\.parquet"):
        rows(database, "SELECT error('x.parquet') FROM events")
    (path,) = [file.path for file in head.files if file.path.startswith("records/")]
    content = lake.store.get(path)
    assert content is not None
    half = len(content) // 2
    damaged = content[:half] if how == "cut off" else content[:-600] + bytes(400) + content[-200:]
    if how == "flipped":
        damaged = content[:half] + bytes([content[half] ^ 1]) + content[half + 1 :]
    lake.store.replace(path, damaged)
    with (
        connect_lake(place.url) as database,
        pytest.raises(DamagedLedgerError, match=rf"{path}: .* damaged .*fleet repair"),
    ):
        rows(database, "SELECT * FROM events")


def test_storage_fails(bucket: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That is no fault of the question; nothing of how it was found out is shown."""
    lake = Lake.open_or_create(bucket.url)
    put_node(lake, write_ledger(tmp_path / "a", whole_story()[:10]), "n")

    def fails(store: Store, path: str, start: int, length: int) -> bytes:
        raise StorageError("storage failed: 503", file=store.address(path))

    monkeypatch.setattr(Store, "read_range", fails)
    with (
        connect_lake(bucket.url) as database,
        pytest.raises(LedgerUnavailableError, match=r"^s3://.*: storage failed: 503"),
    ):
        rows(database, "SELECT * FROM events")


def test_compacted_files_are_a_copy(bucket: Place, tmp_path: Path) -> None:
    """The answers stay the same, also where a node moves on, or the copy is lost."""
    lake = Lake.open_or_create(bucket.url)
    ledgers = [write_ledger(tmp_path / key, whole_story()[:n]) for n, key in ((9, "a"), (12, "b"))]
    for number in range(4):
        put_node(lake, ledgers[0], f"node-{number}")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    query = "SELECT node, count(*), count(DISTINCT seq), max(seq) FROM records GROUP BY node"

    def answers(*, opened: int, last: int) -> None:
        heads = lake.heads().values()
        assert len(files_to_read(lake, heads, "records")) == opened
        with connect_lake(bucket.url) as database:
            expected = [(f"node-{n}", size, size, size) for n, size in enumerate([9, 9, 9, last])]
            assert rows(database, query) == expected
            (count,) = rows(database, "SELECT count(*), count(DISTINCT (node, seq)) FROM verdicts")
            judged = sum(h.summary.decisions + h.summary.inferred for h in heads)
            assert count[0] == count[1] == judged > 0

    answers(opened=4, last=9)
    records, verdicts = compact(lake, scratch)
    assert [each.file.path.split("/")[1] for each in (records, verdicts)] == ["records", "verdicts"]
    assert compact(lake, scratch) == ()
    answers(opened=1, last=9)
    put_node(lake, ledgers[1], "node-3")
    answers(opened=2, last=12)
    lake.store.delete([records.file.path])
    answers(opened=4, last=12)
    compact(lake, scratch)
    answers(opened=1, last=12)
    lake.sweep(1 << 62)
    answers(opened=1, last=12)
    assert lake.store.get(verdicts.file.path) is None, "it held a node that moved on"


def test_other_engines(fleet: Fleet, tmp_path: Path) -> None:
    """They read the tree as Hive has it, or, after a crash and before a sweep, the named files."""
    arrow = pytest.importorskip("pyarrow.dataset")
    polars = pytest.importorskip("polars")
    copy = tmp_path / "lake"
    shutil.copytree(fleet.lake.store.url, copy)
    lake = Lake.open(str(copy))
    by_kind = "SELECT node, kind, count(*) FROM records GROUP BY node, kind"
    with connect_lake(lake.store.url) as database:
        expected = rows(database, by_kind)
        named = [url for (url,) in rows(database, "SELECT url FROM files WHERE room = 'records'")]

    def counted(table: Any) -> list[tuple[Any, ...]]:  # noqa: ANN401 - pyarrow has no types
        found = table.group_by(["node", "kind"]).aggregate([([], "count_all")]).to_pylist()
        return sorted(((row["node"], row["kind"], row["count_all"]) for row in found), key=repr)

    def tree() -> Any:  # noqa: ANN401
        return arrow.dataset(copy / "records", partitioning="hive").to_table()

    assert counted(tree()) == expected
    lazy = polars.scan_parquet(f"{copy}/records/**/*.parquet", hive_partitioning=False)
    frame = lazy.group_by("node", "kind").len().collect()
    assert sorted(frame.iter_rows(), key=repr) == expected
    died = Path(named[0]).with_name(f"{'0' * 32}.parquet")
    shutil.copyfile(named[0], died)
    assert counted(tree()) != expected, "what a process that died left is seen by who lists files"
    assert counted(arrow.dataset(named).to_table()) == expected
    lake.sweep(1 << 62)
    assert counted(tree()) == expected


def test_an_empty_lake(tmp_path: Path) -> None:
    lake = Lake.open_or_create(str(tmp_path / "lake"))
    with connect_lake(lake.store.url) as database:
        database.sql(EVERYTHING)
        for view in load_views("kubeledger.fleet"):
            assert rows(database, f"SELECT * FROM {view}") == [], view


def test_command_line(fleet: Fleet) -> None:
    """A query, a shipped one with a parameter, the list; what is wrong is told."""
    lake = ["--lake", fleet.lake.store.url]

    def run(*args: str) -> Result:
        return CliRunner().invoke(cli, ["fleet", "sql", *args])

    assert run(*lake, "SELECT count(*) AS n FROM nodes", "-o", "csv").stdout == "n\n3\n"
    found = run(*lake, "--run", "devices", "--param", "by=node", "-o", "jsonl")
    assert '"node": "east/node-a", "resource": "example.com/gpu"' in found.stdout
    assert "preemption_chains" in run("--list").stdout
    for wrong, code, words in (
        (["SELECT 1"], 2, "--lake"),
        (["--lake", "/nowhere/lake", "SELECT 1"], 2, "there is no lake"),
        ([*lake, "--run", "nope"], 2, "--list"),
        ([*lake, "--run", "devices", "--param", "by=x"], 2, "by is pool or node"),
        ([*lake, "COPY nodes TO 'x'"], 2, "only queries that read"),
    ):
        result = run(*wrong)
        assert (result.exit_code, words in result.stderr) == (code, True), result.stderr
