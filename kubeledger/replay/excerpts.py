"""Excerpts: some records of a history as a history of their own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from kubeledger.model.record import Record


def renumbered(records: Iterable[Record]) -> Iterator[Record]:
    """The same records numbered from 1 without a gap, each node on its own.

    A cause that was left out is none any more.
    """
    numbers: dict[tuple[str, int], int] = {}
    lasts: dict[str, int] = {}
    for record in records:
        seq = lasts.get(record.node, 0) + 1
        lasts[record.node] = numbers[record.node, record.seq] = seq
        cause = numbers.get((record.node, record.cause)) if record.cause is not None else None
        yield msgspec.structs.replace(record, seq=seq, cause=cause)
