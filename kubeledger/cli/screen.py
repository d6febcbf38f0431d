"""The terminal, if there is one: its width, pager and colours, and tables that fit it."""

from __future__ import annotations

import io
import os
import shlex
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from decimal import Decimal
from itertools import islice, zip_longest
from typing import TYPE_CHECKING, Any, TextIO

import click

from kubeledger.model.patterns import regex

if TYPE_CHECKING:
    import subprocess

_WIDTH = 80
_WIDTH_MIN = 40


def screen_width() -> int:
    """Columns of the terminal, or $COLUMNS; 80 where neither is known."""
    return max(_WIDTH_MIN, shutil.get_terminal_size((_WIDTH, 24)).columns)


def terminal_width() -> int | None:
    """Columns of the terminal; None where standard output is none, so that nothing is cut."""
    return screen_width() if sys.stdout.isatty() else None


def color_wanted() -> bool | None:
    """False where $NO_COLOR forbids it; None: as the terminal has it."""
    return False if os.environ.get("NO_COLOR") else None


@contextmanager
def paged(*, wanted: bool = True) -> Iterator[None]:
    """Let what is printed on a terminal go through a pager.

    It is $PAGER, else ``less``, which ends at once where all fits the screen; none with $NO_PAGER,
    and it starts when something is printed. Whoever leaves it early wants no more: that is no
    error.
    """
    command = _pager_command() if wanted and sys.stdout.isatty() else None
    if command is None:
        yield
        return
    pager = _Pager(command, sys.stdout)
    try:
        with redirect_stdout(pager), suppress(BrokenPipeError):
            yield
    finally:
        pager.close()


def _pager_command() -> list[str] | None:
    if "NO_PAGER" in os.environ or os.environ.get("TERM") == "dumb":
        return None
    try:
        words = shlex.split(os.environ.get("PAGER", "less"))
    except ValueError:  # a quote that does not end
        return None
    return words if words and words != ["cat"] and shutil.which(words[0]) else None


class _Pager(io.TextIOBase):
    """Standard output that a pager shows."""

    def __init__(self, command: list[str], below: TextIO) -> None:
        self._command = command
        self._below = below
        self._process: subprocess.Popen[str] | None = None

    @property
    def encoding(self) -> str:  # type: ignore[override] # a plain attribute in typeshed
        return "utf-8"

    def isatty(self) -> bool:
        """In the end it is one."""
        return True

    def write(self, text: str) -> int:
        if self._process is None:
            self._below.write("")  # takes progress off the screen
            self._below.flush()
            import subprocess  # most commands need no pager

            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                encoding="utf-8",
                errors="backslashreplace",
                env={"LESS": "FRX", **os.environ},
            )
        assert self._process.stdin is not None
        return self._process.stdin.write(text)

    def flush(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.flush()

    def close(self) -> None:
        """Wait until the user has read it; Ctrl-C is the pager's business meanwhile."""
        process = self._process
        if process is None or process.stdin is None:
            return
        with suppress(BrokenPipeError):
            process.stdin.close()
        while process.poll() is None:
            with suppress(KeyboardInterrupt):
                process.wait()


Row = Sequence[Any]

_SAMPLE_ROWS = 1000
_GAP = "  "
_TEXT_WIDTH_MIN = 8
_NAME_SHARE = 5
"""A name gets this part of the screen before columns are left out."""
_HEAD_WIDTH_MAX = 16
_VERDICT_COLORS = {
    "match": "green",
    "admissible": "green",
    "unverifiable": "yellow",
    "impossible": "red",
}
_TIME = regex(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.\d+Z")
_TIME_WIDTH = len("2026-11-21T03:00:00Z")


def table_lines(
    columns: Sequence[str],
    rows: Iterable[Row],
    text_of: Callable[[object], str],
    width_max: int | None = None,
    *,
    wrapped: bool = False,
    colored: bool = False,
) -> Iterator[str]:
    """Lines of a table: heads, a rule, and the rows; numbers stand at the right.

    Args:
        columns: (n,) heads that can be printed.
        rows: each of n values; taken one after the other, after the first ones were measured.
        text_of: a value as text that can be printed.
        width_max: cells are cut until a row fits; the first column of texts, which mostly names
            what the row is about, keeps more than the others. Numbers are never cut, and times
            lose at most the fraction of their second. Columns
            at the right that have no room are left out, and a last line says so. Heads of several
            words take several lines before a cell is cut. None: nothing is cut, and a cell wider
            than those of the first rows pushes its row to the right.
        wrapped: texts that have no room take several lines instead of being cut.
        colored: a column of verdicts has their colors.
    """
    left = iter(rows)
    sample = list(islice(left, _SAMPLE_ROWS))
    numeric = [_is_numeric(sample, index) for index in range(len(columns))]
    cells = [[text_of(value) for value in row] for row in sample]
    body = [max(map(_width, (row[at] for row in cells)), default=0) for at in range(len(columns))]
    heads = _heads(columns, body, width_max)
    texts = [[] if numeric[at] else [row[at] for row in cells] for at in range(len(columns))]
    natural = _natural(heads, body)
    fits = width_max is None or _total(natural) <= width_max
    widths = natural if fits else _fitted(heads, natural, texts, numeric, width_max or 0)
    shown = len(widths)
    verdicts = {at for at, head in enumerate(columns) if colored and head == "verdict"}

    def line(row: Sequence[str]) -> str:
        padded = []
        for at, (cell, width) in enumerate(zip(row, widths, strict=False)):
            right = numeric[at]
            text = cell if width_max is None or (right and shown > 1) else cut(cell, width)
            space = " " * (width - _width(text))
            text = verdict_text(text) if at in verdicts else text
            padded.append(space + text if right else text + space)
        return _GAP.join(padded).rstrip() + "\n"

    def lines(row: Sequence[str]) -> Iterator[str]:
        if not wrapped or width_max is None:
            yield line(row)
            return
        parts = [_broken(cell, width) for cell, width in zip(row, widths, strict=False)]
        yield from map(line, zip_longest(*parts, fillvalue=""))

    height = max(map(len, heads[:shown]), default=1)
    yield from map(line, zip(*([""] * (height - len(each)) + each for each in heads), strict=True))
    yield line(["-" * width for width in widths])
    for row in cells:
        yield from lines(row)
    for late in left:
        yield from lines([text_of(value) for value in late])
    if shown < len(columns) and width_max is not None:
        count = len(columns) - shown
        where = "a wider screen" if wrapped else "-o wide"
        words = f"({count} of {len(columns)} columns left out; {where} has them all)"
        yield cut(words, width_max) + "\n"


def _heads(columns: Sequence[str], body: Sequence[int], width_max: int | None) -> list[list[str]]:
    """Lines of each head: several where the table is too wide."""
    heads = [[head] for head in columns]
    if width_max is None or _total(_natural(heads, body)) <= width_max:
        return heads
    return [
        textwrap.wrap(head, max(width, 1), break_long_words=False, break_on_hyphens=False) or [""]
        for head, width in zip(columns, body, strict=True)
    ]


def _broken(cell: str, width: int) -> list[str]:
    """Lines of a text; times, names and IDs stay on one."""
    wide = _width(cell) > width and " " in cell
    return textwrap.wrap(cell, width, break_on_hyphens=False) if wide else [cell]


def _natural(heads: Sequence[Sequence[str]], body: Sequence[int]) -> list[int]:
    """Widths that hold everything."""
    return [max([width, *map(_width, head)]) for head, width in zip(heads, body, strict=True)]


def verdict_text(verdict: str) -> str:
    """A verdict in its color, anything else as it is."""
    color = _VERDICT_COLORS.get(verdict)
    return verdict if color is None else click.style(verdict, fg=color, bold=True)


def cut(text: str, width_max: int) -> str:
    """The text in so many columns of a terminal.

    What has no space is a name or an ID, whose end matters as much as its beginning: it
    loses its middle. Other texts lose their end, times the fraction of the second.
    """
    if _width(text) > width_max and (time := _TIME.fullmatch(text)):
        text = f"{time[1]}Z"
    if _width(text) <= width_max:
        return text
    space = max(width_max - 1, 0)
    tail = "" if " " in text else _last(text, space // 2)
    return f"{_first(text, space - _width(tail))}…{tail}"


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


def _least(head: Sequence[str], cells: Sequence[str], width_max: int) -> int:
    """What a column of texts needs: a name, which is one word, more than a sentence."""
    if any(map(_TIME.fullmatch, cells)):
        return _TIME_WIDTH
    least = _TEXT_WIDTH_MIN if any(" " in cell for cell in cells) else width_max // _NAME_SHARE
    return max(min(max(map(_width, head)), _HEAD_WIDTH_MAX), least)


def _fitted(
    heads: Sequence[Sequence[str]],
    natural: Sequence[int],
    texts: Sequence[Sequence[str]],
    numeric: Sequence[bool],
    width_max: int,
) -> list[int]:
    """Widths of the columns that are shown, at least one; a time gets no room for a fraction."""
    natural = [
        min(width, _TIME_WIDTH) if any(map(_TIME.fullmatch, each)) else width
        for width, each in zip(natural, texts, strict=True)
    ]
    least = [
        width if numeric[at] else min(width, _least(heads[at], texts[at], width_max))
        for at, width in enumerate(natural)
    ]
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
