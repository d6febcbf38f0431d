"""What a round of the eviction manager starts from, finds and does; and sentences about it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kubeledger.kubelet.eviction.local_storage import Limit
from kubeledger.kubelet.eviction.messages import Event, EvictionMessage
from kubeledger.kubelet.eviction.ranking import Candidate
from kubeledger.kubelet.eviction.signals import (
    RESOURCE_OF,
    DiskLayout,
    PodStats,
    ReclaimFunction,
    SignalObservation,
)
from kubeledger.kubelet.eviction.thresholds import Threshold, threshold_quantity
from kubeledger.kubelet.kube.pod import Pod
from kubeledger.kubelet.kube.quantity import Quantity
from kubeledger.kubelet.profile.eviction import EvictionFacts
from kubeledger.model.units import sizes_text


class EvictionConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How the manager is configured.

    Attributes:
        max_pod_grace_period_s: most that a soft eviction gives a pod.
    """

    thresholds: tuple[Threshold, ...]
    pressure_transition_period_ns: int
    max_pod_grace_period_s: int = 0
    layout: DiskLayout = "shared"
    local_storage_isolation: bool = True


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """What one look at the signals found.

    Attributes:
        pods: active ones, in the kubelet's order.
        stats: pod's UID -> its statistics.
        observations: signal -> what was read.
        met: thresholds met now, whatever their grace period.
        unresolved: those met before, still short of their minimum to be reclaimed.
        since_ns: (n,) of ``met`` and then ``unresolved``: since when each of them is met.
        fresh: those of them whose grace period is over and whose statistics are newer than in
            the last round, which are acted on.
        error: why the round ended there; empty when it did not.
    """

    now_ns: int
    pods: tuple[Pod, ...]
    stats: Mapping[str, PodStats] = {}
    observations: Mapping[str, SignalObservation] = {}
    met: tuple[Threshold, ...] = ()
    unresolved: tuple[Threshold, ...] = ()
    since_ns: tuple[int, ...] = ()
    fresh: tuple[Threshold, ...] = ()
    node_conditions: tuple[str, ...] = ()
    error: str = ""


class Eviction(msgspec.Struct, frozen=True, kw_only=True):
    """One evicted pod.

    Attributes:
        cause: signal that was short, or the limit of local storage that it exceeded.
        grace_period_s: override given to the pod worker; see ``eviction_override_s``.
        condition_message: of the condition DisruptionTarget; empty where it gets none.
    """

    pod: Pod
    cause: str | Limit
    grace_period_s: int
    message: EvictionMessage
    condition_message: str = ""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What one round did, and why.

    Attributes:
        evicted: (n,) pods; several only for their own use of storage.
        threshold: the one that was acted on; None where none was.
        reclaimed: functions that were called before.
        still_met: after them, thresholds that are met with their minimum; with functions and
            none still met, no pod is evicted.
        ranking: (n,) groups of equal pods, the first to go first; empty where none was needed.
        passed_over: critical pods that were first, and stay.
    """

    evicted: tuple[Eviction, ...] = ()
    threshold: Threshold | None = None
    reclaimed: tuple[ReclaimFunction, ...] = ()
    still_met: tuple[Threshold, ...] = ()
    ranking: tuple[tuple[Candidate, ...], ...] = ()
    passed_over: tuple[str, ...] = ()
    events: tuple[Event, ...] = ()


def grace_period_s(
    threshold: Threshold, pod: Pod, max_pod_grace_period_s: int, facts: EvictionFacts
) -> int:
    """The override of a pod's grace period when it is evicted for a threshold."""
    return eviction_override_s(
        facts,
        hard=threshold.is_hard,
        maximum_s=max_pod_grace_period_s,
        pod_grace_s=pod.spec.termination_grace_period_seconds,
    )


def eviction_override_s(
    facts: EvictionFacts, *, hard: bool, maximum_s: int = 0, pod_grace_s: int | None = None
) -> int:
    """What the eviction manager asks the pod worker for, which replaces 0 by the pod's own.

    Args:
        hard: the threshold that was met has no grace period, or the pod is over its own limit.

    Source: v1.36.2 pkg/kubelet/eviction/eviction_manager.go synchronize; v1.30.1
    """
    if hard:
        return 1 if facts.immediate_eviction_grants_a_second else 0
    if pod_grace_s is not None and facts.soft_eviction_grace_at_most_the_pods:
        return min(maximum_s, pod_grace_s)
    return maximum_s


# Sentences about a decision of the eviction manager, made of what it decided by.

_IN_BYTES = frozenset({"memory", "ephemeral-storage"})


def threshold_text(threshold: Threshold) -> str:
    """A threshold as it was set: ``evictionHard memory.available<5%``."""
    value = threshold.value
    amount = f"{value * 100:.4g}%" if isinstance(value, float) else str(value)
    copied = f" (for {threshold.signal})" if threshold.taken_from else ""
    return f"{threshold.setting} {threshold.taken_from or threshold.signal}<{amount}{copied}"


def observed_text(threshold: Threshold, seen: SignalObservation | None) -> str:
    """What a threshold's signal said: ``memory.available is 50Mi, below the 100Mi of …``."""
    if seen is None:
        return f"{threshold.signal} was not observed, for {threshold_text(threshold)}"
    limit = threshold_quantity(threshold.value, seen.capacity)
    is_short = Quantity.of(seen.available) < limit
    available, least = str(seen.available), str(limit)
    if RESOURCE_OF[threshold.signal] in _IN_BYTES:
        available, least = sizes_text(seen.available, limit.value())
    below = "below" if is_short else "not below"
    text = f"{threshold.signal} is {available}, {below} the {least} of {threshold_text(threshold)}"
    if is_short or threshold.minimum is None:
        return text
    return f"{text} (minimum reclaim {threshold_quantity(threshold.minimum, seen.capacity)})"
