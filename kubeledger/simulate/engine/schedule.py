"""The virtual clock: what happens when; and numbers drawn from a seed."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from heapq import heappop, heappush

# Numbers drawn from a seed: the same on every machine, in every version of Python.
#
# SplitMix64 (Steele, Lea, Flood 2014). Each stream is named, so that drawing one more number
# for one purpose changes no other.

_MASK = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15


class Draws:
    """One stream of numbers."""

    __slots__ = ("_state", "name", "seed")

    def __init__(self, seed: int, name: str) -> None:
        self.seed = seed
        self.name = name
        digest = blake2b(f"{seed}:{name}".encode(), digest_size=8).digest()
        self._state = int.from_bytes(digest, "big")

    def stream(self, name: str) -> Draws:
        """Another stream, of its own name below this one's."""
        return Draws(self.seed, f"{self.name}/{name}")

    def bits(self) -> int:
        """64 uniform bits."""
        self._state = (self._state + _GAMMA) & _MASK
        z = self._state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        return z ^ (z >> 31)

    def below(self, bound: int) -> int:
        """A uniform integer from 0 to ``bound`` - 1.

        Raises:
            ValueError: ``bound`` is not positive.
        """
        if bound <= 0:
            raise ValueError(f"nothing is below {bound}")
        # Numbers above the last whole multiple would favour small results.
        limit = (_MASK + 1) // bound * bound
        while (drawn := self.bits()) >= limit:
            pass
        return drawn % bound


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
    """Actions by time; those of one instant in the order in which they were put down."""

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
        """Do something again and again, first after ``first_ns`` (a period, by default)."""
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
