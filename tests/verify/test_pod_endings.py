"""Kills of pods that are stopped as a whole: cause, words and seconds."""

from __future__ import annotations

from typing import Any

import pytest

from kubeledger.lifecycle.records import PodTerminating
from tests.verify.life_scenes import Step, added, alone, killed, listed, started, verdicts

__all__ = ["alone"]

HOOKED = {"lifecycle": {"postStart": {"exec": {"command": ["false"]}}}}


def ending(reason: Any, grace_s: int | None = None) -> PodTerminating:  # noqa: ANN401 # a reason
    """The pod's worker stops it."""
    return PodTerminating(
        namespace="default", pod="p", pod_uid="u-1", reason=reason, grace_period_s=grace_s
    )


@pytest.mark.parametrize(
    ("told", "reason", "grace_s", "verdict"),
    [
        (ending("deleted", 20), "pod_deleted", 20, "match"),
        (ending("deleted", 1), "pod_deleted", 2, "match"),
        (ending("deleted", 20), "pod_deleted", 30, "impossible"),
        (ending("removed", 30), "pod_deleted", 30, "match"),
        (ending("orphaned"), "orphaned", 2, "match"),
        (ending("orphaned"), "orphaned", 30, "admissible"),
        (ending("orphaned"), "orphaned", 9, "impossible"),
        (ending("ended"), "pod_ended", 30, "match"),
        (ending("ended"), "deadline_exceeded", 30, "match"),
        (ending("shutdown", 7), "node_shutdown", 7, "match"),
        (ending("deleted", 7), "node_shutdown", 7, "impossible"),
        (ending("ended"), "orphaned", 2, "impossible"),
        (None, "node_shutdown", 7, "unverifiable"),
    ],
)
def test_a_pod_that_is_stopped(
    told: PodTerminating | None, reason: str, grace_s: int, verdict: str
) -> None:
    """The kill follows from why its worker stops it, and gives what the worker gives."""
    steps: list[Step] = [(1, listed()), (1.1, added()), (2, started("c1"))]
    steps += [] if told is None else [(10, told)]
    kill = killed(reason=reason, message="Stopping container app", grace_period_s=grace_s)
    assert verdicts(*steps, (10.1, kill)) == [verdict]


@pytest.mark.parametrize(("hook", "verdict"), [(HOOKED, "match"), ({}, "impossible")])
def test_a_failed_post_start_hook(hook: dict[str, Any], verdict: str) -> None:
    """Only a container that has one is killed for it."""
    kill = killed(reason="post_start_hook", message="FailedPostStartHook", grace_period_s=30)
    steps: list[Step] = [(1, listed(hook)), (1.1, added()), (2, started("c1")), (3, kill)]
    assert verdicts(*steps) == [verdict]
