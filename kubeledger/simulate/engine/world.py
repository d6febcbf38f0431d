"""The world around a simulated kubelet: pods, containers, images, cgroup files.

The kubelet's own memory (device manager, image records, probe workers ...) is not here: it goes
with the kubelet's process, the world stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile
from typing import Any, Literal

import msgspec

from kubeledger.kubelet.allocation.handlers import ResizeCondition
from kubeledger.kubelet.cgroups.pod_config import QUOTA_PERIOD_US, weight_of_shares
from kubeledger.kubelet.imagepull.pullrecords import PulledRecord
from kubeledger.kubelet.kube.pod import (
    Container,
    ContainerStatus,
    PodStatus,
    ResourceRequirements,
    containers_of,
)
from kubeledger.kubelet.kube.pod import Pod as ApiPod
from kubeledger.kubelet.kuberuntime.objects import Pod as SyncedPod
from kubeledger.kubelet.prober.objects import Pod as ProbedPod
from kubeledger.model.bodies.cgroups import CgroupValues
from kubeledger.model.bodies.devicemanager import CheckpointEntry
from kubeledger.simulate.engine.plan import ImageArrival, PlannedClaim

KILLED = 137
"""Exit code of a main process that was killed."""


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """One container that the runtime made; it is replaced by another value when it ends.

    Attributes:
        container: name in the spec; None for a sandbox.
        previous_id: ID of the instance before it; empty for the first.
        finished_ns, exit_code: None while it runs.
        oom_killed: it ended, and the kernel's OOM killer had killed a process in it.
    """

    container_id: str
    container: str | None
    image: str = ""
    restarts: int = 0
    previous_id: str = ""
    started_ns: int
    finished_ns: int | None = None
    exit_code: int | None = None
    oom_killed: bool = False

    @property
    def running(self) -> bool:
        return self.finished_ns is None


class End(msgspec.Struct, frozen=True):
    """The record of a kill, and its reason as a restart that follows names it."""

    seq: int
    reason: str


# What the files of a cgroup hold, as the kernel shows them after a write.

MOST_PIDS = 32_768
"""Process IDs of every simulated machine."""

_PAGE_BYTES = 4096
_NO_LIMIT_V1 = (2**63 - 1) // _PAGE_BYTES * _PAGE_BYTES
_NONE = -1


def values_of(
    *,
    version: int,
    shares: int,
    quota_us: int | None = None,
    period_us: int | None = None,
    memory: int | None = None,
    pids: int | None = None,
    files: Mapping[str, str] | None = None,
) -> CgroupValues:
    """What is shown where all this was asked for.

    Args:
        shares: CPU shares; version 2 has a weight in their place.
        quota_us: None, 0 and -1 are no quota.
        period_us: None and 0 are the kernel's 100 ms.
        memory: bytes; None and 0 are no limit. The kernel cuts it to whole pages.
        pids: most process IDs; None is no limit.
        files: further ones of version 2, name -> text.
    """
    quota = quota_us if quota_us and quota_us > 0 else _NONE
    period = period_us or QUOTA_PERIOD_US
    limit = memory // _PAGE_BYTES * _PAGE_BYTES if memory and memory > 0 else None
    pids_text = "max" if pids is None else str(pids)
    if version == 1:
        return CgroupValues(
            cpu_shares=shares,
            cpu_quota_us=quota,
            cpu_period_us=period,
            memory_limit_bytes=_NO_LIMIT_V1 if limit is None else min(limit, _NO_LIMIT_V1),
            other={"pids.max": pids_text},
        )
    unified = {
        "cpu.max": f"{'max' if quota == _NONE else quota} {period}",
        "cpu.weight": str(weight_of_shares(shares)),
        "memory.high": "max",
        "memory.low": "0",
        "memory.max": "max" if limit is None else str(limit),
        "memory.min": "0",
        "pids.max": pids_text,
        **(files or {}),
    }
    return CgroupValues(
        cpu_quota_us=quota,
        cpu_period_us=period,
        memory_limit_bytes=_NONE if limit is None else limit,
        unified=dict(sorted(unified.items())),
    )


class SimContainer(msgspec.Struct, kw_only=True):
    """One container of a pod and its newest instance.

    Attributes:
        init: it stands among the init containers; ``sidecar``: and is restartable.
        state: of the newest instance; ``waiting`` before the first and while a restart is
            held back.
        container_id: bare ID of the newest instance; empty before the first.
        started_ns, finished_ns: of it; None while not.
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
        spec: as the API shows it, defaulted; ``generation`` counts its changes.
        api, probed, synced: the same pod as the types that deciders read, with what is allocated
            to it; ``desired`` with what its spec asks for.
        deletion_ns: when the grace period of its deleted object is over.
        reason, message: of a rejection, a preemption or an eviction.
        removed: its source has it no more, and the kubelet knows; containers may still run.
        terminated: all its containers are down for good.
        sandbox_id: empty before it has one.
        actuated: container -> resources that the runtime was last given.
        reported: container -> resources that its status in the API shows; empty for a pod that
            was never resized.
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
    deletion_ns: int | None = None
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
        """A container by its name."""
        for container in self.containers:
            if container.name == name:
                return container
        raise KeyError(name)

    def image(self, name: str) -> str:
        """The image that its spec wants for a container."""
        return str(self.spec_of(name).get("image", ""))

    def spec_of(self, name: str) -> dict[str, Any]:
        """A container as its spec has it."""
        lists = (self.spec.get("initContainers") or (), self.spec["containers"])
        return next(c for each in lists for c in each if c["name"] == name)

    def allocated(self, name: str) -> Container:
        """A container with what is allocated to it."""
        return next(each for each in containers_of(self.api) if each.name == name)


_FINAL = ("Succeeded", "Failed")


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
        image_disk: of images and containers; None when they share ``disk``.
    """

    disk: Disk
    image_disk: Disk | None = None
    pods: dict[str, SimPod] = {}
    images: dict[str, ImageArrival] = {}
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
