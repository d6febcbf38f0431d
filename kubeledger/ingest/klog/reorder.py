"""Log entries in the order of their stamps, each once, where rotated logs overlap.

klog stamps a line before it waits for the lock under which lines are written, so lines of
several goroutines stand in a log a little out of order; shippers swap more. Those of one
goroutine have stamps that never go back: ordered by their stamps, and by their place in
the log where these are equal, they are in the order in which they were logged.

A line whose stamp is wrong (``stamps``) stays between the lines that it was written between.
"""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from itertools import chain, islice

import msgspec

from kubeledger.ingest.klog.account import (
    ClockStep,
    LogEntry,
    LogOutput,
    NewProcess,
    Ordered,
    WrongStamp,
)
from kubeledger.ingest.klog.lines import LineCutter
from kubeledger.ingest.klog.log_survey import LogSurvey
from kubeledger.ingest.klog.stamps import RACE_NS, STEP_NS, Doubt
from kubeledger.ingest.sources.items import Fact, LogLine
from kubeledger.ingest.sources.prefix import Unwrapper, is_entry
from kubeledger.ingest.sources.streams import SourceFile
from kubeledger.kubelet.lifecycle.disputes import LINES_MIXED, stamp_dispute
from kubeledger.model.bodies.ledger import FindingReported
from kubeledger.model.record import Evidence
from kubeledger.model.units import NS_PER_S

# Rotated logs that overlap: from where a log's lines stand in the next one as well.
#
# A rotation by copying, or two windows cut out of one journal, leave the end of one log at
# the beginning of the next. That follows from the lines themselves, without what carried them:
# all that the first log holds from some line on must be in the next, in the same order. Then
# the next one is read instead. Only logs whose times overlap are compared.

_BEGINNINGS = 64
"""Entries of the next log whose place in the first is sought: its very first may be cut."""


class Overlap(msgspec.Struct, frozen=True):
    """What of a log is in the next one.

    Attributes:
        offset: byte at which it begins.
    """

    offset: int
    lines: int


def overlap_of(log: LogSurvey, following: LogSurvey) -> Overlap | None:
    """The end of a log with which the following one begins; None when there is no such.

    Raises:
        BadInputError: one of them cannot be read.
    """
    if begins_after(following, log):
        return None
    return _common_lines(log.source, following.source)


def up_to(chunks: Iterable[bytes], end: int) -> Iterator[bytes]:
    """The first bytes of a content."""
    for chunk in chunks:
        if end <= 0:
            return
        yield chunk[:end]
        end -= len(chunk)


def begins_after(following: LogSurvey, log: LogSurvey) -> bool:
    """All of a log is later than another one, or it is not known when it was written."""
    if following.first_stamp is not None and log.last_stamp is not None:
        return following.first_stamp > log.last_stamp
    if following.first_ns is not None and log.last_ns is not None:
        return following.first_ns > log.last_ns
    return True


def _common_lines(log: SourceFile, following: SourceFile) -> Overlap | None:
    beginnings = dict.fromkeys(islice(_entries(following), _BEGINNINGS))
    offset = _place_of(log, beginnings)
    if offset is None:
        return None
    rest, begins = _bodies(log, offset), _bodies(following, 0)
    lines = 0
    for body, is_complete in rest:
        lines += 1
        # A half-written last line goes on in the next log.
        if not any(
            body == other or (not is_complete and other.startswith(body)) for other, _ in begins
        ):
            return None
    return Overlap(offset, lines)


def _entries(source: SourceFile) -> Iterator[bytes]:
    return (body for _, body, _ in _lines(source) if is_entry(body))


def _place_of(source: SourceFile, bodies: Iterable[bytes]) -> int | None:
    """Offset of the first line that is one of these."""
    wanted = set(bodies)
    for offset, body, _ in _lines(source):
        if body in wanted:
            return offset
    return None


def _bodies(source: SourceFile, begin: int) -> Iterator[tuple[bytes, bool]]:
    """Lines from an offset on, without carriers' prefixes, and whether each has its end."""
    for offset, body, is_complete in _lines(source):
        if offset >= begin:
            yield body, is_complete


def _lines(source: SourceFile) -> Iterator[tuple[int, bytes, bool]]:
    unwrapper, cutter = Unwrapper(), LineCutter()
    for _, offset, line in cutter.numbered(source.chunks()):
        yield offset, unwrapper.body(line).rstrip(b"\r"), cutter.stats.ends_with_newline


# Lines of a log that were read before: a shipper sent them twice.
#
# klog stamps a line with microseconds and the process ID, so a line of the same bytes is the
# same line. Where a log's stamps are coarser than that, equal lines may be two, and count as
# such. What is looked back over is the batch of lines being read and thousands before it; in a log
# whose stamps go back, all lines above: parts of it may be in it twice.

_BACK = 8192
"""Lines that are looked back over at least, however small the batches are."""

_HELD_BYTES = 1024
"""Of a longer line no more is held than tells it from any other: small batches have lines of any
length."""

_NEAR = 16
"""Lines back to which a line with the latest stamp is compared at once."""


_OLDER = 8
"""Lines above that are older than a line: then its place in the order of time is passed."""


_PACKED = 1 << 16
"""So many hashes are packed at once: eight bytes a line then, and seventy before."""


class _Hashes:
    """Of lines, in little memory; two lines have the same hash once in some billions of logs."""

    def __init__(self) -> None:
        self._last: set[int] = set()
        self._packed: list[array[int]] = []

    def update(self, lines: list[bytes]) -> None:
        """More lines."""
        self._last.update(map(hash, lines))
        if len(self._last) >= _PACKED:
            self._packed.append(array("q", sorted(self._last)))
            self._last = set()

    def __contains__(self, line: bytes) -> bool:
        """Whether it was among them."""
        key = hash(line)
        if key in self._last:
            return True
        places = ((each, bisect_left(each, key)) for each in self._packed)
        return any(place < len(each) and each[place] == key for each, place in places)


def _held(line: bytes) -> bytes:
    """What is held of a long line."""
    return line[:_HELD_BYTES] + hashlib.blake2b(line, digest_size=16).digest()


def _is_among(held: Collection[bytes], line: bytes) -> bool:
    return line in held or (len(line) > _HELD_BYTES and _held(line) in held)


class Repeats:
    """Shows for the lines of one log whether they were read before."""

    def __init__(self, *, all_above: bool = False) -> None:
        """No line was read yet; ``all_above``: none is forgotten, which takes memory for each."""
        self._above = _Hashes() if all_above else None
        self._before: list[bytes] = []
        self._bodies: list[bytes] = []
        self._first: dict[bytes, int] | None = None
        self._older: set[bytes] | None = None
        self._fine = False
        self._blocks = False

    def begin(self, bodies: list[bytes]) -> None:
        """The next batch of lines, without their carriers' prefixes."""
        if self._above is not None:
            self._above.update(self._bodies)
        if len(self._bodies) >= _BACK:
            self._before = self._bodies
        else:
            held = [body if len(body) <= _HELD_BYTES else _held(body) for body in self._bodies]
            self._before = [*self._before, *held][-_BACK:]
        self._bodies = bodies
        self._first = self._older = None

    def near(self, index: int, stamp: bytes) -> bool:
        """One of the lines just above is the same; for a line with the latest stamp."""
        if not self._is_distinct(stamp):
            return False
        if self._blocks:
            return self.far(index, stamp)
        body = self._bodies[index]
        if body in self._bodies[max(0, index - _NEAR) : index]:
            return True
        return index < _NEAR and _is_among(self._before[index - _NEAR :], body)

    def far(self, index: int, stamp: bytes) -> bool:
        """A line further above is the same; for a line that comes late."""
        if not self._is_distinct(stamp):
            return False
        if not self._blocks:
            near = self._back_to(index, stamp)
            if near is not None:
                # Below a block of such lines, older ones show nothing of the order of time.
                self._blocks = near
                return near
        if self._first is None or self._older is None:
            # From the last to the first, so that the first of equal lines stays.
            positions = range(len(self._bodies) - 1, -1, -1)
            self._first = dict(zip(reversed(self._bodies), positions, strict=True))
            self._older = set(self._before)
        body = self._bodies[index]
        found = self._first[body] < index or _is_among(self._older, body)
        if not found and self._above is not None:
            found = body in self._above
        self._blocks |= found
        return found

    def _back_to(self, index: int, stamp: bytes) -> bool | None:
        """The line is among those above down to its own time; None when that is far away.

        Most late lines were written by another goroutine a moment ago: this is cheap.
        """
        begin = 1 if stamp[4:5] == b" " else 6
        end, older, body = begin + len(stamp), 0, self._bodies[index]
        for above in reversed(self._bodies[max(0, index - _NEAR * 8) : index]):
            if above == body:
                return True
            older += above[begin:end] < stamp
            if older == _OLDER:
                return False
        return None

    def is_just_above(self, index: int) -> bool:
        """The line right above is the same."""
        above = [self._bodies[index - 1]] if index else self._before[-1:]
        return _is_among(above, self._bodies[index])

    def _is_distinct(self, stamp: bytes) -> bool:
        """The stamps of this log are fine enough to tell two lines apart."""
        if not self._fine:
            _, point, fraction = stamp.partition(b".")
            # klog JSON counts milliseconds, and has no fraction where there are no microseconds.
            full_second = (
                fraction.endswith(b"000") if stamp[4:5] == b" " else not fraction.strip(b"0")
            )
            self._fine = bool(point) and not full_second
        return self._fine


_LATE_NS = 5 * STEP_NS
"""Lines of an overloaded node stand so far out of order, where their carrier shows that."""
_BEHIND_MAX = 32
"""Far more entries than a clock needs to show what lines before the latest one are."""

Timed = tuple[int, Ordered]


def in_order(outputs: Iterable[LogOutput], first_ns: int) -> Iterator[Timed]:
    """What a reader gives with its time, which never goes back.

    Args:
        outputs: in the order of the log.
        first_ns: no time is before this one.
    """
    order = LogOrder(first_ns)
    for output in outputs:
        yield from order.take(output)
    yield from order.drain()


def all_after(outputs: Iterator[LogOutput], ts_ns: int) -> tuple[Iterator[LogOutput], bool]:
    """What a reader gives, and whether all of it comes after what was read up to a time.

    It does not where a line comes before, or where the clock may have been set back.

    Args:
        outputs: in the order of the log; those are taken that could still come before.
        ts_ns: latest time of what was read.
    """
    first: list[LogOutput] = []
    for output in outputs:
        first.append(output)
        if isinstance(output, ClockStep | WrongStamp) or _time_of(output) < ts_ns:
            return chain(first, outputs), False
        if _time_of(output) > ts_ns + _LATE_NS:
            break
    return chain(first, outputs), True


def _time_of(output: Ordered) -> int:
    return output.ts_ns if isinstance(output, Fact) else output.line.ts_ns


class LogOrder:
    """Orders what a reader gives by its time, which never goes back.

    The newest is always held, so that the line after it may come before it whatever lies
    between the two; a step of the clock is passed by nothing.
    """

    def __init__(self, first_ns: int) -> None:
        """Nothing was read; no time is before ``first_ns``."""
        self._waiting = _Waiting()
        self._turns = LinesInTurn()
        self._key = first_ns

    @property
    def latest_ns(self) -> int:
        """The latest time of what was read."""
        return max(self._key, self._waiting.latest_ns)

    def take(self, output: LogOutput) -> Iterator[Timed]:
        """Take in what is read next; gives out what nothing can come before any more."""
        return self._keyed(self._waiting.take(output))

    def settle(self, now_ns: int) -> Iterator[Timed]:
        """Give out what lies so far back at ``now_ns`` that what is written next is later."""
        return self._keyed(self._waiting.settle(now_ns))

    def drain(self) -> Iterator[Timed]:
        """Give out all: the log has no more."""
        return self._keyed(self._waiting.drain())

    def _keyed(self, outputs: Iterable[Timed]) -> Iterator[Timed]:
        for ts_ns, output in outputs:
            self._key = max(self._key, ts_ns)
            yield self._key, output
            if self._turns.show_mixed(output) and isinstance(output, LogEntry | NewProcess):
                evidence = output.line.evidence
                message = "lines do not stand in the order in which they were logged"
                body = FindingReported(finding=LINES_MIXED, file=evidence.file, message=message)
                yield self._key, Fact(self._key, body, (evidence,))


_MILLISECOND_NS = NS_PER_S // 1000
_ROUND = "eviction manager:"
_BEGUN, _CALM = _ROUND + " synchronize housekeeping", _ROUND + " no resources are starved"
_READ = tuple(f"{_ROUND} {what}" for what in ("observations", "threshold"))
_HEADS = frozenset(("eviction", "syncloop", "probe fa"))
"""Other lines are not looked at, for there are many."""
_TICK, _TICKS = "syncloop (housekeeping)", 9
_TICKS_NS = (_TICKS - 1) * NS_PER_S
"""The sync loop ticks every two seconds: so many within so long are those of two times."""
_SURE = 3
"""Seen so often, it is not two goroutines that did the same at once."""


class LinesInTurn:
    """Shows that lines are not in the order in which they were logged, whatever their stamps say.

    klog's stamps have microseconds. Where they were cut, what sorts by them, or sends lines on by
    several ways, may turn those that are equal: what was logged first is not known then. Nor is it
    where lines of two processes, one of which followed on the other, stand among each other, or
    those before and after the clock was set back.
    """

    def __init__(self) -> None:
        """Nothing was read yet."""
        self._instant = self._turned = 0
        self._over: set[str] = set()
        self._ticks: deque[int] = deque(maxlen=_TICKS)
        self._pid: int | None = None
        self._pids: set[int | None] = set()

    def show_mixed(self, output: Ordered) -> bool:
        """Whether this makes it certain, once, that lines are mixed."""
        if isinstance(output, NewProcess):
            pid, self._pid = self._pid, output.line.pid
            turned = pid != self._pid and self._pid in self._pids
            self._pids.add(self._pid)
            self._ticks.clear()
        else:
            turned = isinstance(output, LogEntry) and self._is_late(output.line)
        self._turned += turned
        return turned and self._turned == _SURE

    def _is_late(self, line: LogLine) -> bool:
        """What a round of the eviction manager reads, below its end; a failure below its change.

        In one second a worker may probe twice, and so may two within a millisecond.
        """
        if line.message[:8].lower() not in _HEADS:
            return False
        if line.ts_ns // _MILLISECOND_NS != self._instant:
            self._instant, self._over = line.ts_ns // _MILLISECOND_NS, set()
        message, of = line.message.lower(), _ROUND
        if message == _TICK:
            self._ticks.append(line.ts_ns)
            return len(self._ticks) == _TICKS and line.ts_ns - self._ticks[0] <= _TICKS_NS
        if not message.startswith(_ROUND):
            if line.ts_ns % _MILLISECOND_NS or line.ts_ns % NS_PER_S == 0:
                return False
            values = line.values or {}
            probe = dict.get(values, "probe") or dict.get(values, "probeType")
            of = f"{dict.get(values, 'pod')} {probe}".lower()
        if message in (_CALM, "syncloop (probe)"):
            self._over.add(of)
        elif message == _BEGUN:
            self._over.discard(of)
        elif message in (_ROUND, "probe failed") or message.startswith(_READ):
            return of in self._over
        return False


class _Waiting:
    """What was read and not given out yet."""

    def __init__(self) -> None:
        self._sorted: deque[Timed] = deque()
        # Only what follows shows whether these are late, or the clock was set back before them,
        # or the newest one is ahead of its time.
        self._earlier: list[Timed] = []

    @property
    def latest_ns(self) -> int:
        """The latest time of what is held; 0 for nothing."""
        return self._sorted[-1][0] if self._sorted else 0

    def take(self, output: LogOutput) -> Iterator[Timed]:
        """Take in what is read next; gives out what nothing can come before any more."""
        held = self._sorted
        if isinstance(output, WrongStamp):
            self._put_right(output.doubt)
            return
        ts_ns = _time_of(output)
        if isinstance(output, ClockStep):
            self._earlier = [(held[-1][0], each) for _, each in self._earlier]
            yield from self.drain()
        elif held and ts_ns < held[-1][0] - RACE_NS and len(self._earlier) < _BEHIND_MAX:
            self._earlier.append((ts_ns, output))
            return
        self._sort_in()
        self._insert(ts_ns, output)
        while held[0][0] <= held[-1][0] - _LATE_NS:
            yield held.popleft()

    def settle(self, now_ns: int) -> Iterator[Timed]:
        """Give out what is older than lines stand out of order."""
        held = self._sorted
        if held and held[-1][0] <= now_ns - STEP_NS:
            yield from self.drain()
        while held and held[0][0] <= now_ns - STEP_NS:
            yield held.popleft()

    def drain(self) -> Iterator[Timed]:
        self._sort_in()
        while self._sorted:
            yield self._sorted.popleft()

    def _sort_in(self) -> None:
        earlier, self._earlier = self._earlier, []
        for ts_ns, output in earlier:
            self._insert(ts_ns, output)

    def _insert(self, ts_ns: int, output: Ordered) -> None:
        later = []
        while self._sorted and self._sorted[-1][0] > ts_ns:
            later.append(self._sorted.pop())
        self._sorted.append((ts_ns, output))
        self._sorted.extend(reversed(later))

    def _put_right(self, doubt: Doubt) -> None:
        """The line with the wrong stamp gets the time of the lines around it."""
        held = self._sorted
        wrong: list[Timed] = []
        while held and held[-1][0] == doubt.logged_ns:
            wrong.insert(0, held.pop())
        if not wrong:
            at = [n for n, (ts_ns, _) in enumerate(self._earlier) if ts_ns == doubt.logged_ns]
            wrong = [self._earlier.pop(n) for n in reversed(at)][::-1]
        evidence = None
        for _, output in wrong:
            if isinstance(output, Fact):
                output.ts_ns = doubt.before_ns
            else:
                output.line.ts_ns = doubt.before_ns
                evidence = output.line.evidence
            self._insert(doubt.before_ns, output)
        if evidence is not None:
            self._insert(doubt.before_ns, _finding(doubt, evidence))
        self._sort_in()


def _finding(doubt: Doubt, evidence: Evidence) -> Fact:
    """What the reader of the ledger must know: the text of the evidence is not what counts."""
    place = f"{evidence.file}:{evidence.line}"
    dispute = stamp_dispute(place, doubt.logged_ns, doubt.before_ns, doubt.after_ns)
    return Fact(doubt.before_ns, dispute.in_file(evidence.file), (evidence,))
