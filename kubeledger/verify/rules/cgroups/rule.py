"""Cgroup decisions, decided again: values, removals, and the writes of the QoS level.

A cgroup's values come from snapshots of its files. What the kubelet can have left there follows
from the pods' specs, from the settings of the process that made the cgroup, and, for the QoS
classes, from the pods that were active at the last write before the files were read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from kubeledger.cgroups.records import (
    CgroupRemoved,
    CgroupUpdated,
    QOSCgroupsUpdated,
    QOSReserveComputed,
)
from kubeledger.cgroups.state import CgroupState
from kubeledger.images.records import EvictionSignalObserved
from kubeledger.lifecycle.records import (
    ContainerDied,
    ContainerStarted,
    PodConfigChanged,
    PodListed,
)
from kubeledger.machine import Body, Decision, Record
from kubeledger.node.records import NodeObserved
from kubeledger.node.state import NodeState
from kubeledger.verify.belief import Judgement, judge, lacks, same
from kubeledger.verify.bench import Bench
from kubeledger.verify.evidence.processes import Process
from kubeledger.verify.finding import Fields
from kubeledger.verify.rules.cgroups.files import Compared, Lines, compare, line_of, uncompared
from kubeledger.verify.rules.cgroups.lists import Sightings
from kubeledger.verify.rules.cgroups.node import Machine, node_option
from kubeledger.verify.rules.cgroups.origins import Origins
from kubeledger.verify.rules.cgroups.pods import PodLevels
from kubeledger.verify.rules.cgroups.qos import QOSLevels
from kubeledger.verify.rules.cgroups.removals import Removals
from kubeledger.verify.rules.cgroups.resizes import differing_resources
from kubeledger.verify.rules.cgroups.settings import Rules, rules_of
from kubeledger.verify.rules.cgroups.values import nested
from kubeledger.verify.rules.cgroups.writes import Writes
from kubeledger.verify.verifier import Foresee, See, Verifier

__all__ = ["CgroupVerifier"]

_QOS_RULE: Final = "pkg/kubelet/cm/qos_container_manager_linux.go UpdateCgroups"
_REMOVAL_RULE: Final = "pkg/kubelet/kubelet_pods.go cleanupOrphanedPodCgroups"
_RULES: Final = {
    "node": "pkg/kubelet/cm/node_container_manager_linux.go enforceNodeAllocatableCgroups",
    "qos": _QOS_RULE,
    "pod": "pkg/kubelet/cm/helpers_linux.go ResourceConfigForPod",
    "container": "pkg/kubelet/kuberuntime/kuberuntime_container_linux.go "
    "generateLinuxContainerResources",
}
_NOT_PER_QOS: Final = "cgroupsPerQOS is off, so the kubelet makes no cgroups for pods"


class CgroupVerifier(Verifier):
    """Decides about cgroups by what the whole ledger tells of pods, processes and writes."""

    decides: ClassVar[tuple[type[Decision], ...]] = (
        CgroupUpdated,
        CgroupRemoved,
        QOSCgroupsUpdated,
    )

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self._lines = Lines()
        self._seen = Sightings()
        self._machine = Machine(bench.capacities)
        self._writes = Writes(bench, self._seen)
        self._origins = Origins(bench, self._seen)
        self._removals = Removals(bench, self._seen)
        self._qos = QOSLevels(bench, self._machine, self._writes)
        self._pods = PodLevels(bench, self._seen, self._origins, self._rules_of)
        self._rules: dict[int, Rules | None] = {}
        self._told: set[str] = set()
        self._snapshot_ns: int | None = None

    def foresees(self) -> Mapping[type[Body], Foresee]:
        """The machine's capacity, all writes and snapshots, and of which times the log tells."""
        return {
            CgroupRemoved: self._seen.foresee,
            CgroupUpdated: self._foresee_update,
            ContainerDied: self._foresee_line,
            ContainerStarted: self._foresee_line,
            EvictionSignalObserved: self._foresee_signal,
            NodeObserved: self._machine.foresee,
            PodConfigChanged: self._foresee_line,
            PodListed: self._seen.foresee,
            QOSCgroupsUpdated: self._foresee_write,
            QOSReserveComputed: self._writes.foresee,
        }

    def _foresee_update(self, record: Record) -> None:
        self._lines.foresee(record)
        self._seen.foresee(record)

    def _foresee_line(self, record: Record) -> None:
        self._origins.alive(record.ts_ns)
        self._writes.alive(record)

    def _foresee_signal(self, record: Record) -> None:
        self._foresee_line(record)
        self._machine.foresee(record)

    def _foresee_write(self, record: Record) -> None:
        self._foresee_line(record)
        self._writes.foresee(record)

    def sees(self) -> Mapping[type[Body], See]:
        """Body type -> method."""
        return {
            CgroupRemoved: self._removed,
            CgroupUpdated: self._updated,
            NodeObserved: self._node_observed,
            PodListed: self._listed,
            QOSCgroupsUpdated: self._written,
        }

    def _rules_of(self, process: Process) -> Rules | None:
        if process.number not in self._rules:
            self._rules[process.number] = rules_of(process, self.bench.variant)
        return self._rules[process.number]

    def _now(self) -> Rules | None:
        """Those of the process that runs; None where its version's are not known."""
        process = self.bench.process
        if process is not None:
            return self._rules_of(process)
        return rules_of(None, self.bench.variant)

    # Values -------------------------------------------------------------------------------

    def _updated(self, record: Record, body: CgroupUpdated, state: NodeState) -> None:
        self._stays(record, state)
        rules = self._now()
        self._told.discard(body.cgroup)
        if rules is None:
            self._say(record, body, lacks([self.bench.missing_profile]), None)
        elif not rules.settings.per_qos and not body.created:
            self._say(record, body, same(False, _NOT_PER_QOS, certain=True), None)
        elif body.level == "qos":
            self._writes.settle()
            judgement, compared = self._qos.level(body, record.ts_ns, rules)
            if judgement.verdict == "impossible":
                self._told.add(body.cgroup)
            self._say(record, body, judgement, compared)
        elif body.level == "node":
            option, missing = node_option(body, self._machine, record.ts_ns, rules)
            compared = compare(body, [option])
            allowed = compared is None or compared.ruling.allowed
            # What is known may be wrong even where something else is not known.
            if compared is None or (missing and allowed):
                judgement = lacks(missing or ["values in the cgroup's files"])
            else:
                judgement = judge([compared.ruling])
            self._say(record, body, judgement, compared)
        else:
            self._say(record, body, *self._pods.level(record, body, rules, state))

    def _say(
        self, record: Record, body: CgroupUpdated, judgement: Judgement, compared: Compared | None
    ) -> None:
        """Give a value its finding, at the line that cannot be."""
        if judgement.verdict in ("match", "admissible") and (missing := self._lines.missing(body)):
            judgement = lacks(missing)
        recorded = {"cgroup": body.cgroup} if compared is None else compared.recorded
        decided = judgement.verdict != "unverifiable"
        left = uncompared(body, recorded) if decided and compared is not None else ""
        differing = () if compared is None or not decided else compared.differing
        self.bench.find(
            record,
            judgement.verdict,
            subject=f"cgroup/{body.cgroup}",
            place=line_of(record, body, differing),
            why=f"{judgement.why}{left}",
            expected=judgement.expected,
            recorded=recorded if decided else None,
            missing=judgement.missing,
            rule=_RULES[body.level],
            inputs=judgement.inputs,
            certain=judgement.certain,
        )

    def _stays(self, record: Record, state: NodeState) -> None:
        """A snapshot in which a QoS class still holds what no write can have left there.

        Only changes are recorded; what is not among those of a snapshot held what it did before.
        """
        if record.ts_ns == self._snapshot_ns:
            return
        self._snapshot_ns = record.ts_ns
        rules = self._now()
        if rules is None or not rules.settings.per_qos:
            return
        for path, cgroup in sorted(state.cgroups.cgroups.items()):
            shown = record.ts_ns in self._seen.changed.get(path, ())
            if cgroup.level != "qos" or shown or path in self._told:
                continue
            body = _as_shown(path, cgroup)
            self._writes.settle()
            judgement, compared = self._qos.level(body, record.ts_ns, rules)
            if judgement.verdict == "impossible" and compared is not None:
                self._told.add(path)
                self.bench.absent(
                    record,
                    CgroupUpdated.kind,
                    subject=f"cgroup/{path}",
                    expected=_part(judgement.expected or {}, compared.differing),
                    why=f"the cgroup still holds what it did before: {judgement.why}",
                    rule=_QOS_RULE,
                    inputs=judgement.inputs,
                )

    # Removals and writes ------------------------------------------------------------------

    def _removed(self, record: Record, body: CgroupRemoved, state: NodeState) -> None:
        self._stays(record, state)
        judgement = self._removals.removed(record, state)
        decided = judgement.verdict != "unverifiable"
        self.bench.find(
            record,
            judgement.verdict,
            subject=f"cgroup/{body.cgroup}",
            why=judgement.why,
            expected={"cgroup": body.cgroup} if judgement.verdict == "match" else None,
            recorded={"cgroup": body.cgroup} if decided else None,
            missing=judgement.missing,
            rule=_REMOVAL_RULE,
            inputs=judgement.inputs,
        )

    def _written(self, record: Record, body: QOSCgroupsUpdated, state: NodeState) -> None:
        rules = self._now()
        self._writes.settle()
        judgement = (
            lacks([self.bench.missing_profile])
            if rules is None
            else self._qos.written(self._writes.of(record.seq), rules)
        )
        self.bench.find(
            record,
            judgement.verdict,
            subject="node",
            why=judgement.why,
            expected=judgement.expected,
            recorded={},
            missing=judgement.missing,
            rule=_QOS_RULE,
            inputs=judgement.inputs,
        )

    # What contradicts ---------------------------------------------------------------------

    def _node_observed(self, record: Record, body: NodeObserved, state: NodeState) -> None:
        self._machine.compare(record, body, state, self.bench)

    def _listed(self, record: Record, body: PodListed, state: NodeState) -> None:
        """The resources of a pod never change, so two lists that disagree contradict."""
        rules = self._now()
        if rules is None or body.spec is None:
            return
        listed = self.bench.pods.at(record.ts_ns, body.pod_uid, body.namespace, body.pod)
        if listed is None or listed.seq != record.seq:
            return
        versions = self.bench.pods.versions(listed)
        before = versions[max(versions.index(listed) - 1, 0)] if listed in versions else listed
        difference = differing_resources(before, listed) if before is not listed else None
        if difference is None or rules.resizes(listed):
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


def _part(fields: Fields, keys: Sequence[str]) -> Fields:
    """The values of ``field`` and ``field/file`` alone."""
    names = [key.partition("/")[::2] for key in keys]
    return nested({f"{field}/{file}" if file else field: fields[field][file] if file
                   else fields[field] for field, file in names})  # fmt: skip


def _as_shown(path: str, cgroup: CgroupState) -> CgroupUpdated:
    """The record of a cgroup that is as it was."""
    return CgroupUpdated(
        cgroup=path,
        level=cgroup.level,
        qos_class=cgroup.qos_class,
        pod_uid=cgroup.pod_uid,
        cpu_shares=cgroup.cpu_shares,
        cpu_quota_us=cgroup.cpu_quota_us,
        cpu_period_us=cgroup.cpu_period_us,
        memory_limit_bytes=cgroup.memory_limit_bytes,
        hugetlb_limit_bytes=cgroup.hugetlb_limit_bytes,
        unified=cgroup.unified,
        other=cgroup.other,
        created=False,
        changed=(),
    )
