"""Reducers one record at a time."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import pytest

from kubeledger.model.record import Body, Record
from tests.replay.strategies import record

StateT = TypeVar("StateT")
Histories = dict[str, list[Body | dict[str, object]]]
"""Records, and what is known after those above it: paths to fields of the state, and values."""


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


def told_by(
    histories: Histories, new: Callable[[], StateT], evolve: Callable[[StateT, Record], StateT]
) -> Callable[[str], None]:
    """The test of all histories; what stands at the n-th place happens at second n."""

    @pytest.mark.parametrize("name", histories)
    def test(name: str) -> None:
        state = new()
        for seq, each in enumerate(histories[name], 1):
            if isinstance(each, Body):
                state = evolve(state, record(seq, each))
            else:
                assert {path: look(state, path) for path in each} == each

    return test


def look(state: object, path: str) -> object:
    """``u.c.running`` of pod u's container c, ``names`` of all; ``keys`` are those of a mapping."""
    for name in path.split("."):
        inner = (getattr(state, each, ()) for each in ("pods", "containers"))
        state = next((each for each in inner if name in each), state)
        if isinstance(state, Mapping):
            state = set(state) if name == "keys" else state[name]
        else:
            found = getattr(state, name)
            state = found() if callable(found) else found
    return state
