"""The frame of a verifier: which records it wants to see, and when.

    prescans   first reading, all of a ledger: facts that later records show earlier times
    sees       second reading, in the order of replay, before the record changes the state
    settle     after the last record

A verifier of a decision calls :meth:`VerifyContext.find` once for it, then or later. Verifiers do
not know each other: what one needs of another's subsystem is in the node's state, or it looks at
the same records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from kubeledger.model.record import Body, Decision, Record
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.context import VerifyContext

Prescan = Callable[[Record, Any], None]
"""(record, its body)."""
See = Callable[[Record, Any, NodeState], None]
"""(record, its body, the state just before it); the state must not be changed or kept."""


class Verifier:
    """One subject of verification.

    Attributes:
        decides: decisions it gives findings to; no other verifier does.
    """

    decides: ClassVar[tuple[type[Decision], ...]] = ()

    def __init__(self, context: VerifyContext) -> None:
        self.context = context

    def prescans(self) -> Mapping[type[Body], Prescan]:
        """Body type -> what to do with such a record in the first reading."""
        return {}

    def sees(self) -> Mapping[type[Body], See]:
        """Body type -> what to do with such a record just before it changes the state."""
        return {}

    def settle(self, state: NodeState) -> None:
        """The ledger ended; give findings to what still waits."""
