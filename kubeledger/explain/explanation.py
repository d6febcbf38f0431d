"""The answer to a "why": a sentence, the evidence behind it, the decision and its rule."""

from __future__ import annotations

import msgspec

from kubeledger.machine import Role
from kubeledger.verify import Finding

__all__ = ["Explanation", "Piece", "Step"]


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """One numbered piece of evidence: a record, and where the fact stands.

    Attributes:
        number: from 1, as the sentence's reader counts.
        summary: the record on one line.
        inferred: no line says it; it follows from others.
        file, line, text: first place in the sources; None for a fact without one.
    """

    number: int
    seq: int
    ts_ns: int
    role: Role
    kind: str
    subject: str
    summary: str
    inferred: bool
    file: str | None
    line: int | None
    text: str | None


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """Another decision about the target, on one line."""

    seq: int
    ts_ns: int
    kind: str
    summary: str
    verdict: str


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Why something is as it is.

    Attributes:
        target: what was asked.
        node: whose records answer.
        sentence: the answer.
        finding: the decision that explains it, decided again.
        ranking: of an eviction, a line for each candidate: what it was ranked by, the first to
            go first.
        evidence: (n,) in the order of time.
        history: (m,) all decisions about the target, oldest first (the newest
            ``HISTORY_MAX``).
    """

    target: str
    node: str
    sentence: str
    finding: Finding
    ranking: tuple[str, ...] = ()
    evidence: tuple[Piece, ...]
    history: tuple[Step, ...]
