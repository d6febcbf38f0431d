"""Are the snapshots what the records give? For an audit, which believes no cache."""

from __future__ import annotations

from itertools import islice

from kubeledger.ledger.audit_walk import Finding
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.errors import DamagedLedgerError
from kubeledger.model.record import Record
from kubeledger.replay.instants import STATE_VERSION, encode_state, state_of_base
from kubeledger.replay.node.reducer import evolve
from kubeledger.replay.node.state import NodeState


class SnapshotProof:
    """Folds a node's records once, and compares the state at each snapshot's record.

    A snapshot whose bytes or chain digest do not fit is the audit's matter; one of another
    form is not used. Whoever reads the records for something else shows them to :meth:`take`.

    Raises:
        KubeledgerError: the records cannot be read.
    """

    def __init__(self, ledger: Ledger, node: str) -> None:
        self._store = ledger.snapshots(node)
        self._ledger = ledger
        self._node = node
        self._found: list[Finding] = []
        self._state = NodeState()
        with ledger.reading(node) as look:
            self._next_seq = look.begin.seq + 1
            kept = [seq for seq in self._store.seqs() if seq >= self._next_seq]
            self._wanted = {s for s in kept if self._store.load(s, STATE_VERSION) is not None}
            if self._wanted:
                try:
                    self._state = state_of_base(look)
                except DamagedLedgerError as error:
                    for seq in sorted(self._wanted):
                        self._find(seq, f"it cannot be proved: {error.message}")
                    self._wanted.clear()
        self._last_seq = max(self._wanted, default=0)

    def take(self, record: Record) -> None:
        """Take in a record that follows on the last one; no other counts."""
        if not self._next_seq == record.seq <= self._last_seq:
            return
        self._next_seq += 1
        evolve(self._state, record)
        if record.seq in self._wanted and not self._holds(record.seq):
            self._find(record.seq, "it is not the state that the records give")

    def findings(self) -> list[Finding]:
        """What is wrong; records that were not shown are read."""
        if self._next_seq <= self._last_seq:
            with self._ledger.reading(self._node) as look:
                records = look.records(self._next_seq - 1, verify="crc")
                for record in islice(records, self._last_seq - self._next_seq + 1):
                    self.take(record)
        return self._found

    def _holds(self, seq: int) -> bool:
        snapshot, state = self._store.load(seq, STATE_VERSION), self._state
        if snapshot is None:  # removed in this moment
            return True
        return (snapshot.ts_ns, snapshot.state) == (state.latest_ts_ns, encode_state(state))

    def _find(self, seq: int, problem: str) -> None:
        text = f"{problem}; no record is lost, remove this snapshot"
        self._found.append(Finding(self._node, str(self._store.path(seq)), None, seq, text))
