"""A value that cannot be used is named by its path."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubeledger.kubelet.cases.registry import decider_of, judge_of
from kubeledger.model.errors import BadInputError

NEGATIVE = "-1m"


def pod(name: str, requests: dict[str, object], **spec: object) -> dict[str, Any]:
    """A pod of one container."""
    container = {"name": "c", "image": "i", "resources": {"requests": requests}}
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": name},
        "spec": {"containers": [container], **spec},
    }


def admission(**changes: object) -> bytes:
    """A critical pod that does not fit among two others."""
    amounts = {"cpu": "1", "memory": "1Gi", "pods": "10"}
    node = {"metadata": {"name": "n"}, "status": {"allocatable": amounts, "capacity": amounts}}
    case: dict[str, Any] = {
        "node": node,
        "pod": pod("p", {"cpu": "1"}, priority=2000001000),
        "activePods": [pod("a", {"cpu": "500m"}), pod("b", {"cpu": "500m"})],
    }
    return json.dumps({"id": "x", "kubelet": "1.36.2", "input": case | changes}).encode()


@pytest.mark.parametrize("amount", ["abc", "", NEGATIVE, True, None])
def test_an_amount_deep_in_a_list_of_pods(amount: object) -> None:
    """Which pod, which container, which resource."""
    line = admission(activePods=[pod("a", {"cpu": "1"}), pod("b", {"cpu": amount})])
    with pytest.raises(BadInputError) as caught:
        decider_of("admission")(line)
    assert "activePods[1].spec.containers[0].resources.requests" in caught.value.message


def liveness(*clocks: str) -> bytes:
    """A liveness worker whose container has no status, ticked at these times."""
    probe = {"exec": {"command": ["true"]}, "periodSeconds": 10}
    container = {"name": "c", "image": "i", "livenessProbe": probe}
    case = {
        "pod": {
            "metadata": {"name": "p", "namespace": "ns", "uid": "u"},
            "spec": {"containers": [container]},
        },
        "container": "c",
        "probeType": "liveness",
        "kubeletStartedAt": "2026-01-05T08:00:00Z",
        "ticks": [{"at": clock, "podStatus": None, "attempts": []} for clock in clocks],
    }
    return json.dumps({"id": "x", "kubelet": "1.36.2", "input": case}).encode()


def test_a_time_of_a_tick() -> None:
    """Which tick."""
    with pytest.raises(BadInputError) as caught:
        decider_of("prober")(liveness("2026-01-05T08:00:00Z", "noon"))
    assert "input.ticks[1].at" in caught.value.message


@pytest.mark.parametrize(
    "version",
    ["1." + "9" * 5000, "1.36." + "9" * 5000, " 1.36.2", "1.36.2\n", "1.3６.0", "1.37", ""],
)
def test_what_is_no_version(version: str) -> None:
    """Refused with the known range, however long."""
    case = json.loads(admission())
    line = json.dumps(case | {"kubelet": version}).encode()
    with pytest.raises(BadInputError) as caught:
        decider_of("admission")(line)
    assert "1.19 to 1.36" in caught.value.advice


def test_a_tick_without_events_is_no_outcome_of_the_prober() -> None:
    """A claim is taken whole."""
    line = liveness("2026-01-05T08:00:00Z")
    claim = json.loads(line) | {"outcome": json.loads(decider_of("prober")(line))["outcome"]}
    judge = judge_of("prober")
    assert json.loads(judge(json.dumps(claim).encode()))["verdict"] == "match"
    del claim["outcome"]["ticks"][0]["events"]
    assert json.loads(judge(json.dumps(claim).encode()))["verdict"] == "impossible"
