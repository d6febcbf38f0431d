"""When things happened: klog's year and zone, the order of logs, the times of snapshots.

klog writes month, day and time of the node's local clock. The year comes from the option,
from lines of the log that hold a full time of their own, from the rest of the bundle, or,
as a guess that is reported, from the file's modification time. The zone is UTC unless
full times in the log show another one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal

import msgspec

from kubeledger.ingest.klog.log_survey import LogSurvey, VersionMark
from kubeledger.ingest.klog.stamps import stamp_ns
from kubeledger.ingest.planning.bundle import YEAR_MAX, YEAR_MIN, Bundle, ImportOptions
from kubeledger.ingest.sources.documents import Document, DocumentContents, read_document
from kubeledger.ingest.sources.items import (
    ApiEvent,
    CollectedAt,
    Finding,
    Item,
    KernelReports,
    NodeObject,
    PodList,
    RuntimeObjects,
    StatsSummary,
)
from kubeledger.ingest.sources.plain import object_of
from kubeledger.ingest.sources.times import first_time, with_year
from kubeledger.kubelet.lifecycle.disputes import CLOCK_UNKNOWN
from kubeledger.model.errors import BadInputError
from kubeledger.model.units import NS_PER_S, format_ts
from kubeledger.replay.node.state import time_in_name

YearSource = Literal["option", "bundle", "log", "guessed"]

_LATE_NS = 2 * 86_400 * NS_PER_S
"""A bundle is gathered soon after its log ends."""
_QUARTER_NS = 900 * NS_PER_S
_FRESH_NS = 60 * NS_PER_S
_ROUND_NS = 10 * NS_PER_S
"""All of a snapshot was read within this time, on an overloaded node, too."""
_SURE = 3
_LOOKED_AT = 8
"""So many documents show by which clock they were named."""
_LISTS = 64
"""So many lists do, which hold no time of their own."""
_NEAR_NS = 2 * NS_PER_S
"""A list that is named when it is read holds something that is as new: stamps are of seconds."""

_AT_START = ("kubelet-config", "pod-manifest")
_UNTIMED = (
    "cgroup-files",
    "metrics",
    "cpu-manager-state",
    "device-checkpoint",
    "dra-manager-state",
    "image-manager-record",
    "kubelet-version",
    "memory-manager-state",
    "node-name",
    "pod-resources",
    "pods-state",
)
"""Formats that hold no time."""
_PAST = frozenset(
    (
        *("creationTimestamp", "startTime", "startedAt", "finishedAt", "lastProbeTime"),
        *("lastTransitionTime", "lastHeartbeatTime", "time"),
    )
)
"""Fields that say that something had happened when the document was written."""
_COLLECTED = re.compile(r"(?<!\d)(20\d\d)-?([01]\d)-?([0-3]\d)(?!\d)")
"""The day in the name of a collection: ``eks_i-0a1b_2023-04-19_1510-UTC_0.7.3``."""


class Timing(msgspec.Struct):
    """Times of a bundle.

    Attributes:
        year: of the first stamp of the first log; None without a log in text form.
        offset_ns: what the node's zone is ahead of UTC.
        logs: in the order they were written.
        documents: in the order of time.
        first_ts_ns, last_ts_ns: span of the bundle.
        spans: file -> first and last time, where they are known.
    """

    year: int | None
    year_source: YearSource | None
    offset_ns: int
    logs: list[LogSurvey]
    documents: list[Document]
    first_ts_ns: int
    last_ts_ns: int
    spans: dict[str, tuple[int, int]] = {}

    @property
    def is_zone_assumed(self) -> bool:
        """Nothing shows the zone of the stamps; a finding says so where the year is guessed."""
        bare = any(log.first_stamp is not None for log in self.logs)
        return (
            bare and self.year_source != "guessed" and not any(log.offsets_ns for log in self.logs)
        )

    @property
    def first_year(self) -> int:
        """That of the first stamp; where the logs do not begin with one, the span's."""
        if self.year is not None:
            return self.year
        return datetime.fromtimestamp((self.first_ts_ns + self.offset_ns) // NS_PER_S, UTC).year


def timing_of(
    bundle: Bundle, options: ImportOptions, given_ts: Mapping[str, int]
) -> tuple[Timing, list[Finding]]:
    """Times of a bundle, and what a reader must know about them.

    ``given_ts`` are times of documents without one, by file.

    Raises:
        BadInputError: nothing shows the year of a log, not even the file's own time.
    """
    findings: list[Finding] = []
    document_ns = {
        file.source.name: time_of_document(file.at(0), bundle.contents)
        for file in bundle.files
        if file.survey is None
    }
    document_ns |= _of_one_collection(bundle, document_ns)
    least_ns = _behind_names(bundle)
    # Lists that tell what by their names was still to come show another machine's clock, too.
    if names_ns := least_ns if least_ns < -_ROUND_NS else _ahead_of_names(bundle):
        local = [name for name in document_ns if time_in_name(name) is not None]
        document_ns |= {name: (document_ns[name] or 0) - names_ns for name in local}
        message = f"names of directories are {names_ns // NS_PER_S} s ahead of the node's clock"
        if names_ns % _QUARTER_NS == 0:
            message = f"names of directories are {names_ns // (60 * NS_PER_S)} minutes ahead of UTC"
        findings.append(Finding("time_zone", min(local), message))
    if abs(least_ns) > _NEAR_NS:
        message = f"all lists tell what was {least_ns // NS_PER_S} s before their names, at least"
        findings.append(Finding(CLOCK_UNKNOWN, None, message))
    document_ns |= {
        file: ts_ns for file, ts_ns in given_ts.items() if document_ns.get(file, 0) is None
    }
    offset_ns = _offset(bundle.logs)
    if offset_ns:
        message = f"the log's times are {offset_ns // (60 * NS_PER_S)} minutes ahead of UTC"
        findings.append(Finding("time_zone", bundle.logs[0].source.name, message))
    logs = _in_order(bundle.logs)
    known = sorted(ts_ns for ts_ns in document_ns.values() if ts_ns)
    year, source = _year(logs, known, offset_ns, options, _collected_ns(bundle))
    # When all was over shows the year, but nothing happened then.
    document_ns |= {
        file.source.name: None for file in bundle.files if file.format == "collected-at"
    }
    if source == "guessed":
        zone_known = any(log.offsets_ns for log in logs)
        findings.append(_year_guessed(logs[0].source.name, year, zone_known=zone_known))
    of_logs = {log.source.name: tuple(_span(log, year, offset_ns)) for log in logs}
    spans = [ts_ns for times in of_logs.values() for ts_ns in times]
    times = spans + [ts_ns for ts_ns in document_ns.values() if ts_ns is not None]
    if not times:
        times, found = _kernel_times(bundle, options)
        findings += found
    if not times:
        times = [max(file.source.mtime_ns for file in bundle.files)]
        message = "no source holds a time; the files' own time is taken"
        findings.append(Finding("time_guessed", None, message))
    first, last = (min(spans), max(times)) if spans else (min(times), max(times))
    findings += _doubtful(document_ns, spans)
    documents = _documents(bundle, document_ns, first, last)
    by_file = {file: (min(times), max(times)) for file, times in of_logs.items() if times}
    by_file |= {each.source.name: (each.ts_ns, each.ts_ns) for each in documents}
    timing = Timing(year, source, offset_ns, logs, documents, first, last, spans=by_file)
    return timing, findings


def _year_guessed(file: str, year: int | None, *, zone_known: bool) -> Finding:
    """Said once of a bundle, of the file whose time was asked."""
    what, zone = ("year", "") if zone_known else ("year or the zone", ", and UTC")
    message = (
        f"no source shows the {what} of the log's lines; {year} is assumed, from the file's own"
        f" time{zone}"
    )
    return Finding("year_guessed", file, message)


def _kernel_times(bundle: Bundle, options: ImportOptions) -> tuple[list[int], list[Finding]]:
    """Of kernel logs that stand alone: their clock is read as UTC's, in the year of their file."""
    times: list[int] = []
    findings: list[Finding] = []
    for file in bundle.files:
        if file.format != "kernel-log":
            continue
        try:
            items = read_document(file.at(0), bundle.contents)[0]
        except BadInputError:  # reported when the document is read
            continue
        stamps = [
            r.stamp for item in items if isinstance(item, KernelReports) for r in item.reports
        ]
        dated = [stamp.value_ns for stamp in stamps if stamp.form == "local"]
        yearless = [stamp.value_ns for stamp in stamps if stamp.form == "yearless"]
        year = options.year
        if yearless and year is None:
            in_year = partial(with_year, max(yearless))
            year = _year_before(in_year, file.source.mtime_ns, years_back=3)  # to a leap year
            findings.append(_year_guessed(file.source.name, year, zone_known=False))
        elif dated or yearless:
            message = "no source shows the zone of the log's lines; UTC is assumed"
            findings.append(Finding("zone_assumed", file.source.name, message))
        if year is not None:
            with suppress(ValueError):  # 29 February
                dated += [with_year(value_ns, year) for value_ns in yearless]
        times += dated
    return times, findings[:1]


def starts_of(timing: Timing) -> tuple[int, ...]:
    """When kubelets stated their version in the logs, sorted."""
    marks = ((log, mark) for log in timing.logs for mark in log.versions)
    times = {mark_time(*each, timing.year, timing.offset_ns) for each in marks}
    return tuple(sorted(ts_ns for ts_ns in times if ts_ns is not None))


def _doubtful(document_ns: dict[str, int | None], spans: list[int]) -> list[Finding]:
    """Documents that say they are of days after the log's end."""
    if not spans:
        return []
    end = max(spans)
    return [
        Finding("time_doubtful", file, f"its time is {format_ts(ts_ns)}, days after the log's end")
        for file, ts_ns in sorted(document_ns.items())
        if ts_ns is not None and ts_ns > end + _LATE_NS
    ]


def time_of_document(
    document: Document, contents: DocumentContents, *, by_name: bool = True
) -> int | None:
    """When a document was written, by its name or what it shows; None where neither says."""
    named = time_in_name(document.source.name) if by_name else None
    if named is not None or document.format in _AT_START:
        return named
    if document.format in _UNTIMED:
        return None
    try:
        return max(_past_times(read_document(document, contents)[0]), default=None)
    except BadInputError:  # reported when the document is read
        return None


def _of_one_collection(
    bundle: Bundle, document_ns: Mapping[str, int | None]
) -> dict[str, int | None]:
    """Times of files that hold one pod each, as `kubectl get pod NAME -o json` writes them.

    Beside each other those of one node are a list in pieces, dated by the latest of them, unless
    two of them show one pod. One alone has no time: it may be written long after the last that it
    tells, as what ended a pod that was evicted or preempted has no time in its status.
    """
    shown: dict[object, dict[str, object]] = {}
    for file in bundle.files:
        name = file.source.name
        if file.format == "pod-list" and time_in_name(name) is None:
            with suppress(BadInputError):  # reported when the document is read
                items = read_document(file.at(0), bundle.contents)[0]
                lists = [item for item in items if isinstance(item, PodList)]
                pods = [pod for item in lists if not item.complete for pod in item.pods]
                if len(pods) == 1:
                    node = object_of(pods[0].get("spec")).get("nodeName")
                    uid = object_of(pods[0].get("metadata")).get("uid")
                    shown.setdefault(node, {})[name] = uid
    dated: dict[str, int | None] = {}
    for of_node in shown.values():
        known = [ts_ns for name in of_node if (ts_ns := document_ns[name]) is not None]
        if len(set(of_node.values())) == len(of_node):
            dated |= dict.fromkeys(of_node, max(known) if len(of_node) > 1 and known else None)
    return dated


def _ahead_of_names(bundle: Bundle) -> int:
    """What the clock of directories' names is ahead of the node's, by what statistics hold.

    A part of these is read when they are asked for, within a round that begins when its name says.
    One document shows by which zone it was named: all zones are quarters of an hour apart. Several
    that agree show that it was another machine's clock.
    """
    lags_ns = _lags(bundle, "stats-summary", _LOOKED_AT)
    if not lags_ns or max(lags_ns) - min(lags_ns) > _FRESH_NS:
        return 0
    ahead_ns = max(lags_ns)
    zone_ns = round(ahead_ns / _QUARTER_NS) * _QUARTER_NS
    if len(lags_ns) >= _SURE and not -_ROUND_NS <= ahead_ns - zone_ns <= NS_PER_S:
        return ahead_ns
    return zone_ns if abs(ahead_ns - zone_ns) < _FRESH_NS else 0


def _behind_names(bundle: Bundle) -> int:
    """By how much at least all lists are older than their names, without statistics; 0: no lists.

    What a list holds was before it was read. Where all are far from it, they may have been read
    long before the time in their names, or this goes by another clock.
    """
    if any(file.format == "stats-summary" for file in bundle.files):
        return 0
    lags_ns = _lags(bundle, "pod-list", _LISTS)
    return min(lags_ns) if len(lags_ns) >= _SURE else 0


def _lags(bundle: Bundle, of: str, most: int) -> list[int]:
    """How much later than the latest that they hold some documents of a format are named."""
    files = [file for file in bundle.files if file.format == of]
    named = [(file, ns) for file in files if (ns := time_in_name(file.source.name)) is not None]
    lags_ns: list[int] = []
    for file, named_ns in named[:: -(-len(named) // most) or 1]:
        shown_ns = time_of_document(file.at(0), bundle.contents, by_name=False)
        lags_ns += () if shown_ns is None else (named_ns - shown_ns,)
    return lags_ns


def _past_times(items: Sequence[Item]) -> Iterator[int]:
    """When what a document shows had happened: it was written at the latest of these, or later.

    Only fields that report the past count: an annotation may hold any time.
    """
    for item in items:
        match item:
            case PodList():
                yield from _past([[pod.get("metadata"), pod.get("status")] for pod in item.pods])
            case NodeObject():
                yield from _past([item.node.get("metadata"), item.node.get("status")])
            case StatsSummary():
                yield from _past(item.data)
            case ApiEvent():
                if item.event.last_ns is not None:
                    yield item.ts_ns
            case KernelReports():
                stamps = (report.stamp for report in item.reports)
                yield from (stamp.value_ns for stamp in stamps if stamp.form == "utc")
            case RuntimeObjects():
                yield from (each.created_ns for each in item.containers if each.created_ns)
            case CollectedAt():
                yield item.collected_ns


def _past(value: Any) -> Iterator[int]:  # noqa: ANN401 - any JSON value
    if isinstance(value, list):
        for member in value:
            yield from _past(member)
    elif isinstance(value, dict):
        for key, member in value.items():
            if key not in _PAST:
                yield from () if key in ("labels", "annotations") else _past(member)
            elif (ts_ns := first_time(member)) is not None:
                yield ts_ns


def _documents(
    bundle: Bundle, document_ns: dict[str, int | None], first: int, last: int
) -> list[Document]:
    """Documents with their times: what has none was there at the end, or all along."""
    documents = []
    for file in bundle.files:
        if file.survey is not None:
            continue
        ts_ns = document_ns[file.source.name]
        if ts_ns is None:
            ts_ns = first if file.format in _AT_START else last
        documents.append(file.at(ts_ns))
    documents.sort(key=lambda document: (document.ts_ns, document.source.name))
    return documents


def _offset(logs: Sequence[LogSurvey]) -> int:
    """The zone that most lines with a full time agree on."""
    votes = sum((Counter(log.offsets_ns) for log in logs), Counter[int]())
    return max(votes, key=lambda offset_ns: (votes[offset_ns], -abs(offset_ns)), default=0)


def _in_order(logs: Sequence[LogSurvey]) -> list[LogSurvey]:
    """Logs in the order of their first lines; stamps of December go before January's."""
    stamps = [log.first_stamp for log in logs if log.first_stamp]
    wraps = any(stamp[:2] >= b"10" for stamp in stamps) and any(
        stamp[:2] <= b"03" for stamp in stamps
    )

    def key(log: LogSurvey) -> tuple[int, bytes, str]:
        if log.first_stamp is None:
            return (log.first_ns or 0, b"", log.source.name)
        return (int(wraps and log.first_stamp[:2] <= b"06"), log.first_stamp, log.source.name)

    return sorted(logs, key=key)


def _year(
    logs: Sequence[LogSurvey],
    others: list[int],
    offset_ns: int,
    options: ImportOptions,
    collected_ns: int | None,
) -> tuple[int | None, YearSource | None]:
    first = next((log for log in logs if log.first_stamp), None)
    if first is None or first.first_stamp is None:
        return None, None
    if options.year is not None:
        return options.year, "option"
    stamp = first.first_stamp
    last = next((log.last_stamp for log in reversed(logs) if log.last_stamp), stamp)

    def in_year(year: int) -> int:
        return stamp_ns(stamp, year) - offset_ns

    def nearest(reference_ns: int) -> int:
        ends = [partial(_time_of, stamp, each, offset_ns=offset_ns) for each in (stamp, last)]
        return _nearest_year(ends, reference_ns)

    for log in logs:
        if log.reference_ns is not None:
            return nearest(log.reference_ns), "log"
    jsons = [log.first_ns for log in logs if log.first_ns is not None]
    known = sorted(others + jsons)
    if known:
        return nearest(known[0]), "bundle"
    if collected_ns is not None:
        return _year_before(in_year, collected_ns), "bundle"
    year = _year_before(in_year, first.source.mtime_ns)
    if not YEAR_MIN <= year <= YEAR_MAX:  # archives made to be the same anywhere have no times
        raise BadInputError(
            "no source shows the year of its lines, and the file's own time cannot be that of a "
            "kubelet",
            file=first.source.name,
            advice="say it with --year",
        )
    return year, "guessed"


def _collected_ns(bundle: Bundle) -> int | None:
    """The end of the day that a name around the logs shows: they were gathered on it.

    A log's own name is asked last: rotation may name it by the day on which it begins.
    """
    directories = [part for log in bundle.logs for part in log.source.name.split("/")[:-1]]
    for name in (bundle.name, *reversed(directories)):
        for found in _COLLECTED.finditer(name):
            try:
                day = datetime.strptime("".join(found.groups()), "%Y%m%d").replace(tzinfo=UTC)
            except ValueError:
                continue
            return (int(day.timestamp()) + 86_400) * NS_PER_S
    return None


def _year_before(in_year: Callable[[int], int], written_ns: int, years_back: int = 1) -> int:
    """The last year in which a stamp is not later than the file (by more than a day).

    Args:
        in_year: the stamp's time in a year; raises ValueError for 29 February where it has none.
        written_ns: time of the file.
        years_back: how many years before that of the file are tried.
    """
    year = datetime.fromtimestamp(written_ns // NS_PER_S, UTC).year
    for candidate in range(year + 1, year - years_back - 1, -1):
        with suppress(ValueError):
            if in_year(candidate) <= written_ns + 86_400 * NS_PER_S:
                return candidate
    return year


def _nearest_year(ends: Sequence[Callable[[int], int | None]], reference_ns: int) -> int:
    """The year that brings a log's first and last stamp nearest to a full time.

    A node without a clock of its own begins in January: the first one alone may mislead.
    """
    middle = datetime.fromtimestamp(reference_ns // NS_PER_S, UTC).year
    distances: list[tuple[int, int]] = []
    for year in (middle - 1, middle, middle + 1):
        times = [in_year(year) for in_year in ends]
        if times[0] is not None:
            distances.append((sum(abs(each - reference_ns) for each in times if each), year))
    return min(distances)[1] if distances else middle


def _span(log: LogSurvey, year: int | None, offset_ns: int) -> Iterator[int]:
    yield from (ts_ns for ts_ns in (log.first_ns, log.last_ns) if ts_ns is not None)
    if year is None or log.first_stamp is None:
        return
    for stamp in (log.first_stamp, log.last_stamp or log.first_stamp):
        ts_ns = _time_of(log.first_stamp, stamp, year, offset_ns)
        if ts_ns is not None:
            yield ts_ns


def mark_time(log: LogSurvey, mark: VersionMark, year: int | None, offset_ns: int) -> int | None:
    """When a kubelet stated its version; None where that is not known.

    Args:
        offset_ns: what the node's zone is ahead of UTC.
    """
    if year is None or log.first_stamp is None or mark.stamp is None:
        return mark.ts_ns
    return _time_of(log.first_stamp, mark.stamp, year, offset_ns)


def _time_of(first_stamp: bytes, stamp: bytes, year: int, offset_ns: int) -> int | None:
    """Time of a stamp in a log that begins with the first one in that year; None for no time."""
    try:
        ts_ns = stamp_ns(stamp, year)
        if stamp[:2] < first_stamp[:2] and first_stamp[:2] == b"12":
            ts_ns = stamp_ns(stamp, year + 1)
    except ValueError:
        return None
    return ts_ns - offset_ns
