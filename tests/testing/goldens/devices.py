"""Device manager: who gets which device."""

from typing import Any

from kubeledger.model.bodies.devicemanager import (
    AllocationFailed,
    AllocationRequested,
    CheckpointEntry,
    CheckpointRead,
    DevicesAllocated,
    DevicesReleased,
    DevicesReported,
    EndpointStopped,
    PluginRegistered,
)
from kubeledger.model.bodies.resourcemanagers import AffinityDecided, Hint, HintsGenerated
from tests.testing.goldens.registry import Lie, maker_of
from tests.testing.goldens.world import World, container

GPU = "example.com/gpu"
IDS = ("gpu-0", "gpu-1", "gpu-2", "gpu-3")
Numa = dict[str, tuple[str, ...]]
ALL = ("1.20.2", "1.28.0", "1.36.2")


def gpus(name: str, count: int, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 # any field
    """A container that asks for devices."""
    return container(name, resources={"limits": {GPU: str(count)}}, **fields)


def hint(*nodes: int, preferred: bool = True) -> Hint:
    """A hint for these nodes."""
    return Hint(numa_nodes=nodes or None, preferred=preferred)


class DeviceWorld(World):
    """A node with one plugin."""

    def plugin(self, ids: tuple[str, ...] = IDS) -> None:
        """The plugin registers and sends its list."""
        self.add(PluginRegistered(resource=GPU))
        count = len(ids)
        self.add(DevicesReported(resource=GPU, total=count, healthy=count, device_ids=ids))

    def ask(self, pod: str, name: str, needed: int) -> int:
        """A container asks."""
        body = AllocationRequested(**self.of(pod), container=name, resource=GPU, needed=needed)
        return self.add(body)

    def grant(self, pod: str, name: str, *ids: str, needed: int | None = None) -> int:
        """A container asks, and gets devices."""
        asked = self.ask(pod, name, len(ids) if needed is None else needed)
        body = DevicesAllocated(**self.of(pod), container=name, resource=GPU, device_ids=ids)
        return self.add(body, cause=asked)

    def refuse(self, pod: str, needed: int, error: str, available: int | None = None) -> int:
        """A container asks, and is refused."""
        asked = self.ask(pod, "app", needed)
        return self.add(
            AllocationFailed(
                **self.of(pod),
                container="app",
                resource=GPU,
                requested=None if available is None else needed,
                available=available,
                error=error,
            ),
            cause=asked,
        )

    def short(self, pod: str, requested: int, available: int) -> int:
        """Too few devices."""
        error = (
            f"requested number of devices unavailable for {GPU}. "
            f"Requested: {requested}, Available: {available}"
        )
        return self.refuse(pod, requested, error, available)

    def checkpoint(self, held: dict[str, Numa]) -> int:
        """A checkpoint is read: pod's container ``app`` -> NUMA node -> IDs."""
        entries = tuple(
            CheckpointEntry(pod_uid=f"uid-{pod}", container="app", resource=GPU, numa=numa)
            for pod, numa in sorted(held.items())
        )
        return self.add(
            CheckpointRead(entries=entries, registered={GPU: IDS}, checksum=1, checksum_ok=True)
        )

    def hints(self, pod: str, name: str | None, **hints: tuple[Hint, ...] | None) -> int:
        """What providers offer; ``gpu`` stands for the resource."""
        given = {GPU if key == "gpu" else key: value for key, value in hints.items()}
        return self.add(HintsGenerated(**self.of(pod), container=name, hints=given))

    def affinity(
        self, pod: str, name: str | None, merged: Hint, cause: int, *, admit: bool = True,
        policy: str = "best-effort",
    ) -> int:  # fmt: skip
        """The merged hint."""
        body = AffinityDecided(
            **self.of(pod), container=name, hint=merged, policy=policy, admit=admit
        )
        return self.add(body, cause=cause)


golden = maker_of(DeviceWorld)


@golden("devices-init-reuse", *ALL)
def init_reuse(node: DeviceWorld) -> Lie:
    """A device of an init container goes to the app container before any free one."""
    node.plugin()
    node.pod("train", gpus("app", 1), init=(gpus("fetch", 1),))
    node.grant("train", "fetch", "gpu-0")
    seq = node.grant("train", "app", "gpu-0")
    return Lie(seq, {"device_ids": ("gpu-1",)})


@golden("devices-sidecar-keeps")
def sidecar(node: DeviceWorld) -> Lie:
    """A restartable init container keeps its device: the app container gets another."""
    node.plugin()
    node.pod("train", gpus("app", 1), init=(gpus("proxy", 1, restartPolicy="Always"),))
    node.grant("train", "proxy", "gpu-0")
    seq = node.grant("train", "app", "gpu-1")
    return Lie(seq, {"device_ids": ("gpu-0",)})


@golden("devices-sidecar-reused", "1.28.0", featureGates={"SidecarContainers": True})
def sidecar_reused(node: DeviceWorld) -> Lie:
    """Until 1.28 the device manager takes a sidecar for an init container like any other."""
    node.plugin()
    node.handed("train")
    node.listed("train", gpus("app", 1), init=(gpus("proxy", 1, restartPolicy="Always"),))
    node.grant("train", "proxy", "gpu-0")
    seq = node.grant("train", "app", "gpu-0")
    return Lie(seq, {"device_ids": ("gpu-1",)})


@golden("devices-numa-alignment", *ALL, numa=(0, 1), topologyManagerPolicy="best-effort")
def numa_alignment(node: DeviceWorld) -> Lie:
    """Devices on the NUMA node of the affinity come first."""
    node.plugin()
    node.pod("train", gpus("app", 1))
    offered = node.hints("train", "app", gpu=(hint(0), hint(1), hint(0, 1, preferred=False)))
    node.affinity("train", "app", hint(0), offered)
    seq = node.grant("train", "app", "gpu-0")
    held: dict[str, Numa] = {f"p{n}": {str(n // 2): (f"gpu-{n}",)} for n in range(1, 4)}
    held["train"] = {"0": ("gpu-0",)}
    node.checkpoint(held)
    return Lie(seq, {"device_ids": ("gpu-9",)})


@golden("devices-refusal", *ALL)
def refusal(node: DeviceWorld) -> Lie:
    """Three devices are asked for and two are free."""
    node.plugin()
    node.pod("first", gpus("app", 2))
    node.grant("first", "app", "gpu-0", "gpu-1")
    node.handed("second")
    seq = node.short("second", 3, 2)
    node.listed("second", gpus("app", 3))
    return Lie(seq, {"available": 1})


@golden("devices-no-plugin", *ALL)
def no_plugin(node: DeviceWorld) -> Lie:
    """The plugin's endpoint is gone: no device is healthy, and each version says so in its way."""
    node.plugin()
    node.add(EndpointStopped(resource=GPU))
    node.handed("late")
    if node.version == "1.20.2":
        seq = node.short("late", 1, 0)
    else:
        error = f"no healthy devices present; cannot allocate unhealthy devices {GPU}"
        seq = node.refuse("late", 1, error)
    node.listed("late", gpus("app", 1))
    return Lie(seq, {"error": f"cannot allocate unregistered device {GPU}"})


@golden("devices-release")
def release(node: DeviceWorld) -> Lie:
    """Devices of a pod that is gone are given back, all at once, and go to the next pod."""
    node.plugin(("gpu-0",))
    node.pod("first", gpus("app", 1))
    node.grant("first", "app", "gpu-0")
    node.ended("first")
    seq = node.add(DevicesReleased(pod_uid="uid-first"))
    node.pod("second", gpus("app", 1))
    node.grant("second", "app", "gpu-0")
    return Lie(seq, {"container": "app", "resource": GPU})


@golden("devices-held-once", *ALL)
def held_once(node: DeviceWorld) -> Lie:
    """A device in the hands of a running pod goes to nobody else."""
    node.plugin()
    node.pod("first", gpus("app", 1))
    node.grant("first", "app", "gpu-0")
    node.pod("second", gpus("app", 1))
    seq = node.grant("second", "app", "gpu-1")
    node.wait(30)
    node.started("first")
    return Lie(seq, {"device_ids": ("gpu-0",)})


@golden("devices-checkpoint-restore", *ALL)
def checkpoint_restore(node: DeviceWorld) -> Lie:
    """After a restart the checkpoint tells who holds what."""
    node.plugin()
    node.pod("first", gpus("app", 1))
    node.grant("first", "app", "gpu-0")
    node.checkpoint({"first": {"0": ("gpu-0",)}})
    node.restart()
    node.pod("first", gpus("app", 1))
    node.plugin()
    node.pod("second", gpus("app", 1))
    seq = node.grant("second", "app", "gpu-1")
    node.wait(30)
    node.started("first")
    return Lie(seq, {"device_ids": ("gpu-0",)})


@golden("devices-checkpoint-disagrees")
def checkpoint_disagrees(node: DeviceWorld) -> Lie:
    """Log and checkpoint tell the same device; where they do not, one of them lies."""
    node.plugin()
    node.pod("first", gpus("app", 1))
    seq = node.grant("first", "app", "gpu-0")
    read = node.checkpoint({"first": {"0": ("gpu-0",)}})
    entry = CheckpointEntry(
        pod_uid="uid-first", container="app", resource=GPU, numa={"0": ("gpu-1",)}
    )
    return Lie(read, {"entries": (entry,)}, blames=seq)
