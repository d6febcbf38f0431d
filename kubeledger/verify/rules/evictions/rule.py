"""The rule of the eviction manager: thresholds, conditions, reclaims, and who goes first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Final, NamedTuple

from msgspec.structs import replace

from kubeledger.kubelet.eviction.signals import RESOURCE_OF
from kubeledger.kubelet.eviction.thresholds import Threshold, is_short
from kubeledger.kubelet.kube.podclass import is_critical_pod
from kubeledger.model.bodies.eviction import (
    NodeConditionsChanged,
    PodSpared,
    PodUsageObserved,
    RankedPod,
    ReclaimAttempted,
)
from kubeledger.model.bodies.images import EvictionSignalObserved
from kubeledger.model.bodies.lifecycle import PodEvicted, PodResized
from kubeledger.model.bodies.node import ClockStepped, KubeletStarted
from kubeledger.model.record import Body, Record
from kubeledger.model.units import NS_PER_S
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.belief import Judgement, RuleVerifier, all_of, open_to, same
from kubeledger.verify.context import Prescan, See, VerifyContext
from kubeledger.verify.evidence.coverage import SIGNALS_NS
from kubeledger.verify.evidence.times import UNSEEN_STEP_NS
from kubeledger.verify.finding import Fields
from kubeledger.verify.rules.evictions.grace_and_message import Eviction, used_by_containers
from kubeledger.verify.rules.evictions.missing_evictions import (
    MissingEvictions,
    best_of,
    judge_met,
    names_of,
)
from kubeledger.verify.rules.evictions.ranking import (
    LATER_NS,
    Place,
    Usages,
    judge_first,
    judge_order,
    places_text,
)
from kubeledger.verify.rules.evictions.rounds import Rounds
from kubeledger.verify.rules.evictions.thresholds import Round, threshold_says, transition_period_ns

_TURNED: Final = "which of two rounds came first, around a step of the clock"
_SURELY_NS: Final = 2 * NS_PER_S
"""What was active so long before and after was active when the pods were ranked."""


class _Reclaim(NamedTuple):
    """A reclaim, and the critical pods that it passed over."""

    record: Record
    ranked: tuple[RankedPod, ...] | None
    spared: list[RankedPod]


class EvictionVerifier(RuleVerifier):
    """Judges what the eviction manager decided: docs/internals/verification.md."""

    rule = "pkg/kubelet/eviction managerImpl.synchronize"
    decides = (PodEvicted, PodSpared, ReclaimAttempted, NodeConditionsChanged)

    def __init__(self, context: VerifyContext) -> None:
        super().__init__(context)
        self._rounds = context.node_pressure = Rounds(context)
        self._usages = Usages(context)
        self._missing = MissingEvictions(context, self._rounds, self._usages, self.rule)
        self._waiting: list[tuple[int, Callable[[], None]]] = []
        self._reclaim: _Reclaim | None = None

    def prescans(self) -> Mapping[type[Body], Prescan]:
        return {PodResized: self._usages.objects.foresee}

    def sees(self) -> Mapping[type[Body], See]:
        rounds, stepped = self._rounds, "the time between rounds, around a step of the clock"
        return {
            PodResized: self._usages.objects.resized,
            KubeletStarted: lambda _, body, state: rounds.restart(from_start=body.from_start),
            ClockStepped: lambda _, body, state: rounds.widen(stepped),
            EvictionSignalObserved: self._signal,
            PodUsageObserved: self._usage,
            NodeConditionsChanged: self._conditions,
            ReclaimAttempted: self._attempted,
            PodSpared: self._left_alone,
            PodEvicted: self._evicted,
        }

    # -- what is read -----------------------------------------------------------------------

    def _signal(self, record: Record, body: EvictionSignalObserved, state: NodeState) -> None:
        if self._rounds.read(record, body):
            self._missing.look()
            self._rounds.begin(record, body)

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
        self._decide(None)

    # -- conditions -------------------------------------------------------------------------

    def _conditions(self, record: Record, body: NodeConditionsChanged, state: NodeState) -> None:
        self._rounds.close()
        last, current = self._rounds.last, self._rounds.current
        conditions = current.conditions
        self._rounds.reported = reported = frozenset(body.conditions)
        missing = self._rounds.unknown()
        if transition_period_ns(self.context.settings) is None:
            missing.append("the setting evictionPressureTransitionPeriod")
        if last is None:
            missing.append("the eviction signals (logged from verbosity 3)")
        if missing or last is None:
            self.lacking(record, "node", missing)
            return
        sure, fields = conditions.sure, {"conditions": sorted(reported)}
        seqs = [reading.seq for reading in last.readings.values()]
        prefix = f"the node reports {names_of(reported)}: "
        met = [
            threshold_says(threshold, last.readings[threshold.signal])
            for threshold, belief in current.beliefs.items()
            if threshold.signal in last.readings and None not in belief.states
        ]
        why = "; ".join(met) or "no threshold is met, nor was for the transition period"
        judgement = same(True, prefix + why, expected=fields, inputs=seqs)
        if not sure <= reported <= conditions.possible:
            why = f"{prefix}it had to report {names_of(sure)}, {why}"
            judgement = same(False, why, expected={"conditions": sorted(sure)}, inputs=seqs)
            deny = partial(self._deny, record, last, judgement, fields)
            self._waiting.append((record.ts_ns + UNSEEN_STEP_NS, deny))
        elif conditions.open:
            open_ones = f"whether thresholds of {names_of(conditions.open)} were met before"
            denied = f"{prefix}it may report {names_of(sure)}"
            judgement = open_to(open_ones, denied=denied, inputs=seqs)
        if judgement.verdict != "impossible":
            self.conclude(record, "node", judgement, recorded=fields)
        if not self._rounds.loose:
            conditions.learn(last.ts_ns, reported, body.observed)

    def _deny(self, record: Record, last: Round, judgement: Judgement, fields: Fields) -> None:
        """Conditions that the last round denies: it was the next one, where that came at once."""
        if last.next_ns is not None and last.next_ns - record.ts_ns <= UNSEEN_STEP_NS:
            judgement = open_to(_TURNED, denied=judgement.why, inputs=judgement.inputs)
        self.conclude(record, "node", judgement, recorded=fields)

    # -- reclaims ---------------------------------------------------------------------------

    def _attempted(self, record: Record, body: ReclaimAttempted, state: NodeState) -> None:
        self._rounds.act()
        self._reclaim = reclaim = _Reclaim(record, body.ranked, [])
        if missing := self._rounds.unknown():
            self.lacking(record, "node", missing)
            return
        fitting, limits = self._met(record.ts_ns, body), [*self._rounds.current.beliefs]
        after: dict[str, EvictionSignalObserved] = {}
        if any(each is not None and self._rounds.reclaims(each) for _, each in fitting):
            after = self._rounds.expect_readings(record)

        def judged(met: Judgement, threshold: Threshold | None) -> Judgement:
            judgements = [met]
            if threshold is not None and met.verdict != "impossible":
                judgements += self._outcome(body, threshold, limits, after)
                if body.ranked is not None and not self._rounds.loose:
                    judgements += self._ranked(reclaim, body, threshold)
            return all_of(judgements)

        def conclude() -> None:
            judgement, _ = best_of([(judged(*each), each[1]) for each in fitting])
            fields = {"resource": body.resource, "outcome": body.outcome}
            self.conclude(record, "node", judgement, recorded=fields)

        self._waiting.append((record.ts_ns + LATER_NS, conclude))

    def _met(
        self, ts_ns: int, body: ReclaimAttempted | PodEvicted
    ) -> list[tuple[Judgement, Threshold | None]]:
        rounds, seq = self._rounds, self.context.settings.seq
        seqs = () if seq is None else (seq,)
        loss = self.context.coverage.missing(ts_ns - SIGNALS_NS, ts_ns)
        judged = judge_met(rounds, ts_ns, body, seqs, None if loss is None else loss.phrase)
        found = [(replace(met, inputs=(*met.inputs, *seqs)), limit) for met, limit in judged]
        if not rounds.loose and len(found) == 1 and found[0][0].verdict == "impossible":
            now_ns = 0 if rounds.last is None else rounds.last.ts_ns
            rounds.current.learn(found[0][1], now_ns)
        return found

    def _places(self, ts_ns: int, cause: _Reclaim, threshold: Threshold) -> list[Place]:
        signal, layout = threshold.signal, self._rounds.layout
        return [self._usages.place(ts_ns, who, signal, layout) for who in cause.ranked or ()]

    def _ranked(
        self, cause: _Reclaim, body: ReclaimAttempted, threshold: Threshold
    ) -> Iterator[Judgement]:
        """Whether the pods can have been ranked so, and whether none of them was to go."""
        ts_ns = cause.record.ts_ns
        places = self._places(ts_ns, cause, threshold)
        why = "pods are ranked by what they used"
        yield judge_order(combinations(places, 2), why, threshold.signal, ts_ns)
        names = {(who.namespace, who.pod) for who in body.ranked or ()}
        active, from_ns = self.context.timeline.active, ts_ns - _SURELY_NS
        longer = active(from_ns, ts_ns + _SURELY_NS).must
        for pod in active(from_ns, ts_ns).must.values():
            # Ends are told late, but not those which the kubelet itself decided.
            ends = ts_ns < (pod.ending_ns or 0) == pod.end_decided_ns
            if (ends or pod.key in longer) and (pod.namespace, pod.name) not in names:
                why = f"pod {pod.full_name} was active, and had to be ranked"
                yield same(False, why, inputs=[pod.seq])
        left = [place for place in places if place.pod and not is_critical_pod(place.pod)]
        if body.outcome == "nothing" and left:
            yield same(False, f"pod {left[0].name} is not critical, and had to be evicted")

    def _outcome(
        self,
        body: ReclaimAttempted,
        threshold: Threshold,
        limits: Sequence[Threshold],
        after: Mapping[str, EvictionSignalObserved],
    ) -> Iterator[Judgement]:
        """Whether what was unused had to suffice; ``limits``: all of the process that acted."""
        sufficed = body.outcome == "node_level"
        if sufficed and not self._rounds.reclaims(threshold):
            yield same(False, f"nothing is deleted for {threshold.signal} before a pod is evicted")
        if not after or body.outcome in (None, "nothing"):
            return
        minimum = self.context.known_profile.eviction.reclaim_must_reach_minimum
        seen = [(each, after[each.signal]) for each in limits if each.signal in after]
        short = dict.fromkeys(
            each.signal
            for each, now in seen
            if is_short(each, now.available, now.capacity, minimum=minimum)
        )
        left, deleting = ", ".join(short), "deleting what was unused"
        unread = ", ".join(sorted({each.signal for each in limits} - after.keys()))
        if sufficed == (not short):
            yield same(True, f"{deleting} {'sufficed' if sufficed else f'left {left} short'}")
        elif sufficed:
            yield same(False, f"{deleting} cannot have sufficed: {left} stayed short")
        else:
            why = f"{deleting} had to suffice, and no pod was to be evicted"
            yield open_to(f"{unread} after it", denied=why) if unread else same(False, why)

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
        self._rounds.act(record.cause)
        subject = f"pod/{body.namespace}/{body.pod}"
        pod, seq = self._usages.spec(record.ts_ns, body)
        if pod is not None and is_critical_pod(pod):
            why = f"pod {body.namespace}/{body.pod} is critical, and no such pod is evicted"
            self.conclude(record, subject, same(False, why, inputs=(seq or 0,), certain=True))
            return
        missing = self._rounds.unknown()
        if pod is None:
            missing.append("the pod's spec")
        if missing or pod is None:
            self.lacking(record, subject, missing)
            return
        eviction = Eviction(self.context, record, body, pod, seq or 0)
        if eviction.is_for_own_use:
            self._over_limit(eviction)
        else:
            self._for_pressure(eviction)

    def _over_limit(self, each: Eviction) -> None:
        """Judge the eviction of a pod that exceeded a limit of its own."""
        end, record = each.judge_end(None), each.record

        def conclude() -> None:
            layout = self._rounds.layout
            own = each.judge_limit(self._usages.excess(record.ts_ns, each.body, each.pod, layout))
            self.conclude(record, each.subject, all_of([own, end]))

        self._waiting.append((record.ts_ns + LATER_NS, conclude))

    def _for_pressure(self, eviction: Eviction) -> None:
        """Judge an eviction for a threshold: was it met, was it the pod's turn, was it said so."""
        record, body, cause = eviction.record, eviction.body, self._reclaim
        if cause is not None and record.cause != cause.record.seq:
            cause = None
        # Without its reclaim the signals before it may be those that were read again after it.
        is_lost = cause is None and body.resource not in ("memory", "pids")
        acted_ns = 0 if is_lost else (cause.record if cause is not None else record).ts_ns
        self._usages.note(record.ts_ns, body, used_by_containers(body.message or ""))
        by_threshold: dict[Threshold | None, list[Judgement]] = {}
        for met, threshold in self._met(acted_ns, body):
            by_threshold[threshold] = [met]
            if threshold is None or met.verdict == "impossible":
                continue
            by_threshold[threshold].append(eviction.judge_end(threshold))
            if not self._rounds.loose:
                reading = self._rounds.latest(threshold.signal, acted_ns)
                by_threshold[threshold].append(eviction.judge_message(threshold, reading))

        def judged(threshold: Threshold | None) -> tuple[Judgement, dict[str, str]]:
            met, *rest = by_threshold[threshold]
            if threshold is None or met.verdict == "impossible":
                return met, {}
            if cause is None or cause.ranked is None:
                unranked = open_to("the ranking of the pods", denied="another pod may be first")
                return all_of([met, unranked, *rest]), {}
            places = self._places(record.ts_ns, cause, threshold)
            ranked = self._ranking(record, body, cause, places, threshold.signal)
            spared = [each in cause.spared for each in cause.ranked]
            about = places_text(places, spared, RESOURCE_OF[threshold.signal])
            return all_of([met, *ranked, *rest]), about

        def conclude() -> None:
            judgement, about = best_of(map(judged, by_threshold))
            self.conclude(record, eviction.subject, judgement, about=about)

        self._waiting.append((record.ts_ns + LATER_NS, conclude))

    def _ranking(
        self, record: Record, body: PodEvicted, cause: _Reclaim, places: list[Place], signal: str
    ) -> Iterator[Judgement]:
        """Whether it was the pod's turn."""
        who, inputs = _ranked(body), (cause.record.seq,)
        order = dict(zip(cause.ranked or (), places, strict=True))
        # The line that a critical pod was passed over may be lost.
        critical = {pod for pod, at in order.items() if at.pod and is_critical_pod(at.pod)}
        left = [at for pod, at in order.items()
                if pod == who or pod not in critical.union(cause.spared)]  # fmt: skip
        if not left:
            yield same(False, "the pod is not in the ranking", inputs=inputs)
            return
        if who not in order or left[0] is not order[who]:
            why = f"pod {left[0].name} was before it in the ranking, and was not skipped"
            unread = open_to(f"the spec of pod {left[0].name}", denied=why, inputs=inputs)
            yield unread if left[0].pod is None else same(False, why, inputs=inputs)
            return
        rank = list(order).index(who) + 1
        if body.rank not in (None, rank):
            why = f"the pod was at place {rank} of the ranking, not {body.rank}"
            yield same(False, why, inputs=inputs)
        if not self._rounds.loose:
            yield judge_first(left, signal, record.ts_ns)


def _ranked(body: PodEvicted | PodSpared) -> RankedPod:
    return RankedPod(namespace=body.namespace, pod=body.pod, pod_uid=body.pod_uid)
