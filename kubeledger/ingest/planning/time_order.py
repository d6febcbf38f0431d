"""Logs whose parts stand in another order than that of time: ``cat kubelet.log*``, swapped halves.

A clock that was set back looks alike at first: stamps go back. But then the times before and after
it overlap, or nothing joins them; parts that were moved fit together without an overlap, each where
another one has its gap. A clock that was set back weaves: line by line what was logged after it
would come between what was logged before. Where a carrier dated the lines, its stamps count: they
do not go back over lines that goroutines logged late. A log whose parts were moved is read in the
order of time; where each line is in the file is kept. One in which the newest line stands first is
turned round. One that goes back only from a line of one severity to one of another holds streams
that were out of step, or were sorted apart.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain, islice, pairwise
from typing import NamedTuple

from kubeledger.ingest.klog.lines import LineCutter
from kubeledger.ingest.klog.log_survey import survey_log
from kubeledger.ingest.klog.stamps import exact_json_ns, stamp_ns
from kubeledger.ingest.planning.bundle import Bundle, FoundFile
from kubeledger.ingest.sources.items import Finding
from kubeledger.ingest.sources.pasted import ReversedLines
from kubeledger.ingest.sources.prefix import HEADER, JSON_START, Unwrapper
from kubeledger.ingest.sources.streams import SourceFile, SourceView
from kubeledger.ingest.sources.times import carrier_time
from kubeledger.model.units import NS_PER_S

_LATE_NS = NS_PER_S
"""Lines of goroutines stand this much out of order at most."""
_RACE_NS = NS_PER_S // 33
"""Lines of goroutines that race stand this much out of order on a node that is not overloaded."""
_SURE = 4
"""So many lines on either side of a step must agree on it."""
_COARSE_NS = NS_PER_S // 1000
_PARTS_MAX = 64
"""The file is read once for each part."""
_TRIED_MAX = 16
"""In a log that goes back more often a step of the clock is not looked for."""
_LATE_LINES = 2
"""One line that does not stand in the order of time may have a wrong stamp."""
_WOVEN = 3
"""So many parts from each block, and the times before and after a step of the clock are woven."""
_SILENCES = 3
"""Parts that were one log are no farther apart than its lines ever are, times this."""
_YEAR = 2000
"""Any leap year: stamps have no year."""


class Part(NamedTuple):
    """Consecutive lines of the file: its bytes, its first line (from 0), and how many."""

    offset: int
    end: int
    line: int
    lines: int


class Entries:
    """The klog entries of a log; what is above the first one is a part of it.

    Attributes:
        times_ns: (n,) of each.
        letters: (n,) first letters; 0 where severities do not count.
    """

    def __init__(self) -> None:
        self.times_ns = array("q")
        self.letters = bytearray()
        self._offsets, self._lines = array("Q"), array("Q")

    def add(self, ts_ns: int, letter: int, offset: int, line: int) -> None:
        """The next one, and byte and line (from 0) at which it begins."""
        is_first = not self.times_ns
        self.times_ns.append(ts_ns)
        self.letters.append(letter)
        self._offsets.append(0 if is_first else offset)
        self._lines.append(0 if is_first else line)

    def end(self, size: int, lines: int) -> None:
        """Bytes and lines of the log."""
        self._offsets.append(size)
        self._lines.append(lines)

    def part(self, begin: int, end: int) -> Part:
        """Entries from one up to another."""
        offsets, lines = self._offsets, self._lines
        return Part(offsets[begin], offsets[end], lines[begin], lines[end] - lines[begin])


class Content:
    """The bytes of a log, taken from its begin to its end; those up to ``position`` are gone."""

    def __init__(self, source: SourceFile) -> None:
        self._chunks = source.chunks()
        self._held, self._begin = b"", 0
        self.position = 0

    def pieces(self, begin: int, end: int) -> Iterator[bytes]:
        """From one place to another."""
        self.position = begin
        while self.position < end:
            while self._begin + len(self._held) <= self.position:
                self._begin += len(self._held)
                self._held = next(self._chunks, b"")
                if not self._held:
                    return
            piece = self._held[self.position - self._begin : end - self._begin]
            self.position += len(piece)
            yield piece


class OrderedLines(SourceView):
    """A log with its parts in the order of time."""

    def __init__(self, source: SourceFile, parts: Sequence[Part], open_end: int | None) -> None:
        """Nothing is read yet.

        Args:
            open_end: its size, if its last line has no end: it gets one before another part.
        """
        super().__init__(source)
        self._parts = parts
        self._open_end = open_end
        self._offsets, self._lines = [0], [0]
        for part in parts:
            is_open = part.end == open_end
            self._offsets.append(self._offsets[-1] + part.end - part.offset + is_open)
            self._lines.append(self._lines[-1] + part.lines)

    def chunks(self) -> Iterator[bytes]:
        """The content, part after part.

        Raises:
            BadInputError: as ``SourceFile.chunks``.
        """
        streams: list[Content] = []
        for part in self._parts:
            # Each stream of parts that follow on each other is read through once.
            open_ = [stream for stream in streams if stream.position <= part.offset]
            if not open_:
                streams.append(Content(self._source))
            stream = max(open_, key=lambda each: each.position, default=streams[-1])
            yield from stream.pieces(part.offset, part.end)
            if part.end == self._open_end and part is not self._parts[-1]:
                yield b"\n"

    @property
    def keeps_places(self) -> bool:
        """As ``SourceFile.keeps_places``."""
        return False

    def place(self, line: int, offset: int) -> tuple[int, int]:
        """As ``SourceFile.place``."""
        at = min(bisect_right(self._offsets, offset), len(self._parts)) - 1
        part = self._parts[at]
        line, offset = line - self._lines[at] + part.line, offset - self._offsets[at] + part.offset
        return self._source.place(line, offset)


def put_in_order(bundle: Bundle) -> None:
    """Have logs of a bundle read in the order of time, where that is what they lack.

    Raises:
        BadInputError: a log cannot be read.
    """
    for index, file in enumerate(bundle.files):
        survey = file.survey
        if (
            survey is None
            or not survey.goes_back
            or isinstance(file.source, OrderedLines | ReversedLines)
        ):
            continue
        source = _ordered(file.source)
        if source is None:
            continue
        bundle.files[index] = _surveyed(file, source)
        message = "its lines do not stand in the order of time: its parts are read in that order"
        bundle.findings.append(Finding("not_in_order", source.name, message))


def in_time(logs: Sequence[Sequence[int]]) -> list[array[int]]:
    """Times of the entries of logs of one node: they can be compared, and no line is late."""
    turned = iter(_without_wrap(array("q", chain.from_iterable(logs))))
    return [_even(array("q", islice(turned, len(log)))) for log in logs]


def _surveyed(file: FoundFile, source: OrderedLines | ReversedLines) -> FoundFile:
    survey = survey_log(source, [], file.digests)
    return FoundFile(source, file.format, file.digests, survey)


def _ordered(source: SourceFile) -> OrderedLines | ReversedLines | None:
    """A log in the order of time; None where it is in order, or its parts do not fit together."""
    cutter, begins = LineCutter(), array("Q")
    found = _entries(cutter, source, begins)
    upwards = _even(_without_wrap(found.times_ns[::-1])) if _falls(found.times_ns) else array("q")
    if len(upwards) > _SURE and len(_blocks(upwards)) == 1 and upwards[0] < upwards[-1]:
        return ReversedLines(
            source, begins, cutter.stats.size + (not cutter.stats.ends_with_newline)
        )
    spans = _streams(found) or _moved(_even(_without_wrap(found.times_ns)))
    if not spans:
        return None
    parts = [found.part(span.start, span.stop) for span in spans]
    return OrderedLines(
        source, parts, None if cutter.stats.ends_with_newline else cutter.stats.size
    )


def _moved(times: Sequence[int]) -> list[range]:
    """Parts of a log in the order of time; none where it is in order, or they do not fit.

    The clock may have been set back once besides: they fit then by the clock of after that.
    """
    blocks = _blocks(times)
    if spans := _fitted(times, blocks):
        return spans
    steps = pairwise(blocks) if 2 < len(blocks) <= _TRIED_MAX else ()
    clocks = (_on_one_clock(times, *step) for step in steps)
    return next(filter(None, (_fitted(each, _blocks(each)) for each in clocks)), [])


def _on_one_clock(times: Sequence[int], before: range, after: range) -> array[int]:
    """Times as if the clock had not been set back between two blocks, but gone so all the time."""
    since_ns = times[after.start]
    back_ns = times[before.stop - 1] - since_ns
    moved = array("q", times)
    for index, ts_ns in enumerate(times):
        if index in before or (ts_ns < since_ns and index not in after):
            moved[index] -= back_ns
    return moved


def _fitted(times: Sequence[int], blocks: Sequence[range]) -> list[range]:
    if not 1 < len(blocks) <= _PARTS_MAX:
        return []
    spans = sorted(_cut(times, blocks), key=lambda span: times[span.start])
    most = min(_PARTS_MAX, _WOVEN * len(blocks))
    return spans if len(spans) <= most and _fit(times, spans) else []


def _streams(found: Entries) -> list[range]:
    """The same for a log that only goes back from one severity to another.

    Not for a single line that is late or ahead: its stamp may be wrong, or the clock was set back.
    """
    all_times, latest_ns, late = found.times_ns, 0, 0
    for index, ts_ns in enumerate(all_times):
        late += ts_ns < latest_ns - _LATE_NS
        latest_ns = ts_ns if ts_ns > latest_ns and not _is_ahead(all_times, index) else latest_ns
    streams = {letter: array("Q") for letter in found.letters}
    if late < _LATE_LINES or len(streams) < 2:
        return []
    for index, letter in enumerate(found.letters):
        streams[letter].append(index)
    times = all_times[:]
    for stream in streams.values():
        even = _even(_without_wrap(array("q", (all_times[index] for index in stream))))
        if len(_blocks(even)) > 1:
            return []
        for index, ts_ns in zip(stream, even, strict=True):
            times[index] = ts_ns
    order = sorted(range(len(times)), key=times.__getitem__)
    steps = [at for at in range(1, len(order)) if order[at] != order[at - 1] + 1]
    bounds = pairwise([0, *steps, len(order)])
    return [range(order[begin], order[end - 1] + 1) for begin, end in bounds]


def _falls(times: Sequence[int]) -> bool:
    """Whether time goes back from most lines to the next."""
    return sum((below > above) - (below < above) for above, below in pairwise(times)) < 0


def _entries(cutter: LineCutter, source: SourceFile, begins: array[int]) -> Entries:
    """All entries as they stand; ``begins`` is given the byte at which each line begins.

    Of entries of the same bytes, to the microsecond, only the first counts: parts stand twice.
    Where a carrier dated all of them, its times are theirs.
    """
    seen: set[int] = set()
    unwrap, begins_entry = Unwrapper().unwrap, HEADER.match
    entries, carried_ns = Entries(), array("q")
    for number, offset, line in cutter.numbered(source.chunks()):
        begins.append(offset)
        body, time, header = line, None, begins_entry(line)
        if header is None and not line.startswith(JSON_START):
            unwrapped = unwrap(line)
            body, time = unwrapped.body, unwrapped.time
            header = begins_entry(body)
        ts_ns = _time_of(body, header)
        if ts_ns is None:
            continue
        same = hash(body)
        if same not in seen or ts_ns % _COARSE_NS == 0:
            seen.add(same)
            entries.add(ts_ns, body[0], offset, number)
            if time is not None and (dated := carrier_time(time)) is not None:
                carried_ns.append(dated.ts_ns)
    entries.end(cutter.stats.size, len(begins))
    if len(carried_ns) == len(entries.times_ns):
        entries.times_ns, entries.letters = carried_ns, bytearray(len(carried_ns))
    return entries


def time_of(body: bytes) -> int | None:
    """Time of a klog entry, in one year if its stamp has none; None for other lines."""
    return _time_of(body, HEADER.match(body))


def _time_of(body: bytes, header: re.Match[bytes] | None) -> int | None:
    try:
        if header is not None:
            return stamp_ns(header[2], _YEAR)
        if body.startswith(JSON_START):
            return exact_json_ns(body[6 : body.find(b",", 6)])
    except ValueError:
        pass
    return None


def _without_wrap(times: array[int]) -> array[int]:
    """Stamps of January that follow on some of December are of the next year."""
    begin, middle, autumn, end = (
        int(datetime(_YEAR + month // 12, month % 12 + 1, 1, tzinfo=UTC).timestamp()) * NS_PER_S
        for month in (0, 3, 9, 12)
    )
    if not (any(autumn <= t < end for t in times) and any(begin <= t < middle for t in times)):
        return times
    return array("q", (t + end - begin if t < middle else t for t in times))


def _even(times: Sequence[int]) -> array[int]:
    """Lines that are late, or whose stamp alone is wrong, get the time of the line above."""
    even = array("q")
    latest_ns = times[0] if times else 0
    for index, ts_ns in enumerate(times):
        if ts_ns < latest_ns - _LATE_NS:
            latest_ns = ts_ns if _agree(times, index) else latest_ns
        elif ts_ns > latest_ns and not (_is_ahead(times, index) and not _agree(times, index + 1)):
            latest_ns = ts_ns
        even.append(latest_ns)
    return even


def _is_ahead(times: Sequence[int], index: int) -> bool:
    """Whether the next lines are all of a time before an entry's."""
    before_ns = times[index] - _LATE_NS
    following = times[index + 1 : index + 1 + _SURE]
    return bool(following) and following[0] < before_ns and max(following) < before_ns


def _agree(times: Sequence[int], index: int) -> bool:
    """Whether several lines on either side of an entry's begin show that time goes back there."""
    above = times[max(0, index - _SURE) : index]
    below = times[index : index + _SURE]
    return min(len(above), len(below)) == _SURE and max(below) < min(above) - _LATE_NS


def _blocks(times: Sequence[int]) -> list[range]:
    """Indices of entries between which time goes back."""
    steps = [index for index, (above, below) in enumerate(pairwise(times), 1) if below < above]
    return [range(*ends) for ends in pairwise([0, *steps, len(times)])]


def _cut(times: Sequence[int], blocks: Sequence[range]) -> list[range]:
    """The blocks, cut where another one may belong, and so on; too many where that does not end."""
    spans, before = list(blocks), 0
    while before < len(spans) <= _PARTS_MAX:
        before = len(spans)
        firsts = [times[span.start] for span in spans]
        spans = [piece for span in spans for piece in _cut_at(times, span, firsts)]
    return spans


def _cut_at(times: Sequence[int], span: range, firsts: Sequence[int]) -> Iterable[range]:
    at = {
        bisect_right(times, first_ns + _RACE_NS, span.start, span.stop)
        for first_ns in firsts
        if first_ns > times[span.start]
    }
    return (range(*ends) for ends in pairwise(sorted(at | {span.start, span.stop})))


def _fit(times: Sequence[int], spans: Sequence[range]) -> bool:
    """Whether parts in the order of time overlap nowhere and leave no hole that was not there."""
    silences = (times[index + 1] - times[index] for span in spans for index in span[:-1])
    silence_ns = max(silences, default=0)
    for span, following in pairwise(spans):
        gap_ns = times[following.start] - times[span.stop - 1]
        moved = span.stop != following.start
        if gap_ns < -_RACE_NS or (moved and gap_ns > max(_LATE_NS, _SILENCES * silence_ns)):
            return False
    return True
