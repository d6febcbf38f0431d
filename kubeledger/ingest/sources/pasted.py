"""Logs that were shown, copied or turned around: colours, quotes, wrapped lines, order.

What carriers put before a line is ``prefix``'s. Here is what terminals, web pages, word processors
and chats do to its letters. Which of it was done to a file, its beginning shows; then it is undone
in each line. Lines keep their numbers: evidence names the line in the file as it stands.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from kubeledger.ingest.sources.node_lines import OTHER_NODE, whole_lines
from kubeledger.ingest.sources.packing import CHUNK
from kubeledger.ingest.sources.prefix import ANY_ENTRY, JSON_START, Unwrapper, is_entry
from kubeledger.ingest.sources.streams import SourceFile, SourceView
from kubeledger.model.patterns import regex

# Logs of which the newest line stands first: ``journalctl -r``, and most log services.
#
# Every line is an entry of its own there, so the lines are turned round, and those of one entry of
# the kubelet with them.

_WINDOW = 1 << 26
"""Bytes that are turned round at once; the file is read once for each."""


class ReversedLines(SourceView):
    """A log with its lines in the reverse order."""

    def __init__(self, source: SourceFile, begins: array[int], size: int) -> None:
        """Nothing is read yet.

        Args:
            source: the log as it stands.
            begins: (n,) byte at which each of its lines begins.
            size: of it, with an end of line after the last one.
        """
        super().__init__(source)
        self._begins = begins
        self._size = size

    def chunks(self) -> Iterator[bytes]:
        """The content, last line first.

        Raises:
            BadInputError: as ``SourceFile.chunks``.
        """
        cuts, begins = [self._size], self._begins
        while cuts[-1] > 0:
            cuts.append(begins[bisect_left(begins, max(cuts[-1] - _WINDOW, 0), 0, len(begins) - 1)])
            if cuts[-1] == cuts[-2]:  # one line is longer
                cuts[-1] = begins[bisect_left(begins, cuts[-2]) - 1]
        for end, begin in pairwise(cuts):
            window = b"".join(between(self._source.chunks(), begin, end))
            lines = window.removesuffix(b"\n").split(b"\n")
            yield b"\n".join(reversed(lines)) + b"\n"

    @property
    def keeps_places(self) -> bool:
        """As ``SourceFile.keeps_places``."""
        return False

    def place(self, line: int, offset: int) -> tuple[int, int]:
        """As ``SourceFile.place``."""
        begins, size = self._begins, self._size
        index = max(bisect_left(begins, size - offset) - 1, 0)
        end = begins[index + 1] if index + 1 < len(begins) else size
        first = line - (len(begins) - 1 - index)
        return self._source.place(first + index, begins[index] + offset - (size - end))


def between(chunks: Iterable[bytes], begin: int, end: int) -> Iterator[bytes]:
    """Bytes of a content from one place to another."""
    position = 0
    for chunk in chunks:
        piece = chunk[max(begin - position, 0) : max(end - position, 0)]
        if piece:
            yield piece
        position += len(chunk)
        if position >= end:
            return


_HEAD = 64 << 10
_PARTS_MAX = 64
"""Lines that one may have been wrapped into."""
_CORE = rb"\d{4} \d\d:\d\d:\d\d\.\d{6} +\d{1,18} [^\s:\]]+\.go:\d{1,9}\] "
_ESCAPES = regex(rb"(?:\x1b|\^\[)\[[\d;?]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\(B")
_ENTITIES = regex(rb"&(?:quot|apos|lt|gt|amp|nbsp|#\d{1,4}|#x[\dA-Fa-f]{1,4});")
_LETTERS = {
    **dict.fromkeys(map(str.encode, "\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb"), b'"'),
    **dict.fromkeys(map(str.encode, "\u2018\u2019"), b"'"),
    "\u00a0".encode(): b" ",
    **dict.fromkeys(map(str.encode, "\u00ad\u200b\u200c\u200d\u2060\ufeff"), b""),
}
"""The last ones are not seen: where a page may break a word."""
_TYPESET = regex(b"|".join(_LETTERS))
_SPACED = _CORE.removeprefix(rb"\d{4}").replace(b" ", rb"(?: |\xc2\xa0)")
_TABS = regex(rb"(?<=:\d\d\.\d{6})[ \t]*\t[ \t]*(?=\d{1,18} [^\s:\]]+\.go:\d{1,9}\] )")
"""An editor's, for the blanks before a short process ID."""
_SLASHED = regex(rb"\\(.)")
_STRING = regex(
    (
        rb"(?m)^(?![^\n]*CORE[^\n]*CORE)([^\n\"']{0,200})[\"']"
        rb"((?:[^\n\"']{0,200}[^\w\n\"'])?[IWEF]CORE[^\n]*)[\"'],?(?=\r?$)"
    ).replace(b"CORE", _CORE)
)
"""A line as an element of a list in JSON, or in Python; a whole log in one is none."""
_QUOTED_LINES = regex(rb"(?m)^> ?[IWEF]" + _CORE + rb"[^\n]*\n(?:>[^\n]*\n){7}")
_QUOTE = regex(rb"(?m)^> ?")
_CODE = regex(rb"(?m)^[^\n`]{0,200}`+([^\n`]*" + _CORE + rb"[^\n`]*)(?:`[^\r\n]*)?(?=\r?$)")
_TABLE_END = regex(rb"(?m) +\|(?=\r?$)")
_BLANK_END = regex(rb"(?m)[ \t]+(?=\r?$)")
_LETTERLESS = regex(rb"(?m)^((?:[^\n]{0,200} )?)(?=" + _CORE + rb")")


_CHANGES_MAX = 8


class _Change(NamedTuple):
    """What was done to a log: a sign of it in the log's beginning, and what undoes it.

    Attributes:
        parts: of which a sign has one; to look for these costs little.
    """

    parts: tuple[bytes, ...]
    sign: re.Pattern[bytes]
    undo: Callable[[bytes], bytes]

    def is_in(self, head: bytes) -> bool:
        """Whether there is a sign of it."""
        return any(part in head for part in self.parts) and self.sign.search(head) is not None


def _meant(entity: re.Match[bytes]) -> bytes:
    from html import unescape  # with a table that few logs need

    return unescape(entity[0].decode()).encode()


_CHANGES = (
    _Change((b"\x1b", b"^["), _ESCAPES, lambda text: _ESCAPES.sub(b"", text)),
    _Change(
        (b"&",),
        regex(_CORE + rb"[^\n]*" + _ENTITIES.pattern),
        lambda text: _ENTITIES.sub(_meant, text),
    ),
    _Change(
        tuple(_LETTERS),
        # The header before the rest of the line, which is not read once for each of its digits.
        regex(rb"\d{4}(?=" + _SPACED + rb")(?=[^\n]*(?:" + _TYPESET.pattern + b"))"),
        lambda text: _TYPESET.sub(lambda each: _LETTERS[each[0]], text),
    ),
    _Change((b"\t",), _TABS, lambda text: _TABS.sub(b" ", text)),
    _Change((b"> ",), _QUOTED_LINES, lambda text: _QUOTE.sub(b"", text)),
    _Change((b'"', b"'"), _STRING, lambda text: _STRING.sub(rb"\1\2", text)),
    _Change((rb"\"",), regex(_CORE + rb'\\"'), lambda text: _SLASHED.sub(rb"\1", text)),
    _Change(
        (b" |",),
        regex(rb"(?m)^[^\n|]{0,200}\|[^\n]*" + _CORE + rb"[^\n]* \|\r?$"),
        lambda text: _TABLE_END.sub(b"", text),
    ),
    _Change((b"`",), _CODE, lambda text: _CODE.sub(rb"\1", text)),
    _Change(
        (b" \n", b" \r\n"),
        regex(rb"(?m)(?:^[^\n]*" + _CORE + rb"[^\n]*[^ \n] +\r?\n){8}"),
        lambda text: _BLANK_END.sub(b"", text),
    ),
    # Which letter it was nothing shows; most lines are for information.
    _Change(
        (b".go:",),
        regex(rb"(?m)^(?:[^\n]{0,200} )?" + _CORE),
        lambda text: _LETTERLESS.sub(rb"\1I", text),
    ),
)
"""In the order in which they are undone. ``\\"`` is what strings in other files hold of quotes."""


def as_written(source: SourceFile) -> SourceFile:
    """The log as it was before it was shown, where its beginning shows that it was.

    Raises:
        BadInputError: it cannot be read.
    """
    head = source.head(_HEAD)
    changes: list[Callable[[bytes], bytes]] = []
    before = -1
    while before < len(changes) < _CHANGES_MAX:  # what was done to it, was done to what was done
        before = len(changes)
        for change in _CHANGES:
            if change.is_in(head):
                changes.append(change.undo)
                head = change.undo(head)
    joiner = _joiner_of(head)
    return PastedLines(source, changes, joiner) if changes or joiner else source


class _Line(NamedTuple):
    """A line without its end; its number in the file, and its first byte there, from 0."""

    text: bytes
    number: int
    offset: int


class PastedLines(SourceView):
    """A log with what was done to its lines undone."""

    def __init__(
        self,
        source: SourceFile,
        changes: Sequence[Callable[[bytes], bytes]],
        joiner: _Joiner | None,
    ) -> None:
        """Nothing is read yet.

        Args:
            source: the log as it stands.
            changes: what undoes them, in this order.
            joiner: of lines that were wrapped.
        """
        super().__init__(source)
        self._changes = changes
        self._joiner = joiner
        self._numbers, self._offsets = array("Q"), array("Q")

    def chunks(self) -> Iterator[bytes]:
        """The content as it was.

        Raises:
            BadInputError: as ``SourceFile.chunks``.
        """
        numbers, offsets = array("Q"), array("Q")
        parts: list[bytes] = []
        size = 0
        lines = self._lines()
        for line in self._joiner.joined(lines) if self._joiner else lines:
            if numbers:
                parts.append(b"\n")
            numbers.append(line.number)
            offsets.append(line.offset)
            parts.append(line.text)
            size += len(line.text)
            if size >= CHUNK:
                yield b"".join(parts)
                parts, size = [], 0
        self._numbers, self._offsets = numbers, offsets
        yield b"".join(parts)

    def _lines(self) -> Iterator[_Line]:
        """The last one is empty where the log ends with the end of a line."""
        number = offset = 0
        text = b""
        for piece in whole_lines(super().chunks()):
            changed = piece
            for undo in self._changes:
                changed = undo(changed)
            *raw, _ = piece.split(b"\n")
            *whole, text = changed.split(b"\n")
            for line, shown in zip(whole, raw, strict=True):
                yield _Line(line, number, offset)
                number += 1
                offset += len(shown) + 1
        yield _Line(text, number, offset)

    def stored_chunks(self) -> Iterator[bytes]:
        """The content as it stands."""
        return self._source.stored_chunks()

    @property
    def keeps_places(self) -> bool:
        """As ``SourceFile.keeps_places``."""
        return False

    def place(self, line: int, offset: int) -> tuple[int, int]:
        """As ``SourceFile.place``."""
        return self._source.place(self._numbers[line], self._offsets[line])


_MORE = regex(rb'\s*[A-Za-z][\w.]*=["\w\[{&]')
"""What a part of a structured line begins with that was cut off between two words."""
_HEAD_CUT = regex(rb'[IWEF]\d{0,4}(?: [^"]*)?\Z')
_WORD_CUT = regex(rb'[ \[](?:(?!err=|message=)\w+="[^" ]*|[A-Za-z]\w*|\w+=)\Z')
"""A structured line that ends in a name, or in a value that has no blanks."""
_BLANKS = b" \t\r" + OTHER_NODE
"""What a line holds to which no entry goes on."""
_SURE = 3
"""So many lines that went on below are no chance."""


class _Joiner:
    """Joins the lines that a line was wrapped into.

    In a log that was wrapped at a width, a line goes on below when the first word of that had no
    room in it. In any, a structured line does of which a quoted text does not end, or below which
    more of its values stand.
    """

    def __init__(self, width: int | None = None, *, is_cut: bool = False) -> None:
        """Nothing was read.

        Args:
            width: at which all lines were wrapped.
            is_cut: anywhere, not between two words.
        """
        self._unwrapper = Unwrapper()
        self._width = width
        self._is_cut = is_cut
        self.pairs: list[tuple[bytes, bytes]] = []
        self.has_joined = False

    def joined(self, lines: Iterable[_Line]) -> Iterator[_Line]:
        """The lines as they were; ``pairs`` are those of entries and what stood right below."""
        held: list[_Line] = []
        for line in lines:
            if self._begins(line.text):
                yield from self._taken(held)
                held = [line]
            elif held and line.text.strip(_BLANKS) and len(held) < _PARTS_MAX:
                if len(held) == 1 and not held[0].text.rstrip().endswith(b"=<"):
                    self.pairs.append((held[0].text, line.text))
                held.append(line)
            else:
                yield from self._taken(held)
                held = []
                yield line
        yield from self._taken(held)

    def _begins(self, text: bytes) -> bool:
        """A line of its own: an entry, or what a carrier stands before."""
        if is_entry(text) or (self._width and _HEAD_CUT.match(text)):
            return True
        unwrapped = self._unwrapper.unwrap(text)
        return is_entry(unwrapped.body) or unwrapped.tag is not None or unwrapped.time is not None

    def _taken(self, held: list[_Line]) -> Iterator[_Line]:
        """An entry and what stands below it, with those lines joined that belong together."""
        if len(held) < 2:
            yield from held
            return
        text, parts = held[0].text.rstrip(b"\r"), 1
        for line in held[1:]:
            above, below = held[parts - 1].text.rstrip(b"\r"), line.text.rstrip(b"\r")
            has_no_room = self._width is not None and _lacks_room(above, below, self._width)
            if not (has_no_room or self._goes_on(text, below)):
                break
            text = self._with(text, below, has_no_room)
            parts += 1
        if parts == 1 or _is_open(self._unwrapper.body(text)):
            yield from held
            return
        self.has_joined = True
        yield held[0]._replace(text=text)
        yield from held[parts:]

    def _goes_on(self, text: bytes, below: bytes) -> bool:
        body = self._unwrapper.body(text)
        if not is_entry(body) or not _is_structured(body) or body.endswith(b"=<"):
            return False
        return _is_open(body) or _MORE.match(below) is not None

    def _with(self, text: bytes, below: bytes, has_no_room: bool) -> bytes:
        """The text with what goes on below, whose indent is no part of it."""
        if has_no_room and self._is_cut:
            return text + below
        cut, rest = _WORD_CUT.search(text), below.lstrip(b" \t")
        if has_no_room or cut is None:
            is_apart = not text.endswith(b" ")
        else:  # a name, or a word of a text
            is_apart = rest != below and not cut[0].endswith(b"=") and b'"' not in cut[0]
        return text + b" " * is_apart + rest


def _lacks_room(above: bytes, below: bytes, width: int) -> bool:
    """The first word of a line would not have fitted into the one above it."""
    word = below.split(b" ", 1)[0]
    return _letters(above) + 1 + _letters(word) > width


def _joiner_of(head: bytes) -> _Joiner | None:
    """What joins the lines of the log that begins so; None where none was wrapped."""
    if ANY_ENTRY.search(head) is None:
        return None
    texts = [text.rstrip(b"\r") for text in head.split(b"\n")[:-1]]
    found = _Joiner()
    for _ in found.joined(_Line(text, number, 0) for number, text in enumerate(texts)):
        pass
    # A word that is longer than that stands alone.
    width = max((_letters(text) for text in texts if b" " in text.strip()), default=0)
    full = sum(_lacks_room(*pair, width) for pair in found.pairs)
    if full >= _SURE and full * 10 >= len(found.pairs) * 9:
        cut = sum(_letters(above) == width for above, _ in found.pairs)
        return _Joiner(width, is_cut=cut * 10 >= full * 9)
    return _Joiner() if found.has_joined else None


def _letters(line: bytes) -> int:
    return len(line) if line.isascii() else len(line.decode("utf-8", "replace"))


def _is_structured(body: bytes) -> bool:
    return body.startswith(JSON_START) or b'] "' in body[:200]


def _is_open(body: bytes) -> bool:
    """A structured entry ends inside a quoted text, or its JSON does."""
    if not _is_structured(body):
        return False
    if body.startswith(JSON_START):
        return not body.rstrip().endswith(b"}")
    quotes = body.count(b'"')
    return (quotes - len(_QUOTED.findall(body))) % 2 == 1


_QUOTED = regex(rb'\\"')
