"""The rule of the eviction manager: thresholds, conditions, reclaims, and who goes first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kubeledger.eviction.records import (
    NodeConditionsChanged,
    PodSpared,
    PodUsageObserved,
    RankedPod,
    ReclaimAttempted,
)
from kubeledger.eviction.signals import RESOURCE_OF
from kubeledger.eviction.thresholds import Threshold, is_short
from kubeledger.images.records import EvictionSignalObserved
from kubeledger.kube.critical import is_critical_pod
from kubeledger.lifecycle.records import PodConfigChanged, PodEvicted, ReasonReported
from kubeledger.machine import Body, Record
from kubeledger.node.records import ClockStepped, KubeletStarted
from kubeledger.node.state import NodeState
from kubeledger.preemption.records import PodPreempted
from kubeledger.units import NS_PER_S
from kubeledger.verify.belief import Judgement, RuleVerifier, all_of, open_to, same
from kubeledger.verify.bench import Bench
from kubeledger.verify.rules.evictions.config import transition_period_ns
from kubeledger.verify.rules.evictions.manager import Manager
from kubeledger.verify.rules.evictions.places import Place, judge_first, judge_order, standing
from kubeledger.verify.rules.evictions.pods import PodUsages, key_of, unsure
from kubeledger.verify.rules.evictions.said import (
    is_for_own_use,
    judge_grace,
    judge_limit,
    judge_message,
    tells_otherwise,
    used_by_containers,
)
from kubeledger.verify.rules.evictions.thresholds import Claim, best_of, judge_met, threshold_says
from kubeledger.verify.rules.evictions.unrecorded import Unrecorded, names_of
from kubeledger.verify.verifier import See

__all__ = ["EvictionVerifier"]

_LATER_NS: Final = 21 * NS_PER_S
"""A sample taken after a decision is told by a reading within this time."""


class _Reclaim(NamedTuple):
    """A reclaim, and the critical pods that it passed over."""

    record: Record
    ranked: tuple[RankedPod, ...] | None
    spared: list[RankedPod]


class EvictionVerifier(RuleVerifier):
    """Judges what the eviction manager decided; see docs/verify.md for what it rests on."""

    rule = "pkg/kubelet/eviction managerImpl.synchronize"
    decides = (PodEvicted, PodSpared, ReclaimAttempted, NodeConditionsChanged)

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self._manager = Manager(bench)
        self._usages = PodUsages(bench)
        self._unrecorded = Unrecorded(self._manager, self._usages, self.rule)
        self._waiting: list[tuple[int, Callable[[], None]]] = []
        self._reclaim: _Reclaim | None = None
        self._ending: set[str] = set()
        self._events: dict[str, list[tuple[int, str]]] = {}

    def sees(self) -> Mapping[type[Body], See]:
        """All that the eviction manager reads and decides."""
        return {
            KubeletStarted: self._kubelet_started,
            ClockStepped: self._clock_stepped,
            EvictionSignalObserved: self._signal,
            PodUsageObserved: self._usage,
            PodConfigChanged: self._changed,
            PodPreempted: self._preempted,
            ReasonReported: self._reported,
            NodeConditionsChanged: self._conditions,
            ReclaimAttempted: self._attempted,
            PodSpared: self._left_alone,
            PodEvicted: self._evicted,
        }

    # -- what is read -----------------------------------------------------------------------

    def _kubelet_started(self, record: Record, body: KubeletStarted, state: NodeState) -> None:
        self._manager.restart(from_start=body.from_start)
        self._unrecorded.reported = frozenset()

    def _clock_stepped(self, record: Record, body: ClockStepped, state: NodeState) -> None:
        self._manager.widen("the time between rounds, around a step of the clock")

    def _signal(self, record: Record, body: EvictionSignalObserved, state: NodeState) -> None:
        if self._manager.read(record, body):
            self._unrecorded.look()
            self._manager.begin(record, body)

    def _changed(self, record: Record, body: PodConfigChanged, state: NodeState) -> None:
        if body.operation in ("DELETE", "REMOVE"):
            self._ending.add(body.pod_uid or f"{body.namespace}/{body.pod}")

    def _preempted(self, record: Record, body: PodPreempted, state: NodeState) -> None:
        self._ending.add(body.victim_uid or f"{body.victim_namespace}/{body.victim_pod}")

    def _reported(self, record: Record, body: ReasonReported, state: NodeState) -> None:
        if body.reason == "Evicted":
            key = body.pod_uid or f"{body.namespace}/{body.pod}"
            self._events.setdefault(key, []).append((record.seq, body.message))

    def _usage(self, record: Record, body: PodUsageObserved, state: NodeState) -> None:
        self._usages.read(record, body)
        self._decide(record.ts_ns)

    # -- what is judged once later samples are there ------------------------------------------

    def _decide(self, now_ns: int | None) -> None:
        """Judge what waited long enough; everything with None."""
        waiting, self._waiting = self._waiting, []
        for due_ns, conclude in waiting:
            if now_ns is None or due_ns <= now_ns:
                conclude()
            else:
                self._waiting.append((due_ns, conclude))

    def settle(self, state: NodeState) -> None:
        """The records end."""
        self._decide(None)

    # -- conditions -------------------------------------------------------------------------

    def _conditions(self, record: Record, body: NodeConditionsChanged, state: NodeState) -> None:
        self._manager.close()
        rounds, reported = self._manager.rounds, frozenset(body.conditions)
        self._unrecorded.reported = reported
        missing = self._manager.unknown()
        if transition_period_ns(self.bench.settings) is None:
            missing.append("the setting evictionPressureTransitionPeriod")
        if rounds.last is None:
            missing.append("the eviction signals (logged from verbosity 3)")
        if missing or rounds.last is None:
            self.lacking(record, "node", missing)
            return
        sure, possible = rounds.conditions.sure, rounds.conditions.possible
        fields = {"conditions": sorted(reported)}
        seqs = [reading.seq for reading in rounds.last.readings.values()]
        said = f"the node reports {names_of(reported)}: "
        met = [
            threshold_says(threshold, rounds.last.readings[threshold.signal])
            for threshold, belief in rounds.thresholds.items()
            if threshold.signal in rounds.last.readings
            and all(world.state is not None for world in belief.worlds)
        ]
        why = "; ".join(met) or "no threshold is met, nor was for the transition period"
        if not sure <= reported <= possible:
            why = f"{said}it had to report {names_of(sure)}, {why}"
            judgement = same(False, why, expected={"conditions": sorted(sure)}, inputs=seqs)
        elif rounds.conditions.open:
            open_ones = f"whether thresholds of {names_of(rounds.conditions.open)} were met before"
            denied = f"{said}it may report {names_of(sure)}"
            judgement = open_to(open_ones, denied=denied, inputs=seqs)
        else:
            judgement = same(True, said + why, expected=fields, inputs=seqs)
        self.conclude(record, "node", judgement, recorded=fields)
        if not self._manager.loose:
            rounds.conditions.learn(rounds.last.ts_ns, reported, body.observed)

    # -- reclaims ---------------------------------------------------------------------------

    def _attempted(self, record: Record, body: ReclaimAttempted, state: NodeState) -> None:
        self._manager.act()
        self._reclaim = _Reclaim(record, body.ranked, [])
        if missing := self._manager.unknown():
            self.lacking(record, "node", missing)
            return
        fitting = self._met(record.ts_ns, body)
        doubtful = unsure(state, record.ts_ns, body.ranked or ())
        after: dict[str, EvictionSignalObserved] = {}
        if any(each is not None and self._manager.reclaims(each) for _, each in fitting):
            after = self._manager.expect_readings(record)

        def judged(met: Judgement, threshold: Threshold | None) -> Judgement:
            judgements = [met]
            if threshold is not None and met.verdict != "impossible":
                judgements += self._outcome(body, threshold, after)
                if body.ranked is not None and not self._manager.loose:
                    places = self._places(record, body.ranked, threshold, doubtful, state)
                    resource = RESOURCE_OF[threshold.signal]
                    judgements.append(judge_order(places, resource, record.ts_ns))
            return all_of(judgements)

        def conclude() -> None:
            judgement, _ = best_of([(judged(*each), each[1]) for each in fitting])
            fields: dict[str, Any] = {"resource": body.resource, "outcome": body.outcome}
            self.conclude(record, "node", judgement, recorded=fields)

        self._waiting.append((record.ts_ns + _LATER_NS, conclude))

    def _met(
        self, ts_ns: int, body: ReclaimAttempted | PodEvicted
    ) -> list[tuple[Judgement, Threshold | None]]:
        seqs = () if self.bench.settings.seq is None else (self.bench.settings.seq,)
        rounds, loose = self._manager.rounds, self._manager.loose
        found = judge_met(rounds, ts_ns, Claim.of(body), seqs, loose=loose)
        if not loose and len(found) == 1 and found[0][0].verdict == "impossible":
            rounds.learn(found[0][1], body.since_ts_ns)
        return found

    def _places(
        self,
        record: Record,
        ranked: Sequence[RankedPod],
        threshold: Threshold,
        doubtful: frozenset[RankedPod],
        state: NodeState,
        idle: frozenset[RankedPod] = frozenset(),
    ) -> list[Place]:
        """The pods of a ranking; of those in doubt what runs by now may have run already."""
        ts_ns, layout = record.ts_ns, self._manager.layout
        still = unsure(state, ts_ns, doubtful, steady_ns=0)
        return self._usages.places(ts_ns, ranked, threshold.signal, layout, still, idle)

    def _outcome(
        self,
        body: ReclaimAttempted,
        threshold: Threshold,
        after: Mapping[str, EvictionSignalObserved],
    ) -> Iterator[Judgement]:
        """Whether what was unused had to suffice."""
        if not self._manager.reclaims(threshold):
            if body.outcome == "node_level":
                yield same(
                    False, f"nothing is deleted for {threshold.signal} before a pod is evicted"
                )
            return
        if not after or body.outcome in (None, "nothing"):
            return
        assert self.bench.profile is not None
        minimum = self.bench.profile.eviction.reclaim_must_reach_minimum
        short = dict.fromkeys(
            each.signal
            for each in self._manager.rounds.thresholds
            if (seen := after.get(each.signal)) is not None
            and is_short(each, seen.available, seen.capacity, minimum=minimum)
        )
        left, sufficed = ", ".join(short), body.outcome == "node_level"
        if sufficed == (not short):
            why = "sufficed" if sufficed else f"left {left} short"
        elif sufficed:
            why = f"cannot have sufficed: {left} stayed short"
        else:
            why = "had to suffice, and no pod was to be evicted"
            signals = {each.signal for each in self._manager.rounds.thresholds}
            if unread := ", ".join(sorted(signals - after.keys())):
                yield open_to(f"{unread} behind it", denied=f"deleting what was unused {why}")
                return
        yield same(sufficed == (not short), f"deleting what was unused {why}")

    # -- pods -------------------------------------------------------------------------------

    def _left_alone(self, record: Record, body: PodSpared, state: NodeState) -> None:
        if self._reclaim is not None and record.cause == self._reclaim.record.seq:
            self._reclaim.spared.append(_ranked(body))
        subject = f"pod/{body.namespace}/{body.pod}"
        pod, seq = self._usages.spec(record.ts_ns, body)
        if pod is None or seq is None:
            self.lacking(record, subject, ["the pod's spec"])
            return
        critical = is_critical_pod(pod)
        why = f"pod {body.namespace}/{body.pod} is {'' if critical else 'not '}critical"
        self.conclude(record, subject, same(critical, why, inputs=(seq,), certain=True))

    def _evicted(self, record: Record, body: PodEvicted, state: NodeState) -> None:
        self._manager.act(record.cause)
        subject, key = f"pod/{body.namespace}/{body.pod}", key_of(body)
        was_ending = key in self._ending
        self._ending.add(key)
        pod, seq = self._usages.spec(record.ts_ns, body)
        missing = self._manager.unknown()
        inputs = () if seq is None else (seq,)
        if pod is not None and is_critical_pod(pod):
            why = f"pod {body.namespace}/{body.pod} is critical, and no such pod is evicted"
            self.conclude(record, subject, same(False, why, inputs=inputs, certain=True))
            return
        profile, settings = self.bench.profile, self.bench.settings
        if pod is None:
            missing.append("the pod's spec")
        if missing or pod is None or profile is None:
            self.lacking(record, subject, missing)
            return
        if is_for_own_use(body):
            grace = judge_grace(body, pod, None, profile, settings, was_ending=was_ending)

            def conclude_own() -> None:
                found = self._usages.excess(record.ts_ns, body, pod, self._manager.layout)
                excess, seqs = (None, inputs) if found is None else (found[0], (*inputs, found[1]))
                own = judge_limit(body, pod, profile, record.ts_ns, seqs, excess=excess)
                self.conclude(record, subject, all_of([own, grace]))

            self._waiting.append((record.ts_ns + _LATER_NS, conclude_own))
            return
        cause = self._reclaim
        if cause is not None and record.cause != cause.record.seq:
            cause = None
        # Without its reclaim the signals before it may be those that were read again after it.
        is_lost = cause is None and body.resource not in ("memory", "pids")
        acted_ns = 0 if is_lost else (cause.record if cause is not None else record).ts_ns
        fitting = self._met(acted_ns, body)
        doubtful = unsure(state, record.ts_ns, (cause and cause.ranked) or ())
        idle = unsure(state, record.ts_ns, doubtful, steady_ns=0)
        self._usages.tell(record.ts_ns, body, used_by_containers(body.message or ""))
        said: dict[Threshold | None, list[Judgement]] = {}
        for met, threshold in fitting:
            said[threshold] = [met]
            if threshold is None or met.verdict == "impossible":
                continue
            grace = judge_grace(body, pod, threshold, profile, settings, was_ending=was_ending)
            said[threshold].append(grace)
            if not self._manager.loose:
                reading = self._manager.rounds.latest(threshold.signal, acted_ns)
                said[threshold].append(judge_message(body, pod, threshold, reading, profile))

        def judged(threshold: Threshold | None) -> tuple[Judgement, dict[str, str]]:
            met, *rest = said[threshold]
            if threshold is None or met.verdict == "impossible":
                return met, {}
            if cause is None or cause.ranked is None:
                turn = open_to("the ranking of the pods", denied="another pod may stand first")
                return all_of([met, turn, *rest]), {}
            places = self._places(record, cause.ranked, threshold, doubtful, state, idle)
            resource = RESOURCE_OF[threshold.signal]
            turns = self._turn(record, body, cause, places, resource)
            spared = [pod in cause.spared for pod in cause.ranked]
            return all_of([met, *turns, *rest]), standing(places, spared, resource)

        def conclude() -> None:
            found = {threshold: judged(threshold) for threshold in said}
            judgement, best = best_of([(found[each][0], each) for each in found])
            self.conclude(record, subject, judgement, about=found[best][1])
            self._compare(record, body, subject)

        self._waiting.append((record.ts_ns + _LATER_NS, conclude))

    def _compare(self, record: Record, body: PodEvicted, subject: str) -> None:
        """The event of an eviction says the same as its line."""
        for seq, told in self._events.get(key_of(body), ()):
            if tells_otherwise(body.message, told):
                why = "the line about an eviction and its event tell different things"
                sides = (record.seq, str(body.message)), (seq, told)
                self.bench.contradict(record.ts_ns, subject, why, *sides)
                return

    def _turn(
        self,
        record: Record,
        body: PodEvicted,
        cause: _Reclaim,
        places: Sequence[Place],
        resource: str,
    ) -> Iterator[Judgement]:
        """Whether it was the pod's turn."""
        who, inputs = _ranked(body), (cause.record.seq,)
        order = dict(zip(cause.ranked or (), places, strict=True))
        # Of one that is critical the line that it was passed over may be lost.
        left = [
            place
            for pod, place in order.items()
            if pod == who
            or (pod not in cause.spared and not (place.pod and is_critical_pod(place.pod)))
        ]
        if who not in order or left[0] is not order[who]:
            first = next(iter(left), None)
            why = "the pod does not stand in the ranking"
            if first is not None:
                why = f"pod {first.name} stood before it in the ranking, and was not passed over"
            if first is None or first.pod is not None:
                yield same(False, why, inputs=inputs)
            else:
                yield open_to(f"the spec of pod {first.name}", denied=why, inputs=inputs)
            return
        rank = list(order).index(who) + 1
        if body.rank not in (None, rank):
            why = f"the pod stood at place {rank} of the ranking, not {body.rank}"
            yield same(False, why, inputs=inputs)
        if not self._manager.loose:
            yield judge_first(left, resource, record.ts_ns)


def _ranked(body: PodEvicted | PodSpared) -> RankedPod:
    return RankedPod(namespace=body.namespace, pod=body.pod, pod_uid=body.pod_uid)
