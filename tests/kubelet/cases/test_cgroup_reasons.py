"""The rule that a refuted claim about cgroup values names: request, limit, sum, clamp or gate."""

from typing import Any

import pytest

from tests.kubelet.cases.lines import Lines, container, pod

GIB = 1 << 30
BOTH = {"cpu": "500m", "memory": "1Gi"}
STATIC = pod(container(requests={"memory": "1Gi"}))
STATIC["metadata"]["annotations"] = {"kubernetes.io/config.source": "file"}
LEVEL = pod(
    container("c0", requests={"cpu": "100m", "memory": "1Gi"}),
    container("c1"),
    resources={"requests": {"cpu": "2", "memory": "3Gi"}, "limits": {"cpu": "4", "memory": "6Gi"}},
)
SIDECARS = pod(
    container("c0", limits={"cpu": "1"}),
    initContainers=[
        container("side", limits={"cpu": "1"}, restartPolicy="Always"),
        container("i0"),
    ],
    overhead={"cpu": "250m"},
)


def changed(subsystem: str, version: str, case_input: object, path: str, value: object) -> str:
    """Why an outcome with another value at a path is impossible."""
    lines = Lines(subsystem)
    outcome = lines.decided(version, case_input)
    *parents, last = path.split("/")
    node: Any = outcome
    for key in parents:
        node = node[key]
    if value == "absent":
        del node[last]
    else:
        node[last] = value
    verdict, why = lines.judged(version, case_input, outcome)
    assert verdict == "impossible"
    return why


def a_pod(case_pod: dict[str, Any], **changes: object) -> dict[str, Any]:
    """An input of ``cgroup``."""
    settings = {"cpuCFSQuota": True, "cpuCFSQuotaPeriodUs": 100000, "memoryCapacity": 8 * GIB}
    return {"pod": case_pod, **settings, **changes}


ONE = pod(container(requests=BOTH))
SMALL = pod(container(requests={"cpu": "1m"}, limits={"cpu": "1m", "memory": "1Gi"}))

POD_REASONS = [
    ("1.36.2", a_pod(ONE), "qosClass", "Guaranteed", "container c0 has no cpu limit"),
    ("1.36.2", a_pod(pod(container(limits=BOTH))), "qosClass", "BestEffort",
     "what is requested in its containers is not all limited to the same amount"),
    ("1.36.2", a_pod(pod(container())), "qosClass", "Burstable",
     "its containers neither request nor limit cpu or memory, or only 0"),
    ("1.36.2", a_pod(LEVEL), "qosClass", "Guaranteed",
     "what is requested in spec.resources is not all limited to the same amount"),
    ("1.36.2", a_pod(ONE | {"status": {"qosClass": "Guaranteed"}}), "qosClass", "Burstable",
     "the pod's status says so"),
    ("1.36.2", a_pod(ONE), "containers/c0/cpuQuota", 1000, "no cpu limit is set"),
    ("1.36.2", a_pod(ONE), "containers/c0/memoryLimit", 1, "no memory limit is set"),
    ("1.36.2", a_pod(ONE), "pod/cpuQuota", 1,
     "container c0 has no cpu limit, so the pod has none"),
    ("1.36.2", a_pod(ONE), "pod/memoryLimit", 1,
     "container c0 has no memory limit, so the pod has none"),
    ("1.36.2", a_pod(ONE), "pod/hugePageLimits", {"2097152": 0},
     "no resource hugepages-<size> of this size is requested"),
    ("1.36.2", a_pod(ONE), "containers/c1", {}, "the pod has no such container"),
    ("1.36.2", a_pod(ONE), "containers/c0", "absent", "the pod has this container"),
    ("1.36.2", a_pod(pod(container())), "pod/cpuShares", 3,
     "a BestEffort pod has the least shares, 2"),
    ("1.36.2", a_pod(pod(container())), "pod/cpuPeriod", 3, "a BestEffort pod is not limited"),
    ("1.36.2", a_pod(pod(container())), "containers/c0/oomScoreAdj", 3,
     "all containers of BestEffort pods have this"),
    ("1.36.2", a_pod(SMALL), "containers/c0/cpuShares", 1,
     "the container requests 1 m of cpu, and 2 shares are the least"),
    ("1.36.2", a_pod(SMALL), "pod/cpuQuota", 100,
     "cpu is limited to 1 m by all that runs in the pod, and a quota of 1000 is the least"),
    ("1.36.2", a_pod(SMALL), "containers/c0/oomScoreAdj", 1000,
     "no thousandth of the node's memory is requested, and 1000 is for BestEffort pods"),
    ("1.36.2", a_pod(SMALL, cpuCFSQuota=False), "pod/cpuQuota", 1000,
     "cpuCFSQuota is off, so a limited pod has the quota -1"),
    ("1.36.2", a_pod(SMALL, cpuCFSQuota=False), "containers/c0/cpuPeriod", 1,
     "cpuCFSQuota is off"),
    ("1.36.2", a_pod(SIDECARS), "pod/cpuQuota", 1,
     "cpu is limited to 2250 m by all that runs in the pod, overhead included, and "
     "2250 * 100000 / 1000 = 225000"),
    ("1.36.2", a_pod(SIDECARS), "containers/c0/cpuShares", 2,
     "no cpu is requested, so the limit of the container counts, 1000 m, and "
     "1000 * 1024 / 1000 = 1024"),
    ("1.36.2", a_pod(LEVEL), "pod/cpuShares", 102,
     "2000 m of cpu are requested by spec.resources, and 2000 * 1024 / 1000 = 2048"),
    ("1.36.2", a_pod(LEVEL), "containers/c1/memoryLimit", 0,
     "this is the memory limit of spec.resources"),
    ("1.36.2", a_pod(LEVEL), "containers/c0/oomScoreAdj", 875,
     "of the node's 8589934592 bytes of memory 1073741824 are requested, and the container's "
     "part of what spec.resources requests beyond its containers"),
    ("1.36.2", a_pod(ONE), "containers/c0/oomScoreAdj", 1,
     "of the node's 8589934592 bytes of memory 1073741824 are requested, and "
     "1000 - 1000 * 1073741824 / 8589934592 = 875"),
    ("1.21.0", a_pod(STATIC), "containers/c0/oomScoreAdj", 875,
     "all containers of a critical pod are protected with this"),
    ("1.23.0", a_pod(pod(container(requests={"cpu": "300"}))), "pod/cpuShares", 307200,
     "300000 m of cpu are requested by all that runs in the pod, and 262144 shares are the most"),
]  # fmt: skip


@pytest.mark.parametrize(("version", "case_input", "path", "value", "reason"), POD_REASONS)
def test_pod_and_container_values(
    version: str, case_input: dict[str, Any], path: str, value: object, reason: str
) -> None:
    why = changed("cgroup", version, case_input, path, value)
    assert why.split(": ", 1)[1] == reason


def v2(case_pod: dict[str, Any], **changes: object) -> dict[str, Any]:
    """An input of ``cgroupv2`` with MemoryQoS and LimitedSwap."""
    settings = {
        "memoryCapacity": 8 * GIB,
        "swapCapacity": 4 * GIB,
        "nodeAllocatableMemory": "8Gi",
        "memoryQoS": True,
        "memoryThrottlingFactor": 0.5,
        "swapBehavior": "LimitedSwap",
    }
    return {"pod": case_pod, **settings, **changes}


HALF = pod(container(requests={"memory": "512Mi"}, limits={"memory": "1Gi"}))
EQUAL = pod(container(requests={"memory": "1Gi"}, limits={"memory": "1Gi"}))
TIERED = {"memoryReservationPolicy": "TieredReservation"}
FILES = "containers/c0/unified/"

UNIFIED_REASONS = [
    ("1.36.2", v2(HALF), "pod/unified/memory.min", "1",
     "memoryReservationPolicy is not TieredReservation, so nothing is reserved"),
    ("1.36.2", v2(HALF, **TIERED), "pod/unified/memory.min", "1",
     "MemoryQoS reserves what a Burstable pod requests in memory.low"),
    ("1.28.0", v2(HALF), "pod/unified/memory.min", "absent",
     "MemoryQoS reserves what the pod requests, 536870912 bytes"),
    ("1.28.0", v2(pod(container())), "pod/unified/memory.min", "1", "the pod requests no memory"),
    ("1.21.0", v2(HALF), "pod/unified/memory.min", "1", "this version has no MemoryQoS"),
    ("1.28.0", v2(HALF, memoryQoS=False), "pod/unified/memory.min", "1",
     "MemoryQoS is not enforced"),
    ("1.28.0", v2(HALF), "pod/unified/cpu.max", "1",
     "the kubelet asks for no such file of a pod"),
    ("1.36.2", v2(HALF), FILES + "memory.low", "1",
     "memoryReservationPolicy is not TieredReservation, so both files that reserve memory are "
     "set back to 0"),
    ("1.28.0", v2(HALF), FILES + "memory.high", "1",
     "536870912 + (1073741824 - 536870912) * 0.5 in whole pages, 1073741824 the limit, is "
     "805306368"),
    ("1.22.0", v2(HALF), FILES + "memory.high", "1",
     "1073741824 * 0.5, 1073741824 the limit, is not above the request of 536870912"),
    ("1.28.0", v2(EQUAL), FILES + "memory.high", "1",
     "the memory request is the limit, which leaves no room to throttle in"),
    ("1.28.0", v2(HALF), FILES + "memory.swap.max", "0",
     "the container requests 536870912 of 8589934592 bytes of memory, of 4294967296 of swap"),
    ("1.28.0", v2(EQUAL), FILES + "memory.swap.max", "1", "the memory request is the limit"),
    ("1.28.0", v2(HALF, swapBehavior=""), FILES + "memory.swap.max", "0",
     "any swapBehavior but LimitedSwap is unlimited swap"),
    ("1.27.0", v2(HALF), FILES + "memory.swap.max", "0",
     "this version does not limit swap in this file"),
    ("1.36.2", v2(HALF | {"spec": HALF["spec"] | {"priority": 2000000000}}),
     FILES + "memory.swap.max", "1", "a critical pod gets no swap"),
    ("1.28.0", v2(HALF), FILES + "memory.oom.group", "0",
     "this version has all processes of a container killed at once"),
    ("1.36.2", v2(HALF), FILES + "memory.oom.group", "1",
     "singleProcessOOMKill decides about the file, and is not false here"),
]  # fmt: skip


@pytest.mark.parametrize(("version", "case_input", "path", "value", "reason"), UNIFIED_REASONS)
def test_unified_files(
    version: str, case_input: dict[str, Any], path: str, value: object, reason: str
) -> None:
    why = changed("cgroupv2", version, case_input, path, value)
    assert why.split(": ", 1)[1] == reason


PODS = [
    pod(container(requests={"cpu": "450m", "memory": "1Gi"})),
    pod(container(requests={"cpu": "450m", "memory": "1Gi"})),
    pod(container(requests={"cpu": "450m"})),
    pod(container(limits=BOTH, requests=BOTH)),
    pod(container()),
]
QOS = {"allocatable": {"memory": "8Gi"}, "qosReservedPercent": {"memory": 50}, "activePods": PODS}
NODE = {
    "capacity": {"cpu": "4", "memory": "8Gi"},
    "systemReserved": {"cpu": "500m", "memory": "1Gi"},
    "kubeReserved": {"cpu": "4"},
    "evictionHard": {"memory.available": "100Mi"},
}

LEVEL_REASONS: list[tuple[str, str, dict[str, Any], str, object, str]] = [
    ("qos", "1.36.2", QOS, "burstable/cpuShares", 1381,
     "burstable.cpuShares is 1382, not 1381: the class requests 1350 m over 3 Burstable pods, "
     "and 1350 * 1024 / 1000 = 1382"),
    ("qos", "1.36.2", QOS, "besteffort/cpuShares", 3,
     "besteffort.cpuShares is 2, not 3: BestEffort pods share the least, 2"),
    ("qos", "1.36.2", QOS, "burstable/memoryLimit", 1,
     "burstable.memoryLimit is 8053063680, not 1: 8589934592 bytes allocatable less 50 % of the "
     "1073741824 that 1 Guaranteed pod request are 8053063680"),
    ("qos", "1.36.2", QOS, "besteffort/memoryLimit", None,
     "besteffort.memoryLimit is 6979321856, not null: the 8053063680 bytes for Burstable pods "
     "less 50 % of the 2147483648 that 3 Burstable pods request are 6979321856"),
    ("qos", "1.21.0", QOS, "kubepods", {},
     "kubepods is not written: the update of this version leaves the root of all pods out"),
    ("nodeallocatable", "1.36.2", NODE, "reservation/memory", "1Gi",
     'reservation.memory is "1124Mi", not "1Gi": it is 1Gi (systemReserved) + 100Mi (hard '
     "eviction)"),
    ("nodeallocatable", "1.36.2", NODE, "reservation/pid", "1",
     "reservation.pid is not written: the node has no such resource"),
    ("nodeallocatable", "1.36.2", NODE, "kubepods/resources/cpu", "1",
     'kubepods.resources.cpu is "0", not "1": it is the capacity, 4, less 500m (systemReserved), '
     "less 4 (kubeReserved), but not below 0"),
    ("nodeallocatable", "1.36.2", NODE, "kubepods/memoryLimit", 1,
     "kubepods.memoryLimit is 7516192768, not 1: it is the capacity, 8Gi, less 1Gi "
     "(systemReserved)"),
    ("nodeallocatable", "1.36.2", NODE, "kubepods/cpuShares", 1,
     "kubepods.cpuShares is 2, not 1: all pods may use 0 m of cpu, and 2 shares are the least"),
    ("nodeallocatable", "1.36.2", NODE, "overReserved", [],
     'overReserved is ["cpu"], not []: reserved are 4500m of 4 cpu'),
]  # fmt: skip


@pytest.mark.parametrize(
    ("subsystem", "version", "case_input", "path", "value", "why"), LEVEL_REASONS
)
def test_levels_above_the_pods(
    subsystem: str, version: str, case_input: dict[str, Any], path: str, value: object, why: str
) -> None:
    """The sums over the pods, and what of the node is reserved."""
    assert changed(subsystem, version, case_input, path, value) == why
