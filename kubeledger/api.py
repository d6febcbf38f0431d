"""The Python door to a ledger: ``kubeledger.open(path)``."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kubeledger.clock import parse_time
from kubeledger.errors import BadInputError, BadQuestionError
from kubeledger.ledger.batch import Draft
from kubeledger.ledger.ledger import Ledger
from kubeledger.machine import Record

if TYPE_CHECKING:
    from kubeledger.ledger.writer import LedgerWriter
    from kubeledger.node.state import NodeState
    from kubeledger.query.api import Queryable, Rows
    from kubeledger.verify import Outcome

__all__ = ["OpenLedger", "open_ledger"]

_BATCH = 1000


def open_ledger(path: str | Path) -> OpenLedger:
    """Open the ledger at ``path``; where nothing is there, the first append makes one.

    Raises:
        BadQuestionError: something else is there.
        DamagedLedgerError: it was written by a newer version.
    """
    there = Path(path)
    if there.exists() and not (there.is_dir() and not any(there.iterdir())):
        Ledger.open(there)
    return OpenLedger(there)


class OpenLedger:
    """A ledger: append, read, replay and query it. Use it as a context manager to close it.

    Attributes:
        path: its directory.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._queryable: Queryable | None = None

    def __enter__(self) -> OpenLedger:
        """Nothing is held open before it is needed."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """Let go of the query engine, if one was started."""
        if self._queryable is not None:
            self._queryable.close()
            self._queryable = None

    @property
    def ledger(self) -> Ledger:
        """The storage behind it, for what has no short form here.

        Raises:
            BadQuestionError: nothing was appended yet, so there is none.
        """
        return Ledger.open(self.path)

    @property
    def nodes(self) -> list[str]:
        """Names of the nodes with records, sorted."""
        return self.ledger.nodes()

    def append(self, records: Iterable[Record | Draft], *, node: str | None = None) -> list[int]:
        """Append records; they are on disk when this returns.

        A thousand records of one node in succession are one batch: if one of them cannot be
        stored, none of its batch is, and all before it are.

        Args:
            records: records as another ledger or recording gave them, each with the number
                that its node has next, so that causes still hold; or drafts, which have none.
            node: whose, for drafts.

        Returns:
            (n,) their numbers.

        Raises:
            BadInputError: a record cannot be stored, or has another number than the next.
            BadQuestionError: drafts without a node.
            LedgerBusyError: another writer is at work.
            LedgerUnavailableError: disk full and the like.
        """
        seqs: list[int] = []
        with Ledger.open_or_create(self.path).writer() as writer:
            for name, run in groupby(records, lambda record: _node_of(record, node)):
                for batch in writer.append_batches(name, _batches(writer, name, run)):
                    seqs += batch
        return seqs

    def records(
        self,
        node: str | None = None,
        after_seq: int = 0,
        *,
        kinds: Collection[str] | None = None,
    ) -> Iterator[Record]:
        """Records in the order of their numbers, one node after the other, each proved.

        Args:
            node: whose; None: all nodes'.
            after_seq: only those with a higher number.
            kinds: only those of these kinds.

        Raises:
            BadQuestionError: no such node.
            DamagedLedgerError: a record is not what was written; all before it were.
        """
        return self.ledger.records(node, after_seq, kinds=kinds)

    def state(
        self, at: str | int | None = None, *, node: str | None = None, seq: int | None = None
    ) -> NodeState:
        """State of a node at an instant.

        Args:
            at: a time as the command line takes it (``2026-11-21T03:07``, ``03:07``, ``+5m``),
                or nanoseconds since the epoch; None for the latest record.
            node: whose; may be left out where the ledger holds only one.
            seq: the state after this record instead of at a time.

        Raises:
            BadQuestionError: no such time, node or record, or several nodes and none named.
        """
        from kubeledger.replay import state_at

        ledger = self.ledger
        span = partial(ledger.span, node)
        ts_ns = parse_time(at, span) if isinstance(at, str) else at
        return state_at(ledger, node, ts_ns=ts_ns, seq=seq)

    def verify(self, *, node: str | None = None) -> Iterator[Outcome]:
        """Decide every recorded decision again, one node after the other.

        Returns:
            findings, one a decision, and contradictions; see :mod:`kubeledger.verify`.

        Raises:
            BadQuestionError: no such node, or no record at all.
        """
        from kubeledger.replay.histories import histories_of_ledger

        histories = histories_of_ledger(self.ledger, node)
        return chain.from_iterable(history.verify() for history in histories)

    def sql(self, query: str, params: Mapping[str, Any] | None = None) -> Rows:
        """Run one read-only query over the views."""
        if self._queryable is None:
            from kubeledger.query.api import connect

            self._queryable = connect(self.path)
        return self._queryable.sql(query, params)


def _node_of(record: Record | Draft, node: str | None) -> str:
    name = record.node if isinstance(record, Record) else node
    if name is None:
        raise BadQuestionError("drafts do not say whose they are", advice="say so with node=NAME")
    return name


def _batches(
    writer: LedgerWriter, node: str, records: Iterator[Record | Draft]
) -> Iterator[list[Draft]]:
    seq = writer.next_seq(node)
    while batch := list(islice(records, _BATCH)):
        yield [_draft(record, number) for number, record in enumerate(batch, seq)]
        seq += len(batch)


def _draft(record: Record | Draft, seq: int) -> Draft:
    if isinstance(record, Draft):
        return record
    if record.seq != seq:
        raise BadInputError(f"record {record.seq} of {record.node}: the next one is {seq}")
    return Draft(record.ts_ns, record.body, record.evidence, record.cause)
