"""What would have been decided under other settings, where nothing is recorded."""

from __future__ import annotations

from typing import Any

from kubeledger.eviction.ranking import Candidate, rank_key
from kubeledger.eviction.records import NodeConditionsChanged
from kubeledger.eviction.signals import RESOURCE_OF
from kubeledger.eviction.thresholds import Threshold, threshold_quantity
from kubeledger.images.records import EvictionSignalObserved
from kubeledger.kube.critical import is_critical_pod
from kubeledger.lifecycle.records import PodEvicted
from kubeledger.machine import Record
from kubeledger.verify.evictions.manager import Manager
from kubeledger.verify.evictions.places import Place
from kubeledger.verify.evictions.pods import PodUsages
from kubeledger.verify.evictions.rounds import Rounds
from kubeledger.verify.evictions.thresholds import threshold_says

__all__ = ["Unrecorded", "names_of"]


class Unrecorded:
    """Looks at every round for evictions and conditions that had to come of it, and did not.

    As recorded nothing is said: what an old ledger does not hold was not recorded then. Under a
    variant it is what would have been, where the recorded settings explain what is recorded.

    Attributes:
        reported: conditions that the node is recorded to report.
    """

    def __init__(self, manager: Manager, usages: PodUsages, rule: str) -> None:
        self._manager = manager
        self._bench = manager.bench
        self._usages = usages
        self._rule = rule
        self._due: Threshold | None = None
        self._would_report: frozenset[str] | None = None
        self.reported: frozenset[str] = frozenset()

    def look(self) -> None:
        """Look at the last round, once all that came of it was read."""
        rounds, base = self._manager.rounds, self._manager.base
        if not self._manager.loose or rounds.last is None:
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
