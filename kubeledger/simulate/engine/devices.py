"""Device manager of a simulated kubelet, and the plugins, which outlive it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from kubeledger.kubelet.devicemanager.allocate import AllocateCall, Served, decide
from kubeledger.kubelet.devicemanager.checkpoint import checkpoint_content, writes_checkpoint
from kubeledger.kubelet.devicemanager.manager import Device, ManagerImpl, NoContainers, RpcError
from kubeledger.kubelet.devicemanager.topology_hints import (
    device_limits,
    pod_device_request,
    topology_hints,
    wanted,
)
from kubeledger.kubelet.kube.containermanager import AllocationError
from kubeledger.kubelet.kube.pod import Container, Pod, is_sidecar
from kubeledger.kubelet.topologymanager.policy import ProviderHints, TopologyHint
from kubeledger.model.bodies.devicemanager import (
    NO_HINTS,
    AllocationFailed,
    AllocationRequested,
    DevicesAllocated,
    DevicesReleased,
    DevicesReported,
    EndpointStopped,
    PluginRegistered,
)
from kubeledger.model.units import NS_PER_S
from kubeledger.simulate.engine.kubelet import Kubelet, Loop, Part
from kubeledger.simulate.engine.machine import duration_ns
from kubeledger.simulate.engine.plan import DeviceScript, PluginScript, PluginStep
from kubeledger.simulate.engine.world import DeviceCheckpoint, SimPod

if TYPE_CHECKING:
    from kubeledger.simulate.engine.sim import Sim

_UNHEALTHY = "Unhealthy"
_HEALTHY = "Healthy"


class SimPlugin(Part):
    """One plugin: its devices as they are now, and its answers.

    Attributes:
        up: it runs and wants to be registered.
    """

    def __init__(self, sim: Sim, script: PluginScript) -> None:
        super().__init__(sim)
        self.resource = script.resource
        self.up = False
        self._script = script
        self._unhealthy: set[str] = set()
        for step in script.steps:
            sim.schedule.at(sim.plan.start_ns + step.at_ns, partial(self._do, step))

    def devices(self) -> tuple[Device, ...]:
        """Its list as it would send it now."""
        return tuple(
            Device(d.id, _UNHEALTHY if d.id in self._unhealthy else _HEALTHY, d.numa)
            for d in self._script.devices
        )

    def preferred(
        self, available: frozenset[str], must_include: frozenset[str], size: int
    ) -> frozenset[str] | RpcError | None:
        """Answer to GetPreferredAllocation, by the script."""
        rest = [d for d in self._script.devices if d.id in available - must_include]
        match self._script.preferred:
            case None:
                return None
            case "last":
                rest.reverse()
            case "spread":
                rest = _in_turn(rest)
            case "packed":
                held = [d for d in self._script.devices if d.id in must_include]
                rest = _packed(rest, held)
            case "first":
                pass
        return must_include | {d.id for d in rest[: max(size - len(must_include), 0)]}

    def allocate(self, devices: frozenset[str]) -> RpcError | NoContainers | None:
        """Answer to Allocate: it never refuses."""
        del devices
        return None

    def _do(self, step: PluginStep) -> None:
        devices = self._sim.newest_kubelet.devices
        match step.does:
            case "register":
                self.up = True
                devices.plugin_registers(self)
            case "crash":
                self.up = False
                devices.plugin_stopped(self)
            case "healthy":
                self._unhealthy.difference_update(step.devices)
                devices.plugin_sends(self)
            case "unhealthy":
                self._unhealthy.update(step.devices)
                devices.plugin_sends(self)


def _node(device: DeviceScript) -> int:
    return min(device.numa) if device.numa else -1


def _in_turn(devices: list[DeviceScript]) -> list[DeviceScript]:
    """One of each NUMA node, then the next of each."""
    turns: dict[int, int] = {}
    ranked = []
    for place, device in enumerate(devices):
        turn = turns[_node(device)] = turns.get(_node(device), -1) + 1
        ranked.append((turn, _node(device), place, device))
    return [device for *_, device in sorted(ranked, key=lambda entry: entry[:3])]


def _packed(devices: list[DeviceScript], held: list[DeviceScript]) -> list[DeviceScript]:
    """NUMA nodes that are begun first, then those with most devices."""
    count: dict[int, int] = {}
    for device in devices:
        count[_node(device)] = count.get(_node(device), 0) + 1
    begun = {_node(device) for device in held}
    return sorted(devices, key=lambda d: (_node(d) not in begun, -count[_node(d)], _node(d)))


_REGISTERS_AFTER_NS = NS_PER_S
_COUNTS = re.compile(r"Requested: (\d+), Available: (\d+)")
_BEFORE_NEED = (
    'pod "',
    "cannot allocate unregistered device",
    "no healthy devices present",
    "previously allocated devices are no longer healthy",
)
"""Errors of checks that come before the line which says that devices are needed."""


class DeviceLoop(Loop):
    """Devices of one kubelet process; a hint provider of its topology manager.

    Attributes:
        capacity, allocatable: extended resources of the node's last status: all devices, and
            healthy ones.
        shortages: of resources without a hint, in the order found.
    """

    def __init__(self, kubelet: Kubelet) -> None:
        super().__init__(kubelet)
        self.shortages: list[AllocationFailed] = []
        self._facts = kubelet.sim.profile.devices
        self.manager = ManagerImpl(kubelet.sim.plan.node.numa_nodes, self._facts)
        self.allocatable: dict[str, str] = {}
        self.capacity: dict[str, str] = {}
        self._begun = False
        self._ran_at_start: set[str] = set()

    # -- plugins ---------------------------------------------------------------------------

    def start(self) -> None:
        """Read the checkpoint; plugins that run find the kubelet a second later."""
        self._begun = True
        checkpoint = self._sim.checkpoint
        if checkpoint is not None:
            for entry in checkpoint.entries:
                record = {int(node or 0): list(ids) for node, ids in entry.numa.items()}
                self.manager.pod_devices.insert(
                    entry.pod_uid, entry.container, entry.resource, record
                )
            now_ns = self._clock.now_ns
            self.manager.restart(checkpoint.registered, now_ns)
        self._ran_at_start = {
            instance.container_id
            for uid in self._sim.runtime.pods()
            for instance in self._sim.runtime.running(uid)
        }
        for plugin in self._sim.plugins:
            if plugin.up:
                self._kubelet.after(_REGISTERS_AFTER_NS, partial(self._register_if_up, plugin))
        self._update_status()
        period_ns = duration_ns(self._sim.settings, "nodeStatusUpdateFrequency", "10s")
        self._kubelet.every(max(period_ns, NS_PER_S), self._update_status)

    def plugin_registers(self, plugin: SimPlugin) -> None:
        """A plugin came up; while no kubelet is there, it waits for one."""
        if self._kubelet.alive and self._begun:
            self.manager.register(plugin.resource, plugin)
            self._journal.write(PluginRegistered(resource=plugin.resource))
            self.plugin_sends(plugin)

    def plugin_sends(self, plugin: SimPlugin) -> None:
        """A plugin sends its list."""
        endpoint = self.manager.endpoints.get(plugin.resource)
        if not self._kubelet.alive or endpoint is None or endpoint.stopped_at_ns is not None:
            return
        devices = plugin.devices()
        self.manager.report(plugin.resource, devices)
        healthy = sorted(self.manager.healthy[plugin.resource])
        self._journal.write(
            DevicesReported(
                resource=plugin.resource,
                total=len(devices),
                healthy=len(healthy),
                device_ids=tuple(healthy),
            )
        )
        self._write_checkpoint()

    def plugin_stopped(self, plugin: SimPlugin) -> None:
        """A plugin's process ended."""
        endpoint = self.manager.endpoints.get(plugin.resource)
        if not self._kubelet.alive or endpoint is None or endpoint.stopped_at_ns is not None:
            return
        now_ns = self._clock.now_ns
        self.manager.stream_ended(plugin.resource, endpoint, now_ns)
        self._journal.write(
            EndpointStopped(
                resource=plugin.resource,
                error="rpc error: code = Unavailable desc = error reading from server: EOF",
            )
        )

    def _register_if_up(self, plugin: SimPlugin) -> None:
        endpoint = self.manager.endpoints.get(plugin.resource)
        if plugin.up and (endpoint is None or endpoint.stopped_at_ns is not None):
            self.plugin_registers(plugin)

    # -- what the node lists ---------------------------------------------------------------

    def listed(self) -> dict[str, str]:
        """Extended resources as admission sees them: at least what is in use.

        Source: v1.20.2 pkg/kubelet/cm/devicemanager/manager.go sanitizeNodeAllocatable
        """
        listed = dict(self.allocatable)
        for resource, devices in sorted(self.manager.allocated.items()):
            if len(devices) > int(listed.get(resource, -1)):
                listed[resource] = str(len(devices))
        return listed

    def _update_status(self) -> None:
        """The node's status is written: what has no plugin for five minutes is dropped."""
        now_ns = self._clock.now_ns
        found = self.manager.get_capacity(now_ns)
        gone = dict.fromkeys(found.deleted, "0")
        self.capacity = {**self.capacity, **gone, **_texts(found.capacity)}
        self.allocatable = {**self.allocatable, **gone, **_texts(found.allocatable)}
        if found.deleted:
            self._write_checkpoint()
        self._sim.agent.look_at_node(self._kubelet)

    # -- admission -------------------------------------------------------------------------

    def get_topology_hints(self, pod: Pod, container: Container) -> ProviderHints:
        return self._hints(pod, container.name or "", device_limits(container))

    def get_pod_topology_hints(self, pod: Pod) -> ProviderHints:
        return self._hints(pod, None, pod_device_request(pod.spec, self._facts))

    def _hints(self, pod: Pod, container: str | None, requests: Mapping[str, int]) -> ProviderHints:
        """Hints, and a shortage of what has none for there are too few devices."""
        whose = self._sim.world.pods[pod.metadata.uid or ""]
        active = self._collecting(whose)
        hints = topology_hints(self.manager, whose.uid, container, requests, active)
        for resource in hints:
            requested = requests[resource]
            available = wanted(self.manager, whose.uid, container, resource, requested).shortage
            if available is not None:
                shortage = AllocationFailed(
                    **whose.identity,
                    container=container,
                    resource=resource,
                    requested=requested,
                    available=available,
                    error=NO_HINTS,
                )
                self.shortages.append(shortage)
        return hints

    def _active(self, pod: SimPod) -> frozenset[str]:
        return frozenset([*(p.uid for p in self._sim.world.active_pods()), pod.uid])

    def _collecting(self, pod: SimPod) -> frozenset[str] | None:
        """Pods that keep their devices, once those of all others are on record as released."""
        if not self._kubelet.pods.sources_ready:
            return None
        active = self._active(pod)
        for uid in sorted(self.manager.pod_devices.pods() - active):
            self._journal.write(DevicesReleased(pod_uid=uid))
        return active

    def allocate(self, pod: Pod, container: Container, affinity: TopologyHint) -> None:
        """Give a container its devices."""
        whose, limits = self._sim.world.pods[pod.metadata.uid or ""], device_limits(container)
        if any(self.manager.is_device_plugin_resource(resource) for resource in limits):
            self._collecting(whose)
        called = whose.container(container.name or "")
        call = AllocateCall(
            pod=whose.uid,
            container=called.name,
            limits=limits,
            is_init=called.init,
            is_restartable=called.init and is_sidecar(container),
            affinity=affinity.affinity,
            active_pods=self._active(whose),
            sources_ready=self._kubelet.pods.sources_ready,
            ran_at_start=called.container_id in self._ran_at_start,
        )
        asked = False

        def on_served(served: Served) -> None:
            nonlocal asked
            asked = asked or bool(served.devices)
            self._write_served(whose, served)

        error = decide(self.manager, call, on_served)
        if limits and writes_checkpoint(error, self._facts, plugin_asked=asked):
            self._write_checkpoint()
        if error:
            raise AllocationError(error)

    def allocate_pod(self, pod: Pod, affinity: TopologyHint) -> None:
        """Devices are not given to a pod as a whole."""

    def _write_served(self, pod: SimPod, served: Served) -> None:
        request, journal, cause = served.request, self._journal, None
        whose = {**pod.identity, "container": request.container, "resource": request.resource}
        if served.needed and request.required and not served.error.startswith(_BEFORE_NEED):
            cause = journal.write(AllocationRequested(**whose, needed=request.required))
        if served.error:
            counts = _COUNTS.search(served.error)
            failed = AllocationFailed(
                **whose,
                requested=int(counts[1]) if counts else None,
                available=int(counts[2]) if counts else None,
                error=served.error,
            )
            journal.write(failed, cause=cause)
        elif served.devices:
            record = self.manager.pod_devices.held_by(pod.uid, request.container)
            numa = {str(node): tuple(sorted(ids)) for node, ids in record[request.resource].items()}
            granted = DevicesAllocated(
                **whose,
                device_ids=tuple(sorted(served.devices)),
                numa=numa if self._facts.recorded_per_numa else None,
            )
            journal.write(granted, cause=cause)

    def _write_checkpoint(self) -> None:
        self._sim.checkpoint = DeviceCheckpoint(*checkpoint_content(self.manager))


def _texts(counts: Mapping[str, int]) -> dict[str, str]:
    return {resource: str(count) for resource, count in counts.items()}
