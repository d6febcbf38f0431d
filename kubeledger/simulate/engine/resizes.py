"""Resizes in place: what is allocated to pods, and what their containers get of it.

Pods ask for other resources in their specs. What becomes of that the kubelet's own allocation
manager decides; a sync of the pod then gives it to the runtime and writes the pod's cgroup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Literal

import msgspec

from kubeledger.kubelet.allocation.allocation_manager import Rejection, Retried
from kubeledger.kubelet.allocation.handlers import (
    IN_PROGRESS,
    INFEASIBLE,
    NodeConfig,
    pod_resize_message,
)
from kubeledger.kubelet.allocation.state import same_resources
from kubeledger.kubelet.allocation.sync_handler import SyncHandler
from kubeledger.kubelet.cgroups.node_config import kubepods_resources, reservation_of
from kubeledger.kubelet.kube.pod import (
    Pod,
    PodCondition,
    PodStatus,
    ResourceRequirements,
    containers_of,
)
from kubeledger.kubelet.kube.quantity import Quantity
from kubeledger.kubelet.kuberuntime.objects import PodActions
from kubeledger.kubelet.kuberuntime.resize import MemoryLimit, validate_memory_resize
from kubeledger.model.bodies.lifecycle import PodResized
from kubeledger.model.units import NS_PER_S
from kubeledger.simulate.engine.admission import give, predicates
from kubeledger.simulate.engine.kubelet import Kubelet, Loop
from kubeledger.simulate.engine.schedule import Timer
from kubeledger.simulate.engine.world import SimPod

_FIRST_RETRY_NS, _RETRY_NS = 30 * NS_PER_S, 180 * NS_PER_S
_STATUS_NS = NS_PER_S
"""So long the API server takes to send a status back that the kubelet wrote."""
_MEMORY = "memory"
_PENDING = ("deferred", "infeasible")


class ResizeLoop(Loop):
    """The allocation manager of one kubelet process, and what syncs do for it."""

    def __init__(self, kubelet: Kubelet) -> None:
        super().__init__(kubelet)
        sim = kubelet.sim
        self._on = sim.profile.kuberuntime.resizes_in_place
        self._facts = sim.profile.allocation
        self._handler = SyncHandler(sim.profile, self._config(), self._admit)
        self._manager = self._handler.manager
        self._manager.allocated = sim.allocated
        sim.allocated.restore()
        self._adding: str | None = None
        self._said: dict[str, tuple[PodResized, int]] = {}
        self._timer: Timer | None = None

    def start(self) -> None:
        """What is pending is tried by the clock, too."""
        if self._on and self._facts.pending_resizes_queued:
            self._tick(_FIRST_RETRY_NS)

    # -- what happens to pods ----------------------------------------------------------------

    def added(self, pod: SimPod, cause: int) -> None:
        """A pod was admitted with what is allocated to it."""
        if self._on:
            self._adding = pod.uid
            self._ask(cause, self._handler.handle_pod_additions, [self._seen(pod)])

    def updated(self, pod: SimPod, cause: int) -> None:
        """A pod has another spec."""
        if self._on:
            pod.reported = pod.reported or dict(pod.actuated)
            self._ask(cause, self._handler.handle_pod_updates, [self._seen(pod)])

    def reconciled(self, pod: SimPod) -> None:
        """The API server has another status of a pod."""
        if self._on and pod.uid in self._handler.pods:
            self._ask(None, self._handler.handle_pod_reconcile, [self._seen(pod)])

    def removed(self, pod: SimPod) -> None:
        self._said.pop(pod.uid, None)
        if self._on:
            self._ask(None, self._handler.handle_pod_removes, [pod.uid])

    def synced(self, pod: SimPod) -> None:
        """A sync of a pod begins: where there is no queue it looks at the pod's resize.

        What its containers have been given is completed when the runtime shows it.
        """
        if not self._on or pod.generation == 1:
            return
        if not self._facts.pending_resizes_queued:
            self._ask(None, self._handler.sync_pods, [self._seen(pod)])
        if self._is_under_way(pod) and not self._is_in_progress(pod):
            self._complete(pod)

    def cause(self, pod: SimPod) -> int | None:
        """Record of a pod's last resize."""
        said = self._said.get(pod.uid)
        return None if said is None else said[1]

    # -- what a sync gives to the runtime ------------------------------------------------------

    def actuate(self, pod: SimPod, actions: PodActions) -> bool:
        """Give containers what was allocated to them; whether that could be done.

        Source: v1.36.2 pkg/kubelet/kuberuntime/kuberuntime_manager.go doPodResizeAction
        """
        names = list(
            dict.fromkeys(n for each in actions.containers_to_update.values() for n in each)
        )
        error = self._memory_error(pod, actions.containers_to_update.get(_MEMORY, ()))
        if error:
            self._fail(pod, error)
            return False
        self._kubelet.cgroups.pod_resized(pod, names)
        for container in containers_of(pod.api):
            if container.name in names:
                pod.actuated[container.name] = container.resources or ResourceRequirements()
        self._sim.memory.ask(pod)
        return True

    def started(self, pod: SimPod, name: str) -> None:
        """A container starts with what is allocated to it."""
        pod.actuated[name] = pod.allocated(name).resources or ResourceRequirements()

    def _memory_error(self, pod: SimPod, names: Iterable[str]) -> str:
        cgroups, memory = self._kubelet.cgroups, self._sim.memory
        limits = cgroups.memory_limits(pod)
        running = {i.container: i.container_id for i in self._sim.runtime.running(pod.uid)}
        used = sum(memory.used_bytes(container_id) for container_id in running.values())
        wanted = {c.name: _limit(c.resources) for c in containers_of(pod.api)}
        return validate_memory_resize(
            pod.name,
            MemoryLimit(*limits, used),
            {
                name: MemoryLimit(
                    _limit(pod.actuated.get(name)),
                    wanted.get(name),
                    memory.used_bytes(running.get(name, "")),
                )
                for name in names
            },
            self._sim.profile.kuberuntime,
        )

    def _fail(self, pod: SimPod, error: str) -> None:
        conditions = self._manager.conditions
        conditions.now_ns = self._clock.now_ns
        is_news = conditions.fail(pod.uid, error, pod.generation)
        pod.resize_conditions = tuple(conditions.of(pod.uid))
        self._say(pod, "allocated", "Error", error)
        if is_news and self._facts.resize_events:
            text = pod_resize_message("Pod resize error", self._seen(pod), error)
            self._kubelet.recorder.send(pod, "ResizeError", text)

    def _is_under_way(self, pod: SimPod) -> bool:
        said = self._said.get(pod.uid)
        allocated = said is not None and said[0].outcome == "allocated"
        return allocated or any(c.type == IN_PROGRESS for c in pod.resize_conditions)

    def _is_in_progress(self, pod: SimPod) -> bool:
        """Whether a running container has other resources than are allocated to it.

        Source: v1.36.2 pkg/kubelet/kuberuntime/kuberuntime_manager.go IsPodResizeInProgress
        """
        running = {i.container for i in self._sim.runtime.running(pod.uid)}
        return any(
            not same_resources(container.resources, pod.actuated.get(container.name or ""))
            for container in containers_of(pod.api)
            if container.name in running
        )

    def _complete(self, pod: SimPod) -> None:
        cause = self.cause(pod)
        self._begin()
        self._handler.completed([pod.uid])
        self._say(pod, "actuated", cause=cause)
        if self._facts.pending_resizes_queued:
            allocated = msgspec.structs.replace(self._seen(pod), spec=pod.api.spec)
            text = pod_resize_message("Pod resize completed", allocated)
            self._kubelet.recorder.send(pod, "ResizeCompleted", text, warns=False)
        self._done(cause)
        self._kubelet.after(_STATUS_NS, lambda: self._report(pod))

    def _report(self, pod: SimPod) -> None:
        pod.reported = dict(pod.actuated)
        self.reconciled(pod)

    # -- the manager ---------------------------------------------------------------------------

    def _config(self) -> NodeConfig:
        sim = self._sim
        capacity = dict(sim.machine.allocatable)
        if sim.profile.allocation.capacity_ignores_eviction_threshold:
            amounts = {name: Quantity.from_api(n) for name, n in sim.machine.capacity.items()}
            left = kubepods_resources(amounts, reservation_of(sim.settings.get))
            capacity = {name: amount.canonical() for name, amount in left.items()}
        cpu, memory = (sim.setting(f"{each}ManagerPolicy") or "" for each in ("cpu", "memory"))
        return NodeConfig(cpu, memory, dict(capacity), {})

    def _admit(self, api: Pod, _others: Sequence[Pod]) -> Rejection | None:
        """The admit handlers of a resize; a pod that is added has passed them.

        Differs: the managers of devices, CPUs and memory are not asked again.
        """
        uid = api.metadata.uid or ""
        if self._adding == uid:
            self._adding = None
            return None
        kubelet = self._kubelet
        pod = kubelet.sim.world.pods[uid]
        refusal = kubelet.eviction.refusal(pod)
        if refusal is None:
            result = predicates(kubelet, pod, api).result
            refusal = None if result.admit else (result.reason, result.message)
        return refusal or kubelet.shutdown.refusal()

    def _seen(self, pod: SimPod) -> Pod:
        """A pod as its source has it, with the status that the API server has."""
        metadata = msgspec.structs.replace(pod.desired.metadata, generation=pod.generation)
        conditions = tuple(
            PodCondition(each.type, each.reason, each.message, each.observed_generation)
            for each in pod.resize_conditions
        )
        statuses = pod.counted.status
        status = PodStatus(
            phase=pod.phase,
            conditions=conditions,
            container_statuses=None if statuses is None else statuses.container_statuses,
        )
        return msgspec.structs.replace(pod.desired, metadata=metadata, status=status)

    def _ask(self, cause: int | None, ask: Callable[..., object], *given: object) -> None:
        """Have the manager do something, because of what a record says."""
        self._begin()
        ask(*given)
        self._done(cause)

    def _begin(self) -> None:
        self._manager.conditions.now_ns = self._clock.now_ns
        self._handler.sources_ready = self._kubelet.pods.sources_ready

    def _done(self, cause: int | None) -> None:
        """Write down what the manager did, and let pods be synced."""
        happened, world = self._manager.take_happened(), self._sim.world
        for retried in happened.retried:
            if (pod := world.pods.get(retried.uid)) is not None:
                self._record(pod, retried, cause)
        for uid, event in happened.events:
            kind, reason, text = event.split(" ", 2)
            self._kubelet.recorder.send(world.pods[uid], reason, text, warns=kind == "Warning")
        for uid in dict.fromkeys((*self._manager.conditions.pods(), *self._handler.pods)):
            if (pod := world.pods.get(uid)) is not None and pod.generation > 1:
                pod.resize_conditions = tuple(self._manager.conditions.of(uid))
        for uid in happened.synced:
            if (pod := world.pods.get(uid)) is not None:
                self._kubelet.pods.sync(pod, self.cause(pod))
        if happened.tried and self._timer is not None:
            self._tick(_RETRY_NS if self._handler.sources_ready else _FIRST_RETRY_NS)

    def _record(self, pod: SimPod, retried: Retried, cause: int | None) -> None:
        refusal = retried.refusal
        if not retried.changed:
            if pod.uid in self._said and self._said[pod.uid][0].outcome != "allocated":
                del self._said[pod.uid]
        elif refusal is None:
            give(pod, pod.desired)
            self._say(pod, "allocated", cause=cause, again=True)
        elif refusal.reason == INFEASIBLE:
            self._say(pod, "infeasible", None, refusal.message, cause=cause)
        else:
            self._say(pod, "deferred", refusal.reason, refusal.message, cause=cause)

    def _say(
        self,
        pod: SimPod,
        outcome: Literal["allocated", "deferred", "infeasible", "actuated"],
        reason: str | None = None,
        message: str | None = None,
        *,
        cause: int | None = None,
        again: bool = False,
    ) -> None:
        """Record what became of a resize, if that is news; ``again``: it is, however alike."""
        body = PodResized(
            **pod.identity,
            outcome=outcome,
            reason=reason,
            message=message,
            resources=_asked(pod.desired if outcome in _PENDING else pod.api),
        )
        before = self._said.get(pod.uid)
        if before is None or again or not _is_same(before[0], body):
            seq = self._journal.write(body, cause=cause or self.cause(pod))
            self._said[pod.uid] = body, seq

    def _tick(self, wait_ns: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        retry = partial(self._ask, None, self._handler.periodic)
        self._timer = self._kubelet.after(wait_ns, retry)


def _is_same(before: PodResized, body: PodResized) -> bool:
    """The amounts in the words of one that is deferred change with what else is running."""
    return msgspec.structs.replace(before, message=body.message) == body


def _asked(pod: Pod) -> dict[str, Any]:
    """What a pod's containers ask for, as events tell it."""
    return {
        container.name or "": {
            kind: dict(amounts)
            for kind in ("requests", "limits")
            if (amounts := getattr(container.resources, kind, None))
        }
        for container in containers_of(pod)
    }


def _limit(resources: ResourceRequirements | None) -> int | None:
    """The limit of memory in bytes; None for none."""
    limits = (resources.limits if resources is not None else None) or {}
    return Quantity.from_api(limits[_MEMORY]).value() if _MEMORY in limits else None
