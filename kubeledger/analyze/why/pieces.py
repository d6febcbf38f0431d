"""Records as numbered pieces of evidence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from kubeledger.analyze.sql.summaries import subject_of, summary_of
from kubeledger.analyze.why.explanation import Piece, Step, StoryStep
from kubeledger.analyze.why.focus import line_about, words_about
from kubeledger.analyze.why.target import Target
from kubeledger.model.record import Record

__all__ = ["cited", "evidence_of", "in_time", "step_of", "words_of"]


def in_time(record: Record) -> tuple[int, int]:
    """The order of time."""
    return record.ts_ns, record.seq


def words_of(record: Record) -> tuple[str, str]:
    """Whom a record is about, and what it says."""
    body: dict[str, Any] = msgspec.to_builtins(record.body)
    return subject_of(body), summary_of(record.kind, body)


def evidence_of(records: Iterable[Record], target: Target) -> tuple[Piece, ...]:
    """(n,) the records in the order of time, numbered from 1."""
    found = sorted(records, key=in_time)
    return tuple(_piece(number, record, target) for number, record in enumerate(found, start=1))


def cited(steps: Iterable[StoryStep], evidence: Sequence[Piece]) -> tuple[StoryStep, ...]:
    """The steps, each with the number of its record's piece, where there is one."""
    numbers = {piece.seq: piece.number for piece in evidence}
    return tuple(msgspec.structs.replace(step, evidence=numbers.get(step.seq)) for step in steps)


def step_of(record: Record, verdict: str | None = None) -> Step:
    """A record on one line; with a verdict, where it is a decision."""
    return Step(
        seq=record.seq,
        ts_ns=record.ts_ns,
        kind=record.kind,
        summary=words_of(record)[1],
        verdict=verdict,
    )


def _piece(number: int, record: Record, target: Target) -> Piece:
    subject, summary = words_of(record)
    first = line_about(target, record)
    inferred = bool(getattr(record.body, "inferred", False))
    return Piece(
        number=number,
        seq=record.seq,
        ts_ns=record.ts_ns,
        role=record.role,
        kind=record.kind,
        subject=subject,
        summary=words_about(target, record) or summary,
        inferred=inferred or bool(getattr(record.body, "preemptor_inferred", False)),
        file=first.file if first else None,
        line=first.line if first else None,
        text=first.text if first else None,
    )
