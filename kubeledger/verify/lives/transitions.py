"""Changes of cached probe results: each must follow from ticks and thresholds, and each must be.

The rebuilt worker says what a tick had to change. A record that says otherwise is
impossible, where no tick can be missing; a change that no record tells is absent.
"""

from __future__ import annotations

from collections import deque

from kubeledger.machine import Record
from kubeledger.node.state import NodeState
from kubeledger.prober.records import ProbeExecuted, ProbeTransitioned
from kubeledger.units import NS_PER_S
from kubeledger.verify.bench import Bench
from kubeledger.verify.finding import Fields, Verdict
from kubeledger.verify.lives import words
from kubeledger.verify.lives.common import (
    Causes,
    Holding,
    at,
    compared,
    corrected,
    seconds,
    subject_of,
)
from kubeledger.verify.lives.life import Lives
from kubeledger.verify.lives.steps import Change, stored
from kubeledger.verify.lives.transition_findings import RULE, TransitionFindings
from kubeledger.verify.lives.worker import RebuiltWorker
from kubeledger.verify.lives.workers import Workers

__all__ = ["TransitionJudge"]

_ABSENT_AFTER_NS = 20 * NS_PER_S


class TransitionJudge:
    """Judges what the prober cached."""

    def __init__(
        self, bench: Bench, workers: Workers, lives: Lives, holding: Holding, causes: Causes
    ) -> None:
        self._bench = bench
        self._workers = workers
        self._lives = lives
        self._holding = holding
        self._causes = causes
        self._findings = TransitionFindings(bench, workers, holding)
        self._awaited: deque[tuple[int, RebuiltWorker, Change]] = deque()

    # -- changes that no record tells ----------------------------------------------------

    def ticked(self, worker: RebuiltWorker) -> None:
        """A tick was taken in: wait for the record of what it changed."""
        change, missed = worker.change, worker.unanswered
        if change is None or change.before == change.after or not change.is_sure:
            return
        if missed is not None:
            self._miss(worker)
            if change.after == missed.before:
                return  # the wrong tick is over
        worker.keep_back()
        worker.unanswered = change
        wait_ns = max(_ABSENT_AFTER_NS, (change.threshold + 2) * worker.period_ns)
        self._awaited.append((change.tick.ts_ns + wait_ns, worker, change))

    def before_tick(self, worker: RebuiltWorker) -> None:
        """Another tick comes; one wrong tick shifts a change by no more than a threshold."""
        missed = worker.unanswered
        if missed is not None and len(worker.results_since) > missed.threshold:
            self._miss(worker)

    def pass_time(self, now_ns: int) -> None:
        """What was awaited for long enough is absent."""
        while self._awaited and self._awaited[0][0] < now_ns:
            _, worker, change = self._awaited.popleft()
            if worker.unanswered is change:
                self._miss(worker)

    def forget(self) -> None:
        """The kubelet process ended."""
        self._awaited.clear()

    def _miss(self, worker: RebuiltWorker) -> None:
        change = worker.unanswered
        assert change is not None
        body = change.tick.body
        assert isinstance(body, ProbeExecuted)
        worker.impossible_ns = change.tick.ts_ns
        if any(result != stored(change.after) for result in worker.results_since):
            worker.take_back(change.before)  # rather the tick is wrong than all that followed
        worker.unanswered = None
        if worker.put_right:
            worker.put_right = False
            return
        if worker.ask is None or not self._workers.tells_changes(worker, change.after):
            return
        if self._workers.is_disputed(worker.ask):
            return  # the importer may have reckoned with another threshold
        self._bench.absent(
            change.tick,
            ProbeTransitioned.kind,
            subject=subject_of(body),
            expected=_expected(change),
            why=f"{words.run_reached(worker, change)}, so the cached result had to go from "
            f"{change.before} to {change.after}; no record says that it did",
            rule=RULE,
            inputs=(worker.ask.seq, *change.ticks),
        )

    # -- records of changes --------------------------------------------------------------

    def transitioned(
        self, record: Record, body: ProbeTransitioned, state: NodeState
    ) -> ProbeTransitioned:
        """Judge one record; returns the change as it is believed."""
        self._workers.changes_told += not body.inferred
        if self._bench.profile is None:
            missing = [self._bench.missing_profile]
            self._bench.unverifiable(record, subject=subject_of(body), missing=missing, rule=RULE)
            return body
        wrong = self._causes.wrong(record, body)
        believed = body if wrong is None else corrected(body, wrong)
        worker = self._workers.find(believed, state, record.ts_ns)
        if wrong is None:
            return self._judge(record, body, worker)
        told = " and ".join(f"{name} {value}" for name, value in wrong.items())
        recorded, _ = compared(body, wrong)
        self._bench.find(
            record, "impossible", subject=subject_of(body), expected=wrong, recorded=recorded,
            why=f"what led to this change was of {told}", rule=RULE,
            inputs=() if record.cause is None else (record.cause,),
        )  # fmt: skip
        if worker.change is not None or worker.unanswered is not None:
            worker.change = worker.unanswered = None
        else:
            worker.believe(believed.to_result, believed.run)
        return believed

    def _judge(
        self, record: Record, body: ProbeTransitioned, worker: RebuiltWorker
    ) -> ProbeTransitioned:
        change, missed = worker.change, worker.unanswered
        worker.unanswered = None
        if worker.ask is None:
            self._findings.give(record, worker, "unverifiable", missing=["the pod's spec"])
        elif worker.ask.spec is None:
            self._findings.give(
                record, worker, "unverifiable", missing=["a readable spec of the pod"]
            )
        elif worker.probe is None:
            why = f"container {body.container} has no {body.probe_type} probe in the pod's spec"
            self._findings.give(record, worker, "impossible", why=why, certain=True)
        elif change is not None and _is_meant(record, change):
            return self._judge_change(record, body, worker, change)
        elif missed is not None and missed.after == body.to_result:
            self._judge_late(record, body, worker, missed)
        elif body.to_result == "unknown" or body.from_result == body.to_result:
            why = f"a change from {body.from_result} to {body.to_result} is none a worker makes"
            self._findings.give(record, worker, "impossible", why=why, certain=True)
        elif record.cause is not None and _is_last(record, worker):
            self._judge_idle_tick(record, body, worker)
        else:
            self._judge_told(record, body, worker)
        return body

    def _judge_change(
        self, record: Record, body: ProbeTransitioned, worker: RebuiltWorker, change: Change
    ) -> ProbeTransitioned:
        """A tick led to a change, and this record is about it."""
        worker.change = None
        expected = _expected(change)
        for name in ("run", "threshold", "container_id"):
            if getattr(body, name) is None:
                expected.pop(name, None)
        recorded, differ = compared(body, expected)
        reached = words.run_reached(worker, change)
        # The tick is recorded, and so is its run: only what was cached may have come otherwise.
        since_ns = worker.held_from_ns + 1 if differ == ["from_result"] else None
        if differ and (change.is_sure or "to_result" not in differ):
            told = ", ".join(f"{n} {recorded[n]} instead of {expected[n]}" for n in differ)
            why = f"{reached}, which makes it {change.before} to {change.after}; recorded is {told}"
            verdict: Verdict = "impossible"
        elif not change.is_sure:
            missing = [words.missing_ticks(worker)]
            self._findings.give(record, worker, "unverifiable", missing=missing)
            return body
        else:
            verdict = "match"
            why = f"{reached}, so the cached result went from {change.before} to {change.after}"
        self._findings.give(
            record, worker, verdict, why=why, expected=expected, recorded=recorded,
            ticks=change.ticks, since_ns=since_ns, certain=differ == ["threshold"],
        )  # fmt: skip
        same = (body.run, body.threshold) == (change.run, change.threshold)
        if body.to_result != change.after and not same:
            worker.believe(body.to_result, body.run)  # rather the tick is wrong
            return body
        return corrected(body, expected)

    def _judge_late(
        self, record: Record, body: ProbeTransitioned, worker: RebuiltWorker, missed: Change
    ) -> None:
        """The change had to come on an earlier tick."""
        expected = _expected(missed)
        recorded, _ = compared(body, expected)
        why = (
            f"{words.run_reached(worker, missed)}, so the cached result had to become "
            f"{missed.after} then, and could not become it at {at(record.ts_ns)}"
        )
        worker.believe(body.to_result, body.run)
        self._findings.give(
            record, worker, "impossible", why=why, expected=expected, recorded=recorded,
            ticks=missed.ticks, since_ns=missed.from_ns,
        )  # fmt: skip

    def _judge_idle_tick(
        self, record: Record, body: ProbeTransitioned, worker: RebuiltWorker
    ) -> None:
        """The record names a tick that changed nothing here."""
        why = words.idle_tick(worker, body.to_result)
        sure = worker.cache_is_sure and (worker.run_is_sure or body.to_result != worker.last_result)
        ticks = tuple(worker.streak)
        since_ns = words.idle_since(worker, body.to_result)
        missing = words.missing_ticks(worker)
        if worker.put_right and body.inferred and body.to_result == worker.cached:
            # It goes back from a change that there was not.
            sure, worker.put_right = False, False
            missing = f"{body.probe_type} ticks that agree with the kubelet's events"
        worker.believe(body.to_result, body.run)
        if sure:
            self._findings.give(
                record, worker, "impossible", why=why, ticks=ticks, since_ns=since_ns
            )
        else:
            self._findings.give(record, worker, "unverifiable", missing=[missing])

    def _judge_told(self, record: Record, body: ProbeTransitioned, worker: RebuiltWorker) -> None:
        """No tick is known to have led to the change."""
        stopped = body.to_result == "failure" and self._has_stopped(worker)
        if stopped and body.container_id is not None:
            # It may have seen nothing of this container before.
            self._workers.take_up(worker, body.container_id, record.ts_ns)
        cached, cache_is_sure = worker.cached, worker.cache_is_sure
        since_ns: int | None = worker.held_from_ns + 1
        if stopped:
            verdict: Verdict = "match"
            missing: list[str] = []
            why = "a probe worker caches a failure for a container that does not run"
        else:
            verdict, why, missing = self._told(record, body, worker)
            if verdict == "impossible":
                by_time = body.to_result == "success" and not self._workers.successes_logged
                since_ns = None if by_time else words.idle_since(worker, body.to_result)
        expected: Fields = {"to_result": body.to_result}
        if verdict in ("match", "admissible"):
            if cache_is_sure:
                expected["from_result"] = cached
            else:
                missing = [words.missing_ticks(worker)]
                verdict = "unverifiable"
        recorded, differ = compared(body, expected)
        if differ and verdict != "unverifiable":
            verdict, missing = "impossible", []
            why = (
                f"the cached result was {cached}, so it cannot have changed from {body.from_result}"
            )
        told = None if verdict == "impossible" and not differ else expected
        if stopped:
            worker.find_stopped()
        else:
            worker.believe(body.to_result, body.run)
        self._findings.give(
            record, worker, verdict, why=why, missing=missing, expected=told,
            recorded=recorded, since_ns=since_ns,
        )  # fmt: skip

    def _has_stopped(self, worker: RebuiltWorker) -> bool:
        running = self._lives.running(worker.key, worker.container)
        return running is not None and running.has_ended

    def _told(
        self, record: Record, body: ProbeTransitioned, worker: RebuiltWorker
    ) -> tuple[Verdict, str, list[str]]:
        """Whether a change without a tick could have been: verdict, why, what is missing."""
        since_ns = None if worker.last is None else record.ts_ns - worker.last.ts_ns
        if body.to_result == "success" and not self._workers.successes_logged:
            return self._told_success(worker, record.ts_ns)
        if worker.last is None or since_ns is None or not self._workers.is_gapless(worker):
            return "unverifiable", "", [words.missing_ticks(worker)]
        if since_ns > worker.period_ns * 13 // 10:
            return "unverifiable", "", [f"a {body.probe_type} tick after {at(worker.last.ts_ns)}"]
        return "impossible", words.idle_tick(worker, body.to_result), []

    def _told_success(self, worker: RebuiltWorker, ts_ns: int) -> tuple[Verdict, str, list[str]]:
        """A success in a log that leaves out successful ticks: was there time for them?

        The result of a probe that ended in an error is thrown away: successes may go on.
        """
        needed = worker.threshold("success")
        failed = (tick for tick in reversed(worker.failing) if tick.body.result != "error")  # type: ignore[attr-defined] # all are ticks
        since_ns = next((ts_ns - tick.ts_ns for tick in failed), None)
        if since_ns is not None and since_ns < (needed - 1) * worker.period_ns * 4 // 5:
            why = (
                f"{worker.probe_type} needs {needed} successes in a row, one every "
                f"{seconds(worker.period_ns)}, and failed {seconds(since_ns)} before"
            )
            return "impossible", why, []
        why = (
            f"the kubelet told of the change; the {worker.probe_type} probe's successes are not "
            f"logged at this verbosity, and there was time for {needed} of them since it failed"
        )
        return "admissible", why, []


def _is_meant(record: Record, change: Change) -> bool:
    body = record.body
    assert isinstance(body, ProbeTransitioned)
    if record.cause == change.tick.seq:
        return True
    is_near = 0 <= record.ts_ns - change.tick.ts_ns <= _ABSENT_AFTER_NS
    return is_near and body.to_result == change.after


def _is_last(record: Record, worker: RebuiltWorker) -> bool:
    return worker.last is not None and record.cause == worker.last.seq


def _expected(change: Change) -> Fields:
    """What the record of a change must say, by the names of its fields."""
    expected: Fields = {"to_result": change.after, "threshold": change.threshold}
    if change.is_sure:
        expected["from_result"] = change.before
    if change.run_is_sure:
        expected["run"] = change.run
    if change.container_id is not None:
        expected["container_id"] = change.container_id
    return expected
