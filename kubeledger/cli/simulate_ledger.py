"""Simulated records into a ledger; what it holds already is compared and not written again."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from kubeledger.ledger.batch import Draft
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.writer import LedgerWriter
from kubeledger.model.errors import BadQuestionError
from kubeledger.model.record import Record
from kubeledger.model.wire.codec import GENESIS, encode_line
from kubeledger.replay import refresh_snapshots

_BATCH = 5_000
_ADVICE = "give another --node or --ledger, or the scenario and seed that made it"


def into_ledger(
    records: Iterator[Record], directory: Path, node: str, added: list[int]
) -> Iterator[Record]:
    """Write records as they are taken; all are on disk when the last was taken.

    Args:
        records: of one node, numbered from 1.
        directory: of the ledger, made if need be; removed again if nothing came into it.
        added: one number: how many were written.

    Yields:
        every record, those that were there already too.

    Raises:
        BadQuestionError: the ledger holds other records of that node; nothing is written.
        KubeledgerError: the ledger cannot be written.
    """
    was_there = directory.exists()
    ledger = Ledger.open_or_create(directory)
    try:
        with ledger.writer() as writer:
            yield from _compare(ledger, records, node)
            while batch := list(islice(records, _BATCH)):
                _append(writer, node, batch)
                added[0] += len(batch)
                yield from batch
    except BaseException:
        if not was_there and not ledger.nodes():
            shutil.rmtree(directory, ignore_errors=True)
        raise
    if added[0]:
        refresh_snapshots(ledger, node)


def _append(writer: LedgerWriter, node: str, batch: list[Record]) -> None:
    writer.append(node, [Draft(each.ts_ns, each.body, each.evidence, each.cause) for each in batch])


def _compare(ledger: Ledger, records: Iterator[Record], node: str) -> Iterator[Record]:
    """Take as many records as the ledger holds of the node, and see that they are the same."""
    if node not in ledger.nodes():
        return
    digest = GENESIS
    for raw in ledger.raw_lines(node):
        record = next(records, None)
        line, digest = encode_line(record, digest) if record is not None else (b"", digest)
        if record is None or line != raw.line:
            text = f"{ledger.path} holds another history of {node}: record {raw.seq} differs"
            raise BadQuestionError(text, advice=_ADVICE)
        yield record
