"""Cgroup decisions, decided again: values, removals, and the writes of the QoS level.

A cgroup's values come from snapshots of its files. What the kubelet can have left there follows
from the pods' specs, from the settings of the process that made the cgroup, and, for the QoS
classes, from the pods that were active at the last write before the files were read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from msgspec.structs import replace

from kubeledger.kubelet.cgroups.reducer import CgroupState
from kubeledger.model.bodies.cgroups import (
    CgroupObserved,
    CgroupRemoved,
    CgroupUpdated,
    QOSCgroupsUpdated,
    QOSReserveComputed,
)
from kubeledger.model.bodies.lifecycle import PodListed, PodResized
from kubeledger.model.record import Body, Decision, Record
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.belief import Judgement, RuleVerifier, judge, lacks, same
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.evidence.processes import Process
from kubeledger.verify.rules.cgroups.files import (
    NO_VALUES,
    Compared,
    compare,
    line_of,
    nested,
    uncompared,
)
from kubeledger.verify.rules.cgroups.options import node_option
from kubeledger.verify.rules.cgroups.pods import PodLevels, differing_resources
from kubeledger.verify.rules.cgroups.qos import QOSLevels
from kubeledger.verify.rules.cgroups.removals import Removals
from kubeledger.verify.rules.cgroups.settings import Rules, rules_of
from kubeledger.verify.rules.cgroups.writes import Writes
from kubeledger.verify.verifier import Prescan, See

_REMOVAL_RULE: Final = "pkg/kubelet/kubelet_pods.go cleanupOrphanedPodCgroups"
_RULES: Final = {
    "node": "pkg/kubelet/cm/node_container_manager_linux.go enforceNodeAllocatableCgroups",
    "qos": "pkg/kubelet/cm/qos_container_manager_linux.go UpdateCgroups",
    "pod": "pkg/kubelet/cm/helpers_linux.go ResourceConfigForPod",
    "container": "pkg/kubelet/kuberuntime/kuberuntime_container_linux.go "
    "generateLinuxContainerResources",
}
_NOT_PER_QOS: Final = "cgroupsPerQOS is off, so the kubelet makes no cgroups for pods"


class CgroupVerifier(RuleVerifier):
    """Decides about cgroups by what the whole ledger shows of pods, processes and writes."""

    decides: ClassVar[tuple[type[Decision], ...]] = (
        CgroupUpdated,
        CgroupRemoved,
        QOSCgroupsUpdated,
    )
    rule = _RULES["qos"]

    def __init__(self, context: VerifyContext) -> None:
        super().__init__(context)
        self._writes = Writes(context)
        self._removals = Removals(context)
        self._qos = QOSLevels(context, self._writes)
        self._pods = PodLevels(context, self._rules_of)
        self._rules: dict[int | None, Rules | None] = {}
        self._changes: set[tuple[str, int]] = set()
        self._reported: set[str] = set()
        self._snapshot_ns: int | None = None

    def prescans(self) -> Mapping[type[Body], Prescan]:
        """All snapshots and writes."""
        return {
            CgroupObserved: self._removals.prescan,
            CgroupRemoved: self._removals.prescan,
            CgroupUpdated: self._prescan,
            PodResized: self._pods.prescan,
            QOSCgroupsUpdated: self._writes.prescan,
            QOSReserveComputed: self._writes.prescan,
        }

    def sees(self) -> Mapping[type[Body], See]:
        """Body type -> method."""
        return {
            CgroupObserved: lambda record, _, state: self._stays(record, state),
            CgroupRemoved: self._removed,
            CgroupUpdated: self._updated,
            PodListed: self._listed,
            QOSCgroupsUpdated: self._written,
        }

    def _prescan(self, record: Record, body: CgroupUpdated) -> None:
        self._removals.prescan(record, body)
        self._pods.creators.prescan(record, body)
        if body.level == "qos":
            self._changes.add((body.cgroup, record.ts_ns))

    def _rules_of(self, process: Process | None) -> Rules | None:
        """Those of a process; None where its version's are not known."""
        number = None if process is None else process.number
        if number not in self._rules:
            self._rules[number] = rules_of(process, self.context.variant)
        return self._rules[number]

    # Values -------------------------------------------------------------------------------

    def _updated(self, record: Record, body: CgroupUpdated, state: NodeState) -> None:
        self._stays(record, state)
        self._reported.discard(body.cgroup)
        judgement, compared = self._level(record, body, state)
        if judgement.verdict == "impossible":
            self._reported.add(body.cgroup)
        decided = compared is not None and judgement.verdict != "unverifiable"
        recorded = (
            compared.recorded if compared is not None and decided else {"cgroup": body.cgroup}
        )
        if decided:
            judgement = replace(judgement, why=judgement.why + uncompared(body, recorded))
        self.conclude(
            record,
            f"cgroup/{body.cgroup}",
            judgement,
            recorded=None if judgement.verdict == "unverifiable" else recorded,
            rule=_RULES[body.level],
            place=line_of(record, body, compared.differing) if compared and decided else None,
        )

    def _level(
        self, record: Record, body: CgroupUpdated, state: NodeState
    ) -> tuple[Judgement, Compared | None]:
        rules = self._rules_of(self.context.process)
        if rules is None:
            return lacks([self.context.missing_profile]), None
        if not rules.per_qos and not body.created:
            return same(False, _NOT_PER_QOS, certain=True), None
        if body.level == "qos":
            before = state.cgroups.cgroups.get(body.cgroup)
            return self._qos.level(body, record.ts_ns, rules, before)
        if body.level != "node":
            return self._pods.level(record, body, rules, state)
        option, missing = node_option(body, self.context.machine, record.ts_ns, rules)
        compared = compare(body, [option])
        # What is known may be wrong even where something else is not known.
        if compared is None or (missing and compared.ruling.allowed):
            return lacks(missing or [NO_VALUES]), compared
        return judge([compared.ruling]), compared

    def _stays(self, record: Record, state: NodeState) -> None:
        """A snapshot in which a QoS class still holds what no write can have left there.

        Only changes are recorded; what is not among those of a snapshot held what it did before.
        """
        rules = self._rules_of(self.context.process)
        if record.ts_ns == self._snapshot_ns or rules is None or not rules.per_qos:
            return
        self._snapshot_ns = record.ts_ns
        for path, cgroup in sorted(state.cgroups.cgroups.items()):
            changed = (path, record.ts_ns) in self._changes
            if cgroup.level != "qos" or changed or path in self._reported:
                continue
            judgement, compared = self._qos.level(
                _as_shown(path, cgroup), record.ts_ns, rules, cgroup
            )
            if judgement.verdict == "impossible" and compared is not None:
                self._reported.add(path)
                self.context.absent(
                    record,
                    CgroupUpdated.kind,
                    subject=f"cgroup/{path}",
                    expected=nested(compared.differing),
                    why=f"the cgroup still holds what it did before: {judgement.why}",
                    rule=self.rule,
                    inputs=judgement.inputs,
                )

    # Removals and writes ------------------------------------------------------------------

    def _removed(self, record: Record, body: CgroupRemoved, state: NodeState) -> None:
        self._stays(record, state)
        judgement, fields = self._removals.removed(record, state), {"cgroup": body.cgroup}
        if judgement.verdict == "match":
            judgement = replace(judgement, expected=fields)
        reported = None if judgement.verdict == "unverifiable" else fields
        subject = f"cgroup/{body.cgroup}"
        self.conclude(record, subject, judgement, recorded=reported, rule=_REMOVAL_RULE)

    def _written(self, record: Record, body: QOSCgroupsUpdated, state: NodeState) -> None:
        rules = self._rules_of(self.context.process)
        self._writes.settle()
        if rules is None:
            judgement = lacks([self.context.missing_profile])
        else:
            judgement = self._qos.written(self._writes.of(record.seq), rules)
        self.conclude(
            record, "node", judgement, recorded=None if judgement.verdict == "unverifiable" else {}
        )

    # What contradicts ---------------------------------------------------------------------

    def _listed(self, record: Record, body: PodListed, state: NodeState) -> None:
        """The resources of a pod never change, so two lists that disagree contradict."""
        rules = self._rules_of(self.context.process)
        if rules is None or body.spec is None:
            return
        listed = self.context.pods.at(record.ts_ns, body.pod_uid, body.namespace, body.pod)
        if listed is None or listed.seq != record.seq:
            return
        versions = self.context.pods.versions(listed)
        before = versions[max(versions.index(listed) - 1, 0)] if listed in versions else listed
        difference = differing_resources(before, listed) if before is not listed else None
        if difference is None or rules.resizes(listed):
            return
        container, first, second = difference
        self.context.contradict(
            record.ts_ns,
            f"pod/{body.namespace}/{body.pod}",
            f"two lists show different resources of container {container} of pod "
            f"{body.namespace}/{body.pod}, which cannot change",
            (before.seq, first),
            (listed.seq, second),
        )


def _as_shown(path: str, cgroup: CgroupState) -> CgroupUpdated:
    """The record of a cgroup that is as it was."""
    fields = {name: getattr(cgroup, name) for name in cgroup.__struct_fields__
              if name in CgroupUpdated.__struct_fields__}  # fmt: skip
    return CgroupUpdated(cgroup=path, **fields | {"created": False, "changed": ()})
