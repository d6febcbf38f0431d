"""The answer to a "why": a headline, dated steps, the evidence, the decision and its rule."""

from __future__ import annotations

import msgspec

from kubeledger.model.record import Role
from kubeledger.verify import Finding


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


class StoryStep(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened, once or several times, and belongs to the answer.

    Attributes:
        ts_ns, last_ts_ns: the first and the last time.
        count: how often; 1 or more.
        text: what, on one line.
        weight: how much it explains; the largest explains most.
        kind, seq: of the record that shows it, the last one.
        evidence: number of that record's piece of evidence; None when it is not among them.
    """

    ts_ns: int
    last_ts_ns: int
    count: int
    text: str
    weight: int
    kind: str
    seq: int
    evidence: int | None = None


class Namesake(msgspec.Struct, frozen=True, kw_only=True):
    """Another pod that had the target's name.

    Attributes:
        first_ts_ns, last_ts_ns: of the records about it.
    """

    pod_uid: str
    first_ts_ns: int
    last_ts_ns: int


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Why something is as it is, or how it fared.

    Attributes:
        target: what was asked.
        node: whose records answer.
        headline: the answer in at most ``HEADLINE_MAX`` characters.
        steps: (k,) what led to it and what came of it, oldest first.
        sentence: the answer with all its reasons.
        evidence: (n,) in the order of time.
        history: (m,) all that counts as an answer, oldest first (the newest ``HISTORY_MAX``).
        pod_uid: UID of the pod that the answer is about; None when the target is not a pod or
            container, or no record names one.
        namesakes: other pods of that name, which the answer leaves out, oldest first.
        counts: of a node, what happened on it in all, as an import counts it; empty where nothing
            went wrong, and for any other target.
        worst: of a node, what befell its pods, and lines that nothing else tells, worst first;
            without what the headline holds.
        span_ns: of a node, the times of the first and last record that the answer goes by.
        is_quiet: of a node, that nothing befell it that is recorded, or little.
        was_stopped: of a node, that its kubelet was told to stop, or began anew.
    """

    target: str
    node: str
    headline: str
    steps: tuple[StoryStep, ...]
    sentence: str
    evidence: tuple[Piece, ...]
    history: tuple[Step, ...]
    pod_uid: str | None = None
    namesakes: tuple[Namesake, ...] = ()
    counts: str = ""
    worst: tuple[str, ...] = ()
    span_ns: tuple[int, int] = (0, 0)
    is_quiet: bool = False
    was_stopped: bool = False


class Explanation(Answer, frozen=True, kw_only=True):
    """Why something is as it is: an answer that one decision explains.

    Attributes:
        finding: the decision that explains it, decided again.
        ranking: of an eviction, a line for each candidate: what it was ranked by, the first to
            go first.
    """

    finding: Finding
    ranking: tuple[str, ...] = ()
