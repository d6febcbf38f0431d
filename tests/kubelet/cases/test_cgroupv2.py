"""cgroup v2 files against the recorded kubelet; version boundaries; bad input."""

from typing import Any

import pytest

from tests.kubelet.cases.lines import Lines, container, pod

LINES = Lines("cgroupv2")

GIB = 1 << 30
BURSTABLE = pod(container(requests={"memory": "256Mi"}, limits={"memory": "512Mi"}))


def case(case_pod: dict[str, Any], **changes: object) -> dict[str, Any]:
    """An input without MemoryQoS and without swap."""
    settings = {
        "memoryCapacity": 8 * GIB,
        "swapCapacity": 4 * GIB,
        "nodeAllocatableMemory": "8Gi",
        "memoryQoS": False,
        "memoryThrottlingFactor": 0.9,
        "swapBehavior": "NoSwap",
    }
    return {"pod": case_pod, **settings, **changes}


def files(version: str, case_input: object) -> dict[str, str]:
    """Those of the first container."""
    unified: dict[str, str] = LINES.decided(version, case_input)["containers"]["c0"]["unified"]
    return unified


@pytest.mark.parametrize(
    ("version", "swap", "oom_group"),
    [
        ("1.20.2", None, None),
        ("1.27.0", None, None),
        ("1.28.0", "max", "1"),
        ("1.29.0", "max", "1"),
        ("1.30.0", "0", "1"),
        ("1.31.0", "0", "1"),
        ("1.32.0", "0", None),
        ("1.36.2", "0", None),
    ],
)
def test_swap_and_oom_group(version: str, swap: str | None, oom_group: str | None) -> None:
    """Without LimitedSwap swap was unlimited for two releases."""
    unified = files(version, case(BURSTABLE))
    assert unified.get("memory.swap.max") == swap
    assert unified.get("memory.oom.group") == oom_group


def test_critical_pods_lost_swap_in_1_31() -> None:
    critical = pod(container(requests={"memory": "1Gi"}), priority=2000000000)
    case_input = case(critical, swapBehavior="LimitedSwap")
    assert files("1.30.0", case_input)["memory.swap.max"] == str(GIB // 2)
    assert files("1.31.0", case_input)["memory.swap.max"] == "0"


@pytest.mark.parametrize(
    ("version", "policy", "unified"),
    [
        ("1.21.0", "None", {}),
        ("1.22.0", "None", {"memory.min": "268435456", "memory.high": "483183820"}),
        ("1.26.0", "None", {"memory.min": "268435456", "memory.high": "483183820"}),
        ("1.27.0", "None", {"memory.min": "268435456", "memory.high": "510025728"}),
        ("1.35.0", "None", {"memory.min": "268435456", "memory.high": "510025728"}),
        ("1.36.2", "None", {"memory.min": "0", "memory.low": "0", "memory.high": "510025728"}),
        ("1.36.2", "TieredReservation", {"memory.low": "268435456", "memory.high": "510025728"}),
    ],
)
def test_memory_qos(version: str, policy: str, unified: dict[str, str]) -> None:
    """256Mi of 512Mi, at a factor of 0.9."""
    case_input = case(BURSTABLE, memoryQoS=True, memoryReservationPolicy=policy)
    found = files(version, case_input)
    assert {n: v for n, v in found.items() if n in {"memory.min", "memory.low", "memory.high"}} == (
        unified
    )
    outcome = LINES.decided(version, case_input)
    protected = {n: v for n, v in unified.items() if n != "memory.high" and v != "0"}
    assert outcome["pod"]["unified"] == protected


def test_memory_high_of_best_effort() -> None:
    """Request and limit are equal, 0: no throttling since the new formula."""
    case_input = case(pod(container()), memoryQoS=True)
    assert files("1.26.0", case_input)["memory.high"] == str(int(8 * GIB * 0.9))
    assert "memory.high" not in files("1.27.0", case_input)


@pytest.mark.parametrize("version", ["1.26.0", "1.27.0", "1.36.2"])
@pytest.mark.parametrize(("limit", "factor", "written"), [
    ("9223372036854775807", 1.0, False),  # rounds to 2**63, which is negative in 64 bits
    ("9223372036854775807", 0.9, True),
    ("9223372036854774784", 1.0, True),  # the largest float below
])  # fmt: skip
def test_memory_high_near_the_end_of_64_bits(
    version: str, limit: str, factor: float, written: bool
) -> None:
    """What wraps around is no limit, and the file is left out."""
    huge = pod(container(requests={"memory": "1Gi"}, limits={"memory": limit}))
    case_input = case(huge, memoryQoS=True, memoryThrottlingFactor=factor)
    high = files(version, case_input).get("memory.high")
    assert (high is not None and int(high) > 2**62) is written
