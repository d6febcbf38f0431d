"""Taking snapshots while records are appended, so that no later question starts at record 1."""

from __future__ import annotations

from collections.abc import Iterable

from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.reading import replays_in_seq_order
from kubeledger.ledger.snapshots import Snapshot
from kubeledger.model.record import Record
from kubeledger.replay.instants import STATE_VERSION, encode_state, nearest_snapshot, state_of_base
from kubeledger.replay.node.reducer import evolve
from kubeledger.replay.node.state import NodeState

SNAPSHOT_EVERY = 2_500
"""Records between two snapshots: what a question costs at most, a tenth of a second."""


class SnapshottingFolder:
    """Folds a node's records in the order of seq and stores the state now and then.

    It begins after the newest snapshot that is good. Records of imports that overlap in
    time are not replayed in the order of seq: from there on no snapshot is stored, for none
    could be used.

    Attributes:
        state: of the records applied so far.
    """

    def __init__(self, ledger: Ledger, node: str, every: int = SNAPSHOT_EVERY) -> None:
        """Begin after the newest snapshot.

        Args:
            ledger: where snapshots are stored.
            node: whose; it need not have a record yet.
            every: records between two snapshots, at least 1.
        """
        self._ledger = ledger
        self._node = node
        self._every = every
        self.state = self._newest()
        self._stored_seq = self.state.seq

    def apply(self, records: Iterable[Record]) -> None:
        """Take in records that are on disk, in the order of seq; those known are passed over.

        Raises:
            LedgerUnavailableError: a snapshot cannot be stored.
            DamagedLedgerError: the ledger cannot be read back.
        """
        for record in records:
            if record.seq <= self.state.seq:
                continue
            evolve(self.state, record)
            if record.seq - self._stored_seq >= self._every:
                self._store()

    def finish(self) -> None:
        """Store the last state, for the question that is asked most: how is it now?

        Raises:
            KubeledgerError: as :meth:`apply`.
        """
        if self.state.seq > self._stored_seq:
            self._store()

    def _newest(self) -> NodeState:
        if self._node not in self._ledger.nodes():
            return NodeState(node=self._node)
        store = self._ledger.snapshots(self._node)
        with self._ledger.reading(self._node) as look:
            return nearest_snapshot(look, store, look.info()) or state_of_base(look)

    def _store(self) -> None:
        state = self.state
        self._stored_seq = state.seq
        info = self._ledger.info(self._node)
        if info.superseded and info.superseded[0][0] <= state.seq:
            return
        latest_ts_ns = state.latest_ts_ns
        if latest_ts_ns is None or not replays_in_seq_order(info.runs, state.seq, latest_ts_ns):
            return
        digest = self._ledger.digest_at(self._node, state.seq)
        if digest is None:
            return
        snapshot = Snapshot(
            seq=state.seq,
            ts_ns=latest_ts_ns,
            version=STATE_VERSION,
            chain=digest.hex(),
            state=encode_state(state),
        )
        self._ledger.snapshots(self._node).save(snapshot)


def refresh_snapshots(ledger: Ledger, node: str, every: int = SNAPSHOT_EVERY) -> NodeState:
    """Read what came since the newest snapshot and store those that are missing.

    Returns:
        The state after the last record, folded in the order of seq.

    Raises:
        KubeledgerError: the ledger cannot be read, or a snapshot not be stored.
    """
    folder = SnapshottingFolder(ledger, node, every)
    folder.apply(ledger.records(node, folder.state.seq))
    folder.finish()
    return folder.state
