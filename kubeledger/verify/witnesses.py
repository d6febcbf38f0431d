"""What several sources show of one fact: the comparator that finds contradictions.

A fact (``("cpus", pod, container)``) has one value at a time. One source shows its changes as
they come; others (a state file, a list, a counter) show the value at some time that is only
known to within a reach. What they show is compared when that time is over: it must be a value
that the fact had at some time within the reach. A value that no source shows is open and agrees
with all. Neither side is believed silently: the caller shows both.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from operator import eq
from typing import Generic, NamedTuple, TypeVar

V = TypeVar("V", bound=Hashable)


class Row(NamedTuple, Generic[V]):
    """One source's account of a fact.

    Attributes:
        kind: of fact.
        subject: what it is about.
        value: None where the source ends what was known, and the fact is open from then on.
        seq: the record that shows it.
        ts_ns: its time.
        text: the value in words.
    """

    kind: str
    subject: Hashable
    value: V | None
    seq: int
    ts_ns: int
    text: str


class Dispute(NamedTuple, Generic[V]):
    """Two accounts that cannot both be right, the earlier one first."""

    change: Row[V]
    reading: Row[V]


class Witnesses(Generic[V]):
    """Facts of one area. Memory grows with subjects that hold a value, and with open readings.

    Args:
        reach_ns: a reading is of some time up to so long before or after its own.
        agree: whether two accounts may be of one value.
    """

    def __init__(self, reach_ns: int, agree: Callable[[V, V], bool] = eq) -> None:
        self._reach_ns = reach_ns
        self._agree = agree
        self._rows: dict[tuple[str, Hashable], list[Row[V]]] = {}
        self._open: list[Row[V]] = []
        self._yielded: set[tuple[str, Hashable, V | None, V | None]] = set()

    def note_change(self, row: Row[V]) -> None:
        """From now on the fact has this value."""
        rows = self._rows.setdefault((row.kind, row.subject), [])
        rows.append(row)
        while len(rows) > 1 and rows[1].ts_ns < row.ts_ns - 2 * self._reach_ns:
            del rows[0]

    def knows(self, kind: str, subject: Hashable) -> bool:
        """Whether any account of a fact was noted."""
        return (kind, subject) in self._rows

    def forget(self) -> None:
        """Whatever was known is open from now on, and what was shown until now with it."""
        self._rows.clear()
        self._open.clear()

    def note_reading(self, row: Row[V]) -> None:
        """Another source shows the fact."""
        if (row.kind, row.subject) in self._rows:
            self._open.append(row)

    def passed(self, ts_ns: int | None) -> Iterator[Dispute[V]]:
        """Compare what was shown longer than the reach ago; with None, all. Each pair once."""
        due = [r for r in self._open if ts_ns is None or r.ts_ns + self._reach_ns <= ts_ns]
        self._open = [row for row in self._open if row not in due]
        for reading in due:
            change = self._denied(reading)
            if change is None:
                continue
            pair = (reading.kind, reading.subject, change.value, reading.value)
            if pair not in self._yielded:
                self._yielded.add(pair)
                yield Dispute(change, reading)

    def _denied(self, reading: Row[V]) -> Row[V] | None:
        """The account that a reading denies; None where it may be right."""
        rows = self._rows.get((reading.kind, reading.subject), [])
        from_ns, to_ns = reading.ts_ns - self._reach_ns, reading.ts_ns + self._reach_ns
        if not rows or rows[0].ts_ns > from_ns:
            return None  # before the first account the fact is open
        before = [row for row in rows if row.ts_ns <= from_ns][-1:]
        within = [row for row in rows if from_ns < row.ts_ns <= to_ns]
        for row in (*before, *within):
            if row.value is None or reading.value is None or self._agree(row.value, reading.value):
                return None
        return before[0]
