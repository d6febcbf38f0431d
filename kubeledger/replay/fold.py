"""Fold records into a state: the one way from history to state."""

from __future__ import annotations

from collections.abc import Iterable

from kubeledger.model.record import Record
from kubeledger.replay.node.reducer import evolve
from kubeledger.replay.node.state import NodeState


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
