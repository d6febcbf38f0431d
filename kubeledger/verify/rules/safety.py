"""What can never be is said as it is met; no decision is judged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubeledger.model.record import Body, Record
from kubeledger.replay.episodes.safety import TAKES, Safety
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.finding import Side, Violation
from kubeledger.verify.verifier import See, Verifier


class SafetyVerifier(Verifier):
    """Reports violations of invariants."""

    def __init__(self, context: VerifyContext) -> None:
        super().__init__(context)
        self._safety = Safety()

    def sees(self) -> Mapping[type[Body], See]:
        """All that the invariants are about."""
        return dict.fromkeys(TAKES, self._take)

    def _take(self, record: Record, body: Any, state: NodeState) -> None:  # noqa: ANN401 - any body
        for each in self._safety.take(record):
            self.context.pending.add(
                Violation(
                    ts_ns=each.ts_ns,
                    subject=each.subject,
                    why=each.message,
                    sides=tuple(Side(seq=seq, says=says) for seq, says in each.sides),
                    invariant=each.invariant,
                    bugs=each.bugs,
                )
            )
