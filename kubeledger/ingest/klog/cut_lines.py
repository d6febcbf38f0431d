"""Lines that were cut: all of a log at one length, as log shippers do it, or single ones.

A cut line holds the values that are complete before the cut, and nothing of any other: not
even that it has no other. So what asks for one of those has not understood the line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from kubeledger.ingest.sources.prefix import JSON_START
from kubeledger.model.patterns import regex

_FEW = 3
"""So many lines of the greatest length, of which one ends open, are no chance."""

_TORN_SHARE = 500
"""Where one line of so many ends open, others are cut where nothing shows it."""

_ESCAPED = regex(rb"\\.")
_BEGIN = regex(
    rb"[IWEF](?:\d{1,3}|\d{4}(?: [\d:.]*(?: +\d*(?: [\w./-]*(?::\d*)?)?)?)?)\Z" rb'|\{"ts":'
)


class CutLineError(ValueError):
    """A value was asked for that a cut line does not hold."""


class CutValues(dict[str, Any]):
    """The values that a cut line holds; to ask for others raises ``CutLineError``.

    Attributes:
        missing_keys: keys of the values that were cut off; None: all that are not there.
        begun: the key of a text in which the line was cut, and what is left of that.
    """

    missing_keys: frozenset[str] | None = None
    begun: tuple[str, str] | None = None

    def get(self, key: str, default: Any = None) -> Any:  # noqa: ANN401 - any JSON value
        """As of a dict; but where it is not known what is there, nothing is the default."""
        if key not in self and (self.missing_keys is None or key in self.missing_keys):
            raise CutLineError(key)
        return super().get(key, default)

    def __missing__(self, key: str) -> Any:  # noqa: ANN401 - it never returns
        raise CutLineError(key)

    def __bool__(self) -> bool:
        """It is not known to be empty."""
        return True


def begun_values(values: dict[str, Any]) -> CutValues:
    """Of free text that was cut: its last value is begun, the others are whole."""
    found = CutValues(values)
    last = next(reversed(values))
    found.begun = last, str(found.pop(last))
    return found


class LineEnds(msgspec.Struct, frozen=True):
    """How the lines of a log end.

    Attributes:
        cut_at: bytes (or letters) at which all longer lines were cut; None: at none.
        of_body: that is without the carrier's prefix.
        torn: lines are cut at any place: each that ends in a bare value may be.
    """

    cut_at: int | None = None
    of_body: bool = False
    torn: bool = False

    def is_cut(self, raw: bytes, body: bytes) -> bool:
        """The line is as long as the log lets lines be; one space at its end may be gone."""
        line = body if self.of_body else raw
        return self.cut_at is not None and len(line) >= self.cut_at - 1


NOT_CUT = LineEnds()
"""As far as is known."""


def ends_open(body: bytes) -> bool:
    """A line ends inside a quoted text or a JSON entry."""
    if body.startswith(JSON_START):
        return not body.rstrip().endswith(b"}")
    quotes = body.count(b'"')
    if quotes and b"\\" in body:
        quotes = _ESCAPED.sub(b"", body).count(b'"')
    return quotes % 2 == 1


def begins_entry(body: bytes) -> bool:
    """The line is the beginning of an entry that was cut before its message, or in its JSON."""
    return _BEGIN.match(body) is not None


class EndsSurvey:
    """Finds out how the lines of a log end, by some of them."""

    def __init__(self) -> None:
        self._entries = self._open = 0
        # Of lines, and without a carrier's prefix: how many have which length, how many end open.
        self._lengths: tuple[Counter[int], Counter[int]] = Counter(), Counter()
        self._lengths_open: tuple[Counter[int], Counter[int]] = Counter(), Counter()

    def look(self, entries: Sequence[tuple[bytes, bytes]]) -> None:
        """Take in entries, raw and without their carrier's prefix."""
        is_open = [entry for entry in entries if _may_end_open(entry[1]) and ends_open(entry[1])]
        self._entries += len(entries)
        self._open += len(is_open)
        for index in range(2):
            self._lengths[index].update(_widths([entry[index] for entry in entries]))
            self._lengths_open[index].update(_widths([entry[index] for entry in is_open]))

    def found(self) -> LineEnds:
        pairs = zip(self._lengths, self._lengths_open, (False, True), strict=True)
        found: tuple[int, LineEnds] = 0, LineEnds(torn=self._open * _TORN_SHARE > self._entries)
        for lengths, lengths_open, of_body in pairs:
            longest = max(lengths, default=0)
            count = lengths[longest]
            if count >= max(_FEW, found[0] + 1) and lengths_open[longest]:
                found = count, LineEnds(longest, of_body)
        return found[1]


def _may_end_open(body: bytes) -> bool:
    return body.count(b'"') % 2 == 1 or b"\\" in body or body.startswith(JSON_START)


def _widths(lines: Sequence[bytes]) -> list[int]:
    """The letters of lines."""
    if b"".join(lines).isascii():
        return list(map(len, lines))
    return [len(line.decode("utf-8", "replace")) for line in lines]
