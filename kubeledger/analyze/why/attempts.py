"""Which of several evictions of one pod ended it, and what came of the others.

The manager's loop and the notifiers of memory thresholds each choose a pod and wait for its
end; one that is ending may be chosen again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kubeledger.model.bodies.lifecycle import PodEvicted, PodListed
from kubeledger.model.record import Record
from kubeledger.model.units import format_ts

__all__ = ["attempts_note", "ending_attempt"]

_GAVE_UP = "the eviction manager gave up waiting for its end"
_FAILED = re.compile(r'failed to evict(?:".*?\berr"?[=:]"(?P<quoted>[^"]*)"| (?P<plain>.+))')


def ending_attempt(main: Record, decisions: Sequence[Record], about: Sequence[Record]) -> Record:
    """The eviction that ended the pod, where it was evicted more than once.

    The pod's status bears the message of the one that ended it; without a status it is the
    first one, for a pod that is being killed is not spared any more.

    Args:
        main: what explains the pod.
        decisions: (n,) about it.
        about: (m,) all about it.
    """
    attempts = _attempts(main, decisions)
    message = None
    for record in about:
        status = record.body.status if isinstance(record.body, PodListed) else None
        if status and status.get("reason") == "Evicted":
            message = status.get("message")
    fitting = [each for each in attempts if getattr(each.body, "message", None) == message]
    return [*fitting, *attempts, main][0]


def attempts_note(main: Record, decisions: Sequence[Record]) -> str:
    """A clause on the attempts that failed or came besides; empty where there is none."""
    attempts = _attempts(main, decisions)
    failure = _given_up(main)
    parts = [failure] if failure else []
    for other in attempts:
        if other is not main:
            turn = "before, it was chosen" if other.seq < main.seq else "it was chosen again"
            failure = _given_up(other)
            parts.append(
                f"{turn} at {format_ts(other.ts_ns)}{', and ' if failure else ''}{failure}"
            )
    return "; ".join(parts)


def _attempts(main: Record, decisions: Sequence[Record]) -> list[Record]:
    if not isinstance(main.body, PodEvicted):
        return []
    return [
        each
        for each in decisions
        if isinstance(each.body, PodEvicted) and each.body.pod_uid == main.body.pod_uid
    ]


def _given_up(attempt: Record) -> str:
    body = attempt.body
    if not isinstance(body, PodEvicted) or body.evicted is not False:
        return ""
    for piece in attempt.evidence:
        if match := _FAILED.search(piece.text or ""):
            return f"{_GAVE_UP}: {match['quoted'] or match['plain']}"
    return _GAVE_UP
