"""The Python door to a ledger: ``kubeledger.open(path)``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kubeledger.errors import BadQuestionError
from kubeledger.ledger.ledger import Ledger
from kubeledger.machine import Record
from kubeledger.units import parse_ts

if TYPE_CHECKING:
    from kubeledger.ledger.batch import Draft
    from kubeledger.node.state import NodeState
    from kubeledger.query.api import Queryable, Rows
    from kubeledger.verify import Outcome

__all__ = ["OpenLedger", "open_ledger"]


def open_ledger(path: str | Path) -> OpenLedger:
    """Open the ledger at ``path``, or make one if nothing is there.

    Raises:
        BadQuestionError: something else is there.
        DamagedLedgerError: it was written by a newer version.
    """
    return OpenLedger(Ledger.open_or_create(path))


class OpenLedger:
    """A ledger: append, read, replay and query it. Use it as a context manager to close it.

    Attributes:
        ledger: the storage behind it, for what has no short form here.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
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
    def nodes(self) -> list[str]:
        """Names of the nodes with records, sorted."""
        return self.ledger.nodes()

    def append(self, node: str, drafts: Iterable[Draft]) -> list[int]:
        """Append drafts of records of one node as one durable batch.

        Returns:
            (n,) their sequence numbers; they are on disk when this returns.
        """
        with self.ledger.writer() as writer:
            return writer.append(node, drafts)

    def records(self, node: str | None = None, after_seq: int = 0) -> Iterator[Record]:
        """Records in the order of their numbers, one node after the other."""
        return self.ledger.records(node, after_seq)

    def state(
        self, at: str | int | None = None, *, node: str | None = None, seq: int | None = None
    ) -> NodeState:
        """State of a node at an instant.

        Args:
            at: RFC 3339 text or nanoseconds since the epoch; None for the latest.
            node: whose; may be left out where the ledger holds only one.
            seq: the state after this record instead of at a time.
        """
        from kubeledger.replay import state_at

        ts_ns = parse_ts(at) if isinstance(at, str) else at
        return state_at(self.ledger, self._chosen(node), ts_ns=ts_ns, seq=seq)

    def _chosen(self, node: str | None) -> str:
        nodes = self.nodes if node is None else [node]
        if len(nodes) != 1:
            raise BadQuestionError(
                f"the ledger holds {len(nodes)} nodes", advice="say which with node=NAME"
            )
        return nodes[0]

    def verify(self, *, node: str | None = None) -> Iterator[Outcome]:
        """Decide every recorded decision again, one node after the other.

        Yields:
            findings, one a decision, and contradictions; see :mod:`kubeledger.verify`.
        """
        from kubeledger.replay.histories import histories_of_ledger

        for history in histories_of_ledger(self.ledger, node):
            yield from history.verify()

    def sql(self, query: str, params: Mapping[str, Any] | None = None) -> Rows:
        """Run one read-only query over the views."""
        if self._queryable is None:
            from kubeledger.query.api import connect

            self._queryable = connect(self.ledger.path)
        return self._queryable.sql(query, params)
