"""Verification of kills by the kernel's OOM killer.

The report holds all that the choice rests on: who was out of memory, and each process with
its pages and its adjustment. Of freedom the kernel has little (equals, and pages that come and
go while the report is written). What may be unknown is how many pages there are in all: a
cgroup's limit counts with the swap that it could use, which is a range of worlds.

That an adjustment is another than the kubelet asked for is no contradiction: a process may
raise its own, and a runtime without privileges cannot lower it. It is said in the sentence.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import ClassVar, Final

import msgspec

from kubeledger.kubelet.cgroups.paths import owner_of
from kubeledger.kubelet.kube.amounts import NANOS
from kubeledger.kubelet.kube.requests import units_of
from kubeledger.kubelet.oom.badness import NEVER_KILLED, chosen, own_pages, points, race_pages
from kubeledger.model.bodies.cgroups import CgroupUpdated
from kubeledger.model.bodies.node import NodeObserved
from kubeledger.model.bodies.oom import REASON_OF_LEVEL, OutOfMemory, ProcessKilled, Task
from kubeledger.model.errors import BadInputError
from kubeledger.model.record import Body, Record
from kubeledger.model.units import NS_PER_S
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.belief import (
    Judgement,
    RuleVerifier,
    Ruling,
    all_of,
    judge,
    lacks,
    open_to,
    same,
)
from kubeledger.verify.rules.oom.specs import decisions, memory_limit
from kubeledger.verify.rules.oom.variants import OomVariant, World
from kubeledger.verify.variant import RECORDED
from kubeledger.verify.verifier import Foresee, See

__all__ = ["OomVerifier"]

_DYING_NS: Final = 60 * NS_PER_S
"""A process that was killed may still be listed, and is passed over."""
_RESIZED_SINCE_MINOR: Final = 33
_NO_TABLE: Final = "the kernel's report with its table of processes"
_NO_ROW: Final = "the row of the process in the kernel's table"
_NO_END: Final = 2**50
"""Pages of a node whose swap is not known, at the most: the adjustments alone count."""


class OomVerifier(RuleVerifier):
    """Whether the kernel could choose the process it killed."""

    decides = (ProcessKilled,)
    rule: ClassVar[str] = "Linux mm/oom_kill.c out_of_memory, oom_badness"

    def foresees(self) -> Mapping[type[Body], Foresee]:
        """The node object may be the only one to tell how much memory there is."""
        self._shortages: dict[int, OutOfMemory] = {}
        self._capacity = 0
        self._killed: deque[tuple[int, int]] = deque(maxlen=256)
        self._variant = None if self.bench.variant == RECORDED else OomVariant(self.bench)
        told: dict[type[Body], Foresee] = {NodeObserved: self._observed}
        return told if self._variant is None else told | {CgroupUpdated: self._variant.seen}

    def sees(self) -> Mapping[type[Body], See]:
        """A report, and the kill that follows."""
        return {OutOfMemory: self._short, ProcessKilled: self._judge}

    def settle(self, state: NodeState) -> None:
        """Kills that would have come."""
        if self._variant is not None:
            self._variant.settle(state.machine.memory_capacity_bytes or self._capacity)

    def _observed(self, record: Record) -> None:
        body = record.body
        assert isinstance(body, NodeObserved)
        self._capacity = self._capacity or _memory_of(body.capacity)
        if self._variant is not None:
            self._variant.machine = record

    def _short(self, record: Record, body: OutOfMemory, state: NodeState) -> None:
        self._shortages[record.seq] = body

    def _judge(self, record: Record, body: ProcessKilled, state: NodeState) -> None:
        shortage = self._shortages.pop(record.cause or 0, None)
        subject = "node"
        if body.pod is not None:
            kind = "pod" if body.container is None else "container"
            subject = "/".join(filter(None, (kind, body.namespace, body.pod, body.container)))
        capacity = state.machine.memory_capacity_bytes or self._capacity
        moved = [] if self._variant is None else self._variant.limits(record, body, capacity)
        judged = self._wrong_place(record, body)
        if judged is None and moved:
            judged = judge(moved)
        elif judged is None:
            judged = self._wrong_limit(record, body, shortage)
        told = [] if judged is None else [judged]
        if judged is None or judged.verdict != "impossible":
            told += self._chosen(record, body, shortage, capacity)
        inputs = (record.cause or 0,)
        found = all_of(told)
        found = msgspec.structs.replace(found, inputs=(*inputs, *found.inputs))
        self.conclude(record, subject, found)
        pids = (body.pid, *body.also_killed)
        self._killed.extend((record.ts_ns, pid) for pid in pids if pid is not None)

    def _chosen(
        self, record: Record, body: ProcessKilled, shortage: OutOfMemory | None, capacity: int
    ) -> Iterator[Judgement]:
        """Whether it is the process, and under a variant whether it alone."""
        if shortage is None or shortage.tasks is None:
            yield lacks([_NO_TABLE])
            return
        worlds = [World(body, shortage)]
        if self._variant is not None:
            worlds = list(self._variant.worlds(record, body, shortage, capacity))
        rulings = []
        for world in worlds:
            adjusted = self._adjusted(record, world.body, capacity)
            rulings += [
                msgspec.structs.replace(
                    ruling, why=ruling.why + adjusted, assumes=(*ruling.assumes, *world.assumes)
                )
                for ruling in self._choices(record, world.body, world.shortage)
            ]
        yield judge(rulings)
        scope = [] if self._variant is None else self._variant.scope(body, shortage)
        if scope:
            yield judge(scope)
        if shortage.at_limit is False and shortage.limit_bytes and shortage.usage_bytes is not None:
            used, limit = shortage.usage_bytes >> 10, shortage.limit_bytes >> 10
            denied = f"{shortage.cgroup} used {used} of its limit of {limit} KiB"
            yield open_to("what was freed while the kernel wrote its report", denied=denied)

    # -- where and whose ------------------------------------------------------------------

    def _wrong_place(self, record: Record, body: ProcessKilled) -> Judgement | None:
        """What the record says of the place against what the paths say, and other records."""
        task, limit = owner_of(body.task_cgroup), owner_of(body.cgroup)
        for name, told in (("container_id", task), ("pod_uid", task), ("pod_uid", limit)):
            value, recorded = getattr(told, name, None), getattr(body, name)
            if None not in (value, recorded) and value != recorded:
                why = f"the cgroup is that of {value}, not of {recorded}"
                return same(False, why, certain=True)
        inside = f"{body.task_cgroup}/".startswith(f"{body.cgroup}/")
        if body.cgroup and body.task_cgroup and not inside:
            why = f"the process ran in {body.task_cgroup}, outside of {body.cgroup}"
            return same(False, why, certain=True)
        if limit is not None and body.reason not in (None, REASON_OF_LEVEL[limit.level]):
            why = f"{body.cgroup} is a {limit.level}'s cgroup, which is no {body.reason}"
            return same(False, why, certain=True)
        pod = self.bench.timeline.pod(record.ts_ns, body.pod_uid, body.namespace, body.pod)
        for run in () if pod is None else pod.runs:
            if run.container_id == body.container_id and None not in (run.name, body.container):
                why = f"container {run.container_id} is {run.name}, not {body.container}"
                seqs = (run.started_seq or run.died_seq,)
                return None if run.name == body.container else same(False, why, inputs=seqs)
        return None

    def _wrong_limit(
        self, record: Record, body: ProcessKilled, shortage: OutOfMemory | None
    ) -> Judgement | None:
        """The limit against the report, and against what the pod asks for."""
        if shortage is None:
            return None
        if body.limit_bytes != shortage.limit_bytes or body.cgroup != shortage.cgroup:
            told = f"{shortage.limit_bytes} bytes of {shortage.cgroup or 'the node'}"
            return same(False, f"what had been used up were the {told}", certain=True)
        if body.limit_bytes is None or body.reason not in ("container_limit", "pod_limit"):
            return None
        asked = {
            memory_limit(decision, body): listed.seq
            for listed, decision in decisions(self.bench, record.ts_ns, body, capacity=1)
        }
        limits, page = [limit for limit in asked if limit is not None], shortage.page_bytes
        # Where none was asked for in one version of the spec no value is certain.
        if None in asked or body.limit_bytes // page in {None, *(each // page for each in limits)}:
            return None
        if not asked or (shortage.at_limit and self._resizes()):
            return None  # a limit that no list shows
        whose = "container" if body.reason == "container_limit" else "pod"
        why = (
            f"the {whose}'s limit is {' or '.join(map(str, limits))}, not {body.limit_bytes} bytes"
        )
        return same(False, why, inputs=tuple(asked.values()), certain=True)

    def _resizes(self) -> bool:
        """Whether the resources of a running pod may have changed, and changed back."""
        profile, gates = self.bench.profile, self.bench.settings.get("featureGates")
        told = gates.get("InPlacePodVerticalScaling") if isinstance(gates, dict) else None
        if isinstance(told, bool):
            return told
        return profile is None or profile.version.minor >= _RESIZED_SINCE_MINOR

    # -- the choice -----------------------------------------------------------------------

    def _choices(
        self, record: Record, body: ProcessKilled, shortage: OutOfMemory
    ) -> Iterator[Ruling]:
        assert shortage.tasks is not None
        pid = body.pid if body.chosen_pid is None else body.chosen_pid
        victim = next((task for task in shortage.tasks if task.pid == pid), None)
        if victim is None:
            why = f"process {pid} is not among those that could be killed"
            yield Ruling(allowed=False, why=why, certain=True)
            if not any(_flaw(body, shortage, other) is None for other in shortage.tasks):
                yield Ruling(allowed=True, why=why, assumes=(_NO_ROW,))
            return
        flaw = _flaw(body, shortage, victim)
        if flaw is not None:
            yield Ruling(allowed=False, why=flaw, certain=True)
            return
        if body.allocating_task:
            why = f"{body.process} asked for memory, and vm.oom_kill_allocating_task is set"
            yield Ruling(allowed=victim.process == shortage.invoked_by, why=why)
            return
        page = shortage.page_bytes
        # One that was killed a moment before is passed over while it goes.
        dying = {p for ts_ns, p in self._killed if 0 <= record.ts_ns - ts_ns <= _DYING_NS}
        others = [task for task in shortage.tasks if task.pid == pid or task.pid not in dying]
        race = race_pages(max(own_pages(task, page) for task in others))
        for total, assumes in _totals(shortage):
            best = chosen(others, total_pages=total, page_bytes=page) or victim
            score, most = (points(t, total_pages=total, page_bytes=page) for t in (victim, best))
            behind = (most or 0) - (score or 0)
            allowed = behind <= race
            yield Ruling(
                allowed=allowed,
                chosen=behind <= 0,
                expected=None if allowed else {"pid": best.pid, "process": best.process},
                why=_sentence(body, shortage, victim, None if allowed else best),
                assumes=assumes,
                certain=not assumes,
            )

    def _adjusted(self, record: Record, body: ProcessKilled, capacity: int) -> str:
        """What the kubelet asked for, where the process has another adjustment."""
        if body.oom_score_adj is None or body.container is None or not capacity:
            return ""
        for _, decision in decisions(self.bench, record.ts_ns, body, capacity):
            own = decision.containers.get(body.container)
            if own is None:
                return ""
            asked = f"the kubelet gives a {decision.qos_class} container {own.oom_score_adj}"
            if own.oom_score_adj == body.oom_score_adj:
                return f"; oom_score_adj {body.oom_score_adj} is what {asked[4:]}"
            return f"; oom_score_adj was {body.oom_score_adj}, though {asked}"
        return ""


def _memory_of(capacity: dict[str, str] | None) -> int:
    """Memory of the node object, in bytes; 0 when it does not tell."""
    try:
        return units_of(NANOS[(capacity or {})["memory"]])
    except (KeyError, BadInputError):
        return 0


def _flaw(body: ProcessKilled, shortage: OutOfMemory, victim: Task) -> str | None:
    """Where the kill does not fit the report's own row of the process."""
    if victim.oom_score_adj == NEVER_KILLED:
        return f"process {victim.pid} has oom_score_adj {NEVER_KILLED} and is never killed"
    if body.chosen_pid is not None:
        return None
    if body.process != victim.process:
        return f"process {victim.pid} is {victim.process}, not {body.process}"
    if body.oom_score_adj not in (None, victim.oom_score_adj):
        told = f"{victim.oom_score_adj}, not {body.oom_score_adj}"
        return f"oom_score_adj of process {victim.pid} was {told}"
    if body.rss_bytes is not None:
        more = body.rss_bytes // shortage.page_bytes - victim.rss_pages
        if abs(more) > race_pages(victim.rss_pages):
            had = f"{victim.rss_pages} pages in memory, not {victim.rss_pages + more}"
            return f"process {victim.pid} had {had}"
    return None


def _totals(shortage: OutOfMemory) -> list[tuple[int, tuple[str, ...]]]:
    """Pages in all: the one number, or the least and the most, which something unknown gives."""
    page, swap, limit = shortage.page_bytes, shortage.swap_limit_bytes, shortage.limit_bytes
    if shortage.cgroup is None:
        if shortage.total_bytes is not None and shortage.constraint in ("none", None):
            return [(shortage.total_bytes // page, ())]
        unknown = "how much memory the processes could use"
        return [(0, ()), (_NO_END, (unknown,))]
    if limit is None:
        return [(0, ()), (_NO_END, ("the cgroup's limit",))]
    if swap == 0:
        return [(limit // page, ())]
    most = _NO_END if swap is None else (limit + swap) // page
    return [(limit // page, ()), (most, ("how much swap the node has",))]


def _sentence(body: ProcessKilled, shortage: OutOfMemory, victim: Task, better: Task | None) -> str:
    """Who was out of memory, and why it is this process, or which one scored higher."""
    page = shortage.page_bytes
    whose = {"container_limit": "the container", "pod_limit": "the pod"}.get(body.reason or "")
    whose = whose or (f"cgroup {body.cgroup}" if body.cgroup else "the node")
    short = f"{whose} was out of memory"
    if shortage.limit_bytes is not None:
        short = f"{whose} had used up its limit of {shortage.limit_bytes >> 10} KiB"

    def told(task: Task) -> str:
        own = f"{own_pages(task, page) * page >> 10} KiB, oom_score_adj {task.oom_score_adj}"
        return f"process {task.pid} {task.process} ({own})"

    highest = f"{short}, and of its {len(shortage.tasks or ())} processes "
    if better is None:
        return f"{highest}{told(victim)} scored highest"
    return f"{highest}{told(better)} scored higher than {told(victim)}"
