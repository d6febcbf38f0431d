"""The world around a simulated kubelet: pods, containers, images, disks.

The kubelet's own memory (device manager, image records, probe workers ...) is not here: it goes
with the kubelet's process, the world stays.
"""

from __future__ import annotations

from itertools import takewhile
from typing import Any, Literal

import msgspec

from kubeledger.kubelet.allocation.conditions import ResizeCondition
from kubeledger.kubelet.imagepull.fs_pullrecords import PulledRecord
from kubeledger.kubelet.kube.pod import ContainerStatus, PodStatus, ResourceRequirements
from kubeledger.kubelet.kube.pod import Pod as ApiPod
from kubeledger.kubelet.kuberuntime.objects import Pod as SyncedPod
from kubeledger.kubelet.prober.objects import Pod as ProbedPod
from kubeledger.model.bodies.devicemanager import CheckpointEntry
from kubeledger.simulate.engine.cgroup_values import CgroupValues
from kubeledger.simulate.engine.plan import PlannedClaim


class SimContainer(msgspec.Struct, kw_only=True):
    """One container of a pod and its newest instance.

    Attributes:
        name: in the spec.
        init: it stands among the init containers; ``sidecar``: and is restartable.
        state: of the newest instance; ``waiting`` before the first and while a restart is
            held back.
        container_id: bare ID of the newest instance; empty before the first.
        started_ns, finished_ns: of it; None while not.
        exit_code: of the newest instance that ended.
        restarts: as the pod's status counts.
        instances: how many were started.
        started, ready: as the prober published of the instance ``published_id``.
        published_id: bare ID of the instance that the pod's status shows; empty for none.
        backed_off: its last start was held back.
        waiting: reason and message with which its last start failed, as its status shows them.
    """

    name: str
    init: bool = False
    sidecar: bool = False
    state: Literal["waiting", "running", "terminated"] = "waiting"
    container_id: str = ""
    started_ns: int | None = None
    finished_ns: int | None = None
    exit_code: int | None = None
    restarts: int = 0
    instances: int = 0
    started: bool = False
    ready: bool = False
    published_id: str = ""
    backed_off: bool = False
    waiting: tuple[str, str] | None = None


class SimPod(msgspec.Struct, kw_only=True):
    """One pod that the kubelet has received.

    Attributes:
        index: of the scenario's list, for evidence.
        namespace, name, uid: identity.
        source: ``api`` or ``file``.
        spec: as the API shows it, defaulted; ``generation`` counts its changes.
        metadata: labels, annotations, creation time.
        api, probed, synced: the same pod as the types that deciders read, with what is allocated
            to it; ``desired`` with what its spec asks for.
        qos_class: Guaranteed, Burstable or BestEffort.
        added_ns: when the kubelet got it.
        admitted: None until decided.
        reason, message: of a rejection, a preemption or an eviction.
        phase: as in the status.
        deleting: its deletion has begun.
        removed: its source has it no more, and the kubelet knows; containers may still run.
        terminated: all its containers are down for good.
        sandbox_id: empty before it has one.
        actuated: container -> resources that the runtime was last given.
        reported: container -> resources that its status in the API shows; empty for a pod that
            was never resized.
        resize_conditions: as its status shows them.
        claims: that its spec names.
        containers: init containers first, each in the order of the spec.
    """

    index: int
    namespace: str
    name: str
    uid: str
    source: Literal["api", "file"]
    spec: dict[str, Any]
    labels: dict[str, str]
    annotations: dict[str, str]
    api: ApiPod
    probed: ProbedPod
    synced: SyncedPod
    qos_class: Literal["Guaranteed", "Burstable", "BestEffort"]
    added_ns: int
    desired: ApiPod
    generation: int = 1
    admitted: bool | None = None
    reason: str = ""
    message: str = ""
    phase: Literal["Pending", "Running", "Succeeded", "Failed"] = "Pending"
    deleting: bool = False
    removed: bool = False
    terminated: bool = False
    sandbox_id: str = ""
    actuated: dict[str, ResourceRequirements] = {}
    reported: dict[str, ResourceRequirements] = {}
    resize_conditions: tuple[ResizeCondition, ...] = ()
    claims: tuple[PlannedClaim, ...] = ()
    containers: list[SimContainer] = []

    @property
    def identity(self) -> dict[str, Any]:
        """The fields of a body that say which pod it is about."""
        return {"namespace": self.namespace, "pod": self.name, "pod_uid": self.uid}

    @property
    def counted(self) -> ApiPod:
        """As it counts beside others: with its status, where that shows other resources.

        Source: v1.36.2 pkg/kubelet/allocation/allocation_manager.go getAllocatedPods
        """
        if not self.reported:
            return self.api
        own = tuple(
            ContainerStatus(name=name, resources=resources)
            for name, resources in self.reported.items()
        )
        return msgspec.structs.replace(self.api, status=PodStatus(container_statuses=own))

    @property
    def active(self) -> bool:
        """It counts on the node: admitted, not ended, and not gone from its source.

        Source: v1.36.2 pkg/kubelet/kubelet_pods.go GetActivePods, kubelet.go HandlePodRemoves
        """
        if self.removed or self.terminated or self.phase in _FINAL:
            return False
        return bool(self.admitted)

    def container(self, name: str) -> SimContainer:
        """A container by its name.

        Raises:
            KeyError: there is none.
        """
        for container in self.containers:
            if container.name == name:
                return container
        raise KeyError(name)

    def image(self, name: str) -> str:
        """The image that its spec wants for a container."""
        lists = (self.spec.get("initContainers") or (), self.spec["containers"])
        found = (str(c.get("image", "")) for each in lists for c in each if c["name"] == name)
        return next(found)


_FINAL = ("Succeeded", "Failed")


class SimImage(msgspec.Struct, kw_only=True):
    """An image in the runtime's store.

    Attributes:
        name: as containers name it.
        image_id: ``sha256:...``.
    """

    name: str
    image_id: str
    size_bytes: int
    pinned: bool = False


class Disk(msgspec.Struct, kw_only=True):
    """A file system.

    Attributes:
        base_bytes: used by all that is not an image: logs, volumes, what a scenario adds.
    """

    capacity_bytes: int
    base_bytes: int = 0
    inodes: int = 10_000_000
    inodes_used: int = 100_000


class DeviceCheckpoint(msgspec.Struct, frozen=True):
    """``kubelet_internal_checkpoint`` as it is on disk."""

    entries: tuple[CheckpointEntry, ...]
    registered: dict[str, tuple[str, ...]]


class World(msgspec.Struct, kw_only=True):
    """Everything around the kubelet.

    Attributes:
        pods: UID -> pod that the kubelet knows, in the order of arrival.
        images: name -> image, in the runtime's order.
        pull_intents, pulled_records: the files of image_manager/.
        cgroups: path below the controllers -> values.
        disk: of the kubelet (and of images, unless ``image_disk``).
        image_disk: of images and containers; None when they share ``disk``.
        memory_bytes, cpus: the machine.
        numa_nodes: sorted.
    """

    cpus: int
    memory_bytes: int
    numa_nodes: tuple[int, ...] = (0,)
    disk: Disk
    image_disk: Disk | None = None
    pods: dict[str, SimPod] = {}
    images: dict[str, SimImage] = {}
    pull_intents: dict[str, bytes | str] = {}
    pulled_records: dict[str, bytes | PulledRecord] = {}
    cgroups: dict[str, CgroupValues] = {}

    def image_fs(self) -> Disk:
        """The file system that images are on."""
        return self.image_disk or self.disk

    def available_bytes(self, disk: Disk) -> int:
        """What is free on a file system."""
        used = disk.base_bytes
        if disk is self.image_fs():
            used += sum(image.size_bytes for image in self.images.values())
        return max(disk.capacity_bytes - used, 0)

    def active_pods(self) -> list[SimPod]:
        """Pods that count, in the order the kubelet received them."""
        return [pod for pod in self.pods.values() if pod.active]

    def active_with(self, pod: ApiPod | None) -> tuple[ApiPod, ...]:
        """The same as resource managers see them, with the one that is to be admitted."""
        active = {each.uid: each.api for each in self.active_pods()}
        if pod is not None:
            active[pod.metadata.uid or ""] = pod
        return tuple(active.values())

    def has_namesake(self, pod: SimPod) -> bool:
        """Whether it is a static pod, and one of its name that came before is not down yet.

        Source: v1.36.2 pkg/kubelet/pod_workers.go allowStaticPodStart
        """
        if pod.source != "file":
            return False
        before = takewhile(lambda each: each is not pod, self.pods.values())
        name = (pod.namespace, pod.name)
        return any(not each.terminated and (each.namespace, each.name) == name for each in before)
