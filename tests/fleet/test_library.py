"""The shipped queries over a lake: each answer is what single ledgers tell, added up in Python."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from kubeledger.analyze.sql.api import Queryable, connect
from kubeledger.fleet.lake import Lake
from kubeledger.fleet.query import connect_lake, fleet_queries
from kubeledger.model.bodies.eviction import PodPreempted
from kubeledger.model.bodies.images import ImageDeleted, ImagesDetected, ListedImage
from kubeledger.model.bodies.ledger import LinesNotUnderstood
from kubeledger.model.bodies.lifecycle import KubernetesEvent
from kubeledger.model.bodies.node import KubeletExited, KubeletStarted, Setting, SettingsObserved
from kubeledger.model.errors import BadQuestionError
from tests.analyze.sql.fixture_ledger import Story, whole_story, write_ledger
from tests.fleet.places import put_node
from tests.recordings import import_recording

LIBRARY = fleet_queries()
DOCS = Path(__file__).parents[2] / "docs" / "fleet.md"
POOLS = {"east/a": "old", "b": "old", "c": "new", "evicted": "new"}

Ask = Callable[[str], list[dict[str, Any]]]
"""Rows of a query over the ledger of one node."""


def _story(node: str) -> Story:
    """What the whole story lacks: chains, circles, pulls, restarts, and settings of its own."""
    story = Story(node)
    story.records.extend(whole_story(node))
    for victim, preemptor in (("low", "mid"), ("mid", "high"), ("other", "high")):
        story.add(
            PodPreempted(
                victim_namespace="ns",
                victim_pod=victim,
                victim_uid=f"u-{victim}",
                preemptor_namespace="ns",
                preemptor_pod=preemptor,
                preemptor_uid=f"u-{preemptor}",
                insufficient=(),
                evicted=True,
            )
        )
    back = ListedImage(image_id="sha256:bb", size_bytes=700, new=True)
    for _ in range(2):
        story.add(ImagesDetected(images=(back,)))
        story.add(ImageDeleted(image_id="sha256:bb", size_bytes=700))
    for image in ("app:1", "app:1", "tool:2"):
        story.add(
            KubernetesEvent(
                object_kind="Pod",
                namespace="ns",
                pod="p",
                pod_uid=None,
                type="Normal",
                reason="Pulled",
                message=f'Successfully pulled image "{image}" in 2s',
            )
        )
    story.add(KubeletExited(pid=7, reason="fatal", message="out of luck"))
    story.add(KubeletStarted(pid=8, kubelet_version="1.37.0", version_source="log"))
    story.add(SettingsObserved(settings={"--v": Setting(value="9", source="flag")}))
    story.add(LinesNotUnderstood(file="kubelet.log", shape="x.go: odd", count=3, lines=(1, 2, 3)))
    return story


@pytest.fixture(scope="module")
def ledgers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Key of each node -> its ledger: three written ones, and a recorded one."""
    place = tmp_path_factory.mktemp("ledgers")
    return {
        "east/a": write_ledger(place / "a", _story("a").records),
        "b": write_ledger(place / "b", whole_story("b")),
        "c": write_ledger(place / "c", _story("c").records),
        "evicted": import_recording("node-e-evictions", place / "evicted")[0].path,
    }


@pytest.fixture(scope="module")
def lake(ledgers: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Queryable]:
    made = Lake.open_or_create(str(tmp_path_factory.mktemp("lake")))
    for key, ledger in ledgers.items():
        put_node(made, ledger, key, pool=POOLS[key])
    with connect_lake(made.store.url) as opened:
        opened.sql("SELECT 1 FROM evidence, verdicts LIMIT 0")
        yield opened


@pytest.fixture(scope="module")
def ask(ledgers: dict[str, Path]) -> Iterator[Ask]:
    """Rows over the single ledgers one after the other; ``node`` and ``pool`` as in the lake."""
    opened = {key: connect(path) for key, path in ledgers.items()}
    for database in opened.values():
        database.sql("SELECT 1 FROM evidence, verdicts LIMIT 0")
    yield lambda query: [
        {**row, "node": key, "pool": POOLS[key]}
        for key, database in opened.items()
        for row in database.sql(query).dicts()
    ]
    for database in opened.values():
        database.close()


def answer(lake: Queryable, name: str, *columns: str, **params: str) -> list[tuple[Any, ...]]:
    query = LIBRARY[name]
    rows = lake.sql(query.sql, query.bind(params)).dicts()
    assert rows, "the lake holds no answer to this question"
    return sorted((tuple(row[column] for column in columns) for row in rows), key=repr)


def counted(counts: Counter[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(((*key, count) for key, count in counts.items()), key=repr)


@pytest.mark.parametrize("name", LIBRARY)
def test_header(name: str) -> None:
    """A question, a description, and exactly the parameters that the SQL uses."""
    query = LIBRARY[name]
    assert query.title.endswith("?")
    assert query.doc
    used = set(re.findall(r"\$(\w+)", query.sql))
    assert used == {parameter.name for parameter in query.parameters}
    assert f"| `{name}` | {query.title} |" in DOCS.read_text("utf-8")


@pytest.mark.parametrize("by", ["version", "pool", "node"])
def test_impossible(lake: Queryable, ask: Ask, by: str) -> None:
    """A verdict belongs to the version that ran when it was decided."""
    starts: dict[str, list[Any]] = defaultdict(list)
    for start in ask("SELECT ts, kubelet_version FROM kubelet_starts ORDER BY ts"):
        starts[start["node"]].append((start["ts"], start["kubelet_version"]))
    found: Counter[tuple[Any, ...]] = Counter()
    for row in ask("SELECT * FROM verdicts WHERE verdict = 'impossible'"):
        before = [version for ts, version in starts[row["node"]] if ts <= row["ts"]]
        row["version"] = (before or [starts[row["node"]][0][1]])[-1]
        found[row[by], row["kind"]] += 1
    assert counted(found) == answer(lake, "impossible", "group", "kind", "impossible", by=by)


def test_flapping_probes(lake: Queryable, ask: Ask) -> None:
    probes: dict[tuple[Any, ...], list[str]] = defaultdict(list)
    for row in ask("SELECT * FROM probe_transitions"):
        key = (row["pool"], row["container"], row["probe_type"], row["node"], row["pod"])
        probes[key].append(row["to_result"])
    changes: Counter[tuple[Any, ...]] = Counter()
    for key, results in probes.items():
        if len(results) >= 3 and len(set(results)) > 1:
            changes[key[:3]] += len(results)
    expected = counted(changes)
    assert expected == answer(lake, "flapping_probes", "pool", "container", "probe", "changes")


def test_image_circles_and_pulls(lake: Queryable, ask: Ask) -> None:
    """An image came back if it is new again before it is deleted once more."""
    deleted: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for row in ask("SELECT image_id, ts FROM image_gc_deletions ORDER BY seq"):
        deleted[row["node"], row["image_id"]].append(row["ts"])
    back = ask("SELECT image_id, ts FROM images_detected WHERE new")
    circles: Counter[tuple[Any, ...]] = Counter()
    away: list[float] = []
    for (node, image), times in deleted.items():
        for time, next_time in zip(times, [*times[1:], None], strict=True):
            found = [
                row["ts"]
                for row in back
                if (row["node"], row["image_id"]) == (node, image)
                and row["ts"] > time
                and (next_time is None or row["ts"] < next_time)
            ]
            if found:
                circles[image,] += 1
                away.append((min(found) - time).total_seconds() / 60)
    columns = ("image_id", "circles", "median_minutes_away")
    assert answer(lake, "image_circles", *columns) == [
        ("sha256:bb", circles["sha256:bb",], round(median(away), 1))
    ]
    assert answer(lake, "image_pulls", "image", "pulls", "nodes") == [("app:1", 4, 2)]


def test_preemptions(lake: Queryable, ask: Ask) -> None:
    """Who preempted whom, and which preemptors were preempted then."""
    victims: Counter[tuple[Any, ...]] = Counter()
    for row in ask("SELECT * FROM preemptions"):
        named = row["preemptor_pod"] is not None
        name = f"{row['preemptor_namespace']}/{row['preemptor_pod']}" if named else None
        victims[row["pool"], name] += 1
    assert counted(victims) == answer(lake, "preemptors", "pool", "preemptor", "victims")
    assert answer(lake, "preemption_chains", "node", "preemptions", "chain") == [
        ("c", 2, "ns/high > ns/mid > ns/low"),
        ("east/a", 2, "ns/high > ns/mid > ns/low"),
    ]


@pytest.mark.parametrize("by", ["pool", "node"])
def test_devices(lake: Queryable, ask: Ask, by: str) -> None:
    """Held and stranded devices by the allocations that were not released."""
    held: dict[tuple[Any, ...], list[bool]] = defaultdict(list)
    for row in ask("SELECT * FROM device_allocations WHERE released_ts IS NULL"):
        for device in row["device_ids"]:
            key = (row[by], row["resource"], row["node"], device)
            held[key].append(row["pod_terminated_ts"] is not None)
    listed: dict[tuple[Any, ...], set[str]] = {}
    for row in ask("SELECT * FROM device_reports WHERE device_ids IS NOT NULL ORDER BY seq"):
        listed[row[by], row["resource"], row["node"]] = set(row["device_ids"])
    sums: dict[tuple[Any, ...], Counter[str]] = defaultdict(Counter)
    for (group, resource, _, _), ended in held.items():
        sums[group, resource]["held"] += 1
        sums[group, resource]["stranded"] += all(ended)
    for (group, resource, node), devices in listed.items():
        free = [device for device in devices if (group, resource, node, device) not in held]
        sums[group, resource]["idle"] += len(free)
    expected = [(*key, c["held"], c["stranded"], c["idle"]) for key, c in sums.items()]
    columns = (by, "resource", "held", "stranded", "idle")
    assert sorted(expected, key=repr) == answer(lake, "devices", *columns, by=by)


def test_eviction_pressure(lake: Queryable, ask: Ask) -> None:
    """Evictions that did not fail and attempts, by node and signal; how often pressure began."""
    sums: dict[tuple[Any, ...], Counter[str]] = defaultdict(Counter)
    for row in ask("SELECT * FROM evictions"):
        sums[row["node"], row["signal"]]["evictions"] += row["evicted"] is not False
    for row in ask("SELECT * FROM reclaims"):
        sums[row["node"], row["signal"]]["reclaims"] += 1
    began: Counter[str] = Counter()
    before: dict[str, list[str]] = {}
    for row in ask("SELECT * FROM pressure_conditions ORDER BY ts, seq"):
        began[row["node"]] += len(row["conditions"]) > len(before.get(row["node"], []))
        before[row["node"]] = row["conditions"]
    expected = [(*key, c["evictions"], c["reclaims"], began[key[0]]) for key, c in sums.items()]
    columns = ("node", "signal", "evictions", "reclaims", "times_under_pressure")
    assert sorted(expected, key=repr) == answer(lake, "eviction_pressure", *columns)


def test_rates_and_counts(lake: Queryable, ask: Ask) -> None:
    """Probe kills an hour, rejections, lines that were not understood."""
    kills: Counter[tuple[Any, ...]] = Counter()
    for row in ask("SELECT * FROM container_kills WHERE reason LIKE '%_probe'"):
        hour = row["ts"].replace(minute=0, second=0, microsecond=0)
        kills[row["pool"], hour] += 1
    assert counted(kills) == answer(lake, "probe_kill_rate", "pool", "hour", "kills")
    refused = ask("SELECT reason FROM admissions WHERE NOT admitted")
    reasons: Counter[tuple[Any, ...]] = Counter((row["pool"], row["reason"]) for row in refused)
    assert counted(reasons) == answer(lake, "rejections", "pool", "reason", "rejections")
    shapes: Counter[tuple[Any, ...]] = Counter()
    for row in ask("SELECT shape, count FROM not_understood"):
        shapes[row["shape"],] += row["count"]
    assert counted(shapes) == answer(lake, "not_understood", "shape", "lines")


def test_stuck_and_not_ready(lake: Queryable, ask: Ask) -> None:
    """Pods by the stage that they did not get past at once; nodes by how often not ready."""
    pods: dict[tuple[Any, ...], set[Any]] = defaultdict(set)
    for row in ask("SELECT * FROM pod_stages WHERE stage NOT IN ('admission', 'run', 'ready')"):
        key = (row["pool"], row["stage"], row["reason"])
        pods[key].add((row["node"], row["pod_uid"] or f"{row['namespace']}/{row['pod']}"))
    expected = sorted(((*key, len(found)) for key, found in pods.items()), key=repr)
    assert expected == answer(lake, "stuck", "pool", "stage", "reason", "pods", top="1000")
    times: Counter[tuple[Any, ...]] = Counter()
    for row in ask("SELECT * FROM node_conditions WHERE condition = 'Ready' AND status <> 'True'"):
        times[row["pool"], row["node"]] += 1
    assert counted(times) == answer(lake, "not_ready", "pool", "node", "times")


def test_settings_drift(lake: Queryable) -> None:
    """The last value counts; of values that are as frequent the first one is the usual one."""
    columns = ("pool", "setting", "usual", "nodes_usual", "other", "first_nodes")
    found = answer(lake, "settings_drift", *columns, setting="--v")
    assert found == [("old", "--v", "5", 1, "9", ["east/a"])]


def test_oom_images(lake: Queryable, ask: Ask) -> None:
    specs = {
        (row["node"], row["pod_uid"], each["name"]): each["image"]
        for row in ask("SELECT pod_uid, spec::VARCHAR AS spec FROM pods WHERE spec IS NOT NULL")
        for each in _containers(row["spec"])
    }
    kills: Counter[tuple[Any, ...]] = Counter()
    for row in ask("SELECT * FROM oom_kills"):
        image = specs.get((row["node"], row["pod_uid"], row["container"]))
        kills[image, row["namespace"], row["container"]] += 1
    found = answer(lake, "oom_images", "image", "namespace", "container", "kills", top="1000")
    assert counted(kills) == found


def _containers(spec: str) -> list[dict[str, Any]]:
    import msgspec

    decoded = msgspec.json.decode(spec, type=dict[str, Any])
    return [*decoded.get("containers", ()), *decoded.get("initContainers", ())]


def test_kubelet_restarts(lake: Queryable, ask: Ask) -> None:
    sums: dict[str, Counter[str]] = defaultdict(Counter)
    for row in ask("SELECT * FROM kubelet_starts"):
        sums[row["node"]]["restarts"] += row["restart"]
        sums[row["node"]]["deaths"] += row["exit_reason"] not in {None, "stopped"}
    expected = [(node, c["restarts"], c["deaths"]) for node, c in sums.items() if c.total()]
    assert sorted(expected) == answer(lake, "kubelet_restarts", "node", "restarts", "deaths")


def test_cost(lake: Queryable, ask: Ask) -> None:
    records: Counter[tuple[Any, ...]] = Counter()
    for row in ask("SELECT count(*) AS count FROM records"):
        records[row["pool"],] += row["count"]
    assert counted(records) == answer(lake, "cost", "pool", "records")


@pytest.mark.parametrize("name", ["impossible", "devices"])
def test_a_wrong_group_is_told(lake: Queryable, name: str) -> None:
    with pytest.raises(BadQuestionError, match="by is "):
        lake.sql(LIBRARY[name].sql, LIBRARY[name].bind({"by": "moon"})).fetchall()
