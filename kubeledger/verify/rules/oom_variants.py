"""OOM kills under a variant: other limits, other adjustments, another scope of the kill.

What a variant changes is compared with what was asked for as recorded; where both are the
same the kill is judged as recorded. A limit that is higher would not have been reached then; a
lower one would have been reached before. Nothing says what a process would have used after a
kill that did not come, and page cache may be given back: such things are undecided, by name.

What was asked for: a pod's memory limits, and ``oom_score_adj``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import msgspec
from msgspec.structs import replace

from kubeledger.kubelet.cgroups.decider import PodDecision, decide_pod
from kubeledger.kubelet.cgroups.paths import CgroupNameError, is_of_pods, owner_of
from kubeledger.kubelet.cgroups.unified import kills_all_processes
from kubeledger.kubelet.kube.pod import Pod
from kubeledger.kubelet.kube.quantity import Quantity
from kubeledger.kubelet.oom import NEVER_KILLED
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.model.bodies.cgroups import CgroupUpdated
from kubeledger.model.bodies.eviction import OutOfMemory, ProcessKilled
from kubeledger.model.errors import BadInputError
from kubeledger.model.record import Record
from kubeledger.verify.belief import Ruling
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.evidence.pods import ListedPod
from kubeledger.verify.finding import Finding
from kubeledger.verify.rules.cgroups.files import is_unified
from kubeledger.verify.rules.cgroups.options import rules_of
from kubeledger.verify.variant import RECORDED, Settings

_CPU_PERIOD_US = 100_000
"""In the place of settings that decide about CPU alone."""


def decisions(
    context: VerifyContext, record: Record, capacity: int
) -> Iterator[tuple[ListedPod, PodDecision]]:
    """What is asked for by each version of the pod's spec, the last first."""
    listed = context.pods.of(record)
    for version in reversed(() if listed is None else context.pods.versions(listed)):
        decision = _decide(version, context.profile, capacity)
        if decision is not None:
            yield version, decision


def both_ways(
    context: VerifyContext, listed: ListedPod, ts_ns: int, capacity: int
) -> tuple[PodDecision, PodDecision] | None:
    """What was asked for as recorded, and what is under the variant; None if either is unknown."""
    recorded = context.recorded_pods.at(ts_ns, listed.uid, listed.namespace, listed.name)
    before = _decide(recorded or listed, context.recorded_profile, capacity)
    now = _decide(listed, context.profile, capacity)
    return None if before is None or now is None else (before, now)


def _decide(listed: ListedPod, profile: KubeletProfile | None, capacity: int) -> PodDecision | None:
    """What is asked for, on a node of so many bytes; None where version or spec say nothing."""
    with suppress(msgspec.ValidationError, BadInputError, CgroupNameError):
        if profile is not None:
            return decide_pod(
                listed.as_(Pod),
                profile.cgroups,
                enforce_cpu_limits=True,
                cpu_period_us=_CPU_PERIOD_US,
                memory_capacity=capacity,
                with_init_containers=True,
            )
    return None


def memory_limit(decision: PodDecision, body: ProcessKilled) -> int | None:
    """Bytes that the pod or its container could use, by whose limit was reached; None: any."""
    limit = decision.pod.memory_limit_bytes
    if body.reason == "container_limit":
        own = decision.containers.get(body.container or "")
        limit = None if own is None else own.memory_limit_bytes
    return limit if limit is not None and limit > 0 else None


_SANDBOX_ADJ = -998
_WHICH = "which container each process ran in"
_ALL_PODS = "the limit of all pods together"
_ALL_USED = "what all pods together used of memory, against {} bytes"
_USED = "what pod {} used of memory that the kernel could not take back, against {} bytes"
_QOS = "the limit of the QoS class"
_RESERVES = {
    *("enforceNodeAllocatable", "featureGates", "kubeReserved", "qosReserved", "systemReserved")
}
_CGROUPS = "the version of the node's cgroups"

World = tuple[ProcessKilled, OutOfMemory, tuple[str, ...]]
"""A kill and its report with the adjustments that processes would have had; what that assumes."""


class OomVariant:
    """What a variant changes of kills.

    Attributes:
        unified: the node has cgroup v2; None where no cgroup was read.
    """

    def __init__(self, context: VerifyContext) -> None:
        self._context = context
        self.unified: bool | None = None
        self._decided: set[str] = set()

    def seen(self, record: Record, body: CgroupUpdated) -> None:
        self.unified = is_unified(body)

    # -- limits ----------------------------------------------------------------------------

    def limits(self, record: Record, body: ProcessKilled, capacity: int) -> list[Ruling]:
        """Rulings where the limit that was reached would have been another; else none."""
        if _is_of_all(body):
            return self._limit_of_all(body, capacity)
        listed = self._context.pods.of(record)
        both = None if listed is None else both_ways(self._context, listed, record.ts_ns, 1)
        if both is None or body.reason is None:
            return []
        old, new = (memory_limit(decision, body) for decision in both)
        if old != new:
            self._decided.add(f"{body.namespace}/{body.pod}")
        return _moved("container" if body.reason == "container_limit" else "pod", old, new)

    def _limit_of_all(self, body: ProcessKilled, capacity: int) -> list[Ruling]:
        """The same where all pods, or those of a class, had used up theirs, or the node its own."""
        owner = owner_of(body.cgroup)
        touched = _RESERVES & self._context.variant.settings.keys()
        if not touched or (owner is None and body.cgroup is not None):
            return []
        if owner is not None and owner.level == "qos":
            return _open(_QOS)
        old, new = self._pods_limits(capacity)
        if body.cgroup is not None:
            unknown = old is None or new is None
            return _open(_ALL_PODS) if unknown else _moved("sum of all pods", old, new)
        return _open(_ALL_USED.format(new)) if _is_lower(old, new) else []

    def _pods_limits(self, capacity: int) -> list[int | None]:
        """Of all pods together, as recorded and under the variant; None where not known."""
        rules = [rules_of(self._context.process, v) for v in (RECORDED, self._context.variant)]
        amounts = {"memory": Quantity.of(capacity)} if capacity else {}
        left = [None if each is None else each.kubepods(amounts) for each in rules]
        return [each["memory"].value() if each else None for each in left]

    # -- the choice ------------------------------------------------------------------------

    def worlds(
        self, record: Record, body: ProcessKilled, shortage: OutOfMemory, capacity: int
    ) -> Iterator[World]:
        """The report with the adjustments that processes would have had.

        The table names no containers: a process is that of a container by its adjustment, and
        a sandbox has that of Guaranteed pods before 1.22. Where that leaves a choice the two
        worlds are those in which the others have most and least points.
        """
        moves = {} if body.reason == "container_limit" else self._moves(record, body, capacity)
        own = moves.pop(None, None)
        if own is None and all(new == {old} for old, new in moves.items()):
            yield body, shortage, ()
            return
        victim = body.chosen_pid if body.chosen_pid is not None else body.pid
        for pick, assumes in ((max, ()), (min, (_WHICH,))):
            tasks = []
            for task in shortage.tasks or ():
                adjustment = pick(moves.get(task.oom_score_adj, {task.oom_score_adj}))
                if task.pid == victim and own is not None:
                    adjustment = min(own)
                if task.oom_score_adj != NEVER_KILLED:
                    task = replace(task, oom_score_adj=adjustment)
                tasks.append(task)
            row = next((t for t in tasks if t.pid == body.pid), None)
            moved = body
            if row is not None and body.oom_score_adj is not None:
                moved = replace(body, oom_score_adj=row.oom_score_adj)
            yield moved, replace(shortage, tasks=tuple(tasks)), assumes

    def _moves(
        self, record: Record, body: ProcessKilled, capacity: int
    ) -> dict[int | None, set[int]]:
        """Adjustment as recorded -> those under the variant; None -> that of the victim's own."""
        moves: dict[int | None, set[int]] = {}
        pods, ran = self._context.pods, self._context.pods.of(record)
        for last in pods.newest() if _is_of_all(body) else (ran,) if ran else ():
            listed = pods.at(record.ts_ns, last.uid, last.namespace, last.name) or last
            both = both_ways(self._context, listed, record.ts_ns, capacity)
            if both is None:
                continue
            old, new = both
            for name in old.containers.keys() & new.containers.keys():
                before, now = old.containers[name].oom_score_adj, new.containers[name].oom_score_adj
                moves.setdefault(before, set()).add(now)
                is_own = (listed.namespace, listed.name, name) == (
                    body.namespace, body.pod, body.container
                )  # fmt: skip
                if is_own and before == body.oom_score_adj and before != now:
                    moves[None] = {now}
        if _SANDBOX_ADJ in moves:
            moves[_SANDBOX_ADJ].add(_SANDBOX_ADJ)
        return moves

    # -- the scope -------------------------------------------------------------------------

    def scope(self, body: ProcessKilled, shortage: OutOfMemory | None) -> list[Ruling]:
        """Rulings where one process would be killed instead of all, or the other way around."""
        if body.container is None or self.unified is False:
            return []
        old = _kills_all(self._context.recorded_profile, self._context.settings.as_recorded())
        new = _kills_all(self._context.profile, self._context.settings)
        if old == new or None in (old, new):
            return []
        if old:
            if not body.also_killed:
                return []
            why = f"process {body.pid} would be killed alone, without the rest of its container"
            return [Ruling(allowed=False, expected={"also_killed": []}, why=why)]
        tasks = () if shortage is None or shortage.tasks is None else shortage.tasks
        others = [t.pid for t in tasks if t.pid != body.pid and t.oom_score_adj != NEVER_KILLED]
        if tasks and not others:
            return []
        if not others or body.reason != "container_limit" or not self.unified:
            return _open(_WHICH if self.unified else _CGROUPS)
        why = "the kernel would kill all processes of the container"
        return [Ruling(allowed=False, expected={"also_killed": others}, why=why)]

    # -- what was not killed ---------------------------------------------------------------

    def settle(self, ts_ns: int) -> None:
        """Pods that would have had less to use, and that no recorded kill shows."""
        machine = self._context.machine.at(ts_ns)
        before, now = self._pods_limits(self._context.machine.memory_bytes(ts_ns) or 0)
        if machine is not None and _is_lower(before, now):
            missing = _ALL_USED.format(now)
            self._undecided(machine.seq, machine.ts_ns, "cgroup/kubepods", missing)
        for listed in self._context.pods.newest() if self._context.variant.pods else ():
            name = f"{listed.namespace}/{listed.name}"
            both = both_ways(self._context, listed, listed.ts_ns, 1)
            if both is None or name in self._decided:
                continue
            old, new = both
            limits = [(old.pod.memory_limit_bytes, new.pod.memory_limit_bytes)]
            limits += [(own.memory_limit_bytes, new.containers[of].memory_limit_bytes)
                       for of, own in old.containers.items()]  # fmt: skip
            lower = [now for was, now in limits if now and _is_lower(was, now)]
            if lower:
                missing = _USED.format(name, min(lower))
                self._undecided(listed.seq, listed.ts_ns, f"pod/{name}", missing)

    def _undecided(self, seq: int, ts_ns: int, subject: str, missing: str) -> None:
        why = f"whether the kernel would have killed is not known without {missing}"
        self._context.pending.add(
            Finding(
                seq=seq, ts_ns=ts_ns, kind=ProcessKilled.kind, subject=subject,
                verdict="unverifiable", missing=(missing,), why=why,
            )
        )  # fmt: skip


def _is_of_all(body: ProcessKilled) -> bool:
    return body.reason == "node" or is_of_pods(body.cgroup)


def _open(missing: str) -> list[Ruling]:
    why = f"{missing} may have been another"
    return [Ruling(allowed=True, why=why), Ruling(allowed=False, why=why, assumes=(missing,))]


def _moved(whose: str, old: int | None, new: int | None) -> list[Ruling]:
    """What another limit means for a kill at the old one."""
    if old == new:
        return []
    if new is None or (old is not None and new > old):
        limit_text = "without a limit" if new is None else f"with a limit of {new} bytes"
        why = (
            f"{limit_text} the {whose} would not have been out of memory at {old} bytes then; what "
            "it would have used later is not known"
        )
        return [Ruling(allowed=False, why=why, certain=True)]
    why = f"the {whose} would have come to a limit of {new} bytes before, on its way to {old}"
    return [Ruling(allowed=False, expected={"limit_bytes": new}, why=why, certain=True)]


def _is_lower(old: int | None, new: int | None) -> bool:
    """Whether a limit is lower than before; 0 and None are none."""
    return bool(new) and (not old or (new or 0) < old)


def _kills_all(profile: KubeletProfile | None, settings: Settings) -> bool | None:
    """Whether the kernel is asked to kill all processes of a container; None: not known."""
    if profile is None:
        return None
    # Where nobody set it the kubelet takes false, with cgroup v2.
    return kills_all_processes(profile.cgroups, settings.get("singleProcessOOMKill") is True)
