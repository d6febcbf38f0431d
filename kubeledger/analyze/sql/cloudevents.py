"""Records as CloudEvents 1.0: JSON, structured mode, one event a record."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote

import msgspec

from kubeledger.analyze.sql.listing import body_of
from kubeledger.analyze.sql.summaries import subject_of
from kubeledger.model.record import Record
from kubeledger.model.units import format_ts

_NO_TEXT = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
"""Characters that no attribute may hold; names in a damaged log may."""


def event_lines(records: Iterable[Record]) -> Iterator[bytes]:
    """A line a record: its event as JSON."""
    encode = msgspec.json.Encoder().encode
    return (encode(cloud_event(record)) + b"\n" for record in records)


def cloud_event(record: Record) -> dict[str, Any]:
    """The event of a record.

    ``id`` follows from what the record says, so that the same record is the same event in every
    export. ``subject`` is left out where a record is about the node as a whole, the extensions
    ``cause`` and ``evidence`` (``file:line`` of the first piece) where the record has none.

    Returns:
        attributes by name, ``data`` among them: the body as it is on disk.
    """
    body = body_of(record)
    texts = (
        ("subject", subject_of(body)),
        ("node", record.node),
        ("role", record.role),
        ("evidence", _place(record)),
    )
    event: dict[str, Any] = {
        "specversion": "1.0",
        "id": _digest(record),
        "source": f"node/{quote(record.node, safe='')}",
        "type": f"io.kubeledger.{record.kind}.v{record.v}",
        "time": format_ts(record.ts_ns),
        "datacontenttype": "application/json",
        **{name: _NO_TEXT.sub("\N{REPLACEMENT CHARACTER}", text) for name, text in texts if text},
        "seq": record.seq,
    }
    if record.cause is not None:
        event["cause"] = record.cause
    return {**event, "data": body}


def _place(record: Record) -> str:
    first = next(iter(record.evidence), None)
    if first is None:
        return ""
    return first.file if first.line is None else f"{first.file}:{first.line}"


def _digest(record: Record) -> str:
    """BLAKE2b-128 of what the record says, as hexadecimal digits."""
    identity = (record.node, record.seq, record.ts_ns, record.kind, record.v, record.body)
    data = msgspec.json.encode(identity, order="sorted")
    return hashlib.blake2b(data, digest_size=16).hexdigest()
