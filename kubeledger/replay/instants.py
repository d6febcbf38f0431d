"""The state of a node at an instant: the nearest snapshot before it, and the records between."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import msgspec

from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.manifest import NodeInfo, Run
from kubeledger.ledger.reading import DroppedMeanwhileError, Reading
from kubeledger.ledger.runs import replay_runs
from kubeledger.ledger.snapshots import SnapshotStore
from kubeledger.ledger.superseded import is_superseded
from kubeledger.model.errors import BadQuestionError
from kubeledger.model.record import Record
from kubeledger.model.units import format_ts
from kubeledger.replay.bases import state_of_base
from kubeledger.replay.encoding import STATE_VERSION, decode_state
from kubeledger.replay.fold import fold
from kubeledger.replay.node.reducer import evolve
from kubeledger.replay.node.state import NodeState

_ATTEMPTS = 3


def state_at(
    ledger: Ledger,
    node: str | None = None,
    *,
    ts_ns: int | None = None,
    seq: int | None = None,
    snapshots: bool = True,
) -> NodeState:
    """Rebuild the state of a node; without ``ts_ns`` and ``seq`` as of its last record.

    Args:
        ledger: where its records are.
        node: its name; may be left out where the ledger holds only one.
        ts_ns: what was so at this time: all records up to it, itself included.
        seq: what was so after this record, in the order of time; 0 is before the first.
        snapshots: use them; without, everything is replayed. The state is the same.

    Raises:
        BadQuestionError: no such node or record, no node named where there are several, or
            both ``ts_ns`` and ``seq`` are given.
        RecordsDroppedError: the instant lies before the node's base.
        DamagedLedgerError: a record that is needed is not what was written.
    """
    if ts_ns is not None and seq is not None:
        raise BadQuestionError(
            "a time and a record number cannot both be asked for", advice="leave one out"
        )
    node = choose_node(ledger, node)
    for _ in range(_ATTEMPTS):
        with suppress(DroppedMeanwhileError):
            return _state_at(ledger, node, ts_ns, seq, snapshots=snapshots)
    return _state_at(ledger, node, ts_ns, seq, snapshots=snapshots)


def _state_at(
    ledger: Ledger, node: str, ts_ns: int | None, seq: int | None, *, snapshots: bool
) -> NodeState:
    with ledger.reading(node) as look:
        info = look.info()
        _refuse_what_is_not_there(look, info, ts_ns, seq)
        if seq == 0:
            return NodeState(node=look.node)
        store = ledger.snapshots(look.node)
        before = nearest_snapshot(look, store, info, ts_ns=ts_ns, seq=seq) if snapshots else None
        state = before or state_of_base(look)
        if seq is None or state.seq == seq:
            return fold(records_after(look, info, state, ts_ns) if seq is None else (), state)
        for record in records_after(look, info, state):
            evolve(state, record)
            if record.seq == seq:
                break
        return state


def _refuse_what_is_not_there(
    look: Reading, info: NodeInfo, ts_ns: int | None, seq: int | None
) -> None:
    base = look.begin.base
    if seq is not None and not 0 <= seq <= info.last_seq:
        raise BadQuestionError(
            f"{look.node} has no record {seq}",
            advice=f"its records are {look.begin.seq + 1} to {info.last_seq}",
        )
    if seq is not None and is_superseded(seq, info.superseded):
        raise BadQuestionError(
            f"record {seq} was superseded by a later import, so no state follows from it",
            advice="ask for a record that holds (`kubeledger ls`), or for a time",
        )
    if base is None:
        return
    if seq is not None and 0 < seq < look.begin.seq:
        raise base.refusal(f"the state after record {seq} cannot be rebuilt")
    if ts_ns is not None and ts_ns < base.dropped.latest_ts_ns:
        raise base.refusal(f"the state at {format_ts(ts_ns)} cannot be rebuilt")


def choose_node(ledger: Ledger, node: str | None) -> str:
    """The node asked for, or the only one there is.

    Raises:
        BadQuestionError: there is no such node, or none was named and there are several or none.
    """
    nodes = ledger.nodes()
    if node in nodes or (node is None and len(nodes) == 1):
        return node or nodes[0]
    if not nodes:
        raise BadQuestionError(
            f"{ledger.path} holds no records yet", advice="take some in with `kubeledger import`"
        )
    if node is not None:
        raise BadQuestionError(
            f"no node {node!r} in {ledger.path}", advice=f"there are: {', '.join(nodes)}"
        )
    raise BadQuestionError(
        f"{ledger.path} holds {len(nodes)} nodes: {', '.join(nodes)}",
        advice="name one of them with --node",
    )


def nearest_snapshot(
    look: Reading,
    store: SnapshotStore,
    info: NodeInfo,
    *,
    ts_ns: int | None = None,
    seq: int | None = None,
) -> NodeState | None:
    """State of the newest snapshot that lies before the instant; None when there is none."""
    upto_seq = info.last_seq if seq is None else seq
    if info.superseded:  # what was folded then may hold no more
        upto_seq = min(upto_seq, info.superseded[0][0] - 1)
    if ts_ns is not None:
        # Segments know their earliest time: what lies wholly after the instant need not be
        # looked into.
        begun = [s.last_seq for s in info.segments if s.min_ts_ns is None or s.min_ts_ns <= ts_ns]
        upto_seq = min(upto_seq, max(begun, default=0))
    snapshot = store.newest(
        STATE_VERSION,
        info.runs,
        look.digest_at,
        after_seq=look.begin.seq,
        upto_seq=upto_seq,
        upto_ts_ns=ts_ns,
    )
    state = decode_state(snapshot.state) if snapshot is not None else None
    return (
        state if state is not None and snapshot is not None and state.seq == snapshot.seq else None
    )


def records_after(
    look: Reading, info: NodeInfo, state: NodeState, upto_ts_ns: int | None = None
) -> Iterator[Record]:
    """Records that follow on ``state`` in the order of replay.

    Args:
        info: counts of the node.
        state: of records 1 to ``state.seq``, with which a replay begins.
        upto_ts_ns: stop after the last record of this time; None: all.
    """
    runs = [_after(run, state) for run in info.runs if run.last_seq > state.seq]
    return replay_runs(runs, look.records, upto_ts_ns, info.superseded)


def _after(run: Run, state: NodeState) -> Run:
    """The part of a run that is not in the state yet."""
    if run.first_seq > state.seq or state.latest_ts_ns is None:
        return run
    return msgspec.structs.replace(
        run, first_seq=state.seq + 1, first_ts_ns=max(run.first_ts_ns, state.latest_ts_ns)
    )
