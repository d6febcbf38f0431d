"""All assemblers of a bundle: what each needs of which other, and the order in which they read."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kubeledger.ingest.correlate.admission import AdmissionAssembler
from kubeledger.ingest.correlate.assembler import Assembler
from kubeledger.ingest.correlate.cgroups import CgroupAssembler
from kubeledger.ingest.correlate.claims import ClaimsAssembler
from kubeledger.ingest.correlate.container_events import ContainerEventsAssembler
from kubeledger.ingest.correlate.container_names import ContainerNames
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.cpus import CpuAssembler
from kubeledger.ingest.correlate.devices import DeviceAssembler
from kubeledger.ingest.correlate.endings import EndingsAssembler
from kubeledger.ingest.correlate.errors import ErrorsAssembler
from kubeledger.ingest.correlate.evictions import EvictionsAssembler
from kubeledger.ingest.correlate.holdback import Holdback
from kubeledger.ingest.correlate.images import ImageAssembler
from kubeledger.ingest.correlate.kills import KillsAssembler
from kubeledger.ingest.correlate.lifecycle import LifecycleAssembler
from kubeledger.ingest.correlate.memory import MemoryAssembler
from kubeledger.ingest.correlate.node import NodeAssembler
from kubeledger.ingest.correlate.node_conditions import ConditionsAssembler
from kubeledger.ingest.correlate.oom import OomAssembler
from kubeledger.ingest.correlate.pods_state import PodsStateAssembler
from kubeledger.ingest.correlate.preemption import PreemptionAssembler
from kubeledger.ingest.correlate.pulls import PullsAssembler
from kubeledger.ingest.correlate.readings import ReadingsAssembler
from kubeledger.ingest.correlate.reasons import ReasonAssembler
from kubeledger.ingest.correlate.registers import (
    Admissions,
    Containers,
    Pods,
    Registers,
    SyncLoop,
)
from kubeledger.ingest.correlate.resizes import ResizesAssembler
from kubeledger.ingest.correlate.shutdown import ShutdownAssembler
from kubeledger.ingest.correlate.stages import StagesAssembler
from kubeledger.ingest.correlate.topology import TopologyAssembler
from kubeledger.ingest.correlate.troubles import TroublesAssembler
from kubeledger.ingest.derive.lost_lines import LostLinesAssembler
from kubeledger.ingest.derive.probes import ProbesAssembler
from kubeledger.ingest.planning.identity import KubeletVersion
from kubeledger.ingest.sources.items import LogLine
from kubeledger.ingest.starts import StartAssembler


class Assemblers(NamedTuple):
    """Of one bundle.

    Attributes:
        starts: separates the kubelet processes; the first of ``in_order``.
        errors: is given each line of severity W, E or F when the others have read it.
        stages: is given each line that was cut before what they need of it.
        in_order: all, in the order in which each line and each document is given to them. Of
            two facts of one instant the one of the earlier assembler is recorded first.
    """

    starts: StartAssembler
    errors: ErrorsAssembler
    stages: StagesAssembler
    in_order: tuple[Assembler, ...]


def assemblers_of(
    context: BundleContext, version_at: Callable[[LogLine], KubeletVersion]
) -> Assemblers:
    """Make all assemblers; ``version_at``: the version of the kubelet that wrote a line.

    The registers (pods, the sync loop, containers, admissions under way) come first. Each has one
    assembler that keeps it, and containers two: their events, and kills, which name them, too.
    """
    registers = Registers(Holdback(), Pods(context), SyncLoop(), Containers(), Admissions())
    _, pods, sync_loop, containers, _ = registers

    cpus, memory, images = CpuAssembler(context), MemoryAssembler(context), ImageAssembler(context)
    oom = OomAssembler(context, sync_loop)
    preemption = PreemptionAssembler(context, registers)
    evictions = EvictionsAssembler(context, registers)
    endings = EndingsAssembler(context, registers, preemption, evictions, (cpus, memory))
    names = ContainerNames(context, registers, preemption, evictions)
    probes = ProbesAssembler(context, registers)
    starts = StartAssembler(context, version_at, oom, endings)
    stages = StagesAssembler(context, registers)

    of_node = (
        NodeAssembler(context),
        ConditionsAssembler(context),
        TroublesAssembler(context),
        ShutdownAssembler(context),
        LostLinesAssembler(context),
        CgroupAssembler(context, containers),
        cpus,
        memory,
        DeviceAssembler(context, pods, sync_loop),
        ClaimsAssembler(context, pods),
        PodsStateAssembler(context),
        TopologyAssembler(context),
        images,
        ReadingsAssembler(context),
    )
    of_pods = (
        preemption,
        AdmissionAssembler(context, registers, preemption, evictions),
        ContainerEventsAssembler(context, registers, names, oom),
        endings,
        evictions,
        KillsAssembler(context, registers, preemption, evictions, endings, probes.failures),
        LifecycleAssembler(context, registers),
        ResizesAssembler(context, registers),
        probes,
        PullsAssembler(context, registers),
        stages,
    )
    reasons, errors = ReasonAssembler(context, images.removed), ErrorsAssembler(context)
    in_order = (starts, *of_node, *of_pods, oom, reasons, errors)
    return Assemblers(starts, errors, stages, in_order)
