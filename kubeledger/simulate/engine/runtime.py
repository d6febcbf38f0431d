"""The container runtime: instances of containers, which continue while no kubelet runs.

What a container does is in its script: it ends by itself after a while, and takes some time
to end when it is stopped. A container that ends in time after being stopped has exit code
143, one that is killed 137. An init container without a script ends after a second with 0.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

import msgspec

from kubeledger.model.units import NS_PER_S
from kubeledger.simulate.engine.kubelet import Part
from kubeledger.simulate.engine.plan import ContainerScript, ExitStep
from kubeledger.simulate.engine.schedule import Timer
from kubeledger.simulate.engine.world import KILLED, End, Instance, SimContainer, SimPod

if TYPE_CHECKING:
    from kubeledger.simulate.engine.sim import Sim

_TERMINATED = 143
_DEFAULT = ContainerScript()
_ENDS_SOON = ContainerScript(exits=(ExitStep(after_ns=NS_PER_S, code=0),), exits_repeat=True)


class Runtime(Part):
    """All instances, by pod, and which records hold their ends.

    Attributes:
        killed: container ID -> its kill; ``died``: container ID -> record of its death. A
            reader of all logs knows of both after a kubelet's restart, too.
        on_change: called for each pod with an instance that began or ended.
    """

    def __init__(self, sim: Sim) -> None:
        super().__init__(sim)
        self._pods: dict[str, dict[str, Instance]] = {}
        self._ends: dict[str, Timer] = {}
        self.killed: dict[str, End] = {}
        self.died: dict[str, int] = {}
        self.on_change: Callable[[str], None] = lambda _uid: None

    def instances(self, uid: str) -> tuple[Instance, ...]:
        """What the runtime lists of a pod, oldest first."""
        return tuple(self._pods.get(uid, {}).values())

    def pods(self) -> tuple[str, ...]:
        """UIDs of pods of which it has anything, in the order of their first containers."""
        return tuple(self._pods)

    def running(self, uid: str) -> tuple[Instance, ...]:
        """Instances of a pod that run, the sandbox included."""
        return tuple(i for i in self.instances(uid) if i.running)

    def sandboxes_fail(self) -> bool:
        """It cannot start a sandbox now."""
        since_ns = self._clock.now_ns - self._sim.plan.start_ns
        return any(begin <= since_ns < end for begin, end in self._sim.plan.sandbox_failures)

    def hook_fails(self, pod: SimPod, instance: Instance) -> bool:
        """Whether the post-start hook of an instance fails."""
        return instance.restarts < self._script(pod, instance.container).hook_failures

    def start(self, pod: SimPod, container: SimContainer | None) -> Instance:
        """Make and start a container, or (None) the sandbox; the pod is changed with it."""
        name = "" if container is None else container.name
        count = 0 if container is None else container.instances
        instance = Instance(
            container_id=self._new_id(pod, name, count),
            container=None if container is None else name,
            image="" if container is None else pod.image(name),
            restarts=count,
            previous_id="" if container is None else container.container_id,
            started_ns=self._clock.now_ns,
        )
        self._pods.setdefault(pod.uid, {})[instance.container_id] = instance
        if container is None:
            pod.sandbox_id = instance.container_id
        else:
            container.state, container.container_id = "running", instance.container_id
            container.started_ns, container.finished_ns = instance.started_ns, None
            container.restarts, container.instances = count, count + 1
            self._end_by_script(pod, container, instance)
            self._update_probes(pod, container)
            numa_memory = self._sim.newest_kubelet.numa_memory
            numa_memory.container_created(pod, container, instance.container_id)
        self._sim.agent.container_made(instance.container_id, instance.container)
        self._sim.newest_kubelet.cgroups.container_created(pod, container, instance.container_id)
        self._sim.memory.started(pod, container, instance)
        self.on_change(pod.uid)
        return instance

    def stop(self, pod: SimPod, instance: Instance, grace_ns: int) -> int:
        """Stop an instance, and kill it when its grace is over; returns when it ends.

        One that ended by itself since it was looked at has nothing left to stop.
        """
        now_ns = self._clock.now_ns
        known = self._pods.get(pod.uid, {}).get(instance.container_id)
        if known is not None and not known.running:
            return now_ns
        script = self._script(pod, instance.container)
        takes_ns = min(script.stop_ns, grace_ns) if instance.container is not None else 0
        killed = instance.container is not None and script.stop_ns > grace_ns
        before = self._ends.get(instance.container_id)
        if before is not None and not before.off and before.at_ns <= now_ns + takes_ns:
            return before.at_ns
        if before is not None:
            before.cancel()
        code = 0 if instance.container is None else KILLED if killed else _TERMINATED
        return self._end_after(pod, instance, takes_ns, code)

    def stop_times_ns(self, pod: SimPod, grace_ns: int) -> list[int]:
        """How long each running container would take to stop."""
        names = [each.container for each in self.running(pod.uid) if each.container is not None]
        return [min(self._script(pod, name).stop_ns, grace_ns) for name in names]

    def kill(self, pod: SimPod, instance: Instance) -> None:
        """The kernel kills the main process of an instance."""
        timer = self._ends.get(instance.container_id)
        if timer is not None:
            timer.cancel()
        self._ended(pod, instance, KILLED)

    def forget(self, uid: str, keep: int = 0, of: Collection[str | None] | None = None) -> None:
        """Remove instances of a pod that ended, all but the newest ``keep`` of each container.

        ``of``: names of containers; None: all.
        """
        listed = self._pods.get(uid)
        if listed is None:
            return
        seen: dict[str | None, int] = {}
        for instance in reversed(tuple(listed.values())):
            if instance.running or (of is not None and instance.container not in of):
                continue
            seen[instance.container] = seen.get(instance.container, 0) + 1
            if seen[instance.container] > keep:
                del listed[instance.container_id]
                if of is not None:
                    continue  # what is started next follows it
                self.killed.pop(instance.container_id, None)
                self.died.pop(instance.container_id, None)
                self._sim.memory.kills.pop(instance.container_id, None)
        if not listed:
            del self._pods[uid]

    def _script(self, pod: SimPod, name: str | None) -> ContainerScript:
        if name is None:
            return _DEFAULT
        container = pod.container(name)
        default = _ENDS_SOON if container.init and not container.sidecar else _DEFAULT
        return self._sim.plan.pods[pod.index].scripts.get(name, default)

    def _end_by_script(self, pod: SimPod, container: SimContainer, instance: Instance) -> None:
        script = self._script(pod, container.name)
        if instance.restarts < len(script.exits):
            step = script.exits[instance.restarts]
        elif script.exits and script.exits_repeat:
            step = script.exits[-1]
        else:
            return
        self._end_after(pod, instance, step.after_ns, step.code)

    def _end_after(self, pod: SimPod, instance: Instance, wait_ns: int, code: int) -> int:
        timer = self._clock.after(wait_ns, lambda: self._ended(pod, instance, code))
        self._ends[instance.container_id] = timer
        return timer.at_ns

    def _ended(self, pod: SimPod, instance: Instance, code: int) -> None:
        self._ends.pop(instance.container_id, None)
        now_ns = self._clock.now_ns
        ended = msgspec.structs.replace(
            instance,
            finished_ns=now_ns,
            exit_code=code,
            oom_killed=instance.container_id in self._sim.memory.kills,
        )
        listed = self._pods.get(pod.uid, {})
        if instance.container_id not in listed:
            return
        listed[instance.container_id] = ended
        if instance.container is not None:
            container = pod.container(instance.container)
            if container.container_id == instance.container_id:
                container.state, container.exit_code = "terminated", code
                container.finished_ns = now_ns
                self._update_probes(pod, container)
        self._sim.memory.ended(instance.container_id)
        self._sim.newest_kubelet.cgroups.container_removed(pod, instance.container_id)
        self.on_change(pod.uid)

    def _update_probes(self, pod: SimPod, container: SimContainer) -> None:
        if self._sim.newest_kubelet.alive:
            self._sim.newest_kubelet.probes.container_changed(pod, container)

    def _new_id(self, pod: SimPod, name: str, count: int) -> str:
        draws = self._sim.draws.stream(f"container/{pod.uid}@{pod.index}/{name}/{count}")
        if not name:
            draws = draws.stream(pod.sandbox_id)
        return "".join(f"{draws.bits():016x}" for _ in range(4))
