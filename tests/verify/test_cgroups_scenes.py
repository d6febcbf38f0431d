"""Cgroup decisions in small scenes: each branch of the rules, and what is missing for it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kubeledger.cgroups.records import (
    CgroupRemoved,
    CgroupUpdated,
    QOSCgroupsUpdated,
    QOSReserveComputed,
)
from kubeledger.images.records import EvictionSignalObserved
from kubeledger.kube.quantity import Quantity
from kubeledger.lifecycle.records import (
    ContainerDied,
    ContainerKilled,
    ContainerRestarted,
    ContainerStarted,
    PodAdmitted,
    PodConfigChanged,
    PodEvicted,
    PodListed,
    PodRejected,
    PodTerminated,
    ReasonReported,
)
from kubeledger.machine import Body, Evidence
from kubeledger.node.records import KubeletStarted, NodeObserved, Setting, SettingsObserved
from kubeledger.verify import Contradiction, Finding, run
from kubeledger.verify.rules.cgroups.node import MISSING_PIDS
from kubeledger.verify.rules.cgroups.rule import CgroupVerifier
from kubeledger.verify.rules.cgroups.values import NO_LIMIT_V1, kernel_values
from tests.verify.histories import findings, outcomes, scene

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


@pytest.fixture(autouse=True)
def only_cgroups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other subjects have tests of their own."""
    monkeypatch.setattr(run, "VERIFIERS", (CgroupVerifier,))


def start(version: str = "1.36.2", **changes: Any) -> list[tuple[float, Body]]:  # noqa: ANN401 # settings
    """A kubelet's start with its flags."""
    told = {
        name: Setting(value=msgspec.json.encode(value).decode(), source="default")
        for name, value in {**SETTINGS, **changes}.items()
    }
    return [
        (0, KubeletStarted(pid=1, kubelet_version=version, version_source="log")),
        (0.1, ROOT),
        (0.2, SettingsObserved(settings=told)),
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
    """A config source brings it."""
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
    """The finding about the last decision of a kind."""
    return findings(scene(*steps), kind=kind.kind)[-1]


LATER: tuple[float, Body] = (
    75.0, EvictionSignalObserved(signal="memory.available", available=1, capacity=2)
)  # fmt: skip
"""The log goes on."""


def began(container_id: str, pod_name: str = "web") -> ContainerStarted:
    """A container of a pod runs."""
    return ContainerStarted(
        namespace="d", pod=pod_name, pod_uid=f"u-{pod_name}", container="c",
        container_id=container_id,
    )  # fmt: skip


def died(container_id: str, pod_name: str = "web") -> ContainerDied:
    """It does no longer."""
    return ContainerDied(
        namespace="d", pod=pod_name, pod_uid=f"u-{pod_name}", container="c",
        container_id=container_id,
    )  # fmt: skip


LIMITED = {"cpu": "250m", "memory": "100Mi"}
BURST = "kubepods/burstable/podu-web"


# Pods and containers ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "values", "verdict"),
    [
        ({}, {"cpu_quota_us": 25_000}, "match"),
        ({}, {"cpu_quota_us": 26_000}, "impossible"),
        ({"cpuCFSQuota": False}, {"cpu_quota_us": -1}, "match"),
        ({"cpuCFSQuota": False}, {"cpu_quota_us": 25_000}, "impossible"),
        ({"cpuCFSQuotaPeriod": "50ms"}, {"cpu_quota_us": 12_500, "cpu_period_us": 50_000}, "match"),
        ({"podPidsLimit": 64}, {"cpu_quota_us": 25_000, "other": {"pids.max": "64"}}, "match"),
        ({"podPidsLimit": 64}, {"cpu_quota_us": 25_000, "other": {"pids.max": "9"}}, "impossible"),
        ({"cgroupDriver": "systemd"}, {"cpu_quota_us": 25_000}, "match"),
    ],
)
def test_pod_values_by_settings(
    settings: dict[str, Any], values: dict[str, Any], verdict: str
) -> None:
    """Quota, period and process IDs of a Guaranteed pod."""
    record = cgroup(
        "kubepods/podu-web", **{"cpu_shares": 256, "memory_limit_bytes": 100 * 2**20, **values}
    )
    found = only([*start(**settings), (9, added()), (10, pod(requests=LIMITED, limits=LIMITED)),
                  (10, record)])  # fmt: skip
    assert found.verdict == verdict, found.why


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
        (f"{BURST}/c1", "the memory limit of the container: 100Mi)"),
    ):
        found = only([*steps, (10, cgroup(path, container="c", **values))])
        assert (found.verdict, sums in found.why) == ("match", True), found.why
    found = only([*steps, (61, QOSCgroupsUpdated()), (62, level(256))])
    assert "250m CPU together, which are 256 shares (250 * 1024 / 1000): d/web 250m" in found.why


@pytest.mark.parametrize(("field", "line"), [("cpu_shares", 3), ("memory_limit_bytes", 4)])
def test_a_finding_is_placed_at_its_value(field: str, line: int) -> None:
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


def test_systemd_rounds_a_quota() -> None:
    """12.3 % of a CPU become 13 % where systemd writes it."""
    limits = {"cpu": "123m", "memory": "4Ki"}
    record = cgroup(
        "kubepods/podu-web", cpu_shares=125, cpu_quota_us=13_000, memory_limit_bytes=4096
    )
    steps = [(9.0, added()), (10.0, pod(requests=limits, limits=limits)), (10.0, record)]
    assert only([*start(cgroupDriver="systemd"), *steps]).verdict == "admissible"
    assert only([*start(), *steps]).verdict == "impossible"


def test_a_limit_is_cut_to_pages() -> None:
    """100000000 bytes are 24414 pages."""
    listed = pod(requests={"cpu": "1"}, limits={"memory": "100M"})
    record = cgroup(f"{BURST}/c1", container="c", cpu_shares=1024, memory_limit_bytes=99_999_744)
    assert only([*start(), (9, added()), (10, listed), (10, record)]).verdict == "match"


def test_an_init_container_has_its_own_values() -> None:
    """It is not among the containers of the decision."""
    init = {"name": "i", "resources": {"requests": {"cpu": "2"}}}
    listed = pod(requests={"cpu": "1"}, init=init)
    for shares, verdict in ((2048, "match"), (1024, "impossible")):
        record = cgroup(f"{BURST}/c1", container="i", sandbox=False, cpu_shares=shares)
        assert only([*start(), (9, added()), (10, listed), (10, record)]).verdict == verdict


@pytest.mark.parametrize(
    ("shares", "verdict"), [(2, "match"), (1024, "admissible"), (512, "impossible")]
)
def test_a_sandbox(shares: int, verdict: str) -> None:
    """The runtime's default; some runtimes leave the kernel's."""
    record = cgroup(f"{BURST}/c1", sandbox=True, cpu_shares=shares)
    listed = pod(requests={"cpu": "500m"})
    assert only([*start(), (9, added()), (10, listed), (10, record)]).verdict == verdict


def test_a_container_that_nothing_names() -> None:
    """It is one of the pod's; a value that none of them can have is impossible."""
    listed = pod(requests={"cpu": "500m"})
    for shares, verdict in ((512, "admissible"), (2, "match"), (300, "impossible")):
        record = cgroup(f"{BURST}/c1", cpu_shares=shares)
        assert only([*start(), (9, added()), (10, listed), (10, record)]).verdict == verdict


def test_what_the_state_tells_of_a_container() -> None:
    """A start by the log names it, where the record does not."""
    began = ContainerStarted(
        namespace="d", pod="web", pod_uid="u-web", container="c", container_id="c1"
    )
    record = cgroup(f"{BURST}/c1", cpu_shares=2)
    steps = [(9.0, added()), (9.5, pod(requests={"cpu": "500m"})), (9.8, began), (10.0, record)]
    assert only([*start(), *steps]).verdict == "impossible"


@pytest.mark.parametrize(
    ("listed", "record", "missing"),
    [
        (None, cgroup(BURST), "the pod's spec"),
        (pod(), cgroup("kubepods/besteffort/podu-web/c1", container="x"), "container x in the"),
        (pod(overhead={"cpu": "1m"}), cgroup("kubepods/besteffort/podu-web/s", sandbox=True),
         "the runtime's rule"),
        (pod(requests={"cpu": "x"}), cgroup(BURST), "a readable spec of the pod"),
        (pod(), cgroup("kubepods/besteffort/podu-web", cpu_shares=None, cpu_quota_us=None,
                       cpu_period_us=None, memory_limit_bytes=None), "values in the cgroup's"),
    ],
)  # fmt: skip
def test_missing_inputs(listed: PodListed | None, record: CgroupUpdated, missing: str) -> None:
    """Each is named."""
    lists = [] if listed is None else [(10.0, listed)]
    found = only([*start(), (9, added()), *lists, (10, record)])
    assert found.verdict == "unverifiable"
    assert found.missing[0].startswith(missing)


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


def test_cpus_of_its_own_need_no_quota() -> None:
    """With the static policy, since 1.33, for whole CPUs."""
    limits = {"cpu": "2", "memory": "1Gi"}
    record = cgroup("kubepods/podu-web", cpu_shares=2048, memory_limit_bytes=GIB)
    steps = [(9.0, added()), (10.0, pod(requests=limits, limits=limits)), (10.0, record)]
    assert only([*start(cpuManagerPolicy="static"), *steps]).verdict == "match"
    gate = {"DisableCPUQuotaWithExclusiveCPUs": False}
    without = start(cpuManagerPolicy="static", featureGates=gate)
    assert only([*without, *steps]).verdict == "impossible"
    assert only([*start("1.30.0", cpuManagerPolicy="static"), *steps]).verdict == "impossible"
    assert only([*start(), *steps]).verdict == "impossible"


def test_without_cgroups_per_qos() -> None:
    """There are none for pods, nor a write of the QoS level."""
    record = msgspec.structs.replace(cgroup("kubepods/besteffort/podu-web"), created=False)
    steps = [*start(cgroupsPerQOS=False), (9.0, added()), (10.0, pod()), (10.0, record)]
    assert only(steps).verdict == "impossible"
    assert only(steps, QOSCgroupsUpdated).verdict == "impossible"


# cgroup v2 ----------------------------------------------------------------------------------


def unified(path: str, weight: str, **values: Any) -> CgroupUpdated:  # noqa: ANN401 # fields
    """A cgroup v2 record without limits."""
    files = {"cpu.weight": weight, "cpu.max": "max 100000", "memory.max": "max"}
    fields: dict[str, Any] = {
        "cpu_quota_us": -1,
        "cpu_period_us": 100_000,
        "memory_limit_bytes": -1,
    }
    more = values.pop("files", {})
    return cgroup(path, unified=files | more, **{**fields, **values})


@pytest.mark.parametrize(
    ("record", "verdict"),
    [
        (unified(BURST, "39"), "match"),
        (unified(BURST, "100"), "impossible"),
        (unified(f"{BURST}/c1", "39", container="c", sandbox=False), "match"),
        (unified(f"{BURST}/c1", "100", container="c", sandbox=False), "admissible"),
        (unified(f"{BURST}/c1", "50", container="c", sandbox=False), "impossible"),
        (unified(BURST, "39", files={"memory.max": "4096"}), "impossible"),
        (unified(BURST, "39", files={"cpu.max": "1000 100000"}), "impossible"),
        (unified(BURST, "39", files={"memory.high": "4096"}), "impossible"),
        (unified(BURST, "39", files={"pids.max": "max", "memory.low": "0"}), "match"),
    ],
)
def test_unified_files(record: CgroupUpdated, verdict: str) -> None:
    """The kubelet's weight is linear; a runtime's may follow the newer formula."""
    listed = pod(requests={"cpu": "1"})
    found = only([*start(), (9, added()), (10, listed), (10, record)])
    assert found.verdict == verdict, found.why


@pytest.mark.parametrize(
    ("version", "settings", "files", "verdict"),
    [
        ("1.24.0", {}, {"memory.min": "104857600"}, "match"),
        ("1.24.0", {}, {"memory.min": "0"}, "impossible"),
        ("1.36.2", {"memoryReservationPolicy": "TieredReservation"},
         {"memory.low": "104857600"}, "match"),
        ("1.36.2", {"memoryReservationPolicy": "None"}, {"memory.low": "104857600"}, "match"),
    ],
)  # fmt: skip
def test_memory_qos_of_a_pod(
    version: str, settings: dict[str, Any], files: dict[str, str], verdict: str
) -> None:
    """Its request is protected, by the version's file; what is not written is not judged."""
    listed = pod(requests={"cpu": "1", "memory": "100Mi"})
    steps = start(version, featureGates={"MemoryQoS": True}, **settings)
    record = unified(BURST, "39", files=files)
    assert only([*steps, (9, added()), (10, listed), (10, record)]).verdict == verdict


def test_huge_pages() -> None:
    """What a pod does not ask for is 0; a QoS level has in effect no limit."""
    listed = pod(requests={"cpu": "1", "hugepages-2Mi": "4Mi"}, limits={"hugepages-2Mi": "4Mi"})
    steps = [*start(), (9.0, added()), (10.0, listed)]
    for limits, verdict in (
        ({"2MB": 4 * 2**20, "1GB": 0}, "match"),
        ({"2MB": 0, "1GB": 0}, "impossible"),
    ):
        record = cgroup(BURST, cpu_shares=1024, hugetlb_limit_bytes=limits)
        assert only([*steps, (10, record)]).verdict == verdict
    level = cgroup("kubepods/besteffort", hugetlb_limit_bytes={"2MB": 2**62})
    assert only([*steps, (10, level)]).verdict == "match"


def test_no_limit_depends_on_the_page() -> None:
    """A kernel with pages of 64 KiB shows another greatest limit."""
    values = kernel_values(unified=False, shares=[2])
    assert values["memory_limit_bytes"] == NO_LIMIT_V1
    assert NO_LIMIT_V1[0] == 9223372036854771712
    assert len(set(NO_LIMIT_V1)) == 3


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


@pytest.mark.parametrize(
    ("settings", "record", "verdict"),
    [
        ({}, root(), "match"),
        ({}, root(memory_limit_bytes=8 * GIB), "impossible"),
        ({"enforceNodeAllocatable": []}, root(cpu_shares=4096, memory_limit_bytes=8 * GIB),
         "match"),
        ({"enforceNodeAllocatable": None}, root(), "impossible"),
        ({}, root(hugetlb_limit_bytes={"2MB": 2**62}), "match"),
    ],
)  # fmt: skip
def test_the_cgroup_of_all_pods(
    settings: dict[str, Any], record: CgroupUpdated, verdict: str
) -> None:
    """Capacity less both reserves where that is enforced."""
    assert only([*start(**settings), (10, record)]).verdict == verdict


def told_pids(at_s: float = 5, capacity: int = 32_768) -> tuple[float, Body]:
    """The eviction manager tells of the machine's process IDs."""
    return (at_s, EvictionSignalObserved(signal="pid.available", available=7, capacity=capacity))


@pytest.mark.parametrize(
    ("version", "settings", "pids", "verdict"),
    [
        ("1.20.2", {}, "32768", "match"),
        ("1.36.2", {}, "32768", "match"),
        ("1.36.2", {}, "32767", "impossible"),
        ("1.36.2", {}, "max", "impossible"),
        ("1.20.2", {"systemReserved": {"pid": "768"}}, "32000", "match"),
        ("1.36.2", {"systemReserved": {"pid": "768"}}, "32768", "impossible"),
        ("1.36.2", {"podPidsLimit": 64}, "64", "impossible"),
        ("1.36.2", {"kubeReserved": {"cpu": "100m", "memory": "1Gi", "pid": "99999"}}, "max",
         "match"),
        ("1.19.0", {}, "32768", "match"),
        ("1.19.0", {"featureGates": {"SupportNodePidsLimit": False}}, "32768", "match"),
        ("1.19.0", {"featureGates": {"SupportNodePidsLimit": False,
                                     "SupportPodPidsLimit": False}}, "max", "match"),
        ("1.20.2", {"featureGates": {"SupportNodePidsLimit": False,
                                     "SupportPodPidsLimit": False}}, "max", "impossible"),
    ],
)  # fmt: skip
def test_process_ids_of_all_pods(
    version: str, settings: dict[str, Any], pids: str, verdict: str
) -> None:
    """The machine's less what is reserved of them."""
    record = root(other={"pids.max": pids})
    found = only([*start(version, **settings), told_pids(), (10, record)])
    assert found.verdict == verdict, found.why
    assert found.recorded is not None
    assert found.recorded["other"] == {"pids.max": pids}


def test_process_ids_that_nothing_tells() -> None:
    """They are not taken for right; a limit that was told at any time may have been written."""
    record = root(other={"pids.max": "32768"})
    assert only([*start(), (10, record)]).missing == (MISSING_PIDS,)
    steps = [*start(), told_pids(5, 4096), told_pids(6, 32_768), (10, record)]
    assert only([*steps]).verdict == "match"
    assert only([*steps, (20, root(other={"pids.max": "4096"}))]).verdict == "admissible"
    assert only([*steps, (20, root(other={"pids.max": "99"}))]).verdict == "impossible"


def test_process_ids_of_a_class_are_not_written() -> None:
    """They stay the kernel's; those of a container are the runtime's, and are not compared."""
    steps = [*start(), (9.0, added()), (10.0, pod(requests={"cpu": "1"}))]
    best = "kubepods/besteffort"
    assert only([*steps, (11, cgroup(best, other={"pids.max": "9"})), LATER]).verdict == (
        "impossible"
    )
    record = cgroup(f"{BURST}/c1", container="c", cpu_shares=1024, other={"pids.max": "9"})
    found = only([*steps, (11, record)])
    assert found.verdict == "match"
    assert found.recorded is not None
    assert "other" not in found.recorded
    assert found.why.endswith("; not compared: pids.max")


def test_pod_pids_behind_a_gate() -> None:
    """Before 1.20 the limit of a pod is written only with its gate."""
    settings = {"podPidsLimit": 64, "featureGates": {"SupportPodPidsLimit": False}}
    steps = [(9.0, added()), (10.0, pod(requests={"cpu": "1"}))]
    record = cgroup(BURST, cpu_shares=1024, other={"pids.max": "max"})
    assert only([*start("1.19.0", **settings), *steps, (10, record)]).verdict == "match"
    assert only([*start("1.20.2", **settings), *steps, (10, record)]).verdict == "impossible"


def test_huge_pages_of_the_machine() -> None:
    """Where no node object tells of them, only the QoS update's lift is known."""
    capacity = {"cpu": "4", "memory": f"{8 * GIB}", "hugepages-2Mi": "8Mi", "hugepages-1Gi": "0"}
    told = (1.0, NodeObserved(cpus=4, memory_capacity_bytes=8 * GIB, capacity=capacity))
    for version, steps, limits, verdict in (
        ("1.20.2", [told], {"2MB": 8 * 2**20, "1GB": 0}, "match"),
        ("1.20.2", [told], {"2MB": 9 * 2**20}, "impossible"),
        ("1.20.2", [told], {"64KB": 0}, "match"),
        ("1.20.2", [told], {"64KB": 4096}, "impossible"),
        ("1.20.2", [], {"2MB": 8 * 2**20}, "unverifiable"),
        ("1.36.2", [], {"2MB": 8 * 2**20}, "unverifiable"),
    ):
        found = only([*start(version), *steps, (10, root(hugetlb_limit_bytes=limits))])
        assert found.verdict == verdict, found.why


def test_a_machine_that_nobody_tells_of() -> None:
    """No capacity, no verdict; CPUs alone are not enough."""
    steps = [step for step in start() if step[1] is not ROOT]
    assert only([*steps, (10, root())]).missing == ("the machine's capacity",)
    less = NodeObserved(cpus=4)
    assert only([*steps, (1, less), (10, root())]).missing == ("the machine's CPUs and memory",)


def test_two_capacities() -> None:
    """The node object and the log disagree about the CPUs."""
    node = NodeObserved(
        cpus=4, memory_capacity_bytes=8 * GIB, capacity={"cpu": "8", "memory": f"{8 * GIB}"}
    )
    found = [o for o in outcomes(scene(*start(), (5, node))) if isinstance(o, Contradiction)]
    assert len(found) == 1
    assert "cpu" in found[0].why
    assert Quantity.from_api("8").value() == 8


# QoS levels ---------------------------------------------------------------------------------


def level(shares: int, memory: int = NO_LIMIT_V1[0]) -> CgroupUpdated:
    """``burstable``."""
    return cgroup("kubepods/burstable", cpu_shares=shares, memory_limit_bytes=memory)


def test_pods_that_came_before_the_write_count() -> None:
    """One pod is counted long since, the second may be."""
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


def test_a_memory_reserve() -> None:
    """Half of what Guaranteed pods request is kept from burstable."""
    settings: dict[str, Any] = {
        "featureGates": {"QOSReserved": True},
        "qosReserved": {"memory": "50%"},
    }
    limits = {"cpu": "1", "memory": "2Gi"}
    steps: list[tuple[float, Body]] = [
        *start(**settings),
        (10, added("a")),
        (10.01, QOSCgroupsUpdated()),
        (15, pod("a", requests=limits, limits=limits)),
        (60.5, QOSCgroupsUpdated()),
    ]
    assert only([*steps, (62, level(2, 6 * GIB)), LATER]).verdict == "match"
    assert only([*steps, (62, level(2, 6 * GIB + 4096)), LATER]).verdict == "impossible"
    without_gate = [*start(qosReserved={"memory": "50%"}), *steps[4:]]
    assert only([*without_gate, (62, level(2, 6 * GIB)), LATER]).verdict == "match"


def test_a_limit_by_usage() -> None:
    """A limit far below the machine's memory may have been refused, and the usage written."""
    settings: dict[str, Any] = {
        "featureGates": {"QOSReserved": True},
        "qosReserved": {"memory": "100%"},
    }
    limits = {"cpu": "1", "memory": "6Gi"}
    steps: list[tuple[float, Body]] = [
        *start(**settings),
        (10, added("a")),
        (10.01, QOSCgroupsUpdated()),
        (15, pod("a", requests=limits, limits=limits)),
        (60.5, QOSCgroupsUpdated()),
    ]
    found = only([*steps, (62, level(2, 2 * GIB)), LATER])
    assert found.missing == ("the memory usage when the limit was written",)
    assert only([*steps, (62, level(2, 9 * GIB)), LATER]).verdict == "impossible"


def test_what_is_not_written_stays() -> None:
    """A limit of a former kubelet stands there; nobody changes it."""
    steps: list[tuple[float, Body]] = [*start(), (10, added("a")), (10, pod("a"))]
    same = [*steps, (20.0, level(2, 5 * GIB)), (40.0, level(2, 5 * GIB)), LATER]
    assert only(same).verdict == "match"
    other = [*steps, (20.0, level(2, 5 * GIB)), (40.0, level(2, 6 * GIB)), LATER]
    assert only(other).verdict == "impossible"


@pytest.mark.parametrize(("requests", "owed"), [({"cpu": "1"}, True), ({}, False)])
def test_a_value_that_stays_though_pods_went(requests: dict[str, str], owed: bool) -> None:
    """Only changes are recorded; a later snapshot still shows shares that nothing asks for."""
    gone = PodConfigChanged(namespace="d", pod="a", pod_uid="u-a", operation="REMOVE", source="api")
    over = PodTerminated(namespace="d", pod="a", pod_uid="u-a")
    shares = 1024 if requests else 2
    steps: list[tuple[float, Body]] = [
        *start(), (10, added("a")), (10.01, QOSCgroupsUpdated()), (11, began("c-a", "a")),
        (12, pod("a", requests=requests)), (12, level(shares)), (30, died("c-a", "a")),
        (30.1, over), (30.2, gone), (30.3, QOSCgroupsUpdated()), (60.5, QOSCgroupsUpdated()),
        *((second, removed(f"{BURST}/c{second}")) for second in (70, 90, 100)),
        (120.5, QOSCgroupsUpdated()), (140, LATER[1]),
    ]  # fmt: skip
    found = [o for o in findings(scene(*steps)) if o.recorded is None]
    assert [(o.kind, o.subject) for o in found] == [
        (CgroupUpdated.kind, "cgroup/kubepods/burstable")
    ] * owed
    assert [(o.expected or {})["cpu_shares"] for o in found] == [2] * owed


def test_a_failed_write_gives_no_value() -> None:
    """The value may be of any write of the last minute."""
    steps: list[tuple[float, Body]] = [
        *start(),
        (10, added("a")),
        (10.01, QOSCgroupsUpdated(failed=True)),
        (12, pod("a", requests={"cpu": "1"})),
    ]
    assert {only([*steps, (12, level(shares))]).verdict for shares in (2, 1024)} <= {
        "match",
        "admissible",
    }


# Writes -------------------------------------------------------------------------------------


def test_a_write_after_a_kill() -> None:
    """A pod that is taken down."""
    gone = PodTerminated(namespace="d", pod="a", pod_uid="u-a")
    deleted = PodConfigChanged(
        namespace="d", pod="a", pod_uid="u-a", operation="DELETE", source="api"
    )
    steps: list[tuple[float, Body]] = [
        *start(),
        (10, added("a")),
        (10.01, QOSCgroupsUpdated()),
        (30, deleted),
        (33, gone),
        (33.1, QOSCgroupsUpdated()),
    ]
    found = only(steps, QOSCgroupsUpdated)
    assert (found.verdict, "d/a was being taken down" in found.why) == ("match", True)


@pytest.mark.parametrize(("own", "verdict"), [(None, "impossible"), ("Never", "match")])
def test_a_container_with_a_policy_of_its_own_may_end_its_pod(
    own: str | None, verdict: str
) -> None:
    """The pod's policy is Always."""
    container = {"name": "c", "resources": {}} | ({"restartPolicy": own} if own else {})
    steps: list[tuple[float, Body]] = [
        *start(), (1, added()), (1.1, pod(restartPolicy="Always", containers=[container])),
        (2, began("c-1")), (30, died("c-1")), (30.5, QOSCgroupsUpdated()),
        (60.5, QOSCgroupsUpdated()),
    ]  # fmt: skip
    found = findings(scene(*steps), kind=QOSCgroupsUpdated.kind)
    assert found[-2].verdict == verdict


@pytest.mark.parametrize(("deleted", "verdict"), [(True, "match"), (False, "impossible")])
def test_what_was_refused_is_taken_down_when_it_is_deleted(deleted: bool, verdict: str) -> None:
    """Its worker knows nothing of the refusal; without a deletion nothing is due."""
    refused = PodRejected(namespace="d", pod="a", pod_uid="u-a", reason="X", message="x")
    gone = PodConfigChanged(namespace="d", pod="a", pod_uid="u-a", operation="DELETE", source="api")
    steps: list[tuple[float, Body]] = [
        *start(), (1, added("a")), (1.1, refused), *([(30, gone)] if deleted else ()),
        (30.1, QOSCgroupsUpdated()), (60.5, QOSCgroupsUpdated()),
    ]  # fmt: skip
    found = findings(scene(*steps), kind=QOSCgroupsUpdated.kind)
    assert [f.verdict for f in found] == ["match", verdict, "match"]


def test_an_odd_write_waits_for_the_beat() -> None:
    """The beat shows that it was none; without a beat nothing is said."""
    steps: list[tuple[float, Body]] = [
        *start(),
        (10, added("a")),
        (10.01, QOSCgroupsUpdated()),
        (30, QOSCgroupsUpdated()),
    ]
    assert only(steps, QOSCgroupsUpdated).missing == ("the next beat of the minute timer",)
    found = findings(scene(*steps, (60.5, QOSCgroupsUpdated())), kind=QOSCgroupsUpdated.kind)
    assert [f.verdict for f in found] == ["match", "match", "impossible", "match"]


@pytest.mark.parametrize(("from_start", "verdict"), [(True, "impossible"), (False, "unverifiable")])
def test_a_write_before_anything_is_told(from_start: bool, verdict: str) -> None:
    """Behind the cut head of a log: a file tells settings of a process that began before."""
    (_, begun), *others = start()
    begun = msgspec.structs.replace(begun, from_start=from_start)
    steps = [(0, begun), *others, (30, QOSCgroupsUpdated()), (60.5, QOSCgroupsUpdated())]
    found = findings(scene(*steps), kind=QOSCgroupsUpdated.kind)
    assert found[1].verdict == verdict


def writes(steps: list[tuple[float, Body]]) -> list[str]:
    """The verdicts about the writes of the QoS level, up to the beat that follows."""
    steps = sorted([*steps, (60.5, QOSCgroupsUpdated())], key=lambda step: step[0])
    return [f.verdict for f in findings(scene(*steps), kind=QOSCgroupsUpdated.kind)]


def killed(name: str, reason: str | None, grace_s: int = 2) -> ContainerKilled:
    """The container of a pod is killed."""
    return ContainerKilled(
        namespace="d", pod=name, pod_uid=f"u-{name}", container="c", container_id=f"c-{name}",
        reason=reason, message=None, grace_period_s=grace_s,
    )  # fmt: skip


def event(name: str, reason: str) -> ReasonReported:
    """An event about a pod."""
    return ReasonReported(object_kind="Pod", namespace="d", pod=name, pod_uid=f"u-{name}",
                          reason=reason, type="Warning", message="")  # fmt: skip


@pytest.mark.parametrize(
    ("sign", "verdict"),
    [
        (killed("a", "preempted"), "match"),
        (killed("a", "evicted"), "match"),
        (killed("a", None), "match"),
        (event("a", "Preempting"), "match"),
        (event("a", "Evicted"), "match"),
        (killed("a", "liveness_probe"), "impossible"),
        (event("a", "Unhealthy"), "impossible"),
    ],
)
def test_an_end_that_only_a_kill_or_an_event_tells(sign: Body, verdict: str) -> None:
    """The line of the decision itself may be lost."""
    steps: list[tuple[float, Body]] = [
        *start(), (10, added("a")), (10.01, QOSCgroupsUpdated()), (11, began("c-a", "a")),
        (30, sign), (32.1, QOSCgroupsUpdated()), *told_on(),
    ]  # fmt: skip
    assert writes(steps) == ["match", "match", verdict, "match"]


def told_on() -> list[tuple[float, Body]]:
    """The log goes on."""
    return [(60.6, LATER[1]), LATER]


def test_an_end_that_takes_its_grace() -> None:
    """The write comes behind the kill, however long that takes."""
    removed_ = PodConfigChanged(
        namespace="d", pod="a", pod_uid="u-a", operation="REMOVE", source="file"
    )
    steps: list[tuple[float, Body]] = [
        *start(), (10, added("a")), (10.01, QOSCgroupsUpdated()), (11, began("c-a", "a")),
        (20, removed_), (20, killed("a", "pod_deleted", 30)), (50.1, QOSCgroupsUpdated()),
        *told_on(),
    ]  # fmt: skip
    assert writes(steps) == ["match", "match", "match", "match"]


def update(name: str) -> PodConfigChanged:
    """A config source changes a pod."""
    return PodConfigChanged(
        namespace="d", pod=name, pod_uid=f"u-{name}", operation="RECONCILE", source="api"
    )


@pytest.mark.parametrize(
    ("later", "verdict"),
    [
        (update("lost"), "match"),
        (began("c-lost", "lost"), "match"),
        (pod("lost"), "match"),
        (update("a"), "impossible"),
    ],
)
def test_a_pod_whose_coming_is_not_told(later: Body, verdict: str) -> None:
    """What tells of it behind its write explains the write; the others have their own."""
    if isinstance(later, ContainerStarted):
        later = msgspec.structs.replace(later, container_id="x")
    steps: list[tuple[float, Body]] = [
        *start(), (10, added("a")), (10.01, QOSCgroupsUpdated()), (10.02, QOSCgroupsUpdated()),
        (10.03, later), (10.04, added("b")), (10.05, QOSCgroupsUpdated()), *told_on(),
    ]  # fmt: skip
    assert writes(steps) == ["match", "match", verdict, "match", "match"]


def test_a_write_that_is_told_twice() -> None:
    """Rotated pieces of a log may overlap."""
    twice: list[tuple[float, Body]] = [(10.01, QOSCgroupsUpdated()), (10.01, QOSCgroupsUpdated())]
    assert writes([*start(), (10, added("a")), *twice, *told_on()]) == ["match"] * 4


RESERVE: dict[str, Any] = {
    "featureGates": {"QOSReserved": True},
    "qosReserved": {"memory": "50%"},
}


def reckoned(requested: int) -> QOSReserveComputed:
    """What Burstable pods request, as a write logs it."""
    return QOSReserveComputed(qos_class="Burstable", requested_bytes=requested, reserve_percent=50)


@pytest.mark.parametrize(("requested", "verdict"), [(1, "match"), (2, "unverifiable")])
def test_sums_wait_for_the_pods_that_are_told_late(requested: int, verdict: str) -> None:
    """A pod whose coming no line told of is in the next list; then other lines may be lost, too."""
    late = pod("lost", requests={"memory": f"{requested}Gi"})
    steps: list[tuple[float, Body]] = [
        *start(**RESERVE), (10, added("a")), (10.005, reckoned(GIB)), (10.01, QOSCgroupsUpdated()),
        (15, pod("a")), (15, late), *told_on(),
    ]  # fmt: skip
    assert writes(steps) == ["match", verdict, "match"]


def test_sums_of_a_write_whose_line_is_lost() -> None:
    """They are not those of the next write."""
    steps: list[tuple[float, Body]] = [
        *start(**RESERVE), (10, added("a")), (10.01, QOSCgroupsUpdated()), (12, pod("a")),
        (30, reckoned(GIB)), *told_on(),
    ]  # fmt: skip
    assert writes(steps) == ["match", "match", "match"]


@pytest.mark.parametrize("again", [True, False])
def test_an_end_that_the_api_may_not_know(again: bool) -> None:
    """A pod that had a final phase counts in the next process only if it is admitted there."""
    restart = KubeletStarted(pid=2, kubelet_version="1.28.0", version_source="log", restart=True)
    admitted = PodAdmitted(namespace="d", pod="a", pod_uid="u-a")
    failed = msgspec.structs.replace(pod("a", requests={"cpu": "1"}), status={"phase": "Failed"})
    settings = next(body for _, body in start() if isinstance(body, SettingsObserved))
    steps: list[tuple[float, Body]] = [
        *start("1.28.0"), (10, added("a")), (10.01, QOSCgroupsUpdated()), (20, failed),
        (30, restart), (30.1, settings), (30.5, QOSCgroupsUpdated()), (30.6, added("a")),
        *([(30.7, admitted)] if again else []), (40, PodEvicted(
            namespace="d", pod="a", pod_uid="u-a", resource="memory", message=None, evicted=True)),
        (42, QOSCgroupsUpdated()), (45, level(1024)), (90.5, QOSCgroupsUpdated()),
        (91, LATER[1]), (100, LATER[1]), (110, LATER[1]),
    ]  # fmt: skip
    assert (only(steps).verdict != "impossible") is again


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
    restart = KubeletStarted(pid=2, kubelet_version="1.36.2", version_source="log", restart=True,
                             from_start=from_start)  # fmt: skip
    again = [(at + 30, QOSCgroupsUpdated()), *((at + late, LATER[1]) for late in (1, 11, 21, 31))]
    steps = [
        *start(), (10, added("a")), (10.01, QOSCgroupsUpdated()), (15, pod("a")),
        (15, began("c1", "a")), *((second, LATER[1]) for second in signals),
        (60.5, QOSCgroupsUpdated()), (66, level(1024)), (at, restart), *again,
    ]  # fmt: skip
    found = only(sorted(steps, key=lambda step: step[0]))
    assert found.verdict == verdict
    assert bool(found.missing) is (verdict != "impossible")


@pytest.mark.parametrize(
    ("again", "shares", "verdict"),
    [(None, 2, "match"), (None, 2048, "impossible"),
     ("c2", 1024, "match"), ("c2", 2, "impossible")],
)  # fmt: skip
def test_an_end_that_no_process_after_tells_of(
    again: str | None, shares: int, verdict: str
) -> None:
    """A static pod ended once; each process after that lets it in, and finds out in silence."""
    settings = next(body for _, body in start() if isinstance(body, SettingsObserved))
    listed = pod("a", requests={"cpu": "1"}, static=True, restartPolicy="Never")
    come = msgspec.structs.replace(added("a"), source="file")
    steps: list[tuple[float, Body]] = [
        *start(), (1, come), (1.001, PodAdmitted(namespace="d", pod="a", pod_uid="u-a")),
        (1.01, QOSCgroupsUpdated()), (2, began("c1", "a")), (2.1, listed), (5, died("c1", "a")),
        (5.1, PodTerminated(namespace="d", pod="a", pod_uid="u-a")),
    ]  # fmt: skip
    for pid, at in ((2, 200.0), (3, 600.0)):
        restart = KubeletStarted(pid=pid, kubelet_version="1.36.2", version_source="log",
                                 restart=True)  # fmt: skip
        steps += [(at, restart), (at + 0.1, settings), (at + 0.5, QOSCgroupsUpdated()),
                  (at + 0.6, come),
                  (at + 0.601, PodAdmitted(namespace="d", pod="a", pod_uid="u-a"))]  # fmt: skip
        if again is not None:
            steps += [(at + 2, began(f"{again}-{pid}", "a"))]
    steps += [(660.5, QOSCgroupsUpdated()), (663, level(shares)), (720.5, QOSCgroupsUpdated()),
              (735, LATER[1])]  # fmt: skip
    found = only(steps)
    assert found.verdict == verdict, (found.why, found.missing)


def test_a_timer_whose_start_was_not_told() -> None:
    """Two writes a minute apart are beats."""
    late = [step for step in start() if not isinstance(step[1], QOSCgroupsUpdated)]
    late[0] = (0, msgspec.structs.replace(late[0][1], from_start=False))
    once: list[tuple[float, Body]] = [*late, (30, QOSCgroupsUpdated())]
    assert only(once, QOSCgroupsUpdated).missing == ("the start of the minute timer",)
    twice = findings(scene(*once, (90.001, QOSCgroupsUpdated())), kind=QOSCgroupsUpdated.kind)
    assert [f.verdict for f in twice] == ["match", "match"]


def test_the_clock_is_set() -> None:
    """The beats after it are whole minutes apart again."""
    times = [60.5, 120.5, 200, 260.001]
    found = findings(
        scene(*start(), *((at, QOSCgroupsUpdated()) for at in times)), kind=QOSCgroupsUpdated.kind
    )
    assert [f.verdict for f in found] == ["match"] * 5


# Removals -----------------------------------------------------------------------------------


def restarted(container_id: str) -> ContainerRestarted:
    """The kubelet started it again."""
    return ContainerRestarted(
        namespace="d", pod="web", pod_uid="u-web", container="c", container_id=container_id
    )


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


def status_of(container_id: str, state: str = "running") -> PodListed:
    """The kubelet's list, with a status of the container."""
    status = {
        "name": "c",
        "containerID": f"containerd://{container_id}",
        "restartCount": int(container_id != "c1"),
        "state": {state: {}},
    }
    listed = pod(requests={"cpu": "1"}, restartPolicy="Always")
    whole = {"phase": "Running", "containerStatuses": [status]}
    return msgspec.structs.replace(listed, status=whole)


def removed(path: str) -> CgroupRemoved:
    """It is gone."""
    return CgroupRemoved(cgroup=path, pod_uid="u-web")


@pytest.mark.parametrize(
    ("before", "path", "after", "verdict"),
    [
        ([(20, died("c1"))], f"{BURST}/c1", [(40, began("c2"))], "match"),
        ([], f"{BURST}/c1", [(27, died("c1"))], "match"),
        ([], f"{BURST}/c1", [(80, died("c1"))], "match"),
        ([], f"{BURST}/c1", [(27, began("c2"))], "match"),
        ([], f"{BURST}/c1", [(40, began("y", "other"))], "unverifiable"),
        ([], f"{BURST}/c1", [(40, cgroup(f"{BURST}/c1", cpu_shares=1024))], "impossible"),
        ([], f"{BURST}/c1", [(90, status_of("c1"))], "impossible"),
        ([], f"{BURST}/c1", [(60, status_of("c1"))], "unverifiable"),
        ([], f"{BURST}/c1", [(60, status_of("c1", "terminated"))], "match"),
        ([], f"{BURST}/c1", [(60, status_of("c2"))], "match"),
        ([], f"{BURST}/c1", [], "unverifiable"),
        ([], f"{BURST}/c7", [(40, began("y", "other"))], "unverifiable"),
        ([], BURST, [(40, began("y", "other"))], "unverifiable"),
        ([], BURST, [(40, cgroup("kubepods/besteffort"))], "impossible"),
        ([(20, died("c1"))], BURST, [(40, began("y", "other"))], "unverifiable"),
        ([(20, PodTerminated(namespace="d", pod="web", pod_uid="u-web"))], BURST,
         [(40, began("y", "other"))], "match"),
        ([], "kubepods/burstable/podu-never", [(40, began("y", "other"))], "unverifiable"),
        ([], "kubepods/burstable", [(40, began("y", "other"))], "impossible"),
    ],
)  # fmt: skip
def test_removals(
    before: list[tuple[float, Body]], path: str, after: list[tuple[float, Body]], verdict: str
) -> None:
    """A cgroup goes when what ran in it has ended, and not before."""
    steps = [*running(), *before, (25.0, removed(path)), *after]
    found = only(steps, CgroupRemoved)
    assert found.verdict == verdict, (found.why, found.missing)


@pytest.mark.parametrize(
    ("gone", "after"),
    [
        ("c1", [(27, died("c1")), (27.1, restarted("c1"))]),
        ("c7", [(28, began("c7")), (40, began("y", "other"))]),
    ],
)
def test_a_start_that_is_told_late(gone: str, after: list[tuple[float, Body]]) -> None:
    """What died does not run again, and a start behind the snapshot is none before it."""
    steps = [*running(), (25.0, removed(f"{BURST}/{gone}")), *after, LATER]
    assert only(steps, CgroupRemoved).verdict in ("match", "unverifiable")


@pytest.mark.parametrize("signals", [[], [11, 20, 50, 60], [11, 20, 29, 55, 65]])
def test_a_death_may_be_in_a_hole(signals: list[float]) -> None:
    """A log that ends before the snapshot is over, or is silent then, may have lost it."""
    told = [(at, LATER[1]) for at in signals]
    event = ReasonReported(object_kind="Pod", namespace="d", pod="web", pod_uid=None, reason="x",
                           type="Normal", message="")  # fmt: skip
    steps = [*running(), (25.0, removed(f"{BURST}/c1")), *told, (90.0, event)]
    steps.sort(key=lambda step: step[0])
    assert only(steps, CgroupRemoved).verdict == "unverifiable"


def test_a_snapshot_that_was_not_read_whole() -> None:
    """Everything is gone at once: that says more of the reading than of the kubelet."""
    steps = running()
    steps += [(25.0, removed(path)) for path in (BURST, f"{BURST}/c1", "kubepods/burstable")]
    found = findings(scene(*steps, (40, began("y", "other"))), kind=CgroupRemoved.kind)
    assert {f.verdict for f in found} == {"unverifiable"}
