"""Kernel logs: the reports of the OOM killer in them.

A report is a block of lines, from ``invoked oom-killer`` over the memory of the cgroup and the
table of processes to ``oom-kill:`` and ``Killed process``. Only the kernel's own lock keeps
them together: lines of others may stand between them. A ring buffer begins in the middle of
one, or ends there, before it says who was killed; when reports come too fast the kernel writes
``Killed process`` alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from kubeledger.ingest.sources.items import Constraint, KernelReport, KernelTask
from kubeledger.ingest.sources.times import Stamp, kernel_line
from kubeledger.model.patterns import regex
from kubeledger.model.record import Evidence

_SAMPLE_LINES = 200
_NAMED = regex(r"dmesg|kmsg|kern(?:el)?\b|kern\.log", re.IGNORECASE)
_OOM_WORDS = regex(r"invoked oom-killer|oom-kill:constraint|Killed process \d+ \(")

_KB = r"(\d+)kB"
_INVOKED = regex(r"(.+?) invoked oom-killer: ")
_USAGE = regex(rf"(memory|memory\+swap|swap|kmem): usage {_KB}, limit {_KB}")
_STATS = regex(r"Memory cgroup stats for (/[^:]*):?")
_OLD_PATHS = regex(r"Task in (\S+) killed as a result of limit of (\S+)")
_RAM = regex(r"(\d+) pages (RAM|reserved|hwpoisoned)$")
_SWAP = regex(rf"Total swap = {_KB}")
_HEADER = regex(r"\[ *pid *\] .*\bname$")
_ROW = regex(r"\[ *(\d+)\] +(.*)")
_SUMMARY = regex(
    r"oom-kill:constraint=CONSTRAINT_(?P<constraint>\w+),nodemask=.*?"
    r"(?:,global_oom|,oom_memcg=(?P<cgroup>.*?)),task_memcg=(?P<task_cgroup>.*?),"
    r"task=(?P<name>.*),pid=(?P<pid>\d+),uid=\d+"
)
_CHOSEN = regex(r"(?:.*: )?Kill process (\d+) \((.*)\) score -?\d+ or sacrifice child")
_KILLED = regex(
    r"(?P<how>.*?)Killed process (?P<pid>\d+)(?: \((?P<name>.*)\)|, UID \d+, \((?P<old>.*)\))[ ,]"
    r".*?anon-rss:(?P<anon>\d+)kB, file-rss:(?P<file>\d+)kB(?:, shmem-rss:(?P<shmem>\d+)kB)?"
    r"(?:.* oom_score_adj:(?P<adj>-?\d+))?"
)
_DETAIL = regex(
    "|".join(p.pattern for p in (_USAGE, _OLD_PATHS, _HEADER, _ROW))
    + "|Memory cgroup stats for|Tasks state|oom-kill:constraint"
)
"""What stands before the choice is reported."""
_GROUP = regex(r"Tasks in (\S+) are going to be killed due to memory\.oom\.group set")
_REAPED = regex(r"oom_reaper: reaped process (\d+) ")
_LOST = regex(r"printk: .*messages? (?:dropped|suppressed)|[Mm]issed \d+ kernel messages")
_AUDIT = regex(r"audit: type=\d+ audit\((\d+)\.(\d{3}):\d+\)")
_RTC = regex(r"setting system clock to .* \((\d+)\)$")
_CONSTRAINTS: Mapping[str, Constraint] = {
    "MEMCG": "memcg",
    "NONE": "none",
    "CPUSET": "cpuset",
    "MEMORY_POLICY": "memory_policy",
}
_ANY = regex(
    "|".join(
        (
            "oom",
            "emory: usage",
            "swap: usage",
            "kmem: usage",
            "cgroup stats for",
            "Task in /",
            "pages (?:RAM|reserved|hwpoisoned)$",
            "Total swap",
            r"\[ *(?:pid|\d+) *\] ",
            "Kill(?:ed)? process",
            r"printk:",
            "kernel messages",
            "audit: type=",
            "system clock to",
        )
    )
)
"""What any line of interest holds."""


_BEGINS = regex(r"[\[<\d]|[a-z]+ *:|\w{3} ")
"""What any form of a kernel's line begins with."""


def is_kernel_log(text: str, name: str) -> bool:
    """Whether a text is a kernel's log.

    By its form and, as many logs have that, by its name, its tags or the OOM killer's words.
    """
    lines = [line for line in text.split("\n")[:_SAMPLE_LINES] if line]
    read = []
    for index, line in enumerate(lines):
        found = kernel_line(line) if _BEGINS.match(line) is not None else None
        if found is not None:
            read.append(found)
        elif (index + 1 - len(read)) * 2 >= len(lines):
            return False
    tagged = sum(found.host is not None for found in read)
    words = _OOM_WORDS.search(text) is not None
    return bool(read) and (words or tagged * 2 > len(read) or bool(_NAMED.search(name)))


class KernelLogReader:
    """Reads one kernel log, line by line.

    Attributes:
        reports: (n,) in the order of the file.
        boots: times of the boot as lines show it that hold a time of day of their own.
        lines, understood: how many; those of reports are understood.
    """

    def __init__(self, file: str) -> None:
        self._file = file
        self.reports: list[KernelReport] = []
        self.boots: list[int] = []
        self.lines = 0
        self.understood = 0
        self._open: dict[str, KernelReport] = {}
        self._columns: list[str] | None = None
        self._group: dict[str, str] = {}

    def read(self, lines: Iterator[tuple[int, int, str]]) -> None:
        """Take in all lines: 1-based number, byte offset, text."""
        for number, offset, text in lines:
            self.lines += 1
            if _ANY.search(text) is None:
                continue
            line = kernel_line(text)
            if line is None:
                continue
            place = Evidence(file=self._file, line=number, offset=offset, text=text[:4096])
            if self._take(line.text.strip(), line.stamp, line.host or "", place):
                self.understood += 1
        for report in list(self._open.values()):
            self._finish(report)

    def _take(self, text: str, stamp: Stamp, host: str, place: Evidence) -> bool:
        """Take in a line; whether it is of a report."""
        report = self._open.get(host)
        if _LOST.search(text):
            if report is not None:
                report.is_cut = True
            return True
        if self._boot(text, stamp):
            return False
        if report is not None and report.pid is not None and _DETAIL.match(text):
            # The last line of that report is lost, and so is the first one of the next.
            self._finish(report)
            report = None
        if match := _INVOKED.match(text):
            if report is not None:
                self._finish(report)
            report = self._begin(host, stamp)
            report.invoked_by = match[1]
        elif match := _KILLED.match(text):
            return self._killed(match, stamp, host, place)
        elif match := _REAPED.match(text):
            return self._reaped(int(match[1]), host, place)
        elif match := _GROUP.match(text):
            self._group[host] = match[1]
            return True
        elif _HEADER.match(text):
            report = report or self._begin(host, stamp)
            self._columns = text.replace("[", " ").replace("]", " ").split()
            report.tasks = []
            return True
        elif report is None and (match := _SUMMARY.match(text)) is None:
            return self._orphan(text, stamp, host)
        else:
            report = report or self._begin(host, stamp)
            if not self._detail(report, text):
                return False
            if _ROW.match(text):
                return True  # the table is kept as such
        report.evidence = (*report.evidence, place)
        return True

    def _orphan(self, text: str, stamp: Stamp, host: str) -> bool:
        """A line of a report of which the beginning is gone."""
        if any(pattern.match(text) for pattern in (_USAGE, _STATS, _CHOSEN, _OLD_PATHS)):
            return self._detail(self._begin(host, stamp), text)
        return False

    def _begin(self, host: str, stamp: Stamp) -> KernelReport:
        self._columns = None
        self._group.pop(host, None)
        report = self._open[host] = KernelReport(file=self._file, host=host, stamp=stamp)
        return report

    def _finish(self, report: KernelReport) -> None:
        self._open.pop(report.host, None)
        if any((report.pid, report.invoked_by, report.task_cgroup)):
            self.reports.append(report)

    def _boot(self, text: str, stamp: Stamp) -> bool:
        """A line that shows the time of day beside the time since the boot."""
        if stamp.form != "boot":
            return False
        if match := _AUDIT.match(text):
            self.boots.append((int(match[1]) * 1000 + int(match[2])) * 1_000_000 - stamp.value_ns)
        elif match := _RTC.search(text):
            self.boots.append(int(match[1]) * 1_000_000_000 - stamp.value_ns)
        return match is not None

    def _detail(self, report: KernelReport, text: str) -> bool:
        """A line between the first and the last of a report."""
        if (match := _ROW.match(text)) and self._columns is not None:
            return self._row(report, match[1], match[2])
        if match := _USAGE.match(text):
            report.usages[match[1]] = (int(match[2]) << 10, int(match[3]) << 10)
        elif match := _STATS.match(text):
            report.cgroup = report.cgroup or match[1]
        elif match := _OLD_PATHS.match(text):
            report.task_cgroup, report.cgroup = match[1], match[2]
        elif match := _RAM.search(text):
            sign = 1 if match[2] == "RAM" else -1
            report.ram_pages = (report.ram_pages or 0) + sign * int(match[1])
        elif match := _SWAP.search(text):
            report.swap_bytes = int(match[1]) << 10
        elif match := _CHOSEN.match(text):
            report.chosen_pid = report.pid = int(match[1])
            report.process = match[2]
        elif match := _SUMMARY.match(text):
            if match["cgroup"] and report.cgroup not in (None, match["cgroup"]):
                report.conflict = "one report names two cgroups", match["cgroup"], report.cgroup
            report.constraint = _CONSTRAINTS.get(match["constraint"])
            report.cgroup, report.task_cgroup = match["cgroup"], match["task_cgroup"]
            report.process, report.pid = match["name"], int(match["pid"])
        else:
            return text.startswith("Tasks state (memory values in pages)")
        return True

    def _row(self, report: KernelReport, pid: str, rest: str) -> bool:
        """A row: the columns differ between kernels, the name comes last and may hold blanks."""
        assert self._columns is not None
        names = self._columns[1:]
        cells = rest.split(None, len(names) - 1)
        if len(cells) != len(names):
            return False
        columns = {n: int(c) for n, c in zip(names, cells, strict=True) if c.lstrip("-").isdigit()}
        if report.tasks is None or "rss" not in columns:
            return False
        report.tasks.append(
            KernelTask(
                pid=int(pid),
                name=cells[-1],
                rss_pages=columns["rss"],
                swap_pages=columns.get("swapents", 0),
                page_table_bytes=columns.get("pgtables_bytes"),
                page_table_pages=sum(columns.get(n, 0) for n in ("nr_ptes", "nr_pmds", "nr_puds")),
                oom_score_adj=columns.get("oom_score_adj", 0),
            )
        )
        return True

    def _killed(self, match: re.Match[str], stamp: Stamp, host: str, place: Evidence) -> bool:
        report = self._open.get(host)
        pid = int(match["pid"])
        before = self.reports[-1] if self.reports else None
        if report is None and host in self._group and before is not None and before.pid is not None:
            if pid != before.pid:  # the group holds the victim, and the kernel may show it again
                before.also_killed = (*before.also_killed, pid)
            return True
        if report is None:
            report = self._begin(host, stamp)
        elif _is_next(report, match, place) and pid != report.pid:
            report.conflict = "one report names two processes", str(pid), str(report.pid)
        elif report.pid is not None and pid != report.pid and report.chosen_pid is None:
            # Killed by another report of which the rest was not written.
            self._finish(report)
            report = self._begin(host, stamp)
        report.stamp, report.pid = stamp, pid
        report.process = match["name"] or match["old"]
        report.rss_bytes = sum(int(match[name] or 0) for name in ("anon", "file", "shmem")) << 10
        report.anon_bytes = int(match["anon"]) << 10
        report.oom_score_adj = None if match["adj"] is None else int(match["adj"])
        report.allocating_task = "oom_kill_allocating_task" in match["how"]
        report.is_memcg = match["how"].startswith("Memory cgroup")
        report.evidence = (*report.evidence, place)
        self._finish(report)
        return True

    def _reaped(self, pid: int, host: str, place: Evidence) -> bool:
        for report in reversed(self.reports[-4:]):
            if report.pid == pid and report.host == host:
                report.evidence = (*report.evidence, place)
                return True
        return False


def _is_next(report: KernelReport, match: re.Match[str], place: Evidence) -> bool:
    """Whether a line follows right on the one that names the same process, with nothing lost."""
    before = [piece.line for piece in report.evidence[-1:]]
    is_same = report.process == match["name"] and report.task_cgroup is not None
    return is_same and not report.is_cut and before == [(place.line or 0) - 1]
