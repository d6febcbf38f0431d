"""What went wrong on a node: the timeline's headlines, and an import's summary.

An incident is one thing that went wrong; a headline is several that belong together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby, starmap
from typing import NamedTuple

import msgspec

from kubeledger.analyze.logged_errors import ErrorShape, excused, logged, untold
from kubeledger.analyze.problems.table import PROBLEMS, Problem
from kubeledger.analyze.problems.told import Row, Told
from kubeledger.analyze.summaries import cut_chain
from kubeledger.analyze.wording import names_text, shortened


class Headline(msgspec.Struct, frozen=True, kw_only=True):
    """A button of the page: an incident, or several of one kind.

    Attributes:
        kind: what happened, one of ``PROBLEMS``; at last ``error``: lines of severity W, E or F of
            one shape, which no other record tells, and ``harmless``: those that say no more than
            that the kubelet goes on.
        severity: 5 (the worst) to 1; 0: it happened, and is no headline.
        ts_ns: of the first record.
        seq: the record that shows it best.
    """

    kind: str
    severity: int
    text: str
    ts_ns: int
    seq: int


class Incident(Headline, frozen=True, kw_only=True):
    """One thing that went wrong, or several of a kind about one subject.

    Attributes:
        subject: whom it hit, as in ``default/web/app``; what headlines are put together by.
        count: how many records it stands for.
        target: what ``kubeledger why`` would be asked; None: nothing of it.
        late: of the pods that were evicted, those that took longer than the kubelet waited.
        is_warning: of lines and events that no other record tells: they are no errors.
    """

    subject: str
    target: str | None
    count: int
    late: int = 0
    is_warning: bool = False


def incidents(told: Told, impossible: Iterable[Row] = ()) -> list[Incident]:
    """What went wrong on a node, worst first.

    Args:
        impossible: decisions that the kubelet could not have taken, of which ``told`` says nothing.
    """
    found = [
        _incident(problem, row)
        for problem in PROBLEMS
        for row in problem.together(problem.rows(told) if problem.rows else impossible)
    ]
    found.sort(key=lambda each: (_place(each), -each.count, each.ts_ns, each.seq))
    is_quiet = all(each.severity < _WENT_WRONG for each in found)
    shapes = logged(told)
    errors = untold(shapes, nothing_else=is_quiet)
    return [*found, *map(_logged, errors), *starmap(_harmless, excused(shapes))]


def _logged(error: ErrorShape) -> Incident:
    """Lines of one shape; of those about pods the first is what ``why`` would be asked."""
    names = error.pods if len(error.pods) < 2 else [pod.rpartition("/")[2] for pod in error.pods]
    about = f" ({names_text(names)})" if names else ""
    most = _SHAPE_MAX if error.count > 1 else _WORDS_MAX
    words = cut_chain(error.words if len(error.words) <= most else error.core, most)
    times = f"{error.count:,} × " if error.count > 1 else ""
    return Incident(
        kind=_ERROR,
        severity=1,
        subject=error.source,
        target=f"pod/{error.pods[0]}" if error.pods else None,
        text=f"{times}{error.teller} {words}{about}",
        count=error.count,
        is_warning=error.severity == "W",
        ts_ns=error.ts_ns,
        seq=error.seq,
    )


def _harmless(error: ErrorShape, reason: str) -> Incident:
    told = _logged(error)
    return msgspec.structs.replace(told, kind=_HARMLESS, severity=0, text=f"{told.text}: {reason}")


_ERROR, _HARMLESS = "error", "harmless"
_SHAPE_MAX, _WORDS_MAX = 110, 160
_CONTAINER, _POD, _SLASHES = "container/{}", "pod/{}", 2
"""A container's whole name has two; the kernel's report of a kill may show its pod's UID alone."""
_PLACES = {
    kind: place for place, kind in enumerate([*(each.kind for each in PROBLEMS), _ERROR, _HARMLESS])
}


def _place(incident: Incident | Headline) -> tuple[int, int]:
    return (-incident.severity, _PLACES[incident.kind])


def _incident(problem: Problem, row: Row) -> Incident:
    about = row.get("about") or row["subject"]
    form = problem.target
    if form == _CONTAINER and (about or "").count("/") != _SLASHES:
        form = _POD if row.get("about") else None
    return Incident(
        kind=problem.kind,
        severity=problem.severity,
        subject=row["subject"],
        target=form.format(about) if form and about else None,
        text=problem.sentence(row),
        count=row.get("lines", row["count"]),
        ts_ns=row["ts_ns"],
        seq=row["seq"],
        late=row.get("late", 0),
    )


_NOTHING = "nothing that went wrong was recorded"
_WENT_WRONG = 2
"""Less happened in an orderly way, or concerns the evidence."""
HEADLINES_MAX = 8
_SINGLE_MAX = 2
"""Of a kind with more incidents than this, all but the first are summed up."""
_OF_EVIDENCE = frozenset(each.kind for each in PROBLEMS if not each.is_counted)
_ERRORS_MAX = 3
"""Shapes of errors that are headlines."""


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


def in_a_sentence(found: Sequence[Incident]) -> str:
    """What ``happened``, and the errors that no record tells; or that nothing went wrong.

    That is said with what speaks against it: lines that nobody understood, and harmless errors.
    """
    if told := _told(found):
        return told
    excuses = [each for each in found if each.kind == _HARMLESS]
    unread = _unread(found)
    said = f"{_NOTHING}, but {unread}" if unread else _NOTHING
    if excuses:
        lines, word = _lines(excuses)
        said += f"; {lines:,} {word} {'are' if lines > 1 else 'is'} harmless: "
        said += _examples(excuses)
    return said


def _unread(found: Sequence[Incident]) -> str:
    unread = [each for each in found if each.kind == "not_understood"]
    if len(unread) < 2:
        return _examples(unread)
    lines = sum(each.count for each in unread)
    examples = ", ".join(shortened(each.subject) for each in unread[:_ERRORS_MAX])
    return f"{lines:,} lines were not understood: {examples}"


def _examples(found: Sequence[Incident], most: int = _ERRORS_MAX) -> str:
    return ", ".join(each.text for each in found[:most])


def _told(found: Sequence[Incident], examples_max: int = _ERRORS_MAX) -> str:
    decided, errors = happened(found), [each for each in found if each.kind == _ERROR]
    if not errors:
        return decided
    if decided:
        return f"{decided}; besides, {_counted(errors)}"
    said = "no decision that went wrong was recorded, but "
    if len(errors) <= examples_max:
        return f"{said}the kubelet reported: {_examples(errors)}"
    examples = _examples(errors, examples_max)
    return said + _counted(errors) + (examples and f": {examples}")


def _lines(errors: Sequence[Incident]) -> tuple[int, str]:
    """How many, and what they are: ``3, errors`` or ``5, warnings and errors``."""
    lines = sum(each.count for each in errors)
    if len({each.is_warning for each in errors}) > 1:
        return lines, "warnings and errors"
    return lines, ("warning" if errors[0].is_warning else "error") + ("s" if lines > 1 else "")


def _counted(errors: Sequence[Incident]) -> str:
    lines, word = _lines(errors)
    return f"{lines:,} {word}{_shapes(errors)}"


def _shapes(errors: Sequence[Incident]) -> str:
    return f" of {len(errors):,} kinds" if len(errors) > 1 else ""


class Besides(NamedTuple):
    """What an import says of a node of a ledger, for who asks about the node itself.

    Attributes:
        counts: empty when nothing went wrong, and all lines were understood.
        worst: what befell its pods, and lines that nothing else tells; the worst first.
        had_trouble: the node itself, too.
        own: the worst of that, where nothing worse befell its pods; else empty.
    """

    counts: str
    worst: tuple[str, ...]
    had_trouble: bool
    own: str


def besides_on(told: Told) -> Besides:
    """What went wrong on a node."""
    found = incidents(told)
    others = [each for each in found if each.target != "node" and each.kind not in _OF_EVIDENCE]
    own = [each for each in found if each.target == "node" and each.severity >= _WENT_WRONG]
    leads = own and (not others or own[0].severity >= others[0].severity)
    return Besides(
        counts=_told(found, 0) or _unread(found),
        worst=tuple(each.text for each in headlines(others)),
        had_trouble=bool(own),
        own=own[0].text if leads else "",
    )


def headlines(found: Sequence[Incident]) -> list[Headline]:
    """At most ``HEADLINES_MAX`` headlines, worst first."""
    bad = [each for each in found if each.severity]
    groups = [list(group) for _, group in groupby(sorted(bad, key=_place), _place)]
    made = [headline for group in groups for headline in _of_kind(group, _SINGLE_MAX)]
    if len(made) > HEADLINES_MAX:  # rather one of each kind than two of some
        made = [headline for group in groups for headline in _of_kind(group, 0)]
    return made[:HEADLINES_MAX]


def _of_kind(group: list[Incident], single_max: int) -> list[Headline]:
    """Each by itself, or the first and what the rest add up to, in one where none may be single."""
    if group[0].kind == _ERROR:
        return _of_errors(group)
    if len(group) <= max(single_max, 1):
        return [*group]
    problem = PROBLEMS[_PLACES[group[0].kind]]
    first, rest = group[0], group[1:]
    count = sum(each.count for each in rest)
    names = list(dict.fromkeys(each.subject for each in rest))
    others = f" and {len(names) - 2} more" if len(names) > 2 else ""
    about = "" if names == problem.one.split()[:1] else f": {', '.join(names[:2])}{others}"
    text = f"{count:,} more {_word(problem, count)}{about}"
    if not single_max:
        return [msgspec.structs.replace(first, text=f"{first.text}; {text}")]
    return [first, msgspec.structs.replace(rest[0], text=text)]


def _of_errors(group: list[Incident]) -> list[Headline]:
    shown, rest = group[:_ERRORS_MAX], group[_ERRORS_MAX:]
    if not rest:
        return [*shown]
    lines, word = _lines(rest)
    text = f"{lines:,} more {word}{_shapes(rest)}"
    return [*shown, msgspec.structs.replace(rest[0], text=text)]
