"""The kubelet process and the machine it runs on: records to state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

from kubeledger.kubelet.devicemanager import reducer as devicemanager
from kubeledger.kubelet.images import reducer as images
from kubeledger.kubelet.lifecycle.state import drop_silent
from kubeledger.model.bodies.eviction import NodeCondition, NodeConditionsChanged
from kubeledger.model.bodies.node import (
    ClockStepped,
    KubeletStarted,
    NodeConditionChanged,
    NodeObserved,
    SettingsObserved,
)
from kubeledger.model.record import Body
from kubeledger.replay.node.state import NodeState


def start(state: NodeState, ts_ns: int, body: KubeletStarted) -> None:
    """A kubelet process began; if it followed on another, that one's memory is gone.

    Gone are probe workers, image records, back-offs of pulls, eviction signals, pressure
    conditions, affinities and plugin endpoints.
    What a checkpoint, the runtime or the API server keeps stays: devices held, pods and
    containers, cgroups.
    """
    known = state.kubelet
    if body.restart or _another_process(state, body):
        known.restarts += 1
        state.machine.pressure = {}
        for held in (state.prober.pods, state.imagepull.failing, state.topologymanager.pods):
            held.clear()
        images.forget_all(state.images)
        devicemanager.stop_endpoints(state.devicemanager, ts_ns)
        for key in drop_silent(state.lifecycle):
            state.preemption.victims.pop(key, None)
    elif known.started_ts_ns is not None and body.pid is not None:
        return  # another source shows the same process
    if body.from_start and state.machine.pressure is None:
        state.machine.pressure = {}
    known.pid = body.pid
    known.version = body.kubelet_version
    known.version_source = body.version_source
    known.version_text = body.version_text
    known.started_ts_ns = ts_ns


def _another_process(state: NodeState, body: KubeletStarted) -> bool:
    known = state.kubelet.pid
    return known is not None and body.pid is not None and body.pid != known


def _settings_observed(state: NodeState, ts_ns: int, body: SettingsObserved) -> None:
    state.settings.update(body.settings)
    if found := (*body.conflicts, *body.outdated):
        state.conflicts = found


def _node_observed(state: NodeState, ts_ns: int, body: NodeObserved) -> None:
    machine = state.machine
    if body.capacity is not None or body.labels:
        machine.labels = body.labels
        machine.taints = body.taints
    for name in ("capacity", "allocatable", "cpus", "memory_capacity_bytes", "numa_nodes"):
        value = getattr(body, name)
        if value is not None:
            setattr(machine, name, value)


def _clock_stepped(state: NodeState, ts_ns: int, body: ClockStepped) -> None:
    state.machine.clock_steps += 1


def _conditions_changed(state: NodeState, ts_ns: int, body: NodeConditionsChanged) -> None:
    known = state.machine.pressure or {}
    state.machine.pressure = {name: known.get(name, ts_ns) for name in body.conditions}


def _condition_changed(state: NodeState, ts_ns: int, body: NodeConditionChanged) -> None:
    if body.condition not in get_args(NodeCondition):
        return
    known = state.machine.pressure or {}
    if body.status == "True":
        state.machine.pressure = {body.condition: body.transition_ts_ns or ts_ns} | known
    elif body.status == "False":
        state.machine.pressure = {n: since for n, since in known.items() if n != body.condition}


STEPS: dict[type[Body], Callable[[NodeState, int, Any], None]] = {
    ClockStepped: _clock_stepped,
    KubeletStarted: start,
    NodeConditionChanged: _condition_changed,
    NodeConditionsChanged: _conditions_changed,
    NodeObserved: _node_observed,
    SettingsObserved: _settings_observed,
}
"""Body type -> what it does to the state."""
