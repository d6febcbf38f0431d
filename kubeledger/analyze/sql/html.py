"""Tables for notebooks: HTML in which nothing that a log line holds can act."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape
from typing import Any

_CELL_MAX = 200


def html_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, more: str = "") -> str:
    """A table, and below it what it leaves out.

    Args:
        columns: (n,) headings.
        rows: each of n values; None is an empty cell, long texts are cut.
        more: how many rows are not shown, as text; empty: none.
    """
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    below = f"<p>{escape(more)} more</p>" if more else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}"


def _cell(value: object) -> str:
    if isinstance(value, datetime):
        text = value.isoformat(sep=" ", timespec="microseconds").replace("+00:00", "Z")
    else:
        text = "" if value is None else str(value)
    if len(text) > _CELL_MAX:
        text = f"{text[: _CELL_MAX - 1]}…"
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    align = "right" if is_number else "left"
    return f'<td style="text-align:{align}">{escape(text)}</td>'
