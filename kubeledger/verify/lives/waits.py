"""Why a container was started again, and whether it could have been so early."""

from __future__ import annotations

from kubeledger.lifecycle.exits import how_it_ended
from kubeledger.lifecycle.records import ContainerRestarted
from kubeledger.verify.lives.common import at, seconds
from kubeledger.verify.lives.life import Instance
from kubeledger.verify.lives.specs import PodAsk

__all__ = ["too_early", "why_restarted"]

_BECAUSE = {
    "liveness_probe": "its liveness probe failed",
    "startup_probe": "its startup probe failed",
    "spec_changed": "its definition changed",
    "preempted": "its pod was preempted",
    "evicted": "its pod was evicted",
    "pod_deleted": "its pod was deleted",
    "post_start_hook": "its postStart hook failed",
    "sandbox_changed": "its pod got another sandbox",
}


def too_early(now_ns: int, looked_at: Instance, values: tuple[int, ...]) -> str | None:
    """Why a start cannot have been by then; None when it can.

    Args:
        now_ns: the start, or later.
        looked_at: the exited instance that the kubelet counts from.
        values: what the back-off entry may be, in nanoseconds.
    """
    ended_ns = looked_at.ended_from_ns
    if ended_ns is None or not values or now_ns - ended_ns >= min(values):
        return None
    return (
        f"the instance that counts had not ended before {at(ended_ns)}, so only "
        f"{seconds(now_ns - ended_ns)} of a back-off of {seconds(min(values))} had passed"
    )


def why_restarted(body: ContainerRestarted, before: Instance, ask: PodAsk) -> str:
    """One sentence for a restart that is in order."""
    name = f"container {body.container}"
    if before.killed_ns is not None:
        because = _BECAUSE.get(before.reasons[0] if before.reasons else "", "of the kubelet")
        ended = f"{name} was killed at {at(before.killed_ns)} because {because}"
    else:
        how = how_it_ended(before.exit_code)
        how = "was killed by the kernel, out of memory" if before.oom else how
        ended = f"{name} {how}"
    entry = ask.container(body.container)
    own = None if entry is None else entry.restart_policy
    policy = f"restart policy {own or ask.restart_policy}"
    count = "" if body.restart_count is None else f" for the {_nth(body.restart_count)} time"
    return f"{ended}, and {policy} starts it again{count}"


def _nth(number: int) -> str:
    last = number % 10 if number % 100 not in (11, 12, 13) else 0
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(last, 'th') }"
