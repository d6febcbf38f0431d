"""Changes of cached probe results: each must follow from ticks and thresholds, and each must be.

The rebuilt worker says what a tick had to change. A record that says otherwise is
impossible, where no tick can be missing; a change that no record tells is absent.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from kubeledger.machine import Record
from kubeledger.node.state import NodeState
from kubeledger.prober.records import ProbeExecuted, ProbeTransitioned
from kubeledger.units import NS_PER_S
from kubeledger.verify.bench import Bench
from kubeledger.verify.finding import Fields, Verdict
from kubeledger.verify.lives import words
from kubeledger.verify.lives.common import (
    Held,
    Holding,
    at,
    compared,
    container_state,
    misnamed,
    seconds,
    subject_of,
)
from kubeledger.verify.lives.specs import SpecBook
from kubeledger.verify.lives.worker import Change, RebuiltWorker
from kubeledger.verify.lives.workers import Workers

__all__ = ["RULE", "TransitionJudge"]

RULE = "pkg/kubelet/prober/worker.go doProbe"
_ABSENT_AFTER_NS = 20 * NS_PER_S
_EVENT_WITHIN_NS = 2 * NS_PER_S
_COUNTED_WITHIN_NS = 60 * NS_PER_S
_READ_OFTEN_NS = 120 * NS_PER_S
_HOLD_MAX_NS = 90 * NS_PER_S


class _Awaited(NamedTuple):
    due_ns: int
    worker: RebuiltWorker
    change: Change


class TransitionJudge:
    """Judges what the prober cached."""

    def __init__(self, bench: Bench, book: SpecBook, workers: Workers, holding: Holding) -> None:
        self._bench = bench
        self._book = book
        self._workers = workers
        self._holding = holding
        self._awaited: deque[_Awaited] = deque()

    # -- changes that no record tells ----------------------------------------------------

    def ticked(self, worker: RebuiltWorker) -> None:
        """A tick was taken in: wait for the record of what it changed."""
        if worker.change is not None:
            due_ns = worker.change.tick.ts_ns + _ABSENT_AFTER_NS
            self._awaited.append(_Awaited(due_ns, worker, worker.change))

    def before_tick(self, worker: RebuiltWorker) -> None:
        """The next tick comes: what the last one changed has been told, or never will be."""
        if worker.change is not None:
            self._miss(worker, worker.change)

    def pass_time(self, now_ns: int) -> None:
        """What was awaited for long enough is absent."""
        while self._awaited and self._awaited[0].due_ns < now_ns:
            _, worker, change = self._awaited.popleft()
            if worker.change is change:
                self._miss(worker, change)

    def forget(self) -> None:
        """The kubelet process ended."""
        self._awaited.clear()

    def _miss(self, worker: RebuiltWorker, change: Change) -> None:
        worker.change = None
        if not change.is_sure or change.before == change.after:
            return
        body = change.tick.body
        assert isinstance(body, ProbeExecuted)
        if not self._workers.tells_changes(worker, change.after):
            return
        worker.believe(change.before, None)
        assert worker.ask is not None
        self._bench.absent(
            change.tick,
            ProbeTransitioned.kind,
            subject=subject_of(body),
            expected=_expected(worker, change),
            why=f"{words.run_reached(worker, change)}, so the cached result had to go from "
            f"{change.before} to {change.after}; no record says that it did",
            rule=RULE,
            inputs=(worker.ask.seq, *change.ticks),
        )

    # -- records of changes --------------------------------------------------------------

    def transitioned(self, record: Record, body: ProbeTransitioned, state: NodeState) -> None:
        """Judge one record."""
        subject = subject_of(body)
        if self._bench.profile is None:
            self._bench.unverifiable(
                record, subject=subject, missing=[self._bench.missing_profile], rule=RULE
            )
            return
        worker = self._workers.find(body, state, record.ts_ns)
        other = self._workers.of_tick(record.cause)
        if self._is_of_another(record, body, worker, other):
            return
        if worker.ask is None:
            self._give(record, worker, "unverifiable", missing=["the pod's spec"])
        elif worker.ask.spec is None:
            self._give(record, worker, "unverifiable", missing=["a readable spec of the pod"])
        elif worker.probe is None:
            why = f"container {body.container} has no {body.probe_type} probe in the pod's spec"
            self._give(record, worker, "impossible", why=why)
        elif worker.change is not None and self._is_meant(record, worker.change):
            self._judge_change(record, body, worker, worker.change)
        elif body.to_result == "unknown" or body.from_result == body.to_result:
            why = f"a change from {body.from_result} to {body.to_result} is none a worker makes"
            self._give(record, worker, "impossible", why=why)
        elif record.cause is not None and self._is_last(record, worker):
            self._judge_idle_tick(record, body, worker)
        else:
            self._judge_told(record, body, worker, state)

    def _is_of_another(
        self,
        record: Record,
        body: ProbeTransitioned,
        worker: RebuiltWorker,
        other: RebuiltWorker | None,
    ) -> bool:
        """Whether the record names another worker than the tick that led to it."""
        ask = misnamed(self._book, body)
        if ask is not None:
            expected: Fields = {"namespace": ask.namespace, "pod": ask.name}
        elif other is not None and other is not worker and other.last is not None:
            tick = other.last.body
            assert isinstance(tick, ProbeExecuted)
            names = ("namespace", "pod", "pod_uid", "container", "probe_type")
            full = {name: getattr(tick, name) for name in names}
            expected = {n: v for n, v in full.items() if getattr(body, n) != v}
        else:
            return False
        if other is not None:
            other.change = None
        recorded, differ = compared(body, expected)
        if not differ:
            return False
        told = " and ".join(f"{name} {expected[name]}" for name in differ)
        self._bench.find(
            record,
            "impossible",
            subject=subject_of(body),
            why=f"what led to this change was of {told}",
            expected=expected,
            recorded=recorded,
            rule=RULE,
            inputs=() if record.cause is None else (record.cause,),
        )
        return True

    def _is_meant(self, record: Record, change: Change) -> bool:
        return record.cause == change.tick.seq or (
            0 <= record.ts_ns - change.tick.ts_ns <= _ABSENT_AFTER_NS
        )

    def _is_last(self, record: Record, worker: RebuiltWorker) -> bool:
        return worker.last is not None and record.cause == worker.last.seq

    def _judge_change(
        self, record: Record, body: ProbeTransitioned, worker: RebuiltWorker, change: Change
    ) -> None:
        """A tick led to a change, and this record is about it."""
        worker.change = None
        expected = _expected(worker, change)
        for name in ("run", "threshold", "container_id"):
            if getattr(body, name) is None:
                expected.pop(name, None)
        recorded, differ = compared(body, expected)
        reached = words.run_reached(worker, change)
        if differ:
            told = ", ".join(f"{n} {recorded[n]} instead of {expected[n]}" for n in differ)
            why = f"{reached}, which makes it {change.before} to {change.after}; recorded is {told}"
            verdict: Verdict = "impossible"
        elif not change.is_sure:
            missing = [self._workers.missing_ticks(worker)]
            self._give(record, worker, "unverifiable", missing=missing)
            return
        else:
            verdict = "match"
            why = f"{reached}, so the cached result went from {change.before} to {change.after}"
        if differ and not change.is_sure:
            worker.believe(body.to_result, body.run)
        self._give(
            record, worker, verdict, why=why, expected=expected, recorded=recorded,
            ticks=change.ticks,
        )  # fmt: skip

    def _judge_idle_tick(
        self, record: Record, body: ProbeTransitioned, worker: RebuiltWorker
    ) -> None:
        """The record names a tick that changed nothing here."""
        assert worker.last is not None
        why = words.idle_tick(worker, body.to_result)
        sure = worker.cache_is_sure and (worker.run_is_sure or body.to_result != worker.last_result)
        ticks = tuple(worker.streak)
        missing = self._workers.missing_ticks(worker)
        worker.believe(body.to_result, body.run)
        if sure:
            self._give(record, worker, "impossible", why=why, expected={}, ticks=ticks)
        else:
            self._give(record, worker, "unverifiable", missing=[missing])

    def _judge_told(
        self, record: Record, body: ProbeTransitioned, worker: RebuiltWorker, state: NodeState
    ) -> None:
        """No tick is known to have led to the change."""
        cached, cache_is_sure = worker.cached, worker.cache_is_sure
        verdict, why, missing = self._told(record, body, worker, state)
        expected: Fields = {"to_result": body.to_result}
        if verdict in ("match", "admissible"):
            if not cache_is_sure and self._workers.missing_ticks(worker):
                missing = [self._workers.missing_ticks(worker)]
                verdict = "unverifiable"
            else:
                expected["from_result"] = cached
        recorded, differ = compared(body, expected)
        if differ and verdict != "unverifiable":
            verdict, missing = "impossible", []
            why = f"the cached result was {cached}, so it cannot have changed from {body.from_result}"
        worker.believe(body.to_result, body.run)
        self._give(
            record, worker, verdict, why=why, missing=missing, expected=expected,
            recorded=recorded,
        )  # fmt: skip

    def _told(
        self, record: Record, body: ProbeTransitioned, worker: RebuiltWorker, state: NodeState
    ) -> tuple[Verdict, str, list[str]]:
        """Whether a change without a tick could have been: verdict, why, what is missing."""
        container = container_state(state, worker.key, body.container)
        stopped = container is not None and (
            container.kill_reason is not None
            or (not container.running and container.finished_ts_ns is not None)
        )
        if stopped and body.to_result == "failure":
            return "match", "a probe worker caches a failure for a container that does not run", []
        since_ns = None if worker.last is None else record.ts_ns - worker.last.ts_ns
        if body.to_result == "success" and not self._workers.successes_logged:
            needed_ns = (worker.threshold("success") - 1) * worker.period_ns
            if worker.last is not None and since_ns is not None and since_ns < needed_ns * 4 // 5:
                why = (
                    f"{body.probe_type} needs {worker.threshold('success')} successes in a row, "
                    f"one every {seconds(worker.period_ns)}, and failed {seconds(since_ns)} before"
                )
                return "impossible", why, []
            why = (
                f"the kubelet told of the change; the {body.probe_type} probe's successes are not "
                f"logged at this verbosity, and since its last failure there was time for "
                f"{worker.threshold('success')} of them"
            )
            return "admissible", why, []
        if worker.last is None or since_ns is None or not self._workers.is_gapless(worker):
            return "unverifiable", "", [self._workers.missing_ticks(worker)]
        if since_ns > worker.period_ns * 13 // 10:
            return "unverifiable", "", [f"a {body.probe_type} tick after {at(worker.last.ts_ns)}"]
        return "impossible", words.idle_tick(worker, body.to_result), []

    # -- findings ------------------------------------------------------------------------

    def _give(
        self,
        record: Record,
        worker: RebuiltWorker,
        verdict: Verdict,
        *,
        why: str = "",
        missing: list[str] | None = None,
        expected: Fields | None = None,
        recorded: Fields | None = None,
        ticks: tuple[int, ...] = (),
    ) -> None:
        """Give the finding, at once or when nothing more can speak against it."""
        body = record.body
        assert isinstance(body, ProbeTransitioned)
        if missing:
            why = f"cannot be decided again without {' and '.join(missing)}"
        spec = () if worker.ask is None else (worker.ask.seq,)
        fields = {
            "verdict": verdict, "subject": subject_of(body), "why": why, "expected": expected,
            "recorded": recorded, "missing": missing or (), "rule": RULE,
            "inputs": (*spec, *ticks),
        }  # fmt: skip
        due_ns = record.ts_ns
        if verdict in ("match", "admissible"):
            due_ns = self._due_ns(record, body, worker)
        held = Held(record, due_ns, fields, worker, ticks)
        if due_ns <= record.ts_ns:
            self._bench.find(record, **fields)
        else:
            self._holding.hold(held)

    def _due_ns(self, record: Record, body: ProbeTransitioned, worker: RebuiltWorker) -> int:
        wait_ns = _EVENT_WITHIN_NS
        read_ns = worker.counters.read_ts_ns
        if body.inferred and read_ns is not None and record.ts_ns - read_ns < _READ_OFTEN_NS:
            wait_ns = _COUNTED_WITHIN_NS
        if body.to_result == "failure" and not worker.is_readiness:
            wait_ns = max(wait_ns, worker.period_ns * 3 // 2)
        return record.ts_ns + min(wait_ns, _HOLD_MAX_NS)


def _expected(worker: RebuiltWorker, change: Change) -> Fields:
    """What the record of a change must say, by the names of its fields."""
    expected: Fields = {"to_result": change.after, "threshold": change.threshold}
    if change.is_sure:
        expected["from_result"] = change.before
    if change.run_is_sure:
        expected["run"] = change.run
    if change.container_id is not None:
        expected["container_id"] = change.container_id
    return expected
