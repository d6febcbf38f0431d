"""Handlers for lines that are understood and say nothing that is recorded."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from kubeledger.ingest.sources.facts import Facts
from kubeledger.ingest.sources.items import LogLine

__all__ = ["FreeTextHandler", "StructuredHandler", "harmless", "harmless_free"]

StructuredHandler = Callable[[LogLine], Facts | None]
FreeTextHandler = Callable[[LogLine, re.Match[str]], Facts | None]


def harmless(messages: Iterable[str]) -> dict[str, StructuredHandler]:
    """Handlers for structured messages."""
    return dict.fromkeys(messages, _nothing)


def harmless_free(
    patterns: Mapping[str, Iterable[str]],
) -> dict[str, list[tuple[re.Pattern[str], FreeTextHandler]]]:
    """Handlers for free text: ``file.go`` -> patterns of the message's beginning."""
    return {
        file: [(re.compile(text), _nothing_free) for text in texts]
        for file, texts in patterns.items()
    }


def _nothing(line: LogLine) -> None:
    """Take the line as understood."""


def _nothing_free(line: LogLine, match: re.Match[str]) -> None:
    """Take the line as understood."""
