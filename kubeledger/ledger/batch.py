"""Records on their way to disk: a batch of drafts becomes the bytes of its lines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kubeledger.ledger.segments import LINE_BYTES_MAX
from kubeledger.model.errors import BadInputError
from kubeledger.model.record import Body, Evidence, Record
from kubeledger.model.wire.codec import BadLineError, encode_parts


class Draft(NamedTuple):
    """A record without its number.

    Attributes:
        ts_ns: when, UTC.
        body: observation or decision.
        evidence: (n,) where it stands.
        cause: seq of an earlier record of the same node that led to it, or None.
    """

    ts_ns: int
    body: Body
    evidence: tuple[Evidence, ...] = ()
    cause: int | None = None


class Batch(NamedTuple):
    """Lines that go to disk together.

    Attributes:
        seqs: the records' numbers.
        data: all lines.
        previous: chain digest before the first, 32 raw bytes.
        digest: chain digest of the last.
        facts: (n,) time and body of each.
    """

    seqs: range
    data: bytes
    previous: bytes
    digest: bytes
    facts: list[tuple[int, Body | None]]


def encode_batch(node: str, drafts: Iterable[Draft], first_seq: int, previous: bytes) -> Batch:
    """Number the drafts from ``first_seq`` and write their lines after ``previous``.

    Raises:
        BadInputError: a record cannot be stored; nothing of the batch is.
    """
    parts: list[bytes] = []
    facts: list[tuple[int, Body | None]] = []
    seq, digest = first_seq, previous
    for ts_ns, body, evidence, cause in drafts:
        if cause is not None and not 0 < cause < seq:
            raise BadInputError(f"{body.kind}: its cause, record {cause}, is not before it ({seq})")
        record = Record(
            node=node,
            seq=seq,
            ts_ns=ts_ns,
            role=body.role,
            kind=body.kind,
            v=body.v,
            cause=cause,
            evidence=evidence,
            body=body,
        )
        try:
            payload, frame, digest = encode_parts(record, digest)
        except BadLineError as error:
            raise BadInputError(f"record {seq} of {node}: {error}") from error
        if len(payload) + len(frame) > LINE_BYTES_MAX:
            raise BadInputError(f"record {seq} of {node}: {len(payload)} bytes are too many")
        parts += (payload, frame)
        facts.append((ts_ns, body))
        seq += 1
    return Batch(range(first_seq, seq), b"".join(parts), previous, digest, facts)
