"""What is used of file systems and memory, and the kernel's part in it: whom it kills.

A container has one process, or two where its script says that a child holds its memory; a
sandbox has one. What a script says is asked for when it begins to hold, and a moment after
each start. Who asks for more than a cgroup above it has left, or the node, brings the OOM
killer: it takes the process with the most points, until there is room. All memory is taken
to be anonymous, and the node to have no swap and nothing outside of pods.

Source: Linux 6.12 mm/memcontrol.c try_charge_memcg, mem_cgroup_get_oom_group;
    mm/oom_kill.c select_bad_process, oom_kill_process
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kubeledger.kubelet.cgroups.paths import owner_of
from kubeledger.kubelet.oom import chosen
from kubeledger.model.bodies.eviction import REASON_OF_LEVEL, OutOfMemory, ProcessKilled, Task
from kubeledger.model.bodies.lifecycle import KubernetesEvent
from kubeledger.simulate.engine.kubelet import Part
from kubeledger.simulate.engine.plan import Usage
from kubeledger.simulate.engine.world import Disk, Instance, SimContainer, SimPod

if TYPE_CHECKING:
    from kubeledger.simulate.engine.sim import Sim

_BLOCK_BYTES = 4096
_NOTHING = Usage(from_ns=0)


class DiskSpace(NamedTuple):
    """A file system in bytes, whole blocks, and inodes."""

    capacity_bytes: int
    available_bytes: int
    inodes: int
    inodes_free: int

    @property
    def used_bytes(self) -> int:
        return self.capacity_bytes - self.available_bytes


def uses_anything(sim: Sim, pod: SimPod) -> bool:
    """Whether the scenario says what a pod uses; of most it does not, and this is asked often."""
    scripts = sim.plan.pods[pod.index].scripts
    return bool(scripts) and any(script.usage for script in scripts.values())


def container_usage(sim: Sim, pod: SimPod) -> dict[str, Usage]:
    """What each container of a pod uses now; memory only while it runs."""
    found: dict[str, Usage] = {}
    if not uses_anything(sim, pod):
        return {c.name: _NOTHING for c in pod.containers if c.instances}
    scripts = sim.plan.pods[pod.index].scripts
    since_ns = sim.schedule.now_ns - sim.plan.start_ns
    for container in pod.containers:
        script = scripts.get(container.name)
        usage = _NOTHING
        for step in script.usage if script is not None else ():
            if step.from_ns > since_ns:
                break
            usage = step
        if container.state == "running":
            held = sim.memory.used_bytes(container.container_id)
            found[container.name] = msgspec.structs.replace(usage, memory_bytes=held)
        elif container.instances:
            # Its files stay until the container is removed.
            found[container.name] = Usage(from_ns=usage.from_ns, disk_bytes=usage.disk_bytes)
    return found


def disk_space(sim: Sim, disk: Disk) -> DiskSpace:
    """How much of a file system is used: by what the scenario says, images, containers.

    Containers are where images are.
    """
    world = sim.world
    free_bytes = world.available_bytes(disk)
    if disk is world.image_fs():
        for pod in world.pods.values():
            if not pod.terminated and pod.sandbox_id and uses_anything(sim, pod):
                used = container_usage(sim, pod).values()
                free_bytes -= sum(usage.disk_bytes for usage in used)
    return DiskSpace(
        disk.capacity_bytes // _BLOCK_BYTES * _BLOCK_BYTES,
        max(free_bytes, 0) // _BLOCK_BYTES * _BLOCK_BYTES,
        disk.inodes,
        max(disk.inodes - disk.inodes_used, 0),
    )


_PAGE_BYTES = 4096
_NAME_LENGTH = 15
_PAUSE_BYTES = 64 * _PAGE_BYTES
_SANDBOX_ADJ = -998
"""pkg/kubelet/cri: what containerd and CRI-O give a sandbox, as dockershim did."""
_FIRST_PID = 2000
_ASKS_NS = 100_000_000
"""How long after its start a container asks for memory."""


class _Process(msgspec.Struct, kw_only=True):
    """A process of a pod.

    Attributes:
        main: the container ends with it.
        cgroup: in which it runs; empty without cgroups of the kubelet.
        with_all: the kernel kills all of its cgroup at once (``memory.oom.group``).
    """

    pid: int
    name: str
    pod: SimPod
    instance: Instance
    main: bool
    cgroup: str
    oom_score_adj: int
    with_all: bool
    used_bytes: int = 0

    def task(self) -> Task:
        return Task(
            pid=self.pid,
            process=self.name,
            rss_pages=self.used_bytes // _PAGE_BYTES,
            swap_pages=0,
            page_table_bytes=0,
            oom_score_adj=self.oom_score_adj,
        )


class Memory(Part):
    """Processes of all pods, and the memory that they hold.

    Attributes:
        kills: container ID -> record of the last kill in it.
    """

    def __init__(self, sim: Sim) -> None:
        super().__init__(sim)
        self._processes: dict[int, _Process] = {}
        self._pid = _FIRST_PID
        self._void: dict[str, int] = {}
        self.kills: dict[str, int] = {}

    def used_bytes(self, container_id: str) -> int:
        """Memory that a container holds."""
        return sum(p.used_bytes for p in self._of(container_id))

    def started(self, pod: SimPod, container: SimContainer | None, instance: Instance) -> None:
        """A container runs, or (None) a sandbox."""
        if container is None:
            self._add(pod, instance, "pause", adj=_SANDBOX_ADJ, used_bytes=_PAUSE_BYTES)
            return
        cgroups, name = self._sim.newest_kubelet.cgroups, container.name
        adj, with_all = cgroups.oom_score_adj(pod, name), cgroups.kills_all(pod, name)
        script = self._sim.plan.pods[pod.index].scripts.get(name)
        self._add(pod, instance, name, adj=adj, with_all=with_all)
        if script is not None and script.usage:
            if script.child:
                self._add(pod, instance, name, adj=adj, with_all=with_all, main=False)
            self._clock.after(_ASKS_NS, lambda: self.ask(pod))

    def ended(self, container_id: str) -> None:
        """A container has ended: its memory is free."""
        for process in self._of(container_id):
            del self._processes[process.pid]
        self._void.pop(container_id, None)

    def ask(self, pod: SimPod) -> None:
        """The containers of a pod hold from now on what their scripts say."""
        for container in pod.containers:
            if container.state == "running":
                self._ask(pod, container)

    # -- charges ---------------------------------------------------------------------------

    def _add(
        self,
        pod: SimPod,
        instance: Instance,
        name: str,
        *,
        adj: int,
        used_bytes: int = 0,
        with_all: bool = False,
        main: bool = True,
    ) -> None:
        self._pid += 1
        self._processes[self._pid] = _Process(
            pid=self._pid,
            name=name[:_NAME_LENGTH],
            pod=pod,
            instance=instance,
            main=main,
            cgroup=self._sim.newest_kubelet.cgroups.container_cgroup(pod, instance.container_id),
            oom_score_adj=adj,
            with_all=with_all,
            used_bytes=used_bytes,
        )

    def _of(self, container_id: str) -> list[_Process]:
        return [p for p in self._processes.values() if p.instance.container_id == container_id]

    def _wanted_bytes(self, pod: SimPod, container: SimContainer) -> int:
        """What the script says now, unless the child that held it was killed since."""
        script = self._sim.plan.pods[pod.index].scripts.get(container.name)
        now_ns = self._clock.now_ns - self._sim.plan.start_ns
        begun = [u for u in (script.usage if script else ()) if u.from_ns <= now_ns]
        if not begun or begun[-1].from_ns <= self._void.get(container.container_id, -1):
            return 0
        return begun[-1].memory_bytes

    def _ask(self, pod: SimPod, container: SimContainer) -> None:
        while own := self._of(container.container_id):
            process, wanted = own[-1], self._wanted_bytes(pod, container)
            short, left = self._tightest(process)
            more = wanted - process.used_bytes
            process.used_bytes += more if more <= left else max(left, 0)
            if more <= left or not self._kill(process, short):
                return

    def _tightest(self, process: _Process) -> tuple[str | None, int]:
        """The cgroup above a process (None: the node) that has the least left, and how much.

        Of equals it is the lowest; the node comes before the cgroup of all pods, for
        something runs outside of that.
        """
        node = self._sim.plan.node.memory_bytes - self._used_below("")
        tightest: tuple[str | None, int] = (None, node)
        path = process.cgroup
        while path:
            values = self._sim.world.cgroups.get(path)
            limit = None if values is None else values.memory_limit_bytes
            if limit is not None and limit > 0:
                left = limit - self._used_below(path)
                owner = owner_of(path)
                lower = owner is not None and owner.level != "node"
                if left < tightest[1] or (left == tightest[1] and tightest[0] is None and lower):
                    tightest = path, left
            path = path.rpartition("/")[0]
        return tightest

    def _below(self, path: str) -> list[_Process]:
        found = self._processes.values()
        return [p for p in found if not path or f"{p.cgroup}/".startswith(f"{path}/")]

    def _used_below(self, path: str) -> int:
        return sum(process.used_bytes for process in self._below(path))

    # -- kills -----------------------------------------------------------------------------

    def _kill(self, asks: _Process, short: str | None) -> bool:
        """Kill for a cgroup (None: the node); False when there is none to be killed."""
        journal, total = self._journal, self._sim.plan.node.memory_bytes
        limit: int | None = None
        if short is not None:
            limit = total = self._sim.world.cgroups[short].memory_limit_bytes or 0
        below = self._below(short or "")
        tasks = tuple(process.task() for process in below)
        task = chosen(tasks, total_pages=total // _PAGE_BYTES, page_bytes=_PAGE_BYTES)
        if task is None:
            return False
        victim = self._processes[task.pid]
        owner = owner_of(short)
        level = "node" if owner is None else owner.level
        whose = asks.pod if level in ("pod", "container") else None
        seq = journal.write(
            OutOfMemory(
                namespace=whose.namespace if whose else None,
                pod=whose.name if whose else None,
                pod_uid=whose.uid if whose else None,
                container=asks.instance.container if level == "container" else None,
                cgroup=short,
                constraint="none" if short is None else "memcg",
                invoked_by=asks.name,
                usage_bytes=None if short is None else self._used_below(short),
                limit_bytes=limit,
                swap_limit_bytes=None if short is None else 0,
                total_bytes=total if short is None else None,
                at_limit=None if short is None else True,
                page_bytes=_PAGE_BYTES,
                tasks=tasks,
            ),
            source=self._sim.plan.pods[asks.pod.index].place,
        )
        container_id = victim.instance.container_id
        dying = self._of(container_id) if victim.with_all else [victim]
        self.kills[container_id] = journal.write(
            ProcessKilled(
                **victim.pod.identity,
                container=victim.instance.container,
                container_id=container_id,
                cgroup=short,
                task_cgroup=victim.cgroup,
                reason=REASON_OF_LEVEL.get(level, "node" if short is None else None),
                process=victim.name,
                pid=victim.pid,
                rss_bytes=victim.used_bytes,
                limit_bytes=limit,
                oom_score_adj=victim.oom_score_adj,
                also_killed=tuple(p.pid for p in dying if p is not victim),
            ),
            cause=seq,
        )
        if short is None:
            self._record_node_oom(victim)
        if any(process.main for process in dying):
            self._sim.runtime.kill(victim.pod, victim.instance)
        else:
            self._child_again(victim)
        return True

    def _child_again(self, child: _Process) -> None:
        """The main process starts its child again; that holds nothing until the script's next.

        One that held nothing is gone: the kernel would choose it again and again.
        """
        container_id = child.instance.container_id
        self._void[container_id] = self._clock.now_ns - self._sim.plan.start_ns
        del self._processes[child.pid]
        if not child.used_bytes:
            return
        self._pid += 1
        fresh = msgspec.structs.replace(child, pid=self._pid, used_bytes=0)
        self._processes[self._pid] = fresh

    def _record_node_oom(self, victim: _Process) -> None:
        """The event of the kubelet that runs.

        Source: v1.36.2 pkg/kubelet/oom/oom_watcher_linux.go Start
        """
        if self._sim.running_kubelet() is None:
            return
        message = f"System OOM encountered, victim process: {victim.name}, pid: {victim.pid}"
        self._journal.write(
            KubernetesEvent(
                object_kind="Node",
                namespace="",
                pod=self._sim.plan.node.name,
                pod_uid=None,
                type="Warning",
                reason="SystemOOM",
                message=message,
                api_count=1,
            )
        )
