"""Rows to text: tables for people, JSON, JSON Lines and CSV for programs.

The formats for programs, and ``wide``, keep every value as it is; a ``table`` shows bytes in
units and lists without brackets. Tables are safe to show in a
terminal, whatever bytes a log line brought along. NULL is an empty cell, or ``null`` in
JSON. Rows are written as they come: a result need not fit into memory.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from itertools import chain
from typing import Any, Literal, TextIO

from kubeledger.cli.screen import color_wanted, screen_width, table_lines
from kubeledger.model.patterns import regex
from kubeledger.model.units import sizes_text

Row = Sequence[Any]

_MIN_FLUSH_CHARS = 1 << 16

# C0 and C1 controls, line separators, and marks that turn or hide the text around them.
_UNPRINTABLE = regex(
    "[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
_BYTES = regex(r"(^|_)bytes(_|$)")
"""Names of columns that hold bytes."""
_OF_SIGNAL = frozenset({"threshold", "observed", "available"})
"""Columns that hold bytes where the signal of their row is measured in bytes."""
_NO_LIMIT = 1 << 60
"""Above that is what a kernel takes for no limit."""
_SHORT_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def write_rows(
    columns: Sequence[str],
    rows: Iterable[Row],
    format_: str,
    stream: TextIO | None = None,
    *,
    types: Sequence[str] = (),
    wide_only: Collection[str] = (),
    width_max: int | None = None,
    wrapped: bool = False,
) -> None:
    """Write a header and rows; on a terminal verdicts have their colors.

    Args:
        rows: each of n Python values; taken one after the other.
        format_: one of ``FORMATS``.
        stream: where to; None: standard output.
        types: (n,) DuckDB types, if known: a ``JSON`` column is JSON in JSON.
        wide_only: names of columns that a ``table`` leaves out.
        width_max: columns of the screen that a ``table`` must fit; None: nothing is cut.
        wrapped: a ``table`` breaks long texts instead of cutting them.
    """
    stream = stream or sys.stdout
    if wide_only and format_ == "table":
        kept = [at for at, column in enumerate(columns) if column not in wide_only]
        columns, rows = [columns[at] for at in kept], ([row[at] for at in kept] for row in rows)
    buffer: list[str] = []
    size = 0
    if format_ in _TABLES:
        exact = format_ == "wide"
        rows = rows if exact else _for_people(columns, rows)
        texts = _table(columns, rows, stream, None if exact else width_max, wrapped=wrapped)
    else:
        texts = _WRITERS[format_](columns, rows, tuple(types) or ("",) * len(columns))
    for text in texts:
        buffer.append(text)
        size += len(text)
        if size >= _MIN_FLUSH_CHARS:
            stream.write("".join(buffer))
            buffer.clear()
            size = 0
    stream.write("".join(buffer))


def write_objects(
    objects: Iterable[Mapping[str, Any]], columns: Sequence[str], format_: str
) -> None:
    """Print JSON objects as lines or as CSV, whose cells hold JSON where a value is no scalar.

    Args:
        objects: taken one after the other.
        columns: (n,) of CSV; what an object has not is an empty cell.
        format_: ``jsonl`` or ``csv``.
    """
    rows = ([each.get(column) for column in columns] for each in objects)
    if format_ == "csv":
        write_rows(columns, rows, format_)
        return
    for each in objects:
        write_rows(tuple(each), [tuple(each.values())], format_)


def write_table(columns: str, rows: Iterable[Row], format_: str, width_max: int | None) -> None:
    """Print a table whose columns have commas between; ``qos*`` is only in the ``wide`` form."""
    marked = columns.split(", ")
    wide_only = {name[:-1] for name in marked if name.endswith("*")}
    names = [name.removesuffix("*") for name in marked]
    write_rows(names, rows, format_, wide_only=wide_only, width_max=width_max)


def write_wrapped(columns: Sequence[str], rows: Iterable[Row]) -> None:
    """Print a table that fits the screen; long texts take several lines."""
    write_rows(columns, rows, "table", width_max=screen_width(), wrapped=True)


def write_document(
    document: object, *, indent: int = 2, order: Literal["deterministic"] | None = None
) -> None:
    """Print one JSON document; keys in the order that they have, or sorted."""
    import msgspec

    data = msgspec.json.format(msgspec.json.encode(document, order=order), indent=indent)
    sys.stdout.flush()
    sys.stdout.buffer.write(data + b"\n")


def csv_line(values: Row) -> str:
    """One line of CSV with its end."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow([cell_text(value) for value in values])
    return buffer.getvalue()


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """``1 file``, ``1,234 files``; ``plural`` where it is not the noun with an s."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def printable(text: str) -> str:
    """The text with everything that a terminal would act upon written as an escape."""
    return _UNPRINTABLE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    code = ord(character)
    return _SHORT_ESCAPES.get(character) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")


def _json_rows(columns: Sequence[str], rows: Iterable[Row], types: Sequence[str]) -> Iterator[str]:
    separator = "["
    for text in _objects(columns, rows, types):
        yield f"{separator}{text}"
        separator = ",\n "
    yield "[]\n" if separator == "[" else "]\n"


def _jsonl_rows(columns: Sequence[str], rows: Iterable[Row], types: Sequence[str]) -> Iterator[str]:
    for text in _objects(columns, rows, types):
        yield f"{text}\n"


def _objects(columns: Sequence[str], rows: Iterable[Row], types: Sequence[str]) -> Iterator[str]:
    names = _distinct(columns)
    for row in rows:
        plain = {
            name: _json_column(value) if type_ == "JSON" else json_value(value)
            for name, type_, value in zip(names, types, row, strict=True)
        }
        yield (
            json.dumps(plain, ensure_ascii=False, allow_nan=False)
            .encode("utf-8", "backslashreplace")
            .decode()
        )


def _distinct(columns: Sequence[str]) -> list[str]:
    """Keys of an object: a name that occurs again gets a number, so no value is lost."""
    names: list[str] = []
    for column in columns:
        name, number = column, 1
        while name in names:
            number += 1
            name = f"{column}_{number}"
        names.append(name)
    return names


def _csv_rows(columns: Sequence[str], rows: Iterable[Row], types: Sequence[str]) -> Iterator[str]:
    return map(csv_line, chain([columns], rows))


def _table(
    columns: Sequence[str],
    rows: Iterable[Row],
    stream: TextIO,
    width_max: int | None,
    *,
    wrapped: bool,
) -> Iterator[str]:
    return table_lines(
        [printable(name) for name in columns],
        rows,
        lambda value: printable(cell_text(value)),
        width_max,
        wrapped=wrapped,
        colored=stream.isatty() and color_wanted() is not False,
    )


class _Size(int):
    """Bytes with their text; a number still, so that they stand at the right."""

    text = ""


def _for_people(columns: Sequence[str], rows: Iterable[Row]) -> Iterable[Row]:
    """Rows with bytes in units, those of a row so that they can be compared, and plain lists."""
    sizes = [at for at, name in enumerate(columns) if _BYTES.search(name)]
    signal = columns.index("signal") if "signal" in columns else None
    of_signal = [] if signal is None else [columns.index(name) for name in _OF_SIGNAL & {*columns}]

    def readable(row: Row) -> Row:
        cells = [_listed(value) if isinstance(value, list) else value for value in row]
        given = sizes + (of_signal if signal is not None and _in_bytes(row[signal]) else [])
        kept = [at for at in given if type(row[at]) is int and 0 <= row[at] < _NO_LIMIT]
        for at, text in zip(kept, sizes_text(*(row[at] for at in kept)), strict=True):
            cells[at] = size = _Size(row[at])
            size.text = text
        return cells

    return map(readable, rows)


def _in_bytes(signal: str | None) -> bool:
    """Whether the kubelet measures an eviction signal in bytes, not in inodes or processes."""
    return signal is not None and not signal.endswith(".inodesFree") and signal != "pid.available"


def _listed(values: list[Any]) -> str:
    return ", ".join(cell_text(value) for value in values if value is not None)


def cell_text(value: object) -> str:
    """A cell of a table or of CSV."""
    if isinstance(value, _Size):
        return value.text
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    plain = json_value(value)
    if isinstance(plain, str):
        return plain
    if isinstance(value, float | Decimal):
        return str(value)
    return json.dumps(plain, ensure_ascii=False)


def _json_column(value: object) -> object:
    """A column of type JSON as what it stands for; as text where it is nested too deep."""
    try:
        return json_value(json.loads(value) if isinstance(value, str) else value)
    except RecursionError:
        return value


def json_value(value: Any) -> Any:  # noqa: ANN401 - any value that DuckDB returns, and JSON
    """A value of a result as one that JSON can hold."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return [json_value(item) for item in value]
    if isinstance(value, dict):
        return {cell_text(key): json_value(item) for key, item in value.items()}
    for type_, convert in _CONVERSIONS:
        if isinstance(value, type_):
            return convert(value)
    return str(value)


def _instant(value: datetime) -> str:
    """RFC 3339 in UTC with microseconds, so that texts sort like times."""
    utc = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
    return utc.isoformat(timespec="microseconds") + "Z"


_CONVERSIONS: tuple[tuple[type, Callable[[Any], object]], ...] = (
    (datetime, _instant),
    (date, date.isoformat),
    (time, time.isoformat),
    (timedelta, str),
    (Decimal, lambda value: int(value) if value == int(value) else float(value)),
    (bytes, bytes.hex),
)

_TABLES = ("table", "wide")
_WRITERS: dict[str, Callable[[Sequence[str], Iterable[Row], Sequence[str]], Iterator[str]]] = {
    "json": _json_rows,
    "jsonl": _jsonl_rows,
    "csv": _csv_rows,
}

FORMATS = (*_TABLES, *_WRITERS)
"""What ``-o`` may be where rows come out."""
