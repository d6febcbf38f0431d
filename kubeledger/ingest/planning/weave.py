"""Excerpts of one log whose times overlap, read as one log: each line once, in the order of time.

Two windows cut out of one journal, or two selections of its lines, hold the same entries. Where
one begins with the end of another, that end is left out (``reorder``). Where they overlap in any
other way, one inside the other or each with lines that the other lacks, they are woven: the runs
of lines of all of them are read in the order of their stamps, and an entry that stands in several
is read from the first. An entry that one log holds twice stays twice. So are files of one log that
hold lines of different severities.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from heapq import merge
from typing import NamedTuple

import msgspec

from kubeledger.ingest.klog.lines import LineCutter
from kubeledger.ingest.klog.log_survey import LogSurvey
from kubeledger.ingest.klog.reorder import begins_after, overlap_of
from kubeledger.ingest.planning.time_order import (
    Content,
    Entry,
    OrderedLines,
    Part,
    in_time,
    time_of,
)
from kubeledger.ingest.sources.pasted import between
from kubeledger.ingest.sources.prefix import Unwrapper
from kubeledger.ingest.sources.streams import SourceFile


class Run(NamedTuple):
    """Consecutive lines of one excerpt; ``excerpt`` counts those of the group from 0."""

    excerpt: int
    data: bytes


class Excerpt(msgspec.Struct):
    """What is read of one log of a group.

    Attributes:
        parts: of it that are read, in its order.
        lines: how many are left out, because logs before it hold them.
        size_bytes: of the parts.
    """

    log: LogSurvey
    parts: list[Part]
    lines: int = 0
    _view: OrderedLines | None = None

    @property
    def size_bytes(self) -> int:
        return sum(part.end - part.offset for part in self.parts)

    def place(self, line: int, offset: int) -> tuple[int, int]:
        """Place in the log of a place in what is read of it, once all its parts are known."""
        if self._view is None:
            self._view = OrderedLines(self.log.source, self.parts, None)
        return self._view.place(line, offset)


class _Scan(NamedTuple):
    """Entries of a log, each with a hash of all its lines; what is above the first is one, too."""

    entries: list[Entry]
    hashes: list[int]
    size: int
    lines: int

    @property
    def severities(self) -> set[bytes]:
        """First letters of its entries."""
        return {entry.severity for entry in self.entries} - {b""}

    def part(self, index: int) -> Part:
        _, offset, line, _ = self.entries[index]
        is_last = index + 1 == len(self.entries)
        end, next_line = (self.size, self.lines) if is_last else self.entries[index + 1][1:3]
        return Part(offset, end, line, next_line - line)


def groups_of(logs: Sequence[LogSurvey]) -> list[list[LogSurvey]]:
    """Logs in their order; those that are excerpts of one are together.

    Raises:
        BadInputError: one of them cannot be read.
    """
    groups: list[list[LogSurvey]] = []
    for log in logs:
        if groups and _belongs(log, groups[-1]):
            groups[-1].append(log)
        else:
            groups.append([log])
    return groups


def woven(group: Sequence[LogSurvey]) -> tuple[list[Excerpt], Iterator[Run]]:
    """What is read of each log of a group, and its lines in the order of time.

    Raises:
        BadInputError: one of them cannot be read.
    """
    scans = [_scan(log.source) for log in group]
    kept = _kept(scans)
    _drop_half_written(group, scans, kept)
    excerpts = [Excerpt(log, []) for log in group]
    order: list[tuple[int, Part]] = []
    for which, index in _in_order(scans):
        part, excerpt = scans[which].part(index), excerpts[which]
        if not kept[which][index]:
            excerpt.lines += part.lines
            continue
        excerpt.parts.append(part)
        order.append((which, part))
    return excerpts, _runs(group, order)


def _belongs(log: LogSurvey, group: Sequence[LogSurvey]) -> bool:
    near = [each for each in group if not begins_after(log, each)]
    if not near or (len(group) == 1 and overlap_of(group[0], log) is not None):
        return False
    scan = _scan(log.source)
    others = [_scan(each.source) for each in near]
    # Warnings and errors may have a stream of their own, as other lines of the same kubelet have.
    return any(not set(scan.hashes).isdisjoint(other.hashes) for other in others) or all(
        scan.severities.isdisjoint(other.severities) for other in others
    )


def _scan(source: SourceFile) -> _Scan:
    cutter, unwrapper = LineCutter(), Unwrapper()
    entries: list[Entry] = []
    hashes: list[int] = []
    above, lines = 0, 0
    for number, offset, line in cutter.numbered(source.chunks()):
        lines = number + 1
        body = unwrapper.body(line).rstrip(b"\r")
        ts_ns = time_of(body)
        if ts_ns is not None:
            if not entries and number:
                entries.append(Entry(ts_ns, 0, 0))
                hashes.append(above)
            entries.append(Entry(ts_ns, offset, number, body[:1]))
            hashes.append(hash(body))
        elif entries:
            hashes[-1] = hash((hashes[-1], body))
        else:
            above = hash((above, body))
    return _Scan(entries, hashes, cutter.stats.size, lines)


def _kept(scans: Sequence[_Scan]) -> list[list[bool]]:
    """Which entries are read: as often as the log holds them that holds them most often."""
    most: Counter[int] = Counter()
    kept = []
    for scan in scans:
        seen: Counter[int] = Counter()
        mine = []
        for same in scan.hashes:
            seen[same] += 1
            mine.append(seen[same] > most[same])
        kept.append(mine)
        most |= seen
    return kept


def _drop_half_written(
    group: Sequence[LogSurvey], scans: Sequence[_Scan], kept: Sequence[list[bool]]
) -> None:
    """Leave out the last entry of a log where another one holds more of it."""
    for which, scan in enumerate(scans):
        last = scan.part(len(scan.entries) - 1)
        text = _text(group[which].source, last).rstrip()
        for other, its in enumerate(scans):
            for index, entry in enumerate(its.entries):
                if (
                    other != which
                    and entry.ts_ns == scan.entries[-1].ts_ns
                    and its.hashes[index] != scan.hashes[-1]
                    and _text(group[other].source, its.part(index)).startswith(text)
                ):
                    kept[which][-1] = False


def _text(source: SourceFile, part: Part) -> bytes:
    return b"".join(between(source.chunks(), part.offset, part.end))


def _in_order(scans: Sequence[_Scan]) -> Iterator[tuple[int, int]]:
    """Log and entry in the order of time."""
    times = in_time([scan.entries for scan in scans])
    keyed = [
        [(entry.ts_ns, which, index) for index, entry in enumerate(entries)]
        for which, entries in enumerate(times)
    ]
    return ((which, index) for _, which, index in merge(*keyed))


def _runs(group: Sequence[LogSurvey], order: Sequence[tuple[int, Part]]) -> Iterator[Run]:
    contents = [Content(log.source) for log in group]
    begin = 0
    for at in range(1, len(order) + 1):
        which, last = order[at - 1]
        following = order[at] if at < len(order) else None
        if following is None or following[0] != which or following[1].offset != last.end:
            yield Run(which, b"".join(contents[which].pieces(order[begin][1].offset, last.end)))
            begin = at
