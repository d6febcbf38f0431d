"""Rows in JSON: one after the other, in an array, or in a list deep in an answer of an API.

A file is never held whole: what is in memory is one row, or the rows of one group where what the
group says of them (the labels of a stream) stands after them. A row that is not JSON costs itself
only: reading goes on where the next one begins.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from kubeledger.ingest.sources.envelope.rows import BROKEN_MAX, ROW_MAX, RawRow

_BETWEEN = re.compile(r"[\s,\x1e\x00]*")
_BEGIN = re.compile(r'([{\[])\s*"((?:[^"\\]|\\.){1,64})"')
_KEEP = 1 << 20
_CUT = 16
"""An error so near to the end of what was read may be that end."""

_DECODER = json.JSONDecoder()


class Holder(msgspec.Struct, frozen=True):
    """Where in a document its rows stand.

    Attributes:
        path: keys that lead to the list of rows; arrays on the way are gone through.
        shared: key, beside one of the path, of what all rows of a group have in common; empty:
            they have nothing.
        at: so many keys of the path lead to the group.
        made: makes one map of what is shared and a row; None: the row is one.
    """

    path: tuple[str, ...] = ()
    shared: str = ""
    at: int = 0
    made: Callable[[Any, Any], dict[str, Any] | None] | None = None


TOP = Holder()
"""The values of the file, or of an array, are the rows."""


def json_rows(chunks: Iterator[bytes], holder: Holder) -> Iterator[RawRow]:
    """The rows of a file, in its order.

    Args:
        chunks: the file's content; it may end anywhere.
    """
    return _Reader(chunks, holder).rows()


def _opening_of(text: str, begin: int) -> str:
    """A pattern of what a row begins with: its first key, or its first text; empty for neither."""
    match = _BEGIN.match(text, begin)
    if match is None:
        return ""
    return rf'{re.escape(match[1])}\s*"{re.sub(r"[0-9]", "[0-9]", re.escape(match[2]))}"'


class _Broken(Exception):
    """No JSON stands where a value should."""


class _Reader:
    """Bytes are read as Latin-1, so that places in the text are places in the file."""

    def __init__(self, chunks: Iterator[bytes], holder: Holder) -> None:
        self._chunks = chunks
        self._holder = holder
        self._text = ""
        self._base = 0
        self._at = 0
        self._counted = 0
        self._lines = 0
        self._is_open = True
        self._is_by_line = False
        self._opening = ""

    # -- text -----------------------------------------------------------------------------

    def _more(self) -> bool:
        """Read on; False at the end of the file."""
        if not self._is_open:
            return False
        chunk = next(self._chunks, None)
        if chunk is None:
            self._is_open = False
            return False
        self._text += chunk.decode("latin-1")
        return True

    def _drop(self) -> None:
        """Forget what lies behind."""
        if self._at > _KEEP:
            self._line_at(self._at)
            self._text = self._text[self._at :]
            self._base += self._at
            self._counted -= self._at
            self._at = 0

    def _line_at(self, place: int) -> int:
        """The line of a place; asked for in the order of the text."""
        self._lines += self._text.count("\n", self._counted, place)
        self._counted = max(self._counted, place)
        return self._lines

    def _next(self) -> str:
        """The first letter of what comes next, past blanks and commas; empty at the end."""
        while True:
            match = _BETWEEN.match(self._text, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def _value(self) -> Any:  # noqa: ANN401 - any JSON value
        """The value that begins here."""
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except RecursionError:
                raise _Broken from None
            except json.JSONDecodeError as error:
                size = len(self._text) - self._at
                may_go_on = error.pos + _CUT >= len(self._text) or "Untermin" in error.msg
                if not may_go_on or size > ROW_MAX or not self._more():
                    raise _Broken from None
                continue
            if end == len(self._text) and type(value) in (int, float) and self._more():
                continue  # a number may go on
            piece = self._text[self._at : end]
            if not piece.isascii():
                value = json.loads(piece.encode("latin-1").decode("utf-8", "replace"))
            self._at = end
            return value

    # -- structure ------------------------------------------------------------------------

    def rows(self) -> Iterator[RawRow]:
        while letter := self._next():
            self._drop()
            try:
                if letter == "]" or (letter == "[" and not self._holder.path):
                    self._at += 1
                elif self._holder.path and letter in "[{":
                    for row in self._inside(0):
                        yield row if self._holder.shared else self._made(row, None)
                else:
                    yield self._row()
            except _Broken:
                yield self._skip(self._at)

    def _row(self) -> RawRow:
        begin = self._at
        line = self._line_at(begin)
        try:
            value = self._value()
        except _Broken:
            return self._skip(begin)
        self._is_by_line = self._text.find("\n", begin, self._at) < 0
        self._opening = self._opening or _opening_of(self._text, begin)
        kinds = dict if self._holder.made is None else dict | list
        known = value if isinstance(value, kinds) else None
        piece = self._text[begin : self._at]
        text = b"" if known is not None else piece[:BROKEN_MAX].encode("latin-1")
        end = self._base + self._at
        return RawRow(self._base + begin, end, line, known, text, hash(piece))

    def _inside(self, depth: int) -> Iterator[RawRow]:
        """Rows in the value that begins here, which stands so many keys deep."""
        letter = self._next()
        if letter == "[":
            self._at += 1
            while (letter := self._next()) not in ("]", ""):
                self._drop()
                if depth == len(self._holder.path):
                    yield self._row()
                elif letter == "{":
                    yield from self._members(depth)
                else:
                    self._value()
            self._at += 1
        elif letter == "{" and depth < len(self._holder.path):
            yield from self._members(depth)
        else:
            self._value()

    def _members(self, depth: int) -> Iterator[RawRow]:
        """Rows in the members of the object that begins here."""
        holder = self._holder
        is_group = bool(holder.shared) and depth == holder.at
        shared, waiting, broken = None, [], None
        self._at += 1
        try:
            while key := self._key():
                if key == holder.path[depth]:
                    for row in self._inside(depth + 1):
                        if is_group and shared is None:
                            waiting.append(row)
                        else:
                            yield self._made(row, shared) if is_group else row
                elif is_group and key == holder.shared:
                    shared = self._value()
                else:
                    self._value()
        except _Broken as error:
            broken = error
        for row in waiting:
            yield self._made(row, shared)
        if broken is not None:
            raise broken

    def _key(self) -> str:
        """The key that comes next, with its colon; empty at the end of the object or the file."""
        letter = self._next()
        if letter in ("}", ""):
            self._at += len(letter)
            return ""
        key = self._value() if letter == '"' else None
        if not key or self._next() != ":":
            raise _Broken
        self._at += 1
        self._next()
        return str(key)

    def _made(self, row: RawRow, shared: Any) -> RawRow:  # noqa: ANN401 - any JSON value
        made = self._holder.made
        if row.value is None or made is None:
            return row
        value = made(shared, row.value)
        return row._replace(value=value, text=b"" if value is not None else b"(a row of no form)")

    # -- broken rows ----------------------------------------------------------------------

    def _like(self, begin: int, lead: str) -> re.Pattern[str]:
        """Finds the next row: it begins as the first one did, or in a line of its own."""
        known = self._opening or _opening_of(self._text, begin)
        patterns = [known] if known else []
        opening = self._text[begin : begin + 1]
        if self._is_by_line or not known:
            patterns.append("\n")
        elif opening in ("{", "[") and not lead.strip(" \t\r,[\x1e\x00"):
            blanks = re.escape(lead.strip("\x1e,[\r\x00"))
            patterns.append(rf"(?<=\n){blanks}\x1e?{re.escape(opening)}")
        return re.compile("|".join(patterns))

    def _skip(self, begin: int) -> RawRow:
        """Go on where the next row begins, which looks like this one, or at the end."""
        line = self._line_at(begin)
        line_begin = self._text.rfind("\n", 0, begin) + 1
        pattern = self._like(begin, self._text[line_begin:begin])
        text = self._text[begin : begin + BROKEN_MAX].encode("latin-1")
        base, self._at = self._base + begin, begin + 1
        while (found := pattern.search(self._text, self._at)) is None:
            self._at = max(self._at, len(self._text) - 2 * BROKEN_MAX)
            self._drop()
            if not self._more():
                self._at = len(self._text)
                break
        else:
            self._at = found.start()
        end = self._base + self._at
        return RawRow(base, end, line, None, text[: end - base].rstrip())
