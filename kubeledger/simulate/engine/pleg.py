"""The pod lifecycle event generator, and the phase and status of a pod that follow.

What the kubelet knows of containers is what was listed last. A relist without a change does
nothing, so it is only scheduled where there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from kubeledger.kubelet.allocation.handlers import ResizeCondition
from kubeledger.kubelet.kube.statuses import container_should_restart, policy_restarts
from kubeledger.kubelet.kuberuntime.objects import Container
from kubeledger.kubelet.profile.lifecycle import KuberuntimeFacts
from kubeledger.model.units import NS_PER_S, format_ts
from kubeledger.simulate.engine.kubelet import Kubelet, Loop
from kubeledger.simulate.engine.world import Instance, SimContainer, SimPod

_PERIOD_NS = NS_PER_S
View = Mapping[str, Instance]
"""Container name -> its newest instance, as listed."""


class Changes(msgspec.Struct, frozen=True):
    """What a relist found of one pod.

    Attributes:
        died: instances that ended; ``unseen``: those of them that were not listed before.
    """

    uid: str
    died: tuple[Instance, ...]
    unseen: tuple[Instance, ...]
    started: tuple[Instance, ...]


class Pleg(Loop):
    """Lists of containers by pod, as of the last relist."""

    def __init__(self, kubelet: Kubelet, send: Callable[[list[Changes]], None]) -> None:
        super().__init__(kubelet)
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
        runtime = self._sim.runtime
        self._phase_ns = self._clock.now_ns
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
        at_ns = self._tick_after(self._clock.now_ns)
        while down := self._sim.failures.span("runtime", at_ns):
            at_ns = self._tick_after(down[1] - 1)
        return at_ns

    def listed_ns(self) -> int:
        """When the runtime was listed last."""
        at_ns = self._tick_after(self._clock.now_ns) - _PERIOD_NS
        while down := self._sim.failures.span("runtime", at_ns):
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
            wait_ns = self.next_relist_ns() - self._clock.now_ns
            self._kubelet.after(wait_ns, self._relist)

    def _relist(self) -> None:
        self._due = False
        found = self._list()
        if found:
            self._send(found)

    def _list(self) -> list[Changes]:
        changed, self._changed = self._changed, {}
        runtime = self._sim.runtime
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


# Phase and status of a pod, from what is known of its containers.

DEADLINE = "DeadlineExceeded"
DEADLINE_MESSAGE = "Pod was active on the node longer than the specified deadline"

Phase = Literal["Pending", "Running", "Succeeded", "Failed"]


def phase_of(pod: SimPod, view: View, facts: KuberuntimeFacts) -> Phase:
    """The phase by the states of the containers, a container by its newest instance.

    Source: v1.36.2 pkg/kubelet/kubelet_pods.go getPhase
    Differs: a container is never in an unknown state, and one that waits for its restart is
        the instance that ended. A pod that is taken down keeps its phase or gets one.
    """
    spec = pod.synced.spec
    sidecars = {container.name for container in pod.containers if container.sidecar}
    inits = [c for c in spec.init_containers or () if c.name not in sidecars]
    apps = spec.containers or ()
    if any(_ended_for_good(pod, c, view.get(c.name), facts, init=True) for c in inits):
        return "Failed"
    if any(c.name not in view or view[c.name].running for c in inits):
        return "Pending"
    if any(c.name not in view for c in apps):
        return "Pending"
    if any(view[name].running for name in (*sidecars, *(c.name for c in apps)) if name in view):
        return "Running"
    if not all(_ended_for_good(pod, c, view[c.name], facts) for c in apps):
        return "Running"
    return "Failed" if any(view[c.name].exit_code for c in apps) else "Succeeded"


def _ended_for_good(
    pod: SimPod,
    container: Container,
    instance: Instance | None,
    facts: KuberuntimeFacts,
    *,
    init: bool = False,
) -> bool:
    """Whether a container has ended, an init container in failure, and does not run again."""
    if instance is None or instance.exit_code is None or (init and not instance.exit_code):
        return False
    policy = pod.synced.spec.restart_policy or ""
    if facts.container_restart_rules:
        return not container_should_restart(
            container, policy, instance.exit_code, restart_all=facts.restart_all_containers
        )
    return not policy_restarts(policy, instance.exit_code)


def deadline_ns(pod: SimPod) -> int | None:
    """When a pod has been active for too long; counted from the second of its start."""
    seconds = pod.spec.get("activeDeadlineSeconds")
    if not isinstance(seconds, int):
        return None
    return (pod.added_ns // NS_PER_S + seconds) * NS_PER_S


def past_deadline(pod: SimPod, now_ns: int) -> bool:
    """Whether it has been.

    Source: v1.36.2 pkg/kubelet/active_deadline.go pastActiveDeadline
    """
    deadline = deadline_ns(pod)
    return deadline is not None and now_ns >= deadline


def status_of(pod: SimPod, instances: tuple[Instance, ...]) -> dict[str, Any]:
    """The status as the kubelet's own list of pods shows it.

    Args:
        instances: all of it that the last sync saw, oldest first.
    """
    view = {i.container: i for i in instances if i.container is not None}
    groups: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
    for container in pod.containers:
        groups[container.init].append(_container(pod, container, instances, view))
    apps = groups[False]
    all_ready = bool(apps) and all(c["ready"] for c in apps) and pod.phase == "Running"
    initialized = any(c["name"] in view for c in apps) or not groups[True]
    conditions = {
        "Initialized": initialized,
        "Ready": all_ready,
        "ContainersReady": all_ready,
        "PodScheduled": True,
    }
    status: dict[str, Any] = {
        "phase": pod.phase,
        "conditions": [
            {"type": kind, "status": "True" if holds else "False"}
            for kind, holds in conditions.items()
        ],
        "qosClass": pod.qos_class,
        "startTime": _second(pod.added_ns),
    }
    made = [claim for claim in pod.claims if claim.is_made]
    if made:
        status["resourceClaimStatuses"] = [
            {"name": claim.in_spec, "resourceClaimName": claim.name} for claim in made
        ]
    status["conditions"] += map(_resize_condition, pod.resize_conditions)
    if pod.reason:
        status |= {"reason": pod.reason, "message": pod.message}
    if pod.admitted is False:
        return {k: v for k, v in status.items() if k != "conditions"}
    if groups[True]:
        status["initContainerStatuses"] = groups[True]
    status["containerStatuses"] = groups[False]
    return status


def _container(
    pod: SimPod, container: SimContainer, instances: tuple[Instance, ...], view: View
) -> dict[str, Any]:
    newest = view.get(container.name)
    status: dict[str, Any] = {
        "name": container.name,
        "image": pod.image(container.name) if newest is None else newest.image,
        "ready": container.ready and newest is not None and newest.running,
        "started": container.started and newest is not None and newest.running,
        "restartCount": 0 if newest is None else newest.restarts,
        "lastState": {},
    }
    if container.init and not container.sidecar:
        status["ready"] = newest is not None and newest.exit_code == 0
    if newest is None:
        why = "PodInitializing" if pod.sandbox_id else "ContainerCreating"
        state = _waiting(container) or {"waiting": {"reason": why}}
        return status | {"imageID": "", "state": state}
    status |= {
        "containerID": f"containerd://{newest.container_id}",
        "imageID": "",
        "state": _state(newest),
    }
    if container.name in pod.reported:
        status["resources"] = msgspec.to_builtins(pod.reported[container.name], str_keys=True)
    held = {"waiting": {"reason": "CrashLoopBackOff"}} if container.backed_off else None
    held = held or _waiting(container)
    if held and not newest.running and not pod.terminated and not pod.deleting:
        status["state"] = held
        status["lastState"] = _state(newest)
        return status
    before = [i for i in instances if i.container_id == newest.previous_id]
    if before and not before[0].running:
        status["lastState"] = _state(before[0])
    return status


def _resize_condition(told: ResizeCondition) -> dict[str, Any]:
    condition = {
        "type": told.type,
        "status": "True",
        "reason": told.reason,
        "message": told.message,
        "lastProbeTime": _second(told.last_probe_ns),
        "lastTransitionTime": _second(told.last_transition_ns),
    }
    shown = {key: value for key, value in condition.items() if value}
    generation = told.observed_generation
    return {**shown, "observedGeneration": generation} if generation else shown


def _waiting(container: SimContainer) -> dict[str, Any] | None:
    if container.waiting is None:
        return None
    reason, message = container.waiting
    return {"waiting": {"reason": reason, "message": message}}


def _state(instance: Instance) -> dict[str, Any]:
    started = _second(instance.started_ns)
    if instance.finished_ns is None:
        return {"running": {"startedAt": started}}
    return {
        "terminated": {
            "exitCode": instance.exit_code,
            "reason": _reason(instance),
            "startedAt": started,
            "finishedAt": _second(instance.finished_ns),
            "containerID": f"containerd://{instance.container_id}",
        }
    }


def _reason(instance: Instance) -> str:
    """As containerd has it: a kill of any process in the container stays."""
    if instance.oom_killed:
        return "OOMKilled"
    return "Error" if instance.exit_code else "Completed"


def _second(ts_ns: int) -> str:
    """Times in the API are whole seconds."""
    return format_ts(ts_ns // NS_PER_S * NS_PER_S)
