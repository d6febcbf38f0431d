"""The rule of probe workers: equal ticks in a row that reach their threshold change what is cached.

A worker is one :class:`~kubeledger.verify.rules.probe_worker.Worker`: the states in which it may
be, stepped by ``doProbe``. A recorded change is judged in each of them; so is a change that had to
come and was not recorded. What else shows ticks is compared in ``probe_witnesses``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from kubeledger.kubelet.lifecycle.disputes import LINES_DISAGREE, dispute_of, stamps_of
from kubeledger.kubelet.prober.objects import FAILURE
from kubeledger.kubelet.prober.prober import COUNTS_AS
from kubeledger.model.bodies.eviction import PodPreempted
from kubeledger.model.bodies.ledger import FindingReported
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerKilled,
    ContainerStarted,
    KubernetesEvent,
    PodConfigChanged,
    PodListed,
    PodTerminated,
    RestartBackedOff,
)
from kubeledger.model.bodies.node import ClockStepped, KubeletStarted
from kubeledger.model.bodies.prober import (
    PROBE_OF_KILL,
    ProbeCountersRead,
    ProbeExecuted,
    ProbeTicksFolded,
    ProbeTransitioned,
)
from kubeledger.model.record import Body, Record
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.context import Prescan, See, VerifyContext
from kubeledger.verify.rules.containers import key_for
from kubeledger.verify.rules.probe_changes import TOLD_WITHIN_NS, ChangeJudge
from kubeledger.verify.rules.probe_worker import Worker

_TICKS_KEPT: Final = 512


class ProbeVerifier(ChangeJudge):
    """Judges changes of cached probe results: docs/internals/verification.md."""

    decides = (ProbeTransitioned,)

    def __init__(self, context: VerifyContext) -> None:
        super().__init__(context)
        self._kill: tuple[Worker, int] | None = None
        self._now_ns = 0
        context.cached_results = self

    def prescans(self) -> Mapping[type[Body], Prescan]:
        return {ProbeTransitioned: self._workers.foresee_change}

    def derive(self, state: NodeState) -> None:
        """Of changes that were told some are enough."""
        self._workers.derive()
        self._witnesses.derive(self.context.asked_ns)

    def sees(self) -> Mapping[type[Body], See]:
        return {
            KubeletStarted: self._kubelet_started,
            ClockStepped: lambda record, body, state: self._workers.lose(),
            FindingReported: self._finding,
            PodConfigChanged: self._config_changed,
            PodListed: self._listed,
            PodTerminated: lambda record, body, state: self._workers.pod_gone(key_for(state, body)),
            PodPreempted: lambda record, body, state: self._witnesses.blocked(record.ts_ns),
            ContainerStarted: lambda record, body, state: self._workers.started(
                record, body, key_for(state, body)
            ),
            ContainerDied: self._container_ended,
            ContainerKilled: self._container_ended,
            # What waits for its back-off has ended, if the line of that is lost, too.
            RestartBackedOff: lambda record, body, state: self._workers.end(
                record, (key_for(state, body), body.container)
            ),
            ProbeExecuted: self._ticked,
            ProbeTicksFolded: self._folded,
            ProbeCountersRead: self._counted,
            KubernetesEvent: self._reported,
            ProbeTransitioned: self._transitioned,
        }

    def settle(self, state: NodeState) -> None:
        self._counts.settle(None)
        self._decide(None)

    def _pass_time(self, now_ns: int) -> None:
        if now_ns == self._now_ns:
            return
        self._now_ns = now_ns
        if self._kill is not None:
            self._learn_of_kill(*self._kill)
        self._counts.settle(now_ns)
        self._witnesses.pass_time(now_ns)
        while self._awaited and self._awaited[0][0] < now_ns:
            _, worker, tick = self._awaited.popleft()
            if worker.newest is tick and self._workers.is_there(worker):
                self._settle_change(worker)
        if self._waiting and self._waiting[0].due_ns < now_ns:
            self._decide(now_ns)

    # -- the kubelet, its pods and containers --------------------------------------------------

    def _kubelet_started(self, record: Record, body: KubeletStarted, state: NodeState) -> None:
        known = state.kubelet
        if not body.restart and known.started_ts_ns is not None and body.pid in {None, known.pid}:
            return  # another source shows the same process
        self._pass_time(record.ts_ns)
        self._counts.settle(None)
        self._awaited.clear()
        self._witnesses.forget()
        self._workers.kubelet_started(record.ts_ns)

    def _finding(self, record: Record, body: FindingReported, state: NodeState) -> None:
        reported = dispute_of(body.message) if body.finding == LINES_DISAGREE else None
        of_stamps = bool(stamps_of(reported))
        if reported is not None and not (of_stamps and self.context.coverage.is_out_of_step):
            sides = (record.seq, reported.here), (record.seq, reported.elsewhere)
            why, by_lines = reported.why, not of_stamps
            self.context.contradict(record.ts_ns, reported.subject, why, *sides, by_lines=by_lines)

    def _config_changed(self, record: Record, body: PodConfigChanged, state: NodeState) -> None:
        if body.operation == "ADD":
            self._workers.pod_added(key_for(state, body))

    def _listed(self, record: Record, body: PodListed, state: NodeState) -> None:
        key = key_for(state, body)
        if not body.gone:
            self._pass_time(record.ts_ns)
            self._workers.listed(record, body, key)
            self._witnesses.listed(record, body, key)
        elif body.listed_by == "kubelet":
            self._workers.pod_gone(key)

    def _container_ended(
        self, record: Record, body: ContainerDied | ContainerKilled, state: NodeState
    ) -> None:
        self._pass_time(record.ts_ns)
        if body.container is None:
            return
        key, died = key_for(state, body), isinstance(body, ContainerDied)
        self._workers.end(record, (key, body.container), body.container_id, died=died)
        probe_type = None if isinstance(body, ContainerDied) else PROBE_OF_KILL.get(body.reason)
        worker = probe_type and self._workers.known(key, body.container, probe_type)
        if worker and worker.container_id in (None, body.container_id):
            self._kill = worker, record.seq
            self._witnesses.killed(worker)

    def _learn_of_kill(self, worker: Worker, seq: int) -> None:
        """A kill for a failed probe says that the failure is cached, whatever was computed."""
        self._kill = None
        if worker.belief is None:
            return
        # Where the change may have come earlier, no record of it is missed now.
        worker.pending &= all(state.was is not None for state in worker.states)
        worker.belief.keep(lambda state: state.cached == FAILURE)
        if not any(state.cached == FAILURE for state in worker.states):
            worker.believe(FAILURE, f"that the probe had failed, as record {seq} says")

    # -- ticks ---------------------------------------------------------------------------------

    def _ticked(self, record: Record, body: ProbeExecuted, state: NodeState) -> None:
        self._pass_time(record.ts_ns)
        if self.context.profile is not None:
            self._tick(self._workers.find(body, state, record.ts_ns), record, body)

    def _tick(self, worker: Worker, record: Record, body: ProbeExecuted) -> None:
        if worker.newest is not None and record.ts_ns <= worker.newest_ns:
            return  # its line stands twice
        self._settle_change(worker)
        self._ticks[record.seq] = worker, body
        if len(self._ticks) > _TICKS_KEPT:
            del self._ticks[next(iter(self._ticks))]
        possible = self._workers.tick(worker, record, body)
        self._witnesses.ticked(worker, record, body, possible=possible)
        result = COUNTS_AS.get(body.result)
        if result is not None:
            self._counts.tick(worker, record.ts_ns, result)
        if worker.pending:
            self._awaited.append((record.ts_ns + TOLD_WITHIN_NS, worker, record))

    def _folded(self, record: Record, body: ProbeTicksFolded, state: NodeState) -> None:
        if self.context.profile is None:
            return
        self._pass_time(record.ts_ns)
        self._counts.logged_later = True
        worker = self._workers.find(body, state, body.first_ts_ns)
        result, tick = COUNTS_AS.get(body.result), None
        for number in range(body.count):
            ts_ns = body.first_ts_ns + number * body.period_ns
            on_time = ts_ns - worker.newest_ns <= body.period_ns * 7 // 5
            same = on_time and body.container_id == worker.container_id
            if same and (result is None or worker.is_steady(result)):
                worker.repeat(record, result, body.last_ts_ns, body.count - number)
                return
            tick = tick or body.tick()
            as_told = replace(record, ts_ns=ts_ns, kind=tick.kind, v=tick.v, body=tick)
            self._tick(worker, as_told, tick)

    def _counted(self, record: Record, body: ProbeCountersRead, state: NodeState) -> None:
        self._pass_time(record.ts_ns)
        if self.context.profile is None or self._counts.logged_later:
            return
        self._counts.read(self._workers.find(body, state, record.ts_ns), record, body)

    def _reported(self, record: Record, body: KubernetesEvent, state: NodeState) -> None:
        if body.reason == "Unhealthy" and body.object_kind == "Pod":
            self._pass_time(record.ts_ns)
            self._witnesses.reported(record, body, key_for(state, body))
