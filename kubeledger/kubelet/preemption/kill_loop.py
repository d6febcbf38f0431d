"""What the kubelet does with the victims it has chosen: event, kill, status, metric, one by one.

The kills block admission, each until its pod is down or the wait for it is over. A kill that
fails is skipped: the rest is killed, and the critical pod is admitted all the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from kubeledger.kubelet.preemption.requirements import Requirements
from kubeledger.kubelet.profile.admission import AdmissionFacts

MESSAGE: Final = "Preempted in order to admit critical pod"
CONDITION_MESSAGE: Final = "Pod was preempted by Kubelet to accommodate a critical pod."
TIMEOUT_ERROR: Final = "timeout waiting to kill pod"
_EXCEEDED: Final = "Container runtime did not kill the pod within specified grace period."
_WAIT_MIN_S: Final = 10


class Victim(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A pod to kill.

    Attributes:
        grace_s: spec.terminationGracePeriodSeconds; None is 0.
        generation: metadata.generation.
    """

    uid: str
    grace_s: int | None = None
    generation: int = 0


class KillOutcome(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How the runtime answers a kill.

    Attributes:
        took_s: seconds until the pod was down, or until the last of ``errors`` where that is
            where it ends; None: neither came within the wait.
        errors: (n,) of attempts that failed within the wait.
    """

    took_s: float | None
    errors: tuple[str, ...] = ()


class Condition(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A condition of a pod; ``observed_generation`` 0 is not written."""

    type: str
    status: str
    reason: str
    message: str
    observed_generation: int = 0


class StatusChange(msgspec.Struct, frozen=True, kw_only=True):
    """What the victim's status becomes before its containers are killed.

    Attributes:
        conditions: (n,) added, each in the place of one of its type.
        whole: these fields are the whole status; otherwise the rest of it stays.
    """

    phase: str
    reason: str
    message: str
    conditions: tuple[Condition, ...]
    whole: bool


class Kill(msgspec.Struct, frozen=True, kw_only=True):
    """One victim.

    Attributes:
        events: (n,) ``<type> <reason> <message>`` on the victim, in order.
        status: written whether or not the kill succeeds.
        waited_s: how long admission stood still for it, in seconds.
        error: why the kill failed; empty when the pod is down.
    """

    uid: str
    events: tuple[str, ...]
    status: StatusChange
    waited_s: float
    error: str


class KillLoop(msgspec.Struct, frozen=True, kw_only=True):
    """All victims.

    Attributes:
        kills: (n,) in the order of the victims.
        preemptions: what is added to the counter kubelet_preemptions, by its label
            preemption_signal.
        waited_s: in seconds, over all.
    """

    kills: tuple[Kill, ...]
    preemptions: Mapping[str, int]
    waited_s: float


def kill_victims(
    victims: Sequence[Victim],
    outcomes: Sequence[KillOutcome],
    insufficient: Requirements,
    facts: AdmissionFacts,
) -> KillLoop:
    """Kill the victims one after the other.

    Args:
        victims: (n,) in the order they are to be killed.
        outcomes: (n,) what the runtime makes of it.
        insufficient: (r,) what was missing, in the order the fit check found it: the counter
            is that of the first, whatever else was missing.
        facts: the kubelet's version.

    Source: v1.36.2 pkg/kubelet/preemption/preemption.go evictPodsToFreeRequests; v1.20.2
    Differs: log lines are left out, as is what later syncs make of the pod's status.
    """
    kills = tuple(
        _kill(victim, outcome, facts) for victim, outcome in zip(victims, outcomes, strict=True)
    )
    done = sum(not kill.error for kill in kills)
    signal = insufficient[0].resource if insufficient else ""
    return KillLoop(
        kills=kills,
        preemptions={signal: done} if done else {},
        waited_s=sum(kill.waited_s for kill in kills),
    )


def kill_wait_s(grace_s: int | None) -> int:
    """How long the kubelet waits for a pod to be down: half as long again as its grace, or 10 s.

    Source: v1.36.2 pkg/kubelet/pod_workers.go killPodNow; v1.20.2
    Differs: a grace period of centuries does not overflow.
    """
    grace = grace_s or 0
    # Go halves towards zero; below zero the least holds anyway.
    return max(grace + grace // 2, _WAIT_MIN_S)


def _kill(victim: Victim, outcome: KillOutcome, facts: AdmissionFacts) -> Kill:
    """One kill: the event comes first, so it is there for a kill that fails as well.

    Source: v1.36.2 pkg/kubelet/pod_workers.go killPodNow, kubelet.go SyncTerminatingPod;
        v1.20.2 kubelet.go syncPod
    Differs: a kill that ends just when the wait does has ended in time.
    """
    events = [f"Warning Preempting {MESSAGE}"]
    errors = outcome.errors if not facts.kill_error_ends_wait else outcome.errors[:1]
    events += [f"Warning FailedKillPod error killing pod: {error}" for error in errors]
    wait = kill_wait_s(victim.grace_s)
    in_time = outcome.took_s is not None and outcome.took_s <= wait
    error = ""
    if facts.kill_error_ends_wait and errors:
        error = errors[0]
    elif not in_time:
        events.append(f"Warning ExceededGracePeriod {_EXCEEDED}")
        error = TIMEOUT_ERROR
    return Kill(
        uid=victim.uid,
        events=tuple(events),
        status=_status(victim, facts),
        waited_s=outcome.took_s if in_time and outcome.took_s is not None else float(wait),
        error=error,
    )


def _status(victim: Victim, facts: AdmissionFacts) -> StatusChange:
    conditions: tuple[Condition, ...] = ()
    if facts.preempted_pod_condition:
        generation = victim.generation if facts.preempted_pod_condition_generation else 0
        conditions = (
            Condition(
                type="DisruptionTarget",
                status="True",
                reason="TerminationByKubelet",
                message=CONDITION_MESSAGE,
                observed_generation=generation,
            ),
        )
    return StatusChange(
        phase="Failed",
        reason="Preempting",
        message=MESSAGE,
        conditions=conditions,
        whole=not facts.preempted_pod_status_kept,
    )
