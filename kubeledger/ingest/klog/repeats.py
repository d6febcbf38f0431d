"""Lines of a log that were read before: a shipper sent them twice.

klog stamps a line with microseconds and the process ID, so a line of the same bytes is the
same line. Where a log's stamps are coarser than that, equal lines may be two, and count as
such. What is looked back over is the batch of lines being read and thousands before it; in a log
whose stamps go back, all lines above: parts of it may be in it twice.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left

_BACK = 8192
"""Lines that are looked back over at least, however small the batches are."""

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
            self._before = [*self._before, *self._bodies][-_BACK:]
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
        return index < _NEAR and body in self._before[index - _NEAR :]

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
        found = self._first[body] < index or body in self._older
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
        above = self._bodies[index - 1] if index else (self._before or [b""])[-1]
        return above == self._bodies[index]

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
