"""Whether a threshold was met: for what is said of a decision, and for one that had to come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from kubeledger.kubelet.eviction.ranking import rank_key
from kubeledger.kubelet.eviction.signals import ALLOCATABLE_MEMORY, RESOURCE_OF
from kubeledger.kubelet.eviction.thresholds import Threshold, is_short, threshold_quantity
from kubeledger.kubelet.kube.podclass import is_critical_pod
from kubeledger.model.bodies.eviction import NodeConditionsChanged, ReclaimAttempted
from kubeledger.model.bodies.images import EvictionSignalObserved
from kubeledger.model.bodies.lifecycle import PodEvicted
from kubeledger.model.units import NS_PER_S, format_go_duration
from kubeledger.verify.belief import WORST_FIRST, Belief, Judgement, Ruling, judge, open_to, same
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.debts import Debt
from kubeledger.verify.evidence.line_classes import CALM
from kubeledger.verify.rules.evictions.ranking import Usages
from kubeledger.verify.rules.evictions.rounds import ROUNDS, Rounds
from kubeledger.verify.rules.evictions.thresholds import (
    SIGNAL_THEN,
    Met,
    Reading,
    Round,
    may_act,
    threshold_says,
    transition_period_ns,
)

T = TypeVar("T")

Decision = ReclaimAttempted | PodEvicted


def _may_mean(claim: Decision, threshold: Threshold, reading: Reading | None) -> bool:
    """Whether this threshold can be the one that a decision shows."""
    kind = "hard" if threshold.is_hard else "soft"
    if threshold.signal == ALLOCATABLE_MEMORY:
        kind = "allocatable"
    said = (claim.signal, claim.threshold_kind, claim.resource)
    meant = (threshold.signal, kind, RESOURCE_OF[threshold.signal])
    if any(one not in (None, other) for one, other in zip(said, meant, strict=True)):
        return False
    if reading is not None and claim.observed not in (None, reading.available):
        return False
    if claim.threshold is None or (isinstance(threshold.value, float) and reading is None):
        return True
    capacity = reading.capacity if reading is not None else 0
    return threshold_quantity(threshold.value, capacity).value() == claim.threshold


def judge_met(
    rounds: Rounds, ts_ns: int, claim: Decision, seqs: tuple[int, ...], lost: str | None
) -> list[tuple[Judgement, Threshold | None]]:
    """The thresholds that a decision may mean, and whether each was met when the round acted.

    Which one was meant no line shows below verbosity 3. Without any, what is claimed is none of
    the settings. Under a variant only the claimed resource counts. ``lost``: lines that may be
    missing of the round.
    """
    if rounds.loose:
        claim = ReclaimAttempted(resource=claim.resource)
    shown = claim.observed
    read = {each: rounds.latest(each.signal, ts_ns, shown) for each in rounds.current.beliefs}
    is_recent = rounds.is_recent(ts_ns)
    found: list[tuple[Judgement, Threshold | None]] = []
    for threshold, belief in rounds.current.beliefs.items():
        if _may_mean(claim, threshold, read[threshold]):
            met = _claimed(threshold, claim.observed)
            if is_recent:
                cut = "since when the threshold was met" if belief.cut else None
                met = judge(list(_rulings(threshold, belief, read[threshold])), cut=cut)
            found.append((met, threshold))
    if found:
        return found
    amount = "" if claim.threshold is None else f" of {claim.threshold}"
    what = f"{claim.threshold_kind or ''} threshold of {claim.signal or claim.resource}{amount}"
    why = f"no {what.strip()} is set" + ("" if claim.observed is None else " that fits")
    # Of which kind it was, and in which round, follows from lines that may be lost.
    of_any_kind = replace(claim, threshold_kind=None, observed=None)
    certain = not any(_may_mean(of_any_kind, each, reading) for each, reading in read.items())
    if lost is not None and not certain:
        return [(open_to(lost, denied=why, inputs=seqs), None)]
    return [(same(False, why, inputs=seqs, certain=certain), None)]


def best_of(found: Iterable[tuple[Judgement, T]]) -> tuple[Judgement, T]:
    """The first one that goes best with the record."""
    return max(found, key=lambda each: WORST_FIRST.index(each[0].verdict))


def _rulings(
    threshold: Threshold, belief: Belief[Met | None], reading: Reading | None
) -> Iterator[Ruling]:
    """Whether a threshold drives evictions, in each world.

    Since when it was met no line of the kubelet says: the importer's answer is not asked.
    """
    why_met = f"{threshold.signal} was not observed"
    if reading is not None:
        why_met = threshold_says(threshold, reading)
    inputs = () if reading is None else (reading.seq,)
    grace = format_go_duration(threshold.grace_ns)
    # Whether the last milliseconds of a grace period are over does not follow from the records.
    over = {met for met in belief.states if met and met.satisfied}
    for world in belief.worlds:
        met, why, allowed = world.state, why_met, False
        if met is not None and not met.satisfied:
            if met._replace(satisfied=True) in over:
                continue
            why += f", but only since {met.since}: its grace period of {grace} was not over"
        elif met is not None:
            allowed = True
            if reading and not is_short(threshold, reading.available, reading.capacity):
                why += ", which is not reclaimed yet"
            if met.since_from_ns:
                why += f", since {met.since}"
                why += "" if threshold.is_hard else f", longer than its grace period of {grace}"
        yield Ruling(allowed=allowed, why=why, assumes=world.assumes, inputs=inputs)


def _claimed(threshold: Threshold, observed: int | None) -> Judgement:
    """The same where the log does not show the signals: from what the message shows."""
    if observed is None or isinstance(threshold.value, float):
        why, allowed = f"{threshold.signal} may not have been short", None
    else:
        why = threshold_says(threshold, Reading(observed, 0, 0, 0))
        allowed = is_short(threshold, observed, 0, minimum=True)
        if allowed and not (threshold.is_hard and is_short(threshold, observed, 0)):
            why, allowed = f"{threshold.signal} may have been short for too little", None
    if allowed is None:
        return open_to(SIGNAL_THEN.format(threshold.signal), denied=why)
    return same(allowed, why)


_OWED_NS: Final = 45 * NS_PER_S
"""Four rounds: the next one acts."""
_TOLD_NS: Final = 25 * NS_PER_S
"""Two rounds: one that reclaims has told its conditions, and each that follows tells them."""
_SAME_NS: Final = 180 * NS_PER_S
"""No statistics stay the same for so long."""


class MissingEvictions:
    """Looks at every round for evictions and conditions that had to come of it, and did not.

    As recorded it is owed. Under a variant it is what would have been, where the recorded settings
    explain what is recorded.
    """

    def __init__(self, context: VerifyContext, rounds: Rounds, usages: Usages, rule: str) -> None:
        self._context = context
        self._rounds = rounds
        self._usages = usages
        self._rule = rule
        self._due: Threshold | None = None
        self._would_report: frozenset[str] | None = None

    def look(self) -> None:
        last = self._rounds.last
        if last is None:
            return
        if not self._rounds.loose:
            self._owe(last)
            return
        reported_only = self._conditions_differ(last)
        due = next(iter(self._rounds.current.due()), None)
        idle = not any(map(may_act, self._rounds.recorded.beliefs.values()))
        if due is None or not idle or self._rounds.acted:
            self._due = None if due is None else self._due
        elif self._due != due or reported_only:
            self._due = due
            self._would_evict(last, due)

    def _owe(self, last: Round) -> None:
        """What this round owes: a reclaim for what is short, and the conditions that follow.

        A round does nothing on statistics that the one before had seen.
        """
        if self._rounds.unknown() or transition_period_ns(self._context.settings) is None:
            return
        debts, due = self._context.debts, self._rounds.current.due()
        names = {each.signal for each in due if _is_far(each, last)}
        for threshold in due:
            key, reading = (ROUNDS, threshold.signal), last.readings.get(threshold.signal)
            if self._rounds.acted or reading is None or threshold.signal not in names:
                continue
            owed, before = debts.owed(key), self._rounds.before
            seen = None if before is None else before.readings.get(threshold.signal)
            if owed is not None and seen is not None and seen.available == reading.available:
                debts.defer(*key, due_ns=min(last.ts_ns + _OWED_NS, owed.since.ts_ns + _SAME_NS))
            says = threshold_says(threshold, reading)
            why = f"something had to be reclaimed, in one of the next rounds: {says}"
            expected: dict[str, Any] = {"resource": RESOURCE_OF[threshold.signal]}
            debts.owe(key, self._debt(last, ReclaimAttempted.kind, expected, why))
        for signal in sorted(RESOURCE_OF.keys() - names):
            debts.void(ROUNDS, signal)
        conditions = self._rounds.current.conditions
        reported, process = self._rounds.reported, self._context.process
        if reported is None and process is not None and process.from_start:
            reported = frozenset()
        had, logs = conditions.sure or conditions.possible, self._context.coverage.logs
        is_told = reported is None or conditions.sure <= reported <= conditions.possible
        if reported is None or is_told or not (had or logs(last.ts_ns, CALM)):
            debts.void("conditions")
            return
        debt = replace(self._conditions_debt(last, had, reported), due_ns=last.ts_ns + _TOLD_NS)
        debts.owe(("conditions",), debt)

    def _conditions_differ(self, last: Round) -> bool:
        """Say which conditions would be reported, once for each change."""
        current, recorded = self._rounds.current.conditions, self._rounds.recorded.conditions
        reported = self._rounds.reported or frozenset()
        explained = recorded.sure <= reported <= recorded.possible
        if current.sure != current.possible or not explained:
            return False
        is_told = current.sure in (reported, self._would_report)
        self._would_report = current.sure
        if not is_told:
            self._context.convict(self._conditions_debt(last, current.sure, reported))
        return not is_told

    def _would_evict(self, last: Round, due: Threshold) -> None:
        """Name the pod that had to be evicted, by what was sampled before."""
        reading, layout = last.readings[due.signal], self._rounds.layout
        candidates = []
        for who in self._usages.latest(reading.ts_ns):
            pod = self._usages.place(reading.ts_ns, who, due.signal, layout)
            if pod.pod and not is_critical_pod(pod.pod) and pod.ranked and pod.likely:
                candidates.append(replace(pod.ranked, usage=pod.likely.most))
        first = min(candidates, key=rank_key(due.signal), default=None)
        why = f"a pod had to be evicted: {threshold_says(due, reading)}"
        expected: dict[str, Any] = {
            "resource": RESOURCE_OF[due.signal],
            "signal": due.signal,
            "observed": reading.available,
            "threshold": threshold_quantity(due.value, reading.capacity).value(),
        }
        subject = "node"
        if first is not None:
            namespace, _, name = first.uid.partition("/")
            expected |= {"namespace": namespace, "pod": name}
            subject = f"pod/{first.uid}"
            why += f"; by the usage sampled last pod {first.uid} comes first"
        if self._rounds.reclaims(due):
            why += ", unless deleting what is unused suffices"
        debt = self._debt(last, PodEvicted.kind, expected, why)
        self._context.convict(replace(debt, subject=subject))

    def _conditions_debt(self, last: Round, due: frozenset[str], told: frozenset[str]) -> Debt:
        why = f"the node had to report {names_of(due)}, where it reported {names_of(told)}"
        return self._debt(last, NodeConditionsChanged.kind, {"conditions": sorted(due)}, why)

    def _debt(self, last: Round, kind: str, expected: dict[str, Any], why: str) -> Debt:
        inputs = [self._context.settings.seq or 0, *(each.seq for each in last.readings.values())]
        return Debt(
            since=last.record,
            due_ns=last.ts_ns + _OWED_NS,
            shown_by=EvictionSignalObserved,
            kind=kind,
            subject="node",
            expected=expected,
            why=why,
            rule=self._rule,
            inputs=tuple(seq for seq in inputs if seq),
        )


def _is_far(threshold: Threshold, last: Round) -> bool:
    """Whether a signal is well under its threshold: lines round it."""
    reading = last.readings.get(threshold.signal)
    if reading is None:
        return False
    limit = threshold_quantity(threshold.value, reading.capacity).value()
    return 10 * reading.available < 9 * limit


def names_of(conditions: frozenset[str]) -> str:
    """Conditions in words."""
    return " and ".join(sorted(conditions)) or "no pressure"
