"""Records as numbered pieces of evidence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from kubeledger.analyze.summaries import subject_of, summary_of
from kubeledger.analyze.why.explanation import Piece, Step, StoryStep, Target
from kubeledger.analyze.why.facts import line_about, words_about
from kubeledger.model.bodies.node import ErrorsLogged, PodStageFailed
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S, format_ts

HEADLINE_MAX = 240
"""Characters: three lines of a terminal."""
HEADLINE_ROOM = 200
"""What a headline takes without need: a chain of errors may be longer, for its cause."""
_COUNTED = ErrorsLogged | PodStageFailed
"""Bodies that stand for what was said several times, the last of them before the record."""
_FRACTION = re.compile(r"(T\d\d:\d\d:\d\d)\.\d+Z")
_UNITS = ((1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki"))


def seconds(text: str) -> str:
    """The text with its times to the second."""
    return _FRACTION.sub(r"\1Z", text)


def size(count: int) -> str:
    """Bytes in the largest unit that leaves no fraction worth showing: ``80Mi``, ``1443Mi``."""
    for unit, name in _UNITS:
        if count >= unit and (count % unit == 0 or count >= 10 * unit):
            return f"{round(count / unit)}{name}"
    return f"{count} bytes"


def time(ts_ns: int) -> str:
    """A time to the second."""
    return format_ts(ts_ns // NS_PER_S * NS_PER_S)


def times(first_ts_ns: int, last_ts_ns: int, count: int) -> str:
    """``at T``, or how often between the first and the last time."""
    if count <= 1:
        return f"at {time(last_ts_ns)}"
    begin, end = time(first_ts_ns), time(last_ts_ns)
    if begin[:10] == end[:10]:
        end = end[11:]
    return f"{count} times between {begin} and {end}"


def in_time(record: Record) -> tuple[int, int]:
    """The order of time."""
    return record.ts_ns, record.seq


def span_of(record: Record) -> tuple[int, int]:
    """The first and the last time of what a record tells: it may count what was said before it."""
    body = record.body
    if isinstance(body, _COUNTED):
        return body.first_ts_ns, body.last_ts_ns
    return record.ts_ns, record.ts_ns


def one_of(record: Record) -> tuple[Record, int]:
    """A record as if what it tells were said once, and how often it was."""
    body = record.body
    if not isinstance(body, _COUNTED) or body.count == 1:
        return record, 1
    once = msgspec.structs.replace(body, count=1)
    return msgspec.structs.replace(record, body=once), body.count


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
