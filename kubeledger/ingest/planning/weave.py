"""Excerpts of one log whose times overlap, read as one log: each line once, in the order of time.

Two windows cut out of one journal, or two selections of its lines, hold the same entries. Where
one begins with the end of another, that end is left out (``reorder``). Where they overlap in any
other way, one inside the other or each with lines that the other lacks, they are woven: the runs
of lines of all of them are read in the order of their stamps, and an entry that stands in several
is read from the first. An entry that one log holds twice stays twice. So are files of one log that
hold lines of different severities, or to which the lines of one process were dealt in turn.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import chain, count, groupby, repeat
from typing import NamedTuple

import msgspec

from kubeledger.ingest.klog.lines import LineCutter
from kubeledger.ingest.klog.log_survey import LogSurvey
from kubeledger.ingest.klog.reorder import begins_after, overlap_of
from kubeledger.ingest.planning.time_order import (
    Content,
    Entries,
    OrderedLines,
    Part,
    in_time,
    time_of,
)
from kubeledger.ingest.sources.pasted import between
from kubeledger.ingest.sources.prefix import HEADER, Unwrapper
from kubeledger.ingest.sources.streams import SourceFile

_COMPARED = 1 << 16
"""Entries of a log of which it is remembered at once what they say."""
_RUN = 1 << 9
"""Entries that are read at once."""


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
    """Entries of a log, each with a hash of all its lines; what is above the first is one, too.

    Attributes:
        pids: processes that wrote them; none in JSON.
    """

    entries: Entries
    hashes: array[int]
    pids: set[bytes]

    @property
    def severities(self) -> set[int]:
        """First letters of its entries."""
        return {*self.entries.letters} - {0}

    def is_among(self, other: _Scan) -> bool:
        """Most of its entries are no older and no younger than those of another log."""
        times = other.entries.times_ns
        first_ns, last_ns = min(times), max(times)
        within = sum(first_ns <= ts_ns <= last_ns for ts_ns in self.entries.times_ns)
        return within * 2 > len(self.entries.times_ns)


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
    for excerpt, (entries, *_), is_kept in zip(excerpts, scans, kept, strict=True):
        begin = 0
        for stays, run in groupby(is_kept):
            end = begin + sum(1 for _ in run)
            part, begin = entries.part(begin, end), end
            if stays:
                excerpt.parts.append(part)
            else:
                excerpt.lines += part.lines
    return excerpts, _runs(group, [scan.entries for scan in scans], kept)


def _belongs(log: LogSurvey, group: Sequence[LogSurvey]) -> bool:
    near = [each for each in group if not begins_after(log, each)]
    if not near or (len(group) == 1 and overlap_of(group[0], log) is not None):
        return False
    scan = _scan(log.source)
    others = [_scan(each.source) for each in near]
    # Warnings and errors may have a stream of their own, as other lines of the same kubelet have.
    return any(
        not {scan.hashes[index] for index in mine}.isdisjoint(other.hashes[index] for index in its)
        for other in others
        for mine, its in _shares((scan, other))
    ) or all(
        scan.severities.isdisjoint(other.severities)
        or (scan.is_among(other) and other.is_among(scan) and scan.pids & other.pids)
        for other in others
    )


def _scan(source: SourceFile) -> _Scan:
    cutter, unwrapper = LineCutter(), Unwrapper()
    entries, hashes, pids = Entries(), array("q"), set[bytes]()
    above, lines = 0, 0
    for number, offset, line in cutter.numbered(source.chunks()):
        lines = number + 1
        body = unwrapper.body(line).rstrip(b"\r")
        ts_ns = time_of(body)
        if ts_ns is not None:
            if number and not hashes:
                entries.add(ts_ns, 0, 0, 0)
                hashes.append(above)
            entries.add(ts_ns, body[0], offset, number)
            hashes.append(hash(body))
            if (header := HEADER.match(body)) is not None:
                pids.add(header[3])
        elif hashes:
            hashes[-1] = hash((hashes[-1], body))
        else:
            above = hash((above, body))
    entries.end(cutter.stats.size, lines)
    return _Scan(entries, hashes, pids)


def _shares(scans: Sequence[_Scan]) -> Iterator[list[list[int]]]:
    """Entries of logs, those of the same bytes together: not all are compared at once."""
    shares = max(len(scan.hashes) for scan in scans) // _COMPARED + 1
    for share in range(shares):
        yield [
            [index for index, same in enumerate(scan.hashes) if same % shares == share]
            for scan in scans
        ]


def _kept(scans: Sequence[_Scan]) -> list[bytearray]:
    """Which entries are read: as often as the log holds them that holds them most often."""
    kept = [bytearray(len(scan.hashes)) for scan in scans]
    for share in _shares(scans):
        most: Counter[int] = Counter()
        for scan, mine, indices in zip(scans, kept, share, strict=True):
            seen: Counter[int] = Counter()
            for index in indices:
                same = scan.hashes[index]
                seen[same] += 1
                mine[index] = seen[same] > most[same]
            most |= seen
    return kept


def _drop_half_written(
    group: Sequence[LogSurvey], scans: Sequence[_Scan], kept: Sequence[bytearray]
) -> None:
    """Leave out the last entry of a log where another one holds more of it."""
    for which, (entries, hashes, _) in enumerate(scans):
        last, last_ns = len(hashes) - 1, entries.times_ns[-1]
        text = _text(group[which].source, entries, last).rstrip()
        for other, (its, others, _) in enumerate(scans):
            for index, ts_ns in enumerate(its.times_ns):
                if (
                    ts_ns == last_ns
                    and other != which
                    and others[index] != hashes[-1]
                    and _text(group[other].source, its, index).startswith(text)
                ):
                    kept[which][-1] = False


def _text(source: SourceFile, entries: Entries, index: int) -> bytes:
    part = entries.part(index, index + 1)
    return b"".join(between(source.chunks(), part.offset, part.end))


def _runs(
    group: Sequence[LogSurvey], logs: Sequence[Entries], kept: Sequence[bytearray]
) -> Iterator[Run]:
    """The entries that are kept, in the order of time."""
    times = in_time([entries.times_ns for entries in logs])
    keyed = (zip(each, repeat(which), count()) for which, each in enumerate(times))
    order = ((which, index) for _, which, index in merge(*keyed) if kept[which][index])
    contents = [Content(log.source) for log in group]
    at = begin = end = 0
    for which, index in chain(order, [(-1, 0)]):
        if (which, index) == (at, end) and end - begin < _RUN:
            end += 1
            continue
        if end > begin:
            part = logs[at].part(begin, end)
            yield Run(at, b"".join(contents[at].pieces(part.offset, part.end)))
        at, begin, end = which, index, index + 1
