"""Back-offs of restarts against the recorded kubelet; version boundaries; reasons."""

from typing import Any

import pytest

from tests.kubelet.cases.lines import Lines, container, pod

LINES = Lines("backoff")


def at(second: int) -> str:
    return f"2026-01-05T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z"


def step(second: int, ended: int | None, *, gc: bool = False) -> dict[str, Any]:
    """A sync, and when the newest instance ended."""
    listed = {"id": "c://1", "name": "c0", "exitCode": 1}
    containers = [{**listed, "state": "running"}]
    if ended is not None:
        containers.append({**listed, "state": "exited", "finishedAt": at(ended)})
    return {"at": at(second), "gc": gc, "containers": containers}


def case(*steps: dict[str, Any], most: str = "5m0s") -> dict[str, Any]:
    return {
        "pod": pod(container()),
        "container": "c0",
        "initial": "10s",
        "max": most,
        "steps": list(steps),
    }


def entries(version: str, of: dict[str, Any]) -> list[str]:
    """Values after each step; a start that is held back in brackets."""
    steps = LINES.decided(version, of)["steps"]
    return [f"({each['entry']})" if each["held"] else each["entry"] for each in steps]


@pytest.mark.parametrize(
    ("version", "expected"), [("1.31.9", ["10s", "10s", "10s"]), ("1.32.0", ["10s", "20s", "30s"])]
)
def test_an_entry_expires_after_twice_the_maximum_or_600_s(
    version: str, expected: list[str]
) -> None:
    """With a maximum of 30 s that differs."""
    steps = [step(0, 0), step(100, 61), step(200, 161)]
    assert entries(version, case(*steps, most="30s")) == expected


@pytest.mark.parametrize(("version", "until"), [("1.35.9", None), ("1.36.0", at(12))])
def test_the_end_of_a_back_off(version: str, until: str | None) -> None:
    """The message names container and pod."""
    held = LINES.decided(version, case(step(1, 1), step(3, 2)))["steps"][1]
    assert held.get("until") == until
    assert held["message"] == ("back-off 10s restarting failed container=c0 pod=p_default(u-1)")
