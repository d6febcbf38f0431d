"""All assemblers of a bundle: each made when it is needed, and the order in which they read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Literal

from kubeledger.ingest.correlate.admission import AdmissionAssembler
from kubeledger.ingest.correlate.assembler import Assembler, Declared, Handler, reads
from kubeledger.ingest.correlate.assignments import CpuAssembler, MemoryAssembler
from kubeledger.ingest.correlate.cgroups import CgroupAssembler
from kubeledger.ingest.correlate.containers import ContainerEventsAssembler
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.devices import DeviceAssembler
from kubeledger.ingest.correlate.entry import Entry
from kubeledger.ingest.correlate.error_lines import ErrorsAssembler
from kubeledger.ingest.correlate.evictions import EvictionsAssembler
from kubeledger.ingest.correlate.images import ImageAssembler
from kubeledger.ingest.correlate.kills import KillsAssembler
from kubeledger.ingest.correlate.lifecycle import EndingsAssembler, LifecycleAssembler
from kubeledger.ingest.correlate.node import ConditionsAssembler, NodeAssembler
from kubeledger.ingest.correlate.oom import OomAssembler
from kubeledger.ingest.correlate.preemption import PreemptionAssembler
from kubeledger.ingest.correlate.pulls import PullsAssembler
from kubeledger.ingest.correlate.readings import ReadingsAssembler
from kubeledger.ingest.correlate.reasons import ReasonAssembler
from kubeledger.ingest.correlate.registers import Registers
from kubeledger.ingest.correlate.resizes import ResizesAssembler
from kubeledger.ingest.correlate.stages import StagesAssembler
from kubeledger.ingest.correlate.state_files import ClaimsAssembler, PodsStateAssembler
from kubeledger.ingest.correlate.topology import TopologyAssembler
from kubeledger.ingest.correlate.troubles import ShutdownAssembler, TroublesAssembler
from kubeledger.ingest.derive.probes import ProbesAssembler
from kubeledger.ingest.derive.tick_grid import LostLinesAssembler
from kubeledger.ingest.planning.plan import KubeletVersion
from kubeledger.ingest.sources.items import Fact, Facts, Item, LogLine
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
        self, registers: Registers, version_at: Callable[[LogLine], KubeletVersion]
    ) -> None:
        super().__init__(registers)
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
        loop, oom = self.registers.sync_loop, self.registers.made.get(OomAssembler)
        queues = (*([] if oom is None else [oom.queue]), self.registers.queue)
        before = [fact for queue in queues for fact in queue.release(line.ts_ns)]
        cause, loop.killed, loop.exited = loop.killed or loop.exited, None, None
        return (*before, Fact(line.ts_ns, body, (line.evidence,), cause=cause))


IN_ORDER: tuple[type[Assembler], ...] = (
    StartAssembler,
    # of the node
    NodeAssembler,
    ConditionsAssembler,
    TroublesAssembler,
    ShutdownAssembler,
    LostLinesAssembler,
    CgroupAssembler,
    CpuAssembler,
    MemoryAssembler,
    DeviceAssembler,
    ClaimsAssembler,
    PodsStateAssembler,
    TopologyAssembler,
    ImageAssembler,
    ReadingsAssembler,
    # of pods
    PreemptionAssembler,
    AdmissionAssembler,
    ContainerEventsAssembler,
    EndingsAssembler,
    EvictionsAssembler,
    KillsAssembler,
    LifecycleAssembler,
    ResizesAssembler,
    ProbesAssembler,
    PullsAssembler,
    StagesAssembler,
    OomAssembler,
    ReasonAssembler,
    ErrorsAssembler,
)
"""The order in which each line and each document is given to them.

Of two facts of one instant the one of the earlier assembler is recorded first.
"""


class Assemblers:
    """Of one bundle; each is made when something comes that it reads.

    Attributes:
        registers: what they share.
    """

    def __init__(
        self, context: BundleContext, version_at: Callable[[LogLine], KubeletVersion]
    ) -> None:
        """``version_at``: the version of the kubelet that wrote a line."""
        self.registers = Registers(context)
        self.registers.made[StartAssembler] = StartAssembler(self.registers, version_at)

    def made(self) -> Iterator[Assembler]:
        """Those that something has come for, in their order."""
        made = self.registers.made
        return (made[kind] for kind in IN_ORDER if kind in made)

    def of(self, word: Literal["reads", "takes"]) -> dict[Any, list[Handler]]:
        """Message -> what its lines are given to; or type -> what its items are."""
        found: dict[Any, list[Handler]] = {}
        for kind in IN_ORDER:
            for each in kind.declared(word):
                heard = found.setdefault(each.what, [])
                heard.append(partial(self._first, heard, len(heard), kind, each))
        return found

    def _first(
        self,
        heard: list[Handler],
        place: int,
        kind: type[Assembler],
        declared: Declared,
        item: Item,
    ) -> Facts | None:
        """The first that comes: what a line ends, or tells of time, nobody may have said yet."""
        registers = self.registers
        if isinstance(item, LogLine):
            if kind not in registers.made and not declared.is_read(item):
                due = kind.shares_queue and not declared.only_ends
                return registers.queue.release(item.ts_ns) if due else ()
            heard[place] = registers.assembler(kind).of_line(declared)
        else:
            heard[place] = registers.assembler(kind).of_item(declared)
        return heard[place](item)
