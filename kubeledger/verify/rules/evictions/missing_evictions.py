"""What had to be decided and was not: as recorded, and under other settings."""

from __future__ import annotations

from typing import Any, Final

from kubeledger.kubelet.eviction.ranking import Candidate, rank_key
from kubeledger.kubelet.eviction.signals import RESOURCE_OF
from kubeledger.kubelet.eviction.thresholds import Threshold, threshold_quantity
from kubeledger.kubelet.kube.critical import is_critical_pod
from kubeledger.model.bodies.eviction import NodeConditionsChanged, ReclaimAttempted
from kubeledger.model.bodies.lifecycle import PodEvicted
from kubeledger.model.units import NS_PER_S, format_ts
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.evidence.coverage import SILENCE_NS
from kubeledger.verify.rules.evictions.rounds import Rounds
from kubeledger.verify.rules.evictions.thresholds import Round, may_act, threshold_says
from kubeledger.verify.rules.evictions.usages import Usages

__all__ = ["MissingEvictions", "names_of"]

_OWED_NS: Final = 180 * NS_PER_S
"""So long a row of rounds that do nothing is none."""


class MissingEvictions:
    """Looks at every round for evictions and conditions that had to come of it, and did not.

    As recorded only what a whole row of rounds owed is said, as lines of one may be lost. Under
    a variant it is what would have been, where the recorded settings explain what is recorded.
    """

    def __init__(self, context: VerifyContext, rounds: Rounds, usages: Usages, rule: str) -> None:
        self._context = context
        self._rounds = rounds
        self._usages = usages
        self._rule = rule
        self._due: Threshold | None = None
        self._row: tuple[Threshold, Round] | None = None
        self._is_reported = False
        self._would_report: frozenset[str] | None = None

    def look(self) -> None:
        """Look at the last round, once all that came of it was read."""
        last = self._rounds.last
        if last is None:
            return
        if not self._rounds.loose:
            self._find(last)
            return
        reported_only = self._conditions_differ(last)
        due = next(iter(self._rounds.current.due()), None)
        idle = not any(map(may_act, self._rounds.recorded.beliefs.values()))
        if due is None or not idle or self._rounds.acted:
            self._due = None if due is None else self._due
        elif self._due != due or reported_only:
            self._due = due
            self._would_evict(last, due)

    def _find(self, last: Round) -> None:
        """Say that a reclaim had to come, where each of a row of rounds had to begin with one.

        A round may do nothing as the statistics are those of the one before, so a row counts.
        """
        due = next((each for each in self._rounds.current.due() if _is_far(each, last)), None)
        before = self._rounds.before
        if due is None or self._rounds.acted:
            self._row = None
            return
        silent = before is None or last.ts_ns - before.ts_ns > SILENCE_NS
        if self._row is None or self._row[0] != due or silent:
            self._row, self._is_reported = (due, last), False
        first = self._row[1]
        if self._is_reported or last.ts_ns - first.ts_ns < _OWED_NS:
            return
        self._is_reported = True
        why = (
            f"something had to be reclaimed: {threshold_says(due, first.readings[due.signal])}, "
            f"and was less than half of it in every round since {format_ts(first.ts_ns)}"
        )
        expected = {"resource": RESOURCE_OF[due.signal]}
        self._absent(last, ReclaimAttempted.kind, "node", expected, why)

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
        inputs = [self._context.settings.seq or 0, *(each.seq for each in last.readings.values())]
        self._context.absent(
            last.record,
            kind,
            subject=subject,
            expected=expected,
            why=why,
            rule=self._rule,
            inputs=[seq for seq in inputs if seq],
        )


def _is_far(threshold: Threshold, last: Round) -> bool:
    """Whether a signal is under half of its threshold."""
    reading = last.readings.get(threshold.signal)
    if reading is None:
        return False
    return 2 * reading.available < threshold_quantity(threshold.value, reading.capacity).value()


def names_of(conditions: frozenset[str]) -> str:
    """Conditions in words."""
    return " and ".join(sorted(conditions)) or "no pressure"
