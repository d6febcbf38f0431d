"""Reducers one record at a time."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from kubeledger.model.record import Body, Record

StateT = TypeVar("StateT")


def evolver(
    handlers: Mapping[type[Body], Callable[[StateT, int, Any], None]],
) -> Callable[[StateT, Record], StateT]:
    """Apply one record to the state of a subsystem, as the node's reducer does."""

    def evolve(state: StateT, record: Record) -> StateT:
        handler = handlers.get(type(record.body))
        if handler is not None:
            handler(state, record.ts_ns, record.body)
        return state

    return evolve
