"""What was imported, what became of its lines, and where the logs begin and end."""

from __future__ import annotations

from collections import Counter
from typing import Literal

import msgspec

from kubeledger.analyze.histories.logs import LogEntry, LoggedProcess, LogReading
from kubeledger.analyze.logged_errors import harmless
from kubeledger.model.bodies.eviction import NodeConditionsChanged, PodPreempted
from kubeledger.model.bodies.images import GarbageCollected, GarbageCollectionStarted
from kubeledger.model.bodies.ledger import (
    FindingReported,
    ImportCompleted,
    ImportStarted,
    LinesNotUnderstood,
    RecordsLost,
    SourceAccount,
)
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerKilled,
    KubernetesEvent,
    PodListed,
)
from kubeledger.model.bodies.node import (
    ErrorsLogged,
    NodeConditionChanged,
    NodeTroubled,
    PodStageFailed,
)
from kubeledger.model.record import Evidence, Record
from kubeledger.verify.evidence.line_classes import LostRecords


class Span(msgspec.Struct, frozen=True):
    """From ``since`` on and up to ``until``, both included; None leaves that side open."""

    since_ns: int | None = None
    until_ns: int | None = None

    def holds(self, ts_ns: int) -> bool:
        """Whether an instant lies in it."""
        return self.touches(ts_ns, ts_ns)

    def touches(self, first_ns: int, last_ns: int) -> bool:
        """Whether it shares an instant with the time from ``first_ns`` to ``last_ns``."""
        return (self.since_ns is None or last_ns >= self.since_ns) and (
            self.until_ns is None or first_ns <= self.until_ns
        )


ALWAYS = Span()


class FileGroup(msgspec.Struct, kw_only=True):
    """Sources of one format; a log stands alone.

    Attributes:
        files: how many; ``name`` of the first of them.
        lines, understood, noise, not_understood: of the newest account of each file; None
            where one of them has none: its import was cut off, or its end was lost.
        records: that rest on these sources first, in the time of the report.
        first_ts_ns, last_ts_ns: of these records; None without any. A file may well hold
            more: lines without a fact leave no trace in a ledger.
    """

    format: str
    name: str
    files: int = 0
    lines: int | None = 0
    understood: int | None = 0
    noise: int | None = 0
    not_understood: int | None = 0
    records: int = 0
    first_ts_ns: int | None = None
    last_ts_ns: int | None = None


class LostSpan(msgspec.Struct, frozen=True, kw_only=True):
    """Records that the ledger lost after it had acknowledged them.

    Attributes:
        seq: the record that says so.
        first_seq, last_seq: the numbers that they had.
        first_ts_ns, last_ts_ns: their times lie in this span; None where it is not known.
    """

    seq: int
    first_seq: int
    last_seq: int
    first_ts_ns: int | None
    last_ts_ns: int | None


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """One process of the kubelet, as its log shows it.

    Attributes:
        seq: record of its start; None when no record has one.
        begins: ``start``: the log holds the lines of a start; ``middle``: it begins, or goes
            on after a gap, while the kubelet runs already.
        ends: ``restart``: another process follows; ``open``: the log ends, and nothing in
            it says that the kubelet ended.
        first_ts_ns, last_ts_ns: first and last record from its log.
    """

    seq: int | None
    pid: int | None
    kubelet_version: str | None
    begins: Literal["start", "middle"]
    ends: Literal["restart", "open"]
    first_ts_ns: int
    last_ts_ns: int


class OpenDecision(msgspec.Struct, frozen=True, kw_only=True):
    """A decision that the evidence leaves in its middle."""

    seq: int
    ts_ns: int
    kind: str
    what: str


class ErrorLines(msgspec.Struct, kw_only=True):
    """Lines of severity W, E and F, and what tells them.

    Attributes:
        recorded: records of what happened say the same.
        harmless: the kubelet itself says that they are.
        by_shape: nothing but their shape and their number is known of them.
    """

    recorded: int = 0
    harmless: int = 0
    by_shape: int = 0


class SourcesReport(msgspec.Struct, kw_only=True):
    """Section 1.

    Attributes:
        groups: by format, logs first, in the order of their first records.
        not_understood: (file, shape, lines) of what no importer knows, most lines first.
        findings: (finding, file, message), in the order of the records.
        unfinished_imports: imports that were cut off.
        lost: what the ledger lost and was not imported again, in or out of the span.
        told: (what, format of the sources, records): what tells why pods do not start and why the
            node is not ready; with 0 records where nothing does.
        errors: of the whole ledger, as ``not_understood``.
    """

    groups: list[FileGroup]
    processes: list[Process]
    open_decisions: list[OpenDecision]
    not_understood: list[tuple[str, str, int]]
    findings: list[tuple[str, str | None, str]]
    unfinished_imports: int
    lost: list[LostSpan]
    told: list[tuple[str, str, int]]
    errors: ErrorLines


TELLS = {
    "stages of pods": frozenset({PodStageFailed.kind, KubernetesEvent.kind, PodListed.kind}),
    "conditions of the node": frozenset({NodeConditionChanged.kind, NodeConditionsChanged.kind}),
    "troubles of the node": frozenset({NodeTroubled.kind}),
    "warnings and errors": frozenset({ErrorsLogged.kind}),
}
"""What is told -> kinds of records that do."""


class SourcesPart:
    """Gathers section 1."""

    def __init__(self, span: Span, log: LogReading) -> None:
        self._span = span
        self._log = log
        self._formats: dict[str, str] = {}
        self._accounts: dict[str, SourceAccount] = {}
        self._pending: set[str] = set()
        self._seen: dict[str, FileGroup] = {}
        self._shapes: Counter[tuple[str, str]] = Counter()
        self._findings: dict[tuple[str, str | None, str], None] = {}
        self._open: dict[tuple[str, object], OpenDecision] = {}
        self._lost = LostRecords()
        self._told: Counter[tuple[str, str]] = Counter()
        self._errors = ErrorLines()

    def see(self, entry: LogEntry) -> None:
        """Take in one record."""
        record, body = entry.record, entry.record.body
        self._lost.note(record)
        match body:
            case ImportStarted():
                if body.sources:  # a recording names none: the import at its end does
                    self._pending.add(body.digest)
                self._formats.update({s.file: s.format for s in body.sources})
            case ImportCompleted():
                self._pending.discard(body.digest)
                self._accounts.update({account.file: account for account in body.accounts})
            case LinesNotUnderstood():
                self._shapes[body.file, body.shape] += body.count
            case ErrorsLogged():
                self._see_errors(body)
                self._see_fact(entry)
            case FindingReported():
                self._findings[body.finding, body.file, body.message] = None
            case _:
                self._see_fact(entry)

    def _see_errors(self, body: ErrorsLogged) -> None:
        if body.recorded:
            self._errors.recorded += body.count
        elif harmless(body.source, body.shape):
            self._errors.harmless += body.count
        else:
            self._errors.by_shape += body.count

    def _see_fact(self, entry: LogEntry) -> None:
        record = entry.record
        if entry.begins:
            self._open.clear()
        if record.evidence and self._span.holds(record.ts_ns):
            self._count(record, record.evidence[0])
        self._see_begun(record)

    def _count(self, record: Record, evidence: Evidence) -> None:
        group = self._seen.get(evidence.file)
        if group is None:
            format_ = self._formats.get(evidence.file, "unknown")
            group = self._seen[evidence.file] = FileGroup(format=format_, name=evidence.file)
        group.records += 1
        _widen(group, record.ts_ns, record.ts_ns)
        for what, kinds in TELLS.items():
            if record.kind in kinds:
                self._told[what, group.format] += 1

    def _see_begun(self, record: Record) -> None:
        """What has begun, and whether its end is there."""
        body = record.body
        match body:
            case GarbageCollectionStarted():
                what = "a collection of images that began: its end is missing"
                self._put("images", record, what)
            case GarbageCollected():
                self._open.pop(("images", None), None)
            case ContainerKilled() if body.container_id:
                what = (
                    f"the kill of {body.namespace}/{body.pod}/{body.container}: its end is missing"
                )
                self._put("kill", record, what, body.container_id)
            case ContainerDied():
                self._open.pop(("kill", body.container_id), None)
            case PodPreempted() if body.evicted is None:
                victim = f"{body.victim_namespace}/{body.victim_pod}"
                what = f"the preemption of {victim}: whether the pod was evicted is not known"
                self._put("preemption", record, what, record.seq)

    def _put(self, word: str, record: Record, what: str, key: object = None) -> None:
        self._open[word, key] = OpenDecision(
            seq=record.seq, ts_ns=record.ts_ns, kind=record.kind, what=what
        )

    def report(self) -> SourcesReport:
        span = self._span
        return SourcesReport(
            groups=self._groups(),
            processes=[
                _process(each, is_last=each is self._log.processes[-1])
                for each in self._log.processes
                if span.touches(each.first.ts_ns, each.last.ts_ns)
            ],
            open_decisions=[one for one in self._open.values() if span.holds(one.ts_ns)],
            not_understood=[
                (file, shape, count)
                for (file, shape), count in sorted(
                    self._shapes.items(), key=lambda item: (-item[1], item[0])
                )
            ],
            findings=list(self._findings),
            unfinished_imports=len(self._pending),
            lost=[_lost(seq, body) for seq, body in self._lost.missing()],
            told=[
                (what, format_, count)
                for what in TELLS
                for format_, count in sorted(
                    (format_, count)
                    for (about, format_), count in self._told.items()
                    if about == what
                )
                or [("", 0)]
            ],
            errors=self._errors,
        )

    def _groups(self) -> list[FileGroup]:
        groups: dict[str, FileGroup] = {}
        for file in sorted(self._formats.keys() | self._seen.keys()):
            format_ = self._formats.get(file, "unknown")
            key = file if format_.startswith("klog") else format_
            group = groups.setdefault(key, FileGroup(format=format_, name=file))
            group.files += 1
            _add_account(group, self._accounts.get(file))
            seen = self._seen.get(file)
            if seen is not None and seen.first_ts_ns is not None and seen.last_ts_ns is not None:
                group.records += seen.records
                _widen(group, seen.first_ts_ns, seen.last_ts_ns)
        return sorted(groups.values(), key=_order)


def _process(logged: LoggedProcess, *, is_last: bool) -> Process:
    start = logged.start
    return Process(
        seq=None if start is None else logged.first.seq,
        pid=None if start is None else start.pid,
        kubelet_version=None if start is None else start.kubelet_version,
        begins="start" if start is not None and start.from_start else "middle",
        ends="open" if is_last else "restart",
        first_ts_ns=logged.first.ts_ns,
        last_ts_ns=logged.last.ts_ns,
    )


def _add_account(group: FileGroup, account: SourceAccount | None) -> None:
    for field in ("lines", "understood", "noise", "not_understood"):
        known, more = getattr(group, field), getattr(account, field, None)
        setattr(group, field, None if known is None or more is None else known + more)


def _lost(seq: int, body: RecordsLost) -> LostSpan:
    return LostSpan(
        seq=seq,
        first_seq=body.first_seq,
        last_seq=body.last_seq,
        first_ts_ns=body.first_ts_ns,
        last_ts_ns=body.last_ts_ns,
    )


def _widen(group: FileGroup, first_ns: int, last_ns: int) -> None:
    known = group.first_ts_ns
    group.first_ts_ns = first_ns if known is None else min(known, first_ns)
    known = group.last_ts_ns
    group.last_ts_ns = last_ns if known is None else max(known, last_ns)


def _order(group: FileGroup) -> tuple[bool, bool, int, str]:
    """Logs first, in the order of their time."""
    is_log = group.format.startswith("klog")
    first = group.first_ts_ns if is_log else None
    return (not is_log, first is None, first or 0, f"{group.format} {group.name}")
