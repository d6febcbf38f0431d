"""One source into a lake: what is there afterwards, on this machine as in a bucket."""

from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest

import kubeledger
from kubeledger.fleet.lake import Lake
from kubeledger.fleet.sealed import unseal_ledger
from kubeledger.fleet.types import Head
from kubeledger.ingest.api import import_sources
from kubeledger.ingest.planning.bundle import ImportOptions
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.manifest import is_superseded
from tests.buckets import Place
from tests.fleet.places import MACHINE, head_of, log_lines, task, write_bundle


def fetched(lake: str, head: Head, room: str, directory: Path) -> Path:
    (file,) = [file for file in head.files if file.path.startswith(room)]
    path = directory / file.path.replace("/", "_")
    path.unlink(missing_ok=True)
    Lake.open(lake).store.download(file.path, path)
    return path


def rows(lake: str, head: Head, room: str, directory: Path, columns: str = "*") -> list[Any]:
    path = fetched(lake, head, room, directory)
    table = f"read_parquet('{path}', hive_partitioning = false)"
    with duckdb.connect() as connection:
        return connection.execute(f"SELECT {columns} FROM {table}").fetchall()


def imported(directory: Path, *sources: Path) -> Ledger:
    """What ``kubeledger import`` makes of sources, one after the other."""
    ledger = Ledger.open_or_create(directory)
    for source in sources:
        import_sources([str(source)], ledger, ImportOptions(year=2026))
    return ledger


class _Line(msgspec.Struct):
    kind: str
    seq: int
    ts_ns: int
    body: msgspec.Raw


def facts(ledger: Ledger) -> list[tuple[str, int, str]]:
    """Kind, time and body of all that a ledger tells, in the order of the lake's tables."""
    superseded = ledger.info("node-a").superseded
    lines = [
        msgspec.json.decode(raw.line, type=_Line)
        for raw in ledger.raw_lines("node-a")
        if not is_superseded(raw.seq, superseded)
    ]
    return [
        (line.kind, line.ts_ns, bytes(line.body).decode())
        for line in sorted(lines, key=lambda line: (line.kind, line.seq))
        if not line.kind.startswith("ledger.")
    ]


def test_a_source_becomes_tables_a_ledger_and_a_row(place: Place, tmp_path: Path) -> None:
    """The same records and verdicts as one import on one machine gives."""
    bundle = write_bundle(tmp_path / "node-a", labels=[("agentpool", "gpu")])
    lake = f"{place.url}/lake"
    head = head_of(task(lake, place.put("in/node-a", bundle)))
    ledger = imported(tmp_path / "direct", bundle)
    got = rows(lake, head, "records/", tmp_path, "kind, ts_ns, body")
    assert [row for row in got if not row[0].startswith("ledger.")] == facts(ledger)
    names, reported = (
        "kind, seq, pod, pod_uid, container, source_line",
        "kind, seq, verdict, missing",
    )
    with kubeledger.open(ledger.path) as opened:
        events = opened.sql(f"SELECT {names} FROM events ORDER BY kind, seq").fetchall()
        verdicts = opened.sql(f"SELECT {reported} FROM verdicts ORDER BY kind, seq").fetchall()
    assert rows(lake, head, "records/", tmp_path, names) == events
    assert rows(lake, head, "verdicts/", tmp_path, reported) == verdicts
    summary = head.summary
    assert (summary.node, summary.pool, summary.machine_id) == ("node-a", "gpu", MACHINE)
    assert (summary.records, summary.decisions + summary.inferred) == (len(got), len(verdicts))
    assert summary.kubelet_versions == ("1.20.2",)
    assert summary.lines >= log_lines().count(b"\n")
    unseal_ledger(fetched(lake, head, "ledgers/", tmp_path), tmp_path / "unsealed")
    unsealed = Ledger.open(tmp_path / "unsealed")
    assert facts(unsealed) == facts(ledger)
    assert summary.chain == unsealed.info("node-a").segments[-1].head
    (row,) = rows(lake, head, "nodes/", tmp_path, "node, records, chain, kubelet_versions")
    assert row == ("node-a", summary.records, summary.chain, ["1.20.2"])
    assert Lake.open(lake).heads() == {"node-a": head}


def test_a_source_that_is_there_changes_nothing(place: Place, tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path / "node-a")
    lake = f"{place.url}/lake"
    first = head_of(task(lake, place.put("in/node-a", bundle)))
    before = Lake.open(lake).store.list()
    for url in (place.put("in/node-a", bundle), place.put("copy/node-a", bundle)):
        again = task(lake, url)
        assert (head_of(again), again.changed) == (first, ())
    assert Lake.open(lake).store.list() == before


def test_a_log_that_grew_adds_what_is_new(place: Place, tmp_path: Path) -> None:
    """And facts of both are one fact; what took the old generation's place is all there is."""
    lake = f"{place.url}/lake"
    log = log_lines()
    cut = log.index(b"\n", len(log) // 2) + 1
    part = write_bundle(tmp_path / "part" / "node-a", log=log[:cut])
    whole = write_bundle(tmp_path / "whole" / "node-a")
    first = head_of(task(lake, place.put("in/node-a", part)))
    second = task(lake, place.put("in/node-a", whole))
    head = head_of(second)
    assert (head.generation, second.changed) == (2, ("node-a",))
    assert [seen.url for seen in head.sources] == [f"{place.url}/in/node-a"] * 2
    unseal_ledger(fetched(lake, head, "ledgers/", tmp_path), tmp_path / "unsealed")
    assert facts(Ledger.open(tmp_path / "unsealed")) == facts(
        imported(tmp_path / "both", part, whole)
    )
    stored = {each.path for each in Lake.open(lake).store.list()}
    kept = {file.path for file in head.files}  # a file of which the rest changes nothing is kept
    assert not ({file.path for file in first.files} - kept) & stored
    assert kept <= stored


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path / "node-a")
    heads = [head_of(task(str(tmp_path / lake), str(bundle))) for lake in ("x", "y")]
    left, right = ([file for file in head.files if "nodes/" not in file.path] for head in heads)
    assert left == right
    assert heads[0].id == heads[1].id


def test_other_engines_read_the_tables_as_they_are(tmp_path: Path) -> None:
    """All files of a table have one schema, in which anything may be NULL; keys are told twice."""
    dataset = pytest.importorskip("pyarrow.dataset")
    lake = str(tmp_path / "lake")
    for name, last in (("x", 700), ("y", 1200)):
        node = f"node-{name}"
        bundle = write_bundle(tmp_path / name, node=node, log=log_lines(0, last, node))
        head_of(task(lake, str(bundle), cluster="East/1"))
    for room in ("records", "verdicts", "nodes"):
        files = sorted((tmp_path / "lake" / room).rglob("*.parquet"))
        schemas = [dataset.dataset(file).schema for file in files]
        assert len(schemas) == 2
        assert schemas[0] == schemas[1]
        assert all(field.nullable for field in schemas[0])
    table = dataset.dataset(f"{lake}/records", partitioning="hive").to_table()
    found = set(zip(*(table[name].to_pylist() for name in ("node", "date")), strict=True))
    assert found == {(f"East/1/node-{name}", "2026-11-21") for name in ("x", "y")}


def test_a_node_is_called_as_it_calls_itself(tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path / "in", node="node-x")
    for number, cluster in enumerate((None, "east")):
        head = head_of(task(str(tmp_path / f"lake-{number}"), str(bundle), cluster=cluster))
        assert head.node == ("east/node-x" if cluster else "node-x")
