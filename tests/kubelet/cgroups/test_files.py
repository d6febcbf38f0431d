"""Files of cgroups above containers: as two nodes showed them, and as the example has them."""

from __future__ import annotations

import pytest

from kubeledger.kubelet.cgroups.decider import decide_node, decide_pod, decide_qos
from kubeledger.kubelet.cgroups.files import files_v1, files_v2, qos_level_configs
from kubeledger.kubelet.cgroups.node_config import ReservationSettings
from kubeledger.kubelet.cgroups.pod_config import ResourceConfig
from kubeledger.kubelet.kube.pod import Container, ObjectMeta, Pod, PodSpec, ResourceRequirements
from kubeledger.kubelet.kube.quantity import parse
from kubeledger.kubelet.kube.requests import ResourceList
from kubeledger.kubelet.profile.resolve import resolve
from tests.kubelet.cgroups.test_article import BEST_EFFORT, BURSTABLE, GUARANTEED, decided, reserved

MIB = 1 << 20
OLD, NEW = resolve("1.20.2").cgroups, resolve("1.36.2").cgroups


def a_pod(**amounts: str) -> Pod:
    """One container; ``cpu``, ``memory`` are requested, ``cpu_limit``, ``memory_limit`` limit."""
    requests: ResourceList = {n: amounts[n] for n in ("cpu", "memory") if n in amounts}
    limits: ResourceList = {n: amounts[f"{n}_limit"] for n in requests if f"{n}_limit" in amounts}
    part = ResourceRequirements(requests=requests, limits=limits)
    spec = PodSpec(containers=(Container("c", part),))
    return Pod(spec=spec, metadata=ObjectMeta(uid="u"))


def pod_config(pod: Pod) -> ResourceConfig:
    """On a node with the usual settings."""
    return decide_pod(
        pod, NEW, enforce_cpu_limits=True, cpu_period_us=100_000, memory_capacity=1 << 34
    ).pod


@pytest.mark.parametrize(
    ("amounts", "files"),
    [
        (
            {"cpu": "200m", "memory": "128Mi", "cpu_limit": "200m", "memory_limit": "128Mi"},
            {
                "memory.limit_in_bytes": "134217728",
                "cpu.shares": "204",
                "cpu.cfs_period_us": "100000",
                "cpu.cfs_quota_us": "20000",
            },
        ),
        (
            {"cpu": "250m", "memory": "160Mi", "cpu_limit": "400m", "memory_limit": "320Mi"},
            {
                "memory.limit_in_bytes": "335544320",
                "cpu.shares": "256",
                "cpu.cfs_period_us": "100000",
                "cpu.cfs_quota_us": "40000",
            },
        ),
        ({"cpu": "700m"}, {"cpu.shares": "716"}),
        ({}, {"cpu.shares": "2"}),
    ],
)
def test_pods_as_a_recorded_node_shows_them(amounts: dict[str, str], files: dict[str, str]) -> None:
    """Values of the cgroup files of kubelet 1.36.2 on cgroup v1."""
    assert files_v1(pod_config(a_pod(**amounts)), NEW) == files


def test_all_pods_and_the_classes_as_a_recorded_node_shows_them() -> None:
    """2 cores less 300m, and half of the memory requested is reserved."""
    capacity = {"cpu": parse("2"), "memory": parse(str(24471207936 + 768 * MIB))}
    settings = ReservationSettings(
        system_reserved={"cpu": parse("200m"), "memory": parse("512Mi")},
        kube_reserved={"cpu": parse("100m"), "memory": parse("256Mi")},
        eviction_hard={"memory.available": "100Mi"},
    )
    node = decide_node(capacity, settings, NEW).config
    assert files_v1(node, NEW, pids_limit=32768) == {
        "memory.limit_in_bytes": "24471207936",
        "cpu.shares": "1740",
        "pids.max": "32768",
    }
    pods = [
        a_pod(cpu="200m", memory="128Mi", cpu_limit="200m", memory_limit="128Mi"),
        a_pod(cpu="1470m", memory="356Mi"),
    ]
    qos = decide_qos(pods, NEW, allocatable_memory=24471207936, memory_reserve_percent=50)
    levels = qos_level_configs(qos.config)
    assert files_v1(levels["burstable"], NEW) == {
        "memory.limit_in_bytes": "24404099072",
        "cpu.shares": "1505",
    }
    assert files_v1(levels["besteffort"], NEW) == {
        "memory.limit_in_bytes": "24217452544",
        "cpu.shares": "2",
    }


def test_the_worked_example_with_cgroup_v2() -> None:
    """Weights are linear in shares; the BestEffort class has what is left of the memory."""
    files = {name: files_v2(decided(pod, "1.36.2").pod, NEW) for name, pod in {
        "guaranteed": GUARANTEED, "burstable": BURSTABLE, "besteffort": BEST_EFFORT
    }.items()}  # fmt: skip
    assert files == {
        "guaranteed": {
            "memory.max": "1073741824",
            "cpu.weight": "39",
            "cpu.max": "100000 100000",
        },
        "burstable": {
            "memory.max": "3221225472",
            "cpu.weight": "79",
            "cpu.max": "300000 100000",
        },
        "besteffort": {"cpu.weight": "1"},
    }
    levels = qos_level_configs(reserved("1.36.2", GUARANTEED, BURSTABLE, BEST_EFFORT))
    assert files_v2(levels["burstable"], NEW) == {
        "memory.max": str(7 << 30),
        "cpu.weight": "79",
    }
    assert files_v2(levels["besteffort"], NEW) == {
        "memory.max": str(5 << 30),
        "cpu.weight": "1",
    }


@pytest.mark.parametrize(
    ("quota", "period", "v1", "v2"),
    [
        (-1, 100_000, {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "-1"}, "max 100000"),
        (1000, 5000, {"cpu.cfs_period_us": "5000", "cpu.cfs_quota_us": "1000"}, "1000 5000"),
        (0, 5000, {"cpu.cfs_period_us": "5000"}, "max 5000"),
        (3000, None, {"cpu.cfs_quota_us": "3000"}, "3000 100000"),
        (None, None, {}, None),
    ],
)
def test_quota_and_period(
    quota: int | None, period: int | None, v1: dict[str, str], v2: str | None
) -> None:
    """0 is not written; in cgroup v2 both stand in one file."""
    config = ResourceConfig(cpu_quota_us=quota, cpu_period_us=period)
    assert files_v1(config, NEW) == v1
    assert files_v2(config, NEW) == ({} if v2 is None else {"cpu.max": v2})


@pytest.mark.parametrize(
    ("shares", "weight"), [(2, 1), (1024, 39), (262144, 10000), (300000, 10000)]
)
def test_weights(shares: int, weight: int) -> None:
    """The kubelet's own conversion."""
    assert files_v2(ResourceConfig(cpu_shares=shares), OLD) == {"cpu.weight": str(weight)}


def test_huge_pages() -> None:
    """Sizes of the host that nobody asks for are limited to 0; odd sizes are passed over."""
    config = ResourceConfig(huge_page_limits={2 * MIB: 4 * MIB, 1025: 1})
    sizes = ("2MB", "1GB")
    assert files_v1(config, OLD, page_sizes=sizes) == {
        "hugetlb.2MB.limit_in_bytes": "4194304",
        "hugetlb.1GB.limit_in_bytes": "0",
    }
    assert files_v2(config, NEW, page_sizes=sizes) == {
        "hugetlb.2MB.max": "4194304",
        "hugetlb.2MB.rsvd.max": "4194304",
        "hugetlb.1GB.max": "0",
        "hugetlb.1GB.rsvd.max": "0",
    }
    assert files_v1(config, NEW) == {}
    level = qos_level_configs(reserved("1.36.2"), [2 * MIB])["burstable"]
    assert files_v2(level, OLD, page_sizes=sizes)["hugetlb.2MB.max"] == str(1 << 62)


@pytest.mark.parametrize(("version", "there"), [("1.28.15", False), ("1.29.0", True)])
def test_reserved_huge_pages_are_limited_since_1_29(version: str, there: bool) -> None:
    """The library was brought up to date then."""
    files = files_v1(ResourceConfig(), resolve(version).cgroups, page_sizes=("2MB",))
    assert ("hugetlb.2MB.rsvd.limit_in_bytes" in files) is there


def test_files_by_name_come_last() -> None:
    """Process IDs, and what MemoryQoS asks for."""
    config = ResourceConfig(memory_limit_bytes=-1)
    files = files_v2(config, NEW, pids_limit=100, unified={"memory.min": "5"})
    assert list(files.items()) == [
        ("pids.max", "100"),
        ("memory.max", "max"),
        ("memory.min", "5"),
    ]
