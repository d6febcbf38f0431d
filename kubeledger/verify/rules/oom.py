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
from itertools import islice
from typing import ClassVar, Final

from msgspec.structs import replace

from kubeledger.kubelet.cgroups.paths import owner_of
from kubeledger.kubelet.oom import NEVER_KILLED, chosen, own_pages, points, race_pages
from kubeledger.model.bodies.cgroups import CgroupUpdated
from kubeledger.model.bodies.eviction import REASON_OF_LEVEL, OutOfMemory, ProcessKilled, Task
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
from kubeledger.verify.context import Prescan, See, VerifyContext
from kubeledger.verify.rules.oom_variants import OomVariant, World, decisions, memory_limit
from kubeledger.verify.variant import RECORDED

_DYING_NS: Final = 60 * NS_PER_S
"""A process that was killed may still be listed, and is passed over."""
_LOWERED: Final = "whether a resize had lowered the limit of the cgroup"
_NO_TABLE: Final = "the kernel's report with its table of processes"
_NO_ROW: Final = "the row of the process in the kernel's table"
_NO_END: Final = 2**50
"""Pages of a node whose swap is not known, at the most: the adjustments alone count."""


class OomVerifier(RuleVerifier):
    """Whether the kernel could choose the process it killed."""

    decides = (ProcessKilled,)
    rule: ClassVar[str] = "Linux mm/oom_kill.c out_of_memory, oom_badness"

    def __init__(self, context: VerifyContext) -> None:
        super().__init__(context)
        self._shortages: dict[int, OutOfMemory] = {}
        self._killed: deque[tuple[int, int]] = deque(maxlen=256)
        self._variant = None if context.variant == RECORDED else OomVariant(context)

    def prescans(self) -> Mapping[type[Body], Prescan]:
        """A variant asks which version the node's cgroups have."""
        return {} if self._variant is None else {CgroupUpdated: self._variant.seen}

    def sees(self) -> Mapping[type[Body], See]:
        return {OutOfMemory: self._short, ProcessKilled: self._judge}

    def settle(self, state: NodeState) -> None:
        if self._variant is not None:
            self._variant.settle(state.ts_ns or 0)

    def _short(self, record: Record, body: OutOfMemory, state: NodeState) -> None:
        self._shortages[record.seq] = body

    def _judge(self, record: Record, body: ProcessKilled, state: NodeState) -> None:
        shortage = self._shortages.pop(record.cause or 0, None)
        subject = "node"
        if body.pod is not None:
            kind = "pod" if body.container is None else "container"
            subject = "/".join(filter(None, (kind, body.namespace, body.pod, body.container)))
        capacity = self.context.machine.memory_bytes(record.ts_ns) or 0
        moved = [] if self._variant is None else self._variant.limits(record, body, capacity)
        odd = _unlike_its_report(body, shortage)
        judged = [same(False, odd, certain=True)] if odd else []
        judged = judged or (
            [judge(moved)] if moved else list(self._unlike_its_pod(record, body, shortage, state))
        )
        if not judged or judged[0].verdict != "impossible":
            judged += self._chosen(record, body, shortage, capacity)
        found = all_of(judged)
        self.conclude(record, subject, replace(found, inputs=(record.cause or 0, *found.inputs)))
        pids = (body.pid, *body.also_killed)
        self._killed.extend((record.ts_ns, pid) for pid in pids if pid is not None)

    def _unlike_its_pod(
        self, record: Record, body: ProcessKilled, shortage: OutOfMemory | None, state: NodeState
    ) -> Iterator[Judgement]:
        """What other records show of the container, and what its spec asks for."""
        run = self.context.timeline.of(record).run(body.container_id)
        if run is not None and run.name and body.container and run.name != body.container:
            why = f"container {run.container_id} is {run.name}, not {body.container}"
            yield same(False, why, inputs=(run.started_seq or run.died_seq,))
        named = body.pod is not None or body.pod_uid is not None
        pods = self.context.timeline.pods.values() if run is None and named else ()
        elsewhere = ((each, run) for each in pods if (run := each.run(body.container_id)))
        for other, ran in islice(elsewhere, 1):
            why = f"container {ran.container_id} is of pod {other.namespace}/{other.name}"
            yield same(False, why, inputs=(ran.started_seq or ran.died_seq,))
        of_pods = body.reason in ("container_limit", "pod_limit")
        if shortage is None or body.limit_bytes is None:
            return
        # No more than its limit can be used, but for what was used when it was lowered.
        over = 4 * (shortage.usage_bytes or 0) > 5 * body.limit_bytes
        cgroup = state.cgroups.cgroups.get(body.cgroup or "")
        held = None if cgroup is None else cgroup.memory_limit_bytes
        if cgroup is not None and cgroup.level == "qos":
            reserved = self.context.settings.get("qosReserved")
            held = held if reserved in ({}, None) else None  # it follows the pods that come
        if over and not of_pods and held not in (None, body.limit_bytes):
            why = f"the limit of cgroup {body.cgroup} is {held}, not {body.limit_bytes} bytes"
            yield same(False, why)
        if not of_pods:
            return
        asked = {
            memory_limit(decision, body): listed.seq
            for listed, decision in decisions(self.context, record, capacity=1)
        }
        page = shortage.page_bytes
        limits = [limit for limit in asked if limit is not None]
        profile = self.context.profile
        resizes = profile is None or profile.admission.resized_requests_count
        # Where none was asked for in one version of the spec no value is certain.
        if None in asked or body.limit_bytes // page in {limit // page for limit in limits}:
            return
        if over and not asked:
            used = f"{shortage.usage_bytes} bytes, more than its limit of {body.limit_bytes}"
            denied = f"cgroup {body.cgroup} had used {used}"
            yield open_to(_LOWERED, denied=denied) if resizes else same(False, denied, certain=True)
        elif asked and (over or not (shortage.at_limit and resizes)):  # else no list shows it
            whose = "container" if body.reason == "container_limit" else "pod"
            text = " or ".join(map(str, limits))
            why = f"the {whose}'s limit is {text}, not {body.limit_bytes} bytes"
            yield same(False, why, inputs=tuple(asked.values()), certain=True)

    def _chosen(
        self, record: Record, body: ProcessKilled, shortage: OutOfMemory | None, capacity: int
    ) -> Iterator[Judgement]:
        """Whether it is the process, and under a variant whether it alone."""
        if shortage is None or shortage.tasks is None:
            yield lacks([_NO_TABLE])
            return
        worlds, scope = list[World]([(body, shortage, ())]), []
        if self._variant is not None:
            worlds = list(self._variant.worlds(record, body, shortage, capacity))
            scope = self._variant.scope(body, shortage)
        rulings = []
        for killed, report, assumed in worlds:
            adjusted = self._adjusted(record, killed, capacity)
            for ruling in self._choices(record, killed, report):
                assumes = (*ruling.assumes, *assumed)
                rulings.append(replace(ruling, why=ruling.why + adjusted, assumes=assumes))
        yield judge(rulings)
        if scope:
            yield judge(scope)
        if shortage.at_limit is False and shortage.limit_bytes and shortage.usage_bytes is not None:
            used, limit = shortage.usage_bytes >> 10, shortage.limit_bytes >> 10
            denied = f"{shortage.cgroup} used {used} of its limit of {limit} KiB"
            yield open_to("what was freed while the kernel wrote its report", denied=denied)

    def _choices(
        self, record: Record, body: ProcessKilled, shortage: OutOfMemory
    ) -> Iterator[Ruling]:
        tasks = shortage.tasks or ()
        pid = body.pid if body.chosen_pid is None else body.chosen_pid
        victim = next((task for task in tasks if task.pid == pid), None)
        if victim is None:
            why = f"process {pid} is not among those that could be killed"
            killed = next((task for task in tasks if task.pid == body.pid), None)
            if killed is not None and len(tasks) == 1:  # the table has no threads
                why = f"process {body.pid} {killed.process} is the only one; {pid} is its thread"
                yield Ruling(allowed=_flaw(body, shortage, killed) is None, why=why)
                return
            yield Ruling(allowed=False, why=why, certain=True)
            if killed is not None:
                yield Ruling(allowed=True, why=why, assumes=(f"whose thread {pid} is",))
            elif not any(_flaw(body, shortage, other) is None for other in tasks):
                yield Ruling(allowed=True, why=why, assumes=(_NO_ROW,))
            return
        flaw = _flaw(body, shortage, victim)
        if flaw is not None:
            yield Ruling(allowed=False, why=flaw, certain=True)
            return
        if body.allocating_task:
            why = f"{body.process} asked for memory, and vm.oom_kill_allocating_task is set"
            asked = victim.process == shortage.invoked_by
            # It counts where the node is out of memory, not a cgroup (out_of_memory).
            yield Ruling(allowed=asked and shortage.cgroup is None, why=why)
            return
        page = shortage.page_bytes
        # One that was killed a moment before is passed over while it goes.
        dying = {p for ts_ns, p in self._killed if 0 <= record.ts_ns - ts_ns <= _DYING_NS}
        others = [task for task in tasks if task.pid == pid or task.pid not in dying]
        race = race_pages(max(own_pages(task, page) for task in others))
        # With failSwapOn a kubelet does not start on a node that swaps (NewContainerManager).
        swaps = self.context.settings.get("failSwapOn") is not True
        for total, assumes in _totals(shortage, swaps=swaps):
            best = chosen(others, total_pages=total, page_bytes=page) or victim
            score, most = (points(t, total_pages=total, page_bytes=page) for t in (victim, best))
            lead = (most or 0) - (score or 0)
            allowed = lead <= race
            yield Ruling(
                allowed=allowed,
                chosen=lead <= 0,
                expected=None if allowed else {"pid": best.pid, "process": best.process},
                why=_sentence(body, shortage, victim, None if allowed else best),
                assumes=assumes,
                certain=not assumes,
            )

    def _adjusted(self, record: Record, body: ProcessKilled, capacity: int) -> str:
        """What the kubelet asked for, where the process has an adjustment."""
        if body.oom_score_adj is None or body.container is None or not capacity:
            return ""
        _, decision = next(decisions(self.context, record, capacity), (None, None))
        own = None if decision is None else decision.containers.get(body.container)
        if decision is None or own is None:
            return ""
        gives = f"the kubelet gives a {decision.qos_class} container"
        if own.oom_score_adj == body.oom_score_adj:
            return f"; oom_score_adj {body.oom_score_adj} is what {gives}"
        return f"; oom_score_adj was {body.oom_score_adj}, though {gives} {own.oom_score_adj}"


def _unlike_its_report(body: ProcessKilled, shortage: OutOfMemory | None) -> str | None:
    """What the record says of place and limit, against its paths and the kernel's report."""
    task, limit = owner_of(body.task_cgroup), owner_of(body.cgroup)
    for name, text in (("container_id", task), ("pod_uid", task), ("pod_uid", limit)):
        value, recorded = getattr(text, name, None), getattr(body, name)
        if None not in (value, recorded) and value != recorded:
            return f"the cgroup is that of {value}, not of {recorded}"
    inside = f"{body.task_cgroup}/".startswith(f"{body.cgroup}/")
    if body.cgroup and body.task_cgroup and not inside:
        return f"the process ran in {body.task_cgroup}, outside of {body.cgroup}"
    if limit is not None and body.reason not in (None, REASON_OF_LEVEL.get(limit.level, "node")):
        return f"{body.cgroup} is a {limit.level}'s cgroup, not a {body.reason}"
    if shortage is not None and shortage.cgroup and shortage.constraint not in (None, "memcg"):
        return f"the report names the cgroup {shortage.cgroup}, and no cgroup's limit was reached"
    used_up = None if shortage is None else (shortage.limit_bytes, shortage.cgroup)
    if used_up is not None and used_up != (body.limit_bytes, body.cgroup):
        return f"what had been used up were the {used_up[0]} bytes of {used_up[1] or 'the node'}"
    return None


def _flaw(body: ProcessKilled, shortage: OutOfMemory, victim: Task) -> str | None:
    """Where the kill does not fit the report's own row of the process."""
    if victim.oom_score_adj == NEVER_KILLED:
        return f"process {victim.pid} has oom_score_adj {NEVER_KILLED} and is never killed"
    if body.chosen_pid is not None:
        return None
    if body.process != victim.process:
        return f"process {victim.pid} is {victim.process}, not {body.process}"
    if body.oom_score_adj not in (None, victim.oom_score_adj):
        text = f"{victim.oom_score_adj}, not {body.oom_score_adj}"
        return f"oom_score_adj of process {victim.pid} was {text}"
    if body.rss_bytes is not None:
        more = body.rss_bytes // shortage.page_bytes - victim.rss_pages
        if abs(more) > race_pages(victim.rss_pages):
            had = f"{victim.rss_pages} pages in memory, not {victim.rss_pages + more}"
            return f"process {victim.pid} had {had}"
    return None


def _totals(shortage: OutOfMemory, *, swaps: bool) -> list[tuple[int, tuple[str, ...]]]:
    """Pages in all: the one number, or the least and the most, which something unknown gives."""
    page, swap, limit = shortage.page_bytes, shortage.swap_limit_bytes, shortage.limit_bytes
    if shortage.cgroup is None:
        if shortage.total_bytes is not None and shortage.constraint in ("none", None):
            return [(shortage.total_bytes // page, ())]
        unknown = "how much memory the processes could use"
        return [(0, ()), (_NO_END, (unknown,))]
    if limit is None:
        return [(0, ()), (_NO_END, ("the cgroup's limit",))]
    if swap == 0 or not swaps:
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

    def text(task: Task) -> str:
        own = f"{own_pages(task, page) * page >> 10} KiB, oom_score_adj {task.oom_score_adj}"
        return f"process {task.pid} {task.process} ({own})"

    higher = "scored highest" if better is None else f"scored higher than {text(victim)}"
    count = len(shortage.tasks or ())
    return f"{short}, and of its {count} processes {text(better or victim)} {higher}"
