"""The answer to a "why": a sentence, the evidence behind it, the decision and its rule."""

from __future__ import annotations

import msgspec

from kubeledger.machine import Role
from kubeledger.verify import Finding

__all__ = ["Answer", "Explanation", "Piece", "Step"]


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
    """A decision about the target, or a fact about the node, on one line.

    Attributes:
        verdict: of a decision; None for what is no decision.
    """

    seq: int
    ts_ns: int
    kind: str
    summary: str
    verdict: str | None


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Why something is as it is, or how it fared.

    Attributes:
        target: what was asked.
        node: whose records answer.
        sentence: the answer.
        evidence: (n,) in the order of time.
        history: (m,) all that counts as an answer, oldest first (the newest ``HISTORY_MAX``).
    """

    target: str
    node: str
    sentence: str
    evidence: tuple[Piece, ...]
    history: tuple[Step, ...]


class Explanation(Answer, frozen=True, kw_only=True):
    """Why something is as it is: an answer that one decision explains.

    Attributes:
        finding: the decision that explains it, decided again.
        ranking: of an eviction, a line for each candidate: what it was ranked by, the first to
            go first.
    """

    finding: Finding
    ranking: tuple[str, ...] = ()
