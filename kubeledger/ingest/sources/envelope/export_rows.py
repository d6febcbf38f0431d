"""Rows of ``journalctl -o export``: fields as text, or behind a length of eight bytes."""

from __future__ import annotations

from collections.abc import Iterator

from kubeledger.ingest.sources.envelope.rows import BROKEN_MAX, ROW_MAX, RawRow

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
