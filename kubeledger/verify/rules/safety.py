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
        process, coverage = self.context.process, self.context.coverage
        for each in self._safety.take(record):
            until_ns = min(record.ts_ns, coverage.last_line_ns)
            since_ns = until_ns if process is None else process.started_ns
            lost = since_ns < until_ns and coverage.missing(since_ns, until_ns) is not None
            if each.invariant == "more_devices_than_exist" and lost:
                continue  # a plugin may have registered others
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
