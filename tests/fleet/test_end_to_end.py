"""A fleet as a whole: a Ray cluster that loses a machine, an S3 server; and on one machine.

All sources and both lakes are real; what is compared is every path, and every byte of Parquet.
"""

import logging
import re
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from kubeledger.fleet.engines.choose import engine_of
from kubeledger.fleet.engines.engine import Engine
from kubeledger.fleet.identity import rules_version
from kubeledger.fleet.lake import Lake
from kubeledger.fleet.layout import ROW_ROOMS
from kubeledger.fleet.query import connect_lake
from kubeledger.fleet.run import Plan, plan_import, run_plan
from kubeledger.fleet.sources import expand, stamp_of
from kubeledger.fleet.types import NodeResult, NodeSpec
from tests.buckets import Place
from tests.cli.nodes import run
from tests.fleet.places import log_lines, write_bundle
from tests.fleet.tasks import node_task_or_death

pytestmark = [
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed"),
    pytest.mark.xdist_group("ray"),
]

NODES = 4
_REQUEST = re.compile(r"(GET|PUT|HEAD|DELETE|POST) (\S+) HTTP")


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Bundles of some nodes, one that is broken, and one that kills whoever reads it."""
    place = tmp_path_factory.mktemp("sources")
    for number in range(NODES):
        node = f"node-{number}"
        log = log_lines(last=500 + 40 * number, node=node)
        write_bundle(place / node, node=node, machine=f"{number:032x}", log=log)
    write_bundle(place / "poison", node="poison")
    (place / "broken.tar.gz").write_bytes(b"\x1f\x8b\x08 and no more")
    return place


def _plan(url: str, sources: str) -> tuple[Lake, Plan]:
    lake = Lake.open_or_create(url)
    settings = NodeSpec(lake=url, rules=rules_version(), year=2026, started_ns=7)
    return lake, plan_import(lake, expand([sources]), settings, stamp_of)


def _results(url: str, sources: str, engine: Engine) -> Iterator[NodeResult]:
    lake, plan = _plan(url, sources)
    with closing(run_plan(lake, plan, engine, node_task_or_death, attempts=2)) as results:
        yield from results


def _files(lake: Lake) -> dict[str, str]:
    """Path -> digest of what the heads name.

    Bytes of rows of nodes are left out, which hold costs, and of ledgers, which hold the times of
    source files; their paths hold the digests of the sources and the records.
    """
    files = [file for head in lake.heads().values() for file in head.files]
    rooms = tuple(f"{room}/" for room in ROW_ROOMS)
    return {file.path: file.digest if file.path.startswith(rooms) else "" for file in files}


@contextmanager
def _requests() -> Iterator[set[tuple[str, str]]]:
    """What the S3 server is asked: method, and the names in the query."""
    found: set[tuple[str, str]] = set()

    class Seen(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            match = _REQUEST.search(record.getMessage())
            if match is not None:
                query = match[2].partition("?")[2]
                found.add((match[1], "&".join(sorted(re.findall(r"([\w-]+)=", query)))))

    logger, handler = logging.getLogger("werkzeug"), Seen()
    level, propagate = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield found
    finally:
        logger.setLevel(level)
        logger.propagate = propagate
        logger.removeHandler(handler)


@pytest.mark.slow
def test_a_cluster_that_loses_a_machine_makes_the_lake_of_one_machine(
    bucket: Place,
    cluster: Any,  # noqa: ANN401 # Ray's
    sources: Path,
    tmp_path: Path,
) -> None:
    """Two imports at once into a bucket, by both engines; and one here: nothing lost or doubled."""
    for path in sources.iterdir():
        bucket.put(f"in/{path.name}", path)
    remote, here = f"{bucket.url}/lake", str(tmp_path / "lake")
    others: list[NodeResult] = []

    def other() -> None:
        others.extend(_results(remote, f"{bucket.url}/in/*", engine_of("local", workers=1)))

    third = cluster.add_node(num_cpus=1, object_store_memory=80_000_000)
    thread = threading.Thread(target=other)
    with _requests() as requests:
        thread.start()
        results: list[NodeResult] = []
        for result in _results(
            remote, f"{bucket.url}/in/*", engine_of("ray", address=cluster.address)
        ):
            if not results:
                cluster.remove_node(third, allow_graceful=False)
            results.append(result)
        thread.join()
    for ended in (results, others):
        failed = {
            result.spec.subject.rpartition("/")[2]: result for result in ended if result.failure
        }
        kinds = {name: result.failure and result.failure.kind for name, result in failed.items()}
        assert kinds == {"broken.tar.gz": "input", "poison": "lost"}
    changed = [node for result in (*results, *others) for node in result.changed]
    assert sorted(changed) == [f"node-{number}" for number in range(NODES)]

    alone = list(_results(here, f"{sources}/*", engine_of("local", workers=2)))
    assert len(alone) == NODES + 2
    lakes = Lake.open(remote), Lake.open(here)
    assert _files(lakes[0]) == _files(lakes[1])
    for lake in lakes:
        assert len(lake.failures()) == 2
        named = {file.path for head in lake.heads().values() for file in head.files}
        rooms = (*ROW_ROOMS, "ledgers", "nodes")
        assert {each.path for room in rooms for each in lake.store.list(room)} == named
        for file in (file for head in lake.heads().values() for file in head.files):
            assert lake.store.stat(file.path) is not None
    question = "SELECT node, kind, seq, body FROM records ORDER BY ALL"
    answers = []
    for lake in lakes:
        with connect_lake(lake.store.url) as database:
            answers.append(database.sql(question).fetchall())
    assert answers[0] == answers[1]
    assert len({row[0] for row in answers[0]}) == NODES

    _, again = _plan(remote, f"{bucket.url}/in/*")
    assert sorted(spec.subject.rpartition("/")[2] for spec in again.specs) == [
        "broken.tar.gz",
        "poison",
    ]
    # docs/fleet.md lists the permissions for these, and for no others.
    assert requests <= {
        ("GET", ""),
        ("GET", "list-type&prefix"),
        ("GET", "delimiter&list-type&prefix"),
        ("HEAD", ""),
        ("PUT", ""),
        ("DELETE", ""),
    }


@pytest.mark.nightly
def test_pages_and_whatif_are_the_same_on_a_cluster(
    cluster: Any,  # noqa: ANN401 # Ray's
    recorded_lake: Path,
    tmp_path: Path,
) -> None:
    """Byte by byte: workers elsewhere draw a node's page, and replay it under other settings."""
    reported = []
    for engine in ("local", f"ray={cluster.address}"):
        place = tmp_path / engine.partition("=")[0]
        where = ("--lake", str(recorded_lake), "--engine", engine, "--workers", "2")
        pages = ("--out", str(place / "fleet.html"), "--pages", str(place / "nodes"))
        place.mkdir()
        drawn = run("fleet", "report", *where, *pages)
        asked = run("fleet", "whatif", *where, "--set", "maxPods=5", "-o", "csv")
        assert (drawn.exit_code, asked.exit_code) == (0, 0), drawn.output + asked.output
        files = {path.name: path.read_bytes() for path in place.rglob("*.html")}
        reported.append((files, sorted(asked.stdout.splitlines())))
    assert reported[0] == reported[1]
    assert sorted(reported[0][0]) == ["fleet.html", "node-a.html", "node-z.html"]
    assert len(reported[0][1]) == 3
