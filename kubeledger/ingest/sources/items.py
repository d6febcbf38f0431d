"""What the readers hand to the assemblers, in the order of time; and facts, which come of it.

A reader knows a file format and nothing about decisions; an assembler knows what the
kubelet means and nothing about files. These types stand between them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from kubeledger.ingest.sources.shapes import ApiReason
from kubeledger.ingest.sources.times import Stamp
from kubeledger.model.bodies.devicemanager import AllocatableResourcesListed, PodResourcesListed
from kubeledger.model.bodies.images import PullRecordRead
from kubeledger.model.record import Body, Evidence


class Finding(msgspec.Struct, frozen=True):
    """Something a reader of the ledger must know; as in ``FindingReported``."""

    finding: str
    file: str | None
    message: str


# A fact on its way from a source into the ledger: a record that has no number yet.


class Fact:
    """What one or several pieces of evidence say; becomes one record.

    Attributes:
        ts_ns: when, UTC.
        body: observation or decision.
        evidence: (n,) n >= 1 for everything read from a source.
        cause: the fact that led to this one; it must have been emitted before.
        seq: number of the record it became; None until it is emitted.
        late: of the same instant, it comes after what else happened.
    """

    __slots__ = ("body", "cause", "evidence", "late", "seq", "ts_ns")

    def __init__(
        self,
        ts_ns: int,
        body: Body,
        evidence: tuple[Evidence, ...],
        cause: Fact | None = None,
        *,
        late: bool = False,
    ) -> None:
        self.ts_ns = ts_ns
        self.body = body
        self.evidence = evidence
        self.cause = cause
        self.seq: int | None = None
        self.late = late


Facts = Iterable[Fact]


TEXT_HELD = 1 << 16
"""Letters of a line that an entry holds while it waits: far more than of a pod's status."""


class LogLine(msgspec.Struct):
    """One klog entry, its continuation lines included.

    Attributes:
        ts_ns: UTC, the year supplied by the reader.
        severity: ``I``, ``W``, ``E`` or ``F``.
        pid: klog's thread id column (the kubelet writes its process ID), None in JSON.
        file: the caller's file, ``prober.go``; ``caller_line`` its line (0 when absent).
        message: free text after ``] ``, or the quoted message of a structured line,
            unquoted; without trailing newline. Continuation lines are joined by newlines.
        values: key -> value of a structured line, None for free text. Strings are unquoted;
            values klog wrote as JSON are decoded; other bare values stay text.
        source: path of the log within the bundle.
        line, offset: 1-based line and byte offset of the entry's first line.
        text: the entry's first line, raw, cut at ``TEXT_HELD``.
        is_told: of severity W, E or F: a record tells what it says.
    """

    ts_ns: int
    severity: str
    pid: int | None
    file: str
    caller_line: int
    message: str
    values: dict[str, Any] | None
    source: str
    line: int
    offset: int
    text: str
    is_told: bool = False

    @property
    def is_error(self) -> bool:
        """It is of severity W, E or F."""
        return self.severity != "I"

    @property
    def evidence(self) -> Evidence:
        """Where this entry stands."""
        return Evidence(file=self.source, line=self.line, offset=self.offset, text=self.text[:4096])


class CutLine(msgspec.Struct):
    """A line was cut of which an entry was read, or would have been.

    Attributes:
        cut_at: length at which all longer lines of the log were cut; None: at none.
    """

    line: LogLine
    cut_at: int | None

    @property
    def evidence(self) -> Evidence:
        return self.line.evidence

    @property
    def ts_ns(self) -> int:
        return self.line.ts_ns


class PodList(msgspec.Struct):
    """A list of pods as one file showed it.

    Attributes:
        listed_by: as in ``lifecycle.PodListed``.
        pods: the API's own JSON objects.
        complete: the list is whole, so a pod that is missing is gone (False: manifests).
        namespaces: that an API server's list shows, of which alone it is whole: nothing shows
            whether it was asked for all of them; None: it is of all.
    """

    ts_ns: int
    listed_by: Literal["kubelet", "api", "manifest"]
    pods: list[dict[str, Any]]
    complete: bool
    evidence: Evidence
    namespaces: frozenset[str] | None = None


class Checkpoint(msgspec.Struct):
    """``kubelet_internal_checkpoint``: the decoded JSON, and the bytes it came from."""

    ts_ns: int
    data: dict[str, Any]
    raw: bytes
    evidence: Evidence


class CpuManagerState(msgspec.Struct):
    """``cpu_manager_state``: the decoded JSON."""

    ts_ns: int
    data: dict[str, Any]
    evidence: Evidence


class MemoryManagerState(msgspec.Struct):
    """``memory_manager_state``: the decoded JSON."""

    ts_ns: int
    data: dict[str, Any]
    evidence: Evidence


class PodsState(msgspec.Struct):
    """``allocated_pods_state`` or ``actuated_pods_state``, as its name says: the decoded JSON."""

    ts_ns: int
    data: dict[str, Any]
    evidence: Evidence


class DraManagerState(msgspec.Struct):
    """``dra_manager_state``: the decoded JSON."""

    ts_ns: int
    data: dict[str, Any]
    evidence: Evidence


class ImageManagerRecord(msgspec.Struct):
    """A file of ``image_manager/``."""

    ts_ns: int
    body: PullRecordRead
    evidence: Evidence


class CgroupFiles(msgspec.Struct):
    """One snapshot of the cgroup files.

    Attributes:
        values: cgroup path below the controller -> file name -> text.
        evidence: path -> where its lines stand.
        open_end: path and file of the last line, where the file does not end with it.
    """

    ts_ns: int
    values: dict[str, dict[str, str]]
    evidence: dict[str, tuple[Evidence, ...]]
    open_end: tuple[str, str] | None = None


class StatsSummary(msgspec.Struct):
    """``/stats/summary``: the decoded JSON."""

    ts_ns: int
    data: dict[str, Any]
    evidence: Evidence


class ProbeCounters(msgspec.Struct):
    """``/metrics/probes``: one reading of ``prober_probe_total``.

    Attributes:
        totals: (namespace, pod, pod UID or "", container, probe type, result) -> count, all
            as labelled, in file order.
        evidence: same keys -> the line.
    """

    ts_ns: int
    totals: dict[tuple[str, str, str, str, str, str], int]
    evidence: dict[tuple[str, str, str, str, str, str], Evidence]


class PodResources(msgspec.Struct):
    """An answer of the pod-resources API."""

    ts_ns: int
    body: PodResourcesListed | AllocatableResourcesListed
    evidence: Evidence


class KubeletCounters(msgspec.Struct):
    """``/metrics``: what the kubelet counts of its own decisions since it started.

    Attributes:
        totals: name of a metric -> its sum over all labels.
    """

    ts_ns: int
    totals: dict[str, int]
    evidence: Evidence


class NodeObject(msgspec.Struct):
    """A Node object of the API."""

    ts_ns: int
    node: dict[str, Any]
    evidence: Evidence


class ObservedGap(msgspec.Struct):
    """A time in which the recorder could not observe a source; ``ts_ns``: when it noticed.

    Attributes: as in ``ledger.GapObserved``.
    """

    ts_ns: int
    stream: str
    reason: str
    since_ns: int | None
    until_ns: int | None
    evidence: Evidence


class ApiEvent(msgspec.Struct):
    """One Kubernetes event object, from a list or a watch."""

    ts_ns: int
    event: ApiReason
    evidence: Evidence


class FirstEvent(msgspec.Struct):
    """The first of several occurrences that one event object stands for."""

    ts_ns: int
    event: ApiReason
    evidence: Evidence


class KubeletConfigFile(msgspec.Struct):
    """A KubeletConfiguration document.

    Attributes:
        served: a running kubelet answered with it (``/configz``): what that process runs
            with. Else it is a file, which some process may have read.
    """

    ts_ns: int
    config: dict[str, Any]
    evidence: Evidence
    served: bool = False


class RuntimeImage(msgspec.Struct, frozen=True):
    """An image as the runtime lists it.

    Attributes:
        names: its tags.
    """

    image_id: str
    names: tuple[str, ...]
    size_bytes: int


class RuntimeContainer(msgspec.Struct, frozen=True):
    """A container or sandbox of a pod as the runtime shows it.

    Attributes:
        container: None for a sandbox.
        created_ns: UTC; None when it is not shown.
    """

    container_id: str
    pod_uid: str
    namespace: str
    pod: str
    container: str | None
    created_ns: int | None


class RuntimeObjects(msgspec.Struct):
    """What the runtime answered to ``crictl``: no decision, but names and sizes."""

    ts_ns: int
    images: list[RuntimeImage]
    containers: list[RuntimeContainer]
    evidence: Evidence


class CollectedAt(msgspec.Struct):
    """A collection says when it was made; nothing happened then."""

    ts_ns: int
    collected_ns: int
    evidence: Evidence


Constraint = Literal["memcg", "none", "cpuset", "memory_policy"]


class KernelTask(msgspec.Struct):
    """A row of the OOM killer's table; ``page_table_bytes`` None before Linux 4.15."""

    pid: int
    name: str
    rss_pages: int
    swap_pages: int
    page_table_bytes: int | None
    page_table_pages: int
    oom_score_adj: int


class KernelReport(msgspec.Struct):
    """One report of the kernel's OOM killer.

    Attributes:
        ts_ns: UTC; 0 until it is dated.
        file: of the kernel log.
        host: as the lines name it; empty where they do not.
        stamp: of the last line.
        is_cut: lines of it are missing.
        invoked_by: name of the process that asked for memory.
        usages: ``memory``, ``swap``, ``memory+swap``, ``kmem`` -> usage and limit in bytes.
        cgroup, task_cgroup: paths with their leading slash; ``cgroup`` None for the node's.
        constraint: lower case, ``memcg``; None when the line is missing.
        is_memcg: the last line says that a cgroup was out of memory; None without it.
        ram_pages: managed by the kernel; ``swap_bytes`` all there is.
        tasks: (n,) rows; None without the table's header.
        pid: of the process that was killed; None where the log ends before that.
        chosen_pid: chosen by an old kernel, which then killed a child of it.
        anon_bytes: part of ``rss_bytes``.
        conflict: what two lines of it say differently, and both.
        evidence: the lines that show most.
    """

    file: str
    host: str
    stamp: Stamp
    ts_ns: int = 0
    is_cut: bool = False
    invoked_by: str | None = None
    usages: dict[str, tuple[int, int]] = {}
    cgroup: str | None = None
    task_cgroup: str | None = None
    constraint: Constraint | None = None
    is_memcg: bool | None = None
    ram_pages: int | None = None
    swap_bytes: int | None = None
    tasks: list[KernelTask] | None = None
    chosen_pid: int | None = None
    process: str | None = None
    pid: int | None = None
    rss_bytes: int | None = None
    anon_bytes: int | None = None
    oom_score_adj: int | None = None
    also_killed: tuple[int, ...] = ()
    allocating_task: bool = False
    conflict: tuple[str, str, str] | None = None
    evidence: tuple[Evidence, ...] = ()


class KernelReports(msgspec.Struct):
    """What a kernel log holds, before it is known when that was.

    Attributes:
        reports: (n,) in the order of the file.
        boots: (m,) times of the boot, UTC, as lines with a time of day of their own show it.
    """

    ts_ns: int
    reports: list[KernelReport]
    boots: list[int]
    evidence: Evidence


Item = (
    LogLine
    | CutLine
    | PodList
    | Checkpoint
    | CpuManagerState
    | MemoryManagerState
    | PodsState
    | DraManagerState
    | ImageManagerRecord
    | CgroupFiles
    | StatsSummary
    | ProbeCounters
    | PodResources
    | NodeObject
    | ObservedGap
    | ApiEvent
    | FirstEvent
    | KubeletConfigFile
    | KubeletCounters
    | KernelReport
    | KernelReports
    | RuntimeObjects
    | CollectedAt
)
