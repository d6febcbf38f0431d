"""Counts over the outcomes of a verification."""

from __future__ import annotations

from collections import Counter

from kubeledger.verify.finding import Contradiction, Outcome, Verdict

__all__ = ["VERDICTS", "Tally"]

VERDICTS: tuple[Verdict, ...] = ("match", "admissible", "impossible", "unverifiable")


class Tally:
    """What has been found so far.

    Attributes:
        by_kind: decision kind -> verdict -> how many.
        missing: missing input -> how many decisions lack it.
        contradictions: how many.
    """

    def __init__(self) -> None:
        self.by_kind: dict[str, Counter[Verdict]] = {}
        self.missing: Counter[str] = Counter()
        self.contradictions = 0

    def add(self, outcome: Outcome) -> None:
        """Count one."""
        if isinstance(outcome, Contradiction):
            self.contradictions += 1
            return
        self.by_kind.setdefault(outcome.kind, Counter())[outcome.verdict] += 1
        self.missing.update(outcome.missing)

    def count(self, verdict: Verdict) -> int:
        """Findings with this verdict."""
        return sum(counts[verdict] for counts in self.by_kind.values())

    @property
    def decisions(self) -> int:
        """All findings."""
        return sum(counts.total() for counts in self.by_kind.values())
