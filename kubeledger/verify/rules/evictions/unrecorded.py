"""What would have been decided under other settings, where nothing is recorded."""

from __future__ import annotations

from typing import Any, Final

from kubeledger.eviction.ranking import Candidate, rank_key
from kubeledger.eviction.records import NodeConditionsChanged, ReclaimAttempted
from kubeledger.eviction.signals import RESOURCE_OF
from kubeledger.eviction.thresholds import Threshold, threshold_quantity
from kubeledger.images.records import EvictionSignalObserved
from kubeledger.kube.critical import is_critical_pod
from kubeledger.lifecycle.records import PodEvicted
from kubeledger.machine import Record
from kubeledger.units import NS_PER_S, format_ts
from kubeledger.verify.evidence.coverage import SILENCE_NS
from kubeledger.verify.rules.evictions.manager import Manager
from kubeledger.verify.rules.evictions.places import Place
from kubeledger.verify.rules.evictions.pods import PodUsages
from kubeledger.verify.rules.evictions.rounds import Reading, Round, Rounds
from kubeledger.verify.rules.evictions.thresholds import threshold_says

__all__ = ["Unrecorded", "names_of"]

_OWED_NS: Final = 180 * NS_PER_S
"""So long a row of rounds that do nothing is none."""


class Unrecorded:
    """Looks at every round for evictions and conditions that had to come of it, and did not.

    As recorded only what a whole row of rounds owed is said, as lines of one may be lost. Under
    a variant it is what would have been, where the recorded settings explain what is recorded.

    Attributes:
        reported: conditions that the node is recorded to report.
    """

    def __init__(self, manager: Manager, usages: PodUsages, rule: str) -> None:
        self._manager = manager
        self._bench = manager.bench
        self._usages = usages
        self._rule = rule
        self._due: Threshold | None = None
        self._owed: tuple[Threshold, Reading] | None = None
        self._would_report: frozenset[str] | None = None
        self.reported: frozenset[str] = frozenset()

    def look(self) -> None:
        """Look at the last round, once all that came of it was read."""
        rounds, base = self._manager.rounds, self._manager.base
        if rounds.last is None:
            return
        if not self._manager.loose:
            self._look_for_owed(rounds, rounds.last)
            return
        told = self._conditions_differ(rounds, base)
        due = next(
            (
                threshold
                for threshold, belief in rounds.thresholds.items()
                if all(world.state and world.state.satisfied for world in belief.worlds)
            ),
            None,
        )
        idle = not any(
            world.state and world.state.satisfied
            for belief in base.thresholds.values()
            for world in belief.worlds
        )
        if due is None or not idle or self._manager.acted:
            self._due = None if due is None else self._due
            return
        if self._due == due and not told:
            return
        self._due = due
        self._would_evict(rounds, due)

    def _look_for_owed(self, rounds: Rounds, last: Round) -> None:
        """Say that a reclaim had to come, where each of a row of rounds had to begin with one.

        A round may do nothing as the statistics are those of the one before, so a row counts.
        """
        due = next(
            (
                threshold
                for threshold, belief in rounds.thresholds.items()
                if (reading := last.readings.get(threshold.signal)) is not None
                and all(world.state and world.state.satisfied for world in belief.worlds)
                and 2 * reading.available
                < threshold_quantity(threshold.value, reading.capacity).value()
            ),
            None,
        )
        before = rounds.before
        silent = before is None or last.ts_ns - before.ts_ns > SILENCE_NS
        if due is None or self._manager.acted:
            self._owed = None
            return
        reading = last.readings[due.signal]
        if self._owed is None or self._owed[0] != due or silent:
            self._owed = due, reading
        first = self._owed[1]
        if not 0 <= last.ts_ns - first.ts_ns - _OWED_NS < SILENCE_NS:
            return
        self._owed = due, first._replace(ts_ns=0)
        self._bench.absent(
            _observation(reading.seq, reading.ts_ns),
            ReclaimAttempted.kind,
            subject="node",
            expected={"resource": RESOURCE_OF[due.signal]},
            why=f"something had to be reclaimed: {threshold_says(due, reading)}, and was less "
            f"than half of it in every round since {format_ts(first.ts_ns)}",
            rule=self._rule,
            inputs=(first.seq, reading.seq),
        )

    def _conditions_differ(self, rounds: Rounds, base: Rounds) -> bool:
        """Say which conditions would be reported, once for each change."""
        explained = base.conditions.sure <= self.reported <= base.conditions.possible
        sure = rounds.conditions.sure
        if sure != rounds.conditions.possible or not explained or rounds.last is None:
            return False
        if sure in (self.reported, self._would_report):
            self._would_report = sure
            return False
        self._would_report = sure
        reading = next(iter(rounds.last.readings.values()))
        self._bench.absent(
            _observation(reading.seq, reading.ts_ns),
            NodeConditionsChanged.kind,
            subject="node",
            expected={"conditions": sorted(sure)},
            why=f"the node had to report {names_of(sure)}, where it reported "
            f"{names_of(self.reported)}",
            rule=self._rule,
        )
        return True

    def _would_evict(self, rounds: Rounds, due: Threshold) -> None:
        """Name the pod that had to be evicted, by what was sampled before."""
        assert rounds.last is not None
        reading = rounds.last.readings[due.signal]
        layout = self._manager.layout
        functions = self._manager.reclaims(due)
        places = self._usages.places(
            reading.ts_ns, self._usages.latest(reading.ts_ns), due.signal, layout
        )
        candidates = [
            place
            for place in places
            if place.pod is not None and not is_critical_pod(place.pod) and place.likely is not None
        ]
        first = min(candidates, key=lambda place: _rank_key(place, due.signal), default=None)
        why = f"a pod had to be evicted: {threshold_says(due, reading)}"
        if first is not None:
            why += f"; by the usage sampled last pod {first.name} comes first"
        if functions:
            why += ", unless deleting what is unused suffices"
        expected: dict[str, Any] = {
            "resource": RESOURCE_OF[due.signal],
            "signal": due.signal,
            "observed": reading.available,
            "threshold": threshold_quantity(due.value, reading.capacity).value(),
        }
        subject = "node"
        if first is not None:
            namespace, _, name = first.name.partition("/")
            expected |= {"namespace": namespace, "pod": name}
            subject = f"pod/{first.name}"
        self._bench.absent(
            _observation(reading.seq, reading.ts_ns),
            PodEvicted.kind,
            subject=subject,
            expected=expected,
            why=why,
            rule=self._rule,
            inputs=[seq for seq in (self._bench.settings.seq,) if seq],
        )


def _observation(seq: int, ts_ns: int) -> Record:
    """A reading as the place of a decision that did not come."""
    body = EvictionSignalObserved(signal="", available=0, capacity=0)
    return Record(
        node="", seq=seq, ts_ns=ts_ns, role=body.role, kind=body.kind, v=body.v, cause=None,
        evidence=(), body=body,
    )  # fmt: skip


def _rank_key(place: Place, signal: str) -> tuple[Any, ...]:
    """What sorts pods for a signal, by what was sampled last."""
    usage = None if place.likely is None else place.likely.most
    candidate = Candidate(
        place.name, place.priority, usage, place.request_nanos, place.deducted_nanos
    )
    return rank_key(signal)(candidate)


def names_of(conditions: frozenset[str]) -> str:
    """Conditions in words."""
    return " and ".join(sorted(conditions)) or "no pressure"
