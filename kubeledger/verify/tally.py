"""Counts over the outcomes of a verification."""

from __future__ import annotations

from collections import Counter

from kubeledger.verify.finding import Contradiction, Outcome, Verdict, Violation

VERDICTS: tuple[Verdict, ...] = ("match", "admissible", "impossible", "unverifiable")


class Tally:
    """What has been found so far.

    Decisions that an import inferred are in no count but one of their own.

    Attributes:
        by_kind: decision kind -> verdict -> how many.
        missing: missing input -> how many decisions lack it.
        inferred: verdict -> how many decisions that an import inferred.
        contradictions, violations: how many.
    """

    def __init__(self) -> None:
        self.by_kind: dict[str, Counter[Verdict]] = {}
        self.missing: Counter[str] = Counter()
        self.inferred: Counter[Verdict] = Counter()
        self.contradictions = self.violations = 0

    def add(self, outcome: Outcome) -> None:
        if isinstance(outcome, Contradiction):
            is_violation = isinstance(outcome, Violation)
            self.violations += is_violation
            self.contradictions += not is_violation
            return
        if outcome.inferred:
            self.inferred[outcome.verdict] += 1
            return
        self.by_kind.setdefault(outcome.kind, Counter())[outcome.verdict] += 1
        self.missing.update(outcome.missing)

    def count(self, verdict: Verdict) -> int:
        return sum(counts[verdict] for counts in self.by_kind.values())

    @property
    def decisions(self) -> int:
        """All findings but those on inferred decisions."""
        return sum(counts.total() for counts in self.by_kind.values())
