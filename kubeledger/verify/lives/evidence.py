"""What else tells of ticks: their period, the events they leave, the kubelet's own counts."""

from __future__ import annotations

from collections import deque

from kubeledger.lifecycle.records import ReasonReported
from kubeledger.machine import Record
from kubeledger.node.state import NodeState
from kubeledger.prober.records import ProbeExecuted, ProbeTransitioned
from kubeledger.units import NS_PER_S
from kubeledger.verify.bench import Bench
from kubeledger.verify.lives.common import Holding, at, subject_of
from kubeledger.verify.lives.counts import CountEvidence
from kubeledger.verify.lives.specs import SpecBook
from kubeledger.verify.lives.tick_words import tell_of_event, tell_of_output, tell_of_tick
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
        self._counts = CountEvidence(bench, workers, holding)
        self.counted = self._counts.counted
        self.settle_counts = self._counts.settle
        self._now_ns = 0
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
        for manifest, listed, one in book.other_manifests():
            self._bench.contradict(
                0,
                f"pod/{listed.namespace}/{listed.name}",
                f"the pod's manifest and the list of it differ in {one.what}",
                (manifest.seq, f"{one.what}: {one.manifest}"),
                (listed.seq, f"{one.what}: {one.listed}"),
            )
        for ask, container_id, counts in book.miscounted():
            self._bench.contradict(
                0,
                f"pod/{ask.namespace}/{ask.name}",
                f"lists count different restarts up to the same container {container_id}",
                *((seq, f"restartCount {count}") for seq, count in counts),
            )

    # -- ticks -------------------------------------------------------------------------------

    def ticked(
        self, worker: RebuiltWorker, record: Record, body: ProbeExecuted, *, stepped: bool
    ) -> None:
        """A worker got a tick."""
        if body.result == "failure":
            self._unconfirmed.append((record, worker))
        if body.result not in ("success", "warning"):
            worker.failing.append(record)
        if not stepped and worker.unanswered is None:
            self._held_back(worker, record, body)
        tell_of_tick(self._bench, worker, record, body)

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
        # With a tick missing before it, it may have been on hold for no failure of this one.
        whole = worker.grid.is_whole(worker.run_from_ns)
        if worker.container_id is not None and not worker.doubted and whole:
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
            tick = _tick_of(worker, record)
            if tick is not None:
                worker.confirmed.append(tick.seq)
                confirmed = True
                tell_of_event(self._bench, tick, record, body)
                if _names_worker(body, worker):
                    tell_of_output(self._bench, tick, record, body)
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

    def forget(self) -> None:
        """The kubelet process ended."""
        self._counts.forget()
        self._unconfirmed.clear()

    def pass_time(self, now_ns: int) -> None:
        """Every failed probe leaves an event in a log that holds events."""
        self._counts.settle(now_ns)
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


def _names_worker(event: ReasonReported, worker: RebuiltWorker) -> bool:
    """Whether an event can be about no other worker of the pod."""
    alone = worker.ask is not None and worker.ask.probed(worker.probe_type) == 1
    return alone or event.container is not None


def _tick_of(worker: RebuiltWorker, event: Record) -> Record | None:
    """The tick that an event is about: rather one that failed than one that ended unknown."""
    near = [
        tick
        for tick in worker.failing
        if tick.seq not in worker.confirmed and _is_near(tick.ts_ns, event.ts_ns)
    ]
    return min(near, key=_ended_unknown, default=None)


def _ended_unknown(tick: Record) -> bool:
    assert isinstance(tick.body, ProbeExecuted)
    return tick.body.result == "unknown"


def _is_near(tick_ns: int, event_ns: int) -> bool:
    """Whether an event can be about that tick; another goroutine writes it."""
    return 0 <= event_ns - tick_ns <= _EVENT_WITHIN_NS
