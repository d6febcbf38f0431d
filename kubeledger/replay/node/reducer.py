"""From records to the node's state: routing, and what one subsystem needs of another.

Each record goes to the subsystem of its kind. Around that stand the few reactions between
subsystems:

* a record about a pod without UID is about the newest pod of that name on the node;
* when a pod ends (is rejected, terminated or gone), its devices, affinities, failing pulls and
  probe workers end with it, and a preemptor waits for it no more; what is said of it later
  changes none;
* a container that starts under a new ID is taken up by its probe workers;
* a new kubelet process begins with empty memory (:func:`kubeledger.replay.node.kubelet.start`).

``evolve`` is total: whatever comes, in whatever order, it gives a state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, get_args

import msgspec

from kubeledger.kubelet.allocation import reducer as allocation
from kubeledger.kubelet.cgroups import reducer as cgroups
from kubeledger.kubelet.cpumanager import reducer as cpumanager
from kubeledger.kubelet.devicemanager import reducer as devicemanager
from kubeledger.kubelet.dra import reducer as dra
from kubeledger.kubelet.imagepull import reducer as imagepull
from kubeledger.kubelet.images import reducer as images
from kubeledger.kubelet.kube.resources import pod_key
from kubeledger.kubelet.lifecycle import reducer as lifecycle
from kubeledger.kubelet.lifecycle.reducer import AboutPod
from kubeledger.kubelet.lifecycle.state import ContainerState, PodState, key_of, meet
from kubeledger.kubelet.memorymanager import reducer as memorymanager
from kubeledger.kubelet.preemption import reducer as preemption
from kubeledger.kubelet.prober import reducer as prober
from kubeledger.kubelet.topologymanager import reducer as topologymanager
from kubeledger.model.bodies.devicemanager import DevicesAllocated
from kubeledger.model.bodies.eviction import PodPreempted, ProcessKilled
from kubeledger.model.bodies.images import PullDecided, PullEnded
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerRestarted,
    ContainerStarted,
    KubernetesEvent,
)
from kubeledger.model.bodies.prober import (
    ProbeCountersRead,
    ProbeExecuted,
    ProbeTicksFolded,
    ProbeTransitioned,
)
from kubeledger.model.bodies.resourcemanagers import AffinityDecided
from kubeledger.model.record import Body, Record
from kubeledger.replay.node import kubelet
from kubeledger.replay.node.state import NodeState

K = TypeVar("K")
V = TypeVar("V")
Step = Callable[[NodeState, int, Any], None]
Steps = Mapping[type[Body], Step]
Handler = Callable[[Any, int, Any], None]
PodBound = (
    DevicesAllocated
    | AffinityDecided
    | ProbeCountersRead
    | ProbeExecuted
    | ProbeTicksFolded
    | ProbeTransitioned
)
"""Bodies that count only while their pod is on the node and has not ended."""


def evolve(state: NodeState, record: Record, steps: Steps | None = None) -> NodeState:
    """Apply one record to the state, in place; a kind it does not know changes only ``seq``.

    Args:
        state: owned by the caller, who must not keep it from before.
        record: the next one in the order of the ledger.
        steps: what kinds do; None: all that they do.

    Returns:
        The same object.
    """
    ts_ns = record.ts_ns
    state.node = record.node
    state.seq = record.seq
    state.ts_ns = ts_ns
    if state.latest_ts_ns is None or ts_ns > state.latest_ts_ns:
        state.latest_ts_ns = ts_ns
    step = (steps or _STEPS).get(type(record.body))
    if step is not None:
        step(state, ts_ns, record.body)
    return state


def steps_without(part: str) -> Steps:
    """What records do where nobody reads one subsystem's part of the state; it stays empty."""
    return _steps(without=part)


def _of_pod(part: str, handler: Handler | None) -> Step:
    """A step for what a subsystem knows of a pod that is on the node and has not ended.

    Without a handler it says only that the pod is there.
    """

    def step(state: NodeState, ts_ns: int, body: PodBound) -> None:
        pods = state.lifecycle
        pod = pods.pods.get(body.pod_uid) if body.pod_uid else None
        if pod is not None:
            pod.kubelet_run = pods.kubelet_run
        else:
            named_before = pods.without_uid
            pod = meet(pods, ts_ns, body.pod_uid, body.namespace, body.pod)
            if pod is None:
                return
            if pods.without_uid < named_before:
                _rename(state, body.namespace, body.pod, body.pod_uid)
        if handler is None or pod.ended:
            return
        if not body.pod_uid:
            key = key_of(pods, None, body.namespace, body.pod)
            body = msgspec.structs.replace(body, pod_uid=key)
        handler(getattr(state, part), ts_ns, body)

    return step


def _of_lifecycle(handler: Handler) -> Step:
    """A step for the pods themselves, after which others may have to let a pod go."""

    def step(state: NodeState, ts_ns: int, body: AboutPod) -> None:
        pods = state.lifecycle
        named_before = pods.without_uid
        key = key_of(pods, body.pod_uid, body.namespace, body.pod)
        handler(pods, ts_ns, body)
        if pods.without_uid < named_before:
            _rename(state, body.namespace, body.pod, body.pod_uid)
        if key is not None:
            _settle(state, key, pods.pods.get(key))

    return step


def _of_node(part: str, handler: Handler) -> Step:
    """A step for what concerns no single pod."""

    def step(state: NodeState, ts_ns: int, body: Body) -> None:
        handler(getattr(state, part), ts_ns, body)

    return step


def _rename(state: NodeState, namespace: str | None, pod: str | None, uid: str | None) -> None:
    """Move what stood under the pod's name to its UID, which the record gave."""
    old = pod_key(None, namespace, pod)
    if old is None or uid is None or uid not in state.lifecycle.pods:
        return
    move(state.devicemanager.pods, old, uid)
    move(state.topologymanager.pods, old, uid)
    move(state.prober.pods, old, uid)
    move(state.imagepull.failing, old, uid)
    victim = state.preemption.victims.pop(old, None)
    if victim is not None:
        state.preemption.victims.setdefault(uid, victim)


def move(held: dict[str, dict[K, V]], old: str, new: str) -> None:
    """What is held of a pod stands under another key; what is newer there wins."""
    found = held.pop(old, None)
    if found is not None:
        held[new] = found | held.get(new, {})


def _settle(state: NodeState, key: str, pod: PodState | None) -> None:
    """Let go of a pod that ended or is gone."""
    if pod is None:
        state.preemption.victims.pop(key, None)
    elif pod.ended:
        if pod.terminated:
            preemption.pod_ended(state.preemption, key)
    else:
        return
    for held in (state.topologymanager.pods, state.prober.pods, state.imagepull.failing):
        held.pop(key, None)


def _container_started(
    state: NodeState, ts_ns: int, body: ContainerStarted | ContainerRestarted
) -> None:
    _CONTAINER_STEPS[type(body)](state, ts_ns, body)
    if body.container is not None and body.container_id is not None:
        key = key_of(state.lifecycle, body.pod_uid, body.namespace, body.pod)
        if key is not None:
            prober.container_started(state.prober, key, body.container, body.container_id)


def _container_died(state: NodeState, ts_ns: int, body: ContainerDied) -> None:
    _CONTAINER_STEPS[type(body)](state, ts_ns, body)
    key = key_of(state.lifecycle, body.pod_uid, body.namespace, body.pod)
    if key is not None and key in state.preemption.victims:
        pod = state.lifecycle.pods.get(key)
        if pod is None or not pod.runs():
            preemption.pod_ended(state.preemption, key)


def _process_killed(state: NodeState, ts_ns: int, body: ProcessKilled) -> None:
    """The kernel killed a process; its container may run on."""
    pods = state.lifecycle
    pods.counts["oom_killed"] = pods.counts.get("oom_killed", 0) + 1
    if body.namespace is None or body.pod is None:
        return
    key = key_of(pods, body.pod_uid, body.namespace, body.pod)
    pod = pods.pods.get(key) if key is not None else None
    if pod is not None and body.container is not None:
        container = pod.containers.setdefault(body.container, ContainerState())
        container.oom_kills += 1
        container.oom_killed_ts_ns = ts_ns


def _pull_decided(state: NodeState, ts_ns: int, body: PullDecided | PullEnded) -> None:
    """A pod that nothing else shows is not followed."""
    key = key_of(state.lifecycle, body.pod_uid, body.namespace, body.pod)
    pod = state.lifecycle.pods.get(key) if key is not None else None
    if key is not None and pod is not None and not pod.ended:
        imagepull.decided(state.imagepull, key, ts_ns, body)


def _reason_reported(state: NodeState, ts_ns: int, body: KubernetesEvent) -> None:
    if body.object_kind == "Node":
        reasons = state.machine.reasons
        reasons[body.reason] = reasons.get(body.reason, 0) + body.count
    else:
        lifecycle.HANDLERS[KubernetesEvent](state.lifecycle, ts_ns, body)


def _pod_preempted(state: NodeState, ts_ns: int, body: PodPreempted) -> None:
    pods = state.lifecycle
    named_before = pods.without_uid
    victim = meet(pods, ts_ns, body.victim_uid, body.victim_namespace, body.victim_pod)
    if pods.without_uid < named_before and body.victim_uid is not None:
        _rename(state, body.victim_namespace, body.victim_pod, body.victim_uid)
    key = key_of(pods, body.victim_uid, body.victim_namespace, body.victim_pod)
    preemptor = body.preemptor_uid
    if preemptor is None and body.preemptor_pod is not None:
        named = key_of(pods, None, body.preemptor_namespace, body.preemptor_pod)
        preemptor = named if named in pods.pods else None
    body = msgspec.structs.replace(body, victim_uid=key, preemptor_uid=preemptor)
    preemption.HANDLERS[PodPreempted](state.preemption, ts_ns, body)
    if key is not None and (victim is None or victim.terminated):
        preemption.pod_ended(state.preemption, key)
        if victim is None:
            state.preemption.victims.pop(key, None)


_CONTAINER_STEPS: dict[type[Body], Step] = {
    kind: _of_lifecycle(lifecycle.HANDLERS[kind])
    for kind in (ContainerDied, ContainerRestarted, ContainerStarted)
}


def _steps(without: str | None = None) -> Steps:
    steps: dict[type[Body], Step] = dict(kubelet.STEPS)
    for part, module in (
        ("allocation", allocation),
        ("cgroups", cgroups),
        ("cpumanager", cpumanager),
        ("devicemanager", devicemanager),
        ("dra", dra),
        ("imagepull", imagepull),
        ("images", images),
        ("memorymanager", memorymanager),
        ("preemption", preemption),
        ("prober", prober),
        ("topologymanager", topologymanager),
    ):
        for kind, handler in module.HANDLERS.items():
            if kind in get_args(PodBound):
                steps[kind] = _of_pod(part, None if part == without else handler)
            elif part != without:
                steps[kind] = _of_node(part, handler)
    for kind, handler in lifecycle.HANDLERS.items():
        steps[kind] = _of_lifecycle(handler)
    steps[ContainerStarted] = steps[ContainerRestarted] = _container_started
    steps[ContainerDied] = _container_died
    steps[KubernetesEvent] = _reason_reported
    steps[PodPreempted] = _pod_preempted
    steps[PullDecided] = steps[PullEnded] = _pull_decided
    steps[ProcessKilled] = _process_killed
    return steps


_STEPS = _steps()
"""Body type -> what it does; a dictionary, because this is the inner loop of every replay."""
