"""Cgroup decisions, decided again: values, removals, and the writes of the QoS level.

A cgroup's values come from snapshots of its files. What the kubelet can have left there follows
from the pods' specs, from the settings of the process that made the cgroup, and, for the QoS
classes, from the pods that were active at the last write before the files were read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

from msgspec.structs import replace

from kubeledger.kubelet.cgroups.paths import CgroupPath, parse_cgroup_path
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
from kubeledger.model.units import NS_PER_S, format_ts
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.belief import Judgement, RuleVerifier, judge, lacks, same
from kubeledger.verify.context import Prescan, See, VerifyContext
from kubeledger.verify.debts import Missed
from kubeledger.verify.evidence.pod_intervals import PodHistory
from kubeledger.verify.evidence.processes import Process
from kubeledger.verify.evidence.times import ROUND_NS
from kubeledger.verify.rules.cgroups.files import (
    NO_VALUES,
    Compared,
    compare,
    line_of,
    nested,
    uncompared,
)
from kubeledger.verify.rules.cgroups.options import Rules, node_option, rules_of
from kubeledger.verify.rules.cgroups.pods import PodLevels, differing_resources
from kubeledger.verify.rules.cgroups.qos import QOSLevels
from kubeledger.verify.rules.cgroups.writes import Summer, Writes
from kubeledger.verify.rules.containers import ran_until

# Cgroups that went: the kubelet and the runtime remove them only after what ran in them.
#
# That nothing shows a container's end is no proof that it continues: the line may be lost, or
# come late. So a removal that nothing explains is impossible only where something shows that the
# cgroup was there all the time.

_BY_THEN_NS: Final = 120 * NS_PER_S
"""By then something explains a removal, or shows that it cannot be."""
_MANY: Final = 3
"""So many cgroups that are gone for no reason: the snapshot was not read as a whole."""
_NOT_WHOLE: Final = "the whole of the cgroup files, for several running cgroups are not there"


class Removals:
    """Judges removals by what the whole ledger shows."""

    def __init__(self, context: VerifyContext) -> None:
        self._context = context
        self._seen: dict[str, tuple[int, int]] = {}
        self._removed: dict[int, list[Record]] = {}
        self._judged: dict[int, Judgement] = {}
        self._last_ns = 0

    def prescan(self, record: Record, body: Body) -> None:
        seen, path = (record.ts_ns, record.seq), getattr(body, "cgroup", "")
        self._seen[path] = max(self._seen.get(path, seen), seen)
        self._last_ns = max(self._last_ns, record.ts_ns)
        if isinstance(body, CgroupRemoved):
            self._removed.setdefault(record.ts_ns, []).append(record)

    def derive(self, before_ns: int, state: NodeState) -> None:
        """Nobody asks for what was seen before a time, but of cgroups that are there."""
        there = state.cgroups.cgroups
        self._seen = {of: at for of, at in self._seen.items() if at[0] >= before_ns or of in there}

    def removed(self, record: Record, state: NodeState) -> Judgement:
        """Why a cgroup went, with the others that the snapshot shows no more."""
        if record.seq not in self._judged:
            group = self._removed.pop(record.ts_ns, [record])
            gone = {each.body.cgroup for each in group if isinstance(each.body, CgroupRemoved)}
            left = sorted(state.cgroups.cgroups.keys() - gone)
            found = {each.seq: self._judge(each, left) for each in group}
            odd = sum(judgement.verdict != "match" for judgement in found.values())
            for seq, judgement in found.items():
                many = odd >= _MANY and judgement.verdict == "impossible"
                self._judged[seq] = lacks([_NOT_WHOLE]) if many else judgement
        return self._judged.pop(record.seq)

    def _judge(self, record: Record, left: list[str]) -> Judgement:
        body, ts_ns = record.body, record.ts_ns
        assert isinstance(body, CgroupRemoved)
        where = parse_cgroup_path(body.cgroup)
        if where is None:
            return lacks(["a cgroup of the kubelet"])
        if where.level in ("node", "qos"):
            if self._context.coverage.missing(ts_ns, ts_ns + ROUND_NS) is None:
                why = "the kubelet never removes the cgroups of the node and of the QoS classes"
                return same(False, why)
            return lacks(["the records after the end of the ledger"])
        pod = self._context.timeline.pods.get(where.pod_uid or "")
        alive = None if pod is None else self._alive(where, pod, ts_ns)
        below = [path for path in left if path.startswith(f"{body.cgroup}/")]
        seen = {path: self._seen.get(path, (0, 0)) for path in below}
        if (alive := alive or _holds(seen, ts_ns)) is not None:
            return alive
        for at_ns, entry, seqs in self._ends(where, pod, ts_ns) if pod is not None else ():
            if at_ns <= ts_ns + _BY_THEN_NS:
                why = f"{entry} by {format_ts(at_ns)}, and then the cgroup goes"
                return same(True, why, inputs=tuple(filter(None, seqs)))
        if (own := where.container_id) is not None:  # nothing shows its end
            again_ns, seq = self._seen.get(body.cgroup, (0, 0))
            if again_ns <= ts_ns:
                return lacks([f"the end of container {own[:12]}"])
            why = f"container {own[:12]} had not ended, so its cgroup has to be there: "
            return same(False, f"{why}a later snapshot shows it again", inputs=(seq,))
        if (held := _holds(dict.fromkeys(below, (self._last_ns, 0)), ts_ns)) is not None:
            return held
        end = f"the end of pod {pod.namespace}/{pod.name}" if pod else "the life of the pod"
        return lacks([end])

    def _alive(self, where: CgroupPath, pod: PodHistory, ts_ns: int) -> Judgement | None:
        """What shows that it, or what is below it, still ran when the files had been read.

        The cgroup of a pod may go, and come again.
        """
        process = self._context.process
        if process is None:
            return None
        for run in pod.runs:
            own = run.container_id == where.container_id
            if where.container_id is None:
                own = process.started_ns < (run.started_ns or 0) < ts_ns
            if not own:
                continue
            until_ns, seq = ran_until(self._context, run, ts_ns + ROUND_NS)
            if until_ns:
                name = f"container {(run.container_id or '')[:12]}"
                why = f"{name} ran until {format_ts(until_ns)}, and its cgroup goes only then"
                return same(False, why, inputs=(seq,) if seq else ())
        return None

    def _ends(
        self, where: CgroupPath, pod: PodHistory, ts_ns: int
    ) -> Iterator[tuple[int, str, tuple[int, ...]]]:
        """Signs that a container, or its pod, had ended: when, in words, and the records."""
        own, listed = where.container_id or "", self._context.instances.of_pod(pod.key)
        began = {of: (each.name, each.seen_ns, each.seq) for of, each in listed.items()}
        for run in pod.runs if own else ():
            if run.container_id == own and run.died_ns is not None:
                yield run.died_ns, f"container {own[:12]} died", (run.died_seq,)
            if run.container_id and run.name and run.started_ns is not None:
                began[run.container_id] = (run.name, run.started_ns, run.started_seq)
        if own in listed and (ended := listed[own].ended) is not None:
            yield ended[0], f"a list shows that container {own[:12]} ended", (ended[1],)
        name, began_ns, _ = began.get(own, ("", 0, 0))
        for other, (others, since_ns, seq) in began.items() if name else ():
            if others == name and began_ns < since_ns:
                yield since_ns, f"container {other[:12]} came in its place, as {name},", (seq,)
        who, over = f"pod {pod.namespace}/{pod.name}", self._context.instances.over(pod.key)
        if over is not None:
            yield over[0], f"{who} was over", (over[1],)
        come = [each for each in pod.intervals if each.since_ns <= ts_ns + _BY_THEN_NS]
        for interval in come[-1:]:
            if interval.ended_ns is not None:
                yield interval.ended_ns, f"{who} was over", (interval.seq,)
            if interval.ending_ns is not None and not pod.ran(ts_ns + _BY_THEN_NS):
                why = f"the end of {who} had begun and nothing of it ran"
                calls = (each.seq for each in pod.calls if each.what != "add")
                ends = (seq for run in pod.runs for seq in (run.killed_seq, run.died_seq) if seq)
                yield interval.ending_ns, why, (interval.seq, *calls, *ends)


def _holds(below: dict[str, tuple[int, int]], ts_ns: int) -> Judgement | None:
    """What is below a cgroup that is gone, where a later snapshot shows it, or shows its end."""
    for path, (at_ns, seq) in below.items():
        if at_ns > ts_ns:
            why = "a cgroup goes only after all below it, and that of its container "
            inputs = (seq,) if seq else ()
            return same(False, f"{why}{path.rpartition('/')[2][:12]} was there", inputs=inputs)
    return None


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
        self._pods = PodLevels(context, self._rules_of)
        summer = Summer(context, self._pods.resized_ns)
        self._qos = QOSLevels(context, self._writes, summer)
        self._rules: dict[int | None, Rules | None] = {}
        self._changes: set[tuple[str, int]] = set()
        self._reported: set[str] = set()
        self._snapshot_ns: int | None = None

    def prescans(self) -> Mapping[type[Body], Prescan]:
        return {
            CgroupObserved: self._removals.prescan,
            CgroupRemoved: self._removals.prescan,
            CgroupUpdated: self._prescan,
            PodResized: self._pods.prescan,
            QOSCgroupsUpdated: self._writes.prescan,
            QOSReserveComputed: self._writes.prescan,
        }

    def derive(self, state: NodeState) -> None:
        self._writes.settle(state)
        self._removals.derive(self.context.asked_ns, state)
        self._rules.clear()

    def sees(self) -> Mapping[type[Body], See]:
        return {
            CgroupObserved: lambda record, _, state: self._stays(record, state),
            CgroupRemoved: self._removed,
            CgroupUpdated: self._updated,
            PodListed: self._listed,
            QOSCgroupsUpdated: self._written,
        }

    def _prescan(self, record: Record, body: CgroupUpdated) -> None:
        self._removals.prescan(record, body)
        self._pods.see_made(body, record.ts_ns)
        if body.level == "qos":
            self._changes.add((body.cgroup, record.ts_ns))

    def _rules_of(self, process: Process | None) -> Rules | None:
        """Those of a process; None where its version's are not known."""
        number = None if process is None else process.number
        if number not in self._rules:
            self._rules[number] = rules_of(process, self.context.variant)
        rules = self._rules[number]
        self.context.settings.asked |= frozenset() if rules is None else rules.asked
        return rules

    # Values -------------------------------------------------------------------------------

    def _updated(self, record: Record, body: CgroupUpdated, state: NodeState) -> None:
        self._stays(record, state)
        self._reported.discard(body.cgroup)
        judgement, compared = self._level(record, body, state)
        if judgement.verdict == "impossible":
            self._reported.add(body.cgroup)
        subject, rule, place = f"cgroup/{body.cgroup}", _RULES[body.level], None
        recorded = None if judgement.verdict == "unverifiable" else {"cgroup": body.cgroup}
        if recorded is not None and compared is not None:
            recorded, place = compared.recorded, line_of(record, body, compared.differing)
            judgement = replace(judgement, why=judgement.why + uncompared(body, recorded))
        self.conclude(record, subject, judgement, recorded=recorded, rule=rule, place=place)

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
            shown = _as_shown(path, cgroup)
            judgement, compared = self._qos.level(shown, record.ts_ns, rules, cgroup)
            if judgement.verdict == "impossible" and compared is not None:
                self._reported.add(path)
                missed = Missed(
                    since=record,
                    kind=CgroupUpdated.kind,
                    subject=f"cgroup/{path}",
                    expected=nested(compared.differing),
                    why=f"the cgroup still holds what it did before: {judgement.why}",
                    rule=self.rule,
                    inputs=judgement.inputs,
                )
                self.context.absent(missed)

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
        judgement = lacks([self.context.missing_profile])
        if rules is not None:
            judgement = self._qos.written(self._writes.of(record.seq), rules)
        recorded = None if judgement.verdict == "unverifiable" else dict[str, Any]()
        self.conclude(record, "node", judgement, recorded=recorded)

    # What contradicts ---------------------------------------------------------------------

    def _listed(self, record: Record, body: PodListed, state: NodeState) -> None:
        """The resources of a pod never change, so two lists that disagree contradict."""
        rules = self._rules_of(self.context.process)
        if rules is None or body.spec is None:
            return
        listed = self.context.pods.of(record)
        if listed is None or listed.seq != record.seq:
            return
        versions = self.context.pods.versions(listed)
        before = versions[max(versions.index(listed) - 1, 0)] if listed in versions else listed
        difference = differing_resources(before, listed) if before is not listed else None
        if difference is None or rules.resizes(listed):
            return
        (container, first, second), name = difference, f"{body.namespace}/{body.pod}"
        why = f"two lists show different resources of container {container} of pod {name}, which "
        sides = (before.seq, first), (listed.seq, second)
        self.context.contradict(record.ts_ns, f"pod/{name}", f"{why}cannot change", *sides)


def _as_shown(path: str, cgroup: CgroupState) -> CgroupUpdated:
    """The record of a cgroup that is as it was."""
    fields = {name: getattr(cgroup, name) for name in cgroup.__struct_fields__
              if name in CgroupUpdated.__struct_fields__}  # fmt: skip
    return CgroupUpdated(cgroup=path, **fields | {"created": False, "changed": ()})
