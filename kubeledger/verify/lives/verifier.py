"""Probes, kills and restarts: routes records to the judges."""

from __future__ import annotations

from collections.abc import Mapping

from kubeledger.ledger.records import FindingReported
from kubeledger.lifecycle.disputes import LINES_DISAGREE, dispute_of
from kubeledger.lifecycle.records import (
    ContainerDied,
    ContainerKilled,
    ContainerStarted,
    PodConfigChanged,
    PodEvicted,
    PodListed,
    PodTerminated,
    PodTerminating,
    ReasonReported,
)
from kubeledger.machine import Body, Record
from kubeledger.node.records import ClockStepped, KubeletStarted
from kubeledger.node.state import NodeState
from kubeledger.preemption.records import PodPreempted
from kubeledger.prober.records import (
    ProbeCountersRead,
    ProbeExecuted,
    ProbeTicksFolded,
    ProbeTransitioned,
    ProbeType,
)
from kubeledger.units import NS_PER_S
from kubeledger.verify.bench import Bench
from kubeledger.verify.cached_results import CachedResult, CachedResults
from kubeledger.verify.lives.common import Causes, Holding, key_for
from kubeledger.verify.lives.evidence import ProbeEvidence
from kubeledger.verify.lives.folded import Folded, ticks_of
from kubeledger.verify.lives.life import Lives
from kubeledger.verify.lives.specs import SpecBook
from kubeledger.verify.lives.steps import counts_as
from kubeledger.verify.lives.transitions import TransitionJudge
from kubeledger.verify.lives.words import doubt
from kubeledger.verify.lives.workers import Workers
from kubeledger.verify.verifier import Foresee, See, Verifier

__all__ = ["LivesVerifier"]

_OTHER_ID = frozenset({"container_id"})
"""What follows may be about another instance of the container."""
_PAUSE_NS = 5 * NS_PER_S
"""Behind a pause so long it is asked whether probes that had to be made are missing."""
_GAP_NS = 300 * NS_PER_S
"""No log with containers that are probed or restarted is silent for so long."""


class LivesVerifier(Verifier):
    """What the probes of containers said, and the kills and restarts that followed."""

    decides = (ProbeTransitioned,)

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self._book = SpecBook()
        self._holding = Holding(bench)
        self._lives = Lives()
        self._causes = Causes(self._book)
        self._folded = Folded()
        self._workers = Workers(bench, self._book, self._lives, self._folded)
        self._transitions = TransitionJudge(
            bench, self._workers, self._lives, self._holding, self._causes
        )
        self._evidence = ProbeEvidence(bench, self._workers, self._holding)
        self._workers.on_gap(self._lose)
        bench.cached_results = _Cached(self._workers)
        self._began = False
        self._seen_ns: int | None = None

    def foresees(self) -> Mapping[type[Body], Foresee]:
        """Pod lists, and for which pods thresholds were known."""
        return {
            PodListed: self._book.foresee,
            ProbeTransitioned: self._workers.foresee,
            ProbeTicksFolded: self._folded.foresee,
        }

    def sees(self) -> Mapping[type[Body], See]:
        """All that probes, kills and restarts follow from."""
        return {
            KubeletStarted: self._kubelet_started,
            ClockStepped: self._clock_stepped,
            FindingReported: self._finding,
            PodConfigChanged: self._config_changed,
            PodListed: self._listed,
            PodTerminated: self._terminated,
            PodTerminating: self._terminating,
            PodEvicted: self._evicted,
            PodPreempted: self._preempted,
            ContainerStarted: self._container_started,
            ContainerDied: self._container_died,
            ProbeExecuted: self._ticked,
            ProbeTicksFolded: self._ticks_folded,
            ProbeCountersRead: self._counted,
            ReasonReported: self._reported,
            ProbeTransitioned: self._transitioned,
            ContainerKilled: self._killed,
        }

    def settle(self, state: NodeState) -> None:
        """The ledger ended."""
        self._evidence.settle_counts(None)
        self._holding.release(None)

    def _pass_time(self, record: Record) -> None:
        if not self._began:
            self._began = True
            self._evidence.tell_disagreements(self._book)
        now_ns, seen_ns = record.ts_ns, self._seen_ns
        if seen_ns == now_ns:
            return
        if seen_ns is not None and now_ns - seen_ns > _PAUSE_NS:
            silent = now_ns - seen_ns > _GAP_NS or self._workers.is_overdue(now_ns)
            if silent and not self._folded.covers(seen_ns, now_ns):
                self._lose()
        self._seen_ns = now_ns
        self._evidence.pass_time(now_ns)
        self._transitions.pass_time(now_ns)
        self._holding.release(now_ns)

    # -- the kubelet and its pods ------------------------------------------------------------

    def _kubelet_started(self, record: Record, body: KubeletStarted, state: NodeState) -> None:
        self._pass_time(record)
        known = state.kubelet
        if not body.restart and known.started_ts_ns is not None and body.pid in {None, known.pid}:
            return  # another source tells of the same process
        self._transitions.forget()
        self._evidence.forget()
        self._lives.kubelet_started()
        self._workers.kubelet_started(record.ts_ns)

    def _finding(self, record: Record, body: FindingReported, state: NodeState) -> None:
        told = dispute_of(body.message) if body.finding == LINES_DISAGREE else None
        if told is not None:
            sides = (record.seq, told.here), (record.seq, told.elsewhere)
            self.bench.contradict(record.ts_ns, told.subject, told.why, *sides)

    def _clock_stepped(self, record: Record, body: ClockStepped, state: NodeState) -> None:
        self._lose()

    def _lose(self) -> None:
        """Records are missing, or their times mean nothing."""
        self._workers.lose()
        self._lives.lose()

    def _config_changed(self, record: Record, body: PodConfigChanged, state: NodeState) -> None:
        self._pass_time(record)
        key = key_for(state, body)
        if body.operation == "ADD":
            self._workers.pod_added(key)
            self._lives.pod_added(key)
        elif body.operation == "UPDATE":
            self._lives.pod_updated(key)
        self._causes.note(record.seq, body)

    def _listed(self, record: Record, body: PodListed, state: NodeState) -> None:
        self._pass_time(record)
        key = key_for(state, body)
        if body.gone and body.listed_by == "kubelet":
            self._workers.pod_gone(key)
            self._lives.pod_gone(key)

    def _terminated(self, record: Record, body: PodTerminated, state: NodeState) -> None:
        self._pass_time(record)
        key = key_for(state, body)
        self._workers.pod_gone(key)
        self._lives.pod_gone(key)

    def _terminating(self, record: Record, body: PodTerminating, state: NodeState) -> None:
        self._causes.note(record.seq, body)

    def _evicted(self, record: Record, body: PodEvicted, state: NodeState) -> None:
        self._causes.note(record.seq, body)

    def _preempted(self, record: Record, body: PodPreempted, state: NodeState) -> None:
        self._workers.blocks(record.ts_ns)
        self._causes.note(record.seq, body)

    # -- containers --------------------------------------------------------------------------

    def _container_started(self, record: Record, body: ContainerStarted, state: NodeState) -> None:
        self._pass_time(record)
        key = key_for(state, body)
        self._workers.container_started(record, key, body.container)
        self._lives.started(record, body, key)

    def _container_died(self, record: Record, body: ContainerDied, state: NodeState) -> None:
        self._pass_time(record)
        key = key_for(state, body)
        self._lives.died(record, body, key)
        self._causes.note(record.seq, body, but=_OTHER_ID)

    # -- probes ------------------------------------------------------------------------------

    def _ticks_folded(self, record: Record, body: ProbeTicksFolded, state: NodeState) -> None:
        self._pass_time(record)
        if self.bench.profile is None:
            return
        worker = self._workers.find(body.tick(), state, body.first_ts_ns)
        for tick, repeated in ticks_of(record, body, worker):
            if repeated:
                worker.repeat(tick, counts_as(body.result), repeated)
            else:
                self._tick(tick, body.tick(), state)

    def _ticked(self, record: Record, body: ProbeExecuted, state: NodeState) -> None:
        self._pass_time(record)
        if self.bench.profile is not None:
            self._tick(record, body, state)

    def _tick(self, record: Record, body: ProbeExecuted, state: NodeState) -> None:
        worker = self._workers.find(body, state, record.ts_ns)
        if worker.grid.is_old(record.ts_ns):
            return  # its line stands twice
        self._transitions.before_tick(worker)
        stepped = self._workers.tick(worker, record, body)
        self._evidence.ticked(worker, record, body, stepped=stepped)
        self._transitions.ticked(worker)
        self._causes.note(record.seq, body, but=_OTHER_ID)

    def _counted(self, record: Record, body: ProbeCountersRead, state: NodeState) -> None:
        self._pass_time(record)
        if self.bench.profile is not None:
            worker = self._workers.find(body, state, record.ts_ns)
            self._evidence.counted(worker, record, body)

    def _reported(self, record: Record, body: ReasonReported, state: NodeState) -> None:
        if body.object_kind != "Pod":
            return
        if body.reason == "Unhealthy":
            worker = self._evidence.reported(record, body, state)
            if worker is not None:
                self._transitions.ticked(worker)

    # -- decisions ---------------------------------------------------------------------------

    def _transitioned(self, record: Record, body: ProbeTransitioned, state: NodeState) -> None:
        self._pass_time(record)
        believed = self._transitions.transitioned(record, body, state)
        self._causes.note(record.seq, believed)

    def _killed(self, record: Record, body: ContainerKilled, state: NodeState) -> None:
        self._pass_time(record)
        self._workers.killed(key_for(state, body), body.container, body.reason)
        self._causes.note(record.seq, body, but=_OTHER_ID)


class _Cached(CachedResults):
    """What the workers hold."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers

    def cached(
        self, key: str, container: str, probe_type: ProbeType, ts_ns: int
    ) -> CachedResult | None:
        """As :meth:`CachedResults.cached`."""
        worker = self._workers.known(key, container, probe_type)
        if worker is None or not self._workers.is_gapless(worker):
            return None
        lost = doubt(worker, worker.run_from_ns, ts_ns)
        if lost is not None and worker.cached != "failure":
            return CachedResult(may_be=frozenset({worker.cached, "failure"}), missing=(lost,))
        return CachedResult(may_be=frozenset({worker.cached}), seqs=tuple(worker.streak)[-1:])
