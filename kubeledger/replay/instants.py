"""The state of a node at an instant: the nearest snapshot or base, and the records after it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import msgspec

from kubeledger.ledger.base import BaseContent, content_path
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.manifest import NodeInfo, Run, is_superseded
from kubeledger.ledger.reading import DroppedMeanwhileError, Reading, replay_runs
from kubeledger.ledger.snapshots import SnapshotStore
from kubeledger.model.errors import BadQuestionError, DamagedLedgerError
from kubeledger.model.record import Record
from kubeledger.model.units import format_ts
from kubeledger.replay.node.reducer import evolve
from kubeledger.replay.node.state import STATE_SCHEMA, NodeState


def fold(records: Iterable[Record], state: NodeState | None = None) -> NodeState:
    """Apply records in the order they come.

    Args:
        state: the state before the first of them, changed in place; None for a new one.

    Returns:
        The state after the last of them.
    """
    state = NodeState() if state is None else state
    for record in records:
        evolve(state, record)
    return state


# A snapshot's bytes: the state as JSON, under the version of its structures.

STATE_VERSION = f"node-state-{STATE_SCHEMA}"
"""What a snapshot says its bytes are; one of another version is not used."""

_encode = msgspec.json.Encoder(order="deterministic").encode


@cache
def _decoder() -> msgspec.json.Decoder[NodeState]:
    return msgspec.json.Decoder(NodeState)  # few ask for it, and to make it takes a while


def encode_state(state: NodeState) -> bytes:
    """The same state gives the same bytes; they share nothing with ``state``."""
    return _encode(state)


def decode_state(data: bytes) -> NodeState | None:
    """The state, or None when the bytes are none.

    Snapshots only save time: a reader that cannot use one replays from further back.
    """
    try:
        return _decoder().decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


# The state at a base: what later records follow on once the earlier ones were dropped.


def state_of_base(look: Reading) -> NodeState:
    """The state before the node's first record: an empty one where nothing was dropped.

    Raises:
        DamagedLedgerError: the state at the base is gone, damaged, or of another version.
        LedgerUnavailableError: a drop came meanwhile.
    """
    content = look.content()
    if content is None:
        return NodeState(node=look.node)
    return decoded_base(look.directory, content)


def decoded_base(directory: Path, content: BaseContent) -> NodeState:
    """A new copy of the state that a node's base kept.

    Raises:
        DamagedLedgerError: it is of another version.
    """
    state = decode_state(content.state) if content.version == STATE_VERSION else None
    if state is None or state.seq != content.seq:
        raise DamagedLedgerError(
            f"the state after dropped records is of another form ({content.version}, this "
            f"kubeledger knows {STATE_VERSION})",
            advice="use the version of kubeledger that dropped them; records can be read and "
            "audited without it",
            file=str(content_path(directory, content.seq)),
        )
    return state


# Excerpts: some records of a history as a history of their own.


def renumbered(records: Iterable[Record]) -> Iterator[Record]:
    """The same records numbered from 1 without a gap, each node on its own.

    A cause that was left out is none any more.
    """
    numbers: dict[tuple[str, int], int] = {}
    lasts: dict[str, int] = {}
    for record in records:
        seq = lasts.get(record.node, 0) + 1
        lasts[record.node] = numbers[record.node, record.seq] = seq
        cause = numbers.get((record.node, record.cause)) if record.cause is not None else None
        yield msgspec.structs.replace(record, seq=seq, cause=cause)


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
    state = None if snapshot is None else decode_state(snapshot.state)
    return state if snapshot and state and state.seq == snapshot.seq else None


def records_after(
    look: Reading, info: NodeInfo, state: NodeState, upto_ts_ns: int | None = None
) -> Iterator[Record]:
    """Records that follow on ``state`` in the order of replay.

    Args:
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
