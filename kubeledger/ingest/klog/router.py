"""Which handlers a log line is for: known, known noise, or not understood.

One look-up a line has to decide this for the millions of lines that nobody asked for, so
the tables are keyed by what is cheap to cut out of a raw line: the caller's file and,
for structured lines, the exact message.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from functools import cache, partial
from itertools import chain
from operator import ge, itemgetter
from typing import NamedTuple

import msgspec

from kubeledger.ingest.klog.rows import Row
from kubeledger.ingest.sources.items import Facts, LogLine
from kubeledger.model.patterns import regex

# The lines of a batch that need no look, found without a step of Python for each of their parts.
#
# Nine of ten lines of a log are known by their caller and message. To cut these out, a line
# has to be searched for where the caller and the message end, which costs more than all else
# together. But a line's first bytes (pid, caller, the message's first letters) show where they
# ended in the last line with the same ones, so two slices and two look-ups answer instead:
# what they find is byte for byte what a search has found before.

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


LineHandler = Callable[[LogLine], Facts | None]
Needs = tuple[tuple[str, ...], ...]
"""Keys that lines of a message need: of each, one of the alternatives."""


class Noise(msgspec.Struct, frozen=True):
    """Lines that never show a decision, from the cheapest table to look up to the dearest.

    Attributes:
        files: callers all of whose lines are noise, unless a row is about the file.
        quiet_files: callers whose lines are noise unless a row has their message.
        messages: structured messages that are noise wherever they come from.
        texts: caller -> regular expression of free text that is noise.
        anywhere: pattern of free text that is noise from any file.
        callerless: free text of ``files``, for logs that do not name the caller (old klog JSON).
        plain: lines that klog did not write and that mean nothing.
    """

    files: frozenset[str]
    quiet_files: frozenset[str]
    messages: frozenset[str]
    texts: Mapping[str, str]
    anywhere: re.Pattern[str]
    callerless: re.Pattern[str]
    plain: re.Pattern[str]

    def has_text(self, file: str, message: str) -> bool:
        """Free text is noise; ``file`` "" stands for any."""
        if file in self.quiet_files or self.anywhere.match(message):
            return True
        if file:
            pattern = self.texts.get(file)
            return pattern is not None and _compiled(pattern).match(message) is not None
        if self.callerless.match(message):
            return True
        return any(_compiled(known).match(message) for known in self.texts.values())


class Verdict(Enum):
    """What is known of a line before it is read."""

    NOISE = "noise"
    UNKNOWN = "unknown"
    UNDERSTOOD = "understood"
    """Understood, and nothing of it is recorded."""
    MIXED = "mixed"
    """The caller's file writes noise and other lines: its messages decide."""


class Handled(NamedTuple):
    """A line that is asked for: by whom, how it is read, and what must be there then."""

    handlers: Sequence[LineHandler]
    needs: Needs = ()
    row: Row | None = None
    match: re.Match[str] | None = None


Route = Handled | Verdict
"""Who gets a line; a verdict when nobody does."""

PREFIX_LENGTH = 16
"""Letters of a free-text message that a verdict may be remembered by."""

_LIKELY_MAX = 10_000


_compiled = cache(partial(regex, flags=re.DOTALL))


class _Likely(NamedTuple):
    """Patterns of one file that a message may fit by its first letters.

    Attributes:
        rows: (n,) what a message begins with that fits a pattern, the pattern, and whose it is.
        are_read: lines of severity I among them are; those of errors are read in any case.
    """

    rows: list[tuple[str, re.Pattern[str], Handled]]
    are_read: bool


_HEAD = re.compile(r"(?:\\\W|[^\\.^$*+?{}\[\]|()])*")
_GROUPS = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|\((?:\\.|[^()\\])*\)", re.DOTALL)


class Router:
    """The messages that are understood, and the known noise."""

    def __init__(
        self,
        rows: Iterable[Row],
        noise: Noise,
        listeners: Mapping[str, Sequence[LineHandler]],
        needs: Mapping[str, Needs] = {},
    ) -> None:
        """Whoever listens gets what its messages say, in any words of theirs.

        Args:
            rows: of one file's free text the first that fits has the line; those that are read
                go before those that are ignored.
            noise: what no row is about.
            listeners: message -> handlers, in the order in which they get a line.
            needs: message -> keys without which nothing could be read of its lines.
        """
        self._noise = noise
        self._structured: dict[str, Route] = {
            message: Handled(handled, needs.get(message, ()))
            for message, handled in listeners.items()
        }
        self._free_text: dict[str, list[tuple[str, Handled]]] = {}
        self._likely: dict[tuple[str, str], _Likely] = {}
        for row in sorted(rows, key=lambda row: row.to is None):
            heard = listeners.get(row.to, ()) if row.to is not None else ()
            handled = Handled(heard, needs.get(row.to or "", ()), row)
            if row.pattern is not None:
                for file in row.files:
                    self._free_text.setdefault(file, []).append((row.pattern, handled))
            elif heard:
                changes = row.keys or row.constants
                self._structured[row.words] = handled if changes else handled._replace(row=None)
            else:
                self._structured.setdefault(row.words, Verdict.UNDERSTOOD)

    def has_file(self, file: str) -> bool:
        """The kubelet logs from this file, as far as is known."""
        noise = self._noise
        return (
            file in self._free_text
            or file in noise.files
            or file in noise.quiet_files
            or file in noise.texts
        )

    def file_verdict(self, file: str) -> Verdict:
        """NOISE when all lines of the caller's file are noise, else MIXED."""
        if file in self._noise.files and file not in self._free_text:
            return Verdict.NOISE
        return Verdict.MIXED

    def structured(self, file: str, message: str) -> Route:
        """Handlers of a structured message, or UNDERSTOOD, NOISE, UNKNOWN."""
        route = self._structured.get(message)
        if route is not None:
            return route
        noise = self._noise
        if file in noise.files or file in noise.quiet_files or message in noise.messages:
            return Verdict.NOISE
        if noise.anywhere.match(message) or (file and noise.has_text(file, message)):
            return Verdict.NOISE
        return Verdict.UNKNOWN

    def is_structured(self, message: str) -> bool:
        """The message is a structured one that is known.

        JSON entries without values do not show whether they are structured or free text.
        """
        return message in self._structured or message in self._noise.messages

    def may_remember(self, file: str, message: str) -> bool:
        """A verdict on free text holds for all messages of its call that begin alike.

        One call writes one format, so its messages differ after their first letters only.
        Not where a pattern with handlers could tell messages with these letters apart.
        """
        return not self._likely_rows(file, message).are_read

    def free_text(self, file: str, message: str) -> Route:
        """Handlers with their match, or a verdict; ``file`` "" stands for any."""
        for head, pattern, handled in self._likely_rows(file, message).rows:
            if message.startswith(head) and (match := pattern.match(message)):
                handlers, needs, row, _ = handled
                return Handled(handlers, needs, row, match) if handlers else Verdict.UNDERSTOOD
        if file in self._noise.files or self._noise.has_text(file, message):
            return Verdict.NOISE
        return Verdict.UNKNOWN

    def _likely_rows(self, file: str, message: str) -> _Likely:
        """The rows of a file, without those that a message's first letters rule out."""
        beginning = message[:PREFIX_LENGTH]
        likely = self._likely.get((file, beginning))
        if likely is None:
            if len(self._likely) >= _LIKELY_MAX:
                self._likely.clear()
            of_file = self._free_text.get(file, ()) if file else self._of_any_file()
            rows = [
                (head, _compiled(pattern), handled)
                for pattern, handled in of_file
                if _may_match(head := _literal_head(pattern), beginning)
            ]
            read = (each.row for _, _, each in rows if each.handlers)
            likely = _Likely(rows, any(row is None or not row.is_error for row in read))
            self._likely[file, beginning] = likely
        return likely

    def _of_any_file(self) -> Iterable[tuple[str, Handled]]:
        known = chain.from_iterable(self._free_text.values())
        return sorted(known, key=lambda each: not each[1].handlers)

    def plain(self, line: str) -> bool:
        """A line that klog did not write is known noise."""
        return self._noise.plain.match(line) is not None


def _may_match(head: str, beginning: str) -> bool:
    """Whether a message with these first letters may fit a pattern that begins so."""
    return beginning.startswith(head) or head.startswith(beginning)


@cache
def _literal_head(pattern: str) -> str:
    """What all matches of a pattern begin with, as far as it is easy to see."""
    # An alternative outside of groups may begin with anything.
    outside, inside = pattern, 1
    while inside:
        outside, inside = _GROUPS.subn("", outside)
    if "|" in outside:
        return ""
    head = _HEAD.match(pattern)
    assert head is not None
    letters = re.findall(r"\\?(.)", head[0], re.DOTALL)
    if pattern[head.end() : head.end() + 1] in ("?", "*", "{"):
        letters = letters[:-1]
    return "".join(letters)
