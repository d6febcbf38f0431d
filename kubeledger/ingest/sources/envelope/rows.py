"""Rows that are no JSON: journal exports, tables, what stores' tools print; and values in a row."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from kubeledger.ingest.sources.prefix import ANY_ENTRY
from kubeledger.ingest.sources.times import api_time, carrier_time
from kubeledger.model.patterns import regex
from kubeledger.model.units import NS_PER_S
from kubeledger.model.wire.catalogue import is_storable

ROW_MAX = 16 << 20
"""Bytes of a row that is read whole; stores take messages of a few hundred thousand."""

BROKEN_MAX = 4096
"""Bytes that are kept of a row that cannot be read."""


class RawRow(NamedTuple):
    """One row of a file.

    Attributes:
        begin, end: its bytes in the file.
        line: in which it begins, from 0.
        value: what it holds; None where it cannot be read.
        text: the beginning of a row that cannot be read.
        key: equal for rows of the same bytes.
    """

    begin: int
    end: int
    line: int
    value: dict[str, Any] | None
    text: bytes = b""
    key: int = 0


# Values in a row: by their path, as text, as a time.

Path = tuple[str, ...]

_SCALES = ((10**17, 1), (10**14, 1000), (10**11, 10**6))
"""From which number on a time counts nanoseconds, microseconds, milliseconds; then seconds."""


def path(text: str) -> Path:
    """Keys, one behind the other, written with spaces between."""
    return tuple(text.split())


def at_path(value: Any, keys: Path) -> Any:  # noqa: ANN401 - any JSON value
    """What stands at a path; None for nothing.

    A key may hold several of the path, joined by dots, and a list of one stands for its member.
    """
    if len(keys) == 1 and type(value) is dict:
        value = value.get(keys[0])
        return value[0] if type(value) is list and len(value) == 1 else value
    for index, key in enumerate(keys):
        if type(value) is list and len(value) == 1:
            value = value[0]
        if type(value) is not dict:
            return None
        if key not in value:
            for end in range(index + 2, len(keys) + 1):
                dotted = ".".join(keys[index:end])
                if dotted in value:
                    return at_path(value[dotted], keys[end:])
            return None
        value = value[key]
    return value[0] if type(value) is list and len(value) == 1 else value


def first_text(row: dict[str, Any], paths: tuple[Path, ...]) -> str:
    """The first text at one of the paths that is not empty; empty for none."""
    for keys in paths:
        value = at_path(row, keys)
        if type(value) is bytes:
            value = value.decode("utf-8", "replace")
        if type(value) is str and value:
            return value
    return ""


def first_bytes(row: dict[str, Any], paths: tuple[Path, ...]) -> bytes | None:
    """The first message at one of the paths: a text, or the list of its bytes."""
    for keys in paths:
        value = at_path(row, keys)
        if type(value) is str:
            return value.encode("utf-8", "replace")
        if type(value) is bytes:
            return value
        if type(value) is list and value:
            try:
                if type(value[0]) is int:
                    return bytes(value)
                return "\n".join(value).encode("utf-8", "replace")
            except (TypeError, ValueError):  # a list of other things
                continue
    return None


def first_time(row: dict[str, Any], paths: tuple[Path, ...]) -> int | None:
    """The first time at one of the paths, in nanoseconds.

    Texts are RFC 3339 times; of numbers, and texts of digits, the size tells the unit.
    """
    for keys in paths:
        ts_ns = _time(at_path(row, keys))
        if ts_ns is not None:
            return ts_ns
    return None


def _time(value: Any) -> int | None:  # noqa: ANN401 - any JSON value
    if type(value) is bytes:
        value = value.decode("utf-8", "replace")
    ts_ns: int | None = None
    if type(value) is str:
        if not value.isdecimal():
            return _of_text(value)
        value = int(value) if len(value) < 20 else 0
    if type(value) is int and value > 0:
        scale = next((scale for floor, scale in _SCALES if value >= floor), NS_PER_S)
        ts_ns = value * scale
    elif type(value) is float and 0 < value < 10**18:
        whole = int(value)
        scale = next((scale for floor, scale in _SCALES if whole >= floor), NS_PER_S)
        ts_ns = whole * scale + round((value - whole) * scale)
    return ts_ns if ts_ns is not None and is_storable(ts_ns) else None


def _of_text(text: str) -> int | None:
    try:
        return api_time(text)
    except ValueError:
        pass
    whole, point, fraction = text.partition(".")
    if point and whole.isdecimal() and fraction.isdecimal() and len(text) < 40:
        scale = next((scale for floor, scale in _SCALES if int(whole) >= floor), NS_PER_S)
        ts_ns = int(whole) * scale + int(fraction[:9].ljust(9, "0")) * scale // NS_PER_S
        return ts_ns if is_storable(ts_ns) else None
    return None


# Rows of ``journalctl -o export``: fields as text, or behind a length of eight bytes.

_SIZE = 8


def export_rows(chunks: Iterator[bytes]) -> Iterator[RawRow]:
    """The entries of an export, in its order; values of their fields are bytes.

    Of a field that an entry has twice the first one counts.
    """
    data, base, line, is_open = b"", 0, 0, True
    at = 0
    while True:
        row = _entry(data, at, is_whole=not is_open)
        if row is None and is_open:
            chunk = next(chunks, None)
            if chunk is None:
                is_open = False
            else:
                data, base, at = data[at:] + chunk, base + at, 0
            continue
        if row is None:
            return
        fields, begin, end = row
        line += data.count(b"\n", at, begin)
        text = data[begin : min(end, begin + BROKEN_MAX)].rstrip() if fields is None else b""
        if fields or fields is None:
            yield RawRow(base + begin, base + end, line, fields, text, hash(data[begin:end]))
        line += data.count(b"\n", begin, end)
        at = end


Fields = dict[str, bytes]


def _entry(data: bytes, at: int, *, is_whole: bool) -> tuple[Fields | None, int, int] | None:
    """Fields, begin and end of the entry at a place; None: there is none, or not all of it.

    Fields are None where the entry is damaged, and empty where what stands there is blank.
    """
    size = len(data)
    while at < size and data[at] in b"\n\r \0":
        at += 1
    begin, fields = at, Fields()
    while at < size:
        end = data.find(b"\n", at)
        if end < 0:
            return (fields, begin, size) if is_whole and fields else _torn(data, begin, is_whole)
        field = data[at:end]
        if not field.strip():
            return fields, begin, end + 1
        name, mark, value = field.partition(b"=")
        if mark:
            fields.setdefault(name.decode("utf-8", "replace"), value)
            at = end + 1
            continue
        length = int.from_bytes(data[end + 1 : end + 1 + _SIZE], "little")
        close = end + 1 + _SIZE + length
        if end + 1 + _SIZE > size and not is_whole:
            return None
        is_wrong = close > size and is_whole if close >= size else data[close] != 0x0A
        if length > ROW_MAX or is_wrong:
            return _damaged(data, begin, is_whole)
        if close >= size:
            return None
        fields.setdefault(name.decode("utf-8", "replace"), data[close - length : close])
        at = close + 1
    return (fields, begin, size) if is_whole and fields else None


def _torn(data: bytes, begin: int, is_whole: bool) -> tuple[None, int, int] | None:
    """The file ends inside the entry's first line."""
    return (None, begin, len(data)) if is_whole and begin < len(data) else None


def _damaged(data: bytes, begin: int, is_whole: bool) -> tuple[None, int, int] | None:
    """What is no entry, up to where the next one begins."""
    end = data.find(b"\n\n", begin)
    if end >= 0:
        return None, begin, end + 2
    return (None, begin, len(data)) if is_whole or len(data) - begin > ROW_MAX else None


# Rows as the stores' own tools print them, each behind its time.
#
# ``logcli`` puts the labels of the stream between the two; ``aws logs tail`` the stream's name, and
# exports of CloudWatch nothing, before a message that is JSON.

_LABELS = rb'\{(?:[\w.]+="(?:[^"\\]|\\.)*"[, ]*)*\}'
_TEXT_TIME = rb"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?) +"
_LABELLED = regex(_TEXT_TIME + rb"(" + _LABELS + rb") *(.*)", re.DOTALL)
_TEXT_MESSAGE = regex(_TEXT_TIME + rb"(?:([^\s{]\S*) +)?(\{\s*\"\w+\"\s*:.*)", re.DOTALL)
_COMMON = regex(rb"(?:\d{4}/\d\d/\d\d \S+ )?Common labels: (" + _LABELS + rb")\s*$")
_LABEL = regex(rb'([\w.]+)="((?:[^"\\]|\\.)*)"')


def printed_rows(chunks: Iterator[bytes]) -> Iterator[RawRow]:
    """The rows, in the order of the file; a line of no row goes on where the one above ends."""
    common: dict[str, str] = {}
    row: dict[str, object] | None = None
    for number, (begin, text) in enumerate(lines_of(chunks)):
        end = begin + len(text) + 1
        if match := _LABELLED.match(text):
            time, labels, line = match.groups()
            row = {
                "timestamp": time.decode(),
                "labels": {**common, **_labels(labels)},
                "line": b" >" if line.rstrip() == b">" else line,
            }
            yield RawRow(begin, end, number, row, b"", hash(text))
        elif match := _TEXT_MESSAGE.match(text):
            time, stream, message = match.groups()
            name = (stream or b"").decode("utf-8", "replace")
            row = {"timestamp": time.decode(), "logStreamName": name, "message": message}
            yield RawRow(begin, end, number, row, b"", hash(text))
        elif (told := _COMMON.match(text)) is not None:
            common = _labels(told[1])
        elif text.strip():
            going_on = None if row is None else {**row, "line": text, "message": text}
            yield RawRow(begin, end, number, going_on, text, hash((text, number)))


def _labels(text: bytes) -> dict[str, str]:
    return {
        key.decode(): value.replace(b'\\"', b'"').decode("utf-8", "replace")
        for key, value in _LABEL.findall(text)
    }


def lines_of(chunks: Iterator[bytes]) -> Iterator[tuple[int, bytes]]:
    """Place and bytes of each line; one of absurd length is cut into several."""
    tail, base = b"", 0
    for chunk in chunks:
        *lines, tail = (tail + chunk).split(b"\n")
        for line in lines:
            yield base, line
            base += len(line) + 1
        if len(tail) > ROW_MAX:
            yield base, tail
            base, tail = base + len(tail), b""
    if tail:
        yield base, tail


# Rows that are no JSON: CSV as viewers export it, and ``journalctl -o verbose``.

_MESSAGE, _TIME, _HOST = "message", "timestamp", "hostname"
CSV_BEGIN = regex(
    rb'"[^\n]*",'
    rb"|\d{4}-\d\d-\d\d[T ][\d:.Z+-]+,(?!(?<=:\d\d,)\d{1,9}(?: ?(?:Z|[+-]\d\d:?\d\d))?[ |\]])"
    rb'|(?:[^\n]*,)?"?(?:@?message|MESSAGE|log|[Ll]ine|msg|_raw|SyslogMessage|LogMessage|LogEntry'
    rb'|textPayload|jsonPayload\.MESSAGE)"?(?:,|\r?\n)'
)
"""A quoted column, a time, or a header that names a column as those of messages are named.

No column begins behind a comma between a time's seconds and their fraction."""
_NAME = regex(r"[@\w][\w.@ /-]{0,60}(?: ?\[\w+\])?")
_NO_NAME = regex(r"[\d\W]*\Z|\d{4}-")
_A_TIME = regex(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*\Z")
_A_HOST = regex(r"[A-Za-z][\w.-]*\Z")
_NO_HOST = frozenset(
    ("kubelet", "info", "notice", "warn", "warning", "error", "err", "debug", "stdout", "stderr")
)


def csv_rows(chunks: Iterator[bytes]) -> Iterator[RawRow]:
    """The records of a table, by its header; without one by what stands in its columns."""
    names: list[str] | None = None
    columns: dict[str, int] = {}
    begin = number = lines = 0
    text = b""
    for at, line in lines_of(chunks):
        if not text:
            begin = at
        text += line + b"\n"
        lines += 1
        if text.count(b'"') % 2 and len(text) < ROW_MAX:
            continue
        fields = _fields(text)
        if names is None:
            names = _header(fields)
        if fields and not (number == 0 and names):
            _learn(columns, fields, has_header=bool(names))
            told = {role: fields[at] for role, at in columns.items() if at < len(fields)}
            told.setdefault(_MESSAGE, fields[-1])
            if _TIME in told:
                told[_TIME] = _rfc3339(told[_TIME])
            value = dict(zip(names, fields, strict=False)) | told
            yield RawRow(begin, begin + len(text), number, value, b"", hash(text))
        number += lines
        text, lines = b"", 0


def _fields(record: bytes) -> list[str]:
    text = record.decode("utf-8", "replace").rstrip("\r\n")
    try:
        return next(csv.reader([text]), [])
    except csv.Error:  # a carriage return, or a field of absurd length
        return [text]


def _header(fields: list[str]) -> list[str]:
    """The names of the columns; none where the first record is a row."""
    if any(not _NAME.fullmatch(field) or _NO_NAME.match(field) for field in fields):
        return []
    return [field.partition(" [")[0] for field in fields]


def _learn(columns: dict[str, int], fields: list[str], *, has_header: bool) -> None:
    """Note which columns hold what, by the first that looks like it."""
    for at, field in enumerate(fields):
        if ANY_ENTRY.search(field.encode()):
            columns.setdefault(_MESSAGE, at)
        elif _A_TIME.match(field):
            columns.setdefault(_TIME, at)
        elif not has_header and _A_HOST.match(field) and field.lower() not in _NO_HOST:
            columns.setdefault(_HOST, at)


def _rfc3339(text: str) -> str:
    text = text.replace(" ", "T", 1)
    return text if re.search(r"(?:Z|[+-]\d\d:?\d\d)\Z", text) else f"{text}Z"


VERBOSE_BEGIN = regex(
    rb"(?m)^\S+ (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? \S+) "
    rb"\[s=\w+;(?:[^\]]*;m=([\da-f]{1,14});)?[^\]]*\]$"
)
_FIELD = regex(rb"    ([A-Z_][A-Z\d_]*)=(.*)\Z", re.DOTALL)


def verbose_rows(chunks: Iterator[bytes]) -> Iterator[RawRow]:
    """The entries of ``journalctl -o verbose``; further lines of a value stand farther right."""
    fields: dict[str, bytes] = {}
    name, begin, end, first = "", 0, 0, 0
    for number, (at, line) in enumerate(lines_of(chunks)):
        line = line.rstrip(b"\r")
        head = VERBOSE_BEGIN.match(line)
        if head is not None:
            if fields:
                yield RawRow(begin, end, first, fields, b"", hash(tuple(fields.items())))
            time = carrier_time(head[1])
            micros = time.ts_ns // 1000 if time else 0
            fields, begin, first, name = {"__REALTIME_TIMESTAMP": b"%d" % micros}, at, number, ""
            if head[2]:
                fields["__MONOTONIC_TIMESTAMP"] = b"%d" % int(head[2], 16)
        elif fields and (field := _FIELD.match(line)) is not None:
            name = field[1].decode()
            fields.setdefault(name, field[2])
        elif name and line.strip():
            fields[name] += b"\n" + line.strip(b" ")
        end = at + len(line) + 1
    if fields:
        yield RawRow(begin, end, first, fields, b"", hash(tuple(fields.items())))
