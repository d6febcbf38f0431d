"""The walk of an audit along one node's lines: each is proved, and damage does not end it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from kubeledger.ledger.audit_report import ToldLoss
from kubeledger.model.bodies.ledger import ImportCompleted, RecordsDropped, RecordsLost
from kubeledger.model.record import Record
from kubeledger.model.wire.codec import (
    BadLineError,
    chain_of,
    check_crc,
    check_line,
    decode_envelope,
    decode_line,
    next_digest,
)
from kubeledger.model.wire.soundness import flaw_of_values

_NOTED = frozenset({RecordsDropped, RecordsLost, ImportCompleted})


class Fault(NamedTuple):
    """What is wrong with a line, and the number of the record at fault."""

    seq: int
    problem: str


class _Line(NamedTuple):
    """What can be read of a line.

    Attributes:
        digest: the chain digest that is in it; None when none does.
        seq: the number that is in it; None when its bytes are damaged.
        record: None when anything is wrong.
    """

    digest: bytes | None
    seq: int | None
    record: Record | None
    problem: str = ""


class ChainWalk:
    """Lines of one node, one after the other.

    Attributes:
        node: whose lines these should be.
        first_seq: of the first record; None before it.
        seq: of the last line.
        digest: the chain digest after it, 32 raw bytes; empty where it is not known.
        records: lines taken.
        held: those of the digests looked for that stand in a line, with all before it sound.
        last_drop: number and body of the newest record of a drop.
        lost: seq of a record about lost ones -> what it says.
        completed: digests of the imports whose end is there.
    """

    def __init__(
        self, node: str, seq: int, digest: bytes | None, wanted: Collection[str] = ()
    ) -> None:
        """Begin after a record.

        Args:
            seq: its number.
            digest: its chain digest; None where nobody knows it: then the chain is proved
                from the next record on.
            wanted: chain digests to look for, 64 hex digits each.
        """
        self.node = node
        self.first_seq: int | None = None
        self.records = 0
        self.held: set[str] = set()
        self.last_drop: tuple[int, RecordsDropped] | None = None
        self.lost: dict[int, RecordsLost] = {}
        self.completed: set[str] = set()
        self.seq, self.digest = seq, digest or b""
        self._previous = [digest] if digest is not None else []
        self._wanted = frozenset(wanted)
        self._sound = True

    def leap(self, seq: int, digest: bytes | None) -> None:
        """Go on after another record: those between are missing, which is reported elsewhere."""
        self.seq, self.digest = seq, digest or b""
        self._previous = [digest] if digest is not None else []
        self._sound = False

    def take_sound(self, lines: Iterable[bytes]) -> int:
        """Prove the next lines up to the first with which anything is wrong.

        Returns:
            how many were taken; the one after them is for :meth:`take`.
        """
        if len(self._previous) != 1:
            return 0
        seq, digest = self.seq, self._previous[0]
        try:
            for line in lines:
                digest_there, record = check_line(line, digest), decode_line(line)
                if record.seq != seq + 1 or self._flaw(record) is not None:
                    break
                seq, digest = record.seq, digest_there
                if type(record.body) in _NOTED:
                    self._note(record)
                if self._wanted and self._sound and digest.hex() in self._wanted:
                    self.held.add(digest.hex())
        except BadLineError:
            pass
        taken = seq - self.seq
        if taken:
            self.first_seq = self.first_seq or self.seq + 1
            self.records, self.seq, self.digest = self.records + taken, seq, digest
            self._previous = [digest]
        return taken

    def take(self, line: bytes) -> Fault | None:
        """Prove the next line; what is wrong with it, if anything."""
        if self.take_sound((line,)):
            return None
        self.records += 1
        expected = self.seq + 1
        follows = [next_digest(line, previous) for previous in self._previous]
        read = self._read(line, follows)
        self.seq = read.seq or expected
        if self.first_seq is None:
            self.first_seq = self.seq
        self.digest = read.digest or b"".join(follows[:1])
        if read.record is None:
            self._sound = False
            # After a bad line continue from what is in it, or what should (it may be the
            # chain digest that is damaged): one changed line is one finding, not one each.
            self._previous = [digest for digest in (self.digest, *follows[:1]) if digest]
            return Fault(self.seq, read.problem)
        self._previous = [self.digest]
        # The first line of an excerpt is not proved by the chain, but by nothing.
        is_proved = self._sound and follows
        if self._wanted and is_proved and self.digest.hex() in self._wanted:
            self.held.add(self.digest.hex())
        self._note(read.record)
        return None

    def losses(self) -> Iterator[ToldLoss]:
        """What records say is lost; imported again completely since, or not."""
        for seq, lost in self.lost.items():
            yield ToldLoss.of(self.node, seq, lost, healed=lost.is_healed_by(self.completed))

    def _flaw(self, record: Record) -> str | None:
        if (flaw := flaw_of_values(record)) is not None:
            return flaw
        if record.node != self.node:
            return f"it is a record of {record.node}"
        if record.cause is not None and not 0 < record.cause < record.seq:
            return f"its cause, record {record.cause}, is not before it"
        return None

    def _read(self, line: bytes, follows: list[bytes]) -> _Line:
        digest = seq = None
        expected = self.seq + 1
        try:
            digest = chain_of(line)
            check_crc(line)
            envelope = decode_envelope(line)
            seq = envelope.seq
            if seq != expected:
                raise BadLineError(f"it is record {seq}, and {expected} should be here")
            if follows and digest not in follows:
                raise BadLineError("its chain digest does not follow from the lines before it")
            record = decode_line(line)
            if (flaw := self._flaw(record)) is not None:
                raise BadLineError(flaw)
        except BadLineError as error:
            return _Line(digest, seq, None, str(error))
        return _Line(digest, seq, record)

    def _note(self, record: Record) -> None:
        match record.body:
            case RecordsDropped() as body:
                self.last_drop = record.seq, body
            case RecordsLost() as body:
                self.lost[record.seq] = body
            case ImportCompleted() as body:
                self.completed.add(body.digest)
