"""Device plugins: processes of their own, which outlive a kubelet and find the next one."""

from __future__ import annotations

from functools import partial

from kubeledger.kubelet.devicemanager.manager import Device, NoContainers, RpcError
from kubeledger.simulate.engine.kubelet import Simulation
from kubeledger.simulate.engine.plan import DeviceScript, PluginScript, PluginStep

_UNHEALTHY = "Unhealthy"
_HEALTHY = "Healthy"


class SimPlugin:
    """One plugin: its devices as they are now, and its answers.

    Attributes:
        resource: it serves.
        up: it runs and wants to be registered.
    """

    def __init__(self, sim: Simulation, script: PluginScript) -> None:
        self.resource = script.resource
        self.up = False
        self._sim = sim
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
