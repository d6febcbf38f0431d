"""What the verbosity lets a log hold, by version, and what it does hold."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Literal

import msgspec

from kubeledger.analyze.completeness.sources import Span
from kubeledger.analyze.histories.logs import LogEntry, LogReading
from kubeledger.kubelet.profile.facts import parse_version
from kubeledger.model.bodies.node import KubeletStarted, Setting, SettingsObserved
from kubeledger.model.errors import BadQuestionError
from kubeledger.model.units import NS_PER_S, integer

# At which verbosity a kubelet logs the lines that records rest on, by version.
#
# Read in the sources of every minor version from 1.19 to 1.36; a change stands at the first
# minor version that has it. Warnings and errors are always there and have level 0.


class LineKind(msgspec.Struct, frozen=True):
    """One kind of line.

    Attributes:
        name: what it shows, for people.
        records: kinds of records that rest on it, with spaces between.
        pattern: finds it in the text of a record's evidence.
        levels: first minor version -> the ``N`` of its ``klog.V(N)``, ascending; 0 is always
            logged, and there is none before the first.
        source: file and function that log it.
        lost: what is not known without it.
        period_s: a kubelet that runs logs it at least so often, so its absence means something;
            None for what need not happen.
    """

    name: str
    records: str
    pattern: str
    levels: dict[int, int]
    source: str
    lost: str
    period_s: int | None = None

    def level(self, minor: int) -> int | None:
        """The verbosity in that version; None when it has no such line."""
        held = [level for first, level in self.levels.items() if first <= minor]
        return held[-1] if held else None


KINDS: tuple[LineKind, ...] = (
    LineKind(
        "topology decisions", "topologymanager.AffinityDecided topologymanager.HintsGenerated",
        r"TopologyHint|Topology Affinity", {19: 0}, "cm/topologymanager/scope_container.go Admit",
        "NUMA hints and what they were merged to",
    ),
    LineKind(
        "CPU and memory assignments",
        "cpumanager.CpuManagerStarted cpumanager.CpusAllocated cpumanager.CpusReleased "
        "memorymanager.MemoryAllocated memorymanager.MemoryReleased",
        r"AllocateCPUs|allocateCPUs: returning|Updated memory state", {19: 0},
        "cm/cpumanager/policy_static.go allocateCPUs, cm/memorymanager/state/state_mem.go "
        "SetMemoryBlocks",
        "which containers got CPUs and memory of their own, and when",
    ),
    LineKind(
        "device plugin registrations", "devicemanager.PluginRegistered",
        r"Got registration request", {19: 0}, "cm/devicemanager Register",
        "when plugins registered",
    ),
    LineKind(
        "image GC starts and removals", "images.GarbageCollectionStarted images.ImageDeleted",
        r"Disk usage on image filesystem|Removing image", {19: 0},
        "images/image_gc_manager.go GarbageCollect, freeImage",
        "why images were removed, and which",
    ),
    LineKind(
        "preemptions", "preemption.PodPreempted",
        r"reempt\w* pod|attempting to evict pods|Attempting to evict pods", {19: 0, 22: 3, 34: 2},
        "preemption/preemption.go evictPodsToFreeRequests",
        "which pods were preempted, and for what amounts",
    ),
    LineKind(
        "settings (flags)", "node.SettingsObserved node.KubeletStarted", r"FLAG: --", {19: 1},
        "component-base flag PrintFlags", "settings that no configuration file holds",
    ),
    LineKind(
        "failed probes", "prober.ProbeExecuted",
        r"probe for .* (?:failed|errored)|Probe (?:failed|errored)", {19: 1},
        "prober/prober.go probe", "failures of probes",
    ),
    LineKind(
        "liveness changes that lead to a kill", "prober.ProbeTransitioned",
        r'SyncLoop \((?:container unhealthy\)|probe\).*"liveness")', {19: 1},
        "kubelet.go syncLoopIteration", "when a container was found unhealthy",
    ),
    LineKind(
        "readiness and startup changes", "prober.ProbeTransitioned",
        r'SyncLoop \(probe\).*"(?:readiness|startup)"', {21: 1}, "kubelet.go handleProbeSync",
        "when a container became ready or started (before 1.21 it follows from each probe)",
    ),
    LineKind(
        "pod additions, updates, removals", "lifecycle.PodConfigChanged lifecycle.PodAdmitted",
        r"SyncLoop[ (]+(?:ADD|UPDATE|REMOVE|DELETE)", {19: 2}, "kubelet.go syncLoopIteration",
        "when pods came and went",
    ),
    LineKind(
        "container starts and ends",
        "lifecycle.ContainerStarted lifecycle.ContainerDied lifecycle.ContainerRestarted",
        r"SyncLoop \(PLEG\)", {19: 2}, "kubelet.go syncLoopIteration",
        "when containers started and ended",
    ),
    LineKind(
        "container kills", "lifecycle.ContainerKilled", r"Killing container", {19: 2},
        "kuberuntime/kuberuntime_container.go killContainer",
        "grace periods, and kills that no event reports",
    ),
    LineKind(
        "device lists", "devicemanager.DevicesReported",
        r"State pushed for device plugin|Processed device updates", {19: 2}, "cm/devicemanager",
        "how many devices were healthy, and when that changed",
    ),
    LineKind(
        "failed admission predicates", "lifecycle.PodRejected", r"Predicate failed on Pod", {19: 2},
        "lifecycle/predicate.go Admit",
        "the amounts of a pod that did not fit (the status of the pod may have them)",
    ),
    LineKind(
        "events", "lifecycle.ReasonReported", r"Event occurred|Event\(v1\.ObjectReference", {19: 3},
        "client-go StartLogging, StartStructuredLogging",
        "events as they were sent; the API server's list drops many of them",
    ),
    LineKind(
        "successful probes", "prober.ProbeExecuted prober.ProbeTransitioned",
        r"probe for .* succeeded|Probe succeeded", {19: 3}, "prober/prober.go probe",
        "successes of probes: their runs cannot be counted, and before 1.21 readiness and "
        "startup changes are not known",
    ),
    LineKind(
        "eviction signals", "images.EvictionSignalObserved", r"signal", {19: 3},
        "eviction/helpers.go debugLogObservations", "how full memory and disks were, every 10 s",
        period_s=10,
    ),
    LineKind(
        "device requests", "devicemanager.AllocationRequested",
        r"eeds? to allocate|Need devices to allocate", {19: 3},
        "cm/devicemanager/manager.go devicesToAllocate", "what each container asked for",
    ),
    LineKind(
        "device allocations", "devicemanager.DevicesAllocated", r"Making allocation request",
        {19: 3, 33: 4}, "cm/devicemanager/manager.go allocateContainerResources",
        "when devices were given (a checkpoint shows which, later)",
    ),
    LineKind(
        "device releases", "devicemanager.DevicesReleased", r"ods to be removed", {19: 3},
        "cm/devicemanager/manager.go UpdateAllocatedDevices", "when devices were given back",
    ),
    LineKind(
        "QoS cgroup writes", "cgroups.QOSCgroupsUpdated", r"Updated QoS cgroup configuration",
        {19: 4}, "cm/qos_container_manager_linux.go UpdateCgroups",
        "when the QoS cgroups were written (every minute, and with pods)", period_s=60,
    ),
    LineKind(
        "pod reconciliations", "lifecycle.PodConfigChanged", r"SyncLoop[ (]+RECONCILE", {19: 4},
        "kubelet.go syncLoopIteration", "when the API server confirmed a pod's status",
    ),
    LineKind(
        "image lists", "images.ImagesDetected", r"image_gc_manager\.go|Image ID|image ID", {19: 5},
        "images/image_gc_manager.go detectImages",
        "which images were in use when, so why an unused one was kept or removed", period_s=300,
    ),
)  # fmt: skip


Status = Literal["there", "not logged", "none", "missing", "not in this version", "not known"]
"""``there``: records rest on such lines. ``not logged``: the verbosity is below theirs.
``none``: the verbosity is enough and there are none, which may well be. ``missing``: the same
of lines that a running kubelet always logs: the log was thinned out, or not imported whole."""


class Configured(msgspec.Struct, frozen=True, kw_only=True):
    """What the settings of one kubelet process say.

    Attributes:
        seq: record of the settings.
        verbosity: None when they do not say.
        source: of the setting, as in ``node.Setting``; None as above.
    """

    seq: int
    verbosity: int | None
    source: str | None = None


class LineStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of line.

    Attributes:
        level: verbosity that it takes; None when the version has no such line or is unknown.
        records: that rest on such a line.
        source: where the kubelet logs it.
    """

    name: str
    level: int | None
    records: int
    status: Status
    lost: str
    source: str


class VerbosityReport(msgspec.Struct, frozen=True, kw_only=True):
    """Section 2.

    Attributes:
        shown: the highest level of a line that is there; None without any line.
        verbosity: the lowest that the settings of any process give; None when they do not.
        kubelet_version: by whose levels the lines are judged: the last process's.
        thinned: lines that a running kubelet logs all the time are missing although the
            verbosity is enough.
    """

    configured: list[Configured]
    verbosity: int | None
    shown: int | None
    kubelet_version: str | None
    thinned: bool
    lines: list[LineStatus]


class VerbosityPart:
    """Gathers section 2."""

    def __init__(self, span: Span, log: LogReading) -> None:
        self._span = span
        self._log = log
        self._configured: list[Configured] = []
        self._version: str | None = None
        self._first_ns: int | None = None
        self._last_ns = 0
        self._seen: Counter[str] = Counter()
        self._by_record: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
        for kind in KINDS:
            for record_kind in kind.records.split():
                named = (kind.name, re.compile(kind.pattern))
                self._by_record.setdefault(record_kind, []).append(named)

    def see(self, entry: LogEntry) -> None:
        """Take in one record."""
        record, body = entry.record, entry.record.body
        if isinstance(body, SettingsObserved):
            self._configured.append(_configured(record.seq, body.settings))
        elif isinstance(body, KubeletStarted):
            self._version = body.kubelet_version or self._version
        if not self._span.holds(record.ts_ns):
            return
        texts = [e.text for e in record.evidence if e.text and self._log.is_line(e)]
        if texts:
            self._first_ns = record.ts_ns if self._first_ns is None else self._first_ns
            self._last_ns = max(self._last_ns, record.ts_ns)
        for name, pattern in self._by_record.get(record.kind, ()):
            self._seen[name] += any(pattern.search(text) for text in texts)

    def report(self) -> VerbosityReport:
        known = [one.verbosity for one in self._configured if one.verbosity is not None]
        verbosity = min(known) if len(known) == len(self._configured) and known else None
        minor = minor_of(self._version)
        lines = [self._status(kind, minor, verbosity) for kind in KINDS]
        shown = [line.level for line in lines if line.records and line.level is not None]
        return VerbosityReport(
            configured=self._configured,
            verbosity=verbosity,
            shown=max(shown, default=None),
            kubelet_version=self._version,
            thinned=any(line.status == "missing" for line in lines),
            lines=sorted(lines, key=lambda line: (line.level is None, line.level or 0)),
        )

    def _status(self, kind: LineKind, minor: int | None, verbosity: int | None) -> LineStatus:
        seen = self._seen[kind.name]
        level = kind.level(minor) if minor is not None else None
        return LineStatus(
            name=kind.name,
            level=level,
            records=seen,
            status=self._judge(kind, seen, level, minor, verbosity),
            lost=kind.lost,
            source=kind.source,
        )

    def _judge(
        self, kind: LineKind, seen: int, level: int | None, minor: int | None, verbosity: int | None
    ) -> Status:
        if seen:
            return "there"
        if level is None:
            return "not known" if minor is None else "not in this version"
        if verbosity is None:
            return "none" if level == 0 else "not known"
        if level > verbosity:
            return "not logged"
        return "missing" if self._is_long_enough(kind) else "none"

    def _is_long_enough(self, kind: LineKind) -> bool:
        """The log continues for so long that a regular line must be in it."""
        if kind.period_s is None or self._first_ns is None:
            return False
        return self._last_ns - self._first_ns >= 2 * kind.period_s * NS_PER_S


def _configured(seq: int, settings: dict[str, Setting]) -> Configured:
    """``logging.verbosity`` of the configuration, else the flag ``--v``."""
    for name in ("logging", "--v"):
        setting = settings.get(name)
        if setting is None:
            continue
        value: Any = setting.decoded()
        if isinstance(value, dict):
            value = value.get("verbosity")
        verbosity = integer(value)
        if verbosity is not None:
            return Configured(seq=seq, verbosity=verbosity, source=setting.source)
    return Configured(seq=seq, verbosity=None)


def minor_of(version: str | None) -> int | None:
    """The minor version; None of one that is not known."""
    try:
        return parse_version(version).minor if version else None
    except BadQuestionError:
        return None
