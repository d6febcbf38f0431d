"""Judgements become findings."""

from __future__ import annotations

from collections.abc import Callable

from kubeledger.errors import BadInputError
from kubeledger.machine import Record
from kubeledger.verify.admission.judgement import Judgement, unverifiable, with_note
from kubeledger.verify.admission.question import Question
from kubeledger.verify.bench import Bench

__all__ = ["find", "judged_by"]


def find(bench: Bench, record: Record, subject: str, judged: Judgement) -> None:
    """Give a record its finding."""
    bench.find(
        record,
        judged.verdict,
        subject=subject,
        why=judged.why,
        expected=judged.expected,
        recorded=judged.recorded,
        missing=judged.missing,
        rule=judged.rule,
        inputs=judged.inputs,
        certain=judged.certain,
    )


def judged_by(
    question: Question | tuple[str, ...], judge: Callable[[Question], Judgement]
) -> Judgement:
    """Judge a question; one that lacks inputs, or readable quantities, is not decided."""
    if not isinstance(question, Question):
        return unverifiable(*question)
    try:
        return with_note(judge(question), inferred=question.inferred)
    except BadInputError:
        return unverifiable("readable quantities of all pods")
