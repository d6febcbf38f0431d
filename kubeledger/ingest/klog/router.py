"""Which assembler a log line is for: known, known noise, or not understood.

One look-up a line has to decide this for the millions of lines that nobody asked for, so
the tables are keyed by what is cheap to cut out of a raw line: the caller's file and,
for structured lines, the exact message.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import NamedTuple, Protocol

from kubeledger.ingest.klog.harmless import (
    FreeTextHandler,
    StructuredHandler,
    harmless,
    harmless_free,
)
from kubeledger.ingest.klog.noise import (
    NOISE_ANYWHERE,
    NOISE_CALLERLESS,
    NOISE_FILES,
    NOISE_FREE_TEXT,
    NOISE_MESSAGES,
    NOISE_PLAIN,
    NOISE_TEXTS,
)

__all__ = ["PREFIX_LENGTH", "Call", "Route", "Router", "Verdict"]

Call = tuple[StructuredHandler, None] | tuple[FreeTextHandler, re.Match[str]]
"""A handler of a line; with the match of its pattern for free text."""


class Verdict(Enum):
    """What is known of a line before it is read."""

    NOISE = "noise"
    UNKNOWN = "unknown"
    UNDERSTOOD = "understood"
    """Understood, and nothing of it is recorded."""
    MIXED = "mixed"
    """The caller's file writes noise and other lines: its messages decide."""


Route = tuple[Call, ...] | Verdict
"""Who gets a line; a verdict when nobody does."""

PREFIX_LENGTH = 16
"""Letters of a free-text message that a verdict may be remembered by."""

_LIKELY_MAX = 10_000


class _Known(NamedTuple):
    """A pattern of free text; ``heads``: what its matches begin with.

    ``handler`` is None where it would do nothing.
    """

    pattern: re.Pattern[str]
    handler: FreeTextHandler | None
    heads: tuple[str, ...]

    def may_match(self, beginning: str) -> bool:
        """Whether a message with these first letters may fit."""
        return beginning.startswith(self.heads) or any(
            head.startswith(beginning) for head in self.heads
        )


_Table = list[_Known]
"""The patterns of one assembler for one file: the first that matches has the line."""

_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL)
_GROUP = re.compile(r"\((?:\?:|\?P<\w+>|(?!\?))((?:\\.|[^()\\])*)\)")
"""A group at the beginning, without another one in it."""

_NO_OPS = frozenset(
    [harmless(("",))[""], *(handler for _, handler in harmless_free({"": ("",)})[""])]
)


class Listener(Protocol):
    """Who asks for log lines: an assembler."""

    def structured(self) -> Mapping[str, StructuredHandler]:
        """Message -> method for structured lines."""

    def free_text(self) -> Mapping[str, Sequence[tuple[re.Pattern[str], FreeTextHandler]]]:
        """``file.go`` -> patterns and methods for free text."""


class Router:
    """The messages that the assemblers of one bundle understand, and the known noise."""

    def __init__(self, assemblers: Iterable[Listener]) -> None:
        structured: dict[str, tuple[Call, ...]] = {}
        self._free_text: dict[str, list[_Table]] = {}
        self._likely: dict[tuple[str, str], list[_Table]] = {}
        for assembler in assemblers:
            for message, handler in assembler.structured().items():
                structured[message] = (*structured.get(message, ()), (handler, None))
            for file, patterns in assembler.free_text().items():
                table = [
                    _Known(
                        pattern,
                        None if handler in _NO_OPS else handler,
                        _literal_heads(pattern.pattern),
                    )
                    for pattern, handler in patterns
                ]
                self._free_text.setdefault(file, []).append(table)
        self._structured = {message: _effective(calls) for message, calls in structured.items()}

    def file_verdict(self, file: str) -> Verdict:
        """NOISE when all lines of the caller's file are noise, else MIXED."""
        if file in NOISE_FILES and file not in self._free_text:
            return Verdict.NOISE
        return Verdict.MIXED

    def structured(self, file: str, message: str) -> Route:
        """Handlers of a structured message, or UNDERSTOOD, NOISE, UNKNOWN."""
        route = self._structured.get(message)
        if route is not None:
            return route
        if file in NOISE_FILES or file in NOISE_FREE_TEXT or message in NOISE_MESSAGES:
            return Verdict.NOISE
        if NOISE_ANYWHERE.match(message) or (file and self._is_noise_text(file, message)):
            return Verdict.NOISE
        return Verdict.UNKNOWN

    def is_structured(self, message: str) -> bool:
        """The message is a structured one that is known.

        JSON entries without values do not show whether they are structured or free text.
        """
        return message in self._structured or message in NOISE_MESSAGES

    def may_remember(self, file: str, message: str) -> bool:
        """A verdict on free text holds for all messages of its call that begin alike.

        One call writes one format, so its messages differ behind their first letters only.
        Not where an assembler's pattern could tell messages with these letters apart.
        """
        likely = self._likely_tables(file, message[:PREFIX_LENGTH])
        return not any(known.handler for table in likely for known in table)

    def free_text(self, file: str, message: str) -> Route:
        """Handlers with their matches, or a verdict; ``file`` "" stands for any."""
        calls: list[Call] = []
        is_known = False
        for table in self._likely_tables(file, message[:PREFIX_LENGTH]):
            for pattern, handler, _ in table:
                match = pattern.match(message)
                if match:
                    is_known = True
                    if handler is not None:
                        calls.append((handler, match))
                    break
        if is_known:
            return tuple(calls) or Verdict.UNDERSTOOD
        if file in NOISE_FILES or self._is_noise_text(file, message):
            return Verdict.NOISE
        return Verdict.UNKNOWN

    def _likely_tables(self, file: str, beginning: str) -> list[_Table]:
        """The tables of a file, without the patterns that a message's first letters rule out."""
        likely = self._likely.get((file, beginning))
        if likely is None:
            if len(self._likely) >= _LIKELY_MAX:
                self._likely.clear()
            tables = (
                [known for known in table if known.may_match(beginning)]
                for table in self._tables(file)
            )
            likely = self._likely[file, beginning] = [table for table in tables if table]
        return likely

    def _tables(self, file: str) -> Iterable[_Table]:
        if file:
            return self._free_text.get(file, ())
        return (table for tables in self._free_text.values() for table in tables)

    @staticmethod
    def _is_noise_text(file: str, message: str) -> bool:
        if file in NOISE_FREE_TEXT or NOISE_ANYWHERE.match(message):
            return True
        if file:
            pattern = NOISE_TEXTS.get(file)
            return pattern is not None and pattern.match(message) is not None
        # klog JSON of old kubelets does not name the caller's file.
        if NOISE_CALLERLESS.match(message):
            return True
        return any(known.match(message) for known in NOISE_TEXTS.values())

    @staticmethod
    def plain(line: str) -> bool:
        """A line that klog did not write is known noise."""
        return NOISE_PLAIN.match(line) is not None


def _effective(calls: tuple[Call, ...]) -> Route:
    """The handlers that do something; UNDERSTOOD when none does."""
    effective = tuple(call for call in calls if call[0] not in _NO_OPS)
    return effective or Verdict.UNDERSTOOD


@lru_cache(4096)
def _literal_heads(pattern: str) -> tuple[str, ...]:
    """What matches of a pattern begin with, for each alternative, as far as it is easy to see."""
    heads: list[str] = []
    for alternative in _alternatives(pattern):
        group = _GROUP.match(alternative)
        # A group that may be absent tells nothing.
        if group and not alternative[group.end() : group.end() + 1].startswith(("?", "*", "{")):
            heads += _literal_heads(group[1])
        else:
            heads.append(_literal_head(alternative))
    return tuple(heads)


def _alternatives(pattern: str) -> list[str]:
    """The parts between the bars that stand outside of groups and classes."""
    parts, depth, begin = [], 0, 0
    for match in _TOKEN.finditer(pattern):
        token = match[0]
        depth += (token == "(") - (token == ")")
        if token == "|" and depth == 0:
            parts.append(pattern[begin : match.start()])
            begin = match.end()
    return [*parts, pattern[begin:]]


def _literal_head(pattern: str) -> str:
    head: list[str] = []
    for match in _TOKEN.finditer(pattern):
        token = match[0]
        if token[0] == "\\" and not token[1:].isalnum():
            token = token[1:]
        elif token[0] in "\\.^$*+?{}[]|()":
            return "".join(head[:-1] if token in "*?{" else head)
        head.append(token)
    return "".join(head)
