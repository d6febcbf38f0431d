"""Values of the QoS cgroups against the recorded kubelet; version boundaries; bad input."""

from typing import Any

import pytest

from kubeledger.kubelet.cgroups.node_config import over_reserved
from kubeledger.kubelet.kube.quantity import Quantity
from tests.kubelet.cases.lines import Lines, container, pod

LINES = Lines("qos")


def case(*pods: dict[str, Any], percent: int | None = 100, memory: str = "8Gi") -> dict[str, Any]:
    """An input; without percentage no memory is reserved."""
    reserved = {} if percent is None else {"memory": percent}
    allocatable = {"memory": memory}
    return {"allocatable": allocatable, "qosReservedPercent": reserved, "activePods": list(pods)}


def test_the_root_is_written_since_1_22() -> None:
    assert "kubepods" not in LINES.decided("1.21.14", case())
    root = LINES.decided("1.22.0", case())["kubepods"]
    assert root == {"cpuShares": None, "memoryLimit": None}


def test_pod_level_memory_was_reserved_before_the_gate() -> None:
    """CPU waits for the gate; memory of spec.resources counts since 1.32."""
    requests = {"cpu": "100m", "memory": "1Gi"}
    own = {"requests": {"cpu": "2", "memory": "4Gi"}}
    with_own = pod(container(requests=requests), resources=own)
    seen = {}
    for version in ("1.31.0", "1.32.0", "1.33.0", "1.34.0"):
        outcome = LINES.decided(version, case(with_own))
        limit = outcome["besteffort"]["memoryLimit"] >> 30
        seen[version] = (outcome["burstable"]["cpuShares"], limit)
    assert seen == {"1.31.0": (102, 7), "1.32.0": (102, 4), "1.33.0": (102, 4), "1.34.0": (2048, 4)}


# -- Node reservations against the recorded kubelet; percentages; bad input ------------------------

ALLOCATABLE = Lines("nodeallocatable")


def node_case(**changes: object) -> dict[str, Any]:
    """A node of 3 cores and 8Gi with nothing reserved."""
    capacity = {"cpu": "3", "memory": "8Gi", "ephemeral-storage": "100Gi"}
    nothing: dict[str, str] = {}
    settings = {"systemReserved": nothing, "kubeReserved": nothing, "evictionHard": nothing}
    return {"capacity": capacity, **settings, **changes}


@pytest.mark.parametrize(
    ("text", "reserved"),
    [("10%", "858993472"), ("0%", None), ("100%", None), ("500Mi", "500Mi"), ("0.5%", "42949672")],
)
def test_memory_threshold(text: str, reserved: str | None) -> None:
    """A percentage is a single-precision number; 0% and 100% are no threshold."""
    case_input = node_case(evictionHard={"memory.available": text})
    reservation = ALLOCATABLE.decided("1.28.0", case_input)["reservation"]
    assert reservation.get("memory") == reserved


def test_1_20_takes_more_than_all() -> None:
    case_input = node_case(systemReserved={"memory": "9Gi", "cpu": "4"})
    assert ALLOCATABLE.decided("1.20.2", case_input)["overReserved"] == ["cpu", "memory"]
    case_input = node_case(evictionHard={"memory.available": "150%"})
    assert ALLOCATABLE.decided("1.20.2", case_input)["overReserved"] == ["memory"]
    one = Quantity.from_api("1")
    assert over_reserved({}, {"memory": one, "cpu": one}) == ["cpu", "memory"]
