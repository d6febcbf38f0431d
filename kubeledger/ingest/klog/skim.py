"""The lines of a batch that need no look, found without a step of Python for each of their parts.

Nine of ten lines of a log are known by their caller and message. To cut these out, a line
has to be searched for where the caller and the message end, which costs more than all else
together. But a line's first bytes (pid, caller, the message's first letters) show where they
ended in the last line with the same ones, so two slices and two look-ups answer instead:
what they find is byte for byte what a search has found before.
"""

from __future__ import annotations

import re
from operator import ge, itemgetter

__all__ = ["ERRORS", "LOOK", "NOISE", "READ", "UNDERSTOOD", "Skim"]

LOOK, READ, NOISE, UNDERSTOOD = range(4)
"""What is to be done with a line: look whether it must be read, read it, or count it."""

_BEGIN, _HEAD_END = 21, 53
ERRORS = (b"W", b"E", b"F")
"""What lines of these severities begin with."""
_ERROR = re.compile(b"[%b]" % b"".join(ERRORS))
_KEYS_MAX = 100_000


_first = itemgetter(0)


def _first_letters(bodies: list[bytes]) -> bytes:
    try:
        return bytes(map(_first, bodies))
    except IndexError:  # an empty line
        return bytes(map(_first, [body or b" " for body in bodies]))


class Skim:
    """What the ordinary look-ups have found in this log so far."""

    def __init__(self) -> None:
        self._ends: dict[bytes, int] = {}
        self._codes: dict[bytes, int] = {}
        self._codes_of_heads: dict[bytes, int] = {}

    def learn(self, body: bytes, end: int, code: int) -> None:
        """Note what was found of a line.

        Args:
            body: of the line.
            end: of the bytes that decided it: who has the same ones before it, is the same.
            code: what was found.
        """
        if len(self._codes) >= _KEYS_MAX or len(self._ends) >= _KEYS_MAX:
            self._codes.clear()
            self._ends.clear()
            self._codes_of_heads.clear()
        head = body[_BEGIN:_HEAD_END]
        self._ends[head] = end
        self._codes[body[_BEGIN:end]] = code
        if end <= _HEAD_END:
            self._codes_of_heads[head] = code

    def codes(self, bodies: list[bytes], stamps: list[bytes]) -> bytearray:
        """For each line what is to be done with it, if it is later than all before the first.

        A line not later than the one above it is to be looked at, one of severity W, E or F to be
        read.

        Args:
            bodies: (n,) lines without a carrier's prefix.
            stamps: (n,) their stamps.
        """
        end_of, code_of, code_of_head = self._ends.get, self._codes.get, self._codes_of_heads.get
        codes = bytearray(
            [
                code_of_head(head := body[_BEGIN:_HEAD_END])
                or code_of(body[_BEGIN : end_of(head, 0)], LOOK)
                for body in bodies
            ]
        )
        for error in _ERROR.finditer(_first_letters(bodies)):
            codes[error.start()] = min(codes[error.start()], READ)
        falls = bytes(map(ge, stamps, stamps[1:]))
        fall = falls.find(1)
        while fall >= 0:
            codes[fall + 1] = LOOK
            fall = falls.find(1, fall + 1)
        return codes
