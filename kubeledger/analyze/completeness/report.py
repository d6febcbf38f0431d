"""The report of one node: what there is, and what to collect so that more is verified."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from kubeledger.analyze.completeness.events import EventPart, EventReport
from kubeledger.analyze.completeness.gaps import GapPart, GapReport, SourceTime
from kubeledger.analyze.completeness.probes import CounterPart, WorkerCount
from kubeledger.analyze.completeness.sources import ALWAYS, SourcesPart, SourcesReport, Span
from kubeledger.analyze.completeness.verbosity import VerbosityPart, VerbosityReport
from kubeledger.analyze.histories.history import History
from kubeledger.analyze.histories.logs import LogReading
from kubeledger.model.bodies.cgroups import CgroupObserved
from kubeledger.model.bodies.lifecycle import PodListed
from kubeledger.model.bodies.prober import ProbeCountersRead
from kubeledger.model.wire.catalogue import BODY_TYPES
from kubeledger.verify import Contradiction, Outcome
from kubeledger.verify.evidence.pods import PodRegister
from kubeledger.verify.finding import Tally

_ADVICE: tuple[tuple[str, str], ...] = (
    (r"end of the ledger|log that goes on", "Import more of the log: here it ends before the "
     "decision does."),
    (r"version|rules of kubelet", "Import metrics or the log's first lines, which name the "
     "version, or give --kubelet-version."),
    (r"setting|feature gate|thresholds?\b|policy", "Add the kubelet's configuration file, or its "
     "/configz, and the log of its start at --v=1 or more, which lists all flags."),
    (r"spec|object of pod|owner|active|came and went|life of|pod list|what each pod|the pods",
     "Take the kubelet's /pods every 15 s, from before the pods come until after they end."),
    (r"eviction signal|usage of the image filesystem|size of the image filesystem|disk",
     "Log at --v=3 or more, for eviction signals every 10 s, and take /stats/summary."),
    (r"tick|success|probe|worker", "Log at --v=3 or more from the kubelet's start on: it shows "
     "successful probes."),
    (r"device|checkpoint|plugin|allocat", "Copy the kubelet's device checkpoint every 15 s, and "
     "log at --v=4 or more."),
    (r"hint|NUMA", "Log at --v=4 or more, and import the machine's topology with the log of the "
     "kubelet's start."),
    (r"image|collection|detect", "Log at --v=5 from the kubelet's start on: it shows every "
     "list of images."),
    (r"cgroup|QoS|minute timer|write|memory usage|limit", "Copy the kubepods cgroup files every "
     "15 s, and log at --v=4 or more, which shows when they were written."),
    (r"CPUs|capacity|machine|node's|allocatable", "Add the node object and the log of the "
     "kubelet's start, which shows the machine's CPUs and memory."),
    (r"grace period|kill|reason|end of|deleted|restart|container", "Log at --v=3 or more, and "
     "keep the whole log: rotate it later, or copy it before it is rotated."),
)  # fmt: skip
"""First pattern that fits -> one sentence."""

_ADVICE_ELSE = "Keep the kubelet's whole log at --v=5, and all snapshots with it."


class MissingInput(msgspec.Struct, frozen=True, kw_only=True):
    """One input that verification lacked.

    Attributes:
        what: as verification names it.
        decisions: how many lack it.
        kinds: of which kinds, sorted.
    """

    what: str
    decisions: int
    kinds: list[str]
    advice: str


class MissingReport(msgspec.Struct, kw_only=True):
    """Section 5.

    Attributes:
        decisions, unverifiable: how many, in the time of the report.
        inputs: most wanted first.
    """

    decisions: int
    unverifiable: int
    inputs: list[MissingInput]


def advice_on(what: str) -> str:
    """What to collect so that an input is there."""
    return next((text for pattern, text in _ADVICE if re.search(pattern, what)), _ADVICE_ELSE)


def missing_report(outcomes: Iterable[Outcome], span: Span) -> MissingReport:
    """Tally what a verification lacked."""
    tally = Tally()
    kinds: dict[str, set[str]] = {}
    for outcome in outcomes:
        if isinstance(outcome, Contradiction) or not span.holds(outcome.ts_ns):
            continue
        tally.add(outcome)
        for what in outcome.missing:
            kinds.setdefault(what, set()).add(outcome.kind)
    ordered = sorted(tally.missing.items(), key=lambda item: (-item[1], item[0]))
    return MissingReport(
        decisions=tally.decisions,
        unverifiable=tally.count("unverifiable"),
        inputs=[
            MissingInput(
                what=what, decisions=count, kinds=sorted(kinds[what]), advice=advice_on(what)
            )
            for what, count in ordered
        ],
    )


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


def log_gaps(history: History) -> GapReport:
    """Section 3 alone, without the counters and the gaps between snapshots: one reading.

    Raises:
        KubeledgerError: as reading the history.
    """
    log = LogReading()
    gaps = GapPart(ALWAYS, _pods(history), _no_time)
    for record in history.read(BODY_TYPES.keys() - _NO_LOG):
        gaps.see(log.entry(record))
    return gaps.report()


_NO_LOG = {ProbeCountersRead.kind, CgroupObserved.kind}
"""Kinds of which there are many, and which no log shows."""


def _pods(history: History) -> PodRegister:
    register = PodRegister()
    for record in history.read({PodListed.kind}):
        if isinstance(record.body, PodListed):
            register.note(record)
    register.settle()
    return register
