"""What an agent on the node writes down each few seconds: files, lists and counters.

It reads as the collector of a real node does: what changed since it looked last. Files are
there while no kubelet runs; lists and counters are the kubelet's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from kubeledger.kubelet.allocation.state import pods_state_document, read_pods_state
from kubeledger.kubelet.cgroups.paths import parse_cgroup_path
from kubeledger.kubelet.cpumanager.state_checkpoint import read_cpu_manager_state
from kubeledger.kubelet.devicemanager.checkpoint import checkpoint_document, read_checkpoint
from kubeledger.kubelet.dra.claiminfo import dra_manager_document, read_dra_manager_state
from kubeledger.kubelet.memorymanager.checkpoint import read_memory_manager_state
from kubeledger.model.bodies.cgroups import CgroupRemoved, CgroupUpdated, CgroupValues
from kubeledger.model.bodies.devicemanager import DevicesReported
from kubeledger.model.bodies.images import ImageFsObserved
from kubeledger.model.bodies.lifecycle import PodListed
from kubeledger.model.bodies.node import NodeObserved
from kubeledger.model.bodies.prober import ProbeCountersRead, ProbeType
from kubeledger.model.record import Body
from kubeledger.model.units import NS_PER_S
from kubeledger.simulate.engine.admission import created_ns
from kubeledger.simulate.engine.kubelet import Kubelet, Part
from kubeledger.simulate.engine.memory import disk_space
from kubeledger.simulate.engine.plan import PlannedPod
from kubeledger.simulate.engine.pleg import status_of
from kubeledger.simulate.engine.world import DeviceCheckpoint, SimPod

if TYPE_CHECKING:
    from kubeledger.simulate.engine.sim import Sim

_OFFSET_NS = 900_000_000
"""The first look is after the start of the kubelet's loops, and between two relists."""
_COUNTERS_NS = 300 * NS_PER_S
"""Counters are read only so often: they change all the time, and would be most of a ledger."""


class Agent(Part):
    """The node's collector; it outlives kubelets."""

    def __init__(self, sim: Sim) -> None:
        super().__init__(sim)
        self._pods: dict[str, tuple[SimPod, tuple[Any, ...]]] = {}
        self._cgroups: dict[str, CgroupValues] = {}
        self._checkpoint: DeviceCheckpoint | None = None
        self._seen: dict[str, object] = {}
        self._counters: dict[tuple[str | None, str, ProbeType], ProbeCountersRead] = {}
        self._counted_ns: int | None = None
        self._containers: dict[str, tuple[str | None, bool]] = {}
        self._resizes = any(map(_is_resized, sim.plan.pods))

    def start(self) -> None:
        """Look at the node again and again."""
        period_ns = self._sim.plan.snapshot_ns
        self._clock.every(period_ns, self.snapshot, first_ns=_OFFSET_NS)

    def node_seen(self, body: NodeObserved, kubelet: Kubelet) -> None:
        """What a kubelet logged of the node when it started; newer ones log the disk as well."""
        self._seen |= {"node": body, "disk": None}
        if kubelet.images.stats_ready:
            self._look_at_disk()

    def container_made(self, container_id: str, name: str | None) -> None:
        """The runtime made a container: its name is from the lists, or from the runtime."""
        self._containers[container_id] = (name, name is None)

    def last_look(self, pod: SimPod) -> None:
        """A pod is about to go; one that no list has shown yet is listed from a watch."""
        kubelet = self._sim.running_kubelet()
        if pod.uid not in self._pods and kubelet is not None:
            self._list_pod(kubelet, pod)

    def snapshot(self) -> None:
        """Look at everything once."""
        kubelet = self._sim.running_kubelet()
        if kubelet is not None and kubelet.pods.sources_ready:
            self._list_pods(kubelet)
            self._look_at_disk()
            self._count_ticks(kubelet)
        self._look_at_cgroups()
        self._read_checkpoint()
        sim = self._sim
        self._read("cpus", sim.cpu_manager_state, read_cpu_manager_state)
        self._read("memory", sim.memory_manager_state, read_memory_manager_state)
        self._read_allocations()
        if self._is_news("claims", held := sim.claims.checkpoint, {}):
            self._journal.write(read_dra_manager_state(dra_manager_document(held.values())))

    def _is_news(self, what: str, now: object, nothing: object = None) -> bool:
        """Whether something is not as it was seen last, where nothing was seen before as given."""
        before = self._seen.get(what, nothing)
        self._seen[what] = now
        return before != now

    # -- the kubelet's own lists ---------------------------------------------------------------

    def _list_pods(self, kubelet: Kubelet) -> None:
        pods = {uid: pod for uid, pod in self._sim.world.pods.items() if not pod.removed}
        for uid in [uid for uid in self._pods if uid not in pods]:
            pod, _ = self._pods.pop(uid)
            gone = PodListed(**pod.identity, spec=None, status=None, listed_by="kubelet", gone=True)
            self._journal.write(gone)
        for uid, pod in pods.items():
            instances = kubelet.pods.published(pod)
            status = (
                pod.spec,
                pod.phase,
                pod.reason,
                pod.message,
                pod.admitted,
                bool(pod.sandbox_id),
                instances,
                pod.reported,
                pod.resize_conditions,
                pod.deletion_ns,
                tuple((c.started, c.ready, c.backed_off, c.waiting) for c in pod.containers),
            )
            before = self._pods.get(uid)
            if before is not None and before[1] == status:
                continue
            self._pods[uid] = (pod, status)
            self._list_pod(kubelet, pod)

    def _list_pod(self, kubelet: Kubelet, pod: SimPod) -> None:
        self._journal.write(
            PodListed(
                **pod.identity,
                labels=pod.labels,
                annotations=pod.annotations,
                created_ts_ns=created_ns(pod),
                deletion_ts_ns=pod.deletion_ns,
                spec=pod.spec,
                status=status_of(pod, kubelet.pods.published(pod)),
                listed_by="kubelet",
            )
        )

    def look_at_node(self, kubelet: Kubelet) -> None:
        """The kubelet wrote its node's status, which a watch shows at once."""
        if self._sim.failures.words("apiServer") is None:
            self._write_news("node", node_observed(self._sim, kubelet))

    def _look_at_disk(self) -> None:
        space = disk_space(self._sim, self._sim.world.image_fs())
        used_bytes = sum(image.size_bytes for image in self._sim.world.images.values())
        disk = ImageFsObserved(
            capacity_bytes=space.capacity_bytes,
            available_bytes=space.available_bytes,
            used_bytes=used_bytes,
        )
        self._write_news("disk", disk)

    def _write_news(self, what: str, body: Body) -> None:
        if self._is_news(what, body):
            self._journal.write(body)

    def _count_ticks(self, kubelet: Kubelet) -> None:
        now_ns, last_ns = self._clock.now_ns, self._counted_ns
        if last_ns is not None and now_ns - last_ns < _COUNTERS_NS:
            return
        self._counted_ns = now_ns
        counters = {(c.pod_uid, c.container, c.probe_type): c for c in kubelet.probes.counters()}
        for key, body in counters.items():
            if self._counters.get(key) != body:
                self._journal.write(body)
        self._counters = counters

    # -- files ---------------------------------------------------------------------------------

    def _look_at_cgroups(self) -> None:
        before, now = self._cgroups, self._sim.world.cgroups
        for path in sorted(path for path, values in now.items() if before.get(path) != values):
            self._cgroup_changed(path, before.get(path), now[path])
        for path in sorted(before.keys() - now.keys()):
            where = parse_cgroup_path(path)
            if where is not None:
                removed = CgroupRemoved(cgroup=path, pod_uid=where.pod_uid)
                self._journal.write(removed)
                self._containers.pop(where.container_id or "", None)
        self._cgroups = dict(now)

    def _cgroup_changed(self, path: str, old: CgroupValues | None, new: CgroupValues) -> None:
        where = parse_cgroup_path(path)
        if where is None:
            return
        name, sandbox = None, None
        if where.container_id is not None:
            name, sandbox = self._containers.get(where.container_id, (None, None))
        self._journal.write(
            CgroupUpdated(
                cgroup=path,
                level=where.level,
                qos_class=where.qos_class,
                pod_uid=where.pod_uid,
                container_id=where.container_id,
                container=name,
                sandbox=sandbox,
                created=old is None,
                changed=new.changed(old or CgroupValues()),
                **msgspec.structs.asdict(new),
            )
        )

    def _read_checkpoint(self) -> None:
        checkpoint = self._sim.checkpoint
        if checkpoint is None or checkpoint == self._checkpoint:
            return
        before = self._checkpoint.registered if self._checkpoint is not None else {}
        self._checkpoint = checkpoint
        document = checkpoint_document(checkpoint.entries, checkpoint.registered)
        seq = self._journal.write(read_checkpoint(document))
        for resource, ids in checkpoint.registered.items():
            if ids and before.get(resource) != ids:
                report = DevicesReported(resource=resource, healthy=len(ids), device_ids=ids)
                self._journal.write(report, cause=seq)

    def _read(self, name: str, text: str | None, read: Callable[[object], Body]) -> None:
        """A state file, where there is one and it has changed."""
        if text is not None and self._is_news(name, text):
            self._journal.write(read(msgspec.json.decode(text)))

    def _read_allocations(self) -> None:
        """``allocated_pods_state``, where pods are resized: else it shows what their specs do."""
        stored = self._sim.allocated.stored
        if self._resizes and self._is_news("allocated", stored, {}):
            pod_level = self._sim.profile.allocation.pod_level_changes_queued
            document = pods_state_document(stored, pod_level=pod_level)
            self._journal.write(read_pods_state(document, "allocated"))


def _is_resized(planned: PlannedPod) -> bool:
    return any(
        _resources(update.manifest) != _resources(planned.manifest) for update in planned.updates
    )


def _resources(manifest: Mapping[str, Any]) -> list[Any]:
    spec = manifest["spec"]
    return [c.get("resources") for c in (*(spec.get("initContainers") or ()), *spec["containers"])]


def node_observed(sim: Sim, kubelet: Kubelet) -> NodeObserved:
    """The node object as the kubelet wrote its status last."""
    machine, node = sim.machine, sim.plan.node
    return NodeObserved(
        labels=machine.labels,
        taints=node.taints,
        capacity={**machine.capacity, **kubelet.devices.capacity},
        allocatable={**machine.allocatable, **kubelet.devices.allocatable},
        cpus=node.cpus,
        memory_capacity_bytes=node.memory_bytes,
        numa_nodes=node.numa_nodes,
    )
