"""The kubelet's own counts of ticks: what they prove, and what they speak against."""

from __future__ import annotations

from kubeledger.machine import Record
from kubeledger.prober.records import ProbeCountersRead, ProbeTransitioned
from kubeledger.verify.bench import Bench
from kubeledger.verify.lives.common import Holding, at
from kubeledger.verify.lives.counters import (
    SERVED_WITHIN_NS,
    Counters,
    Mismatch,
    Reading,
    agreed_instants,
)
from kubeledger.verify.lives.specs import PodAsk
from kubeledger.verify.lives.worker import RebuiltWorker
from kubeledger.verify.lives.workers import Workers

__all__ = ["CountEvidence"]


class CountEvidence:
    """Compares readings of the counts with the ticks that the ledger holds."""

    def __init__(self, bench: Bench, workers: Workers, holding: Holding) -> None:
        self._bench = bench
        self._workers = workers
        self._holding = holding
        self._readings: list[tuple[RebuiltWorker, Reading]] = []
        self._read_ns = 0

    def counted(self, worker: RebuiltWorker, record: Record, body: ProbeCountersRead) -> None:
        """The kubelet's counts were read."""
        if self._read_ns != record.ts_ns:
            self.settle(None)
            self._read_ns = record.ts_ns
        if worker.has_begun:
            self._readings.append((worker, Reading.of(record.seq, record.ts_ns, body)))

    def forget(self) -> None:
        """The kubelet process ended."""
        self._readings.clear()

    def settle(self, now_ns: int | None) -> None:
        """Compare the last reading once no more tick can belong to it; None: at once."""
        if not self._readings or (
            now_ns is not None and now_ns <= self._read_ns + SERVED_WITHIN_NS
        ):
            return
        readings, self._readings = self._readings, []
        logged = self._workers.successes_logged
        pairs = [(worker.counters, reading) for worker, reading in readings]
        seen_ns = max(self._read_ns, now_ns or 0)
        if any(self._is_silent(worker, reading, seen_ns) for worker, reading in readings):
            for worker, _ in readings:
                worker.counters.lose()
            return
        instants = agreed_instants(pairs, self._read_ns, successes_logged=logged)
        mismatches = []
        for worker, reading in readings:
            self._prove(worker, reading, pairs, instants)
            found = worker.counters.settle(reading, instants, successes_logged=logged)
            if found is not None and not self._has_room(worker, found):
                mismatches.append((worker, found))
            worker.grid.room = 0
        if len(mismatches) > 1:
            # One wrong tick or count is a lie; several are a hole in the log.
            for worker, _ in readings:
                worker.counters.lose()
            return
        for worker, found in mismatches:
            if worker.ask is not None and not worker.told_counts:
                worker.told_counts = True
                self._tell_mismatch(worker, worker.ask, found)

    def _prove(
        self,
        worker: RebuiltWorker,
        reading: Reading,
        pairs: list[tuple[Counters, Reading]],
        instants: list[int],
    ) -> None:
        """As many ticks were counted as are recorded: findings that need all of them stand.

        When the counts were taken is then told by the other workers alone.
        """
        held = [h for h in self._holding.of(worker) if h.open_from_ns is not None]
        counters = worker.counters
        if held:
            others = [pair for pair in pairs if pair[0] is not counters]
            instants = agreed_instants(others, self._read_ns, successes_logged=True)
            instants = instants if others else []
        counters.agree(reading, instants)
        if counters.agreed is not None and self._workers.successes_logged:
            for each in held:
                each.prove(*counters.agreed)

    def _has_room(self, worker: RebuiltWorker, found: Mismatch) -> bool:
        """Whether the ticks that were counted beside those recorded can be lost lines."""
        lost = sum(found.counted) - sum(found.logged)
        return 0 < lost <= worker.grid.room_at(found.to_ts_ns, worker.period_ns)

    def _is_silent(self, worker: RebuiltWorker, reading: Reading, now_ns: int) -> bool:
        """Whether ticks are missing, so nothing can be compared: the log ended, or has a hole."""
        if worker.probe is None or worker.on_hold:
            return False
        if worker.last is None:
            return sum(reading.counts) > 0
        if worker.probe_type == "startup" and worker.cached == "success":
            return False
        return now_ns - worker.last.ts_ns > worker.break_ns

    def _tell_mismatch(self, worker: RebuiltWorker, ask: PodAsk, found: Mismatch) -> None:
        since = "the worker's begin" if found.since is None else at(found.from_ts_ns)
        counted, logged = found.counted, found.logged
        self._bench.contradict(
            found.reading.ts_ns,
            f"container/{ask.namespace}/{ask.name}/{worker.container}",
            f"since {since} the kubelet counted {counted[0]} successes and {counted[1]} failures "
            f"of the {worker.probe_type} probe; ticks are recorded for {logged[0]} and {logged[1]}",
            (found.reading.seq, f"{counted[0]} successes, {counted[1]} failures"),
            (
                worker.last.seq if worker.last is not None else found.reading.seq,
                f"{logged[0]} successes, {logged[1]} failures",
            ),
        )
        self._doubt_counted(worker, found)

    def _doubt_counted(self, worker: RebuiltWorker, found: Mismatch) -> None:
        """The one change that only ticks tell of, to the result with too many ticks."""
        from_ns, to_ns = found.from_ts_ns, found.to_ts_ns
        if worker.impossible_ns is not None and worker.impossible_ns >= from_ns:
            return  # the wrong tick has been found
        suspects = []
        for held in self._holding.of(worker):
            body = held.record.body
            assert isinstance(body, ProbeTransitioned)
            inside = from_ns <= held.record.ts_ns <= to_ns
            if inside and body.inferred and body.to_result == found.over:
                suspects.append(held)
        if len(suspects) == 1:
            suspects[0].doom(
                "no line tells of this change, and the ticks that it follows from are not what "
                f"the kubelet counted: {found.counted[0]} successes and {found.counted[1]} "
                "failures",
                found.reading.seq,
            )
