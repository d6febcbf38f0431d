"""Rows as the stores' own tools print them, each behind its time.

``logcli`` puts the labels of the stream between the two; ``aws logs tail`` the stream's name, and
exports of CloudWatch nothing, before a message that is JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kubeledger.ingest.sources.envelope.rows import ROW_MAX, RawRow

_LABELS = rb'\{(?:[\w.]+="(?:[^"\\]|\\.)*"[, ]*)*\}'
_TIME = rb"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?) +"
_LABELLED = re.compile(_TIME + rb"(" + _LABELS + rb") *(.*)", re.DOTALL)
_MESSAGE = re.compile(_TIME + rb"(?:([^\s{]\S*) +)?(\{\s*\"\w+\"\s*:.*)", re.DOTALL)
_COMMON = re.compile(rb"(?:\d{4}/\d\d/\d\d \S+ )?Common labels: (" + _LABELS + rb")\s*$")
_LABEL = re.compile(rb'([\w.]+)="((?:[^"\\]|\\.)*)"')


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
        elif match := _MESSAGE.match(text):
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
