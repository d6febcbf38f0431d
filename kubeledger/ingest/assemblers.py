"""All assemblers of a bundle: what each needs of which other, and the order in which they read."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from kubeledger.ingest.correlate.admission import AdmissionAssembler
from kubeledger.ingest.correlate.assembler import Assembler, Entry, reads
from kubeledger.ingest.correlate.assignments import CpuAssembler, MemoryAssembler
from kubeledger.ingest.correlate.cgroups import CgroupAssembler
from kubeledger.ingest.correlate.container_names import ContainerNames
from kubeledger.ingest.correlate.containers import ContainerEventsAssembler
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.devices import DeviceAssembler
from kubeledger.ingest.correlate.error_lines import ErrorsAssembler
from kubeledger.ingest.correlate.evictions import EvictionsAssembler
from kubeledger.ingest.correlate.holdback import Holdback
from kubeledger.ingest.correlate.images import ImageAssembler
from kubeledger.ingest.correlate.kills import KillsAssembler
from kubeledger.ingest.correlate.lifecycle import EndingsAssembler, LifecycleAssembler
from kubeledger.ingest.correlate.node import ConditionsAssembler, NodeAssembler
from kubeledger.ingest.correlate.oom import OomAssembler
from kubeledger.ingest.correlate.preemption import PreemptionAssembler
from kubeledger.ingest.correlate.pulls import PullsAssembler
from kubeledger.ingest.correlate.readings import ReadingsAssembler
from kubeledger.ingest.correlate.reasons import ReasonAssembler
from kubeledger.ingest.correlate.registers import Admissions, Containers, Pods, Registers, SyncLoop
from kubeledger.ingest.correlate.resizes import ResizesAssembler
from kubeledger.ingest.correlate.stages import StagesAssembler
from kubeledger.ingest.correlate.state_files import ClaimsAssembler, PodsStateAssembler
from kubeledger.ingest.correlate.topology import TopologyAssembler
from kubeledger.ingest.correlate.troubles import ShutdownAssembler, TroublesAssembler
from kubeledger.ingest.derive.probes import ProbesAssembler
from kubeledger.ingest.derive.tick_grid import LostLinesAssembler
from kubeledger.ingest.planning.plan import KubeletVersion
from kubeledger.ingest.sources.items import Fact, Facts, LogLine
from kubeledger.model.bodies.node import KubeletStarted
from kubeledger.model.units import NS_PER_S

_VERSION = r"Version: v(?:0|1\.(?:1?\d|20))\."
"""Of kubelets up to 1.20; what logs a later version in this form is the API server or the like."""
_FIRST = re.compile(
    rf"FLAG: --|\b{_VERSION}|Kubelet version|feature gates: |Flag --"
    r"|--pod-infra-container-image (will|is)|KubeletCgroups is not within"
    r"|[Uu]sing lenient decoding|KubeletConfiguration"
)
"""What a kubelet may log first, by verbosity, flags and version: all that precedes its version.

Source: cmd/kubelet/app/server.go NewKubeletCommand of 1.19 to 1.36.
"""

_FIRST_FILES = frozenset({"flags.go", "feature_gate.go", "envvar.go"})


class StartAssembler(Assembler):
    """Tells starts of kubelets apart.

    Another process ID is another kubelet. Where there is none (klog JSON), or always the
    same (a kubelet in a container is process 1), the lines of a start do: the flags and then
    the version are logged once each, in this order.
    """

    def __init__(
        self,
        context: BundleContext,
        version_at: Callable[[LogLine], KubeletVersion],
        oom: OomAssembler,
        endings: EndingsAssembler,
    ) -> None:
        super().__init__(context)
        self._oom = oom
        self._endings = endings
        self._version_at = version_at
        self._started = False
        self._pid: int | None = None
        self._versioned = False
        self._earlier: set[int | None] = set()

    def new_process(self, line: LogLine) -> Facts:
        """The first line of a log or of another process ID."""
        if self._started and (line.pid is None or line.pid == self._pid):
            return ()
        if line.pid in self._earlier:
            return ()  # what a process wrote last comes late
        is_first = line.file in _FIRST_FILES or _FIRST.search(line.message) is not None
        return self._start(line, from_start=is_first or self._is_of_start(line))

    def _is_of_start(self, line: LogLine) -> bool:
        """What a process writes in the second before it states its version, it begins with.

        Process 1 may be the one before, in a container that was started anew.
        """
        stated = self._version_at(line)
        if stated.ts_ns is None or line.pid in (None, 1) or line.pid != stated.pid:
            return False
        return 0 <= stated.ts_ns - line.ts_ns < NS_PER_S

    @reads("FLAG")
    def _flag(self, entry: Entry) -> Facts:
        return self._start(entry.line) if self._versioned else ()

    @reads("Kubelet version")
    def _version(self, entry: Entry) -> Facts:
        facts = self._start(entry.line) if self._versioned else ()
        self._versioned = True
        return facts

    def _start(self, line: LogLine, *, from_start: bool = True) -> Facts:
        version = self._version_at(line)
        body = KubeletStarted(
            pid=line.pid,
            kubelet_version=version.version,
            version_source=version.source,
            version_text=version.text,
            restart=self._started,
            from_start=from_start,
        )
        self._earlier.add(self._pid)
        # A process whose begin is not in the log has logged its version: the next one logged
        # is another's.
        self._started, self._pid, self._versioned = True, line.pid, not from_start
        oom, endings = self._oom, self._endings
        before = [*oom.queue.release(line.ts_ns), *endings.queue.release(line.ts_ns)]
        cause = oom.kubelet_killed or endings.kubelet_exit
        endings.kubelet_exit = oom.kubelet_killed = None
        return (*before, Fact(line.ts_ns, body, (line.evidence,), cause=cause))


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
    states = PodsStateAssembler(context)

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
        states,
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
        ResizesAssembler(context, registers, states),
        probes,
        PullsAssembler(context, registers),
        stages,
    )
    reasons, errors = ReasonAssembler(context, images.removed), ErrorsAssembler(context)
    in_order = (starts, *of_node, *of_pods, oom, reasons, errors)
    return Assemblers(starts, errors, stages, in_order)
