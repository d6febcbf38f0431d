"""All assemblers of a bundle: what each needs of which other, and the order in which they read."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kubeledger.ingest.correlate.admission import AdmissionAssembler
from kubeledger.ingest.correlate.admissions import Admissions
from kubeledger.ingest.correlate.assembler import Assembler
from kubeledger.ingest.correlate.cgroups import CgroupAssembler
from kubeledger.ingest.correlate.container_events import ContainerEventsAssembler
from kubeledger.ingest.correlate.container_names import ContainerNames
from kubeledger.ingest.correlate.containers import Containers
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.cpus import CpuAssembler
from kubeledger.ingest.correlate.devices import DeviceAssembler
from kubeledger.ingest.correlate.endings import EndingsAssembler
from kubeledger.ingest.correlate.evictions import EvictionsAssembler
from kubeledger.ingest.correlate.holdback import Holdback
from kubeledger.ingest.correlate.images import ImageAssembler
from kubeledger.ingest.correlate.kill_reasons import KillReasons
from kubeledger.ingest.correlate.kills import KillsAssembler
from kubeledger.ingest.correlate.lifecycle import LifecycleAssembler
from kubeledger.ingest.correlate.memory import MemoryAssembler
from kubeledger.ingest.correlate.node import NodeAssembler
from kubeledger.ingest.correlate.oom import OomAssembler
from kubeledger.ingest.correlate.pod_assembler import Registers
from kubeledger.ingest.correlate.pod_resources import PodResourcesAssembler
from kubeledger.ingest.correlate.pods import Pods
from kubeledger.ingest.correlate.preemption import PreemptionAssembler
from kubeledger.ingest.correlate.reasons import ReasonAssembler
from kubeledger.ingest.correlate.sync_loop import SyncLoop
from kubeledger.ingest.correlate.topology import TopologyAssembler
from kubeledger.ingest.correlate.usage import UsageAssembler
from kubeledger.ingest.derive.lost_lines import LostLinesAssembler
from kubeledger.ingest.derive.probes import ProbesAssembler
from kubeledger.ingest.planning.identity import KubeletVersion
from kubeledger.ingest.sources.items import LogLine
from kubeledger.ingest.starts import StartAssembler

__all__ = ["Assemblers", "assemblers_of"]


class Assemblers(NamedTuple):
    """Of one bundle.

    Attributes:
        starts: separates the kubelet processes; the first of ``in_order``.
        in_order: all, in the order in which each line and each document is given to them. Of
            two facts of one instant the one of the earlier assembler is recorded first.
    """

    starts: StartAssembler
    in_order: tuple[Assembler, ...]


def assemblers_of(
    context: BundleContext, version_at: Callable[[LogLine], KubeletVersion]
) -> Assemblers:
    """Make all assemblers; ``version_at``: the version of the kubelet that wrote a line.

    The registers (pods, the sync loop, containers, admissions under way) come first. Each has one
    assembler that keeps it, and containers two: their events, and kills, which name them, too.
    """
    registers = Registers(Holdback(), Pods(context), SyncLoop(), Containers(), Admissions())
    _, pods, sync_loop, containers, admissions = registers

    node, lost_lines, usage = (
        NodeAssembler(context),
        LostLinesAssembler(context),
        UsageAssembler(context),
    )
    cgroups = CgroupAssembler(context, containers)
    cpus, memory = CpuAssembler(context), MemoryAssembler(context)
    devices = DeviceAssembler(context, pods, sync_loop)
    pod_resources = PodResourcesAssembler(context)
    topology, images = TopologyAssembler(context), ImageAssembler(context)
    reasons = ReasonAssembler(context, images.removed)
    oom = OomAssembler(context, sync_loop)

    preemption = PreemptionAssembler(context, registers)
    evictions = EvictionsAssembler(context, registers)
    lifecycle = LifecycleAssembler(context, registers)
    admission = AdmissionAssembler(context, registers, preemption, evictions)
    endings = EndingsAssembler(context, registers, preemption, evictions, (cpus, memory))
    names = ContainerNames(context, containers, admissions, preemption, evictions)
    events = ContainerEventsAssembler(context, registers, names, oom)
    probes = ProbesAssembler(context, registers)
    why_killed = KillReasons(preemption, evictions, endings, probes.failures)
    kills = KillsAssembler(context, registers, why_killed)
    starts = StartAssembler(context, version_at, oom, endings)

    of_node = (
        node,
        lost_lines,
        cgroups,
        cpus,
        memory,
        devices,
        pod_resources,
        topology,
        images,
        usage,
    )
    of_pods = (preemption, admission, events, endings, evictions, kills, lifecycle, probes)
    return Assemblers(starts, (starts, *of_node, *of_pods, oom, reasons))
