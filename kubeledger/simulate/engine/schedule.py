"""The virtual clock: what happens when, in an order that does not depend on anything else."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

Action = Callable[[], None]


class Timer:
    """Something that is due; it can be called off."""

    __slots__ = ("action", "at_ns", "off")

    def __init__(self, at_ns: int, action: Action) -> None:
        self.at_ns = at_ns
        self.action = action
        self.off = False

    def cancel(self) -> None:
        """It will not happen."""
        self.off = True


class Schedule:
    """Actions by time; those of one instant in the order in which they were put down.

    Attributes:
        now_ns: nanoseconds since the epoch, UTC.
    """

    def __init__(self, now_ns: int) -> None:
        self.now_ns = now_ns
        self._heap: list[tuple[int, int, Timer]] = []
        self._count = 0

    def at(self, at_ns: int, action: Action) -> Timer:
        """Do something at an instant; at once, after all else that is due, if it has passed."""
        timer = Timer(max(at_ns, self.now_ns), action)
        self._count += 1
        heappush(self._heap, (timer.at_ns, self._count, timer))
        return timer

    def after(self, delay_ns: int, action: Action) -> Timer:
        """Do something in a while."""
        return self.at(self.now_ns + delay_ns, action)

    def every(self, period_ns: int, action: Action, *, first_ns: int | None = None) -> None:
        """Do something again and again, first after ``first_ns`` (a period, by default).

        Raises:
            ValueError: the period is not positive.
        """
        if period_ns <= 0:
            raise ValueError("a period is positive")

        def again() -> None:
            self.after(period_ns, again)
            action()

        self.after(period_ns if first_ns is None else first_ns, again)

    def run_next(self, until_ns: int) -> bool:
        """Do what is due next, if not after ``until_ns``; whether there was something."""
        while self._heap and self._heap[0][0] <= until_ns:
            at_ns, _, timer = heappop(self._heap)
            if timer.off:
                continue
            self.now_ns = at_ns
            timer.action()
            return True
        self.now_ns = max(self.now_ns, until_ns)
        return False
