"""Tables for people that fit the screen: what has no room is cut, and shows an ellipsis."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import chain, islice
from typing import Any

__all__ = ["cut", "table_lines"]

Row = Sequence[Any]

_SAMPLE_ROWS = 1000
_GAP = "  "
_TEXT_WIDTH_MIN = 8
_HEAD_WIDTH_MAX = 16
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.\d+Z")
_TIME_WIDTH = len("2026-11-21T03:00:00Z")


def table_lines(
    columns: Sequence[str],
    rows: Iterable[Row],
    text_of: Callable[[object], str],
    width_max: int | None = None,
) -> Iterator[str]:
    """Lines of a table: heads, a rule, and the rows; numbers stand at the right.

    Args:
        columns: (n,) heads that can be printed.
        rows: each of n values; taken one after the other, after the first ones were measured.
        text_of: a value as text that can be printed.
        width_max: cells are cut until a row fits; the first column of texts, which mostly names
            what the row is about, keeps more than the others. Numbers are never cut, and times
            lose at most the fraction of their second. Columns
            at the right that have no room are left out, and a last line says so. None: nothing is
            cut, and a cell wider than those of the first rows pushes its row to the right.
    """
    left = iter(rows)
    sample = list(islice(left, _SAMPLE_ROWS))
    numeric = [_is_numeric(sample, index) for index in range(len(columns))]
    cells = [[text_of(value) for value in row] for row in sample]
    natural = [
        max(chain([_width(head)], (_width(row[index]) for row in cells)))
        for index, head in enumerate(columns)
    ]
    least = [
        width if numeric[index] else min(width, _least(columns[index], (r[index] for r in cells)))
        for index, width in enumerate(natural)
    ]
    widths = natural if width_max is None else _fitted(natural, least, numeric, width_max)
    shown = len(widths)

    def line(row: Sequence[str]) -> str:
        padded = []
        for cell, width, right in zip(row[:shown], widths, numeric[:shown], strict=True):
            text = cell if width_max is None or (right and shown > 1) else cut(cell, width)
            space = " " * (width - _width(text))
            padded.append(space + text if right else text + space)
        return _GAP.join(padded).rstrip() + "\n"

    yield line(columns)
    yield line(["-" * width for width in widths])
    yield from map(line, cells)
    for late in left:
        yield line([text_of(value) for value in late])
    if shown < len(columns) and width_max is not None:
        count = len(columns) - shown
        words = f"({count} of {len(columns)} columns left out; -o wide has them all)"
        yield cut(words, width_max) + "\n"


def cut(text: str, width_max: int) -> str:
    """The text in so many columns of a terminal.

    What has no space is a name or an ID, of which the end tells as much as the beginning: it
    loses its middle. Other texts lose their end, times the fraction of the second.
    """
    if _width(text) > width_max and (time := _TIME.fullmatch(text)):
        text = f"{time[1]}Z"
    if _width(text) <= width_max:
        return text
    room = max(width_max - 1, 0)
    tail = "" if " " in text else _last(text, room // 2)
    return f"{_first(text, room - _width(tail))}…{tail}"


def _first(text: str, width: int) -> str:
    kept = text[:width]
    while _width(kept) > width:
        kept = kept[:-1]
    return kept


def _last(text: str, width: int) -> str:
    kept = text[len(text) - width :]
    while _width(kept) > width:
        kept = kept[1:]
    return kept


def _least(head: str, cells: Iterable[str]) -> int:
    """What a column of texts needs."""
    is_time = any(map(_TIME.fullmatch, cells))
    return max(min(_width(head), _HEAD_WIDTH_MAX), _TIME_WIDTH if is_time else _TEXT_WIDTH_MIN)


def _fitted(
    natural: Sequence[int], least: Sequence[int], numeric: Sequence[bool], width_max: int
) -> list[int]:
    """Widths of the columns that are shown, at least one."""
    shown = len(least)
    while shown > 1 and _total(least[:shown]) > width_max:
        shown -= 1
    if shown == 1 and least[0] > width_max:
        return [width_max]
    first_text = next((at for at in range(shown) if not numeric[at]), -1)

    def at_level(level: int) -> list[int]:
        """No column wider than the level, but the first of texts."""
        limits = (level * 3 // 2 if at == first_text else level for at in range(shown))
        return [
            max(low, min(width, limit))
            for low, width, limit in zip(least[:shown], natural[:shown], limits, strict=True)
        ]

    level = max(natural, default=0)
    while level > 0 and _total(at_level(level)) > width_max:
        level -= 1
    widths = at_level(level)
    for at in range(shown):  # what rounding left over
        widths[at] += max(0, min(natural[at] - widths[at], width_max - _total(widths)))
    return widths


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _width(text: str) -> int:
    """Columns of a terminal that the text takes."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(unicodedata.combining(character) > 0 for character in text)


def _is_numeric(rows: Sequence[Row], index: int) -> bool:
    values = [row[index] for row in rows if row[index] is not None]
    return bool(values) and all(
        isinstance(value, int | float | Decimal) and not isinstance(value, bool) for value in values
    )
