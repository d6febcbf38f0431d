"""Log entries in the order of their stamps.

klog stamps a line before it waits for the lock under which lines are written, so lines of
several goroutines stand in a log a little out of order; shippers swap more. Those of one
goroutine have stamps that never go back: ordered by their stamps, and by their place in
the log where these are equal, they are in the order in which they were logged.

A line whose stamp is wrong (``stamps``) stays between the lines that it was written between.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain

from kubeledger.ingest.klog.outputs import ClockStep, LogOutput, Ordered, WrongStamp
from kubeledger.ingest.klog.stamps import RACE_NS, STEP_NS, Doubt
from kubeledger.ingest.sources.facts import Fact
from kubeledger.kubelet.lifecycle.disputes import LINES_DISAGREE, stamp_dispute
from kubeledger.model.bodies.ledger import FindingReported
from kubeledger.model.record import Evidence

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
    body = FindingReported(finding=LINES_DISAGREE, file=evidence.file, message=dispute.message)
    return Fact(doubt.before_ns, body, (evidence,))
