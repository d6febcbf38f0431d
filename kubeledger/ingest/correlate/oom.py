"""Kills by the kernel's OOM killer: one fact a kill, whichever source reports it.

Up to four sources report one: the kernel's own report, the lines of the kubelet's cadvisor
(``Created an OOM event in container``, at ``-v=3``), its event ``SystemOOM`` where cadvisor found
no cgroup in the kernel's lines, and the status ``OOMKilled`` of a container. cadvisor finds none
where the node's memory was used up, and where the lines about a cgroup have another form than it
knows (no ``cpuset=``): a kernel's report of that process decides. A status also says so of a
container that ended otherwise, if any process in it had been killed before.

A kubelet that starts reads the whole ring buffer again, so its first lines report old kills.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from kubeledger.ingest.correlate.assembler import Assembler, reads, reads_events, takes
from kubeledger.ingest.correlate.context import Instance
from kubeledger.ingest.correlate.entry import Entry
from kubeledger.ingest.correlate.holdback import Seen, Waiting
from kubeledger.ingest.correlate.registers import Registers
from kubeledger.ingest.messages.podref import bare_container_id
from kubeledger.ingest.sources.items import Fact, KernelReport, PodList
from kubeledger.ingest.sources.pod_lists import News
from kubeledger.ingest.sources.times import api_time, go_time
from kubeledger.kubelet.cgroups.paths import owner_of
from kubeledger.kubelet.kube.statuses import statuses_in
from kubeledger.kubelet.lifecycle.disputes import Dispute
from kubeledger.model.bodies.eviction import (
    REASON_OF_LEVEL,
    OutOfMemory,
    ProcessKilled,
    Reason,
    Task,
)
from kubeledger.model.bodies.lifecycle import ContainerDied
from kubeledger.model.patterns import regex
from kubeledger.model.record import Evidence
from kubeledger.model.units import NS_PER_S

_SYSTEM = regex(r"System OOM encountered(?:, victim process: (.*), pid: (\d+))?")
_WAIT_NS = 5 * NS_PER_S
"""The status follows when the PLEG has looked and the pod was synced."""
_SAME_NS = 3 * NS_PER_S
"""The kubelet's time of a kill is the kernel's to the second, and the logs' clocks differ."""
_REPLAY_NS = 1_200_000_000
"""Two kubelet processes give one kill times that differ by less: each rounds the boot's."""
_LATE_NS = 60 * NS_PER_S
"""A container whose main process was killed is seen to be dead by then."""
_PAGE_BYTES = 4096
_SIGKILLED = 128 + 9


class _Sighting(msgspec.Struct):
    """A kill as the kubelet reports it.

    Attributes:
        ts_ns: of the line.
        killed_ts_ns: the kernel's time as the kubelet computes it.
        task_cgroup: path of the cgroup in which the process ran; None for the node's event.
    """

    ts_ns: int
    killed_ts_ns: int
    evidence: Evidence
    task_cgroup: str | None = None
    process: str | None = None
    pid: int | None = None

    @property
    def is_old(self) -> bool:
        return self.ts_ns - self.killed_ts_ns > _SAME_NS


class _Kill(Waiting[ProcessKilled]):
    """A reported kill, with all that later sources may add."""

    def __init__(self, fact: Fact, report: KernelReport | None) -> None:
        super().__init__(fact, _WAIT_NS)
        self.report = report
        self.sighted_ns: int | None = None
        self.replayed = 0

    def add(self, evidence: Evidence, **known: object) -> None:
        """Another source reports it; it changes nothing once the fact has left."""
        self.join(evidence)
        self.learn(**{k: v for k, v in known.items() if getattr(self.body, k) is None})

    def is_apart_by(self, ts_ns: int) -> int:
        return abs((self.sighted_ns or self.fact.ts_ns) - ts_ns)


class OomAssembler(Assembler):
    """Out-of-memory kills."""

    time_passes = ("Got sys oom event",)

    def __init__(self, registers: Registers) -> None:
        super().__init__(registers)
        self._sync_loop = registers.sync_loop
        self._kills: dict[str, list[_Kill]] = {}
        self._reports: dict[str, list[KernelReport]] | None = None
        self._reported_statuses: set[str] = set()
        self._news = News()
        self._unplaced: list[_Kill] = []
        self._of_pid: dict[tuple[int, str | None], _Kill] = {}

    # -- sources --------------------------------------------------------------------------

    @takes(KernelReport)
    def _reported(self, report: KernelReport) -> None:
        """The kernel's report, at its own time; again for one that was taken in: nothing."""
        if report.pid is None:
            self.queue.add(Fact(report.ts_ns, self._shortage(report), report.evidence))
        else:
            self._of_report(report, report.ts_ns)

    @reads("Created an OOM event in container")
    def _seen(self, entry: Entry) -> None:
        logged_ns = go_time(entry.text("time"))
        cgroup = entry.text("container")
        self._sighted(_Sighting(entry.ts_ns, logged_ns, entry.evidence, cgroup))

    @reads("Added an OOM kill event")
    def _limit(self, entry: Entry) -> None:
        """The line after a sighting: whose limit it was."""
        logged_ns, path = go_time(entry.text("time")), entry.text("container").strip("/")
        for kills in self._kills.values():
            for kill in kills[-1:]:
                task = kill.body.task_cgroup or ""
                if kill.sighted_ns == logged_ns and (task + "/").startswith(path + "/"):
                    kill.add(entry.evidence, cgroup=path, reason=_reason_of(path))

    @reads_events("SystemOOM")
    def _event(self, entry: Entry) -> None:
        match = _SYSTEM.match(entry.text("message"))
        if match is not None:
            pid = None if match[2] is None else int(match[2])
            ts_ns = entry.ts_ns
            self._sighted(_Sighting(ts_ns, ts_ns, entry.evidence, None, match[1], pid))

    @reads("Patch status for pod")
    def _patched(self, entry: Entry) -> None:
        patch = entry.text("patch")
        if "OOMKilled" not in entry.line.message and "OOMKilled" not in patch:
            return
        try:
            state = msgspec.json.decode(patch)
        except msgspec.DecodeError:
            return
        self._statuses((state or {}).get("status"), entry)

    @reads("Status for pod updated successfully")
    def _status(self, entry: Entry) -> None:
        if "OOMKilled" in entry.line.text:
            self._statuses(entry.values.get("status"), entry)

    @takes(PodList)
    def _listed(self, item: PodList) -> None:
        for pod in self._news.of(item.pods):
            self._statuses(pod.get("status"), item)

    def _statuses(self, status: Any, seen: Seen) -> None:  # noqa: ANN401 - decoded JSON
        """A status says ``OOMKilled`` of containers that ended (whole seconds).

        One that ended after the status was seen, by a clock that was set since, waits no longer
        than others: nothing else of the node would leave until then.
        """
        for state in _oom_killed(status):
            container_id = bare_container_id(state.get("containerID"))
            ended_ns = api_time(state.get("finishedAt"))
            if container_id is None or ended_ns is None or container_id in self._reported_statuses:
                continue
            self._reported_statuses.add(container_id)
            kill = self._last(container_id)
            if kill is None:
                fact = Fact(ended_ns, self._body(None, container_id), (seen.evidence,))
                held = self._hold(container_id, fact)
                held.due_ns = min(held.due_ns, seen.ts_ns + _WAIT_NS)
            elif kill.fact.ts_ns <= ended_ns + _SAME_NS:
                kill.add(seen.evidence)

    def cause_of_death(self, died: Fact, instance: Instance | None) -> Fact | None:
        """The kill that ended a container; a status may be all that shows it."""
        body = died.body
        assert isinstance(body, ContainerDied)
        reported = instance is not None and instance.reason == "OOMKilled"
        kill = self._last(body.container_id)
        if kill is None and reported:
            ts_ns = died.ts_ns
            ended_ns = None if instance is None else instance.finished_ts_ns
            # A kubelet that starts reports what ended long before.
            if ended_ns is not None and ts_ns - ended_ns > _SAME_NS:
                ts_ns = ended_ns
            known = Fact(ts_ns, self._body(None, body.container_id), died.evidence)
            kill = self._hold(body.container_id, known, died.ts_ns)
        if kill is None or not 0 <= died.ts_ns - kill.fact.ts_ns <= _LATE_NS:
            return None
        return kill.fact if reported or body.exit_code == _SIGKILLED else None

    def _last(self, container_id: str) -> _Kill | None:
        """The last kill in a container so far."""
        return next(reversed(self._kills.get(container_id, ())), None)

    # -- the facts ------------------------------------------------------------------------

    def _sighted(self, seen: _Sighting) -> None:
        """A line of the kubelet."""
        if seen.task_cgroup == "/":
            self._without_place(seen)
            return
        kill = self._sighted_kill(seen)
        if seen.pid is not None:
            self._of_pid[seen.pid, seen.process] = kill
        kill.sighted_ns = kill.sighted_ns or seen.killed_ts_ns
        kill.replayed = max(kill.replayed, self._sync_loop.process)
        path = _below_root(seen.task_cgroup)
        kill.add(seen.evidence, task_cgroup=path, process=seen.process, pid=seen.pid)

    def _sighted_kill(self, seen: _Sighting) -> _Kill:
        """The kill that a line is about: by the kernel's report, by what is known, or a new one."""
        key, report = _key(seen.task_cgroup), self._report(seen)
        kill: _Kill | None
        if report is not None:
            key = _key(report.task_cgroup)
            ts_ns = report.ts_ns if seen.is_old else min(report.ts_ns, seen.ts_ns)
            kill = _of(self._kills.get(key, ()), report) or self._of_report(report, ts_ns)
        else:
            kill = None if seen.pid is None else self._of_pid.get((seen.pid, seen.process))
        known = self._kills.get(key, ())
        if kill is None and seen.is_old:
            kill = _old_kill(known, seen, self._sync_loop.process)
        elif kill is None:
            kill = _by_status(known, seen)
        return kill or self._add(key, seen)

    def _report(self, seen: _Sighting) -> KernelReport | None:
        """The kernel's own report of the kill: by the process, else by cgroup and time."""
        if seen.pid is None:
            return self._report_near(_key(seen.task_cgroup), seen.killed_ts_ns)
        return self._report_of(seen.pid, seen.process, seen.ts_ns)

    def _without_place(self, seen: _Sighting) -> None:
        """A kill in the root cgroup says when: whose it was, other sources show."""
        near = [
            kill
            for kills in self._kills.values()
            for kill in kills
            if abs(kill.fact.ts_ns - seen.killed_ts_ns) <= _SAME_NS
        ]
        if near:
            min(near, key=lambda kill: kill.is_apart_by(seen.killed_ts_ns)).join(seen.evidence)
        else:
            kill = self._add("", seen)
            self._unplaced.append(kill)

    def _report_of(self, pid: int, process: str | None, ts_ns: int) -> KernelReport | None:
        """The last report of the process, in the boot that the line is of."""
        booted_ns = max((at for at in self.context.kernel_boots if at <= ts_ns), default=0)
        killed = [
            report
            for reports in self.context.kernel_reports.values()
            for report in reports
            if report.pid == pid
            and process in (None, report.process)
            and booted_ns - _SAME_NS <= report.ts_ns <= ts_ns + _SAME_NS
        ]
        return max(killed, key=lambda report: report.ts_ns, default=None)

    def _report_near(self, key: str, ts_ns: int) -> KernelReport | None:
        if self._reports is None:
            self._reports = {}
            for reports in self.context.kernel_reports.values():
                for report in reports:
                    if report.pid is not None:
                        self._reports.setdefault(_key(report.task_cgroup), []).append(report)
        near = [r for r in self._reports.get(key, ()) if abs(r.ts_ns - ts_ns) <= _SAME_NS]
        return min(near, key=lambda report: abs(report.ts_ns - ts_ns), default=None)

    def _add(self, key: str, seen: _Sighting) -> _Kill:
        body = self._body(seen.task_cgroup)
        if seen.task_cgroup is None:
            body = msgspec.structs.replace(body, reason="node")
        ts_ns = seen.killed_ts_ns if seen.is_old else seen.ts_ns
        return self._hold(key, Fact(ts_ns, body, (seen.evidence,)), seen.ts_ns)

    def _of_report(self, report: KernelReport, ts_ns: int) -> _Kill | None:
        key = _key(report.task_cgroup)
        if _of(self._kills.get(key, ()), report) is not None:
            return None
        if report.conflict is not None:
            self._dispute(report, ts_ns, *report.conflict)
        body = msgspec.structs.replace(
            self._body(report.task_cgroup or report.cgroup),  # it ran there, or below
            cgroup=_below_root(report.cgroup),
            task_cgroup=_below_root(report.task_cgroup),
            reason=_reason(report),
            process=report.process,
            pid=report.pid,
            rss_bytes=report.rss_bytes,
            limit_bytes=report.usages.get("memory", (0, None))[1],
            oom_score_adj=report.oom_score_adj,
            chosen_pid=report.chosen_pid if report.chosen_pid != report.pid else None,
            also_killed=report.also_killed,
            allocating_task=report.allocating_task,
        )
        cause = self.queue.add(Fact(ts_ns, self._shortage(report), report.evidence))
        kill = self._hold(key, Fact(ts_ns, body, report.evidence, cause=cause), report=report)
        if report.process == "kubelet":
            self._sync_loop.killed = kill.fact
        return kill

    def _hold(
        self, key: str, fact: Fact, now_ns: int = 0, report: KernelReport | None = None
    ) -> _Kill:
        kill = self.queue.put(_Kill(fact, report))
        kill.due_ns = max(kill.due_ns, now_ns + _WAIT_NS)
        self._kills.setdefault(key, []).append(kill)
        self._unplaced = [other for other in self._unplaced if other.is_open]
        for other in self._unplaced:
            if abs(other.fact.ts_ns - fact.ts_ns) <= _SAME_NS:
                other.drop()
                kill.join(*other.fact.evidence)
                break
        return kill

    def _body(self, task_cgroup: str | None, container_id: str | None = None) -> ProcessKilled:
        owner = owner_of(task_cgroup)
        if owner is not None:
            container_id = container_id or owner.container_id
        ref = self.context.container(container_id or "")
        uid = None if owner is None else owner.pod_uid
        if ref is not None and uid not in (None, ref.pod_uid):
            ref = None  # the kernel's path is to be believed
        uid = ref.pod_uid if ref is not None else uid
        namespace, pod = self.context.name_of(uid)
        return ProcessKilled(
            namespace=namespace,
            pod=pod,
            pod_uid=uid,
            container=None if ref is None else ref.container,
            container_id=container_id,
            task_cgroup=_below_root(task_cgroup),
        )

    def _dispute(
        self, report: KernelReport, ts_ns: int, why: str, here: str, elsewhere: str
    ) -> None:
        whose = self._body(report.task_cgroup)
        about = "node" if whose.pod is None else f"pod/{whose.namespace}/{whose.pod}"
        body = Dispute(about, why, here, elsewhere).in_file(report.file)
        self.queue.add(Fact(ts_ns, body, report.evidence[-1:]))

    def _shortage(self, report: KernelReport) -> OutOfMemory:
        whose = self._body(report.cgroup)
        usage, limit = report.usages.get("memory", (None, None))
        page_bytes = _page_bytes(report)
        total = None if report.ram_pages is None else report.ram_pages * page_bytes
        if total is not None:
            total += report.swap_bytes or 0
        tasks = None
        if report.tasks and not report.is_cut:
            tasks = tuple(
                Task(
                    pid=task.pid,
                    process=task.name,
                    rss_pages=task.rss_pages,
                    swap_pages=task.swap_pages,
                    page_table_bytes=task.page_table_bytes
                    if task.page_table_bytes is not None
                    else task.page_table_pages * page_bytes,
                    oom_score_adj=task.oom_score_adj,
                )
                for task in report.tasks
            )
        return OutOfMemory(
            namespace=whose.namespace,
            pod=whose.pod,
            pod_uid=whose.pod_uid,
            container=whose.container,
            cgroup=_below_root(report.cgroup),
            constraint=report.constraint,
            invoked_by=report.invoked_by,
            usage_bytes=usage,
            limit_bytes=limit,
            swap_limit_bytes=_swap_limit(report),
            total_bytes=total,
            at_limit=_at_limit(report, page_bytes),
            page_bytes=page_bytes,
            tasks=tasks,
        )


def _of(known: Sequence[_Kill], report: KernelReport) -> _Kill | None:
    return next((kill for kill in known if kill.report is report), None)


def _old_kill(known: Sequence[_Kill], seen: _Sighting, process: int) -> _Kill | None:
    """The kill that a new kubelet process reports again."""
    killed_ns = seen.killed_ts_ns
    same = [
        kill
        for kill in known
        if kill.replayed < process and kill.is_apart_by(killed_ns) <= _REPLAY_NS
    ]
    return min(same, key=lambda kill: kill.is_apart_by(killed_ns), default=None)


def _by_status(known: Sequence[_Kill], seen: _Sighting) -> _Kill | None:
    """A kill that the container's death showed before its line came."""
    for kill in known[-1:]:
        if kill.body.task_cgroup is None and seen.ts_ns - kill.fact.ts_ns <= _WAIT_NS:
            return kill
    return None


def _reason_of(cgroup: str) -> Reason | None:
    """Whose limit it was, by the cgroup that was out of memory."""
    owner = owner_of(cgroup)
    return None if owner is None else REASON_OF_LEVEL.get(owner.level)


def _reason(report: KernelReport) -> Reason | None:
    if report.cgroup is not None:
        return _reason_of(report.cgroup)
    is_memcg = report.constraint == "memcg" or report.is_memcg
    return None if is_memcg else "node"


def _key(task_cgroup: str | None) -> str:
    owner = owner_of(task_cgroup)
    return (owner.container_id if owner is not None else None) or task_cgroup or ""


def _below_root(path: str | None) -> str | None:
    return None if path is None else path.strip("/")


def _swap_limit(report: KernelReport) -> int | None:
    """How much the cgroup may swap: its own limit, or what both limits leave."""
    if "swap" in report.usages:
        return report.usages["swap"][1]
    if "memory+swap" in report.usages and "memory" in report.usages:
        return max(report.usages["memory+swap"][1] - report.usages["memory"][1], 0)
    return None


_BATCH_PAGES = 256
"""What several processors may have given back between the failure and the report."""


def _at_limit(report: KernelReport, page_bytes: int) -> bool | None:
    if not report.usages:
        return None
    return any(
        usage + _BATCH_PAGES * page_bytes >= limit
        for name, (usage, limit) in report.usages.items()
        if name != "swap"  # cgroup v2: where it is used up, memory is not short for that
    )


def _page_bytes(report: KernelReport) -> int:
    """Size of a page: what the last line shows in kB, the table shows in pages."""
    for task in report.tasks or ():
        if task.pid == report.pid and task.rss_pages and report.rss_bytes:
            for size in (4096, 16384, 65536):
                if abs(report.rss_bytes - task.rss_pages * size) * 8 < report.rss_bytes:
                    return size
    return _PAGE_BYTES


def _oom_killed(status: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401 - decoded JSON
    """Ends in a pod's status that say so, the older one of a container first."""
    if not isinstance(status, dict):
        return
    for entry in statuses_in(status):
        for state in ("lastState", "state"):
            ended = (entry.get(state) or {}).get("terminated") or {}
            if ended.get("reason") == "OOMKilled":
                yield ended
