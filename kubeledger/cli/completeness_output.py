"""The completeness report as text: all sections, or a summary on one screen."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator
from operator import attrgetter

import click

from kubeledger.analyze.completeness import Completeness
from kubeledger.analyze.completeness.events import EventReport
from kubeledger.analyze.completeness.gaps import GapReport, Hole, LostLines
from kubeledger.analyze.completeness.probes import WorkerCount
from kubeledger.analyze.completeness.report import MissingReport
from kubeledger.analyze.completeness.sources import LostSpan, SourcesReport
from kubeledger.analyze.completeness.verbosity import VerbosityReport
from kubeledger.cli.output import counted, printable, write_wrapped
from kubeledger.cli.screen import screen_width
from kubeledger.model.units import NS_PER_S, format_ts
from kubeledger.verify.evidence.sync_loop import Gap

_LISTED_MAX = 10
"""Entries of one list; the JSON form has all."""


def write_report(report: Completeness) -> None:
    """Write the whole report of one node."""
    write_head(report)
    _sources(report.sources)
    _verbosity(report.verbosity)
    _gaps(report.gaps)
    _counters(report.counters)
    _events(report.events)
    _missing(report.missing)


def write_head(report: Completeness) -> None:
    """Whose records they are, how many, and of which time."""
    click.secho(f"{printable(report.node)} ({printable(report.label)})", bold=True)
    if report.first_ts_ns is None or report.last_ts_ns is None:
        write_line("no record in this time")
    else:
        first, last = format_ts(report.first_ts_ns), format_ts(report.last_ts_ns)
        write_line(f"{counted(report.records, 'record')} from {first} to {last}")


def _sources(part: SourcesReport) -> None:
    _head("1. Sources")
    columns = ("format", "files", "lines", "not understood", "records", "from", "to", "first")
    counts = attrgetter("format", "files", "lines", "not_understood", "records")
    rows = [(*counts(g), _at(g.first_ts_ns), _at(g.last_ts_ns), g.name) for g in part.groups]
    write_wrapped(columns, rows)
    begins = {"start": "with its start", "middle": "in the middle: what was before is not there"}
    ends = {
        "restart": "where the next process begins",
        "open": "with the log, and no sign that the kubelet ended",
    }
    for process in part.processes:
        pid = f" {process.pid}" if process.pid is not None else ""
        version = process.kubelet_version or "of unknown version"
        write_line(
            f"kubelet{pid} {version}: begins {begins[process.begins]}"
            f" ({format_ts(process.first_ts_ns)}), ends {ends[process.ends]}"
            f" ({format_ts(process.last_ts_ns)})"
        )
    for what in dict.fromkeys(what for what, _, _ in part.told):
        by = ", ".join(f"{n:,} from {form}" for about, form, n in part.told if about == what and n)
        write_line(f"{what}: {by or 'no record tells of any'}")
    _list(
        "decisions without their end",
        (f"record {one.seq} at {format_ts(one.ts_ns)}: {one.what}" for one in part.open_decisions),
    )
    _list(
        "lines that are not understood",
        (f"{count} x {file}: {shape}" for file, shape, count in part.not_understood),
    )
    errors = part.errors
    if lines := errors.recorded + errors.by_shape + errors.harmless:
        write_line(
            f"{counted(lines, 'line')} of warnings and errors: {errors.recorded:,} told by other "
            f"records, {errors.by_shape:,} by their shape only, {errors.harmless:,} harmless"
        )
    _list(
        "findings about sources",
        (f"{finding}: {file or 'all'}: {message}" for finding, file, message in part.findings),
    )
    _list("records that the ledger lost", (_lost_records(lost) for lost in part.lost))
    if part.unfinished_imports:
        imports = counted(part.unfinished_imports, "import")
        write_line(f"cut off: {imports}; import the same again")


def _lost_records(lost: LostSpan) -> str:
    when = ""
    if lost.first_ts_ns is not None and lost.last_ts_ns is not None:
        when = f", between {format_ts(lost.first_ts_ns)} and {format_ts(lost.last_ts_ns)}"
    return (
        f"records {lost.first_seq} to {lost.last_seq}{when} (see record {lost.seq}): import the "
        "same sources again"
    )


def _verbosity(part: VerbosityReport) -> None:
    _head("2. Verbosity")
    setting = "is not known" if part.verbosity is None else f"is {part.verbosity} by the settings"
    seen = "no line shows one" if part.shown is None else f"lines of level {part.shown} are there"
    write_line(f"the verbosity {setting}; {seen}")
    if part.thinned:
        write_line(
            "lines are missing that this verbosity writes all the time: the log was thinned out"
        )
    rows = [
        (line.name, line.level, line.records, line.status, line.lost)
        for line in part.lines
        if line.status != "there"
    ]
    there = len(part.lines) - len(rows)
    write_line(
        f"{there} of {len(part.lines)} kinds of lines were logged" + (", missing:" * bool(rows))
    )
    if rows:
        columns = ("lines", "level", "records", "status", "what they would show")
        write_wrapped(columns, rows)


def _gaps(part: GapReport) -> None:
    _head("3. Gaps")
    if part.activities:
        rows = [
            (each.name, _seconds(each.period_ns), each.seen, _seconds(each.longest_ns))
            for each in part.activities
        ]
        write_wrapped(("periodic line", "period s", "shown", "longest s"), rows)
    else:
        write_line("nothing that a kubelet does regularly is in the records: gaps are not known")
    write_line(counted(part.probe_workers, "probe worker"))
    if not part.holes and not part.gaps and not part.lost:
        write_line("no gap")
    _list("single lines that the log lost", (_lost(lost) for lost in part.lost))
    _list("holes in the log", (_hole(hole) for hole in part.holes))
    _list("missing periodic lines while the log goes on", (_gap(gap) for gap in part.gaps))
    _list(
        "times between two kubelet processes",
        (span_words(down.from_ts_ns, down.to_ts_ns) for down in part.downtimes),
    )
    _list(
        "steps of the clock",
        (
            f"record {step.seq}: from {format_ts(step.from_ts_ns)} back to"
            f" {format_ts(step.to_ts_ns)}"
            for step in part.clock_steps
        ),
    )
    _list("pods whose probe periods are not known, without their spec", part.without_spec)


def _lost(lost: LostLines) -> str:
    names = ", ".join(f"{count} x {name}" for name, count in sorted(lost.activities.items()))
    found = []
    if lost.missing:
        found.append(f"{lost.missing} of {lost.expected} periodic lines are missing ({names})")
    if lost.cut:
        where = "" if lost.cut_at is None else f" at a length of {lost.cut_at}"
        found.append(f"{lost.cut} lines are cut{where}")
    return (
        f"{span_words(lost.from_ts_ns, lost.to_ts_ns)}: {' and '.join(found)};"
        f" any other line may be missing, too (record {lost.seq})"
    )


def _hole(hole: Hole) -> str:
    where = f"{hole.file}:{hole.line_before} to {hole.file_after}:{hole.line_after}"
    if hole.lines_between is not None:
        where += f", {counted(hole.lines_between, 'line')} in between"
    activities = Counter(gap.activity for gap in hole.activities)
    names = ", ".join(sorted(activities)[:4]) + (", ..." if len(activities) > 4 else "")
    return f"{span_words(hole.from_ts_ns, hole.to_ts_ns)}: {where}; without {names}"


def _gap(gap: Gap) -> str:
    return f"{span_words(gap.from_ts_ns, gap.to_ts_ns)}: {gap.missing} x {gap.activity}"


def _counters(counts: list[WorkerCount]) -> None:
    if not counts:
        write_line("no reading of the kubelet's own probe counters")
        return
    wrong = [count for count in counts if count.missing or count.too_many]
    write_line(
        f"the kubelet's own probe counters: {len(counts) - len(wrong)} of {len(counts)} agree"
        " with the recorded probes"
    )
    _list(
        "counters that do not agree",
        (
            f"{count.probe_type} probe of {count.namespace}/{count.pod}/{count.container} at"
            f" {format_ts(count.ts_ns)}: counted"
            f" {counted(count.successful, 'success', 'successes')} and"
            f" {counted(count.failed, 'failure')}, recorded {count.recorded_successful} and"
            f" {count.recorded_failed}"
            for count in wrong
        ),
    )


def _events(part: EventReport) -> None:
    _head("4. Decisions and API events")
    if part.standalone:
        write_line("the kubelet has no API server: its events are in its log only")
    elif not part.event_list:
        write_line(
            "no list of the API server's events was imported: which decisions became one is not "
            "known"
        )
    if part.event_record_qps is not None:
        wait = "" if part.longest_wait_s is None else f": waits up to {part.longest_wait_s:.1f} s"
        write_line(f"eventRecordQPS {part.event_record_qps:g}, eventBurst {part.event_burst}{wait}")
    sent = [kind for kind in part.kinds if kind.decisions > kind.never_sent]
    if sent:
        columns = ("decision", "taken", "event", "counted later", "never an event", "unknown")
        rows = [(k.kind, k.decisions, k.event, k.counted, k.never, k.not_reported) for k in sent]
        write_wrapped(columns, rows)
    silent = [kind for kind in part.kinds if kind.why]
    if silent:
        total = sum(kind.decisions for kind in silent)
        further, kinds = counted(total, "further decision"), counted(len(silent), "kind")
        write_line(f"of kinds that never become an event: {further} of {kinds}")
    if part.event_list:
        _reports(part)
    _list(
        "decisions that never became an event",
        (
            f"record {one.seq} at {format_ts(one.ts_ns)}: {one.kind} {one.subject}, {one.place}"
            f"\n    {one.reason}: {one.why}"
            for one in part.decisions
            if one.delivery == "never"
        ),
    )


def _reports(part: EventReport) -> None:
    lossy = [reason for reason in part.reasons if reason.never or reason.counted]
    reported = sum(reason.reported for reason in part.reasons)
    write_line(f"in the log: {counted(reported, 'event')}")
    columns = ("reason", "in the log", "event", "counted later", "never an event")
    rows = [(r.reason, r.reported, r.event, r.counted, r.never) for r in lossy]
    if len(lossy) < len(part.reasons):
        others = [reason for reason in part.reasons if reason not in lossy]
        total = sum(reason.reported for reason in others)
        rows.append((counted(len(others), "other reason"), total, total, 0, 0))
    write_wrapped(columns, rows)
    for lost in part.lost:
        write_line(f"{lost.reports} never became an event: {lost.why}")


def _missing(part: MissingReport) -> None:
    _head("5. What could not be verified")
    write_line(f"{part.unverifiable} of {part.decisions} decisions could not be verified")
    _list(
        "what to collect next time",
        (
            f"{one.what}, for {counted(one.decisions, 'decision')}: {one.advice}"
            for one in part.inputs
        ),
    )


def _list(title: str, entries: Iterable[str]) -> None:
    listed = list(entries)
    if not listed:
        return
    write_line(f"{title}: {len(listed)}")
    for entry in listed[:_LISTED_MAX]:
        for line in entry.split("\n"):
            write_line(line, "  ")
    if len(listed) > _LISTED_MAX:
        click.echo(f"  ... and {len(listed) - _LISTED_MAX} more (-o json has all)")


def _head(title: str) -> None:
    click.echo()
    click.secho(title, bold=True)


def write_line(text: str, indent: str = "") -> None:
    """A line, wrapped to the screen; what follows its first one is indented."""
    text = printable(text)
    indent += text[: len(text) - len(text.lstrip())]
    click.echo(
        textwrap.fill(
            text.lstrip(),
            screen_width(),
            initial_indent=indent,
            subsequent_indent=f"{indent}  ",
            break_on_hyphens=False,
            break_long_words=False,
        )
    )


def _at(ts_ns: int | None) -> str | None:
    return None if ts_ns is None else format_ts(ts_ns)


def span_words(from_ns: int, to_ns: int) -> str:
    """A time, and how long it is."""
    return f"{format_ts(from_ns)} to {format_ts(to_ns)} ({_seconds(to_ns - from_ns)} s)"


def _seconds(nanoseconds: int) -> float:
    return round(nanoseconds / NS_PER_S, 1)


_NAMED_MAX = 3


def write_summary(report: Completeness) -> None:
    """Write the summary of one node's report."""
    write_head(report)
    click.echo()
    for title, parts in (
        ("Sources", _brief_sources(report.sources)),
        ("Verbosity", _brief_verbosity(report.verbosity)),
        ("Gaps", _brief_gaps(report.gaps)),
        ("Events", _brief_events(report.events)),
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


def _brief_sources(part: SourcesReport) -> Iterator[str]:
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


def _brief_verbosity(part: VerbosityReport) -> Iterator[str]:
    yield "not known" if part.verbosity is None else f"{part.verbosity} by the settings"
    if part.thinned:
        yield "the log was thinned out"
    absent = [line.name for line in part.lines if line.status != "there"]
    yield f"{len(part.lines) - len(absent)} of {len(part.lines)} kinds of lines were logged"
    if absent:
        yield f"missing: {', '.join(_named(absent))}"


def _brief_gaps(part: GapReport) -> Iterator[str]:
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


def _brief_events(part: EventReport) -> Iterator[str]:
    if part.standalone:
        yield "the kubelet has no API server"
    elif not part.event_list:
        yield "no list of the API server's events was imported"
    never = sum(one.delivery == "never" for one in part.decisions)
    if part.event_list:
        yield f"{counted(never, 'decision')} never became an event"
        lost = sum(one.reports for one in part.lost)
        yield f"{counted(lost, 'event')} in the log never reached the API server"


def _verified(part: MissingReport) -> Iterator[str]:
    verified = part.decisions - part.unverifiable
    yield f"{verified:,} of {counted(part.decisions, 'decision')}"
    if part.inputs:
        what = _named([f"{one.what} ({one.decisions:,})" for one in part.inputs])
        yield f"the others lack: {', '.join(what)}"


def _named(names: Iterable[str]) -> list[str]:
    """The first few, and how many more there are."""
    listed = list(names)
    more = len(listed) - _NAMED_MAX
    return [*listed[:_NAMED_MAX], f"and {more} more"] if more > 1 else listed
