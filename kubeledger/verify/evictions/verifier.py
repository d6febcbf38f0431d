"""The rule of the eviction manager: thresholds, conditions, reclaims, and who goes first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from kubeledger.eviction.records import (
    NodeConditionsChanged,
    PodSpared,
    PodUsageObserved,
    RankedPod,
    ReclaimAttempted,
)
from kubeledger.images.records import EvictionSignalObserved
from kubeledger.kube.critical import is_critical_pod
from kubeledger.lifecycle.records import PodConfigChanged, PodEvicted
from kubeledger.machine import Body, Record
from kubeledger.node.records import ClockStepped, KubeletStarted
from kubeledger.node.state import NodeState
from kubeledger.preemption.records import PodPreempted
from kubeledger.units import NS_PER_S
from kubeledger.verify.belief import RuleVerifier, Ruling, all_of, judge
from kubeledger.verify.bench import Bench
from kubeledger.verify.evictions.claims import (
    used_by_containers,
)
from kubeledger.verify.evictions.config import transition_period_ns
from kubeledger.verify.evictions.judging import (
    Claim,
    names_of,
    threshold_says,
)
from kubeledger.verify.evictions.manager import Manager
from kubeledger.verify.evictions.pods import PodUsages
from kubeledger.verify.evictions.turns import Turns, unsure
from kubeledger.verify.evictions.unrecorded import Unrecorded
from kubeledger.verify.verifier import See

__all__ = ["EvictionVerifier"]

_NANOS = 10**9
_LATER_NS = 21 * NS_PER_S
"""A sample taken after a decision is told by a reading within this time."""
_BEFORE_LOG = "what the eviction manager saw before the log begins"
_AFTER_NS = 5 * NS_PER_S
_TRANSITION_NS = 300 * NS_PER_S
"""The default, for what does not depend on it."""
_STEADY_NS = 30 * NS_PER_S
"""A container that runs for so long has statistics."""
_WORST = ("impossible", "unverifiable", "admissible", "match")


class _Waiting(NamedTuple):
    """A decision that is judged once later samples are there."""

    record: Record
    judge: Callable[[], None]


class EvictionVerifier(RuleVerifier):
    """Judges what the eviction manager decided; see docs/verify.md for what it rests on."""

    rule = "pkg/kubelet/eviction managerImpl.synchronize"
    decides = (PodEvicted, PodSpared, ReclaimAttempted, NodeConditionsChanged)

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self._manager = Manager(bench)
        self._usages = PodUsages(bench)
        self._turns = Turns(self._manager, self._usages)
        self._unrecorded = Unrecorded(self._manager, self._usages, self.rule)
        self._waiting: list[_Waiting] = []
        self._reclaims: dict[int, Record] = {}
        self._ending: set[str] = set()

    def sees(self) -> Mapping[type[Body], See]:
        """All that the eviction manager reads and decides."""
        return {
            KubeletStarted: self._kubelet_started,
            ClockStepped: self._clock_stepped,
            EvictionSignalObserved: self._signal,
            PodUsageObserved: self._usage,
            PodConfigChanged: self._changed,
            PodPreempted: self._preempted,
            NodeConditionsChanged: self._conditions,
            ReclaimAttempted: self._attempted,
            PodSpared: self._left_alone,
            PodEvicted: self._evicted,
        }

    def settle(self, state: NodeState) -> None:
        """The records end."""
        self._decide(None)

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

    def _usage(self, record: Record, body: PodUsageObserved, state: NodeState) -> None:
        self._usages.read(record, body)
        self._decide(record.ts_ns)

    # -- what had to be decided -------------------------------------------------------------

    # -- conditions -------------------------------------------------------------------------

    def _conditions(self, record: Record, body: NodeConditionsChanged, state: NodeState) -> None:
        self._manager.close()
        rounds, reported = self._manager.rounds, frozenset(body.conditions)
        self._unrecorded.reported = reported
        missing = self._manager.unknown(record.ts_ns)
        if transition_period_ns(self.bench.settings) is None:
            missing.append("the setting evictionPressureTransitionPeriod")
        if rounds is None or rounds.last is None:
            missing.append("the eviction signals (logged from verbosity 3)")
        if missing:
            self.bench.unverifiable(record, subject="node", missing=missing, rule=self.rule)
            return
        assert rounds is not None
        sure, possible = rounds.conditions.sure, rounds.conditions.possible
        fields = {"conditions": sorted(reported)}
        said = f"the node reports {names_of(reported)}: "
        if sure <= reported <= possible and not rounds.conditions.open:
            rulings = [Ruling(allowed=True, expected=fields, why=said + self._condition_why())]
        elif sure <= reported <= possible:
            assumes = (f"whether thresholds of {names_of(rounds.conditions.open)} were met before",)
            rulings = [
                Ruling(allowed=False, why=f"{said}it may report {names_of(sure)}"),
                Ruling(allowed=True, expected=fields, why=said, assumes=assumes),
            ]
        else:
            why = f"{said}it had to report {names_of(sure)}, {self._condition_why()}"
            expected = {"conditions": sorted(sure)}
            rulings = [Ruling(allowed=False, expected=expected, why=why)]
        seqs = [] if rounds.last is None else [each.seq for each in rounds.last.readings.values()]
        rulings = [msgspec.structs.replace(each, inputs=tuple(seqs)) for each in rulings]
        self.conclude(record, "node", judge(rulings), recorded=fields)
        if not self._manager.loose and rounds.last is not None:
            rounds.conditions.learn(rounds.last.ts_ns, reported, body.observed)

    def _condition_why(self) -> str:
        """Which thresholds are met now."""
        rounds = self._manager.rounds
        if rounds is None or rounds.last is None:
            return ""
        met = [
            threshold_says(threshold, rounds.last.readings[threshold.signal])
            for threshold, belief in rounds.thresholds.items()
            if threshold.signal in rounds.last.readings
            and all(world.state is not None for world in belief.worlds)
        ]
        return "; ".join(met) or "no threshold is met, nor was for the transition period"

    # -- reclaims ---------------------------------------------------------------------------

    def _attempted(self, record: Record, body: ReclaimAttempted, state: NodeState) -> None:
        self._manager.close()
        self._manager.acted = True
        self._reclaims = {record.seq: record, **dict(list(self._reclaims.items())[:63])}
        subject = "node"
        if missing := self._manager.unknown(record.ts_ns):
            self.bench.unverifiable(record, subject=subject, missing=missing, rule=self.rule)
            return
        claim = Claim.of(body)
        met, threshold = self._manager.threshold(record.ts_ns, claim)
        doubtful = unsure(state, record.ts_ns, body.ranked or ())
        after: dict[str, EvictionSignalObserved] = {}
        if threshold is not None and self._manager.reclaims(threshold):
            after = self._manager.expect_readings(record)

        def conclude() -> None:
            judgements = [met]
            if threshold is not None and met.verdict != "impossible":
                judgements += self._turns.outcome(body, threshold, after)
                if body.ranked is not None and not self._manager.loose:
                    judgements.append(self._turns.order(record, body.ranked, threshold, doubtful))
            fields: dict[str, Any] = {"resource": body.resource, "outcome": body.outcome}
            self.conclude(record, subject, all_of(judgements), recorded=fields)

        self._waiting.append(_Waiting(record, conclude))

    # -- pods -------------------------------------------------------------------------------

    def _left_alone(self, record: Record, body: PodSpared, state: NodeState) -> None:
        who = RankedPod(namespace=body.namespace, pod=body.pod, pod_uid=body.pod_uid)
        if record.cause is not None:
            self._turns.spared.setdefault(record.cause, []).append(who)
        subject = f"pod/{body.namespace}/{body.pod}"
        pod, seq = self._usages.spec(record.ts_ns, who)
        if pod is None or seq is None:
            self.bench.unverifiable(
                record,
                subject=subject,
                missing=["the pod's spec"],
                rule="pkg/kubelet/eviction managerImpl.evictPod",
            )
            return
        critical = is_critical_pod(pod)
        why = f"pod {body.namespace}/{body.pod} is {'' if critical else 'not '}critical"
        ruling = Ruling(allowed=critical, why=why, inputs=(seq,), certain=True)
        self.conclude(record, subject, judge([ruling]))

    def _evicted(self, record: Record, body: PodEvicted, state: NodeState) -> None:
        self._manager.close()
        self._manager.acted = True
        self._manager.evicts_for(record.cause)
        subject = f"pod/{body.namespace}/{body.pod}"
        who = RankedPod(namespace=body.namespace, pod=body.pod, pod_uid=body.pod_uid)
        key = body.pod_uid or f"{body.namespace}/{body.pod}"
        was_ending = key in self._ending
        self._ending.add(key)
        pod, seq = self._usages.spec(record.ts_ns, who)
        missing = self._manager.unknown(record.ts_ns)
        if pod is not None and is_critical_pod(pod):
            why = f"pod {body.namespace}/{body.pod} is critical, and no such pod is evicted"
            ruling = Ruling(allowed=False, why=why, inputs=(seq or 0,), certain=True)
            self.conclude(record, subject, judge([ruling]))
            return
        if pod is None:
            missing.append("the pod's spec")
        if missing:
            self.bench.unverifiable(record, subject=subject, missing=missing, rule=self.rule)
            return
        assert pod is not None
        if _is_for_own_use(body):
            judgement = all_of(
                [
                    self._turns.local(record, body, pod, seq),
                    *self._turns.grace(body, pod, None, was_ending=was_ending),
                ]
            )
            self.conclude(record, subject, judgement)
            return
        cause = self._reclaims.get(record.cause or 0)
        # Without its reclaim the signals before it may be those that were read again after it.
        is_lost = record.cause is not None and cause is None
        acted_ns = 0 if is_lost else (cause or record).ts_ns
        met, threshold = self._manager.threshold(acted_ns, Claim.of(body))
        rounds = self._manager.rounds
        reading = None
        if threshold is not None and rounds is not None:
            reading = rounds.latest(threshold.signal, acted_ns)
        ranked = cause.body.ranked if cause is not None else None  # type: ignore[attr-defined]
        doubtful = unsure(state, record.ts_ns, ranked or ())
        used = used_by_containers(body.message or "")
        if used is not None and body.resource is not None:
            self._usages.tell(key, body.resource, record.ts_ns, used)

        def conclude() -> None:
            judgements, about = [met], {}
            if threshold is not None and met.verdict != "impossible":
                about = self._turns.ranking(record, cause, threshold, doubtful)
                judgements += self._turns.turn(record, body, who, cause, threshold, doubtful)
                judgements += self._turns.grace(body, pod, threshold, was_ending=was_ending)
                judgements += self._turns.message(body, pod, threshold, reading)
            self.conclude(record, subject, all_of(judgements), about=about)

        self._waiting.append(_Waiting(record, conclude))

    # -- later ------------------------------------------------------------------------------

    def _decide(self, now_ns: int | None) -> None:
        """Judge what waited long enough; everything with None."""
        left: list[_Waiting] = []
        for waiting in self._waiting:
            if now_ns is None or waiting.record.ts_ns + _LATER_NS <= now_ns:
                waiting.judge()
            else:
                left.append(waiting)
        self._waiting = left


def _is_for_own_use(body: PodEvicted) -> bool:
    """The pod exceeded a limit of its own."""
    if body.signal is not None or body.threshold_kind is not None:
        return (body.signal or "").endswith(".limit") or body.threshold_kind == "local_storage"
    return body.resource is None and "exceed" in (body.message or "")
