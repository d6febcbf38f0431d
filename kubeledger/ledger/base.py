"""Where a node's ledger begins, once its first records were dropped.

``nodes/<node>/base.json`` is written before a drop is recorded and before any segment goes, so
it is an intent until the first segment is gone. Segments go one by one from the beginning,
each removal on disk before the next: the first one that is there shows which base holds.
``base.json`` keeps the base before, for that question, and for a drop that was never recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from kubeledger.ledger.regular import NotRegularError
from kubeledger.ledger.sealed_json import load_sealed, save_sealed
from kubeledger.ledger.segments import Segment, blocks_of, lines_of
from kubeledger.model.bodies.ledger import RecordsDropped
from kubeledger.model.errors import DamagedLedgerError, RecordsDroppedError
from kubeledger.model.units import format_ts
from kubeledger.model.wire.codec import GENESIS, BadLineError, check_crc, decode_line, kind_of

BASE = "base.json"
_BYTES_MAX = 64 << 20


class Base(msgspec.Struct, frozen=True, kw_only=True):
    """What stands in place of a node's first records.

    Attributes:
        node: whose.
        record_seq: number of the drop's record.
        dropped: what the record says.
        previous: the base before this one; its own ``previous`` is None.
    """

    format: int = 1
    node: str
    record_seq: int
    dropped: RecordsDropped
    previous: Base | None = None

    @property
    def first_seq(self) -> int:
        """The first record that is kept."""
        return self.dropped.last_seq + 1

    @property
    def phrase(self) -> str:
        """What was dropped, when and why, as a clause."""
        dropped = self.dropped
        return (
            f"records 1 to {dropped.last_seq} of {self.node} (up to "
            f"{format_ts(dropped.latest_ts_ns)}) were dropped at "
            f"{format_ts(dropped.dropped_ts_ns)} (record {self.record_seq}: {dropped.policy})"
        )

    def refusal(self, asked: str) -> RecordsDroppedError:
        """The error for a question about what was dropped."""
        return RecordsDroppedError(
            f"{asked}: {self.phrase}",
            advice=f"ask for record {self.dropped.last_seq + 1} or later, or read a copy of the "
            "ledger from before",
        )


class Begin(NamedTuple):
    """Where reading begins.

    Attributes:
        base: None where the node's first record is there.
    """

    base: Base | None = None

    @property
    def seq(self) -> int:
        """The record before the first one; 0 without a base."""
        return self.base.dropped.last_seq if self.base else 0

    @property
    def chain(self) -> bytes:
        """Its chain digest, 32 raw bytes."""
        return bytes.fromhex(self.base.dropped.chain) if self.base else GENESIS


def save_base(directory: Path, base: Base) -> None:
    """Write a node's ``base.json`` atomically.

    Raises:
        OSError: as the operating system says.
    """
    save_sealed(directory / BASE, base)


def load_base(directory: Path) -> Base | None:
    """Read a node's ``base.json``; None when there is none, or a damaged one.

    Raises:
        OSError: it is there and cannot be read.
    """
    base = load_sealed(directory / BASE, Base, _BYTES_MAX)
    try:
        bytes.fromhex(base.dropped.chain if base else "")
    except ValueError:
        return None
    return base


def begin_of(node: str, directory: Path, segments: Sequence[Segment]) -> Begin:
    """Where a node's records begin.

    Args:
        segments: its files, listed before this is called.

    Raises:
        DamagedLedgerError: segments are gone, and no drop says why.
        OSError: as the operating system says.
    """
    first_seq = segments[0].first_seq if segments else 0
    if first_seq == 1:
        return Begin()
    base = load_base(directory)
    if not segments:
        if base is not None:
            raise DamagedLedgerError("no segment is left of those kept", file=str(directory))
        return Begin()
    found = _first_that_holds(first_seq, [base.previous, base] if base else [])
    found = found or _first_that_holds(first_seq, list(recorded_bases(node, segments)))
    if found is None:
        raise DamagedLedgerError(
            f"records 1 to {first_seq - 1} should stand before this segment and are missing, "
            "and no record says that they were dropped",
            advice="restore the file from a copy; `kubeledger audit` lists all damage",
            file=str(segments[0].path),
            offset=0,
        )
    return Begin(found)


def _first_that_holds(first_seq: int, bases: Sequence[Base | None]) -> Base | None:
    """The base up to which segments were removed: the smallest that reaches to the first one."""
    reaching = [base for base in bases if base is not None and base.first_seq >= first_seq]
    return min(reaching, key=lambda base: base.first_seq, default=None)


def recorded_bases(node: str, segments: Sequence[Segment]) -> Iterator[Base]:
    """Bases that the records of drops name, in the order of seq.

    All lines are looked at; a bad one is passed over here, and found by who reads them.
    """
    previous: Base | None = None
    for segment in segments:
        try:
            for piece in lines_of(blocks_of(segment)):
                for line in piece.lines:
                    found = base_of_line(line)
                    if found is not None and found.node == node:
                        base = msgspec.structs.replace(found, previous=previous)
                        yield base
                        previous = found
        except (DamagedLedgerError, NotRegularError):
            continue


def base_of_line(line: bytes) -> Base | None:
    """The base that a line names; None when it is no sound record of a drop."""
    if kind_of(line) != RecordsDropped.kind:
        return None
    try:
        check_crc(line)
        record = decode_line(line)
    except BadLineError:
        return None
    assert isinstance(record.body, RecordsDropped)
    return Base(node=record.node, record_seq=record.seq, dropped=record.body)
