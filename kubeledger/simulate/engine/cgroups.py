"""The cgroups of a simulated node: what the kubelet and the runtime write, and when.

The cgroups themselves are the world's: they stay while no kubelet runs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from kubeledger.kubelet.cgroups.container_config import (
    ContainerConfig,
    container_config,
    exclusive_containers,
)
from kubeledger.kubelet.cgroups.decider import (
    PodDecision,
    decide_node,
    decide_pod,
    decide_pod_unified,
    decide_qos,
)
from kubeledger.kubelet.cgroups.node_config import (
    kubepods_resources,
    qos_unified,
    reservation_of,
    resource_config_for_node,
)
from kubeledger.kubelet.cgroups.paths import (
    node_cgroup,
    pod_cgroup,
    qos_cgroup,
    to_cgroupfs,
    to_systemd,
)
from kubeledger.kubelet.cgroups.pod_config import MIN_SHARES
from kubeledger.kubelet.cgroups.unified import (
    OOM_GROUP,
    TIERED_RESERVATION,
    UnifiedSettings,
    container_files,
)
from kubeledger.kubelet.kube.quantity import Quantity
from kubeledger.kubelet.profile.cgroups import CgroupFacts
from kubeledger.model.bodies.cgroups import CgroupValues, QOSCgroupsUpdated, QOSReserveComputed
from kubeledger.model.units import NS_PER_S
from kubeledger.simulate.engine.kubelet import Kubelet, Loop
from kubeledger.simulate.engine.machine import Settings, duration_ns, gate, integer, table
from kubeledger.simulate.engine.world import MOST_PIDS, SimContainer, SimPod, values_of

_QOS_PERIOD_NS = 60 * NS_PER_S
_NS_PER_US = 1000


class CgroupLoop(Loop):
    """Writes the cgroups of node, QoS classes, pods and containers."""

    def __init__(self, kubelet: Kubelet) -> None:
        super().__init__(kubelet)
        sim = kubelet.sim
        self._facts = sim.profile.cgroups
        settings = sim.settings
        self._version = sim.plan.node.cgroup_version
        self._on = settings.get("cgroupsPerQOS") is not False
        self._systemd = settings.get("cgroupDriver") == "systemd"
        self._how: dict[str, Any] = {
            "enforce_cpu_limits": settings.get("cpuCFSQuota") is not False,
            "cpu_period_us": duration_ns(settings, "cpuCFSQuotaPeriod", "100ms") // _NS_PER_US,
            "memory_capacity": sim.plan.node.memory_bytes,
        }
        self._pids = max(integer(settings, "podPidsLimit", -1), 0) or None
        self._static_cpus = settings.get("cpuManagerPolicy") == "static" and (
            (settings.get("featureGates") or {}).get("DisableCPUQuotaWithExclusiveCPUs")
            is not False
        )
        self._reserve_percent = _reserve_percent(kubelet)
        self._capacity = {
            "cpu": Quantity.of(sim.plan.node.cpus),
            "memory": Quantity.of(sim.plan.node.memory_bytes),
        }
        self._reservation = reservation = reservation_of(settings.get)
        self._node = decide_node(self._capacity, reservation, self._facts)
        self._tiered = settings.get("memoryReservationPolicy") == TIERED_RESERVATION
        self._unified = UnifiedSettings(
            memory_qos=self._version == 2
            and gate(settings, "MemoryQoS", default=self._facts.memory_qos_gate_on),
            throttling_factor=_factor(settings, self._facts),
            tiered_reservation=self._tiered,
            limited_swap=False,
            # The kubelet sets it to false where nobody has set it.
            single_process_oom_kill=settings.get("singleProcessOOMKill") is True,
            memory_capacity=sim.plan.node.memory_bytes,
            swap_capacity=0,
            node_allocatable_memory=self._node.kubepods["memory"].value(),
        )

    @property
    def tree(self) -> dict[str, CgroupValues]:
        """Path below the controllers -> values."""
        return self._sim.world.cgroups

    @property
    def pods_memory_bytes(self) -> int:
        """What all pods together may use."""
        return self._node.kubepods["memory"].value()

    def start(self) -> None:
        """Node and QoS level; the latter is written each minute from now on."""
        if not self._on:
            return
        enforced = self._sim.settings.get("enforceNodeAllocatable")
        asked, pids = self._node.config, {"pid": Quantity.of(MOST_PIDS)}
        if enforced is not None and "pods" not in enforced:
            asked = resource_config_for_node(self._capacity)
        else:
            pids = kubepods_resources(pids, self._reservation)
        self.tree[self._path(node_cgroup())] = values_of(
            version=self._version,
            shares=asked.cpu_shares or MIN_SHARES,
            memory=asked.memory_limit_bytes,
            pids=pids["pid"].value() or None,
        )
        self._update_qos()
        self._kubelet.every(_QOS_PERIOD_NS, self._update_qos)

    # -- pods and containers -------------------------------------------------------------------

    def pod_synced(self, pod: SimPod, cause: int | None) -> None:
        """A sync of a pod: its cgroup is made if it is not there, after a write of the QoS level.

        Source: v1.36.2 pkg/kubelet/kubelet.go SyncPod; v1.20.2 syncPod
        """
        path = self._pod_path(pod)
        if not self._on or path in self.tree:
            return
        self._update_qos(cause)
        self.tree[path] = self._pod_values(pod)

    def _pod_values(self, pod: SimPod) -> CgroupValues:
        asked, files = self._decide(pod).pod, None
        if self._unified.memory_qos:
            files = decide_pod_unified(pod.api, self._facts, self._unified).pod
        return values_of(
            version=self._version,
            shares=asked.cpu_shares or MIN_SHARES,
            quota_us=asked.cpu_quota_us,
            period_us=asked.cpu_period_us,
            memory=asked.memory_limit_bytes,
            pids=self._pids,
            files=files,
        )

    def memory_limits(self, pod: SimPod) -> tuple[int | None, int | None]:
        """Limit of a pod's cgroup as it is, and as it is to be."""
        values = self.tree.get(self._pod_path(pod))
        now = None if values is None else values.memory_limit_bytes
        return now, self._decide(pod).pod.memory_limit_bytes

    def pod_resized(self, pod: SimPod, names: Collection[str]) -> None:
        """A resize: the pod's cgroup is written, and those of containers that are updated."""
        path = self._pod_path(pod)
        if not self._on or path not in self.tree:
            return
        self.tree[path] = self._pod_values(pod)
        for instance in self._sim.runtime.running(pod.uid):
            if instance.container is not None and instance.container in names:
                values = self._container_values(pod, instance.container)
                self.tree[self._container_path(pod, instance.container_id)] = values

    def pod_killed(self, cause: int | None = None) -> None:
        """The containers of a pod were killed: the QoS level is written.

        Source: v1.36.2 pkg/kubelet/kubelet_pods.go killPod; v1.20.2
        """
        if self._on:
            self._update_qos(cause)

    def container_created(
        self, pod: SimPod, container: SimContainer | None, container_id: str
    ) -> None:
        """The runtime makes a container, or (None) the sandbox."""
        if self._on:
            path = self._container_path(pod, container_id)
            if container is None:
                self.tree[path] = values_of(version=self._version, shares=MIN_SHARES)
            else:
                self.tree[path] = self._container_values(pod, container.name)

    def container_cgroup(self, pod: SimPod, container_id: str) -> str:
        """In which cgroup a container runs; empty where the kubelet makes none."""
        return self._container_path(pod, container_id) if self._on else ""

    def oom_score_adj(self, pod: SimPod, name: str) -> int:
        """Adjustment that a container's processes are given."""
        return self._container_config(pod, name).oom_score_adj

    def kills_all(self, pod: SimPod, name: str) -> bool:
        """Whether the kernel kills all processes of a container at once."""
        if self._version == 1 or not self._on:
            return False
        container = pod.allocated(name)
        files = container_files(pod.api, container, pod.qos_class, self._facts, self._unified)
        return files.get(OOM_GROUP) == "1"

    def container_removed(self, pod: SimPod, container_id: str) -> None:
        self.tree.pop(self._container_path(pod, container_id), None)

    def pod_gone(self, pod: SimPod) -> None:
        """The pod's cgroup is removed, with all below it."""
        path = self._pod_path(pod)
        for known in [k for k in self.tree if k == path or k.startswith(f"{path}/")]:
            del self.tree[known]

    # -- values --------------------------------------------------------------------------------

    def _decide(self, pod: SimPod) -> PodDecision:
        static = self._static_cpus
        return decide_pod(pod.api, self._facts, **self._how, static_cpu_policy=static)

    def _container_config(self, pod: SimPod, name: str) -> ContainerConfig:
        exclusive = frozenset[str]()
        if self._static_cpus:
            exclusive = exclusive_containers(pod.api, pod.qos_class, self._facts)
        return container_config(
            pod.api,
            pod.allocated(name),
            pod.qos_class,
            self._facts,
            **self._how,
            exclusive_cpus=name in exclusive,
        )

    def _container_values(self, pod: SimPod, name: str) -> CgroupValues:
        config = self._container_config(pod, name)
        files = None
        if self._unified.memory_qos:
            decided = decide_pod_unified(pod.api, self._facts, self._unified)
            files = {
                file: text
                for file, text in decided.containers.get(name, {}).items()
                if file in ("memory.min", "memory.low", "memory.high")
            }
        return values_of(
            version=self._version,
            shares=config.cpu_shares,
            quota_us=config.cpu_quota_us,
            period_us=config.cpu_period_us,
            memory=config.memory_limit_bytes,
            files=files,
        )

    # -- the QoS level -------------------------------------------------------------------------

    def _update_qos(self, cause: int | None = None) -> None:
        """Write both classes, as the active pods that it knows of ask for it together.

        What they ask for counts, also where a resize is not allocated. A pod whose manifest is gone
        does not count any more, though it is still taken down.

        Source: v1.36.2 pkg/kubelet/kubelet.go HandlePodRemoves, kubelet_pods.go GetActivePods
        """
        pods = [
            pod.desired
            for pod in self._sim.world.pods.values()
            if pod.added_ns >= self._kubelet.started_ns
            and pod.admitted is not False
            and not pod.terminated
            and not pod.removed
            and pod.phase not in ("Succeeded", "Failed")
        ]
        journal, percent = self._journal, self._reserve_percent
        decision = decide_qos(
            pods,
            self._facts,
            allocatable_memory=self.pods_memory_bytes,
            memory_reserve_percent=percent,
        )
        requests, config = decision.requests, decision.config
        if percent is not None:
            for qos_class, requested in (
                ("Guaranteed", requests.guaranteed_memory),
                ("Burstable", requests.burstable_memory),
            ):
                journal.write(
                    QOSReserveComputed(
                        qos_class=qos_class,  # type: ignore[arg-type] # one of the literals above
                        requested_bytes=requested,
                        reserve_percent=percent,
                    )
                )
        files: dict[str, dict[str, str]] = {}
        if self._unified.memory_qos:
            files = qos_unified(requests, self._facts, tiered_reservation=self._tiered)
        self._write_qos("Burstable", config.burstable_shares, config.burstable_memory_limit, files)
        self._write_qos(
            "BestEffort", config.best_effort_shares, config.best_effort_memory_limit, {}
        )
        if files.get("kubepods"):
            path = self._path(node_cgroup())
            self.tree[path] = _with_files(self.tree[path], files["kubepods"])
        journal.write(QOSCgroupsUpdated(), cause=cause)

    def _write_qos(
        self, qos_class: str, shares: int, memory: int | None, files: dict[str, dict[str, str]]
    ) -> None:
        path = self._path(qos_cgroup("Burstable" if qos_class == "Burstable" else "BestEffort"))
        values = values_of(
            version=self._version, shares=shares, memory=memory, files=files.get("burstable")
        )
        before = self.tree.get(path)
        if memory is None and before is not None:
            # Without a reserve nobody writes a limit: what stood there stays.
            limit = before.memory_limit_bytes
            values = msgspec.structs.replace(values, memory_limit_bytes=limit)
            if self._version == 2 and "memory.max" in before.unified:
                values = _with_files(values, {"memory.max": before.unified["memory.max"]})
        self.tree[path] = values

    # -- the tree ------------------------------------------------------------------------------

    def _path(self, cgroup: Sequence[str]) -> str:
        written = to_systemd(cgroup) if self._systemd else to_cgroupfs(cgroup)
        return written.removeprefix("/")

    def _pod_path(self, pod: SimPod) -> str:
        return self._path(pod_cgroup(pod.qos_class, pod.uid))

    def _container_path(self, pod: SimPod, container_id: str) -> str:
        name = f"cri-containerd-{container_id}.scope" if self._systemd else container_id
        return f"{self._pod_path(pod)}/{name}"


def _with_files(values: CgroupValues, files: dict[str, str]) -> CgroupValues:
    return msgspec.structs.replace(values, unified=dict(sorted((values.unified | files).items())))


def _factor(settings: Settings, facts: CgroupFacts) -> float | None:
    """Where throttling begins between request and limit; None: nowhere."""
    factor = settings.get("memoryThrottlingFactor")
    return float(factor or 0.9) if factor or not facts.memory_qos_gate_on else None


def _reserve_percent(kubelet: Kubelet) -> int | None:
    """Share of requested memory that is kept for its class; None without one."""
    settings = kubelet.sim.settings
    text = table(settings, "qosReserved").get("memory")
    if text is None or not gate(settings, "QOSReserved"):
        return None
    return int(text.removesuffix("%"))
