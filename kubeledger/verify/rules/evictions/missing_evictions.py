"""What had to be decided and was not: as recorded, and under other settings."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kubeledger.kubelet.eviction.ranking import Candidate, rank_key
from kubeledger.kubelet.eviction.signals import RESOURCE_OF
from kubeledger.kubelet.eviction.thresholds import Threshold, threshold_quantity
from kubeledger.kubelet.kube.critical import is_critical_pod
from kubeledger.model.bodies.eviction import NodeConditionsChanged, ReclaimAttempted
from kubeledger.model.bodies.images import EvictionSignalObserved
from kubeledger.model.bodies.lifecycle import PodEvicted
from kubeledger.model.units import NS_PER_S
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.debts import Debt
from kubeledger.verify.rules.evictions.rounds import Rounds
from kubeledger.verify.rules.evictions.thresholds import (
    Round,
    may_act,
    threshold_says,
    transition_period_ns,
)
from kubeledger.verify.rules.evictions.usages import Usages

_OWED_NS: Final = 45 * NS_PER_S
"""Four rounds: the next one acts."""
_SAME_NS: Final = 180 * NS_PER_S
"""No statistics stay the same for so long."""
_ROUNDS: Final = "rounds"


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
        """Look at the last round, once all that came of it was read."""
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
            key, reading = (_ROUNDS, threshold.signal), last.readings.get(threshold.signal)
            if self._rounds.acted or reading is None or threshold.signal not in names:
                continue
            before = self._rounds.before
            seen = None if before is None else before.readings.get(threshold.signal)
            owed = debts.owed(key)
            if owed is not None and seen is not None and seen.available == reading.available:
                latest_ns = owed.since.ts_ns + _SAME_NS
                debts.defer(*key, due_ns=min(last.ts_ns + _OWED_NS, latest_ns))
            says = threshold_says(threshold, reading)
            why = f"something had to be reclaimed, in one of the next rounds: {says}"
            expected: dict[str, Any] = {"resource": RESOURCE_OF[threshold.signal]}
            debts.owe(key, self._debt(last, ReclaimAttempted.kind, expected, why))
        for signal in RESOURCE_OF:
            if self._rounds.acted or signal not in names:
                debts.void(_ROUNDS, signal)
        conditions = self._rounds.current.conditions
        reported, process = self._rounds.reported, self._context.process
        if reported is None and process is not None and process.from_start:
            reported = frozenset()
        if reported is None or conditions.sure <= reported <= conditions.possible:
            debts.void(_ROUNDS, "")
            return
        had = conditions.sure or conditions.possible
        why = f"the node had to report {names_of(had)}, where it reported {names_of(reported)}"
        conditions_due: dict[str, Any] = {"conditions": sorted(had)}
        debts.owe((_ROUNDS, ""), self._debt(last, NodeConditionsChanged.kind, conditions_due, why))

    def _conditions_differ(self, last: Round) -> bool:
        """Say which conditions would be reported, once for each change."""
        current, recorded = self._rounds.current.conditions, self._rounds.recorded.conditions
        reported = self._rounds.reported or frozenset()
        explained = recorded.sure <= reported <= recorded.possible
        if current.sure != current.possible or not explained:
            return False
        reported_only = current.sure in (reported, self._would_report)
        self._would_report = current.sure
        if reported_only:
            return False
        why = f"the node had to report {names_of(current.sure)}"
        why += f", where it reported {names_of(reported)}"
        expected = {"conditions": sorted(current.sure)}
        self._absent(last, NodeConditionsChanged.kind, "node", expected, why)
        return True

    def _would_evict(self, last: Round, due: Threshold) -> None:
        """Name the pod that had to be evicted, by what was sampled before."""
        reading, layout = last.readings[due.signal], self._rounds.layout
        candidates = []
        for who in self._usages.latest(reading.ts_ns):
            pod = self._usages.place(reading.ts_ns, who, due.signal, layout)
            if pod.pod is not None and not is_critical_pod(pod.pod) and pod.likely is not None:
                usage = pod.likely.most, pod.request_nanos, pod.deducted_nanos
                candidates.append(Candidate(pod.name, pod.priority, *usage))
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
        self._absent(last, PodEvicted.kind, subject, expected, why)

    def _absent(
        self, last: Round, kind: str, subject: str, expected: dict[str, Any], why: str
    ) -> None:
        """Say it at a round, which is the place of a decision that did not come."""
        debt = self._debt(last, kind, expected, why)
        self._context.convict(msgspec.structs.replace(debt, subject=subject))

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
