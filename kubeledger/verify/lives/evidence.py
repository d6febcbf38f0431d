"""What else tells of ticks: their period, the events they leave, the kubelet's own counts."""

from __future__ import annotations

from collections import deque

from kubeledger.lifecycle.records import ReasonReported
from kubeledger.machine import Record
from kubeledger.node.state import NodeState
from kubeledger.prober.records import ProbeCountersRead, ProbeExecuted, ProbeTransitioned
from kubeledger.units import NS_PER_S
from kubeledger.verify.bench import Bench
from kubeledger.verify.lives.common import Holding, at, seconds, subject_of
from kubeledger.verify.lives.counters import (
    SERVED_WITHIN_NS,
    Counters,
    Mismatch,
    Reading,
    agreed_instants,
)
from kubeledger.verify.lives.specs import PodAsk, SpecBook
from kubeledger.verify.lives.worker import RebuiltWorker
from kubeledger.verify.lives.workers import Workers

__all__ = ["TOLD_WITHIN_NS", "ProbeEvidence"]

TOLD_WITHIN_NS = 20 * NS_PER_S
_EVENTS_ENOUGH = 3
_EVENT_WITHIN_NS = 2 * NS_PER_S
_DENIED_WITHIN_NS = NS_PER_S // 2


class ProbeEvidence:
    """Compares ticks with their other witnesses, and doubts findings that rest on wrong ones."""

    def __init__(self, bench: Bench, workers: Workers, holding: Holding) -> None:
        self._bench = bench
        self._workers = workers
        self._holding = holding
        self._readings: list[tuple[RebuiltWorker, Reading]] = []
        self._read_ns = self._now_ns = 0
        self._unconfirmed: deque[tuple[Record, RebuiltWorker]] = deque()
        holding.before_release(self._doubt)

    def tell_disagreements(self, book: SpecBook) -> None:
        """Lists that say different things about what cannot change in a pod."""
        for asks in book.disagreements():
            first = asks[0]
            self._bench.contradict(
                0,
                f"pod/{first.namespace}/{first.name}",
                f"{len(asks)} lists of the pod differ in its probes, grace periods or restart "
                "policy, which cannot change while it lives",
                *((ask.seq, f"pod {ask.uid}: version {n}") for n, ask in enumerate(asks, start=1)),
            )

    # -- ticks -------------------------------------------------------------------------------

    def ticked(
        self, worker: RebuiltWorker, record: Record, body: ProbeExecuted, *, stepped: bool
    ) -> None:
        """A worker got a tick."""
        if body.result == "failure":
            self._unconfirmed.append((record, worker))
        if body.result not in ("success", "warning"):
            worker.failing.append((record.ts_ns, record.seq))
        if not stepped and worker.unanswered is None:
            self._held_back(worker, record, body)
        named = body.container_id
        if named is not None and worker.id_is_sure and worker.container_id not in (None, named):
            self._bench.contradict(
                record.ts_ns,
                subject_of(body),
                f"the tick names container {named}, and {worker.container_id} ran",
                (record.seq, f"container {named}"),
                (worker.container_seq or record.seq, f"container {worker.container_id}"),
            )
        self._check_period(worker, record, body)

    def _held_back(self, worker: RebuiltWorker, record: Record, body: ProbeExecuted) -> None:
        """A worker on hold probed the same container again: it was not on hold.

        That is said once, and judging goes on as if there had been no hold.
        """
        did = "failed" if worker.cached == "failure" else "successful"
        rests = f"after a {did} {worker.probe_type} probe the worker waits for a new container"
        for held in self._holding.of(worker):
            told = held.record.body
            assert isinstance(told, ProbeTransitioned)
            if told.container_id == worker.container_id and told.to_result == worker.cached:
                held.doom(
                    f"{rests}, but it probed the same one again at {at(record.ts_ns)}", record.seq
                )
                worker.doubted = worker.put_right = True
                worker.retell("success" if told.to_result == "failure" else "failure")
                worker.change = None
                break
        if worker.container_id is not None and not worker.doubted:
            worker.doubted = True
            self._bench.contradict(
                record.ts_ns,
                subject_of(body),
                f"{rests}, but it probed {worker.container_id} again",
                (record.seq, "a tick"),
                (
                    worker.streak[-1] if worker.streak else record.seq,
                    f"the tick that was the last {worker.probe_type} one it needed",
                ),
            )
        worker.resume(record, body.result)

    def _check_period(self, worker: RebuiltWorker, record: Record, body: ProbeExecuted) -> None:
        """A tick comes a period after the one before, unless that one was late itself.

        Readiness probes may be triggered at any time in newer kubelets.
        """
        profile = self._bench.profile
        gap_ns, before_ns = worker.last_gap_ns, worker.gap_before_ns
        if profile is None or worker.probe is None or gap_ns is None or before_ns is None:
            return
        if worker.is_readiness and profile.prober.unready_triggers_probe:
            return
        late_ns = (worker.probe.timeout_s + 1) * NS_PER_S
        period_ns = worker.period_ns
        if late_ns >= period_ns or before_ns > period_ns + late_ns or gap_ns >= period_ns - late_ns:
            return
        assert worker.ask is not None
        if worker.told_early:
            return  # once is enough
        worker.told_early = True
        self._bench.contradict(
            record.ts_ns,
            subject_of(body),
            f"{worker.probe_type} ticks come every {worker.probe.period_s} s, and this one "
            f"{seconds(gap_ns)} after the one before",
            (record.seq, f"a tick at {at(record.ts_ns)}"),
            (worker.ask.seq, f"periodSeconds {worker.probe.period_s}"),
        )

    # -- counts ------------------------------------------------------------------------------

    def counted(self, worker: RebuiltWorker, record: Record, body: ProbeCountersRead) -> None:
        """The kubelet's counts were read."""
        if self._read_ns != record.ts_ns:
            self.settle_counts(None)
            self._read_ns = record.ts_ns
        if worker.has_begun:
            self._readings.append((worker, Reading.of(record.seq, record.ts_ns, body)))

    def forget(self) -> None:
        """The kubelet process ended."""
        self._readings.clear()
        self._unconfirmed.clear()

    def settle_counts(self, now_ns: int | None) -> None:
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

    # -- events ------------------------------------------------------------------------------

    def reported(
        self, record: Record, body: ReasonReported, state: NodeState
    ) -> RebuiltWorker | None:
        """The kubelet sent an event about a failed probe.

        Returns:
            the worker whose newest tick it puts right, unless a finding rests on that tick.
        """
        workers = self._workers.told_by(body, state)
        confirmed = False
        for worker in workers:
            for tick_ns, seq in worker.failing:
                if seq not in worker.confirmed and _is_near(tick_ns, record.ts_ns):
                    worker.confirmed.append(seq)
                    confirmed = True
                    break
        if confirmed:
            self._workers.events_matched += bool(_is_of_log(record, workers))
            return None
        denied = [
            worker
            for worker in workers
            if worker.last is not None
            and 0 <= record.ts_ns - worker.last.ts_ns <= _DENIED_WITHIN_NS
        ]
        return denied[0] if len(denied) == 1 and self._deny(record, body, denied[0]) else None

    def _deny(self, record: Record, body: ReasonReported, worker: RebuiltWorker) -> bool:
        """An event says that a probe failed of which the tick says that it did not.

        The tick then counts as failed. Returns whether no finding rests on it.
        """
        tick = worker.last
        assert tick is not None
        told = tick.body
        assert isinstance(told, ProbeExecuted)
        if told.result not in ("success", "warning"):
            return False
        self._bench.contradict(
            record.ts_ns,
            subject_of(told),
            f"the {worker.probe_type} tick at {at(tick.ts_ns)} was a {told.result}, and the "
            "kubelet's event says that the probe failed",
            (tick.seq, told.result),
            (record.seq, body.message),
        )
        doomed = False
        for held in self._holding.of(worker):
            if tick.seq in held.ticks:
                held.doom(
                    f"the {worker.probe_type} tick at {at(tick.ts_ns)} failed, as the kubelet's "
                    "event says",
                    record.seq,
                )
                doomed = True
        worker.doubted = True
        worker.confirmed.append(tick.seq)
        worker.counters.retell("failure")
        retold = worker.retell("failure")
        if doomed:
            worker.put_right = True
            worker.change = worker.unanswered = None
        return retold and not doomed

    def pass_time(self, now_ns: int) -> None:
        """Every failed probe leaves an event in a log that holds events."""
        if self._readings:
            self.settle_counts(now_ns)
        self._now_ns = now_ns
        while self._unconfirmed and self._unconfirmed[0][0].ts_ns < now_ns - _EVENT_WITHIN_NS:
            record, worker = self._unconfirmed.popleft()
            if record.seq in worker.confirmed or self._workers.events_matched < _EVENTS_ENOUGH:
                continue
            body = record.body
            assert isinstance(body, ProbeExecuted)
            self._bench.contradict(
                record.ts_ns,
                subject_of(body),
                f"the {worker.probe_type} probe failed at {at(record.ts_ns)}, and the kubelet "
                "sent no event, as it does for each failed probe",
                (record.seq, "failure"),
                (record.seq, "no event beside it"),
                by_absence=True,
            )

    def _doubt(self) -> None:
        """Findings are given out: does anything that had to be there lack?"""
        self._doubt_untold()
        self._doubt_silent()

    def _doubt_untold(self) -> None:
        """A change of which the sync loop had to tell, in a log in which it tells of others."""
        for held in self._holding.due():
            worker, body = held.owner, held.record.body
            assert isinstance(body, ProbeTransitioned)
            if not self._workers.must_be_told(body) or held.verdict == "impossible":
                continue
            told_ns = held.record.ts_ns
            if self._workers.was_blocked(told_ns):
                continue
            assert isinstance(worker, RebuiltWorker)
            if self._now_ns - told_ns < TOLD_WITHIN_NS:
                continue
            self._bench.contradict(
                told_ns,
                subject_of(body),
                f"by its ticks the {body.probe_type} result became {body.to_result} at "
                f"{at(told_ns)}, and the sync loop did not tell of it as it does of others",
                (held.record.seq, f"{body.from_result} to {body.to_result}"),
                (held.record.seq, "no line of the sync loop"),
                by_absence=True,
            )

    def _doubt_silent(self) -> None:
        """Failures that only ticks tell of need the events that failed probes leave."""
        if self._workers.events_matched < _EVENTS_ENOUGH:
            return
        for held in self._holding.due():
            worker, body = held.owner, held.record.body
            assert isinstance(body, ProbeTransitioned)
            if not isinstance(worker, RebuiltWorker) or body.to_result != "failure":
                continue
            silent = [seq for seq in held.ticks if seq not in worker.confirmed]
            if body.inferred and silent and held.verdict != "impossible":
                held.leave_open(f"the event of each failed {body.probe_type} tick", *silent)


def _is_of_log(event: Record, workers: list[RebuiltWorker]) -> bool:
    """Whether the event stands in the log that holds the ticks."""
    files = {e.file for worker in workers if worker.last for e in worker.last.evidence}
    return any(evidence.file in files for evidence in event.evidence)


def _is_near(tick_ns: int, event_ns: int) -> bool:
    """Whether an event can be about that tick; another goroutine writes it."""
    return 0 <= event_ns - tick_ns <= _EVENT_WITHIN_NS
