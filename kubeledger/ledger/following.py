"""Records as they are appended, for a reader beside the writer."""

from __future__ import annotations

from collections.abc import Iterator

from kubeledger.ledger.ledger import Ledger
from kubeledger.model.record import Record


class Following:
    """Follows a ledger from now on.

    Attributes:
        seen: node -> the last record that was there, or was given.
    """

    def __init__(self, ledger: Ledger, node: str | None = None) -> None:
        """Take down how far each node is.

        Args:
            ledger: which may have no node yet.
            node: only this one; None: all, and those that come.

        Raises:
            KubeledgerError: as the ledger's.
        """
        self._ledger = ledger
        self._node = node
        self.seen = {name: ledger.info(name).last_seq for name in self._names()}

    def new(self) -> Iterator[Record]:
        """Records that were appended since, in the order of seq, one node after the other.

        What a later record supersedes is given, too: it was not yet when it was appended.

        Raises:
            KubeledgerError: as the ledger's.
        """
        for name in self._names():
            for record in self._ledger.records(name, self.seen.get(name, 0), superseded=True):
                self.seen[name] = record.seq
                yield record

    def _names(self) -> list[str]:
        return self._ledger.nodes() if self._node is None else [self._node]
