"""The kubelet's own count of a worker's ticks, against the ticks that the ledger holds.

All counts of one reading were taken at the same instant, which is not known exactly: the
reading is dated by its snapshot, in whole seconds, and was served a little later. So the
instant is sought at which most workers' ticks agree with their counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from kubeledger.prober.records import ProbeCountersRead, ProbeResult
from kubeledger.units import NS_PER_S

__all__ = ["SERVED_WITHIN_NS", "Counters", "Mismatch", "Reading", "agreed_instants"]

EARLY_NS = NS_PER_S
SERVED_WITHIN_NS = 5 * NS_PER_S
_NEAR_NS = NS_PER_S // 5
"""A tick is logged a moment before it is counted."""

Counts = tuple[int, int]
"""Successes and failures."""


class Reading(NamedTuple):
    """The counts of one worker in one reading."""

    seq: int
    ts_ns: int
    counts: Counts

    @classmethod
    def of(cls, seq: int, ts_ns: int, body: ProbeCountersRead) -> Reading:
        """From its record."""
        return cls(seq, ts_ns, (body.successful, body.failed))


class Mismatch(NamedTuple):
    """A reading that the ticks do not explain.

    Attributes:
        reading: it; ``since`` the one before, None for the worker's begin.
        from_ts_ns, to_ts_ns: what was counted between these.
        counted, logged: ticks between the two, by the kubelet and by the records.
        over: the result of which more was recorded than counted, when one tick with the
            other result would put both right; None otherwise.
    """

    reading: Reading
    since: Reading | None
    from_ts_ns: int
    to_ts_ns: int
    counted: Counts
    logged: Counts
    over: ProbeResult | None


class Counters:
    """Counts of one worker.

    Attributes:
        total: ticks recorded.
        read_ts_ns: time of the newest reading; None before the first.
        agreed: begin and end of the newest span in which as many ticks were counted as are
            recorded, whatever their results.
    """

    def __init__(self) -> None:
        self.total: Counts = (0, 0)
        self.read_ts_ns: int | None = None
        self.agreed: tuple[int, int] | None = None
        self._recent: deque[tuple[int, ProbeResult]] = deque()
        self._base: tuple[Reading | None, int, Counts, Counts] | None = None
        self._doubted: Counts | None = None
        self._sums: tuple[int, int, int] | None = None
        self._first_ns: int | None = None

    def begin(self, ts_ns: int) -> None:
        """All counts are 0: the worker is new, and all its ticks will be recorded."""
        self._base = (None, ts_ns, (0, 0), (0, 0))
        self._sums = (ts_ns, 0, 0)

    def lose(self) -> None:
        """Ticks are missing: compare from the next reading on."""
        self._base = self._doubted = self._first_ns = self._sums = None

    def tick(self, ts_ns: int, result: ProbeResult) -> None:
        """A tick that counts was recorded."""
        self._first_ns = ts_ns if self._first_ns is None else self._first_ns
        good = result == "success"
        self.total = (self.total[0] + good, self.total[1] + (not good))
        while self._recent and ts_ns - self._recent[0][0] > EARLY_NS + 2 * SERVED_WITHIN_NS:
            self._recent.popleft()
        self._recent.append((ts_ns, result))

    def retell(self, result: ProbeResult) -> None:
        """The newest tick was of that result."""
        if self._recent and self._recent[-1][1] != result:
            self._recent[-1] = (self._recent[-1][0], result)
            step = 1 if result == "success" else -1
            self.total = (self.total[0] + step, self.total[1] - step)

    def repeat(self, result: ProbeResult, ticks: int) -> None:
        """Further ticks of that result, all of them too old to matter one by one."""
        good, bad = self.total
        self.total = (good + ticks, bad) if result == "success" else (good, bad + ticks)

    def instants(self, from_ns: int, to_ns: int) -> Iterator[int]:
        """Times of ticks in that span."""
        return (ts_ns for ts_ns, _ in self._recent if from_ns <= ts_ns <= to_ns)

    def total_at(self, ts_ns: int) -> Counts:
        """Ticks recorded until then."""
        good, bad = self.total
        for at_ns, result in reversed(self._recent):
            if at_ns <= ts_ns:
                break
            if result == "success":
                good -= 1
            else:
                bad -= 1
        return (good, bad)

    def off(self, reading: Reading, at_ns: int, *, successes_logged: bool) -> Counts:
        """How many more were counted than recorded (negative: fewer)."""
        if self._base is None:
            return (0, 0)
        _, _, counts, logged = self._base
        now = self.total_at(at_ns)
        off = tuple(reading.counts[i] - counts[i] - (now[i] - logged[i]) for i in (0, 1))
        return (off[0] if successes_logged else 0, off[1])

    def agree(self, reading: Reading, instants: list[int]) -> None:
        """Find ``agreed``; there is none where a tick lies between the instants."""
        self.agreed = None
        totals = {sum(self.total_at(ns)) for ns in instants}
        if len(totals) != 1:
            return
        counted, logged = sum(reading.counts), totals.pop()
        if self._sums is not None and counted - logged == self._sums[1] - self._sums[2]:
            self.agreed = (self._sums[0], max(instants))
        self._sums = (min(instants), counted, logged)

    def settle(
        self, reading: Reading, instants: list[int], *, successes_logged: bool
    ) -> Mismatch | None:
        """Compare at the instants that were found, and go on from this reading."""
        self.read_ts_ns = reading.ts_ns
        near = [ns for at in instants for ns in (at, at - _NEAR_NS, at + _NEAR_NS)]
        base = self._base
        if base is None:
            # Only a reading that counts the same whenever it was served can be built upon.
            totals = {self.total_at(ns) for ns in near}
            first_ns = reading.ts_ns if self._first_ns is None else self._first_ns
            if len(totals) == 1 and first_ns <= reading.ts_ns - EARLY_NS:
                self._base = (reading, instants[0], reading.counts, totals.pop())
            return None
        offs: dict[int, Counts] = {}
        fits = None
        for ns in near:
            offs[ns] = self.off(reading, ns, successes_logged=successes_logged)
            if offs[ns] == (0, 0):
                fits = ns
                break
        else:
            # The readings agree with each other when it is the same tick again.
            fits = next((ns for ns, off in offs.items() if off == self._doubted), None)
        if fits is not None:
            self._base = (reading, fits, reading.counts, self.total_at(fits))
            self._doubted = None
            return None
        # The next reading tells which of the two is the odd one.
        at_ns = next((ns for ns, off in offs.items() if sum(off) == 0), instants[0])
        off = self._doubted = offs[at_ns]
        since, from_ns, counts, logged = base
        over: ProbeResult | None = None
        if sum(off) == 0:
            over = "success" if off[0] < 0 else "failure"
        total = self.total_at(at_ns)
        return Mismatch(
            reading=reading,
            since=since,
            from_ts_ns=from_ns,
            to_ts_ns=at_ns,
            counted=(reading.counts[0] - counts[0], reading.counts[1] - counts[1]),
            logged=(total[0] - logged[0], total[1] - logged[1]),
            over=over,
        )


def agreed_instants(
    readings: list[tuple[Counters, Reading]], ts_ns: int, *, successes_logged: bool
) -> list[int]:
    """Instants, in order, at which most counts agree with the ticks."""
    first_ns, last_ns = ts_ns - EARLY_NS, ts_ns + SERVED_WITHIN_NS
    candidates = {first_ns}
    for counters, _ in readings:
        candidates.update(counters.instants(first_ns, last_ns))
    found: list[int] = []
    best = 0
    for at_ns in sorted(candidates):
        agree = sum(
            counters.off(reading, at_ns, successes_logged=successes_logged) == (0, 0)
            for counters, reading in readings
        )
        if not found or agree > best:
            found, best = [at_ns], agree
        elif agree == best:
            found.append(at_ns)
    return found
