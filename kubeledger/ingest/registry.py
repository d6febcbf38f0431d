"""The assemblers, in the order in which a line or document is given to them."""

from __future__ import annotations

from kubeledger.ingest.correlate.assemble_admission import AdmissionAssembler
from kubeledger.ingest.correlate.assemble_cgroups import CgroupAssembler
from kubeledger.ingest.correlate.assemble_containers import ContainersAssembler
from kubeledger.ingest.correlate.assemble_cpus import CpuAssembler
from kubeledger.ingest.correlate.assemble_devices import DeviceAssembler
from kubeledger.ingest.correlate.assemble_endings import EndingsAssembler
from kubeledger.ingest.correlate.assemble_evictions import EvictionsAssembler
from kubeledger.ingest.correlate.assemble_images import ImageAssembler
from kubeledger.ingest.correlate.assemble_kills import KillsAssembler
from kubeledger.ingest.correlate.assemble_lifecycle import LifecycleAssembler
from kubeledger.ingest.correlate.assemble_memory import MemoryAssembler
from kubeledger.ingest.correlate.assemble_node import NodeAssembler
from kubeledger.ingest.correlate.assemble_oom import OomAssembler
from kubeledger.ingest.correlate.assemble_preemption import PreemptionAssembler
from kubeledger.ingest.correlate.assemble_reasons import ReasonAssembler
from kubeledger.ingest.correlate.assemble_topology import TopologyAssembler
from kubeledger.ingest.correlate.assemble_usage import UsageAssembler
from kubeledger.ingest.correlate.assembler import Assembler
from kubeledger.ingest.derive.assemble_beats import BeatAssembler
from kubeledger.ingest.derive.assemble_prober import ProberAssembler

__all__ = ["ASSEMBLERS"]

ASSEMBLERS: tuple[type[Assembler], ...] = (
    AdmissionAssembler,
    BeatAssembler,
    CgroupAssembler,
    ContainersAssembler,
    CpuAssembler,
    DeviceAssembler,
    EndingsAssembler,
    EvictionsAssembler,
    ImageAssembler,
    KillsAssembler,
    LifecycleAssembler,
    MemoryAssembler,
    NodeAssembler,
    OomAssembler,
    PreemptionAssembler,
    ProberAssembler,
    ReasonAssembler,
    TopologyAssembler,
    UsageAssembler,
)
