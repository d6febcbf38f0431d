"""The completeness report on one screen: counts, the worst gaps, what to collect next time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import click

from kubeledger.analyze.completeness import Completeness
from kubeledger.analyze.completeness.event_delivery import EventReport
from kubeledger.analyze.completeness.gaps import GapReport
from kubeledger.analyze.completeness.missing import MissingReport
from kubeledger.analyze.completeness.sources import SourcesReport
from kubeledger.analyze.completeness.verbosity import VerbosityReport
from kubeledger.cli.completeness_output import span_words, write_head, write_line
from kubeledger.cli.output import counted

__all__ = ["write_summary"]

_NAMED_MAX = 3


def write_summary(report: Completeness) -> None:
    """Write the summary of one node's report."""
    write_head(report)
    click.echo()
    for title, parts in (
        ("Sources", _sources(report.sources)),
        ("Verbosity", _verbosity(report.verbosity)),
        ("Gaps", _gaps(report.gaps)),
        ("Events", _events(report.events)),
        ("Verified", _verified(report.missing)),
    ):
        write_line(f"{title}: {'; '.join(parts)}")
    if report.missing.inputs:
        click.echo()
        write_line("What to collect next time, for most decisions first:")
        for advice in _named(dict.fromkeys(one.advice for one in report.missing.inputs)):
            write_line(f"- {advice}")
    click.echo()
    write_line("(--full has all of it)")


def _sources(part: SourcesReport) -> Iterator[str]:
    files, lines = sum(g.files for g in part.groups), sum(g.lines or 0 for g in part.groups)
    yield f"{counted(files, 'file')} of {counted(len(part.groups), 'format')}"
    lost = sum(group.not_understood or 0 for group in part.groups)
    yield f"{counted(lines, 'line')}, {lost:,} not understood"
    begun = sum(process.begins == "start" for process in part.processes)
    if part.processes:
        number = counted(len(part.processes), "kubelet process", "kubelet processes")
        yield f"{number}, {begun} logged from the start"
    if part.open_decisions:
        yield f"{counted(len(part.open_decisions), 'decision')} without their end"
    if part.lost:
        yield f"the ledger lost records in {counted(len(part.lost), 'place')}"
    if part.unfinished_imports:
        yield f"{counted(part.unfinished_imports, 'import')} cut off: import the same again"
    if part.findings:
        yield counted(len(part.findings), "finding")


def _verbosity(part: VerbosityReport) -> Iterator[str]:
    yield "not known" if part.verbosity is None else f"{part.verbosity} by the settings"
    if part.thinned:
        yield "the log was thinned out"
    absent = [line.name for line in part.lines if line.status != "there"]
    yield f"{len(part.lines) - len(absent)} of {len(part.lines)} kinds of lines are there"
    if absent:
        yield f"not there: {', '.join(_named(absent))}"


def _gaps(part: GapReport) -> Iterator[str]:
    found = False
    for one, many, gaps in (
        ("hole in the log", "holes in the log", part.holes),
        ("missing periodic line", "missing periodic lines", part.gaps),
        ("time without a kubelet", "times without a kubelet", part.downtimes),
        ("time of lost lines", "times of lost lines", part.lost),
    ):
        spans = [(gap.from_ts_ns, gap.to_ts_ns) for gap in gaps]
        if spans:
            found = True
            longest = max(spans, key=lambda span: span[1] - span[0])
            yield f"{counted(len(spans), one, many)}, the longest {span_words(*longest)}"
    if part.clock_steps:
        found = True
        yield f"the clock was set back {counted(len(part.clock_steps), 'time')}"
    if not found and part.activities:
        yield "none"
    elif not found:
        yield "not known: nothing that a kubelet does regularly is in the records"


def _events(part: EventReport) -> Iterator[str]:
    if part.standalone:
        yield "the kubelet has no API server"
    elif not part.event_list:
        yield "no list of the API server's events was imported"
    never = sum(one.delivery == "never" for one in part.decisions)
    if part.event_list:
        yield f"{counted(never, 'decision')} never became one"
        lost = sum(one.reports for one in part.lost)
        yield f"of those in the log {lost:,} never reached the API server"


def _verified(part: MissingReport) -> Iterator[str]:
    verified = part.decisions - part.unverifiable
    yield f"{verified:,} of {counted(part.decisions, 'decision')}"
    if part.inputs:
        what = _named([f"{one.what} ({one.decisions:,})" for one in part.inputs])
        yield f"for the others is missing: {', '.join(what)}"


def _named(names: Iterable[str]) -> list[str]:
    """The first few, and how many more there are."""
    listed = list(names)
    more = len(listed) - _NAMED_MAX
    return [*listed[:_NAMED_MAX], f"and {more} more"] if more > 1 else listed
