"""What no conformance case looks at: sidecars' scores, host page sizes, QoS files."""

import msgspec
import pytest

from kubeledger.kubelet.cgroups.container_config import (
    container_huge_page_limits,
    container_oom_score_adj,
    huge_page_unit_size,
)
from kubeledger.kubelet.cgroups.decider import decide_pod
from kubeledger.kubelet.cgroups.node_config import (
    _DEFAULT_THRESHOLDS,
    QOSRequests,
    hard_eviction_reservation,
    node_allocatable,
    qos_unified,
    reservation_of,
)
from kubeledger.kubelet.cgroups.unified import UnifiedSettings, container_files
from kubeledger.kubelet.kube.pod import Container, ObjectMeta, Pod, PodSpec, ResourceRequirements
from kubeledger.kubelet.kube.quantity import parse
from kubeledger.kubelet.profile.resolve import resolve
from kubeledger.model.bodies.cgroups import QOSClass

GIB = 1 << 30
SETTINGS = UnifiedSettings(
    memory_qos=False,
    throttling_factor=0.9,
    tiered_reservation=False,
    limited_swap=False,
    memory_capacity=GIB,
    swap_capacity=0,
    node_allocatable_memory=GIB,
)


def requests(memory: str) -> ResourceRequirements:
    return ResourceRequirements({"memory": memory})


@pytest.mark.parametrize(
    ("version", "own", "whole", "score"),
    [
        ("1.31.0", "1Gi", "", 875),
        ("1.32.0", "1Gi", "", 750),
        ("1.36.2", "4Gi", "", 500),
        ("1.32.0", "0", "", 750),
        ("1.36.2", "0", "11Gi", 500),
    ],
)
def test_sidecar_outlives_its_containers(version: str, own: str, whole: str, score: int) -> None:
    """A sidecar is scored as the container with the smallest request, if that is lower.

    Of what the pod as a whole requests beyond its containers all have an equal share.
    """
    sidecar = Container("s", requests(own), "Always")
    containers = (Container("a", requests("2Gi")), Container("b", requests("3Gi")))
    asked = requests(whole) if whole else None
    pod = Pod(spec=PodSpec(containers=containers, init_containers=(sidecar,), resources=asked))
    adjust = container_oom_score_adj(
        pod, sidecar, "Burstable", resolve(version).cgroups, memory_capacity=8 * GIB
    )
    assert adjust == score


def test_an_init_container_is_no_sidecar() -> None:
    init = Container("i", requests("0"))
    containers = (Container("a", requests("4Gi")),)
    pod = Pod(spec=PodSpec(containers=containers, init_containers=(init,)))
    facts = resolve("1.36.2").cgroups
    score = container_oom_score_adj(pod, init, "Burstable", facts, memory_capacity=8 * GIB)
    assert score == 999


@pytest.mark.parametrize(
    ("size", "name"),
    [
        (2 << 20, "2MB"),
        (1 << 30, "1GB"),
        (64 << 10, "64KB"),
        (512, "512B"),
        (3000, None),
        (1025 << 10, None),
    ],
)
def test_page_size_names(size: int, name: str | None) -> None:
    assert huge_page_unit_size(size) == name


@pytest.mark.parametrize(
    ("version", "limits"),
    [("1.33.0", {"2MB": 4 << 20, "1GB": 0}), ("1.34.0", {"2MB": 4 << 20, "1GB": 1 << 30})],
)
def test_host_page_sizes_that_nobody_asked_for_are_0(version: str, limits: dict[str, int]) -> None:
    """A container's own limit comes before the pod level's."""
    own = {"hugepages-2Mi": "4Mi", "cpu": "1", "hugepages-strange": "1"}
    level = {"hugepages-2Mi": "8Mi", "hugepages-1Gi": "1Gi"}
    container = Container("c", ResourceRequirements(limits={**own}))
    spec = PodSpec(containers=(container,), resources=ResourceRequirements(limits={**level}))
    found = container_huge_page_limits(
        Pod(spec=spec), container, ("2MB", "1GB"), resolve(version).cgroups
    )
    assert found == limits


@pytest.mark.parametrize(
    ("version", "tiered", "files"),
    [
        ("1.21.0", False, {"kubepods": {}, "burstable": {}}),
        ("1.22.0", False, {"kubepods": {"memory.min": "5"}, "burstable": {"memory.min": "3"}}),
        ("1.36.2", False, {"kubepods": {"memory.min": "0"}, "burstable": {"memory.low": "0"}}),
        ("1.36.2", True, {"kubepods": {"memory.min": "5"}, "burstable": {"memory.low": "3"}}),
    ],
)
def test_qos_files(version: str, tiered: bool, files: dict[str, dict[str, str]]) -> None:
    asked = QOSRequests(burstable_milli_cpu=0, guaranteed_memory=2, burstable_memory=3)
    assert qos_unified(asked, resolve(version).cgroups, tiered_reservation=tiered) == files


@pytest.mark.parametrize(
    ("version", "amount", "high"),
    [
        ("1.36.2", "0", None),
        ("1.37.0", "0", str(GIB // 2)),
        ("1.37.0", "64Mi", None),
        ("1.37.0", "1", None),
    ],
)
def test_memory_high_of_a_request_that_is_the_limit(
    version: str, amount: str, high: str | None
) -> None:
    """There is no room to throttle in, but for a container with neither, since 1.37."""
    amounts: dict[str, str | int | float | None] = {} if amount == "0" else {"memory": amount}
    container = Container("c", ResourceRequirements(amounts, amounts))
    settings = msgspec.structs.replace(SETTINGS, memory_qos=True, throttling_factor=0.5)
    pod, facts = Pod(spec=PodSpec(containers=(container,))), resolve(version).cgroups
    qos_class: QOSClass = "Guaranteed" if amounts else "BestEffort"
    files = container_files(pod, container, qos_class, facts, settings)
    assert files.get("memory.high") == high


@pytest.mark.parametrize(
    ("given", "hard"),
    [
        ({}, {"memory.available": "5%"}),
        ({"mergeDefaultEvictionSettings": True}, {**_DEFAULT_THRESHOLDS, "memory.available": "5%"}),
        ({"--experimental-allocatable-ignore-eviction": True}, {}),
        ({"--experimental-allocatable-ignore-eviction": "true"}, {}),
        ({"--experimental-allocatable-ignore-eviction": "false"}, {"memory.available": "5%"}),
    ],
)
def test_thresholds_that_take_off_the_capacity(
    given: dict[str, object], hard: dict[str, str]
) -> None:
    """Those that are set, with the defaults where they are merged, or none by the flag."""
    settings = {"evictionHard": {"memory.available": "5%"}, **given}
    assert reservation_of(settings.get).eviction_hard == hard


def test_signals_of_no_resource_reserve_nothing() -> None:
    """A share is one of the capacity; what stands behind another signal counts all the same."""
    hard = {"pid.available": "10%", "imagefs.available": "1Gi", "memory.available": "50%"}
    capacity = {"memory": parse("8Gi")}
    reserved = hard_eviction_reservation(hard, capacity, resolve("1.36.2").cgroups)
    assert {name: amount.canonical() for name, amount in reserved.items()} == {"memory": "4Gi"}


def test_allocatable_of_the_node() -> None:
    """Huge pages are taken from memory; nothing falls below 0."""
    capacity = {"cpu": parse("2"), "memory": parse("8Gi"), "hugepages-1Gi": parse("2Gi")}
    reservation = {"cpu": parse("3"), "memory": parse("1Gi")}
    allocatable = node_allocatable(capacity, reservation)
    assert {n: q.canonical() for n, q in allocatable.items()} == {
        "cpu": "0",
        "memory": "5Gi",
        "hugepages-1Gi": "2Gi",
    }


# -- CPUs of its own: who gets them, and that a quota goes away since 1.33 -------------------------


def container(name: str, cpu: str) -> Container:
    amounts: dict[str, str | int | float | None] = {"cpu": cpu, "memory": "1Gi"}
    return Container(name, ResourceRequirements(requests=amounts, limits=amounts))


def quotas(version: str, *containers: Container, static: bool, enforce: bool = True) -> list[int]:
    decision = decide_pod(
        Pod(spec=PodSpec(containers=containers), metadata=ObjectMeta(uid="u")),
        resolve(version).cgroups,
        enforce_cpu_limits=enforce,
        cpu_period_us=100_000,
        memory_capacity=8 * GIB,
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
    assert quotas("1.36.2", other, static=True)[1] == 200_000
