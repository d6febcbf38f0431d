"""The eviction manager: one call of ``synchronize`` after the other.

A round has two halves. ``observe`` reads the signals and moves the manager's memory on; it leaves
no choice. ``evict_for`` acts on one of the thresholds that ``observe`` found, and changes nothing
that is remembered. Which threshold that is, and which of several equal pods goes, is in places
chance in the kubelet: both can be asked for, so that another run can be followed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from kubeledger.kubelet.eviction.decisions import (
    Decision,
    Eviction,
    EvictionConfig,
    Round,
    eviction_override_s,
    grace_period_s,
)
from kubeledger.kubelet.eviction.local_storage import excesses
from kubeledger.kubelet.eviction.messages import (
    EvictionMessage,
    attempting_to_reclaim,
    evicted_event,
    pressure_message,
)
from kubeledger.kubelet.eviction.ranking import candidates, rank, ties_are_ordered
from kubeledger.kubelet.eviction.signals import (
    ALLOCATABLE_MEMORY,
    CONDITION_OF,
    MEMORY,
    RESOURCE_OF,
    ReclaimFunction,
    SignalObservation,
    Summary,
    make_signal_observations,
    reclaim_functions,
    split_disk_error,
)
from kubeledger.kubelet.eviction.thresholds import Threshold, thresholds_met, with_container_fs
from kubeledger.kubelet.kube.pod import Pod
from kubeledger.kubelet.kube.podclass import is_critical_pod
from kubeledger.kubelet.profile.resolve import KubeletProfile

Reclaim = Callable[[Threshold, Sequence[ReclaimFunction]], Summary]
"""Calls the functions in their order for a threshold, and gives the summary after them."""

_DURATION_MAX_NS = 2**63 - 1


class EvictionManager:
    """The manager and what it remembers from round to round."""

    def __init__(self, config: EvictionConfig, profile: KubeletProfile) -> None:
        """Begin without memory."""
        self.config = config
        self.profile = profile
        self._facts = profile.eviction
        self.thresholds = config.thresholds
        """Those of the next round."""
        self._ranks = False
        self._disks_known = False
        self._met: tuple[Threshold, ...] = ()
        self._first_observed_ns: dict[Threshold, int] = {}
        self._condition_observed_ns: dict[str, int] = {}
        self._last_observations: Mapping[str, SignalObservation] = {}
        self.node_conditions: tuple[str, ...] = ()
        """As of the last round, sorted."""

    def synchronize(
        self, now_ns: int, summary: Summary, pods: Sequence[Pod], reclaim: Reclaim
    ) -> tuple[Round, Decision]:
        """One round.

        Args:
            pods: active ones, in the kubelet's order.

        Raises:
            BadInputError: an amount or a number that no kubelet can have met.

        Source: v1.36.2 pkg/kubelet/eviction/eviction_manager.go synchronize; v1.19
        Differs: of thresholds that may be acted on it takes the likeliest, see ``choices``; of
            equal pods the first of the list.
        """
        found = self.observe(now_ns, summary, pods)
        return found, next(self.possible(found, reclaim))

    def possible(self, found: Round, reclaim: Reclaim) -> Iterator[Decision]:
        """Every decision that chance in the kubelet can lead to, the most likely first."""
        if (over := self.over_own_limits(found)) is not None:
            yield over
            return
        choices = self.choices(found)
        if not choices:
            yield Decision()
        for threshold in choices:
            decision = self.evict_for(found, threshold, reclaim)
            yield decision
            if not decision.evicted or ties_are_ordered(found.pods, self._facts):
                continue
            victim = decision.evicted[0].pod.metadata.uid or ""
            critical = {p.metadata.uid or "" for p in found.pods if is_critical_pod(p)}
            group = next(g for g in decision.ranking if any(c.uid == victim for c in g))
            for other in group:
                if other.uid != victim and other.uid not in critical:
                    yield self.evict_for(found, threshold, reclaim, first=other.uid)

    # -- first half ----------------------------------------------------------------------------

    def observe(self, now_ns: int, summary: Summary, pods: Sequence[Pod]) -> Round:
        """Read the signals, and remember."""
        thresholds = self.thresholds
        if not thresholds and not self.config.local_storage_isolation:
            return Round(now_ns=now_ns, pods=tuple(pods), node_conditions=self.node_conditions)
        if not self._disks_known:
            self._disks_known = True
            if error := split_disk_error(self.config.layout, self._facts):
                return Round(
                    now_ns=now_ns,
                    pods=tuple(pods),
                    node_conditions=self.node_conditions,
                    error=error,
                )
            self._ranks = True
            if self._facts.split_disk_known:
                thresholds, self.thresholds = with_container_fs(thresholds, self.config.layout)
        observations = make_signal_observations(summary, self._facts)
        met = thresholds_met(thresholds, observations, minimum=False)
        before = thresholds_met(self._met, observations, minimum=True) if self._met else ()
        unresolved = tuple(threshold for threshold in before if threshold not in met)
        since = {t: self._first_observed_ns.get(t, now_ns) for t in met + unresolved}
        starved = tuple(t for t, at_ns in since.items() if _elapsed(at_ns, now_ns) >= t.grace_ns)
        fresh = tuple(t for t in starved if self._is_fresh(t.signal, observations))
        for threshold in since:
            self._condition_observed_ns[CONDITION_OF[threshold.signal]] = now_ns
        transition_ns = self.config.pressure_transition_period_ns
        self.node_conditions = tuple(
            sorted(
                name
                for name, at_ns in self._condition_observed_ns.items()
                if _elapsed(at_ns, now_ns) < transition_ns
            )
        )
        self._first_observed_ns = since
        self._met = starved
        self._last_observations = observations
        return Round(
            now_ns=now_ns,
            pods=tuple(pods),
            stats={stats.pod_ref.uid or "": stats for stats in summary.pods or ()},
            observations=observations,
            met=met,
            unresolved=unresolved,
            since_ns=tuple(since.values()),
            fresh=fresh,
            node_conditions=self.node_conditions,
        )

    def _is_fresh(self, signal: str, observations: Mapping[str, SignalObservation]) -> bool:
        """Whether a signal was measured again.

        Source: v1.36.2 pkg/kubelet/eviction/helpers.go thresholdsUpdatedStats
        """
        now, last = observations[signal], self._last_observations.get(signal)
        if last is None or now.time_ns is None:
            return True
        return last.time_ns is None or now.time_ns > last.time_ns

    # -- second half ---------------------------------------------------------------------------

    def over_own_limits(self, found: Round) -> Decision | None:
        """Evictions of pods over their own limits; None where there are none."""
        if not self.config.local_storage_isolation or found.error:
            return None
        evicted: list[Eviction] = []
        for pod in found.pods:
            stats = found.stats.get(pod.metadata.uid or "")
            if stats is None or is_critical_pod(pod):
                continue
            excess = next(excesses(pod, stats, self.config.layout, self.profile), None)
            if excess is not None:
                evicted.append(
                    Eviction(
                        pod=pod,
                        cause=excess.limit,
                        grace_period_s=eviction_override_s(self._facts, hard=True),
                        message=EvictionMessage(excess.message),
                    )
                )
        if not evicted:
            return None
        events = tuple(evicted_event(each.message, self._facts) for each in evicted)
        return Decision(evicted=tuple(evicted), events=events)

    def choices(self, found: Round) -> tuple[Threshold, ...]:
        """Thresholds of which any may be acted on: those of memory, else all that are fresh.

        The likeliest is first: Go walks a map of up to eight entries from a random one on, most
        often in the order of their insertion, and the sort turns thresholds of memory around.

        Source: v1.36.2 pkg/kubelet/eviction/helpers.go byEvictionPriority, and the order of the
            map thresholdsFirstObservedAt
        """
        memory = tuple(t for t in found.fresh if t.signal in (MEMORY, ALLOCATABLE_MEMORY))
        return memory[::-1] or found.fresh

    def evict_for(
        self, found: Round, threshold: Threshold, reclaim: Reclaim, *, first: str | None = None
    ) -> Decision:
        """Act on a threshold: reclaim, rank, evict. The manager's memory stays as it is.

        Args:
            threshold: one of ``choices``.
            first: UID of the pod that comes first among its equals; None: the list's order.
        """
        signal = threshold.signal
        resource = RESOURCE_OF[signal]
        events = [attempting_to_reclaim(resource)]
        layout = self.config.layout
        functions = reclaim_functions(signal, layout, self._facts) if self._ranks else ()
        still_met: tuple[Threshold, ...] = ()
        if functions:
            after = make_signal_observations(reclaim(threshold, functions), self._facts)
            minimum = self._facts.reclaim_must_reach_minimum
            still_met = thresholds_met(self.thresholds, after, minimum=minimum)
        decision = Decision(
            threshold=threshold, reclaimed=functions, still_met=still_met, events=tuple(events)
        )
        if (functions and not still_met) or not self._ranks or not found.pods:
            return decision
        ranking = rank(candidates(found.pods, found.stats, signal, layout, self.profile), signal)
        by_uid = {pod.metadata.uid or "": pod for pod in found.pods}
        passed_over: list[str] = []
        evicted: tuple[Eviction, ...] = ()
        for group in ranking:
            for candidate in sorted(group, key=lambda each: each.uid != first):
                pod = by_uid[candidate.uid]
                if is_critical_pod(pod):
                    passed_over.append(candidate.uid)
                    continue
                evicted = (self._eviction(found, threshold, pod),)
                events.append(evicted_event(evicted[0].message, self._facts))
                break
            if evicted:
                break
        return msgspec.structs.replace(
            decision,
            evicted=evicted,
            ranking=ranking,
            passed_over=tuple(passed_over),
            events=tuple(events),
        )

    def _eviction(self, found: Round, threshold: Threshold, pod: Pod) -> Eviction:
        facts = self._facts
        stats = found.stats.get(pod.metadata.uid or "")
        seen = found.observations[threshold.signal]
        message = pressure_message(pod, stats, threshold, seen, facts)
        return Eviction(
            pod=pod,
            cause=threshold.signal,
            grace_period_s=grace_period_s(
                threshold, pod, self.config.max_pod_grace_period_s, facts
            ),
            message=message,
            condition_message=message.text if facts.disruption_target_condition else "",
        )


def _elapsed(since_ns: int, now_ns: int) -> int:
    """``now.Sub(since)``, which ends at the longest duration that there is."""
    return max(-_DURATION_MAX_NS - 1, min(now_ns - since_ns, _DURATION_MAX_NS))
