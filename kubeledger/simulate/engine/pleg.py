"""The pod lifecycle event generator: each second it compares what the runtime lists.

What the kubelet knows of containers is what was listed last. A relist without a change does
nothing, so it is only scheduled where there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from kubeledger.model.units import NS_PER_S
from kubeledger.simulate.engine.instances import Instance
from kubeledger.simulate.engine.kubelet import Kubelet

_PERIOD_NS = NS_PER_S
View = Mapping[str, Instance]
"""Container name -> its newest instance, as listed."""


class Changes(msgspec.Struct, frozen=True):
    """What a relist found of one pod.

    Attributes:
        died: instances that ended; ``unseen``: those of them that were not listed before.
        started: new ones that run.
    """

    uid: str
    died: tuple[Instance, ...]
    unseen: tuple[Instance, ...]
    started: tuple[Instance, ...]


class Pleg:
    """Lists of containers by pod, as of the last relist."""

    def __init__(self, kubelet: Kubelet, send: Callable[[list[Changes]], None]) -> None:
        self._kubelet = kubelet
        self._send = send
        self._listed: dict[str, dict[str, Instance]] = {}
        self._changed: dict[str, None] = {}
        self._phase_ns = kubelet.sim.schedule.now_ns
        self._due = False

    def start(self) -> list[Changes]:
        """List everything that is there for the first time, and then every second.

        Returns:
            what there is; it is not sent, since the sync loop does not run yet.
        """
        runtime = self._kubelet.sim.runtime
        self._phase_ns = self._kubelet.sim.schedule.now_ns
        runtime.on_change = self._notice
        self._changed = dict.fromkeys(runtime.pods())
        return self._list()

    def instances(self, uid: str) -> tuple[Instance, ...]:
        """What was listed of a pod, oldest first."""
        return tuple(self._listed.get(uid, {}).values())

    def view(self, uid: str) -> dict[str, Instance]:
        """The newest instance of each container of a pod; without the sandbox."""
        listed = self._listed.get(uid, {})
        return {i.container: i for i in listed.values() if i.container is not None}

    def exited(self, uid: str, name: str) -> Instance | None:
        """The newest instance of a container that has ended."""
        for instance in reversed(self._listed.get(uid, {}).values()):
            if instance.container == name and not instance.running:
                return instance
        return None

    def next_relist_ns(self) -> int:
        """When the runtime is listed again: as soon as it answers."""
        at_ns = self._tick_after(self._kubelet.sim.schedule.now_ns)
        while down := self._kubelet.sim.failures.span("runtime", at_ns):
            at_ns = self._tick_after(down[1] - 1)
        return at_ns

    def listed_ns(self) -> int:
        """When the runtime was listed last."""
        at_ns = self._tick_after(self._kubelet.sim.schedule.now_ns) - _PERIOD_NS
        while down := self._kubelet.sim.failures.span("runtime", at_ns):
            at_ns = self._tick_after(down[0] - 1) - _PERIOD_NS
        return at_ns

    def _tick_after(self, at_ns: int) -> int:
        return at_ns - (at_ns - self._phase_ns) % _PERIOD_NS + _PERIOD_NS

    def forget(self, uid: str) -> None:
        """A pod is gone for good."""
        self._listed.pop(uid, None)

    def _notice(self, uid: str) -> None:
        self._changed[uid] = None
        if not self._due:
            self._due = True
            wait_ns = self.next_relist_ns() - self._kubelet.sim.schedule.now_ns
            self._kubelet.after(wait_ns, self._relist)

    def _relist(self) -> None:
        self._due = False
        found = self._list()
        if found:
            self._send(found)

    def _list(self) -> list[Changes]:
        changed, self._changed = self._changed, {}
        runtime = self._kubelet.sim.runtime
        found: list[Changes] = []
        for uid in changed:
            before = self._listed.get(uid, {})
            now = {instance.container_id: instance for instance in runtime.instances(uid)}
            if now:
                self._listed[uid] = now
            else:
                self._listed.pop(uid, None)
            fresh = [i for key, i in now.items() if before.get(key) != i]
            died = tuple(i for i in fresh if not i.running)
            unseen = tuple(i for i in died if i.container_id not in before)
            started = tuple(i for i in fresh if i.running and i.container_id not in before)
            if died or started:
                found.append(Changes(uid, died, unseen, started))
        return found
