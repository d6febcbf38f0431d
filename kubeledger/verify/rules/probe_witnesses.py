"""What else shows ticks and results: the pod's spec, events of failed probes, pod lists.

Each failed execution leaves an event, before any threshold; the sync loop logs changes of cached
results; a list shows whether a container is ready. Where two of them cannot both be right, that
is a contradiction, and neither is silently believed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from kubeledger.kubelet.kube.statuses import bare_id, statuses_in
from kubeledger.kubelet.prober.objects import SUCCESS
from kubeledger.model.bodies.lifecycle import KubernetesEvent, PodListed
from kubeledger.model.bodies.prober import ProbeExecuted, ProbeTransitioned
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S, format_ts
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.evidence.line_classes import BLOCK
from kubeledger.verify.evidence.times import UNSEEN_STEP_NS
from kubeledger.verify.finding import Row, Witnesses
from kubeledger.verify.rules.containers import subject_of
from kubeledger.verify.rules.probe_judging import STORES
from kubeledger.verify.rules.probe_worker import Worker
from kubeledger.verify.rules.probe_workers import Workers

_ENOUGH: Final = 3
"""So often a log has to hold what belongs together before it is missed."""
_BEATS: Final = 3
"""So many ticks show their worker's beat where lines are late."""
_AFTER: Final = "after the one before"
_EVENT_WITHIN_NS: Final = 2 * NS_PER_S
_KILLED_WITHIN_NS: Final = 20 * NS_PER_S
_DENIED_WITHIN_NS: Final = NS_PER_S // 2
_BLOCKED_NS: Final = 120 * NS_PER_S
_LISTED_WITHIN_NS: Final = 30 * NS_PER_S
"""The API's lists lag behind what the kubelet knows."""


class ProbeWitnesses:
    """Compares ticks and changes with their other witnesses."""

    def __init__(self, context: VerifyContext, workers: Workers) -> None:
        self._context = context
        self._workers = workers
        self._failed: deque[tuple[Record, Worker]] = deque(maxlen=256)
        self._reports: deque[tuple[Record, list[Worker]]] = deque(maxlen=256)
        # Once failures are seen to leave events: those since the last that did not. Apart those of
        # several lines, of which a filter by words leaves the head or takes it.
        self._without: dict[bool, list[tuple[Record, Worker]]] = {}
        self._pushed, self._blocked_ns = 0, -86_400 * NS_PER_S
        self._unlogged: dict[Worker, tuple[Record, ProbeTransitioned]] = {}
        self._ready: Witnesses[bool] = Witnesses(_LISTED_WITHIN_NS)

    def forget(self) -> None:
        for each in (self._failed, self._reports, self._without, self._unlogged):
            each.clear()
        self._pushed = 0
        self._ready.forget()

    def derive(self, before_ns: int) -> None:
        """Lists show the readiness of what is probed: containers that are over go by a time."""
        probed = self._workers.containers()
        self._ready.keep(before_ns, lambda whose: str(whose).rpartition(" ")[2] in probed)

    def blocked(self, ts_ns: int) -> None:
        """A preemption holds up the sync loop until its victims have ended."""
        self._blocked_ns = ts_ns

    def pass_time(self, now_ns: int) -> None:
        """Results that lists show, and failures beside which no event was logged."""
        while self._reports and self._reports[0][0].ts_ns < now_ns:
            self._unmatched(*self._reports.popleft())
        while self._failed and self._failed[0][0].ts_ns < now_ns - _EVENT_WITHIN_NS:
            record, worker = self._failed.popleft()
            # That one line of a node that is slow is lost shows nowhere: no beat of it is regular.
            without = self._without.get(_is_block(record))
            if without is not None and not self._context.times.late(record.ts_ns):
                without.append((record, worker))
        for is_reported, reading in self._ready.passed(now_ns):
            if self._context.coverage.missing(is_reported.ts_ns, reading.ts_ns) is not None:
                continue
            self._context.contradict(
                reading.ts_ns, str(is_reported.subject).partition(" ")[0],
                f"by its readiness probe the container is {is_reported.text} since "
                f"{format_ts(is_reported.ts_ns)}, and a list shows it {reading.text}",
                (is_reported.seq, is_reported.text), (reading.seq, reading.text), by_absence=True,
            )  # fmt: skip

        for worker, (record, body) in list(self._unlogged.items()):
            is_due = record.ts_ns + _KILLED_WITHIN_NS < now_ns  # and nothing else follows from it
            if is_due and self._pushed >= _ENOUGH:
                del self._unlogged[worker]
                at, said = format_ts(record.ts_ns), f"{body.from_result} to {body.to_result}"
                why = f"by its ticks the {body.probe_type} result became {body.to_result} at {at}, "
                why += "and the sync loop did not log it as it does others"
                sides = (record.seq, said), (record.seq, "no line of the sync loop")
                self._contradict(record, why, *sides, by_absence=True)

    def _contradict(
        self, record: Record, why: str, *sides: tuple[int, str], by_absence: bool = False
    ) -> None:
        body, kind = record.body, ProbeTransitioned.kind
        assert isinstance(body, ProbeExecuted | ProbeTransitioned)
        of, at_ns = subject_of(body), record.ts_ns
        self._context.contradict(at_ns, of, why, *sides, by_absence=by_absence, kind=kind)

    # -- ticks -----------------------------------------------------------------------------------

    def ticked(
        self, worker: Worker, record: Record, body: ProbeExecuted, *, possible: bool
    ) -> None:
        """A worker ticked; ``possible``: it can have."""
        startup = self._workers.known(worker.key, worker.container, "startup")
        if startup is not None and startup is not worker:
            self._unlogged.pop(startup, None)  # it had succeeded, or nothing else would be probed
        if body.result == "failure":
            self._failed.append((record, worker))
            for report in self._reports:  # in a log of coarse stamps it may stand before its tick
                if worker in report[1] and self._match(*report):
                    self._reports.remove(report)
                    break
        if worker.is_reported or worker.spec_seq is None:
            return
        why = self._why_not(worker, record, possible=possible)
        (early, early_why), worker.early = worker.early or (None, ""), None
        if early is not None and worker.spec is not None:
            # The next turn is missing, which this tick took.
            if (worker.gap_ns or 0) > worker.spec.period_ns:
                record, why = early, early_why
        elif why is not None and why.endswith(_AFTER) and self._context.times.late(record.ts_ns):
            worker.early, why = (record, why), None
        if why is not None:
            worker.is_reported = True
            self._contradict(
                record, why,
                (record.seq, f"a {worker.probe_type} tick at {format_ts(record.ts_ns)}"),
                (worker.spec_seq, "the pod's spec"), by_absence=not worker.has_no_probe,
            )  # fmt: skip

    def _why_not(self, worker: Worker, record: Record, *, possible: bool) -> str | None:
        """Why there cannot have been a tick then."""
        spec, profile, name = worker.spec, self._context.profile, worker.probe_type
        if worker.has_no_probe:
            return (
                f"a {name} probe ran, and container {worker.container} has none in the pod's spec"
            )
        if spec is None or profile is None:
            return None
        times, ts_ns = self._context.times, record.ts_ns
        run_ns = (worker.gap_ns or 0) * spec.failures
        lost = self._context.coverage.hole(ts_ns - run_ns, ts_ns) is not None
        if not possible and (lost or times.late(ts_ns)):
            return None  # the new one may not have been told yet, or in lines that are lost
        if not possible:
            return (
                f"the worker waits for a new container after a {name} probe that ended its "
                "probing, and it probed the same one again"
            )
        began = self._workers.began(worker, record.ts_ns)
        if began is not None and record.ts_ns + UNSEEN_STEP_NS < began.from_ns + spec.delay_ns:
            return (
                f"the {name} probe ran {(record.ts_ns - began.from_ns) / NS_PER_S:.1f} s after the "
                f"start of its container, and initialDelaySeconds is {spec.initial_delay_seconds}"
            )
        who = worker.key, worker.container, worker.container_id
        if worker.after_startup and self._workers.is_starting(*who, record.ts_ns):
            return f"the {name} probe ran before the startup probe had succeeded"
        triggered = name == "readiness" and profile.prober.unready_triggers_probe
        triggered = triggered and not self._is_settled(worker, spec.successes, ts_ns)
        *before, lag_ns = worker.lags
        late = times.late(ts_ns) > 0
        if triggered or len(before) < (_BEATS if late else 2):
            return None
        # Lines that are late are not so by the same: what keeps the beat came in its turn.
        before = before[-_BEATS:] if late else before
        takes_ns, spread_ns = (spec.timeout_s + 1) * NS_PER_S, max(before) - min(before)
        early_ns = min(before) - lag_ns - (spread_ns if late else 0)
        # One that was held up makes up for two turns at most.
        gains = [lag - after for lag, after in pairwise(worker.lags)]
        is_faster = not late and len(gains) >= _BEATS and min(gains) > takes_ns
        if not is_faster and (spread_ns > takes_ns or early_ns <= takes_ns):
            return None
        return (
            f"{name} ticks come every {spec.period_s} s, and this one "
            f"{(worker.gap_ns or 0) / NS_PER_S:.1f} s {_AFTER}"
        )

    def _is_settled(self, worker: Worker, successes: int, ts_ns: int) -> bool:
        """Whether a container has long been ready, and stays the same: nothing triggers probes."""
        runs = self._context.timeline.history(worker.key).runs
        own = [run for run in runs if run.name == worker.container]
        turns = (at for run in own for at in (run.started_ns, run.killed_ns, run.died_ns) if at)
        since = max((run.started_seq for run in own if (run.started_ns or 0) <= ts_ns), default=0)
        enough = sum(seq > since for seq in worker.streak) > _ENOUGH + successes
        is_ready = worker.result == SUCCESS and enough
        return is_ready and not any(abs(at_ns - ts_ns) < _LISTED_WITHIN_NS for at_ns in turns)

    # -- events ----------------------------------------------------------------------------------

    def reported(self, record: Record, body: KubernetesEvent, key: str) -> None:
        """The kubelet sent an event about a failed probe; old ones name no container.

        Of one whose message is torn off, or mixed with others, any probe of the container may
        have failed.
        """
        word, told, rest = body.message.partition(" probe ")
        if (told and not rest.startswith(("failed", "errored"))) or body.count != 1:
            return
        probe_type = word.lower() if told and "\n" not in word else None
        own = (each for each in self._workers.of_pod(key) if probe_type in (None, each.probe_type))
        about = [worker for worker in own if body.container in (None, worker.container)]
        if not self._match(record, about):
            self._reports.append((record, about))

    def _match(self, record: Record, about: Sequence[Worker]) -> bool:
        """Find the failed tick of an event.

        A process whose failures left events before and after leaves one for each; what one that
        is not seen to leave any, or no more, does not show is no evidence.
        """
        for entry in self._failed:
            tick, worker = entry
            if worker in about and 0 <= record.ts_ns - tick.ts_ns <= _EVENT_WITHIN_NS:
                self._failed.remove(entry)
                if tick.evidence and _in_one_log(tick, record):
                    torn = self._context.coverage.is_out_of_step
                    for each, of in () if torn else self._without.get(_is_block(tick), ()):
                        self._contradict(
                            each, f"the {of.probe_type} probe failed at "
                            f"{format_ts(each.ts_ns)}, and the kubelet sent no event, as it does "
                            "for its other failures",
                            (each.seq, "failure"), (each.seq, "no event beside it"),
                            by_absence=True,
                        )  # fmt: skip
                    self._without[_is_block(tick)] = []
                return True
        return False

    def _unmatched(self, record: Record, about: Sequence[Worker]) -> None:
        """An event beside which no tick failed: one that is recorded as a success, or lost?"""
        near = [(each, each.newest) for each in about if each.newest is not None
                and 0 <= record.ts_ns - each.newest_ns <= _DENIED_WITHIN_NS]  # fmt: skip
        message = getattr(record.body, "message", "")
        for worker in () if near else about:
            worker.forget(f"a {worker.probe_type} tick at {format_ts(record.ts_ns)}")
        if len(near) != 1 or " probe failed" not in message:
            return
        ((worker, tick),) = near
        result = tick.body.result if isinstance(tick.body, ProbeExecuted) else "error"
        # Else the log has lost a line, or goes by another clock.
        if worker.result != SUCCESS or result == "error" or not _in_one_log(tick, record):
            return
        worker.is_reported = True
        worker.forget(f"whether the {worker.probe_type} probe failed at {format_ts(tick.ts_ns)}")
        self._contradict(
            tick, f"the {worker.probe_type} tick at {format_ts(tick.ts_ns)} was a "
            f"{result}, and the kubelet's event says that the probe failed",
            (tick.seq, result), (record.seq, message),
        )  # fmt: skip

    # -- changes ---------------------------------------------------------------------------------

    def transitioned(self, worker: Worker, record: Record, body: ProbeTransitioned) -> None:
        """A change was recorded: by a line of the sync loop, or from ticks alone."""
        if body.probe_type == "readiness":
            whose = f"{subject_of(body)} {body.container_id}"
            self._ready.note_change(_row(whose, record, is_ready=body.to_result == "success"))
        since_ns, worker.changed_ns = worker.changed_ns, record.ts_ns
        pushed = worker.machine is not None and STORES[body.to_result] in worker.machine.pushed
        if not body.inferred:
            self._pushed += pushed  # by one function, of whatever type
        elif (
            pushed
            and record.ts_ns - self._blocked_ns > _BLOCKED_NS
            # Else it may have been this one already; but a startup probe rests after its change.
            and (worker.missed_ns <= since_ns or body.probe_type == "startup")
            and not self._context.times.late(record.ts_ns)
            and record.ts_ns < self._context.coverage.last_line_ns
        ):
            self._unlogged[worker] = record, body

    def killed(self, worker: Worker) -> None:
        """A container was killed for its probe: the change came, and only its line is lost."""
        self._unlogged.pop(worker, None)

    # -- lists -----------------------------------------------------------------------------------

    def listed(self, record: Record, body: PodListed, key: str) -> None:
        """A list shows whether containers are ready."""
        for entry in statuses_in(body.status):
            name, is_ready = entry.get("name"), entry.get("ready")
            worker = self._workers.known(key, str(name), "readiness")
            if worker is None or not isinstance(is_ready, bool):
                continue
            container_id = bare_id(entry.get("containerID"))
            runs = isinstance(entry.get("state"), dict) and "running" in entry["state"]
            if runs and container_id == worker.container_id and worker.is_near(record.ts_ns):
                whose = f"container/{body.namespace}/{body.pod}/{name} {container_id}"
                self._ready.note_reading(_row(whose, record, is_ready=is_ready))


def _row(whose: str, record: Record, *, is_ready: bool) -> Row[bool]:
    text = "ready" if is_ready else "not ready"
    return Row("ready", whose, is_ready, record.seq, record.ts_ns, text)


def _is_block(tick: Record) -> bool:
    return any(BLOCK in (piece.text or "") for piece in tick.evidence)


def _in_one_log(tick: Record, event: Record) -> bool:
    """Whether an event has its own line in the log of a tick, which tells its time, too."""
    files = {piece.file for piece in tick.evidence}
    return not files or any(piece.file in files for piece in event.evidence)
