"""What went wrong on a node: the timeline's headlines, and an import's summary.

An incident is one thing that went wrong; a headline is several that belong together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby

import msgspec

from kubeledger.analyze.problems import NEEDED, PROBLEMS, Problem, Row

__all__ = [
    "HEADLINES_MAX",
    "Headline",
    "Incident",
    "counts_on",
    "happened",
    "headlines",
    "incidents",
]


class Incident(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that went wrong, or several of a kind about one subject.

    Attributes:
        kind: what happened, one of ``PROBLEMS``.
        severity: 5 (the worst) to 1; 0: it happened, and is no headline.
        subject: whom it hit, as in ``default/web/app``; what headlines are put together by.
        text: the sentence.
        count: how many records it stands for.
        ts_ns: of the first of them.
        seq: the record that shows it best.
        target: what ``kubeledger why`` would be asked; None: nothing of it.
        late: of the pods that were evicted, those that took longer than the kubelet waited.
    """

    kind: str
    severity: int
    subject: str
    target: str | None
    text: str
    count: int
    ts_ns: int
    seq: int
    late: int = 0


class Headline(msgspec.Struct, frozen=True, kw_only=True):
    """A button of the page: an incident, or several of one kind.

    Attributes:
        kind, severity, text, ts_ns, seq: as of an incident; of several, those of the first one.
    """

    kind: str
    severity: int
    text: str
    ts_ns: int
    seq: int


Answers = Callable[[str, Mapping[str, object]], Sequence[Row]]
"""Answers SQL and its parameters with rows by column name."""


def incidents(answer: Answers, node: str, *, verdicts: bool) -> list[Incident]:
    """What went wrong on a node, worst first.

    Args:
        answer: runs a query over the views.
        node: whose.
        verdicts: whether to verify, and report decisions that the kubelet could not have taken.
    """
    # First a question that needs all: what is loaded for it answers the others, too.
    answer(f"SELECT 1 FROM {NEEDED} WHERE events.node = $node LIMIT 0", {"node": node})
    found = [
        _incident(problem, row)
        for problem in PROBLEMS
        if verdicts or problem.kind != "impossible"
        for row in answer(problem.query, {"node": node})
    ]
    return sorted(found, key=lambda each: (_place(each), -each.count, each.ts_ns, each.seq))


_PLACES = {problem.kind: place for place, problem in enumerate(PROBLEMS)}


def _place(incident: Incident | Headline) -> tuple[int, int]:
    return (-incident.severity, _PLACES[incident.kind])


def _incident(problem: Problem, row: Row) -> Incident:
    about = row.get("about") or row["subject"]
    return Incident(
        kind=problem.kind,
        severity=problem.severity,
        subject=row["subject"],
        target=problem.target.format(about) if problem.target and about else None,
        text=problem.text(row),
        count=row["count"],
        ts_ns=row["ts_ns"],
        seq=row["seq"],
        late=row.get("late", 0),
    )


HEADLINES_MAX = 8
_SINGLE_MAX = 2
"""Of a kind with more incidents than this, all but the first are summed up."""

def happened(found: Iterable[Incident]) -> str:
    """``1 preempted, 3 refused, 5 images deleted``; empty when nothing went wrong."""
    counts: Counter[str] = Counter()
    late = 0
    for each in found:
        counts[each.kind] += each.count
        late += each.late
    aside = {"evicted": f" ({late:,} took longer than the kubelet waited)" if late else ""}
    return ", ".join(
        f"{counts[each.kind]:,} {_word(each, counts[each.kind])}{aside.get(each.kind, '')}"
        for each in PROBLEMS
        if counts[each.kind] and each.is_counted
    )


def _word(problem: Problem, count: int) -> str:
    return problem.one if count == 1 else problem.many


def counts_on(answer: Answers, node: str) -> str:
    """What ``happened`` on a node of a ledger.

    Args:
        answer: runs a query over the views.
        node: whose.
    """
    return happened(incidents(answer, node, verdicts=False))


def headlines(found: Sequence[Incident]) -> list[Headline]:
    """At most ``HEADLINES_MAX`` headlines, worst first.

    Args:
        found: incidents, worst first.
    """
    bad = [each for each in found if each.severity]
    made = [
        headline
        for _, group in groupby(sorted(bad, key=_place), _place)
        for headline in _of_kind(list(group))
    ]
    return made[:HEADLINES_MAX]


def _of_kind(group: list[Incident]) -> list[Headline]:
    if len(group) <= _SINGLE_MAX:
        return [_headline(each, each.text) for each in group]
    problem = PROBLEMS[_PLACES[group[0].kind]]
    first, rest = group[0], group[1:]
    count = sum(each.count for each in rest)
    names = list(dict.fromkeys(each.subject for each in rest))
    others = f" and {len(names) - 2} more" if len(names) > 2 else ""
    about = "" if names == problem.one.split()[:1] else f": {', '.join(names[:2])}{others}"
    text = f"{count:,} more {_word(problem, count)}{about}"
    return [_headline(first, first.text), _headline(rest[0], text)]


def _headline(incident: Incident, text: str) -> Headline:
    return Headline(
        kind=incident.kind,
        severity=incident.severity,
        text=text,
        ts_ns=incident.ts_ns,
        seq=incident.seq,
    )
