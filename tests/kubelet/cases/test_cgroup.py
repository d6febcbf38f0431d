"""Pod and container values against the recorded kubelet; version boundaries; bad input."""

from typing import Any

import pytest

from tests.kubelet.cases.lines import Lines, container, pod

LINES = Lines("cgroup")

ONE_OF_EACH = {"cpu": "1", "memory": "1Gi"}


def case(pod: dict[str, Any], **changes: object) -> dict[str, Any]:
    """An input with the usual settings."""
    settings = {"cpuCFSQuota": True, "cpuCFSQuotaPeriodUs": 100000, "memoryCapacity": 8 << 30}
    return {"pod": pod, **settings, **changes}


def value(outcome: Any, path: str) -> object:  # noqa: ANN401  # JSON
    for key in path.split("."):
        outcome = outcome[key]
    return outcome


ZERO_REQUEST = pod(container(requests={"cpu": "0"}, limits={"cpu": "1"}))
MANY_CORES = pod(container(requests={"cpu": "300"}))
UNLIMITED_INIT = pod(
    container(requests={"cpu": "500m"}, limits=ONE_OF_EACH), initContainers=[container("i0")]
)
SIDECAR = pod(
    container(requests=ONE_OF_EACH),
    initContainers=[container("s", requests=ONE_OF_EACH, restartPolicy="Always")],
)
INIT_AFTER_SIDECAR = pod(
    container(requests={"cpu": "500m"}, limits=ONE_OF_EACH),
    initContainers=[
        container("s", requests=ONE_OF_EACH, limits=ONE_OF_EACH, restartPolicy="Always"),
        container("i0"),
    ],
)
HUGE_PAGES = pod(
    container("c0", requests={"hugepages-2Mi": "4Mi"}),
    container("c1", requests={"hugepages-2Mi": "2Mi", "hugepages-2048Ki": "2Mi"}),
    initContainers=[container("i0", requests={"hugepages-2Mi": "16Mi"})],
    overhead={"hugepages-2Mi": "2Mi"},
)
STATIC = pod(container(requests={"memory": "1Gi"}))
STATIC["metadata"]["annotations"] = {"kubernetes.io/config.source": "file"}
NODE_CRITICAL = pod(
    container(requests={"memory": "1Gi"}),
    priority=2000001000,
    priorityClassName="system-node-critical",
)
GUARANTEED = pod(container(requests=ONE_OF_EACH, limits=ONE_OF_EACH))
LARGE_BURSTABLE = pod(container(requests={"memory": "8Gi"}))
IN_STATUS = pod(container(requests=ONE_OF_EACH)) | {"status": {"qosClass": "BestEffort"}}
POD_LEVEL = pod(
    container("c0", requests={"cpu": "100m", "memory": "1Gi"}),
    container("c1"),
    resources={"requests": {"cpu": "2", "memory": "3Gi"}, "limits": {"cpu": "4", "memory": "6Gi"}},
)
REQUESTS_ONLY = pod(container(), resources={"requests": {"memory": "1Gi"}})
EMPTY_POD_LEVEL = pod(container(requests=ONE_OF_EACH), resources={})

BOUNDARIES: list[tuple[str, dict[str, Any], str, str, object, str, object]] = [
    ("guaranteed score", GUARANTEED, "containers.c0.oomScoreAdj", "1.19.16", -998, "1.20.0", -997),
    ("least score", LARGE_BURSTABLE, "containers.c0.oomScoreAdj", "1.19.0", 2, "1.20.0", 3),
    ("static pod's score", STATIC, "containers.c0.oomScoreAdj", "1.21.14", -997, "1.22.0", 875),
    ("node-critical", NODE_CRITICAL, "containers.c0.oomScoreAdj", "1.21.0", -997, "1.36.2", -997),
    ("unlimited: quota", UNLIMITED_INIT, "pod.cpuQuota", "1.22.17", 100000, "1.23.0", None),
    ("unlimited: memory", UNLIMITED_INIT, "pod.memoryLimit", "1.22.0", 1 << 30, "1.23.0", None),
    ("capped shares", MANY_CORES, "containers.c0.cpuShares", "1.23.17", 307200, "1.24.0", 262144),
    ("pod's shares were", MANY_CORES, "pod.cpuShares", "1.19.0", 262144, "1.36.2", 262144),
    ("request of 0", ZERO_REQUEST, "containers.c0.cpuShares", "1.25.16", 1024, "1.26.0", 2),
    ("sidecar's shares", SIDECAR, "pod.cpuShares", "1.27.16", 1024, "1.28.0", 2048),
    ("sidecar's limit", INIT_AFTER_SIDECAR, "pod.cpuQuota", "1.27.16", None, "1.28.0", 200000),
    ("class in status", IN_STATUS, "qosClass", "1.28.15", "Burstable", "1.29.0", "BestEffort"),
    ("pod level: shares", POD_LEVEL, "pod.cpuShares", "1.33.9", 102, "1.34.0", 2048),
    ("pod level: quota", POD_LEVEL, "pod.cpuQuota", "1.33.9", None, "1.34.0", 400000),
    ("pod level: limit", POD_LEVEL, "containers.c1.memoryLimit", "1.33.9", 0, "1.34.0", 6 << 30),
    ("pod level: shares", POD_LEVEL, "containers.c1.cpuShares", "1.33.9", 2, "1.34.0", 4096),
    ("pod level: score", POD_LEVEL, "containers.c0.oomScoreAdj", "1.33.9", 875, "1.34.0", 750),
    ("requests only", REQUESTS_ONLY, "qosClass", "1.33.9", "BestEffort", "1.34.0", "Burstable"),
    ("empty level", EMPTY_POD_LEVEL, "qosClass", "1.33.9", "Burstable", "1.34.0", "BestEffort"),
]  # fmt: skip
"""name, pod, where to look, last version and its value, first version and its value."""


@pytest.mark.parametrize(
    ("case_pod", "path", "before", "old", "since", "new"),
    [row[1:] for row in BOUNDARIES],
    ids=[row[0] for row in BOUNDARIES],
)
def test_boundaries(
    case_pod: dict[str, Any], path: str, before: str, old: object, since: str, new: object
) -> None:
    """The last version with the old behaviour, the first with the new."""
    assert value(LINES.decided(before, case(case_pod)), path) == old
    assert value(LINES.decided(since, case(case_pod)), path) == new


@pytest.mark.parametrize(
    ("version", "limits"),
    [
        ("1.22.0", {"2097152": 8 << 20}),
        ("1.23.0", {"2097152": 16 << 20}),
        ("1.26.0", {"2097152": 16 << 20}),
        ("1.27.0", {"2097152": (16 + 2 + 2) << 20}),
    ],
)
def test_huge_pages_of_a_pod(version: str, limits: dict[str, int]) -> None:
    """Sum of containers; then with init containers; then all requests, by resource name."""
    assert LINES.decided(version, case(HUGE_PAGES))["pod"]["hugePageLimits"] == limits
