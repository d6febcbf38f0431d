"""The walk of an audit along a node's lines, in a ledger or a file, which damage does not end."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
import zstandard

from kubeledger.ledger.base import Base
from kubeledger.ledger.segments import Lines, lines_of
from kubeledger.ledger.standalone import blocks_of_recording
from kubeledger.model.bodies.ledger import ImportCompleted, RecordsDropped, RecordsLost
from kubeledger.model.errors import BadInputError, reason_of
from kubeledger.model.record import Record
from kubeledger.model.wire.catalogue import flaw_of_values
from kubeledger.model.wire.codec import (
    GENESIS,
    BadLineError,
    chain_of,
    check_crc,
    count_chained,
    decode_envelope,
    decode_line,
    next_digest,
)


class Finding(msgspec.Struct, frozen=True):
    """Something that is not as it was written.

    Attributes:
        node: whose; None for the ledger itself.
        file: path; ``offset`` a byte offset in its (decompressed) lines, None for the whole.
        seq: the record at fault, if it is one; ``line`` its 1-based number in ``file``.
        problem: one sentence.
        is_loss: records are missing, which is known; those that are there are sound.
    """

    node: str | None
    file: str
    offset: int | None
    seq: int | None
    problem: str
    line: int | None = None
    is_loss: bool = False


class Tail(msgspec.Struct, frozen=True, kw_only=True):
    """An unfinished write after the last record, as a crash leaves it: no damage."""

    file: str
    offset: int
    size_bytes: int

    @property
    def phrase(self) -> str:
        """What it is, as a clause."""
        return (
            f"after the last record are {self.size_bytes} bytes of an unfinished write "
            f"({self.file}@{self.offset}): not damage, the next writer cuts them off"
        )


class ToldLoss(msgspec.Struct, frozen=True):
    """Acknowledged records that a recovery did not find.

    Attributes:
        first_seq, last_seq: the numbers that they had; these were given out again.
        chain: chain digest of the last of them, 64 hex digits.
        seq: the record that says so; None while none does.
        healed: they were records of imports that have been made again completely since.
        phrase: all this as a clause.
    """

    first_seq: int
    last_seq: int
    chain: str
    seq: int | None
    healed: bool
    phrase: str

    @classmethod
    def of(cls, node: str, seq: int | None, lost: RecordsLost, *, healed: bool) -> ToldLoss:
        """What a record says, or what the next writer will record."""
        phrase = f"{lost.phrase(node)} (chain {lost.chain})"
        if healed:
            phrase += "; imported again completely since: nothing of these imports is missing"
        return cls(lost.first_seq, lost.last_seq, lost.chain, seq, healed, phrase)


def finding_of_loss(node: str, file: str, loss: ToldLoss) -> Finding:
    """What to do about a loss that is not healed, nobody knows; but it is reported each time."""
    return Finding(node, file, None, loss.seq or loss.last_seq, loss.phrase, is_loss=True)


class NodeAudit(msgspec.Struct, frozen=True, kw_only=True):
    """What was proved of one node.

    Attributes:
        source: the ledger's directory, or the recording.
        first_seq, last_seq: numbers of the first one there and of the last.
        dropped: what was dropped before the first one, and by what; None when nothing was.
        head: its chain digest, 64 hex digits: keep it elsewhere, and a later audit can be
            held against it. Of no use when there are findings.
        holds: those of the digests asked for that stand in a proved record.
        losses: what recoveries did not find.
        tail: what follows the last record; None when nothing does.
    """

    node: str
    source: str
    records: int
    first_seq: int = 1
    last_seq: int
    head: str
    dropped: Base | None = None
    holds: tuple[str, ...] = ()
    losses: tuple[ToldLoss, ...] = ()
    tail: Tail | None = None


class AuditReport(msgspec.Struct, frozen=True, kw_only=True):
    """Result of an audit; what is sound has no findings."""

    nodes: tuple[NodeAudit, ...]
    findings: tuple[Finding, ...]


# The walk of an audit along one node's lines: each is proved, and damage does not end it.

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

    def take_sound(self, lines: Sequence[bytes]) -> int:
        """Prove the next lines up to the first with which anything is wrong.

        Returns:
            how many were taken; the one after them is for :meth:`take`.
        """
        if len(self._previous) != 1:
            return 0
        chained, _ = count_chained(lines, self._previous[0])
        taken = 0
        with suppress(BadLineError):
            for line in lines[:chained]:
                record = decode_line(line)
                if record.seq != self.seq + taken + 1 or self._flaw(record) is not None:
                    break
                taken += 1
                if type(record.body) in _NOTED:
                    self._note(record)
                if self._wanted and self._sound:
                    self.held.update({chain_of(line).hex()} & self._wanted)
        if taken:
            self.first_seq = self.first_seq or self.seq + 1
            self.records, self.seq = self.records + taken, self.seq + taken
            self.digest = chain_of(lines[taken - 1])
            self._previous = [self.digest]
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


# Audit of a file of records: the same walk as along a ledger's segments, a node at a time.

_BEGIN = re.compile(rb'\{"node":("(?:[^"\\]|\\.)*"),"seq":(\d{1,19}),')


def audit_recording(path: Path, wanted: Collection[str] = ()) -> AuditReport:
    """Check each line of a ``*.ledger.jsonl`` file, or of a ``.zst`` of it.

    A node may begin at any record (an excerpt): its chain is proved from there on.

    Args:
        wanted: chain digests to look for, 64 hex digits each.

    Raises:
        BadInputError: it cannot be read, or holds no record at all.
    """
    auditor = _Auditor(path, wanted)
    try:
        with path.open("rb") as file:
            auditor.run(lines_of(blocks_of_recording(file)))
    except OSError as error:
        reason = reason_of(error).lower()
        raise BadInputError(f"cannot be read: {reason}", file=str(path)) from error
    return auditor.report()


class _Auditor:
    """One pass over a file, whose lines may be of several nodes."""

    def __init__(self, path: Path, wanted: Collection[str]) -> None:
        self.file = str(path)
        self.wanted = wanted
        self.walks: dict[str, ChainWalk] = {}
        self.findings: list[Finding] = []
        self.walk: ChainWalk | None = None
        self.line, self.offset = 1, 0

    def run(self, pieces: Iterator[Lines]) -> None:
        try:
            for piece in pieces:
                for line in piece.lines:
                    self._line(line)
                    self.offset += len(line)
                    self.line += 1
                if piece.rest:
                    self._find("the file ends inside a record")
        except (EOFError, zstandard.ZstdError) as error:
            self._find(f"the compressed file is damaged: {error}")

    def report(self) -> AuditReport:
        """What was proved.

        Raises:
            BadInputError: no line was of any node.
        """
        if not self.walks:
            problem = self.findings[0].problem if self.findings else "it is empty"
            raise BadInputError(
                f"it has no record: {problem}",
                advice="a recording holds lines of a ledger, as `kubeledger export` writes them",
                file=self.file,
            )
        nodes = [self._node(walk) for _, walk in sorted(self.walks.items())]
        return AuditReport(nodes=tuple(nodes), findings=tuple(self.findings))

    def _line(self, line: bytes) -> None:
        self.walk = walk = self._walk_of(line)
        if walk is None:
            self._find("not a record")
            return
        fault = walk.take(line)
        if fault is not None:
            self._find(fault.problem, fault.seq)

    def _walk_of(self, line: bytes) -> ChainWalk | None:
        """Whose line it is: its node's; where its bytes are damaged, that of the line before."""
        begin = _BEGIN.match(line)
        if begin is None:
            return self.walk
        try:
            node = msgspec.json.decode(begin[1], type=str)
            if node not in self.walks:
                check_crc(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, BadLineError):
            return self.walk
        if node not in self.walks:
            seq = int(begin[2]) - 1
            digest = None if seq else GENESIS
            self.walks[node] = ChainWalk(node, seq, digest, self.wanted)
        return self.walks[node]

    def _node(self, walk: ChainWalk) -> NodeAudit:
        return NodeAudit(
            node=walk.node,
            source=self.file,
            records=walk.records,
            first_seq=walk.first_seq or 1,
            last_seq=walk.seq,
            head=walk.digest.hex(),
            holds=tuple(sorted(walk.held)),
            losses=tuple(self._losses(walk)),
        )

    def _losses(self, walk: ChainWalk) -> Iterator[ToldLoss]:
        for loss in walk.losses():
            if not loss.healed:
                self.findings.append(finding_of_loss(walk.node, self.file, loss))
            yield loss

    def _find(self, problem: str, seq: int | None = None) -> None:
        """Something is wrong with the present line."""
        node = self.walk.node if self.walk else None
        if self.walk and seq is None:
            seq = self.walk.seq + 1
        found = Finding(node, self.file, self.offset, seq, problem, self.line)
        self.findings.append(found)
