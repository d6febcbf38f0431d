"""The node's state: one plain structure a subsystem, and what is known of the node itself.

It is rebuilt by :func:`kubeledger.replay.node.reducer.evolve` and by nothing else. Whoever folds
records owns the state and lets it be changed in place. It is bounded by what is on the node:
of what went only counters stay.
"""

from __future__ import annotations

import msgspec

from kubeledger.kubelet.allocation.reducer import AllocationState
from kubeledger.kubelet.cgroups.reducer import CgroupsState
from kubeledger.kubelet.cpumanager.state import CpuManagerState
from kubeledger.kubelet.devicemanager.reducer import DeviceManagerState
from kubeledger.kubelet.dra.reducer import DraManagerState
from kubeledger.kubelet.imagepull.reducer import ImagePullState
from kubeledger.kubelet.images.reducer import ImagesState
from kubeledger.kubelet.lifecycle.state import LifecycleState
from kubeledger.kubelet.memorymanager.state import MemoryManagerState
from kubeledger.kubelet.preemption.reducer import PreemptionState
from kubeledger.kubelet.prober.reducer import ProberState
from kubeledger.kubelet.topologymanager.reducer import TopologyManagerState
from kubeledger.model.bodies.node import Setting

STATE_SCHEMA = 7
"""Version of these structures and of what the reducers do; a snapshot of another is void."""


class KubeletState(msgspec.Struct, kw_only=True):
    """The kubelet process.

    Attributes:
        pid: None when the log has none.
        version: None when unknown.
        version_source: as in ``KubeletStarted``.
        started_ts_ns: of the process that runs; None when no start was recorded.
        restarts: processes that followed on another in the records.
    """

    pid: int | None = None
    version: str | None = None
    version_source: str | None = None
    version_text: str | None = None
    started_ts_ns: int | None = None
    restarts: int = 0


class MachineState(msgspec.Struct, kw_only=True):
    """The node object and the machine, as last shown.

    Attributes:
        capacity, allocatable: resource -> quantity as written; None when not known.
        reasons: reason of an API event about the node -> how many.
        clock_steps: how often the clock went back in a log.
        pressure: pressure condition that the node reports -> since when; None as long as nothing
            tells. The eviction manager of a new kubelet process reports none until it finds a
            threshold met.
    """

    labels: dict[str, str] = {}
    taints: tuple[dict[str, str], ...] = ()
    capacity: dict[str, str] | None = None
    allocatable: dict[str, str] | None = None
    cpus: int | None = None
    memory_capacity_bytes: int | None = None
    numa_nodes: tuple[int, ...] | None = None
    reasons: dict[str, int] = {}
    clock_steps: int = 0
    pressure: dict[str, int] | None = None


class NodeState(msgspec.Struct, kw_only=True):
    """Everything about one node after one of its records.

    Attributes:
        node: its name; empty before the first record.
        seq: number of the last record that was applied; 0 before the first.
        ts_ns: time of that record; None before the first.
        latest_ts_ns: the greatest time of all records applied.
        settings: KubeletConfiguration field or ``--flag`` -> effective setting.
        conflicts: (n,) sentences about sources that disagree on settings.
    """

    node: str = ""
    seq: int = 0
    ts_ns: int | None = None
    latest_ts_ns: int | None = None
    kubelet: KubeletState = msgspec.field(default_factory=KubeletState)
    machine: MachineState = msgspec.field(default_factory=MachineState)
    settings: dict[str, Setting] = {}
    conflicts: tuple[str, ...] = ()
    lifecycle: LifecycleState = msgspec.field(default_factory=LifecycleState)
    devicemanager: DeviceManagerState = msgspec.field(default_factory=DeviceManagerState)
    allocation: AllocationState = msgspec.field(default_factory=AllocationState)
    dra: DraManagerState = msgspec.field(default_factory=DraManagerState)
    cpumanager: CpuManagerState = msgspec.field(default_factory=CpuManagerState)
    memorymanager: MemoryManagerState = msgspec.field(default_factory=MemoryManagerState)
    topologymanager: TopologyManagerState = msgspec.field(default_factory=TopologyManagerState)
    prober: ProberState = msgspec.field(default_factory=ProberState)
    imagepull: ImagePullState = msgspec.field(default_factory=ImagePullState)
    images: ImagesState = msgspec.field(default_factory=ImagesState)
    preemption: PreemptionState = msgspec.field(default_factory=PreemptionState)
    cgroups: CgroupsState = msgspec.field(default_factory=CgroupsState)
