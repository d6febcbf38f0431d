"""When the reports of a kernel log happened, in UTC.

The kernel counts from the boot, and its clock runs a little off the time of day: what
``dmesg`` makes of it may be seconds away after weeks. Other sources report the same kills: the
kubelet's lines, which hold the kernel's time to the second, and statuses of containers. What
most of them agree on moves a whole log.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime

from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.klog.lines import LineCutter
from kubeledger.ingest.klog.log_survey import OF_KILLS, LogSurvey
from kubeledger.ingest.planning.timing import Timing
from kubeledger.ingest.sources.items import Finding, KernelReport
from kubeledger.ingest.sources.kernel_log import KernelLogReader
from kubeledger.ingest.sources.streams import SourceFile
from kubeledger.ingest.sources.times import go_time, with_year
from kubeledger.model.units import NS_PER_S

ReportedTimes = dict[str, list[int]]
"""Container ID or path of a cgroup -> times at which a process in it was killed."""

_TOLD = re.compile(
    rb'Created an OOM event in container \\?"([^"\\]+)\\?" at '
    rb"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? [+-]\d{4})"
)
_LINE_MAX = 1 << 16
_COPY_NS = 120 * NS_PER_S
_CLOSE_NS = 2 * NS_PER_S
"""The kubelet's lines and statuses show the second."""


def date_kernel_logs(
    context: BundleContext, logs: Sequence[LogSurvey], timing: Timing
) -> list[Finding]:
    """Give the reports of a bundle their times; those that get none are left out.

    Beside no log of a kubelet, nothing says other times: there the last kill is taken to be as
    late as the bundle is.

    A system's log holds lines of the kernel beside the kubelet's, so logs are looked at, too.
    """
    reports = context.kernel_reports
    reported: ReportedTimes = {}
    for log in (log for log in logs if log.may_report):
        _look_into(log.source, context, reported)
    if not reports:
        return []
    for container_id, instance in context.instances.items():
        if instance.reason == "OOMKilled" and instance.finished_ts_ns is not None:
            reported.setdefault(container_id, []).append(instance.finished_ts_ns)
    findings = []
    for file in sorted(reports):
        ours = _of_node(reports[file], context.node)
        reports[file] = date_reports(
            ours,
            context.kernel_boots,
            reported,
            offset_ns=timing.offset_ns,
            near_ns=timing.last_ts_ns,
            is_alone=not logs,
        )
        is_known = logs or context.kernel_boots or reported
        if not is_known and any(map(_is_from_boot, ours)):
            message = (
                "no source shows when the node booted: its last kill is dated to the end of what"
                " was gathered, and those before it as long before as the kernel's clock says"
            )
            findings.append(Finding("time_guessed", file, message))
        if missing := len(ours) - len(reports[file]):
            message = f"{missing} kills in it are left out: no source shows when the node booted"
            findings.append(Finding("time_unknown", file, message))
    _leave_out_copies(reports)
    return findings


def _leave_out_copies(reports: dict[str, list[KernelReport]]) -> None:
    """What several files hold of one kill (``kern.log``, ``syslog``, ``dmesg``) is one report.

    The fullest is kept. No process is killed twice, and an ID does not come back so soon.
    """
    kept: dict[tuple[int | None, str | None], list[KernelReport]] = {}
    every = [report for file in sorted(reports) for report in reports[file]]
    for report in sorted(every, key=_fullness, reverse=True):
        known = kept.setdefault((report.pid, report.process), [])
        for other in known:
            if abs(other.ts_ns - report.ts_ns) <= _COPY_NS:
                new = tuple(piece for piece in report.evidence if piece not in other.evidence)
                other.evidence = (*other.evidence, *new)
                break
        else:
            known.append(report)
    left = {id(report) for known in kept.values() for report in known}
    for file, found in reports.items():
        reports[file] = [report for report in found if id(report) in left]


def _fullness(report: KernelReport) -> tuple[bool, bool, int]:
    """How much of a report a file holds."""
    whole = report.tasks is not None and not report.is_cut
    return whole, report.task_cgroup is not None, len(report.evidence)


def _of_node(reports: list[KernelReport], node: str) -> list[KernelReport]:
    """Of a log that several hosts wrote to, the node's own lines."""
    if len({report.host for report in reports}) < 2:
        return reports
    short = node.partition(".")[0]
    return [report for report in reports if report.host.partition(".")[0] == short]


def _look_into(log: SourceFile, context: BundleContext, reported: ReportedTimes) -> None:
    """What a log shows of kills: the kubelet's lines, and reports of the kernel."""
    of_kernel, of_kubelet = OF_KILLS
    tail, holds_reports = b"", False
    for chunk in log.chunks():
        window = tail + chunk
        holds_reports = holds_reports or of_kernel in window
        if of_kubelet in window:
            for match in _TOLD.finditer(window):
                with suppress(ValueError):
                    path = match[1].decode("utf-8", "replace")
                    reported.setdefault(path, []).append(go_time(match[2].decode()))
        tail = window.rpartition(b"\n")[2][-_LINE_MAX:]
    if holds_reports:
        reader = KernelLogReader(log.name)
        reader.read(_lines(log))
        if reader.reports:
            context.kernel_reports[log.name] = reader.reports
            context.kernel_boots += reader.boots


def _lines(log: SourceFile) -> Iterator[tuple[int, int, str]]:
    """1-based number, byte offset and text of the lines that the kernel may have written."""
    for number, offset, line in LineCutter().numbered(log.chunks()):
        if b"kernel" in line:
            yield number + 1, offset, line.rstrip(b"\r").decode("utf-8", "replace")


def date_reports(
    reports: Sequence[KernelReport],
    boots: Sequence[int],
    reported: ReportedTimes,
    *,
    offset_ns: int,
    near_ns: int,
    is_alone: bool = False,
) -> list[KernelReport]:
    """Give the reports of one kernel log their times.

    Args:
        reports: are changed.
        boots: times of the boot that the log itself shows.
        reported: kills that other sources report, by path of the cgroup and by container ID.
        offset_ns: what the node's zone is ahead of UTC.
        near_ns: a time in the year of the log.
        is_alone: where nothing shows when the node booted, the last kill was at ``near_ns``.

    Returns:
        those whose time is known, in the order of time.
    """
    dated = []
    for report in reports:
        base_ns = _base_ns(report, offset_ns, near_ns)
        if base_ns is not None:
            report.ts_ns = base_ns
            dated.append(report)
    from_boot = [report for report in dated if _is_from_boot(report)]
    others = [report for report in dated if not _is_from_boot(report)]
    known = []
    for group, own, otherwise in ((from_boot, boots, None), (others, (), 0)):
        shift_ns = _shift_ns(group, own, reported, otherwise)
        if shift_ns is None and is_alone and group:
            shift_ns = near_ns - max(report.ts_ns for report in group)
        if shift_ns is not None:
            for report in group:
                report.ts_ns += shift_ns
            known += group
    return sorted(known, key=lambda report: report.ts_ns)


def _is_from_boot(report: KernelReport) -> bool:
    return report.stamp.form == "boot"


def _base_ns(report: KernelReport, offset_ns: int, near_ns: int) -> int | None:
    form, value_ns = report.stamp
    if form == "local":
        return value_ns - offset_ns
    if form != "yearless":
        return value_ns
    year = datetime.fromtimestamp(near_ns // NS_PER_S, UTC).year
    years = []
    for candidate in (year - 1, year, year + 1):
        with suppress(ValueError):
            years.append(with_year(value_ns, candidate) - offset_ns)
    return min(years, key=lambda ts_ns: abs(ts_ns - near_ns), default=None)


def _shift_ns(
    reports: Sequence[KernelReport],
    boots: Sequence[int],
    reported: ReportedTimes,
    otherwise: int | None,
) -> int | None:
    """What the log's times are to be moved by: where most of what is reported agrees.

    A kill is reported once at most, so agreement of many is that of one shift.
    """
    shifts = sorted(_candidates(reports, reported))
    best, votes = otherwise, 0
    if otherwise is not None:
        votes = sum(abs(shift) <= _CLOSE_NS for shift in shifts)
    elif boots:
        return sorted(boots)[len(boots) // 2]
    start = 0
    for end, shift in enumerate(shifts):
        while shift - shifts[start] > _CLOSE_NS:
            start += 1
        if end - start + 1 > votes:
            best, votes = shifts[(start + end) // 2], end - start + 1
    return best


def _candidates(reports: Sequence[KernelReport], reported: ReportedTimes) -> Iterator[int]:
    for report in reports:
        path = report.task_cgroup or ""
        for times in (reported.get(path), reported.get(_container_of(path))):
            for ts_ns in times or ():
                yield ts_ns - report.ts_ns


def _container_of(path: str) -> str:
    match = re.search(r"([0-9a-f]{64})(?:\.scope)?(?:/|$)", path)
    return match[1] if match else ""
