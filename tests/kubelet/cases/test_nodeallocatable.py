"""Node reservations against the recorded kubelet; percentages; bad input."""

from typing import Any

import pytest

from tests.kubelet.cases.lines import Lines

LINES = Lines("nodeallocatable")


def case(**changes: object) -> dict[str, Any]:
    """A node of 3 cores and 8Gi with nothing reserved."""
    capacity = {"cpu": "3", "memory": "8Gi", "ephemeral-storage": "100Gi"}
    nothing: dict[str, str] = {}
    settings = {"systemReserved": nothing, "kubeReserved": nothing, "evictionHard": nothing}
    return {"capacity": capacity, **settings, **changes}


def test_nothing_reserved() -> None:
    outcome = LINES.decided("1.36.2", case())
    assert outcome["reservation"] == {}
    assert outcome["kubepods"]["cpuShares"] == 3072
    assert outcome["kubepods"]["memoryLimit"] == 8 << 30


@pytest.mark.parametrize(
    ("text", "reserved"),
    [("10%", "858993472"), ("0%", None), ("100%", None), ("500Mi", "500Mi"), ("0.5%", "42949672")],
)
def test_memory_threshold(text: str, reserved: str | None) -> None:
    """A percentage is a single-precision number; 0% and 100% are no threshold."""
    case_input = case(evictionHard={"memory.available": text})
    reservation = LINES.decided("1.28.0", case_input)["reservation"]
    assert reservation.get("memory") == reserved


def test_more_is_reserved_than_there_is() -> None:
    """The cgroup of all pods gets 0, and the kubelet does not start."""
    case_input = case(systemReserved={"cpu": "2"}, kubeReserved={"cpu": "2500m"})
    outcome = LINES.decided("1.28.0", case_input)
    assert outcome["overReserved"] == ["cpu"]
    assert outcome["kubepods"]["resources"]["cpu"] == "0"
    assert outcome["kubepods"]["cpuShares"] == 2


def test_1_20_takes_more_than_all() -> None:
    case_input = case(evictionHard={"memory.available": "150%"})
    assert LINES.decided("1.20.2", case_input)["overReserved"] == ["memory"]
