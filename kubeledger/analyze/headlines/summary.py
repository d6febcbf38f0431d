"""Incidents to what a person reads first: at most eight headlines, or one sentence of counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby

from kubeledger.analyze.headlines.incidents import Answers, Headline, Incident, incidents

__all__ = ["HEADLINES_MAX", "counts_on", "happened", "headlines"]

HEADLINES_MAX = 8
_SINGLE_MAX = 2
"""Of a kind with more incidents than this, all but the first are summed up."""

_COUNTED = {
    "kubelet_died": ("kubelet death", "kubelet deaths"),
    "impossible": ("impossible decision", "impossible decisions"),
    "preempted": ("preempted", "preempted"),
    "evicted": ("evicted", "evicted"),
    "oom": ("OOM kill", "OOM kills"),
    "killed": ("killed by probes or hooks", "killed by probes or hooks"),
    "refused": ("refused", "refused"),
    "gc_failed": ("image GC failed", "image GCs failed"),
    "sandbox_failed": ("sandbox failed", "sandboxes failed"),
    "crashed": ("crash", "crashes"),
    "held_back": ("restart put off", "restarts put off"),
    "unready": ("time unready", "times unready"),
    "kubelet_restarted": ("kubelet restart", "kubelet restarts"),
    "deleted": ("image deleted", "images deleted"),
}
"""Kinds that a summary counts, in its order."""
_OTHERS = {
    "pressure": ("condition of pressure", "conditions of pressure"),
    "log_lost": ("log with lines missing", "logs with lines missing"),
    "clock_step": ("step of the clock", "steps of the clock"),
    "finding": ("finding about the sources", "findings about the sources"),
}
"""What an import reports elsewhere."""


def happened(found: Iterable[Incident]) -> str:
    """``1 preempted, 3 refused, 5 images deleted``; empty when nothing went wrong."""
    counts: Counter[str] = Counter()
    late = 0
    for each in found:
        counts[each.kind] += each.count
        late += each.late
    aside = {"evicted": f" ({late:,} took longer than the kubelet waited)" if late else ""}
    return ", ".join(
        f"{counts[kind]:,} {one if counts[kind] == 1 else many}{aside.get(kind, '')}"
        for kind, (one, many) in _COUNTED.items()
        if counts[kind]
    )


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
    made = [
        headline
        for _, group in groupby(sorted(filter(_severity, found), key=_kind), _kind)
        for headline in _of_kind(list(group))
    ]
    made.sort(key=lambda each: -each.severity)
    return made[:HEADLINES_MAX]


def _severity(incident: Incident) -> int:
    return incident.severity


def _kind(incident: Incident) -> tuple[int, str]:
    return (-incident.severity, incident.kind)


def _of_kind(group: list[Incident]) -> list[Headline]:
    if len(group) <= _SINGLE_MAX:
        return [_headline(each, each.text) for each in group]
    one, many = {**_COUNTED, **_OTHERS}[group[0].kind]
    first, rest = group[0], group[1:]
    count = sum(each.count for each in rest)
    names = list(dict.fromkeys(each.subject for each in rest))
    others = f" and {len(names) - 2} more" if len(names) > 2 else ""
    about = "" if names == one.split()[:1] else f": {', '.join(names[:2])}{others}"
    text = f"{count:,} more {one if count == 1 else many}{about}"
    return [_headline(first, first.text), _headline(rest[0], text)]


def _headline(incident: Incident, text: str) -> Headline:
    return Headline(
        kind=incident.kind,
        severity=incident.severity,
        text=text,
        ts_ns=incident.ts_ns,
        seq=incident.seq,
    )
