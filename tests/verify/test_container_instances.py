"""Scenes in which it is not plain which container is probed, or since when it runs."""

from __future__ import annotations

import msgspec
import pytest

from kubeledger.model.bodies.node import KubeletStarted
from kubeledger.model.record import Body
from tests.verify.container_scenes import (
    added,
    alone,
    changed_to,
    died,
    judged,
    listed,
    settings,
    started,
    tick,
    verdicts,
)

__all__ = ["alone"]

Step = tuple[float, Body]
PROBE = {"periodSeconds": 10, "failureThreshold": 2, "successThreshold": 1, "timeoutSeconds": 1}
READY = listed({"readinessProbe": PROBE})
AGAIN = KubeletStarted(pid=2, kubelet_version="1.36.2", version_source="log", restart=True)


def disagreements(*steps: Step) -> list[str]:
    """What contradictions there are."""
    return [each.why for each in judged(*steps)[1]]


def runs_since(second: int) -> Body:
    """A list that tells when container c2 began."""
    state = {"running": {"startedAt": f"1970-01-01T00:{second // 60:02}:{second % 60:02}Z"}}
    reported = {"name": "app", "containerID": "containerd://c2", "state": state}
    return msgspec.structs.replace(READY, status={"containerStatuses": [reported]})


@pytest.mark.parametrize(
    ("began", "before", "verdict"),
    [
        pytest.param(None, "failure", "unverifiable", id="told when first listed: failure"),
        pytest.param(None, "unknown", "unverifiable", id="told when first listed: unknown"),
        pytest.param(1050, "unknown", "match", id="long before"),
        pytest.param(1050, "failure", "unverifiable", id="long before, told otherwise"),
        pytest.param(1091, "unknown", "unverifiable", id="at the border: unknown"),
        pytest.param(1091, "failure", "unverifiable", id="at the border: failure"),
        pytest.param(1100, "failure", "match", id="after it"),
        pytest.param(1100, "unknown", "impossible", id="after it, told otherwise"),
    ],
)
def test_a_container_about_as_old_as_the_kubelet(
    began: int | None, before: str, verdict: str
) -> None:
    """What runs for ten seconds when a kubelet begins is not unready first, since 1.35."""
    change = changed_to("success", before, "readiness", container_id="c2", run=1, threshold=1)  # type: ignore[arg-type] # one of two results
    found = verdicts(
        (1, added()), (2, started("c1")), (40, died("c1")),
        (100, AGAIN), (100.1, settings()), (101, added()), (101.5, started("c2")),
        (105, tick("success", "readiness", "c2")), (105.1, change),
        (140, READY if began is None else runs_since(began)),
    )  # fmt: skip
    assert found == [verdict]
