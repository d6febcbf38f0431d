"""Rows that are no JSON: CSV as viewers export it, and ``journalctl -o verbose``."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator

from kubeledger.ingest.sources.envelope.rows import ROW_MAX, RawRow
from kubeledger.ingest.sources.envelope.text_rows import lines_of
from kubeledger.ingest.sources.prefix import ANY_ENTRY
from kubeledger.ingest.sources.times import carrier_time

_MESSAGE, _TIME, _HOST = "message", "timestamp", "hostname"
CSV_BEGIN = re.compile(
    rb'"[^\n]*",|\d{4}-\d\d-\d\d[T ][\d:.Z+-]+,'
    rb'|(?:[^\n]*,)?"?(?:@?message|MESSAGE|log|[Ll]ine|msg|_raw|SyslogMessage|LogMessage|LogEntry'
    rb'|textPayload|jsonPayload\.MESSAGE)"?(?:,|\r?\n)'
)
"""A quoted column, a time, or a header that names a column as those of messages are named."""
_NAME = re.compile(r"[@\w][\w.@ /-]{0,60}(?: ?\[\w+\])?")
_NO_NAME = re.compile(r"[\d\W]*\Z|\d{4}-")
_A_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*\Z")
_A_HOST = re.compile(r"[A-Za-z][\w.-]*\Z")
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


VERBOSE_BEGIN = re.compile(
    rb"(?m)^\S+ (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? \S+) \[s=\w+;[^\]]*\]$"
)
_FIELD = re.compile(rb"    ([A-Z_][A-Z\d_]*)=(.*)\Z", re.DOTALL)


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
        elif fields and (field := _FIELD.match(line)) is not None:
            name = field[1].decode()
            fields.setdefault(name, field[2])
        elif name and line.strip():
            fields[name] += b"\n" + line.strip(b" ")
        end = at + len(line) + 1
    if fields:
        yield RawRow(begin, end, first, fields, b"", hash(tuple(fields.items())))
