"""The kubelet's own counts of its decisions against those that the files show.

``/metrics`` counts evictions, preemptions and removed images since the kubelet started. Where it
counts more than a log that holds the whole process shows, lines were lost, or verbosity hides
them. Fewer are expected: an eviction that had not ended was not counted yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kubeledger.ingest.sources.items import Fact, Finding, KubeletCounters
from kubeledger.model.bodies.eviction import PodPreempted
from kubeledger.model.bodies.images import ImageDeleted
from kubeledger.model.bodies.lifecycle import PodEvicted
from kubeledger.model.bodies.node import KubeletStarted
from kubeledger.model.units import NS_PER_S
from kubeledger.replay.node.state import time_in_name

_AROUND_NS = 5 * NS_PER_S
"""A reading is dated by its snapshot's name, and was taken around that second."""
_COUNTED = {
    PodEvicted: ("kubelet_evictions", "evictions"),
    PodPreempted: ("kubelet_preemptions", "preemptions"),
    ImageDeleted: ("kubelet_image_garbage_collected_total", "removals of images"),
}
"""Decision -> metric, and what to call it.

Source: eviction_manager.go synchronize, localStorageEviction; preemption.go
evictPodsToFreeRequests; image_gc_manager.go freeImage (1.27+).
"""


class Disagreement(NamedTuple):
    """A finding, the time of its reading, and the reading."""

    finding: Finding
    reading: KubeletCounters


class CounterCheck:
    """Takes note of decisions and readings as they come; what disagrees is reported at the end.

    Attributes:
        logged_until_ns: the last time of the logs; None without one.
    """

    def __init__(self, logged_until_ns: int | None) -> None:
        """Nothing is known yet.

        Args:
            logged_until_ns: the last time of the logs; None without one.
        """
        self.logged_until_ns = logged_until_ns
        self._starts: list[tuple[int, bool]] = []
        self._decided: dict[str, list[int]] = {metric: [] for metric, _ in _COUNTED.values()}
        self._readings: list[KubeletCounters] = []

    def see(self, fact: Fact) -> None:
        """Take down a start, or a decision that the kubelet counts."""
        if isinstance(fact.body, KubeletStarted):
            self._starts.append((fact.ts_ns, fact.body.from_start))
        elif type(fact.body) in _COUNTED:
            self._decided[_COUNTED[type(fact.body)][0]].append(fact.ts_ns)

    def read(self, reading: KubeletCounters) -> None:
        """Take down a reading; one whose time nothing tells says nothing."""
        if time_in_name(reading.evidence.file) is not None:
            self._readings.append(reading)

    def disagreements(self) -> Iterator[Disagreement]:
        """One a metric and process: its last reading that counts more than the files show."""
        last: dict[tuple[int, str], Disagreement] = {}
        for reading in sorted(self._readings, key=lambda reading: reading.ts_ns):
            since_ns = self._whole_since(reading.ts_ns)
            if since_ns is None:
                continue
            for metric, name in _COUNTED.values():
                counted = reading.totals.get(metric, 0)
                until_ns = reading.ts_ns + _AROUND_NS
                shown = sum(since_ns <= ts_ns <= until_ns for ts_ns in self._decided[metric])
                if counted > shown:
                    message = (
                        f"{metric} counts {counted} {name} since the kubelet started, "
                        f"and the files show {shown}"
                    )
                    finding = Finding("counted_more", reading.evidence.file, message)
                    last[since_ns, metric] = Disagreement(finding, reading)
        yield from last.values()

    def _whole_since(self, ts_ns: int) -> int | None:
        """Start of the process that ran then; None where its log is not whole until then."""
        started = [start for start in self._starts if start[0] <= ts_ns + _AROUND_NS]
        if not started or self.logged_until_ns is None:
            return None
        since_ns, from_start = max(started)
        covered = from_start and self.logged_until_ns >= ts_ns - _AROUND_NS
        return since_ns if covered else None
