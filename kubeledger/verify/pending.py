"""Every decision gets exactly one finding, and findings come out in the order of replay."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kubeledger.model.record import Record
from kubeledger.verify.finding import Contradiction, Finding, Outcome


class PendingFindings:
    """Decisions that wait for their finding.

    Attributes:
        waiting: decisions without a finding, and what follows them.

    A finding may come later than its decision (an image GC run is judged at its end). What
    follows waits with it, so memory is bounded by the longest wait.
    """

    def __init__(self) -> None:
        self.waiting: dict[int, Outcome | Record] = {}
        self._extra = 0

    def enter(self, record: Record) -> None:
        """A decision was met; it has no finding yet."""
        self.waiting[record.seq] = record

    def find(self, finding: Finding) -> None:
        """Give a decision its finding.

        Raises:
            ValueError: the decision was not met, or has one already.
        """
        if not isinstance(self.waiting.get(finding.seq), Record):
            raise ValueError(f"record {finding.seq} does not wait for a finding")
        self.waiting[finding.seq] = finding

    def add(self, outcome: Finding | Contradiction) -> None:
        """Add something that is no answer to a recorded decision, at this point of the replay."""
        self._extra -= 1
        self.waiting[self._extra] = outcome

    def ready(self) -> Iterator[Outcome]:
        """Take out what need not wait any more."""
        waiting = self.waiting
        while waiting:
            key = next(iter(waiting))
            outcome = waiting[key]
            if isinstance(outcome, Record):
                return
            del waiting[key]
            yield outcome

    def close(self) -> Iterator[Outcome]:
        """The replay ended: what has no finding is unverifiable, and says so."""
        for outcome in self.waiting.values():
            if isinstance(outcome, Record):
                yield Finding(
                    seq=outcome.seq,
                    ts_ns=outcome.ts_ns,
                    kind=outcome.kind,
                    subject="node",
                    verdict="unverifiable",
                    recorded=msgspec.to_builtins(outcome.body),
                    missing=("the records after the end of the ledger",),
                    why="the ledger ends before it shows the outcome of this decision",
                    inferred=getattr(outcome.body, "inferred", False),
                )
            else:
                yield outcome
        self.waiting.clear()
