"""Which assembler a log line is for: known, known noise, or not understood.

One look-up a line has to decide this for the millions of lines that nobody asked for, so
the tables are keyed by what is cheap to cut out of a raw line: the caller's file and,
for structured lines, the exact message.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from functools import lru_cache

from kubeledger.importers.assembler import Assembler, FreeTextHandler, StructuredHandler
from kubeledger.importers.harmless import harmless, harmless_free
from kubeledger.importers.noise import (
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

_Table = list[tuple[tuple[str, ...], re.Pattern[str], FreeTextHandler]]
"""What matches begin with, the pattern, and its handler, of one assembler for one file."""

_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL)
_GROUP = re.compile(r"\((?:\?:|\?P<\w+>|(?!\?))((?:\\.|[^()\\])*)\)")
"""A group at the beginning, without another one in it."""

_NO_OPS = frozenset(
    [harmless(("",))[""], *(handler for _, handler in harmless_free({"": ("",)})[""])]
)


class Router:
    """The messages that the assemblers of one bundle understand, and the known noise."""

    def __init__(self, assemblers: Iterable[Assembler]) -> None:
        structured: dict[str, tuple[Call, ...]] = {}
        self._free_text: dict[str, list[_Table]] = {}
        self._heads: dict[str, list[str]] = {}
        for assembler in assemblers:
            for message, handler in assembler.structured().items():
                structured[message] = (*structured.get(message, ()), (handler, None))
            for file, patterns in assembler.free_text().items():
                table = [(_literal_heads(each.pattern), each, method) for each, method in patterns]
                self._free_text.setdefault(file, []).append(table)
                self._heads.setdefault(file, []).extend(
                    head for heads, _, method in table if method not in _NO_OPS for head in heads
                )
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
        beginning = message[:PREFIX_LENGTH]
        return not any(
            head.startswith(beginning) or beginning.startswith(head)
            for head in self._heads.get(file, ())
        )

    def free_text(self, file: str, message: str) -> Route:
        """Handlers with their matches, or a verdict; ``file`` "" stands for any."""
        calls: list[Call] = []
        for table in self._tables(file):
            for heads, pattern, handler in table:
                if message.startswith(heads) and (match := pattern.match(message)):
                    calls.append((handler, match))
                    break
        if calls:
            return _effective(tuple(calls))
        if file in NOISE_FILES or self._is_noise_text(file, message):
            return Verdict.NOISE
        return Verdict.UNKNOWN

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
