"""The report of one node: two readings of its records, and one verification."""

from __future__ import annotations

import msgspec

from kubeledger.analyze.completeness.counters import CounterPart, WorkerCount
from kubeledger.analyze.completeness.events import EventPart, EventReport
from kubeledger.analyze.completeness.gaps import GapPart, GapReport, SourceTime
from kubeledger.analyze.completeness.missing import MissingReport, missing_report
from kubeledger.analyze.completeness.sources import SourcesPart, SourcesReport
from kubeledger.analyze.completeness.span import ALWAYS, Span
from kubeledger.analyze.completeness.verbosity import VerbosityPart, VerbosityReport
from kubeledger.analyze.histories.history import History
from kubeledger.analyze.histories.logs import LogReading
from kubeledger.model.bodies.cgroups import CgroupObserved
from kubeledger.model.bodies.lifecycle import PodListed
from kubeledger.model.bodies.prober import ProbeCountersRead
from kubeledger.model.wire.catalogue import BODY_TYPES
from kubeledger.verify.evidence.pods import PodRegister


class Completeness(msgspec.Struct, kw_only=True):
    """What evidence there is of a node, and what is not.

    Attributes:
        span: as asked for; ``first_ts_ns`` and ``last_ts_ns`` of the records in it, None
            without any.
    """

    node: str
    label: str
    span: Span
    first_ts_ns: int | None
    last_ts_ns: int | None
    records: int
    sources: SourcesReport
    verbosity: VerbosityReport
    gaps: GapReport
    counters: list[WorkerCount]
    events: EventReport
    missing: MissingReport


def _no_time(name: str) -> None:
    """No name shows a time."""


def completeness(
    history: History, span: Span = ALWAYS, source_time: SourceTime = _no_time
) -> Completeness:
    """Report on the records of one node.

    Args:
        history: its records; all are read, since what is before the span shows what runs.
        span: what is counted and listed.
        source_time: when a source was taken, by its name; finds gaps between snapshots.

    Raises:
        KubeledgerError: as reading and verifying the history.
    """
    log = LogReading()
    sources, verbosity = SourcesPart(span, log), VerbosityPart(span, log)
    gaps = GapPart(span, _pods(history), source_time)
    counters, events = CounterPart(span), EventPart(span)
    first_ns = last_ns = None
    records = 0
    for record in history.read(None):
        entry = log.entry(record)
        for part in (sources, verbosity, gaps, counters, events):
            part.see(entry)
        if span.holds(record.ts_ns):
            records += 1
            first_ns = record.ts_ns if first_ns is None else min(first_ns, record.ts_ns)
            last_ns = record.ts_ns if last_ns is None else max(last_ns, record.ts_ns)
    return Completeness(
        node=history.node,
        label=history.label,
        span=span,
        first_ts_ns=first_ns,
        last_ts_ns=last_ns,
        records=records,
        sources=sources.report(),
        verbosity=verbosity.report(),
        gaps=gaps.report(),
        counters=counters.report(),
        events=events.report(),
        missing=missing_report(history.verify(), span),
    )


def log_gaps(history: History, span: Span = ALWAYS) -> GapReport:
    """Section 3 alone, without the counters and the gaps between snapshots: one reading.

    Args:
        history: the records of one node.
        span: what is listed.

    Raises:
        KubeledgerError: as reading the history.
    """
    log = LogReading()
    gaps = GapPart(span, _pods(history), _no_time)
    for record in history.read(BODY_TYPES.keys() - _NO_LOG):
        gaps.see(log.entry(record))
    return gaps.report()


_NO_LOG = {ProbeCountersRead.kind, CgroupObserved.kind}
"""Kinds of which there are many, and which no log shows."""


def _pods(history: History) -> PodRegister:
    register = PodRegister()
    for record in history.read({PodListed.kind}):
        if isinstance(record.body, PodListed):
            register.note(record.seq, record.ts_ns, record.body)
    register.settle()
    return register
