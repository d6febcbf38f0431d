"""The state of a node at an instant: the nearest snapshot before it, and the records between."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kubeledger.errors import BadQuestionError
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.manifest import NodeInfo, Run
from kubeledger.ledger.runs import replay_runs
from kubeledger.machine import Record
from kubeledger.node.reducer import evolve
from kubeledger.node.state import NodeState
from kubeledger.replay.encoding import STATE_VERSION, decode_state
from kubeledger.replay.fold import fold

__all__ = ["choose_node", "nearest_snapshot", "records_behind", "state_at"]


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
        DamagedLedgerError: a record that is needed is not what was written.
    """
    if ts_ns is not None and seq is not None:
        raise BadQuestionError(
            "a time and a record number cannot both be asked for", advice="leave one out"
        )
    node = choose_node(ledger, node)
    info = ledger.info(node)
    if seq is not None and not 0 <= seq <= info.last_seq:
        raise BadQuestionError(
            f"{node} has no record {seq}", advice=f"its records are 1 to {info.last_seq}"
        )
    if seq == 0:
        return NodeState(node=node)
    before = nearest_snapshot(ledger, node, info, ts_ns=ts_ns, seq=seq) if snapshots else None
    state = before or NodeState(node=node)
    if seq is None or state.seq == seq:
        rest = records_behind(ledger, node, info, state, ts_ns) if seq is None else iter(())
        return fold(rest, state)
    for record in records_behind(ledger, node, info, state):
        evolve(state, record)
        if record.seq == seq:
            break
    return state


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
    ledger: Ledger,
    node: str,
    info: NodeInfo,
    *,
    ts_ns: int | None = None,
    seq: int | None = None,
) -> NodeState | None:
    """State of the newest snapshot that lies before the instant; None when there is none."""
    upto_seq = info.last_seq if seq is None else seq
    if ts_ns is not None:
        # Segments know their earliest time: what lies wholly behind the instant need not be
        # looked into.
        begun = [s.last_seq for s in info.segments if s.min_ts_ns is None or s.min_ts_ns <= ts_ns]
        upto_seq = min(upto_seq, max(begun, default=0))
    snapshot = ledger.snapshots(node).newest(
        STATE_VERSION,
        info.runs,
        lambda at: ledger.digest_at(node, at),
        upto_seq=upto_seq,
        upto_ts_ns=ts_ns,
    )
    state = decode_state(snapshot.state) if snapshot is not None else None
    return (
        state if state is not None and snapshot is not None and state.seq == snapshot.seq else None
    )


def records_behind(
    ledger: Ledger, node: str, info: NodeInfo, state: NodeState, upto_ts_ns: int | None = None
) -> Iterator[Record]:
    """Records that follow on ``state`` in the order of replay.

    Args:
        ledger: where they are.
        node: whose.
        info: counts of the node.
        state: of records 1 to ``state.seq``, with which a replay begins.
        upto_ts_ns: stop behind the last record of this time; None: all.
    """
    runs = [_behind(run, state) for run in info.runs if run.last_seq > state.seq]
    # A CRC for each line: whether the chain holds from the first record on is the question of
    # an audit, and no part of it could be answered from here.
    return replay_runs(
        runs, lambda after_seq: ledger.records(node, after_seq, verify="crc"), upto_ts_ns
    )


def _behind(run: Run, state: NodeState) -> Run:
    """The part of a run that is not in the state yet."""
    if run.first_seq > state.seq or state.latest_ts_ns is None:
        return run
    return msgspec.structs.replace(
        run, first_seq=state.seq + 1, first_ts_ns=max(run.first_ts_ns, state.latest_ts_ns)
    )
