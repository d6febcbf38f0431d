"""CPUs of its own: who gets them, and that a quota goes away since 1.33."""

import pytest

from kubeledger.kubelet.cgroups.decider import decide_pod
from kubeledger.kubelet.kube.pod import Container, ObjectMeta, Pod, PodSpec, ResourceRequirements
from kubeledger.kubelet.profile.resolve import resolve


def container(name: str, cpu: str) -> Container:
    return Container(
        name,
        ResourceRequirements(
            requests={"cpu": cpu, "memory": "1Gi"}, limits={"cpu": cpu, "memory": "1Gi"}
        ),
    )


def quotas(version: str, *containers: Container, static: bool, enforce: bool = True) -> list[int]:
    decision = decide_pod(
        Pod(spec=PodSpec(containers=containers), metadata=ObjectMeta(uid="u")),
        resolve(version).cgroups,
        enforce_cpu_limits=enforce,
        cpu_period_us=100_000,
        memory_capacity=8 << 30,
        static_cpu_policy=static,
    )
    assert decision.pod.cpu_quota_us is not None
    return [decision.pod.cpu_quota_us, *(c.cpu_quota_us for c in decision.containers.values())]


@pytest.mark.parametrize(
    ("version", "static", "expected"),
    [
        ("1.32.9", True, [250_000, 200_000, 50_000]),
        ("1.33.0", True, [-1, -1, 50_000]),
        ("1.36.2", True, [-1, -1, 50_000]),
        ("1.36.2", False, [250_000, 200_000, 50_000]),
    ],
)
def test_whole_cpus_have_no_quota(version: str, static: bool, expected: list[int]) -> None:
    both = (container("whole", "2"), container("half", "500m"))
    assert quotas(version, *both, static=static) == expected


def test_where_quota_is_off() -> None:
    """The container's quota stays 0, the pod's -1."""
    assert quotas("1.36.2", container("whole", "2"), static=True, enforce=False) == [-1, 0]


def test_a_pod_that_is_not_guaranteed_shares_its_cpus() -> None:
    other = Container("c", ResourceRequirements(requests={"cpu": "1"}, limits={"cpu": "2"}))
    decision = decide_pod(
        Pod(spec=PodSpec(containers=(other,)), metadata=ObjectMeta(uid="u")),
        resolve("1.36.2").cgroups,
        enforce_cpu_limits=True,
        cpu_period_us=100_000,
        memory_capacity=8 << 30,
        static_cpu_policy=True,
    )
    assert decision.containers["c"].cpu_quota_us == 200_000
