"""Which decisions and reports became events of the API server, and why others did not.

A line of the log that says ``Event occurred`` is a report. The API server's list shows which
reports got there: ``lifecycle.KubernetesEvent`` has its count. A report is not there by its own
when the list has only a later repetition, which carries the count of all before it.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Literal

import msgspec

from kubeledger.analyze.completeness.correlator import (
    SPAM_BURST,
    SPAM_REFILL_S,
    Correlator,
    Passage,
    Sender,
)
from kubeledger.analyze.completeness.sources import Span
from kubeledger.analyze.completeness.verbosity import minor_of
from kubeledger.analyze.histories.logs import LogEntry
from kubeledger.model.bodies.images import GarbageCollected
from kubeledger.model.bodies.ledger import ImportStarted
from kubeledger.model.bodies.lifecycle import KubernetesEvent, PodRejected
from kubeledger.model.bodies.node import KubeletStarted, SettingsObserved
from kubeledger.model.record import Body, Evidence, Record
from kubeledger.model.units import NS_PER_S, format_ts

Delivery = Literal["event", "counted", "never", "no list", "no report"]
"""``event``: it became an event. ``counted``: it did not, but a later repetition that did
carries it in its count. ``never``: the API server's list does not hold it. ``no list``: no
list was imported. ``no report``: no line of the log reports it."""


class DecisionDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """One decision and its event.

    Attributes:
        report_seq: record of its report; None when no line reports it.
        why: one sentence where it did not become an event by its own.
    """

    seq: int
    ts_ns: int
    kind: str
    subject: str
    place: str
    reason: str | None
    report_seq: int | None
    delivery: Delivery
    why: str


class KindDeliveries(msgspec.Struct, kw_only=True):
    """Decisions of one kind.

    Attributes:
        event, counted, never: as in ``Delivery``.
        not_reported: no list was imported, or no line reports it.
        never_sent: no kubelet sends an event about it; ``why`` says what it does instead.
    """

    kind: str
    decisions: int = 0
    event: int = 0
    counted: int = 0
    never: int = 0
    not_reported: int = 0
    never_sent: int = 0
    why: str = ""


class ReasonDeliveries(msgspec.Struct, kw_only=True):
    """Reports with one reason.

    Attributes:
        reported: lines of the log.
        only_api: occurrences that only the API server's list has.
        event, counted, never: what became of the reported.
        dropped: reports that the spam filter dropped, by its rules.
        combined: reports that were sent as one of several similar ones, by its rules.
    """

    reason: str
    reported: int = 0
    only_api: int = 0
    event: int = 0
    counted: int = 0
    never: int = 0
    dropped: int = 0
    combined: int = 0


class Lost(msgspec.Struct, kw_only=True):
    """Reports that never became an event, by cause."""

    why: str
    reports: int = 0


class EventReport(msgspec.Struct, kw_only=True):
    """Section 4.

    Attributes:
        event_list: a list of the API server's events was imported.
        standalone: the kubelet had no API server to send events to; None when not known.
        newest_api_ts_ns: time of the newest report that the list holds.
        event_record_qps, event_burst: settings of the client that sends.
        longest_wait_s: how long that client made an event wait, by its rules; None when
            the settings are not known or there is no limit.
        decisions: what did not become an event by its own, in the order of records.
    """

    event_list: bool
    standalone: bool | None
    newest_api_ts_ns: int | None
    event_record_qps: float | None
    event_burst: int | None
    longest_wait_s: float | None
    kinds: list[KindDeliveries]
    reasons: list[ReasonDeliveries]
    lost: list[Lost]
    decisions: list[DecisionDelivery]


EVENT_REASONS = {
    "imagepull.PullDecided": "Pulling Pulled BackOff ErrImageNeverPull",
    "imagepull.PullEnded": "Pulled Failed",
    "images.GarbageCollected": "ImageGCFailed FreeDiskSpaceFailed InvalidDiskCapacity",
    "lifecycle.ContainerKilled": "Killing",
    "lifecycle.ContainerRestarted": "Started Created",
    "lifecycle.PodEvicted": "Evicted",
    "lifecycle.PodRejected": "",
    "lifecycle.PodResized": "ResizeStarted ResizeDeferred ResizeInfeasible ResizeError"
    " ResizeCompleted",
    "lifecycle.RestartBackedOff": "BackOff",
    "preemption.PodPreempted": "Preempting",
}
"""Kind of decision -> reasons of its events; of a rejection it is the rejection's own."""

NO_EVENT: dict[str, str] = {
    "cgroups.CgroupRemoved": "the kubelet sends no event about cgroups",
    "cgroups.CgroupUpdated": "the kubelet sends no event about cgroups",
    "cgroups.QOSCgroupsUpdated": "the kubelet sends no event about cgroups",
    "cpumanager.CpuAllocationFailed": "only the rejection of the pod is an event",
    "cpumanager.CpuStateRefused": "the kubelet ends without an event",
    "cpumanager.CpusAllocated": "the kubelet sends no event about CPUs it gives",
    "cpumanager.CpusReleased": "the kubelet sends no event about CPUs it takes back",
    "devicemanager.AllocationFailed": "only the rejection of the pod is an event",
    "devicemanager.DevicesAllocated": "the kubelet sends no event about devices it gives",
    "devicemanager.DevicesReleased": "the kubelet sends no event about devices it takes back",
    "dra.ClaimPrepared": "only a claim that cannot be prepared is an event",
    "dra.ClaimReleased": "the kubelet sends no event about claims it gives back",
    "eviction.NodeConditionsChanged": "conditions are in the node's status",
    "eviction.PodSpared": "only a pod that is evicted has an event",
    "eviction.ReclaimAttempted": "its event EvictionThresholdMet is about the node",
    "images.GarbageCollectionStarted": "only a collection that fails is an event",
    "images.ImageDeleted": "the kubelet sends no event about images it removes",
    "lifecycle.PodAdmitted": "the kubelet sends no event about pods it admits",
    "memorymanager.MemoryAllocated": "the kubelet sends no event about memory it gives",
    "memorymanager.MemoryAllocationFailed": "only the rejection of the pod is an event",
    "memorymanager.MemoryReleased": "the kubelet sends no event about memory it takes back",
    "memorymanager.MemoryStateRefused": "the kubelet ends without an event",
    "oom.ProcessKilled": "only a shortage of the node's own memory is an event",
    "preemption.PreemptionFailed": "only the rejection of the pod is an event",
    "prober.ProbeTransitioned": "each failed probe is an event, a changed result is not",
    "topologymanager.AffinityDecided": "only the rejection of a pod is an event",
}
"""Kind of decision -> why it never becomes an event."""


def subject_of(body: Body) -> str:
    """What a decision is about, for people: ``pod/NS/NAME``, ``container/NS/POD/C``, ``node``."""
    namespace = getattr(body, "victim_namespace", None) or getattr(body, "namespace", None)
    pod = getattr(body, "victim_pod", None) or getattr(body, "pod", None)
    if not pod:
        return "node"
    container = getattr(body, "container", None)
    if container:
        return f"container/{namespace}/{pod}/{container}"
    return f"pod/{namespace}/{pod}"


_TTL_NS = 3600 * NS_PER_S
"""The API server keeps events for an hour, unless configured otherwise."""

_START = re.compile(r"FLAG: --|Kubelet version|Version: v\d|Starting kubelet")
"""In a line that a kubelet logs only when it starts."""

_NO_REPORT = "no line of the log reports it (events are logged from --v=3)"


class _Report(msgspec.Struct):
    seq: int
    ts_ns: int
    reason: str
    object_: str
    api_count: int | None
    passage: Passage | None
    whole: bool


class _Awaited(msgspec.Struct):
    """A decision that nothing reports yet, the reasons of its events, and lines it rests on."""

    delivery: DecisionDelivery
    reasons: frozenset[str]
    lines: set[tuple[str, int]]


class EventPart:
    """Gathers section 4.

    A decision rests on the line that reports it, so the two are joined by that line.
    """

    def __init__(self, span: Span) -> None:
        self._span = span
        self._has_list = False
        self._standalone: bool | None = None
        self._settings: tuple[float | None, int | None] = (None, None)
        self._correlator: Correlator | None = None
        self._sender: Sender | None = None
        self._longest_ns: int | None = None
        self._whole = False
        self._newest_ns: int | None = None
        self._reports: dict[tuple[str, int], _Report] = {}
        self._all: list[_Report] = []
        self._awaited: list[_Awaited] = []
        self._kinds: Counter[str] = Counter()
        self._never_sent: Counter[str] = Counter()
        self._only_api: Counter[str] = Counter()

    def see(self, entry: LogEntry) -> None:
        """Take in one record."""
        record, body = entry.record, entry.record.body
        match body:
            case ImportStarted():
                self._has_list |= any(source.format == "events" for source in body.sources)
            case KubeletStarted() if entry.begins:
                self._restart(entry.line, body)
            case SettingsObserved():
                self._set(body)
            case KubernetesEvent():
                self._report(record, body, entry.line)
            case _ if record.role == "decision" and self._span.holds(record.ts_ns):
                self._decide(record)

    def _restart(self, line: Evidence | None, body: KubeletStarted) -> None:
        self._whole = line is not None and _START.search(line.text or "") is not None
        minor = minor_of(body.kubelet_version)
        self._correlator = None if minor is None else Correlator(minor)

    def _set(self, body: SettingsObserved) -> None:
        def value(name: str) -> Any:  # noqa: ANN401 # any JSON value
            setting = body.settings.get(name)
            return setting.decoded() if setting is not None else None

        qps, burst = value("eventRecordQPS"), value("eventBurst")
        self._settings = (
            qps if isinstance(qps, int | float) else None,
            burst if isinstance(burst, int) else None,
        )
        kubeconfig = value("--kubeconfig")
        self._standalone = not kubeconfig if isinstance(kubeconfig, str) else None
        if qps and burst and isinstance(qps, int | float) and isinstance(burst, int):
            self._sender = Sender(qps, burst)

    def _report(self, record: Record, body: KubernetesEvent, line: Evidence | None) -> None:
        if body.api_count is not None:
            self._has_list = True
            self._newest_ns = max(self._newest_ns or 0, record.ts_ns)
        if line is None or line.line is None:
            if self._span.holds(record.ts_ns):
                self._only_api[body.reason] += body.count
            return
        passage = None
        if self._correlator is not None and not self._standalone:
            passage = self._correlator.take(record.ts_ns, body)
            if self._sender is not None and not passage.dropped:
                self._sender.send(record.ts_ns)
                self._longest_ns = max(self._longest_ns or 0, self._sender.longest_ns)
        name = f"{body.namespace}/{body.pod}" if body.namespace else body.pod
        report = _Report(
            record.seq,
            record.ts_ns,
            body.reason,
            f"{body.object_kind.lower()} {name}",
            body.api_count,
            passage,
            self._whole,
        )
        self._reports[line.file, line.line] = report
        if self._span.holds(record.ts_ns):
            self._all.append(report)

    def _decide(self, record: Record) -> None:
        self._kinds[record.kind] += 1
        reasons = EVENT_REASONS.get(record.kind)
        if reasons is None or _is_no_failure(record.body):
            self._never_sent[record.kind] += 1
            return
        if isinstance(record.body, PodRejected):
            reasons = record.body.reason
        delivery = DecisionDelivery(
            seq=record.seq,
            ts_ns=record.ts_ns,
            kind=record.kind,
            subject=subject_of(record.body),
            place=record.evidence[0].place if record.evidence else f"record {record.seq}",
            reason=None,
            report_seq=None,
            delivery="no report",
            why=_NO_REPORT,
        )
        lines = {(e.file, e.line) for e in record.evidence if e.line is not None}
        self._awaited.append(_Awaited(delivery, frozenset(reasons.split()), lines))

    def report(self) -> EventReport:
        deliveries = [self._delivery_of(awaited) for awaited in self._awaited]
        qps, burst = self._settings
        return EventReport(
            event_list=self._has_list,
            standalone=self._standalone,
            newest_api_ts_ns=self._newest_ns,
            event_record_qps=qps,
            event_burst=burst,
            longest_wait_s=None if self._longest_ns is None else self._longest_ns / NS_PER_S,
            kinds=self._by_kind(deliveries),
            reasons=self._by_reason(),
            lost=self._lost(),
            decisions=[delivery for delivery in deliveries if delivery.delivery != "event"],
        )

    def _delivery(self, report: _Report) -> Delivery:
        if not self._has_list:
            return "no list"
        if report.api_count is None:
            return "never"
        dropped = report.passage is not None and report.passage.dropped
        return "counted" if dropped else "event"

    def _delivery_of(self, awaited: _Awaited) -> DecisionDelivery:
        reports = [r for place in sorted(awaited.lines) if (r := self._reports.get(place))]
        reports = [r for r in reports if r.reason in awaited.reasons]
        ranks: tuple[Delivery, ...] = ("event", "counted", "never", "no list")
        best = min(reports, key=lambda r: ranks.index(self._delivery(r)), default=None)
        if best is None:
            return awaited.delivery
        delivery = self._delivery(best)
        found = {"reason": best.reason, "report_seq": best.seq, "delivery": delivery}
        return msgspec.structs.replace(awaited.delivery, **found, why=self._why(best, delivery))

    def _why(self, report: _Report, delivery: Delivery) -> str:
        passage = report.passage
        if delivery == "event":
            return ""
        if delivery == "no list":
            return self._no_list()
        if passage is not None and passage.dropped:
            due = f", the next is due at {format_ts(passage.next_ts_ns or 0)}"
            return (
                f"dropped by the spam filter: it was event {passage.number} about {report.object_},"
                f" of which {passage.passed} had passed ({SPAM_BURST} at once, then one in"
                f" {SPAM_REFILL_S // 60} minutes{due})"
            )
        return self._cause(report)

    def _no_list(self) -> str:
        if self._standalone:
            return "the kubelet has no API server: its events are in its log only"
        return "no list of the API server's events was imported"

    def _cause(self, report: _Report) -> str:
        """Why a report never became an event, without its numbers."""
        passage, newest_ns = report.passage, self._newest_ns
        if passage is not None and passage.dropped:
            return "dropped by the spam filter of the kubelet's event recorder"
        if newest_ns is not None and report.ts_ns > newest_ns:
            return "later than the newest event of the list, which may have been taken before"
        if newest_ns is not None and report.ts_ns < newest_ns - _TTL_NS:
            return "older than an hour when the list was taken: the API server may have let it go"
        if passage is None:
            return "the rules of this kubelet's event recorder are not known without its version"
        if not report.whole:
            return (
                "not known: the log begins while the kubelet runs, so what it had sent before,"
                " which counts for its spam filter, is not known"
            )
        return "not known: by the lines that are there, it had passed the kubelet's spam filter"

    def _by_kind(self, deliveries: list[DecisionDelivery]) -> list[KindDeliveries]:
        found = {
            kind: KindDeliveries(
                kind=kind,
                decisions=count,
                never_sent=self._never_sent[kind],
                why=NO_EVENT.get(kind, ""),
            )
            for kind, count in sorted(self._kinds.items())
        }
        for delivery in deliveries:
            kind = found[delivery.kind]
            kind.event += delivery.delivery == "event"
            kind.counted += delivery.delivery == "counted"
            kind.never += delivery.delivery == "never"
            kind.not_reported += delivery.delivery in {"no list", "no report"}
        return list(found.values())

    def _by_reason(self) -> list[ReasonDeliveries]:
        found: dict[str, ReasonDeliveries] = {}
        for report in self._all:
            reason = found.setdefault(report.reason, ReasonDeliveries(reason=report.reason))
            reason.reported += 1
            delivery = self._delivery(report)
            reason.event += delivery == "event"
            reason.counted += delivery == "counted"
            reason.never += delivery == "never"
            if report.passage is not None:
                reason.dropped += report.passage.dropped
                reason.combined += report.passage.combined
        for name, count in self._only_api.items():
            found.setdefault(name, ReasonDeliveries(reason=name)).only_api += count
        return sorted(found.values(), key=lambda r: (-r.never, -r.reported, r.reason))

    def _lost(self) -> list[Lost]:
        causes = Counter(self._cause(r) for r in self._all if self._delivery(r) == "never")
        ordered = sorted(causes.items(), key=lambda item: (-item[1], item[0]))
        return [Lost(why=why, reports=count) for why, count in ordered]


def _is_no_failure(body: Body) -> bool:
    """Collections of images are reported only when they fail."""
    return isinstance(body, GarbageCollected) and body.outcome != "failed"
