"""The output of a failed probe: the prober's line against the kubelet's event."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kubeledger.machine import Record
from kubeledger.verify import Contradiction
from tests.verify.histories import outcomes, scene
from tests.verify.life_scenes import alone, began, event, listed, started, tick

__all__ = ["alone"]

PROBE = {"httpGet": {"port": 80}, "periodSeconds": 10}
LONG = "x" * 600


def disputes(
    output: str | None,
    told: str,
    *,
    after_s: float = 0.01,
    container: str | None = "app",
    others: list[str] | None = None,
    text: str | None = None,
) -> list[list[str]]:
    """What each contradiction shows."""
    pod = listed({"livenessProbe": PROBE})
    if others is not None:
        assert pod.spec is not None
        more: list[dict[str, Any]] = [{"name": name, "livenessProbe": PROBE} for name in others]
        pod = msgspec.structs.replace(
            pod, spec=pod.spec | {"containers": [*pod.spec["containers"], *more]}
        )
    failed = msgspec.structs.replace(tick("failure"), output=output)
    sent = event("Unhealthy", f"Liveness probe failed: {told}")
    sent = msgspec.structs.replace(sent, container=container)
    steps = ((0.5, pod), (1, started("c1")), (2, failed), (2 + after_s, sent))
    records = [_with_text(record, text) for record in scene(*began(), *steps)]
    found = [each for each in outcomes(records) if isinstance(each, Contradiction)]
    return [[side.says for side in each.sides] for each in found]


def _with_text(record: Record, text: str | None) -> Record:
    if text is None:
        return record
    evidence = tuple(msgspec.structs.replace(piece, text=text) for piece in record.evidence)
    return msgspec.structs.replace(record, evidence=evidence)


def test_two_outputs_of_one_probe() -> None:
    """Both lines are shown with their place."""
    sides = ["kubelet.log:5: 'status 404'", "kubelet.log:6: 'status 500'"]
    assert disputes("status 404", "status 500") == [sides]
    assert disputes("status 404", "status 500", container=None) == [sides]
    assert disputes("", "x") == [["kubelet.log:5: ''", "kubelet.log:6: 'x'"]]
    assert len(disputes("a\nb\n", "a\nc")) == 1


@pytest.mark.parametrize(
    ("output", "told"),
    [
        ("status 404", "status 404"),
        ("status 404\n", "status 404"),
        (None, "status 404"),
        ("a\nb", "a\nb\nc"),
        ("", "\na"),
        (LONG + "abc", LONG),
        ("caf\u00e9", "caf\\xe9"),
    ],
)
def test_what_may_be_one_output(output: str | None, told: str) -> None:
    """Lines may be lost, a text cut off, or written in another form."""
    assert disputes(output, told) == []


def test_an_event_of_another_container() -> None:
    """It names none, and two of the pod have such a probe."""
    assert disputes("x", "y", container=None, others=["b"]) == []
    assert disputes("x", "y", others=["b"]) != []


def test_an_event_that_comes_late() -> None:
    """It may be that of another tick, whose line is lost."""
    assert disputes("x", "y", after_s=0.6) == []


def test_a_block_whose_lines_are_lost() -> None:
    """Nothing is left of the output then."""
    assert disputes("", "y", text='"Probe failed" output=<\n >') == []
