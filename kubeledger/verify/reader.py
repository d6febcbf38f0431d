"""How the records of a node are read: from the first on, as often as one likes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from kubeledger.model.record import Record
from kubeledger.replay.node.state import NodeState

Reader = Callable[[Collection[str] | None], Iterator[Record]]
"""Opens the records of a node from the first on, in the order of replay: all of them, or (the
argument) only those of some kinds, then in any order."""


class BasedReader:
    """A reader of records that follow on a state, for those before them were dropped.

    Attributes:
        read: opens the records that follow.
        carried: (n,) some of those dropped, on which later decisions rest. Who asks for their
            kinds is given them first; who asks for all records is not.
        state: gives a new copy of the state at each call; it holds what is carried already.
    """

    def __init__(
        self, read: Reader, carried: Sequence[Record], state: Callable[[], NodeState]
    ) -> None:
        """Nothing is read yet."""
        self.read = read
        self.carried = carried
        self.state = state

    def __call__(self, kinds: Collection[str] | None) -> Iterator[Record]:
        """As :data:`Reader`."""
        if kinds is not None:
            yield from (record for record in self.carried if record.kind in kinds)
        yield from self.read(kinds)
