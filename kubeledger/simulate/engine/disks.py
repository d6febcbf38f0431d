"""What is used: of the file systems by images and containers, of memory by containers."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from kubeledger.simulate.engine.kubelet import Simulation
from kubeledger.simulate.engine.plan import Usage
from kubeledger.simulate.engine.world import Disk, SimPod

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


def uses_anything(sim: Simulation, pod: SimPod) -> bool:
    """Whether the scenario says what a pod uses; of most it does not, and this is asked often."""
    scripts = sim.plan.pods[pod.index].scripts
    return bool(scripts) and any(script.usage for script in scripts.values())


def container_usage(sim: Simulation, pod: SimPod) -> dict[str, Usage]:
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


def disk_space(sim: Simulation, disk: Disk) -> DiskSpace:
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
