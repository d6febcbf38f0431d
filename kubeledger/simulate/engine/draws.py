"""Numbers drawn from a seed: the same on every machine, in every version of Python.

SplitMix64 (Steele, Lea, Flood 2014). Each stream is named, so that drawing one more number
for one purpose changes no other.
"""

from __future__ import annotations

from hashlib import blake2b

_MASK = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15


class Draws:
    """One stream of numbers.

    Attributes:
        seed: the scenario's.
        name: what is drawn.
    """

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
