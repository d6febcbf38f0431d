"""Cgroup decisions, decided again: values, removals, and the writes of the QoS level."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from kubeledger.cgroups.paths import parse_cgroup_path
from kubeledger.cgroups.records import (
    CgroupRemoved,
    CgroupUpdated,
    QOSCgroupsUpdated,
    QOSReserveComputed,
)
from kubeledger.images.records import EvictionSignalObserved
from kubeledger.lifecycle.records import (
    ContainerDied,
    ContainerKilled,
    ContainerRestarted,
    ContainerStarted,
    PodAdmitted,
    PodConfigChanged,
    PodEvicted,
    PodListed,
    PodRejected,
    PodTerminated,
    ReasonReported,
)
from kubeledger.machine import Body, Decision, Record
from kubeledger.node.records import KubeletStarted, NodeObserved, SettingsObserved
from kubeledger.node.state import NodeState
from kubeledger.preemption.records import PodPreempted
from kubeledger.units import NS_PER_S
from kubeledger.verify.bench import Bench
from kubeledger.verify.cgroups.coverage import Coverage
from kubeledger.verify.cgroups.levels import Levels
from kubeledger.verify.cgroups.lives import Lives
from kubeledger.verify.cgroups.machine import Machine
from kubeledger.verify.cgroups.origins import Origins
from kubeledger.verify.cgroups.pods import Rules
from kubeledger.verify.cgroups.processes import PID_SIGNAL
from kubeledger.verify.cgroups.qos_findings import QOSLevels
from kubeledger.verify.cgroups.removals import Removals
from kubeledger.verify.cgroups.settings import read_settings
from kubeledger.verify.cgroups.speech import Speaker
from kubeledger.verify.cgroups.timing import WriteJudge
from kubeledger.verify.cgroups.versions import differing_resources
from kubeledger.verify.cgroups.window import READ_NS, Snapshot
from kubeledger.verify.cgroups.writes import Writes
from kubeledger.verify.verifier import Foresee, See, Verifier

__all__ = ["CgroupVerifier"]

_STARTING_NS: Final = 60 * NS_PER_S
_OF_LOG: Final[tuple[type[Body], ...]] = (
    ContainerDied,
    ContainerStarted,
    PodConfigChanged,
    QOSCgroupsUpdated,
)
"""What no other source tells, so that it shows that the log goes on."""


class CgroupVerifier(Verifier):
    """Decides about cgroups once the records tell what the snapshot can have shown."""

    decides: ClassVar[tuple[type[Decision], ...]] = (
        CgroupUpdated,
        CgroupRemoved,
        QOSCgroupsUpdated,
    )

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self.lives = Lives(bench.pods)
        self.writes = Writes()
        self.machine = Machine(bench.capacities)
        self.coverage = Coverage()
        self.removals = Removals(bench, self.lives, self.coverage.told)
        self.judge = WriteJudge(bench, self.lives, self.writes, self.coverage, self.lives.holed)
        speaker = Speaker(bench)
        self._lines = speaker.lines
        self.origins = Origins()
        self.levels = Levels(bench, speaker, self.machine, self.origins)
        self.qos_levels = QOSLevels(bench, speaker, self.machine, self.lives, self.judge)
        self._snapshots: deque[Snapshot] = deque()
        self._pod_cgroups: dict[str, int] = {}
        self._current: Rules | None = None
        self._begun_ns: int | None = None

    def foresees(self) -> Mapping[type[Body], Foresee]:
        """The machine's capacity, and of which times the log tells."""
        foresees: dict[type[Body], Foresee] = dict.fromkeys(_OF_LOG, self._log_foreseen)
        return {
            **foresees,
            KubeletStarted: self._start_foreseen,
            CgroupUpdated: self._update_foreseen,
            EvictionSignalObserved: self._signal_foreseen,
            NodeObserved: self.machine.foresee,
            PodListed: self.origins.foresee,
            SettingsObserved: self.bench.capacities.note,
        }

    def _log_foreseen(self, record: Record) -> None:
        self.coverage.foresee(record)
        self.origins.alive(record.ts_ns)

    def _start_foreseen(self, record: Record) -> None:
        assert isinstance(record.body, KubeletStarted)
        self.coverage.started(record)
        self.origins.kubelet_foreseen(record.ts_ns, from_start=record.body.from_start)

    def _update_foreseen(self, record: Record) -> None:
        self._lines.foresee(record)
        self.bench.capacities.note(record)

    def _signal_foreseen(self, record: Record) -> None:
        body = record.body
        assert isinstance(body, EvictionSignalObserved)
        self.coverage.signal(record.ts_ns)
        self.origins.alive(record.ts_ns)
        if body.signal == PID_SIGNAL:
            self.machine.pids.foresee(record)

    def sees(self) -> Mapping[type[Body], See]:
        """Body type -> method."""
        handlers: dict[type[Body], See] = {
            CgroupRemoved: self._removed,
            CgroupUpdated: self._updated,
            ContainerDied: self._died,
            ContainerKilled: self.lives.container_killed,
            ContainerRestarted: self._restarted,
            ContainerStarted: self._started,
            KubeletStarted: self._kubelet_started,
            NodeObserved: self._node_observed,
            PodAdmitted: self.lives.admitted,
            PodConfigChanged: self._config_changed,
            PodEvicted: self._doomed,
            PodListed: self._listed,
            PodPreempted: self._doomed,
            PodRejected: self.lives.rejected,
            PodTerminated: self.lives.terminated,
            QOSCgroupsUpdated: self._written,
            SettingsObserved: self._settings_observed,
        }
        return {
            **{kind: self._in_time(handler) for kind, handler in handlers.items()},
            # There are many of these, and nothing that waits depends on them.
            EvictionSignalObserved: self.judge.alive,
            QOSReserveComputed: self.judge.reserve,
            ReasonReported: self.lives.reported,
        }

    def settle(self, state: NodeState) -> None:
        """The ledger ended: judge by what there is."""
        while self._snapshots:
            self._close(self._snapshots.popleft(), state)
        self.removals.settle(state)
        self.judge.settle()

    def _in_time(self, handler: See) -> See:
        """A handler that first closes the snapshots that are old enough."""

        def see(record: Record, body: Any, state: NodeState) -> None:  # noqa: ANN401 # any body
            while self._snapshots and self._snapshots[0].deadline_ns < record.ts_ns:
                self._close(self._snapshots.popleft(), state)
            handler(record, body, state)

        return see

    def _rules(self) -> Rules | None:
        profile, current = self.bench.profile, self._current
        if profile is None:
            return None
        if current is None or current.profile is not profile:
            current = self._current = Rules(profile, read_settings(self.bench.settings))
            process = self.bench.process
            by_settings = process is not None and process.seq == process.settings_seq
            self.origins.use(current, process.started_ns if process and by_settings else None)
        return current

    # Decisions --------------------------------------------------------------------------

    def _updated(self, record: Record, body: CgroupUpdated, state: NodeState) -> None:
        if body.level == "pod" and body.pod_uid:
            self._pod_cgroups.setdefault(body.pod_uid, record.ts_ns)
            self.origins.shown(body.pod_uid, record.ts_ns)
        self.removals.shown(record, body)
        rules = self._rules()
        if rules is None:
            self.levels.without_rules(record, body)
        elif body.level == "qos":
            self._snapshot(record.ts_ns).levels.append((record, rules))
        else:
            self.levels.find(record, body, rules, state)

    def _removed(self, record: Record, body: CgroupRemoved, state: NodeState) -> None:
        self._snapshot(record.ts_ns).removed.append(record)
        where = parse_cgroup_path(body.cgroup)
        if where is not None and where.level == "pod" and where.pod_uid:
            self._pod_cgroups.pop(where.pod_uid, None)

    def _snapshot(self, ts_ns: int) -> Snapshot:
        """The snapshot of this time."""
        if not self._snapshots or self._snapshots[-1].ts_ns != ts_ns:
            self._snapshots.append(Snapshot(ts_ns=ts_ns, deadline_ns=ts_ns + READ_NS))
        return self._snapshots[-1]

    def _close(self, snapshot: Snapshot, state: NodeState) -> None:
        for record, rules in snapshot.levels:
            self.qos_levels.find(record, rules)
        self.removals.in_time(snapshot.ts_ns, state)
        self.removals.find(snapshot.ts_ns, snapshot.deadline_ns, snapshot.removed, state)
        if not self._snapshots:
            self.writes.forget(snapshot.ts_ns)
        self.lives.forget(snapshot.ts_ns)

    def _written(self, record: Record, body: QOSCgroupsUpdated, state: NodeState) -> None:
        self.judge.written(record, self._rules())

    # What they rest on ------------------------------------------------------------------

    def _kubelet_started(self, record: Record, body: KubeletStarted, state: NodeState) -> None:
        self.judge.kubelet_started()
        self.lives.kubelet_started(record.ts_ns, restart=body.restart)
        self._begun_ns = record.ts_ns if body.from_start else None
        self._current = None
        self.origins.kubelet_started()

    def _settings_observed(self, record: Record, body: SettingsObserved, state: NodeState) -> None:
        self._rules()
        # Only a process that is seen from its start on tells its flags.
        told = any(setting.source in ("flag", "default") for setting in body.settings.values())
        if told and self._begun_ns is not None and record.ts_ns - self._begun_ns <= _STARTING_NS:
            self.lives.start_seen(self._begun_ns)
            self.judge.start_seen(self._begun_ns)
            self._begun_ns = None

    def _node_observed(self, record: Record, body: NodeObserved, state: NodeState) -> None:
        self.machine.compare(record, body, state, self.bench)

    def _config_changed(self, record: Record, body: PodConfigChanged, state: NodeState) -> None:
        self.lives.config_changed(record, body, state)
        if body.operation == "ADD":
            life = self.lives.of(state, body)
            shown_ns = self._pod_cgroups.get(life.uid or "") if life is not None else None
            # A snapshot that was being read meanwhile may show what its first sync made.
            if life is not None and shown_ns is not None and record.ts_ns - shown_ns > READ_NS:
                life.written = 1
        self.lives.forget(record.ts_ns)

    def _listed(self, record: Record, body: PodListed, state: NodeState) -> None:
        self.lives.listed(record, body, state)
        self.removals.listed(record, body)
        rules = self._rules()
        if rules is not None and body.spec is not None:
            self._compare_specs(record, body, rules)

    def _compare_specs(self, record: Record, body: PodListed, rules: Rules) -> None:
        """The resources of a pod never change, so two lists that disagree contradict."""
        listed = self.bench.pods.at(record.ts_ns, body.pod_uid, body.namespace, body.pod)
        if listed is None or listed.seq != record.seq:
            return
        versions = self.bench.pods.versions(listed)
        before = versions[max(versions.index(listed) - 1, 0)] if listed in versions else listed
        if before is listed or not (difference := differing_resources(before, listed)):
            return
        if rules.resizes(listed):
            return
        container, first, second = difference
        self.bench.contradict(
            record.ts_ns,
            f"pod/{body.namespace}/{body.pod}",
            f"two lists show different resources of container {container} of pod "
            f"{body.namespace}/{body.pod}, which cannot change",
            (before.seq, first),
            (listed.seq, second),
        )

    def _doomed(self, record: Record, body: PodEvicted | PodPreempted, state: NodeState) -> None:
        self.lives.doomed(record, body, state)

    def _started(self, record: Record, body: ContainerStarted, state: NodeState) -> None:
        self.lives.container_started(record, body, state)
        self.origins.container_started(record, body)
        life = self.lives.of(state, body)
        if life is not None:
            life.synced = record.ts_ns if life.synced is None else min(life.synced, record.ts_ns)

    def _restarted(self, record: Record, body: ContainerRestarted, state: NodeState) -> None:
        life = self.lives.of(state, body)
        if body.container_id in self.removals.over:
            return  # told late, of what died already
        if life is not None and body.container_id is not None:
            life.run(body.container_id, body.container)

    def _died(self, record: Record, body: ContainerDied, state: NodeState) -> None:
        self.lives.container_died(record, body, state)
        self.removals.ended(body.container_id, record.seq, record.ts_ns)
