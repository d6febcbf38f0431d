"""Are the snapshots what the records give? For an audit, which believes no cache."""

from __future__ import annotations

from collections.abc import Iterator

from kubeledger.ledger.audit_walk import Finding
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.reading import Reading
from kubeledger.ledger.snapshots import SnapshotStore
from kubeledger.model.errors import DamagedLedgerError
from kubeledger.replay.instants import STATE_VERSION, encode_state, state_of_base
from kubeledger.replay.node.reducer import evolve
from kubeledger.replay.node.state import NodeState


def prove_snapshots(ledger: Ledger) -> Iterator[Finding]:
    """Fold each node's records once, and compare the state at each snapshot's record.

    A snapshot whose bytes or chain digest do not fit is the audit's matter; one of another
    form is not used.

    Args:
        ledger: its records are proved.

    Raises:
        KubeledgerError: the records cannot be read.
    """
    for node in ledger.nodes():
        with ledger.reading(node) as look:
            yield from _prove(look, ledger.snapshots(node))


def _prove(look: Reading, store: SnapshotStore) -> Iterator[Finding]:
    kept = [seq for seq in store.seqs() if seq > look.begin.seq]
    wanted = {seq for seq in kept if store.load(seq, STATE_VERSION) is not None}
    if not wanted:
        return
    try:
        state = state_of_base(look)
    except DamagedLedgerError as error:
        for seq in sorted(wanted):
            yield _find(look, store, seq, f"it cannot be proved: {error.message}")
        return
    last_seq = max(wanted)
    for record in look.records(verify="crc"):
        evolve(state, record)
        if record.seq in wanted and not _holds(store, record.seq, state):
            yield _find(look, store, record.seq, "it is not the state that the records give")
        if record.seq >= last_seq:
            break


def _holds(store: SnapshotStore, seq: int, state: NodeState) -> bool:
    snapshot = store.load(seq, STATE_VERSION)
    if snapshot is None:  # removed in this moment
        return True
    return (snapshot.ts_ns, snapshot.state) == (state.latest_ts_ns, encode_state(state))


def _find(look: Reading, store: SnapshotStore, seq: int, problem: str) -> Finding:
    return Finding(
        node=look.node,
        file=str(store.path(seq)),
        offset=None,
        seq=seq,
        problem=f"{problem}; no record is lost, remove this snapshot",
    )
