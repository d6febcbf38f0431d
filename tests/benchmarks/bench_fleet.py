"""A fleet of simulated nodes on each engine: time, processor time, bytes, and every shipped query.

    python -m tests.benchmarks.bench_fleet [--nodes N] [--engine local|ray]... [--work DIR]

The nodes are those of ``fleet_nodes``. What counts are the ratios: the share of the workers' time
that is no node's (starting workers, waiting, storage of the run itself), and what a node costs.
"""

import argparse
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

from kubeledger.fleet.compaction import compact
from kubeledger.fleet.engines.choose import engine_of
from kubeledger.fleet.identity import rules_version
from kubeledger.fleet.lake import Lake
from kubeledger.fleet.query import connect_lake, fleet_queries
from kubeledger.fleet.run import plan_import, run_plan
from kubeledger.fleet.sources import stamp_of
from kubeledger.fleet.task import node_task
from kubeledger.fleet.types import NodeResult, NodeSpec
from tests.benchmarks.fleet_nodes import write_fleet

_WORKERS = 2


def import_all(sources: Iterable[Path], lake: Path, engine: str) -> tuple[list[NodeResult], float]:
    """Import on an engine; results, and seconds by the clock."""
    began_s = time.monotonic()
    chosen = engine_of(engine, workers=_WORKERS)
    place = Lake.open_or_create(str(lake))
    with chosen.scratch() as scratch:
        settings = NodeSpec(lake=str(lake), rules=rules_version(), scratch=scratch)
        plan = plan_import(place, [str(path) for path in sources], settings, stamp_of)
        results = list(run_plan(place, plan, chosen, node_task)) if plan.specs else []
    return results, time.monotonic() - began_s


def print_import(engine: str, results: list[NodeResult], seconds: float) -> None:
    """What an import took, and which share of it no task did."""
    done = [result for result in results if result.failure is None]
    tasks_s = sum(result.wall_ms for result in results) / 1000
    cpu_s = sum(result.cpu_ms for result in results) / 1000
    print(
        f"{engine:<6} {len(done)} imported, {len(results) - len(done)} failed: {seconds:.1f} s,"
        f" {cpu_s:.1f} s of processor time in tasks ({cpu_s / max(len(done), 1):.2f} s a node);"
        f" {1 - tasks_s / (_WORKERS * seconds):.1%} of the workers' time outside of tasks"
    )


def print_lake(lake: Lake) -> None:
    """Bytes a node by kind of file, and where processor time went."""
    nodes = [head.summary for head in lake.heads().values()]
    sizes: Counter[str] = Counter()
    for stored in lake.store.list():
        sizes[stored.path.partition("/")[0]] += stored.size_bytes
    print("bytes a node:", ", ".join(f"{n} {size / len(nodes):,.0f}" for n, size in sizes.items()))
    for name in ("records", "decisions", "impossible", "source_bytes"):
        print(f"{name} a node: {sum(getattr(node, name) for node in nodes) / len(nodes):,.1f}")
    for name in ("import_cpu_ms", "verify_cpu_ms", "write_cpu_ms"):
        print(f"{name} a node: {sum(getattr(node, name) for node in nodes) / len(nodes):,.0f}")


def ask_all(url: str) -> dict[str, tuple[float, int]]:
    """Shipped query -> seconds as a first question to a new connection, and rows."""
    found = {}
    for name, query in fleet_queries().items():
        began_s = time.monotonic()
        with connect_lake(url) as database:
            rows = len(database.sql(query.sql, query.bind({})).fetchall())
        found[name] = time.monotonic() - began_s, rows
    return found


def bench(directory: Path, nodes: int, engines: list[str]) -> None:
    began_s = time.monotonic()
    sources = write_fleet(directory / "nodes", nodes)
    print(f"{nodes} nodes made in {time.monotonic() - began_s:.0f} s", flush=True)
    files = defaultdict(set)
    for engine in engines:
        place = directory / f"lake-{engine}-{nodes}"
        results, seconds = import_all(sources, place, engine)
        print_import(engine, results, seconds)
        heads = Lake.open(str(place)).heads()
        files[engine] = {file.path for head in heads.values() for file in head.files}
        results, seconds = import_all(sources, place, engine)
        print(f"{engine:<6} again: {len(results)} tried again, {seconds:.1f} s", flush=True)
    print("same files on all engines:", len({frozenset(each) for each in files.values()}) == 1)
    lake = Lake.open(str(directory / f"lake-{engines[0]}-{nodes}"))
    print_lake(lake)
    small = ask_all(lake.store.url)
    with tempfile.TemporaryDirectory() as scratch:
        began_s = time.monotonic()
        compact(lake, Path(scratch))
        lake.write_index()
        print(f"compacted in {time.monotonic() - began_s:.1f} s")
    print_lake(lake)
    large = ask_all(lake.store.url)
    for name, (seconds, rows) in small.items():
        print(f"{name:<20}{rows:>8} rows {seconds:8.2f} s, compacted {large[name][0]:6.2f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=40)
    parser.add_argument("--engine", action="append", choices=("local", "ray"))
    parser.add_argument("--work", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kubeledger-bench-") as temporary:
        bench(given.work or Path(temporary), given.nodes, given.engine or ["local", "ray"])
