"""The worked example that explains the kubelet's cgroups: 3 cores, 8 GiB, three pods.

A Guaranteed pod of one container, a Burstable one of two, a BestEffort one; the memory of
Guaranteed and Burstable pods is reserved in full (``--qos-reserved memory=100%``).
"""

import pytest

from kubeledger.kubelet.cgroups.decider import PodDecision, decide_node, decide_pod, decide_qos
from kubeledger.kubelet.cgroups.node_config import QOSConfig, ReservationSettings
from kubeledger.kubelet.cgroups.pod_config import weight_of_shares, weight_of_shares_curved
from kubeledger.kubelet.kube.pod import Container, ObjectMeta, Pod, PodSpec, ResourceRequirements
from kubeledger.kubelet.kube.quantity import parse
from kubeledger.kubelet.profile.resolve import resolve

GIB = 1 << 30
VERSIONS = ("1.20.2", "1.28.0", "1.36.2")


def resources(cpu: str, memory: str) -> dict[str, str | int | float | None]:
    return {"cpu": cpu, "memory": memory}


ONE = resources("1", "1Gi")
BURSTABLE = Pod(
    spec=PodSpec(containers=(Container("container1", ResourceRequirements(ONE, ONE)),
                             Container("container2",
                                       ResourceRequirements(ONE, resources("2", "2Gi"))))),
    metadata=ObjectMeta(uid="b"),
)  # fmt: skip
GUARANTEED = Pod(
    spec=PodSpec(containers=(Container("container3", ResourceRequirements(ONE, ONE)),)),
    metadata=ObjectMeta(uid="g"),
)
BEST_EFFORT = Pod(spec=PodSpec(containers=(Container("container"),)), metadata=ObjectMeta(uid="e"))


def decided(pod: Pod, version: str) -> PodDecision:
    """Values on the node of the example."""
    return decide_pod(
        pod,
        resolve(version).cgroups,
        enforce_cpu_limits=True,
        cpu_period_us=100_000,
        memory_capacity=8 * GIB,
    )


def reserved(version: str, *pods: Pod) -> QOSConfig:
    """QoS levels with everything reserved."""
    return decide_qos(
        pods, resolve(version).cgroups, allocatable_memory=8 * GIB, memory_reserve_percent=100
    ).config


@pytest.mark.parametrize("version", VERSIONS)
def test_node(version: str) -> None:
    """Nothing is reserved for the system, so all pods may use the whole node."""
    capacity = {"cpu": parse("3"), "memory": parse("8Gi")}
    nothing = ReservationSettings(system_reserved={}, kube_reserved={}, eviction_hard={})
    config = decide_node(capacity, nothing, resolve(version).cgroups).config
    assert (config.cpu_shares, config.memory_limit_bytes) == (3072, 8589934592)
    assert config.cpu_quota_us is None


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("pod", "qos_class", "shares", "quota", "memory"),
    [
        (GUARANTEED, "Guaranteed", 1024, 100000, 1073741824),
        (BURSTABLE, "Burstable", 2048, 300000, 3221225472),
        (BEST_EFFORT, "BestEffort", 2, None, None),
    ],
    ids=["guaranteed", "burstable", "besteffort"],
)
def test_pods(
    version: str, pod: Pod, qos_class: str, shares: int, quota: int | None, memory: int | None
) -> None:
    """Sums of the containers; nothing but 2 shares for a pod that asks for nothing."""
    decision = decided(pod, version)
    assert decision.qos_class == qos_class
    config = decision.pod
    assert (config.cpu_shares, config.cpu_quota_us) == (shares, quota)
    assert config.memory_limit_bytes == memory


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("pod", "name", "values"),
    [
        (BURSTABLE, "container1", (1024, 100000, 1073741824, 875)),
        (BURSTABLE, "container2", (1024, 200000, 2147483648, 875)),
        (GUARANTEED, "container3", (1024, 100000, 1073741824, -997)),
        (BEST_EFFORT, "container", (2, 0, 0, 1000)),
    ],
    ids=["container1", "container2", "container3", "besteffort"],
)
def test_containers(version: str, pod: Pod, name: str, values: tuple[int, ...]) -> None:
    """Shares, quota, memory limit and OOM score; 0 is no quota and no limit."""
    c = decided(pod, version).containers[name]
    assert (c.cpu_shares, c.cpu_quota_us, c.memory_limit_bytes, c.oom_score_adj) == values


@pytest.mark.parametrize("version", VERSIONS)
def test_qos_levels(version: str) -> None:
    """Burstable has the shares of its pods; each class what the higher ones leave."""
    config = reserved(version, GUARANTEED, BURSTABLE, BEST_EFFORT)
    assert (config.burstable_shares, config.best_effort_shares) == (2048, 2)
    assert config.burstable_memory_limit == 7516192768 == 7 * GIB
    assert config.best_effort_memory_limit == 5368709120 == 5 * GIB


@pytest.mark.parametrize("version", VERSIONS)
def test_reserve_as_pods_arrive(version: str) -> None:
    """1 GiB Guaranteed takes from both classes, 2 GiB Burstable from BestEffort alone."""
    steps = [reserved(version), reserved(version, GUARANTEED)]
    steps.append(reserved(version, GUARANTEED, BURSTABLE))
    limits = [(s.burstable_memory_limit, s.best_effort_memory_limit) for s in steps]
    assert limits == [(8 * GIB, 8 * GIB), (7 * GIB, 7 * GIB), (7 * GIB, 5 * GIB)]


@pytest.mark.parametrize(
    ("shares", "linear", "curved"), [(2, 1, 1), (1024, 39, 100), (2048, 79, 174), (3072, 118, 240)]
)
def test_weights(shares: int, linear: int, curved: int) -> None:
    """Cgroup v2: the kubelet's own levels are linear, newer runtimes' containers are not."""
    assert weight_of_shares(shares) == linear
    assert weight_of_shares_curved(shares) == curved
