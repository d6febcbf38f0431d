"""Judges recorded changes of a cached probe result, and those that had to come and did not."""

from __future__ import annotations

from collections import deque
from itertools import takewhile
from typing import Final, NamedTuple

from msgspec.structs import replace

from kubeledger.kubelet.prober.machine import SAYS, Span, State
from kubeledger.kubelet.prober.objects import FAILURE, INITIAL, UNKNOWN, ProbeSpec
from kubeledger.model.bodies.prober import ProbeExecuted, ProbeTransitioned, ProbeType
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S, format_ts
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.belief import Belief, Judgement, RuleVerifier, compared, judge, lacks, same
from kubeledger.verify.context import CachedResult, CachedResults, VerifyContext
from kubeledger.verify.debts import Debt, Key
from kubeledger.verify.evidence.processes import Process, is_one
from kubeledger.verify.finding import WORKED_OUT
from kubeledger.verify.rules.containers import differing, subject_of
from kubeledger.verify.rules.probe_judging import STORES, Case, Change, Counts, expected_of, reached
from kubeledger.verify.rules.probe_witnesses import ProbeWitnesses
from kubeledger.verify.rules.probe_worker import Worker
from kubeledger.verify.rules.probe_workers import Workers
from kubeledger.verify.variant import RECORDED

TOLD_WITHIN_NS: Final = 20 * NS_PER_S
"""The sync loop may be busy before it shows a change."""
_COUNTED_WITHIN_NS: Final = 60 * NS_PER_S
_NAMES: Final = ("namespace", "pod", "pod_uid", "container", "container_id", "probe_type")
_NONE: Final = "; no record says that it did"
_BEFORE: Final = "a line that says what was cached before"


def _owed_by(worker: Worker, result: str) -> Key:
    return "probe", worker.key, worker.container, worker.probe_type, result


class _Waiting(NamedTuple):
    """A judgement that the kubelet's counts may still decide: in some states ticks are missing."""

    due_ns: int
    worker: Worker
    record: Record
    cases: list[Case]
    cut: str | None


class ChangeJudge(RuleVerifier, CachedResults):
    """The judgements of :class:`~kubeledger.verify.rules.probes.ProbeVerifier`."""

    rule = "pkg/kubelet/prober/worker.go doProbe"

    def __init__(self, context: VerifyContext) -> None:
        super().__init__(context)
        self._workers = Workers(context)
        self._witnesses = ProbeWitnesses(context, self._workers)
        self._counts = Counts(context, self._workers, self._reconsider)
        self._ticks: dict[int, tuple[Worker, ProbeExecuted]] = {}
        self._awaited: deque[tuple[int, Worker, Record]] = deque()
        self._waiting: list[_Waiting] = []
        self._lossy: tuple[Process | None, ...] = ()

    def _pass_time(self, now_ns: int) -> None:
        """Time went on; what is read knows more to do."""

    # -- changes that no record shows ------------------------------------------------------------

    def _settle_change(self, worker: Worker) -> None:
        """The newest tick led to no record: states in which it had to are none, or one is owed."""
        belief, spec, tick = worker.belief, worker.spec, worker.newest
        if not worker.pending or belief is None or spec is None or tick is None:
            return
        worker.pending = False
        changed = [world.state for world in belief.worlds if world.state.was is not None]
        if not changed:
            return
        first = changed[0]
        result = first.cached
        pushed = worker.machine is not None and result in worker.machine.pushed
        told = pushed and self._workers.tells_changes()
        # The startup probe rests once it has succeeded: a success before would have been the last.
        rests = told and worker.probe_type == "startup"
        loose = () if worker.loose is None or rests else worker.loose.worlds
        if any(world.state.was is None for world in (*belief.worlds, *loose)):
            if pushed and self.context.coverage.at(tick.ts_ns) is None:
                belief.keep(lambda state: state.was is None)
            return
        if belief.cut:
            return
        known = rests or worker.key in self._workers.thresholds_known
        logged = result == FAILURE or self._workers.successes_logged
        # Without a line that would tell it only an importer does, of which nothing is owed.
        if pushed and known and logged and not worker.disputed:
            self._owe(worker, first, spec, tick)

    def _owe(self, worker: Worker, state: State, spec: ProbeSpec, tick: Record) -> None:
        """Each state had the change, and no record shows it yet."""
        assert isinstance(tick.body, ProbeExecuted)
        if self.context.times.late(tick.ts_ns):
            return  # which container was probed, and when the sync loop shows it, is not known
        expected = expected_of(worker, state)
        wait_ns = (spec.threshold(expected["to_result"]) + 2) * spec.period_ns
        debt = Debt(
            since=tick,
            due_ns=tick.ts_ns + max(TOLD_WITHIN_NS, wait_ns),
            shown_by=ProbeExecuted,
            kind=ProbeTransitioned.kind,
            subject=subject_of(tick.body),
            expected=expected,
            why=f"{reached(worker, state, tick.ts_ns)}{_NONE}",
            rule=self.rule,
            inputs=(worker.spec_seq or 0, *worker.streak),
        )
        self.context.debts.owe(_owed_by(worker, expected["to_result"]), debt)

    # -- recorded changes --------------------------------------------------------------------------

    def _transitioned(self, record: Record, body: ProbeTransitioned, state: NodeState) -> None:
        self._pass_time(record.ts_ns)
        if self.context.profile is None:
            self.lacking(record, subject_of(body), [self.context.missing_profile])
            return
        cause = self._ticks.get(record.cause or 0)
        if cause is not None and (wrong := differing(body, cause[1], _NAMES)):
            pushed = " and ".join(f"{name} {value}" for name, value in wrong.items())
            why = f"the tick that led to this change was for {pushed}"
            cause[0].pending = False
            self._give(record, same(False, why, expected=wrong, inputs=(record.cause or 0,)))
            return
        worker = cause[0] if cause else self._workers.find(body, state, record.ts_ns)
        self._witnesses.transitioned(worker, record, body)
        if (certain := self._judge_alone(worker, body, has_tick=cause is not None)) is not None:
            self._give(record, certain)
            worker.pending = False
        else:
            self._judge(worker, record, body)

    def _judge_alone(
        self, worker: Worker, body: ProbeTransitioned, *, has_tick: bool
    ) -> Judgement | None:
        """What the record and the pod's spec say; a tick that led to it would show more."""
        if worker.spec_seq is None:
            return lacks([worker.missing])
        spec = worker.spec
        if spec is None:
            why = f"container {body.container} has no {body.probe_type} probe in the pod's spec"
            return same(False, why, inputs=(worker.spec_seq,), certain=True)
        change = body.from_result, body.to_result
        if not has_tick and worker.seeds_success and change == ("success", "unknown"):
            worker.believe(UNKNOWN, "that its container was new")
            return lacks([f"whether container {body.container} was published as started"])
        if not has_tick and (body.to_result in {"unknown", body.from_result}):
            why = f"no worker changes from {body.from_result} to {body.to_result}"
            return same(False, why, certain=True)
        threshold = spec.threshold(body.to_result)
        if body.threshold in (None, threshold) or worker.disputed:
            return None
        expected = {"to_result": body.to_result, "threshold": threshold}
        why = f"the threshold is {threshold} in the pod's spec; recorded is {body.threshold}"
        return same(False, why, expected=expected, inputs=(worker.spec_seq,), certain=True)

    def _judge(self, worker: Worker, record: Record, body: ProbeTransitioned) -> None:
        assert worker.belief is not None
        tick = worker.newest
        own = tick is not None and (
            record.cause == tick.seq
            or (worker.pending and record.cause is None
                and 0 <= record.ts_ns - tick.ts_ns <= TOLD_WITHIN_NS
                and any(w.state.was is not None and w.state.cached == STORES[body.to_result]
                        for belief in worker.beliefs() for w in belief.worlds))
        )  # fmt: skip
        if (missing := self._take_expected(worker, body)) is not None:
            self._judge_expected(missing, worker, record, body)
            return
        instance = self._workers.instance(worker)
        # The one before, too: the pod's status shows it as long as a sync waits for a hook.
        ids = (instance.container_id, instance.before_id) if instance else ()
        newer = [*takewhile(lambda each: each != worker.container_id, filter(None, ids))]
        if not own and body.container_id in newer:
            self._settle_change(worker)
            self._workers.name(worker, body.container_id)
        change = Change(worker, record, body)

        def cases_of(belief: Belief[State]) -> list[Case]:
            worlds, found = belief.worlds, list[Case]()
            ended = self._workers.has_ended(worker, record)
            if own:  # of the newest tick, or of the end of the container since
                is_of_end = ended and record.cause is None and body.to_result == "failure"
                of_tick = [w for w in worlds if w.state.was is not None or not is_of_end]
                found = list(map(change.after, of_tick))
                worlds = tuple(world for world in worlds if world not in of_tick)
            logs_all = self._workers.logs_all
            return [*found, *change.without_tick(worlds, ended=ended, logs_all=logs_all)]

        cases = cases_of(worker.belief)
        if worker.loose is not None and not any(case.ruling.allowed for case in cases):
            cases += [case for case in cases_of(worker.loose) if case.ruling.allowed]
        if newer and not own and not any(case.ruling.allowed for case in cases):
            self._workers.name(worker, newer[0])  # no line names it, nor had it a tick
            cases = cases_of(worker.belief)
        allowed = [case for case in cases if case.ruling.allowed]
        stored = STORES[body.to_result]
        if allowed and not body.inferred and all(s.cached != stored for s in worker.states):
            self._settle_change(worker)  # one manager tells its changes in their order
        worker.pending = False
        cut = _cut(worker)
        if allowed and len(allowed) < len(cases) and worker.is_counted:
            due_ns = record.ts_ns + _COUNTED_WITHIN_NS
            self._waiting.append(_Waiting(due_ns, worker, record, cases, cut))
        else:
            self._conclude(record, cases, cut)
        if body.inferred:
            return  # what an importer worked out of the ticks shows nothing besides
        if allowed:
            worker.become([(case.state, case.ruling.assumes) for case in allowed])
        elif not all(case.state.was is not None for case in cases):
            worker.believe(STORES[body.to_result], f"what record {record.seq} says")

    def _take_expected(self, worker: Worker, body: ProbeTransitioned) -> Debt | None:
        """The change that was owed, which has come."""
        key = _owed_by(worker, body.to_result)
        owed = self.context.debts.owed(key)
        of = None if owed is None else owed.expected.get("container_id")
        if body.container_id is not None and of not in (None, body.container_id):
            return None
        return self.context.debts.pay(key)

    def _judge_expected(
        self, owed: Debt, worker: Worker, record: Record, body: ProbeTransitioned
    ) -> None:
        differ = {n: v for n, v in owed.expected.items() if getattr(body, n) not in (None, v)}
        allowed = record.cause in (None, owed.since.seq) and not differ
        why = owed.why.removesuffix(_NONE)
        if not allowed:
            pushed = "".join(f", {name} {getattr(body, name)}" for name in differ)
            why = f"{why} then; recorded is a change at {format_ts(record.ts_ns)}{pushed}"
            worker.believe(STORES[body.to_result], f"what record {record.seq} says")
        self._give(record, same(allowed, why, expected=owed.expected, inputs=owed.inputs))

    # -- findings ----------------------------------------------------------------------------------

    def _conclude(self, record: Record, cases: list[Case], cut: str | None) -> None:
        self._give(record, judge([case.ruling for case in cases], cut=cut))

    def _give(self, record: Record, judgement: Judgement) -> None:
        body, judgement = record.body, self.by_order(record, judgement)
        assert isinstance(body, ProbeTransitioned)
        if body.inferred and self.context.variant == RECORDED:
            sound = judgement.verdict in {"match", "admissible"}
            differ = {n for n, v in (judgement.expected or {}).items() if getattr(body, n) != v}
            if sound or differ == {"from_result"}:
                # What was cached before no line says: it may have been of another process.
                missing = (WORKED_OUT,) if sound else (*judgement.missing, _BEFORE)
                judgement = replace(judgement, verdict="unverifiable", missing=missing)
        shown = compared(record, judgement)
        self.conclude(record, subject_of(body), judgement, recorded=shown)

    def _reconsider(self, worker: Worker, read_ns: int) -> None:
        """The counts say that no tick is missing since the reading before."""
        due = [w for w in self._waiting if w.worker is worker and w.record.ts_ns < read_ns]
        for waiting in due:
            self._waiting.remove(waiting)
            left = [case for case in waiting.cases if not case.state.hidden]
            self._conclude(waiting.record, left or waiting.cases, waiting.cut)

    def _decide(self, now_ns: int | None) -> None:
        """Nothing more was counted in time; None: at all."""
        for waiting in [w for w in self._waiting if now_ns is None or w.due_ns < now_ns]:
            self._waiting.remove(waiting)
            self._conclude(waiting.record, waiting.cases, waiting.cut)

    # -- what other rules ask ------------------------------------------------------------------

    def cached(
        self, key: str, container: str, probe_type: ProbeType, ts_ns: int
    ) -> CachedResult | None:
        worker = self._workers.known(key, container, probe_type)
        if worker is None or worker.belief is None or worker.machine is None:
            startup = self._workers.known(key, container, "startup")
            of = None if startup is None else startup.container_id
            if probe_type == "startup" or not self._workers.is_starting(key, container, of, ts_ns):
                return None
            return CachedResult(may_be=frozenset({SAYS[INITIAL[probe_type]]}))
        lost = f"{probe_type} ticks that may be missing before the kill"
        machine, worlds = worker.machine, worker.belief.worlds
        instance = self._workers.instance(worker)
        found: dict[str, set[str]] = {}
        probed = None if instance is None else instance.container_id
        if None not in (probed, worker.container_id) and probed != worker.container_id:
            # Where another kill lacked some of its ticks, this one may lack all of them.
            fresh, now = SAYS[machine.fresh.cached], self.context.process
            is_lossy = any(is_one(each, now) for each in self._lossy)
            may_be = frozenset({fresh, SAYS[FAILURE]} if is_lossy else {fresh})
            return CachedResult(may_be=may_be, missing=(lost,) if is_lossy else ())
        ticks_possible = worker.missing_ticks_until(ts_ns)
        # What is known to run still is no other container, and a startup that succeeded rests.
        span = Span(ticks_possible, restarts=probed is None or probed != worker.container_id)
        for world in worlds:
            found.setdefault(SAYS[world.state.cached], set()).update(world.assumes)
            rests = probe_type == "startup" and SAYS[world.state.cached] == "success"
            is_hidden = ticks_possible and (span.restarts or not rests)
            for state in machine.hidden(world.state, span) if is_hidden else ():
                found.setdefault(SAYS[state.cached], set()).add(lost)
        for world in worker.loose.worlds if worker.loose is not None else ():
            if world.state.cached == FAILURE and SAYS[FAILURE] not in found:
                found[SAYS[FAILURE]] = set(world.assumes)
        if found.get(SAYS[FAILURE]) == {lost} and self.context.coverage.is_of_log:
            self._lossy = (self.context.process,)
        missing = sorted(set().union(*found.values())) if len(found) > 1 else ()
        may_be = frozenset(result for result in SAYS.values() if result in found)
        return CachedResult(may_be=may_be, seqs=tuple(worker.streak), missing=tuple(missing))

    def hole(self, start_ns: int, end_ns: int) -> bool:
        is_due = self._workers.are_overdue(start_ns, end_ns - self.context.times.late(end_ns))
        return is_due and not self._counts.logged_later


def _cut(worker: Worker) -> str | None:
    """What is not known of states that are not judged; None where all are."""
    if worker.disputed:
        return "which of the pod's lists shows its probes as they are"
    if worker.is_cut:
        return f"the {worker.probe_type} ticks before, of which too many may be missing"
    return None
