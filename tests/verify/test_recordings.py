"""Recorded nodes, and copies of them in which one thing is another: what verification says."""

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeledger.analyze.audit import drift_of
from kubeledger.model.bodies.cgroups import CgroupRemoved, CgroupUpdated, QOSCgroupsUpdated
from kubeledger.model.bodies.devicemanager import (
    AllocationFailed,
    DevicesAllocated,
    DevicesReleased,
    DevicesReported,
)
from kubeledger.model.bodies.eviction import PodPreempted, PreemptionFailed
from kubeledger.model.bodies.images import GarbageCollected, GarbageCollectionStarted, ImageDeleted
from kubeledger.model.bodies.lifecycle import (
    ContainerKilled,
    ContainerRestarted,
    PodAdmitted,
    PodConfigChanged,
    PodListed,
    PodRejected,
    RestartBackedOff,
)
from kubeledger.model.bodies.node import KubeletStarted, NodeObserved, SettingsObserved
from kubeledger.model.bodies.prober import ProbeExecuted, ProbeTransitioned
from kubeledger.model.bodies.resourcemanagers import AffinityDecided, Hint
from kubeledger.model.record import Body, Record
from kubeledger.model.units import NS_PER_S
from kubeledger.verify import RECORDED, Contradiction, Finding, Outcome, Variant, verify
from kubeledger.verify.registry import verifiers_of
from kubeledger.verify.rules.admission.judging import VICTIMS
from kubeledger.verify.rules.disputes import SourceDisputes
from tests.verify.expected_findings import EXPECTED, RECORDINGS, lines
from tests.verify.histories import changed, reader, recorded

Kinds = tuple[type[Body], ...]
Records = Sequence[Record]
ADMISSION: Kinds = (PodAdmitted, PodRejected, PodPreempted, PreemptionFailed)
CGROUPS: Kinds = (CgroupUpdated, CgroupRemoved, QOSCgroupsUpdated)
CONTAINERS: Kinds = (ProbeTransitioned, ContainerKilled, ContainerRestarted, RestartBackedOff)
DEVICES: Kinds = (AllocationFailed, DevicesAllocated, DevicesReleased, AffinityDecided)
IMAGES: Kinds = (GarbageCollectionStarted, ImageDeleted, GarbageCollected)
NODES = ("node-a", "node-b")
GROUPS = (ADMISSION, CGROUPS, CONTAINERS, DEVICES, IMAGES)
"""Kinds of decisions whose rules rest on the same records: a lie in one may show in another."""


def judged(records: Records, kinds: Kinds, variant: Variant = RECORDED) -> list[Outcome]:
    """What the verifiers of some decisions say of these, and contradictions."""
    names = {kind.kind for kind in kinds}
    found = verify(reader(records), variant, verifiers_of(names))
    return [o for o in found if isinstance(o, Contradiction) or o.kind in names]


def findings(records: Records, kinds: Kinds, variant: Variant = RECORDED) -> list[Finding]:
    return [o for o in judged(records, kinds, variant) if isinstance(o, Finding)]


def contradictions(records: Records, kinds: Kinds) -> list[Contradiction]:
    return [o for o in judged(records, kinds) if isinstance(o, Contradiction)]


def wrong(records: Records, kinds: Kinds, variant: Variant = RECORDED) -> list[Finding]:
    return [f for f in findings(records, kinds, variant) if f.verdict == "impossible"]


def impossible(records: Records, kinds: Kinds) -> list[tuple[int, bool]]:
    """Record, and whether it was recorded, of each impossible decision."""
    return [(f.seq, f.recorded is not None) for f in wrong(records, kinds)]


def of(node: str, kind: type[Body], **fields: Any) -> list[Record]:  # noqa: ANN401 # any value
    return [
        record
        for record in recorded(node)
        if isinstance(record.body, kind)
        and all(getattr(record.body, name) == value for name, value in fields.items())
    ]


def body_of(record: Record) -> Any:  # noqa: ANN401 # bodies of any kind
    return record.body


def without(records: Records, gone: Iterable[Record]) -> list[Record]:
    seqs = {record.seq for record in gone}
    return [record for record in records if record.seq not in seqs]


@pytest.mark.parametrize("node", RECORDINGS)
def test_findings_of_a_recording(node: str) -> None:
    """All that is said of it; ``just expected`` writes the files anew."""
    assert list(lines(node)) == (EXPECTED / f"{node}.txt").read_text().splitlines()


# Lies ---------------------------------------------------------------------------------------

KILLED = {"reason": "liveness_probe"}
LIES: list[tuple[str, type[Body], dict[str, Any], dict[str, Any]]] = [
    ("a", ProbeTransitioned, {"probe_type": "liveness"}, {"run": 2}),
    ("a", ProbeTransitioned, {"probe_type": "liveness"}, {"pod": "ready-flap"}),
    ("a", ProbeTransitioned, {"probe_type": "readiness"}, {"to_result": "failure"}),
    ("b", ProbeTransitioned, {"probe_type": "startup"}, {"to_result": "success"}),
    ("a", ContainerKilled, KILLED, {"reason": "startup_probe"}),
    ("a", ContainerKilled, KILLED, {"container_id": "f" * 64}),
    ("a", ContainerKilled, KILLED, {"message": "Stopping container app"}),
    ("a", ContainerKilled, KILLED, {"pod": "http-probe"}),
    ("a", ContainerKilled, {"reason": "preempted"}, {"grace_period_s": 30}),
    ("a", ContainerKilled, {"reason": "pod_deleted"}, {"reason": "preempted"}),
    ("a", ContainerRestarted, {}, {"previous_container_id": "f" * 64}),
    ("a", ContainerRestarted, {}, {"container_id": "f" * 64}),
    ("a", ContainerRestarted, {}, {"pod_uid": "other"}),
    ("b", ContainerRestarted, {}, {"reason": "preempted"}),
    ("a", RestartBackedOff, {}, {"back_off_s": 20}),
    ("b", RestartBackedOff, {}, {"pod": "other"}),
    *(
        ("a", CgroupUpdated, {"level": level}, lie)
        for level in ("node", "qos", "pod", "container")
        for lie in ({"qos_class": "BestEffort"}, {"pod_uid": "another"}, {"cpu_period_us": 99_999})
    ),
    ("a", CgroupUpdated, {"level": "qos"}, {"other": {"pids.max": "77"}}),
    ("a", CgroupUpdated, {"level": "pod"}, {"other": {"pids.max": "77"}}),
]


@pytest.mark.parametrize(("node", "kind", "which", "lie"), LIES)
def test_one_lie_makes_one_decision_impossible(
    node: str, kind: type[Body], which: dict[str, Any], lie: dict[str, Any]
) -> None:
    there = of(f"node-{node}", kind, **which)
    group = next(kinds for kinds in GROUPS if kind in kinds)
    for record in (there[0], there[-1]):
        name, value = next(iter(lie.items()))
        if getattr(record.body, name) == value:
            continue
        lied = changed(recorded(f"node-{node}"), record.seq, **lie)
        assert impossible(lied, group) == [(record.seq, True)]


@pytest.mark.parametrize("level", ["node", "qos", "pod", "container"])
def test_values_of_a_cgroup(level: str) -> None:
    of_level = of("node-a", CgroupUpdated, level=level)
    for record in (of_level[0], of_level[-1]):
        for name, more in (("cpu_shares", 1), ("cpu_quota_us", 1), ("memory_limit_bytes", 4096)):
            lied = changed(
                recorded("node-a"), record.seq, **{name: getattr(record.body, name) + more}
            )
            assert impossible(lied, CGROUPS) == [(record.seq, True)], name


@pytest.mark.parametrize("node", NODES)
@pytest.mark.parametrize("place", range(0, 440, 110))
def test_a_wrong_tick(node: str, place: int) -> None:
    """It makes the one decision that rests on it impossible, or disagrees."""
    record = of(node, ProbeExecuted)[place]
    lie = "failure" if body_of(record).result == "success" else "success"
    found = judged(changed(recorded(node), record.seq, result=lie), CONTAINERS)
    assert sum(isinstance(o, Finding) and o.verdict == "impossible" for o in found) <= 1
    assert any(isinstance(o, Contradiction) or o.verdict == "impossible" for o in found)


@pytest.mark.parametrize("node", NODES)
def test_a_missing_change_of_a_probe(node: str) -> None:
    """The tick that led to it is named, where a line would have told it."""
    told = [r for r in of(node, ProbeTransitioned) if not body_of(r).inferred and r.cause]
    record = told[2]
    assert impossible(without(recorded(node), [record]), CONTAINERS) == [(record.cause, False)]


def beats() -> list[Record]:
    """Writes a minute after another and a minute before a third: those of the timer alone."""
    writes = of("node-b", QOSCgroupsUpdated)

    def near(ts_ns: int) -> bool:
        return any(abs(ts_ns - other.ts_ns) < NS_PER_S // 10 for other in writes)

    minute_ns = 60 * NS_PER_S
    return [w for w in writes if near(w.ts_ns - minute_ns) and near(w.ts_ns + minute_ns)]


@pytest.mark.parametrize("by_s", [-25, 11, 30])
def test_a_moved_write(by_s: int) -> None:
    """It was not due then. The log has it in the place of the one that is missing."""
    for write in beats()[-3:]:
        moved = msgspec.structs.replace(write, ts_ns=write.ts_ns + by_s * NS_PER_S)
        records = sorted(
            [*without(recorded("node-b"), [write]), moved], key=lambda record: record.ts_ns
        )
        assert impossible(records, CGROUPS) == [(write.seq, True)]


def test_a_missing_write_is_no_proof() -> None:
    for gone in beats():
        assert impossible(without(recorded("node-b"), [gone]), CGROUPS) == []


def test_drift_lists_single_values() -> None:
    record = of("node-a", CgroupUpdated, level="pod")[0]
    lied = changed(recorded("node-a"), record.seq, cpu_shares=99, other={"pids.max": "5"})
    drifts = [drift for finding in findings(lied, CGROUPS) for drift in drift_of(finding)]
    assert [(d.seq, d.value, d.expected, d.found) for d in drifts] == [
        (record.seq, "cpu_shares", 2, 99),
        (record.seq, "other/pids.max", "max", "5"),
    ]


@pytest.mark.parametrize("node", NODES)
def test_a_lie_about_a_merged_hint_stays_alone(node: str) -> None:
    """Grants may go by the recorded hint or by the one that had to be: none is in doubt."""
    pod = "gpu-a" if node == "node-a" else "gpu-a-node-b"
    merged = of(node, AffinityDecided, pod=pod, container="train")[0]
    lied = changed(recorded(node), merged.seq, hint=Hint(numa_nodes=(1,), preferred=True))
    found = findings(lied, DEVICES)
    assert {f.seq for f in found if f.verdict in ("impossible", "unverifiable")} == {merged.seq}


def test_a_lie_about_healthy_devices() -> None:
    """Log and checkpoint differ: nothing is believed, and nothing called impossible."""
    report = of("node-b", DevicesReported, total=4)[0]
    lied = changed(recorded("node-b"), report.seq, healthy=3)
    assert impossible(lied, DEVICES) == []
    assert report.seq in {side.seq for side in contradictions(lied, DEVICES)[0].sides}
    missing = {name for finding in findings(lied, DEVICES) for name in finding.missing}
    assert missing == {"the healthy devices of example.com/gpu at that time"}


def test_a_finding_about_the_end_of_a_collection_is_placed_at_its_line() -> None:
    """Not at the line of the start, which its record holds as well."""
    end = next(r for r in of("node-a", GarbageCollected) if body_of(r).bytes_freed)
    start = of("node-a", GarbageCollectionStarted)[0]
    lied = [
        msgspec.structs.replace(r, evidence=(*start.evidence, *end.evidence))
        if r.seq == end.seq
        else r
        for r in changed(recorded("node-a"), end.seq, bytes_freed=body_of(end).bytes_freed + 1)
    ]
    (found,) = wrong(lied, IMAGES)
    assert (found.seq, found.line) == (end.seq, end.evidence[0].line)


# Lists --------------------------------------------------------------------------------------


def test_lists_that_disagree() -> None:
    """A pod's resources and probes cannot change in 1.20, nor restarts be counted twice."""
    limited = of("node-a", PodListed, pod="burstable-1")[1]
    probed = of("node-a", PodListed, pod="live-fail")[-1]
    counted = of("node-a", PodListed, pod="live-fail", listed_by="kubelet")[5]
    for record, kinds, old, new in (
        (limited, CGROUPS, b'"cpu":"150m"', b'"cpu":"160m"'),
        (probed, CONTAINERS, b'"failureThreshold":3', b'"failureThreshold":2'),
    ):
        records = [_listed_so(r, old, new) if r is record else r for r in recorded("node-a")]
        assert impossible(records, kinds) == []
        assert record.seq in {s.seq for each in contradictions(records, kinds) for s in each.sides}
    own = (b'"restartCount":', b'"restartCount":5')
    records = [_listed_so(r, *own) if r is counted else r for r in recorded("node-a")]
    found = verify(reader(records), verifiers=[SourceDisputes])
    sides = [s.seq for each in found if isinstance(each, Contradiction) for s in each.sides]
    assert counted.seq in sides


def _listed_so(record: Record, old: bytes, new: bytes) -> Record:
    listed = {name: getattr(record.body, name) for name in ("spec", "status")}
    raw = msgspec.json.encode(listed)
    assert old in raw
    fields = msgspec.json.decode(raw.replace(old, new))
    return msgspec.structs.replace(record, body=msgspec.structs.replace(record.body, **fields))


def _requesting(pod: str, old: bytes, new: bytes) -> list[Record]:
    lists = {r.seq for r in of("node-a", PodListed, pod=pod) if body_of(r).spec is not None}
    return [_listed_so(r, old, new) if r.seq in lists else r for r in recorded("node-a")]


def test_a_wrong_request_is_found_where_it_matters() -> None:
    """The refused pod's own request, and one that others' numbers rest on."""
    found = wrong(_requesting("too-big", b'"900m"', b'"800m"'), ADMISSION)
    assert [(f.kind, f.subject) for f in found] == [(PodRejected.kind, "pod/default/too-big")]
    found = wrong(_requesting("filler-a", b'"300m"', b'"310m"'), ADMISSION)
    assert {f.kind for f in found} == {PodRejected.kind, PodPreempted.kind}


# What is not there --------------------------------------------------------------------------


def test_a_victim_that_is_not_recorded() -> None:
    """Those left do not make enough room; where none is left, their lines may be lost."""
    victims = of("node-a", PodPreempted)
    for gone, left in (victims, victims[::-1]):
        assert impossible(without(recorded("node-a"), [gone]), ADMISSION) == [(left.seq, True)]
    found = findings(without(recorded("node-b"), of("node-b", PodPreempted)), ADMISSION)
    (preemptor,) = (f for f in found if "critical-1" in f.subject)
    assert VICTIMS in preemptor.missing
    assert "impossible" not in {f.verdict for f in found}


@pytest.mark.parametrize("node", NODES)
def test_a_refusal_that_is_not_recorded(node: str) -> None:
    """A list shows the pod as failed: its line is lost, and that it was let in is a lie."""
    for gone in of(node, PodRejected):
        body: Any = gone.body
        assert not impossible(without(recorded(node), [gone]), ADMISSION)
        if "OutOf" in body.reason:
            who: dict[str, Any] = {
                name: getattr(body, name) for name in ("namespace", "pod", "pod_uid")
            }
            lie = msgspec.structs.replace(gone, body=PodAdmitted(**who), kind=PodAdmitted.kind)
            lied = [lie if record is gone else record for record in recorded(node)]
            assert (gone.seq, True) in impossible(lied, ADMISSION)


def test_a_decision_without_the_line_that_adds_its_pod() -> None:
    first = of("node-b", PodAdmitted)[0]
    adds = of("node-b", PodConfigChanged, pod=body_of(first).pod)
    found = findings(without(recorded("node-b"), adds), ADMISSION)
    (missing,) = (f.missing for f in found if f.seq == first.seq)
    assert missing == ("the line that hands the pod to the kubelet (SyncLoop ADD)",)


@given(st.integers(0, 10_000), st.sampled_from([0.02, 0.2, 0.6]))
@settings(max_examples=25, deadline=None)
def test_odd_histories_of_admissions(seed: int, share: float) -> None:
    chance = random.Random(seed)
    for node in NODES:
        some = [r for r in recorded(node) if chance.random() > share]
        some = some[: chance.randrange(len(some))] if chance.random() < 0.3 else some
        decisions = [r.seq for r in some if isinstance(r.body, ADMISSION)]
        found = findings(some, ADMISSION)
        assert sorted(f.seq for f in found if f.recorded is not None) == sorted(decisions)


@pytest.mark.parametrize(
    ("kind", "missing"), [(KubeletStarted, "the kubelet's version"), (PodListed, "the pod's spec")]
)
def test_without_version_or_lists(kind: type[Body], missing: str) -> None:
    found = findings(without(recorded("node-b"), of("node-b", kind)), CONTAINERS[:3])
    assert {name for f in found for name in f.missing} == {missing}


# Settings and versions ----------------------------------------------------------------------


def with_settings(node: str, **values: str | None) -> list[Record]:
    """A recording whose kubelets show other settings; None takes one away."""
    records = []
    for record in recorded(node):
        body = record.body
        if isinstance(body, SettingsObserved):
            shown = {n: s for n, s in body.settings.items() if values.get(n, "") is not None}
            for name, value in values.items():
                if name in shown and value is not None:
                    shown[name] = msgspec.structs.replace(shown[name], value=value)
            body = msgspec.structs.replace(body, settings=shown)
            record = msgspec.structs.replace(record, body=body)
        records.append(record)
    return records


@pytest.mark.parametrize(
    ("setting", "level", "missing"),
    [
        ("cpuCFSQuota", "pod", "the setting cpuCFSQuota"),
        ("cpuCFSQuotaPeriod", "container", "the setting cpuCFSQuotaPeriod"),
        ("kubeReserved", "node", "the settings systemReserved and kubeReserved"),
        ("enforceNodeAllocatable", "node", "the setting enforceNodeAllocatable"),
        ("qosReserved", "qos", "the settings qosReserved and featureGates"),
        ("featureGates", "qos", "the settings qosReserved and featureGates"),
    ],
)
def test_a_missing_setting_is_named(setting: str, level: str, missing: str) -> None:
    of_level = {record.seq for record in of("node-a", CgroupUpdated, level=level)}
    found = findings(with_settings("node-a", **{setting: None}), (CgroupUpdated,))
    mine = [f for f in found if f.seq in of_level]
    assert mine
    assert all(f.verdict == "unverifiable" and missing in f.missing for f in mine)


def test_another_threshold_denies_the_starts_of_collections() -> None:
    found = wrong(with_settings("node-b", imageGCHighThresholdPercent="7"), IMAGES)
    assert [f.seq for f in found] == [r.seq for r in of("node-b", GarbageCollectionStarted)]
    assert all(of("node-b", SettingsObserved)[0].seq in f.inputs for f in found)


def test_allocatable_of_the_node_object() -> None:
    (node,) = (r for r in of("node-a", NodeObserved) if body_of(r).allocatable)
    amounts = {**body_of(node).allocatable, "cpu": "1800m"}
    lied = changed(recorded("node-a"), node.seq, allocatable=amounts)
    (reported,) = contradictions(lied, ADMISSION)
    assert ["1800m" in reported.sides[0].says, "1700m" in reported.sides[1].says] == [True, True]


RESERVED = {"kubeReserved": {"cpu": "300m", "memory": "256Mi"}}
NOTHING_RESERVED: dict[str, Any] = {"kubeReserved": {}, "systemReserved": {}}
BACK_OFF = {"crashLoopBackOff": {"maxContainerRestartPeriod": "20s"}}


@pytest.mark.parametrize(
    ("node", "settings", "kind", "count", "field", "expected"),
    [
        ("b", {"imageGCHighThresholdPercent": 80}, GarbageCollectionStarted, 2, "", ""),
        ("b", {"imageGCHighThresholdPercent": 100}, GarbageCollectionStarted, 2, "", ""),
        ("b", {"imageMinimumGCAge": "1h"}, ImageDeleted, 3, "", ""),
        ("b", {"imageMinimumGCAge": "1h"}, GarbageCollected, 1, "", ""),
        ("a", RESERVED, CgroupUpdated, 1, "cpu_shares", "1536"),
        ("a", {"maxPods": 3}, PodAdmitted, None, "reason", "OutOfpods"),
        ("a", NOTHING_RESERVED, PodRejected, None, "message", "capacity: 2000"),
        ("b", BACK_OFF, RestartBackedOff, None, "back_off_s", "20"),
    ],
)
def test_under_other_settings(
    node: str, settings: dict[str, Any], kind: type[Body], count: int | None, field: str,
    expected: str,
) -> None:  # fmt: skip
    group = next(kinds for kinds in GROUPS if kind in kinds)
    found = wrong(recorded(f"node-{node}"), group, Variant(settings=settings))
    mine = [f for f in found if f.kind == kind.kind and f.recorded is not None]
    assert len(mine) == count or (count is None and mine)
    assert not field or expected in " ".join(str((f.expected or {}).get(field)) for f in mine)


def test_without_quota() -> None:
    limited = [r.seq for r in of("node-a", CgroupUpdated) if body_of(r).cpu_quota_us != -1]
    variant = Variant(settings={"cpuCFSQuota": False})
    assert [f.seq for f in wrong(recorded("node-a"), CGROUPS, variant)] == limited


@pytest.mark.parametrize(
    ("version", "kind", "verdicts"),
    [
        ("1.31.0", GarbageCollected, {"impossible": 2}),
        ("1.20.2", ProbeTransitioned, {"match": 42}),
        ("1.99.0", CgroupUpdated, {"unverifiable": 52}),
    ],
)
def test_under_another_version(version: str, kind: type[Body], verdicts: dict[str, int]) -> None:
    found = findings(recorded("node-b"), (kind,), Variant(kubelet_version=version))
    assert Counter(f.verdict for f in found) == verdicts
