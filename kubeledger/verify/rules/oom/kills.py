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
from typing import ClassVar

import msgspec

from kubeledger.cgroups.paths import owner_of
from kubeledger.cgroups.records import CgroupUpdated
from kubeledger.errors import BadInputError
from kubeledger.eviction.records import PodUsageObserved
from kubeledger.kube.amounts import NANOS
from kubeledger.kube.requests import units_of
from kubeledger.lifecycle.records import ContainerDied, ContainerStarted
from kubeledger.machine import Body, Record
from kubeledger.node.records import NodeObserved
from kubeledger.node.state import NodeState
from kubeledger.oom.badness import NEVER_KILLED, own_pages, race_pages, totals_for
from kubeledger.oom.records import REASON_OF_LEVEL, OutOfMemory, ProcessKilled, Task
from kubeledger.units import NS_PER_S
from kubeledger.verify.belief import Judgement, RuleVerifier, Ruling, all_of, judge, open_to
from kubeledger.verify.rules.oom.specs import decisions, memory_limit
from kubeledger.verify.rules.oom.variants import OomVariant, World
from kubeledger.verify.variant import RECORDED
from kubeledger.verify.verifier import Foresee, See

__all__ = ["OomVerifier"]

_DYING_NS = 60 * NS_PER_S
"""A process that was killed may still be listed, and is passed over."""
_RESIZED_SINCE_MINOR = 33
_NO_TABLE = "the kernel's report with its table of processes"
_NO_ROW = "the row of the process in the kernel's table"


class OomVerifier(RuleVerifier):
    """Whether the kernel could choose the process it killed."""

    decides = (ProcessKilled,)
    rule: ClassVar[str] = "Linux mm/oom_kill.c out_of_memory, oom_badness"

    _shortages: dict[int, OutOfMemory]

    def foresees(self) -> Mapping[type[Body], Foresee]:
        """Names of containers, whose starts may stand after a kill in them."""
        self._names: dict[str, tuple[int, str]] = {}
        self._shortages = {}
        self._capacity = 0
        self._killed: deque[tuple[int, int]] = deque(maxlen=256)
        self._variant = None if self.bench.variant == RECORDED else OomVariant(self.bench)
        told: dict[type[Body], Foresee] = {
            ContainerStarted: self._named,
            ContainerDied: self._named,
            NodeObserved: self._observed,
        }
        if self._variant is not None:
            told |= {PodUsageObserved: self._variant.used, CgroupUpdated: self._variant.seen}
        return told

    def sees(self) -> Mapping[type[Body], See]:
        """A report, and the kill that follows."""
        return {OutOfMemory: self._short, ProcessKilled: self._judge}

    def settle(self, state: NodeState) -> None:
        """Kills that would have come."""
        if self._variant is not None:
            self._variant.settle(state.machine.memory_capacity_bytes or self._capacity)

    def _named(self, record: Record) -> None:
        body = record.body
        assert isinstance(body, ContainerStarted | ContainerDied)
        if body.container is not None:
            self._names.setdefault(body.container_id, (record.seq, body.container))

    def _observed(self, record: Record) -> None:
        """The node object may be the only one to tell how much memory there is."""
        body = record.body
        assert isinstance(body, NodeObserved)
        self._capacity = self._capacity or _memory_of(body.capacity)
        if self._variant is not None:
            self._variant.machine = record

    def _short(self, record: Record, body: OutOfMemory, state: NodeState) -> None:
        del state
        self._shortages[record.seq] = body

    def _judge(self, record: Record, body: ProcessKilled, state: NodeState) -> None:
        shortage = self._shortages.pop(record.cause or 0, None)
        subject = "node"
        if body.pod is not None:
            subject = f"container/{body.namespace}/{body.pod}/{body.container}"
            if body.container is None:
                subject = f"pod/{body.namespace}/{body.pod}"
        seqs = () if record.cause is None else (record.cause,)
        capacity = state.machine.memory_capacity_bytes or self._capacity
        moved = [] if self._variant is None else self._variant.limits(record, body, capacity)
        wrong = self._wrong_place(body)
        if wrong is None and not moved:
            wrong = self._wrong_limit(record, body, shortage)
        told = [judge([msgspec.structs.replace(r, inputs=seqs) for r in moved])] if moved else []
        if wrong is not None:
            why, *inputs = wrong
            ruling = Ruling(allowed=False, why=why, inputs=(*seqs, *inputs), certain=True)
            told = [judge([ruling])]
        elif any(each.verdict == "impossible" for each in told):
            pass  # it would not have come, whomever it hit
        elif shortage is None or shortage.tasks is None:
            self.bench.unverifiable(record, subject=subject, missing=[_NO_TABLE], rule=self.rule)
            return
        else:
            told += self._chosen(record, body, shortage, capacity, seqs)
            told += _unused(shortage, seqs)
        self.conclude(record, subject, all_of(told))
        pids = (body.pid, *body.also_killed)
        self._killed.extend((record.ts_ns, pid) for pid in pids if pid is not None)

    def _chosen(
        self,
        record: Record,
        body: ProcessKilled,
        shortage: OutOfMemory,
        capacity: int,
        seqs: tuple[int, ...],
    ) -> Iterator[Judgement]:
        """Whether it is the process, and under a variant whether it alone."""
        worlds = [World(body, shortage)]
        if self._variant is not None:
            worlds = list(self._variant.worlds(record, body, shortage, capacity))
        yield judge(
            [
                msgspec.structs.replace(
                    ruling,
                    why=ruling.why + self._adjusted(record, world.body, capacity),
                    inputs=seqs,
                    assumes=(*ruling.assumes, *world.assumes),
                )
                for world in worlds
                for ruling in self._choices(record, world.body, world.shortage)
            ]
        )
        scope = [] if self._variant is None else self._variant.scope(body, shortage)
        if scope:
            yield judge(scope)

    # -- where and whose ------------------------------------------------------------------

    def _wrong_place(self, body: ProcessKilled) -> tuple[str, *tuple[int, ...]] | None:
        """What the record says of the place against what the paths say, and other records."""
        task, limit = owner_of(body.task_cgroup), owner_of(body.cgroup)
        for name, told in (("container_id", task), ("pod_uid", task), ("pod_uid", limit)):
            value, recorded = getattr(told, name, None), getattr(body, name)
            if None not in (value, recorded) and value != recorded:
                return (f"the cgroup is that of {value}, not of {recorded}",)
        inside = f"{body.task_cgroup}/".startswith(f"{body.cgroup}/")
        if body.cgroup and body.task_cgroup and not inside:
            return (f"the process ran in {body.task_cgroup}, outside of {body.cgroup}",)
        if limit is not None and body.reason not in (None, REASON_OF_LEVEL[limit.level]):
            return (f"{body.cgroup} is a {limit.level}'s cgroup, which is no {body.reason}",)
        seq, named = self._names.get(body.container_id or "", (0, body.container))
        if body.container not in (None, named):
            return f"container {body.container_id} is {named}, not {body.container}", seq
        return None

    def _wrong_limit(
        self, record: Record, body: ProcessKilled, shortage: OutOfMemory | None
    ) -> tuple[str, *tuple[int, ...]] | None:
        """The limit against the report, and against what the pod asks for."""
        if shortage is None:
            return None
        if body.limit_bytes != shortage.limit_bytes or body.cgroup != shortage.cgroup:
            told = f"{shortage.limit_bytes} bytes of {shortage.cgroup or 'the node'}"
            return (f"what had been used up were the {told}",)
        if body.limit_bytes is None or body.reason not in ("container_limit", "pod_limit"):
            return None
        asked = dict(self._limits(record, body))
        page = shortage.page_bytes
        if not asked or body.limit_bytes // page in {limit // page for limit in asked}:
            return None
        if shortage.at_limit and self._resizes():
            return None  # a limit that no list shows
        limits = " or ".join(str(limit) for limit in asked)
        whose = "container" if body.reason == "container_limit" else "pod"
        return f"the {whose}'s limit is {limits}, not {body.limit_bytes} bytes", *asked.values()

    def _resizes(self) -> bool:
        """Whether the resources of a running pod may have changed, and changed back."""
        profile, gates = self.bench.profile, self.bench.settings.get("featureGates")
        told = gates.get("InPlacePodVerticalScaling") if isinstance(gates, dict) else None
        if isinstance(told, bool):
            return told
        return profile is None or profile.version.minor >= _RESIZED_SINCE_MINOR

    def _limits(self, record: Record, body: ProcessKilled) -> Iterator[tuple[int, int]]:
        """Limits that the pod's cgroup or the container's had at any time -> seq of the spec."""
        for listed, decision in decisions(self.bench, record.ts_ns, body, capacity=1):
            limit = memory_limit(decision, body)
            if limit is None:
                return  # none was asked for in one of the versions: no value is certain
            yield limit, listed.seq

    # -- the choice -----------------------------------------------------------------------

    def _choices(
        self, record: Record, body: ProcessKilled, shortage: OutOfMemory
    ) -> Iterator[Ruling]:
        assert shortage.tasks is not None
        pid = body.chosen_pid if body.chosen_pid is not None else body.pid
        victim = next((task for task in shortage.tasks if task.pid == pid), None)
        if victim is None:
            why = f"process {pid} is not among those that could be killed"
            yield Ruling(allowed=False, why=why, certain=True)
            if not any(self._flaw(body, shortage, other) is None for other in shortage.tasks):
                yield Ruling(allowed=True, why=why, assumes=(_NO_ROW,))
            return
        flaw = self._flaw(body, shortage, victim)
        if flaw is not None:
            yield Ruling(allowed=False, why=flaw, certain=True)
            return
        if body.allocating_task:
            why = f"{body.process} asked for memory, and vm.oom_kill_allocating_task is set"
            yield Ruling(allowed=victim.process == shortage.invoked_by, why=why)
            return
        page = shortage.page_bytes
        others = [task for task in shortage.tasks if not self._is_dying(task, record.ts_ns, pid)]
        race = race_pages(max(own_pages(task, page) for task in others))
        exact = totals_for(victim, others, page_bytes=page)
        near = totals_for(victim, others, page_bytes=page, slack_pages=race)
        least, most, unknown = _totals(shortage)
        worlds: list[tuple[int | None, tuple[str, ...]]] = [(least, ())]
        if unknown is not None:
            worlds.append((most, (unknown,)))
            between = near is not None and least < near[0] and (most is None or near[0] < most)
            if between and near is not None:
                worlds.append((near[0], (unknown,)))
        for thousandths, assumes in worlds:
            allowed, chosen = _within(thousandths, near), _within(thousandths, exact)
            why = _sentence(body, shortage, victim, others, thousandths, allowed=allowed)
            best = _best(others, thousandths, page)
            expected = None if allowed else {"pid": best.pid, "process": best.process}
            yield Ruling(
                allowed=allowed, chosen=chosen, expected=expected, why=why, assumes=assumes,
                certain=unknown is None,
            )  # fmt: skip

    def _is_dying(self, task: Task, ts_ns: int, pid: int | None) -> bool:
        """It was killed a moment before, and is passed over while it goes."""
        if task.pid == pid:
            return False
        return any(p == task.pid and 0 <= ts_ns - t <= _DYING_NS for t, p in self._killed)

    def _flaw(self, body: ProcessKilled, shortage: OutOfMemory, victim: Task) -> str | None:
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


def _unused(shortage: OutOfMemory, seqs: tuple[int, ...]) -> Iterator[Judgement]:
    """Whether a cgroup of which the report shows no usage at its limit was out of memory."""
    if shortage.at_limit is False and shortage.limit_bytes and shortage.usage_bytes is not None:
        used, limit = shortage.usage_bytes >> 10, shortage.limit_bytes >> 10
        denied = f"{shortage.cgroup} used {used} of its limit of {limit} KiB"
        yield open_to(
            "what was freed while the kernel wrote its report", denied=denied, inputs=seqs
        )


def _memory_of(capacity: dict[str, str] | None) -> int:
    """Memory of the node object, in bytes; 0 when it does not tell."""
    try:
        return units_of(NANOS[(capacity or {})["memory"]])
    except (KeyError, BadInputError):
        return 0


def _totals(shortage: OutOfMemory) -> tuple[int, int | None, str | None]:
    """Thousandths of all pages: the least, the most, and what is unknown between them."""
    page = shortage.page_bytes
    if shortage.cgroup is None:
        if shortage.total_bytes is not None and shortage.constraint in ("none", None):
            total = shortage.total_bytes // page // 1000
            return total, total, None
        return 0, None, "how much memory the processes could use"
    if shortage.limit_bytes is None:
        return 0, None, "the cgroup's limit"
    least = shortage.limit_bytes // page // 1000
    if shortage.swap_limit_bytes == 0:
        return least, least, None
    swap = shortage.swap_limit_bytes
    most = None if swap is None else (shortage.limit_bytes + swap) // page // 1000
    return least, most, "how much swap the node has"


def _within(thousandths: int | None, bounds: tuple[int, int | None] | None) -> bool:
    """Whether a total is within bounds; None: without end."""
    if bounds is None:
        return False
    least, most = bounds
    if thousandths is None:
        return most is None
    return least <= thousandths and (most is None or thousandths <= most)


def _best(tasks: list[Task], thousandths: int | None, page_bytes: int) -> Task:
    """The process with the most points; without end the adjustment alone counts."""
    rest = [task for task in tasks if task.oom_score_adj != NEVER_KILLED] or tasks
    if thousandths is None:
        return max(rest, key=lambda t: (t.oom_score_adj, own_pages(t, page_bytes)))
    return max(rest, key=lambda t: own_pages(t, page_bytes) + t.oom_score_adj * thousandths)


def _sentence(
    body: ProcessKilled,
    shortage: OutOfMemory,
    victim: Task,
    others: list[Task],
    thousandths: int | None,
    *,
    allowed: bool,
) -> str:
    """Who was out of memory, and why it is this process."""
    page = shortage.page_bytes
    whose = {"container_limit": "the container", "pod_limit": "the pod"}.get(body.reason or "")
    whose = whose or (f"cgroup {body.cgroup}" if body.cgroup else "the node")
    short = f"{whose} was out of memory"
    if shortage.limit_bytes is not None:
        short = f"{whose} had used up its limit of {shortage.limit_bytes >> 10} KiB"
    best = _best(others, thousandths, page)

    def told(task: Task) -> str:
        own = f"{own_pages(task, page) * page >> 10} KiB, oom_score_adj {task.oom_score_adj}"
        return f"process {task.pid} {task.process} ({own})"

    count = f"{len(shortage.tasks or ())} processes"
    if allowed:
        return f"{short}, and of its {count} {told(victim)} scored highest"
    return f"{short}, and of its {count} {told(best)} scored higher than {told(victim)}"
