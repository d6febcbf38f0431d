"""The kubelet's own count of a worker's ticks, against the ticks that the ledger holds.

A reading is dated by its snapshot, in whole seconds, and was served a little later. So what
was logged until then is a range, and two readings and the ticks between them agree when
some pair of instants in these ranges makes the sums equal.
"""

from __future__ import annotations

from typing import NamedTuple

from kubeledger.prober.records import ProbeCountersRead, ProbeResult
from kubeledger.units import NS_PER_S

__all__ = ["Counters", "Mismatch"]

_EARLY_NS = NS_PER_S
_SERVED_WITHIN_NS = 5 * NS_PER_S


class Mismatch(NamedTuple):
    """A reading that the ticks do not explain.

    Attributes:
        seq: of the reading; ``since_seq`` of the one before, None for the worker's begin.
        from_ts_ns: time of that one; ``to_ts_ns``: until when ticks can count.
        successes, failures: what was counted between them; ``logged_*``: ticks recorded.
        over: the result of which more was recorded than counted, when one tick with the
            other result would put both right; None otherwise.
    """

    seq: int
    since_seq: int | None
    from_ts_ns: int
    to_ts_ns: int
    successes: int
    failures: int
    logged_successes: int
    logged_failures: int
    over: ProbeResult | None


class _Reading:
    """One reading: the counts, and the least and most ticks that were logged by then."""

    __slots__ = ("failed", "high", "low", "seq", "successful", "ts_ns")

    def __init__(
        self, seq: int | None, ts_ns: int, successful: int, failed: int, low: tuple[int, int]
    ) -> None:
        self.seq = seq
        self.ts_ns = ts_ns
        self.successful = successful
        self.failed = failed
        self.low = low
        self.high = low


class Counters:
    """Counts of one worker.

    Attributes:
        successes, failures: ticks recorded.
        read_ts_ns: time of the newest reading; None before the first.
    """

    def __init__(self) -> None:
        self.successes = 0
        self.failures = 0
        self.read_ts_ns: int | None = None
        self._early: list[tuple[int, ProbeResult]] = []
        self._base: _Reading | None = None
        self._open: _Reading | None = None
        self._doubted: tuple[int, int] | None = None

    def begin(self, ts_ns: int) -> None:
        """All counts are 0: the worker is new, and all its ticks will be recorded."""
        self._base = _Reading(None, ts_ns, 0, 0, (0, 0))

    def lose(self) -> None:
        """Ticks are missing: compare from the next reading on."""
        self._base = self._open = None

    def tick(self, ts_ns: int, result: ProbeResult) -> None:
        """A tick that counts was recorded."""
        if result == "success":
            self.successes += 1
        else:
            self.failures += 1
        self._early = [entry for entry in self._early if ts_ns - entry[0] <= _EARLY_NS]
        self._early.append((ts_ns, result))
        if self._open is not None and ts_ns <= self._open.ts_ns + _SERVED_WITHIN_NS:
            self._open.high = (self.successes, self.failures)

    def read(self, seq: int, ts_ns: int, body: ProbeCountersRead) -> None:
        """The kubelet told its counts."""
        self.read_ts_ns = ts_ns
        early = [result for at_ns, result in self._early if ts_ns - at_ns <= _EARLY_NS]
        successes = early.count("success")
        low = (self.successes - successes, self.failures - len(early) + successes)
        reading = _Reading(seq, ts_ns, body.successful, body.failed, low)
        reading.high = (self.successes, self.failures)
        self._open = reading

    def check(self, now_ns: int, *, successes_logged: bool) -> Mismatch | None:
        """Judge the last reading once no more tick can belong to it."""
        reading = self._open
        if reading is None or now_ns <= reading.ts_ns + _SERVED_WITHIN_NS:
            return None
        self._open = None
        base, self._base = self._base, reading
        if base is None:
            return None
        off = (
            _off(reading.successful - base.successful, base, reading, 0),
            _off(reading.failed - base.failed, base, reading, 1),
        )
        if not successes_logged:
            off = (0, off[1])
        if off == (0, 0):
            self._doubted = None
            return None
        if off == self._doubted:  # the same tick again: the readings agree with each other
            self._doubted = None
            return None
        self._doubted = off
        self._base = base  # until the next reading tells which of the two is the odd one
        assert reading.seq is not None
        over: ProbeResult | None = None
        if sum(off) == 0:
            over = "success" if off[0] < 0 else "failure"
        return Mismatch(
            seq=reading.seq,
            since_seq=base.seq,
            from_ts_ns=base.ts_ns,
            to_ts_ns=reading.ts_ns + _SERVED_WITHIN_NS,
            successes=reading.successful - base.successful,
            failures=reading.failed - base.failed,
            logged_successes=reading.low[0] - base.low[0],
            logged_failures=reading.low[1] - base.low[1],
            over=over,
        )


def _off(counted: int, base: _Reading, reading: _Reading, index: int) -> int:
    """How many more were counted than can have been recorded (negative: fewer); 0 when fine."""
    least = reading.low[index] - base.high[index]
    most = reading.high[index] - base.low[index]
    return counted - most if counted > most else counted - least if counted < least else 0
