"""Cgroup decisions in small scenes: each branch of the rules, and what is missing for it."""

from typing import Any

import msgspec
import pytest

from kubeledger.model.bodies.cgroups import (
    CgroupRemoved,
    CgroupUpdated,
    QOSCgroupsUpdated,
    QOSReserveComputed,
)
from kubeledger.model.bodies.images import EvictionSignalObserved
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerKilled,
    ContainerStarted,
    KubernetesEvent,
    PodConfigChanged,
    PodListed,
    PodRejected,
    PodTerminated,
)
from kubeledger.model.bodies.node import NodeObserved
from kubeledger.model.record import Body, Evidence
from kubeledger.replay.node.reducer import evolve
from kubeledger.replay.node.state import NodeState
from kubeledger.verify import Contradiction, Finding
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.rules.cgroups.files import NO_LIMIT_V1
from kubeledger.verify.rules.cgroups.options import MISSING_PIDS
from kubeledger.verify.rules.cgroups.rule import CgroupVerifier, Removals
from tests.verify.histories import findings, kubelet_of, nothing_but, outcomes, scene, settings_told

GIB = 2**30
SETTINGS: dict[str, Any] = {
    "cpuCFSQuota": True,
    "cpuCFSQuotaPeriod": "100ms",
    "cgroupDriver": "cgroupfs",
    "enforceNodeAllocatable": ["pods"],
    "kubeReserved": {"cpu": "100m", "memory": "1Gi"},
    "systemReserved": None,
    "featureGates": {},
    "qosReserved": {},
    "podPidsLimit": -1,
}
ROOT = NodeObserved(cpus=4, memory_capacity_bytes=8 * GIB)


only_cgroups = nothing_but(CgroupVerifier)


def start(version: str = "1.36.2", **changes: Any) -> list[tuple[float, Body]]:  # noqa: ANN401 # settings
    """A kubelet's start with its flags."""
    return [
        (0, kubelet_of(version)),
        (0.1, ROOT),
        (0.2, settings_told({**SETTINGS, **changes}, "default")),
        (0.5, QOSCgroupsUpdated()),
    ]


def pod(
    name: str = "web",
    *,
    requests: dict[str, str] | None = None,
    limits: dict[str, str] | None = None,
    static: bool = False,
    init: dict[str, Any] | None = None,
    given: dict[str, Any] | None = None,
    **spec: Any,  # noqa: ANN401 # any field of a spec
) -> PodListed:
    """A pod of one container ``c``, as the kubelet's list shows it."""
    resources = {"requests": requests or {}, "limits": limits or {}}
    whole = {"containers": [{"name": "c", "resources": resources}], **spec}
    if init is not None:
        whole["initContainers"] = [init]
    status: dict[str, Any] = {"phase": "Running"}
    if given is not None:
        status["containerStatuses"] = [{"name": "c", "resources": given}]
    return PodListed(
        namespace="d",
        pod=name,
        pod_uid=f"u-{name}",
        annotations={"kubernetes.io/config.source": "file" if static else "api"},
        spec=whole,
        status=status,
        listed_by="kubelet",
    )


def added(name: str = "web") -> PodConfigChanged:
    return PodConfigChanged(
        namespace="d", pod=name, pod_uid=f"u-{name}", operation="ADD", source="api"
    )


def cgroup(path: str, **values: Any) -> CgroupUpdated:  # noqa: ANN401 # fields of the record
    """A cgroup v1 record; what is not given is as in a cgroup of nobody."""
    parts = path.split("/")
    inside = parts[-1] not in ("kubepods", "burstable", "besteffort")
    uid = next((part[3:] for part in parts if part.startswith("pod")), None)
    level: Any = "pod" if parts[-1].startswith("pod") else "container" if inside else "qos"
    qos: Any = {"burstable": "Burstable", "besteffort": "BestEffort"}.get(parts[1], "Guaranteed")
    fields: dict[str, Any] = {
        "cpu_shares": 2,
        "cpu_quota_us": -1,
        "cpu_period_us": 100_000,
        "memory_limit_bytes": NO_LIMIT_V1[0],
    }
    if "unified" in values:
        fields = {}
    return CgroupUpdated(
        cgroup=path,
        level=level,
        qos_class=qos,
        pod_uid=uid,
        container_id=parts[-1] if level == "container" else None,
        created=True,
        changed=(),
        **{**fields, **values},
    )


def only(steps: list[tuple[float, Body]], kind: type[Body] = CgroupUpdated) -> Finding:
    return findings(scene(*steps), kind=kind.kind)[-1]


LATER: tuple[float, Body] = (
    75.0, EvictionSignalObserved(signal="memory.available", available=1, capacity=2)
)  # fmt: skip
"""The log goes on."""


def began(container_id: str, pod_name: str = "web") -> ContainerStarted:
    return ContainerStarted(
        namespace="d", pod=pod_name, pod_uid=f"u-{pod_name}", container="c",
        container_id=container_id,
    )  # fmt: skip


def died(container_id: str, pod_name: str = "web") -> ContainerDied:
    return ContainerDied(
        namespace="d", pod=pod_name, pod_uid=f"u-{pod_name}", container="c",
        container_id=container_id,
    )  # fmt: skip


LIMITED = {"cpu": "250m", "memory": "100Mi"}
BURST = "kubepods/burstable/podu-web"


# Pods and containers ------------------------------------------------------------------------


GUARANTEED = pod(requests=LIMITED, limits=LIMITED)
ONE = pod(requests={"cpu": "1"})
TWO_CPUS = {"cpu": "2", "memory": "1Gi"}
OF_POD = {"cpu_shares": 256, "memory_limit_bytes": 100 * 2**20}
PINNED = cgroup("kubepods/podu-web", cpu_shares=2048, memory_limit_bytes=GIB)
STATIC = {"cpuManagerPolicy": "static"}
HUGE = pod(requests={"cpu": "1", "hugepages-2Mi": "4Mi"}, limits={"hugepages-2Mi": "4Mi"})


def of_pod(**values: Any) -> CgroupUpdated:  # noqa: ANN401 # fields of the record
    """The cgroup of ``GUARANTEED``."""
    return cgroup("kubepods/podu-web", **{**OF_POD, **values})


def of_container(name: str | None = "c", **values: Any) -> CgroupUpdated:  # noqa: ANN401 # fields
    return cgroup(f"{BURST}/c1", container=name, **values)


def unified(path: str, weight: str, **files: str) -> CgroupUpdated:
    """A cgroup v2 record without limits."""
    all_files = {"cpu.weight": weight, "cpu.max": "max 100000", "memory.max": "max"} | files
    values: dict[str, Any] = {
        "cpu_quota_us": -1,
        "cpu_period_us": 100_000,
        "memory_limit_bytes": -1,
        "container": "c" if path != BURST else None,
    }
    return cgroup(path, unified=all_files, **values)


@pytest.mark.parametrize(
    ("settings", "listed", "record", "verdict"),
    [
        # Quota, period and process IDs by the settings.
        ({}, GUARANTEED, of_pod(cpu_quota_us=25_000), "match"),
        ({}, GUARANTEED, of_pod(cpu_quota_us=26_000), "impossible"),
        ({"cpuCFSQuota": False}, GUARANTEED, of_pod(cpu_quota_us=-1), "match"),
        ({"cpuCFSQuota": False}, GUARANTEED, of_pod(cpu_quota_us=25_000), "impossible"),
        ({"cpuCFSQuotaPeriod": "50ms"}, GUARANTEED,
         of_pod(cpu_quota_us=12_500, cpu_period_us=50_000), "match"),
        ({"podPidsLimit": 64}, ONE,
         cgroup(BURST, cpu_shares=1024, other={"pids.max": "64"}), "match"),
        ({"podPidsLimit": 64}, ONE,
         cgroup(BURST, cpu_shares=1024, other={"pids.max": "9"}), "impossible"),
        # Before 1.20 the limit of process IDs has a gate.
        ({"version": "1.19.0", "podPidsLimit": 64,
          "featureGates": {"SupportPodPidsLimit": False}}, ONE,
         cgroup(BURST, cpu_shares=1024, other={"pids.max": "max"}), "match"),
        # systemd rounds 24.56 % of a CPU up to 25 %.
        ({"cgroupDriver": "systemd"}, pod(requests=LIMITED, limits={**LIMITED, "cpu": "123m"}),
         cgroup(BURST, cpu_quota_us=13_000, **OF_POD), "admissible"),
        ({}, pod(requests=LIMITED, limits={**LIMITED, "cpu": "123m"}),
         cgroup(BURST, cpu_quota_us=13_000, **OF_POD), "impossible"),
        # Memory is cut to pages; an init container has its own part of the spec.
        ({}, pod(requests={"cpu": "1"}, limits={"memory": "100M"}),
         of_container(cpu_shares=1024, memory_limit_bytes=99_999_744), "match"),
        ({}, pod(requests={"cpu": "1"}, init={"name": "i",
                                              "resources": {"requests": {"cpu": "2"}}}),
         of_container("i", cpu_shares=2048), "match"),
        # A sandbox has the runtime's default; what nothing names is any of the pod's.
        ({}, ONE, of_container(None, sandbox=True), "match"),
        ({}, ONE, of_container(None, sandbox=True, cpu_shares=1024), "admissible"),
        ({}, ONE, of_container(None, sandbox=True, cpu_shares=512), "impossible"),
        ({}, ONE, of_container(None, cpu_shares=1024), "admissible"),
        ({}, ONE, of_container(None, cpu_shares=300), "impossible"),
        # With CPUs of its own a container needs no quota.
        (STATIC, pod(requests=TWO_CPUS, limits=TWO_CPUS), PINNED, "match"),
        ({**STATIC, "version": "1.30.0"}, pod(requests=TWO_CPUS, limits=TWO_CPUS), PINNED,
         "impossible"),
        ({}, pod(requests=TWO_CPUS, limits=TWO_CPUS), PINNED, "impossible"),
        # Huge pages that a pod does not ask for are 0.
        ({}, HUGE, cgroup(BURST, cpu_shares=1024,
                          hugetlb_limit_bytes={"2MB": 4 * 2**20, "1GB": 0}), "match"),
        ({}, HUGE, cgroup(BURST, cpu_shares=1024, hugetlb_limit_bytes={"2MB": 0}), "impossible"),
        ({"cgroupsPerQOS": False}, ONE,
         msgspec.structs.replace(cgroup(BURST, cpu_shares=1024), created=False), "impossible"),
        # cgroup v2: the kubelet's weight is linear, a runtime's may follow the newer formula.
        ({}, ONE, unified(BURST, "39"), "match"),
        ({}, ONE, unified(BURST, "100"), "impossible"),
        ({}, ONE, unified(f"{BURST}/c1", "39"), "match"),
        ({}, ONE, unified(f"{BURST}/c1", "100"), "admissible"),
        ({}, ONE, unified(f"{BURST}/c1", "50"), "impossible"),
        ({}, ONE, unified(BURST, "39", **{"memory.max": "4096"}), "impossible"),
        ({}, ONE, unified(BURST, "39", **{"cpu.max": "1000 100000"}), "impossible"),
        ({}, ONE, unified(BURST, "39", **{"memory.high": "4096"}), "impossible"),
        ({}, ONE, unified(BURST, "39", **{"pids.max": "max", "memory.low": "0"}), "match"),
    ],
)  # fmt: skip
def test_values_of_pods_and_containers(
    settings: dict[str, Any], listed: PodListed, record: CgroupUpdated, verdict: str
) -> None:
    """By the spec, the settings and the version; what the kernel and the runtime make of it."""
    found = only([*start(**settings), (9, added()), (10, listed), (10, record)])
    assert found.verdict == verdict, found.why
    also = found.why.partition("; also possible: ")[2]
    assert also.startswith(("cpu.", "the ")) == (verdict == "admissible"), found.why


def test_what_is_not_compared_is_told() -> None:
    record = unified(BURST, "39", **{f"io.{number}": "1" for number in range(8)})
    found = only([*start(), (9, added()), (10, ONE), (10, record)])
    named = ", ".join(f"io.{number}" for number in range(6))
    assert found.why.endswith(f"; not compared: {named} and 2 more"), found.why


def test_the_sums_are_told() -> None:
    """Each value with what it is reckoned from, for a pod, a container and a class."""
    listed = pod(requests=LIMITED, limits={**LIMITED, "cpu": "500m"})
    steps = [*start(), (9, added()), (9.1, QOSCgroupsUpdated()), (10, listed)]
    values = {"cpu_shares": 256, "cpu_quota_us": 50_000, "memory_limit_bytes": 100 * 2**20}
    for path, sums in (
        (BURST, "all that runs in the pod, and 250 * 1024 / 1000 = 256: c 250m)"),
        (BURST, "and 500 * 100000 / 1000 = 50000: c 500m)"),
        (BURST, "memory is limited to 104857600 bytes by all that runs in the pod: c 100Mi)"),
        (f"{BURST}/c1", "the container requests 250 m of cpu, and 250 * 1024 / 1000 = 256)"),
        (f"{BURST}/c1", "the memory limit of the container)"),
    ):
        found = only([*steps, (10, cgroup(path, container="c", **values))])
        assert (found.verdict, sums in found.why) == ("match", True), found.why
    found = only([*steps, (61, QOSCgroupsUpdated()), (62, level(256))])
    assert "250m CPU together, which are 256 shares (250 * 1024 / 1000): d/web 250m" in found.why


@pytest.mark.parametrize(
    ("field", "line", "why"),
    [
        ("cpu_shares", 3, "cpu.shares is 4096 and had to be 1024: container c of "),
        ("memory_limit_bytes", 4, f"the memory limit is 4096 and had to be {NO_LIMIT_V1[0]}: "),
    ],
)
def test_a_finding_is_placed_at_its_value(field: str, line: int, why: str) -> None:
    """The line of the value that cannot be, not the first one of the cgroup."""
    values = {"cpu_shares": 1024, field: 4096}
    steps = [*start(), (9, added()), (10, pod(requests={"cpu": "1"})),
             (10, cgroup(f"{BURST}/c1", container="c", **values))]  # fmt: skip
    *before, record = scene(*steps)
    files = ("cpu.cfs_period_us", "cpu.shares", "memory.limit_in_bytes")
    pieces = [Evidence(file="cgroupfs.txt", line=number, text=f"x/{BURST}/c1/{name} 1")
              for number, name in enumerate(files, start=2)]  # fmt: skip
    record = msgspec.structs.replace(record, evidence=tuple(pieces))
    found = findings([*before, record], kind=CgroupUpdated.kind)[-1]
    assert (found.verdict, found.line) == ("impossible", line)
    assert found.why.startswith(why)


@pytest.mark.parametrize(
    ("listed", "record", "missing"),
    [
        (None, cgroup(BURST), "the pod's spec"),
        (pod(), cgroup("kubepods/besteffort/podu-web/c1", container="x"),
         "container x in the pod's spec"),
        (pod(overhead={"cpu": "1m"}), cgroup("kubepods/besteffort/podu-web/s", sandbox=True),
         "the runtime's rule for the sandbox of a pod with overhead"),
        (pod(requests={"cpu": "x"}), cgroup(BURST), "a readable spec of the pod"),
        (pod(), cgroup("kubepods/besteffort/podu-web", cpu_shares=None, cpu_quota_us=None,
                       cpu_period_us=None, memory_limit_bytes=None),
         "values in the cgroup's files"),
    ],
)  # fmt: skip
def test_missing_inputs(listed: PodListed | None, record: CgroupUpdated, missing: str) -> None:
    lists = [] if listed is None else [(10.0, listed)]
    found = only([*start(), (9, added()), *lists, (10, record)])
    assert found.verdict == "unverifiable"
    assert found.missing[0] == missing


def test_a_resize() -> None:
    """What the status says was given counts; not for a static pod, nor before there was one."""
    given = {"requests": {"cpu": "2"}}
    record = cgroup(f"{BURST}/c1", container="c", sandbox=False, cpu_shares=2048)
    for version, static, verdict in (
        ("1.36.2", False, "admissible"),
        ("1.36.2", True, "impossible"),
        ("1.20.2", False, "impossible"),
    ):
        listed = pod(requests={"cpu": "1"}, given=given, static=static)
        steps = [*start(version), (9.0, added()), (10.0, listed), (10.0, record)]
        assert only(steps).verdict == verdict


@pytest.mark.parametrize(
    ("version", "settings", "files", "verdict"),
    [
        ("1.24.0", {}, {"memory.min": "104857600"}, "match"),
        ("1.24.0", {}, {"memory.min": "0"}, "impossible"),
        ("1.24.0", {"memoryThrottlingFactor": 0.9}, {"memory.high": "4096"}, "match"),
        ("1.36.2", {"memoryReservationPolicy": "TieredReservation"},
         {"memory.low": "104857600"}, "match"),
        ("1.36.2", {"memoryReservationPolicy": "None"}, {"memory.low": "104857600"}, "match"),
    ],
)  # fmt: skip
def test_memory_qos_of_a_pod(
    version: str, settings: dict[str, Any], files: dict[str, str], verdict: str
) -> None:
    """Its request is protected, by the version's file; what is not written is not judged.

    Nor is where a container without a limit is throttled: by what the node can allocate.
    """
    listed = pod(requests={"cpu": "1", "memory": "100Mi"})
    steps = start(version, featureGates={"MemoryQoS": True}, **settings)
    record = unified(f"{BURST}/c1" if "memory.high" in files else BURST, "39", **files)
    assert only([*steps, (9, added()), (10, listed), (10, record)]).verdict == verdict


# The node -----------------------------------------------------------------------------------


def root(**values: Any) -> CgroupUpdated:  # noqa: ANN401 # fields of the record
    """``kubepods`` of 4 CPUs and 8 GiB less 100m and 1 GiB."""
    fields = {
        "cpu_shares": 3993,
        "cpu_quota_us": -1,
        "cpu_period_us": 100_000,
        "memory_limit_bytes": 7 * GIB,
    }
    return CgroupUpdated(
        cgroup="kubepods",
        level="node",
        qos_class=None,
        pod_uid=None,
        created=True,
        changed=(),
        **{**fields, **values},
    )


def told_pids(at_s: float = 5, capacity: int = 32_768) -> tuple[float, Body]:
    return (at_s, EvictionSignalObserved(signal="pid.available", available=7, capacity=capacity))


NO_GATES = {"featureGates": {"SupportNodePidsLimit": False, "SupportPodPidsLimit": False}}
RESERVED = {"cpu": "100m", "memory": "1Gi", "pid": "99999"}


@pytest.mark.parametrize(
    ("settings", "values", "verdict"),
    [
        # Capacity less both reserves, where that is enforced.
        ({}, {}, "match"),
        ({}, {"memory_limit_bytes": 8 * GIB}, "impossible"),
        ({"enforceNodeAllocatable": []},
         {"cpu_shares": 4096, "memory_limit_bytes": 8 * GIB}, "match"),
        ({"enforceNodeAllocatable": None}, {}, "impossible"),
        ({}, {"hugetlb_limit_bytes": {"2MB": 2**62}}, "match"),
        # The machine's process IDs less what is reserved of them.
        ({"version": "1.20.2"}, {"other": {"pids.max": "32768"}}, "match"),
        ({}, {"other": {"pids.max": "32768"}}, "match"),
        ({}, {"other": {"pids.max": "32767"}}, "impossible"),
        ({}, {"other": {"pids.max": "max"}}, "impossible"),
        ({"systemReserved": {"pid": "768"}}, {"other": {"pids.max": "32000"}}, "match"),
        ({"podPidsLimit": 64}, {"other": {"pids.max": "64"}}, "impossible"),
        ({"kubeReserved": RESERVED}, {"other": {"pids.max": "max"}}, "match"),
        ({"version": "1.19.0", **NO_GATES}, {"other": {"pids.max": "max"}}, "match"),
        ({"version": "1.20.2", **NO_GATES}, {"other": {"pids.max": "max"}}, "impossible"),
    ],
)  # fmt: skip
def test_the_cgroup_of_all_pods(
    settings: dict[str, Any], values: dict[str, Any], verdict: str
) -> None:
    """A kubelet of 4 CPUs and 8 GiB, and a machine of 32768 process IDs."""
    found = only([*start(**settings), told_pids(), (10, root(**values))])
    assert found.verdict == verdict, found.why


def test_a_machine_of_which_something_is_not_told() -> None:
    """What is missing is named; a limit of process IDs that was ever told may be written."""
    record = root(other={"pids.max": "32768"})
    assert only([*start(), (10, record)]).missing == (MISSING_PIDS,)
    steps = [*start(), told_pids(5, 4096), told_pids(6, 32_768), (10, record)]
    assert only([*steps, (20, root(other={"pids.max": "4096"}))]).verdict == "admissible"
    less = [step for step in start() if step[1] is not ROOT]
    assert only([*less, (10, root())]).missing == ("the machine's capacity",)
    reported = (1.0, NodeObserved(cpus=4))
    assert only([*less, reported, (10, root())]).missing == ("the machine's CPUs and memory",)


def test_huge_pages_of_the_machine() -> None:
    """Where no node object tells of them, only the QoS update's lift is known."""
    capacity = {"cpu": "4", "memory": f"{8 * GIB}", "hugepages-2Mi": "8Mi", "hugepages-1Gi": "0"}
    reported = (1.0, NodeObserved(cpus=4, memory_capacity_bytes=8 * GIB, capacity=capacity))
    for version, steps, limits, verdict in (
        ("1.20.2", [reported], {"2MB": 8 * 2**20, "1GB": 0}, "match"),
        ("1.20.2", [reported], {"2MB": 9 * 2**20}, "impossible"),
        ("1.20.2", [reported], {"64KB": 0}, "match"),
        ("1.20.2", [reported], {"64KB": 4096}, "impossible"),
        ("1.20.2", [], {"2MB": 8 * 2**20}, "unverifiable"),
        ("1.36.2", [], {"2MB": 8 * 2**20}, "unverifiable"),
    ):
        found = only([*start(version), *steps, (10, root(hugetlb_limit_bytes=limits))])
        assert found.verdict == verdict, found.why


def test_two_capacities() -> None:
    node = NodeObserved(
        cpus=4, memory_capacity_bytes=8 * GIB, capacity={"cpu": "8", "memory": f"{8 * GIB}"}
    )
    found = [o for o in outcomes(scene(*start(), (5, node))) if isinstance(o, Contradiction)]
    assert ["cpu" in each.why for each in found] == [True]


# QoS levels ---------------------------------------------------------------------------------


def level(shares: int, memory: int = NO_LIMIT_V1[0]) -> CgroupUpdated:
    """``burstable``."""
    return cgroup("kubepods/burstable", cpu_shares=shares, memory_limit_bytes=memory)


def test_pods_that_came_before_the_write_count() -> None:
    steps: list[tuple[float, Body]] = [
        *start(),
        (10, added("a")),
        (10.01, QOSCgroupsUpdated()),
        (15, pod("a", requests={"cpu": "1"})),
        (58, added("b")),
        (58.01, QOSCgroupsUpdated()),
        (60.5, QOSCgroupsUpdated()),
        (61, pod("b", requests={"cpu": "500m"})),
    ]
    assert only([*steps, (61, level(1536)), LATER]).verdict == "match"
    assert only([*steps, (61, level(1024)), LATER]).verdict in ("match", "admissible")
    assert only([*steps, (61, level(512)), LATER]).verdict == "impossible"
    assert only([*steps, (61, level(512))]).verdict == "unverifiable", "the log ends before"
    # A snapshot in which it is as it was, though it had to be written anew.
    left = [*steps, (5, level(2)), (62, cgroup("kubepods/besteffort")), LATER]
    (missed,) = (f for f in findings(scene(*sorted(left, key=lambda step: step[0])))
                 if f.recorded is None)  # fmt: skip
    assert "still holds what it did before: cpu.shares is 2 and had to be 1536" in missed.why


HALF: dict[str, Any] = {"featureGates": {"QOSReserved": True}, "qosReserved": {"memory": "50%"}}


@pytest.mark.parametrize(
    ("settings", "memory", "values", "verdict"),
    [
        # Half of what Guaranteed pods request is kept from burstable.
        (HALF, "2Gi", level(2, 7 * GIB - GIB), "match"),
        (HALF, "2Gi", level(2, 6 * GIB + 4096), "impossible"),
        ({**HALF, "qosReserved": {"memory": "100%"}}, "6Gi", level(2, 8 * GIB), "unverifiable"),
        # Far below the machine's memory the kernel may have refused it, and the usage stands.
        ({**HALF, "qosReserved": {"memory": "100%"}}, "6Gi", level(2, 2 * GIB), "unverifiable"),
        ({**HALF, "qosReserved": {"memory": "100%"}}, "6Gi", level(2, 9 * GIB), "impossible"),
        ({**HALF, "qosReserved": {"memory": "0%"}}, "2Gi", level(2, 7 * GIB), "match"),
        ({**HALF, "qosReserved": None}, "2Gi", level(2, 6 * GIB), "match"),
        # Without the gate no limit is written, and whatever stood there stays.
        ({"qosReserved": {"memory": "50%"}}, "2Gi", level(2, 6 * GIB), "match"),
        ({}, "2Gi", level(3), "impossible"),
        # None writes process IDs; huge pages are not limited.
        ({}, "2Gi", cgroup("kubepods/besteffort", other={"pids.max": "9"}), "impossible"),
        ({}, "2Gi", cgroup("kubepods/besteffort", hugetlb_limit_bytes={"2MB": 2**62}), "match"),
    ],
)
def test_values_of_a_class(
    settings: dict[str, Any], memory: str, values: CgroupUpdated, verdict: str
) -> None:
    """With one Guaranteed pod of 1 CPU."""
    limits = {"cpu": "1", "memory": memory}
    steps: list[tuple[float, Body]] = [
        *start(**settings), (10, added("a")), (10.01, QOSCgroupsUpdated()),
        (15, pod("a", requests=limits, limits=limits)), (60.5, QOSCgroupsUpdated()),
        (62, values), LATER,
    ]  # fmt: skip
    assert only(steps).verdict == verdict


@pytest.mark.parametrize(
    ("written_s", "missing"), [(0.4, "the kubelet's log before its first line"), (12, None)]
)
def test_a_write_right_after_the_log_begins(written_s: float, missing: str | None) -> None:
    """The process may just have been started: not all pods of the lists before counted by then."""
    (_, begun), *others = [each for each in start() if not isinstance(each[1], QOSCgroupsUpdated)]
    told = status_of("c1", startedAt="2026-01-01T00:00:00Z")
    steps: list[tuple[float, Body]] = [
        (-30, told), (0, msgspec.structs.replace(begun, from_start=False)), *others,
        (written_s, QOSCgroupsUpdated()), (written_s + 0.2, told), (20, added("b")),
        (20.1, pod("b")), (30, level(2)), LATER,
    ]  # fmt: skip
    found = only(steps)
    assert found.missing == (() if missing is None else (missing,))
    assert found.verdict == ("impossible" if missing is None else "unverifiable")


# Writes -------------------------------------------------------------------------------------


def reported(name: str, operation: Any, source: str = "api") -> PodConfigChanged:  # noqa: ANN401
    return PodConfigChanged(
        namespace="d", pod=name, pod_uid=f"u-{name}", operation=operation, source=source
    )


def killed(name: str, reason: str | None, grace_s: int = 2) -> ContainerKilled:
    return ContainerKilled(
        namespace="d", pod=name, pod_uid=f"u-{name}", container="c", container_id=f"c-{name}",
        reason=reason, message=None, grace_period_s=grace_s,
    )  # fmt: skip


def ended(name: str) -> ContainerDied:
    return ContainerDied(
        namespace="d", pod=name, pod_uid=f"u-{name}", container="c", container_id=f"c-{name}",
        sandbox=False, exit_code=137,
    )  # fmt: skip


OVER = msgspec.structs.replace(
    pod("a"),
    status={"phase": "Failed", "containerStatuses": [{
        "name": "c", "containerID": "containerd://c-a",
        "state": {"terminated": {"exitCode": 137, "finishedAt": "1970-01-01T00:17:12Z"}},
    }]},
)  # fmt: skip


REFUSED = PodRejected(namespace="d", pod="b", pod_uid="u-b", reason="X", message="x")
AGAIN: list[tuple[float, Body]] = [(60.6, LATER[1]), LATER]
"""The log goes on."""


@pytest.mark.parametrize(
    ("steps", "at_s", "verdict"),
    [
        # Neither a beat nor a pod is there for it.
        ([], 30, "impossible"),
        ([], 90, "impossible"),  # instead of a beat
        # Without a list from then on all lines of a pod may have been left out.
        ([], 30, "unverifiable"),
        # A pod is taken down: deleted, evicted, preempted; it may take its grace period.
        ([(30, reported("a", "DELETE")),
          (33, PodTerminated(namespace="d", pod="a", pod_uid="u-a"))], 33.1, "match"),
        ([(30, killed("a", "evicted"))], 32.1, "match"),
        # By its status it ended within a second, and a relist told that late.
        ([(30, killed("a", "evicted")), (45, ended("a")),
          (45, PodTerminated(namespace="d", pod="a", pod_uid="u-a")), (50, OVER)], 32.1, "match"),
        ([(30, killed("a", "liveness_probe"))], 32.1, "impossible"),
        ([(20, reported("a", "REMOVE", "file")), (20, killed("a", "pod_deleted", 30))], 50.1,
         "match"),
        # A refused pod is taken down when it is deleted; nothing is made for it.
        ([(20, added("b")), (20.1, REFUSED), (30, reported("b", "DELETE"))], 30.1, "match"),
        ([(20, added("b")), (20.1, REFUSED)], 20.05, "impossible"),
        ([(20, added("b")), (20.1, REFUSED)], 30.1, "impossible"),
        # What fails is tried again until the pod is gone.
        ([(13, reported("a", "DELETE"))], 90, "match"),
        # Each new pod has one; its coming may be told behind it, or by a list alone.
        ([(20, added("b"))], 20.1, "match"),
        ([(20, added("b")), (20.05, QOSCgroupsUpdated()), (20.07, began("c-b", "b"))], 20.1,
         "impossible"),
        ([(20.03, reported("b", "RECONCILE"))], 20.02, "match"),
        ([(20.03, pod("b"))], 20.02, "match"),
        # Rotated pieces of a log may overlap.
        ([], 10.01, "match"),
    ],
)  # fmt: skip
def test_writes(steps: list[tuple[float, Body]], at_s: float, verdict: str) -> None:
    shown = [(125.0, pod("a"))] if verdict == "impossible" else []
    scene_: list[tuple[float, Body]] = [
        *start(),
        *shown,
        (10, added("a")),
        (10.01, QOSCgroupsUpdated()),
        (11, began("c-a", "a")),
        (12, pod("a")),
        *steps,
        (at_s, QOSCgroupsUpdated()),
        (60.5 if at_s < 60.5 else 120.5, QOSCgroupsUpdated()),
        *AGAIN,
    ]
    records = scene(*sorted(scene_, key=lambda step: step[0]))
    found = findings(records, kind=QOSCgroupsUpdated.kind)
    start_ns = records[0].ts_ns
    judged = [f.verdict for f in found if round((f.ts_ns - start_ns) / 1e9, 3) == at_s]
    assert judged[-1] == verdict
    assert {f.verdict for f in found} <= {"match", verdict}


@pytest.mark.parametrize(
    ("from_start", "times", "verdicts"),
    [
        # The first beat is the start's; a clock that is set begins another run of them.
        (True, [0.5, 60.5, 120.5, 200, 260.001], ["match"] * 5),
        (True, [0.5, 30, 60.5], ["match", "a list of the pods from then on", "match"]),
        # What comes in between, two minutes before the beats of another clock, is none.
        (True, [0.5, 10, 60.5, 129.8, 189.8, 249.8],
         ["match", "a list of the pods from then on", *["match"] * 4]),
        (True, [0.5, 30], ["match", "the next line of the minute timer"]),
        # Where the start is not told, two a minute apart are beats.
        (False, [30], ["the start of the minute timer"]),
        (False, [30, 90.001], ["match", "match"]),
        # For a minute pods of another process may still go.
        (False, [30, 60, 90],
         ["match", "the pods that were removed before the process started", "match"]),
    ],
)  # fmt: skip
def test_beats_of_the_timer(from_start: bool, times: list[float], verdicts: list[str]) -> None:
    (_, begun), *others = [each for each in start() if not isinstance(each[1], QOSCgroupsUpdated)]
    begun = msgspec.structs.replace(begun, from_start=from_start)
    steps = [(0.0, begun), *others, *((at, QOSCgroupsUpdated()) for at in times)]
    found = findings(scene(*steps), kind=QOSCgroupsUpdated.kind)
    assert [f.missing[0] if f.missing else f.verdict for f in found] == verdicts
    assert [bool(f.recorded) for f in found] == [bool(f.missing) for f in found]


@pytest.mark.parametrize(
    ("reserve", "percent", "verdict"),
    [(GIB, 50, "match"), (2 * GIB, 50, "impossible"), (GIB, 40, "impossible")],
)
def test_what_a_write_reckoned_with(reserve: int, percent: int, verdict: str) -> None:
    logged = QOSReserveComputed(
        qos_class="Burstable", requested_bytes=reserve, reserve_percent=percent
    )
    steps: list[tuple[float, Body]] = [
        *start(**HALF), (10, added("a")), (10.01, QOSCgroupsUpdated()), (11, began("c-a", "a")),
        (15, pod("a", requests={"memory": "1Gi"})), (60.49, logged), (60.5, QOSCgroupsUpdated()),
        (75, LATER[1]),
    ]  # fmt: skip
    assert only(steps, QOSCgroupsUpdated).verdict == verdict


@pytest.mark.parametrize(
    ("signals", "at", "from_start", "verdict"),
    [
        ([20, 30, 40, 50, 60, 70], 75, True, "impossible"),
        ([20, 30, 40, 50, 60, 70], 75, False, "unverifiable"),
        ([20, 30, 40], 100, False, "unverifiable"),
        ([20, 30, 40], 100, True, "unverifiable"),
        ([], 100, False, "unverifiable"),
    ],
)
def test_the_log_before_a_start_is_lost(
    signals: list[float], at: float, from_start: bool, verdict: str
) -> None:
    """Where the first lines of a process are, or it was silent before, pods may have come then."""
    restart = kubelet_of(pid=2, restart=True, from_start=from_start)
    again = [(at + 30, QOSCgroupsUpdated()), *((at + late, LATER[1]) for late in (1, 11, 21, 31))]
    steps = [
        *start(), (10, added("a")), (10.01, QOSCgroupsUpdated()), (15, pod("a")),
        (15, began("c1", "a")), *((second, LATER[1]) for second in signals),
        (60.5, QOSCgroupsUpdated()), (66, level(1024)), (at, restart), *again,
    ]  # fmt: skip
    found = only(sorted(steps, key=lambda step: step[0]))
    assert found.verdict == verdict
    assert bool(found.missing) is (verdict != "impossible")


# Removals -----------------------------------------------------------------------------------


def running() -> list[tuple[float, Body]]:
    """A pod with a container, both shown by a snapshot; the log tells of deaths."""
    return [
        *start(),
        (8, added("other")),
        (8.1, began("x", "other")),
        (8.2, died("x", "other")),
        (9, added()),
        (9.1, began("c1")),
        (10, pod(requests={"cpu": "1"}, restartPolicy="Always")),
        (10, cgroup(BURST, cpu_shares=1024)),
        (10, cgroup(f"{BURST}/c1", container="c", cpu_shares=1024)),
    ]


def test_a_container_is_named_by_the_line_of_its_start() -> None:
    unnamed = cgroup(f"{BURST}/c1", cpu_shares=1024)
    assert only([*running()[:-1], (10, unnamed)]).verdict == "match"


def test_what_a_record_does_not_hold_is_null() -> None:
    unnamed = msgspec.structs.replace(cgroup(f"{BURST}/c1", cpu_shares=1024), pod_uid=None)
    found = only([*running()[:-1], (10, unnamed)])
    assert found.verdict == "impossible"
    assert found.why.startswith("pod_uid is null and had to be u-web: ")


def test_a_path_that_is_no_known_one_has_the_class_of_its_record() -> None:
    odd = msgspec.structs.replace(cgroup("kubepods/burstable"), cgroup="odd/path")
    assert (
        only([*running(), (10, odd)]).why
        == only([*running(), (10, cgroup("kubepods/burstable"))]).why
    )


def status_of(container_id: str, state: str = "running", **times: str | int) -> PodListed:
    """The kubelet's list, with a status of the container."""
    status = {
        "name": "c",
        "containerID": f"containerd://{container_id}",
        "restartCount": int(container_id != "c1"),
        "state": {state: times},
    }
    listed = pod(requests={"cpu": "1"}, restartPolicy="Always")
    whole = {"phase": "Running", "containerStatuses": [status]}
    return msgspec.structs.replace(listed, status=whole)


def event() -> KubernetesEvent:
    return KubernetesEvent(object_kind="Pod", namespace="d", pod="web", pod_uid=None, reason="x",
                          type="Normal", message="")  # fmt: skip


AT_50 = "1970-01-01T00:17:30Z"
NEXT = kubelet_of("1.30.1", pid=2, restart=True)


def removed(path: str) -> CgroupRemoved:
    return CgroupRemoved(cgroup=path, pod_uid="u-web")


@pytest.mark.parametrize(
    ("before", "path", "after", "verdict"),
    [
        ([(20, died("c1"))], f"{BURST}/c1", [(40, began("c2"))], "match"),
        ([], f"{BURST}/c1", [(27, died("c1"))], "match"),
        ([], f"{BURST}/c1", [(80, died("c1"))], "impossible"),
        ([], f"{BURST}/c1", [(27, began("c2"))], "match"),
        ([], f"{BURST}/c1", [(40, began("y", "other"))], "unverifiable"),
        ([], f"{BURST}/c1", [(40, cgroup(f"{BURST}/c1", cpu_shares=1024))], "impossible"),
        ([], f"{BURST}/c1", [(90, status_of("c1"))], "impossible"),
        ([], f"{BURST}/c1", [(60, status_of("c1"))], "unverifiable"),
        ([], f"{BURST}/c1", [(60, status_of("c1", "terminated"))], "match"),
        ([], f"{BURST}/c1", [(60, status_of("c1", "terminated", finishedAt=AT_50))], "impossible"),
        ([], f"{BURST}/c1", [(60, status_of("c2"))], "match"),
        # The next process tells at its start what ended before it, and what runs.
        ([], f"{BURST}/c1", [(40, NEXT), (41, died("c1"))], "match"),
        ([], f"{BURST}/c1", [(40, NEXT), (41, began("c1")), (42, died("c1"))], "impossible"),
        # It was no earlier than that start, whenever its first relist comes to an end.
        ([(22, NEXT)], f"{BURST}/c1", [(44, began("c1")), (90, began("y", "other"))],
         "unverifiable"),
        # What the runtime had lost had ended when nobody knows.
        ([], f"{BURST}/c1", [(60, status_of("c1", "terminated", finishedAt=AT_50, exitCode=255))],
         "match"),
        ([], f"{BURST}/c1", [], "unverifiable"),
        ([], f"{BURST}/c7", [(40, began("y", "other"))], "unverifiable"),
        ([], BURST, [(40, began("y", "other"))], "unverifiable"),
        ([], BURST, [(40, cgroup("kubepods/besteffort"))], "impossible"),
        ([(20, died("c1"))], BURST, [(40, began("y", "other"))], "unverifiable"),
        ([(20, PodTerminated(namespace="d", pod="web", pod_uid="u-web"))], BURST,
         [(40, began("y", "other"))], "match"),
        ([], "kubepods/burstable/podu-never", [(40, began("y", "other"))], "unverifiable"),
        ([], "kubepods/burstable", [(40, began("y", "other"))], "impossible"),
        # A log that ends before the snapshot is over tells no death.
        ([(20, LATER[1])], f"{BURST}/c1", [(90, event())], "unverifiable"),
        # Everything is gone at once: that says more of the reading than of the kubelet.
        ([(25, removed(BURST)), (25, removed(f"{BURST}/c1"))], "kubepods/burstable",
         [(40, began("y", "other"))], "unverifiable"),
    ],
)  # fmt: skip
def test_removals(
    before: list[tuple[float, Body]], path: str, after: list[tuple[float, Body]], verdict: str
) -> None:
    steps = [*running(), *before, (25.0, removed(path)), *after]
    found = only(steps, CgroupRemoved)
    assert found.verdict == verdict, (found.why, found.missing)
    assert (found.recorded != {"cgroup": path}) is (verdict == "unverifiable"), "the whole of it"
    if any(isinstance(body, ContainerDied) for _, body in after) and verdict == "impossible":
        assert found.why.startswith("container c1 ran until 1970-01-01T00:1"), found.why


def test_a_removal_is_denied_by_the_snapshot_that_shows_what_is_below() -> None:
    below = (40.0, cgroup(f"{BURST}/c1", cpu_shares=1024))
    records = scene(*running(), (25.0, removed(BURST)), below)
    found = findings(records, kind=CgroupRemoved.kind)[-1]
    assert (found.verdict, found.inputs) == ("impossible", (records[-1].seq,))


def test_of_cgroups_that_are_there_what_was_seen_is_never_forgotten() -> None:
    gone, later = "kubepods/besteffort/podu-gone", "kubepods/besteffort/podu-later"
    records = scene((10, cgroup(BURST)), (10, cgroup(gone)), (900, cgroup(later)))
    removals = Removals(VerifyContext())
    for record in records:
        removals.prescan(record, record.body)
    removals.derive(records[-1].ts_ns, evolve(NodeState(), records[0]))
    assert set(removals._seen) == {BURST, later}


# What is being made ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weight", "started_s", "verdict"),
    [
        ("100", 61, "admissible"),  # systemd made the scope, the runtime has not filled it in
        ("77", 61, "impossible"),  # nobody writes that
        ("100", 30, "impossible"),  # it ran long before
    ],
)
def test_a_cgroup_that_is_not_written_yet(weight: str, started_s: int, verdict: str) -> None:
    """A snapshot reads a container's cgroup between its creation and its start."""
    steps: list[tuple[float, Body]] = [
        *start(cgroupDriver="cgroupfs"),
        (1, added()),
        (2, pod(requests={"cpu": "2"})),
        (started_s, began("c1")),
        (60, unified(f"{BURST}/c1", weight)),
        LATER,
    ]
    assert only(sorted(steps, key=lambda step: step[0])).verdict == verdict


@pytest.mark.parametrize(("shares", "verdict"), [(1024, "match"), (512, "unverifiable")])
def test_a_static_pod_of_a_changed_manifest(shares: int, verdict: str) -> None:
    """Its UID is that of its manifest: what lists show under another is another pod's spec."""
    replace = msgspec.structs.replace
    former = replace(pod("a", static=True, requests={"cpu": "500m"}), pod_uid="0")
    steps: list[tuple[float, Body]] = [
        *start(),
        (5, former),
        (6, replace(former, gone=True, spec=None, status=None)),
        (10, replace(reported("a", "ADD", "file"), pod_uid="1")),
        (11, began("c1", "a")),
        (11.01, QOSCgroupsUpdated()),
        (60.5, QOSCgroupsUpdated()),
        (61, level(shares)),
        (65, pod("a", static=True, requests={"cpu": "1"})),
        LATER,
    ]
    assert only(steps).verdict == verdict
