"""What an audit says of records: what was proved, and what does not fit."""

from __future__ import annotations

import msgspec

from kubeledger.ledger.base import Base
from kubeledger.model.bodies.ledger import RecordsLost


class Finding(msgspec.Struct, frozen=True, kw_only=True):
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
    """An unfinished write after the last record, as a crash leaves it: no damage.

    Attributes:
        file, offset: where it begins.
        size_bytes: of it.
    """

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


class ToldLoss(msgspec.Struct, frozen=True, kw_only=True):
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
        return cls(
            first_seq=lost.first_seq,
            last_seq=lost.last_seq,
            chain=lost.chain,
            seq=seq,
            healed=healed,
            phrase=phrase,
        )


def finding_of_loss(node: str, file: str, loss: ToldLoss) -> Finding:
    """What to do about a loss that is not healed, nobody knows; but it is reported each time."""
    return Finding(
        node=node,
        file=file,
        offset=None,
        seq=loss.seq or loss.last_seq,
        problem=loss.phrase,
        is_loss=True,
    )


class NodeAudit(msgspec.Struct, frozen=True, kw_only=True):
    """What was proved of one node.

    Attributes:
        source: the ledger's directory, or the recording.
        records: how many lines were read.
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
