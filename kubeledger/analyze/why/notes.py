"""Which of several evictions of one pod ended it, and what came of the others.

The manager's loop and the notifiers of memory thresholds each choose a pod and wait for its
end; one that is ending may be chosen again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import msgspec

from kubeledger.analyze.histories.history import History
from kubeledger.analyze.why.concern import is_about_pod
from kubeledger.analyze.why.target import Target
from kubeledger.kubelet.lifecycle.exits import UNKNOWN_KILLER, how_it_ended, killer_unknown
from kubeledger.model.bodies.images import ImageDeleted
from kubeledger.model.bodies.lifecycle import KubernetesEvent, PodEvicted, PodListed
from kubeledger.model.record import Record
from kubeledger.model.units import format_ts
from kubeledger.replay.episodes.container_runs import ContainerRun

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


def last_end(runs: Sequence[ContainerRun], target: Target) -> ContainerRun | None:
    """The last instance of a container, of which the end is recorded; None for one that runs."""
    last = runs[-1] if runs and target.kind == "container" else None
    return last if last is not None and last.ended_seq is not None else None


def ended_by_itself(end: ContainerRun | None, main: Record) -> str:
    """A clause that says so; empty where something killed it, or the decision says more."""
    if end is None or end.kills or end.ended_by is not None or is_about_pod(main):
        return ""
    if end.ended_seq is None or end.ended_ts_ns is None or end.ended_seq < main.seq:
        return ""
    who = f"container {end.namespace}/{end.pod}/{end.container}"
    killer = f", and {UNKNOWN_KILLER}" if killer_unknown(end.exit_code) else ""
    return f"{who} {how_it_ended(end.exit_code)} at {format_ts(end.ended_ts_ns)}{killer}"


_PODS_MAX = 5


class Failures(msgspec.Struct, frozen=True):
    """What the removal of the sandbox image led to.

    Attributes:
        clause: as an end of a sentence; empty where there is nothing to say.
        seqs: of the removal, and of the first failures.
    """

    clause: str = ""
    seqs: tuple[int, ...] = ()


def failures_about(
    history: History, target: Target, seqs: Collection[int], upto_ts_ns: int | None
) -> Failures:
    """Failures that go back to a removal of the target, or that are the target pod's.

    Args:
        target: an image or a pod; others get nothing.
        seqs: of the decisions about the target.
        upto_ts_ns: as of this time; None: as of the last record.
    """
    found: dict[int, list[Record]] = {}
    kinds = {KubernetesEvent.kind}
    names = {target.parts[-1], "/".join(target.parts)}
    found_of = history.naming(names, kinds) if target.kind == "pod" else history.read(kinds)
    for record in found_of:
        body = record.body
        if record.cause is None or not isinstance(body, KubernetesEvent):
            continue
        if upto_ts_ns is not None and record.ts_ns > upto_ts_ns:
            continue
        of_pod = target.kind == "pod" and (body.namespace, body.pod) == target.parts
        if of_pod or (target.kind == "image" and record.cause in seqs):
            found.setdefault(record.cause, []).append(record)
    for seq, failures in reversed(found.items()):
        removal = history.record(seq)
        if removal is not None and isinstance(removal.body, ImageDeleted):
            return _failures_of(target, removal, removal.body, failures)
    return Failures()


def _failures_of(
    target: Target, removal: Record, body: ImageDeleted, failures: list[Record]
) -> Failures:
    times = f"{len(failures)} times" if len(failures) > 1 else "once"
    since = f"from {format_ts(failures[0].ts_ns)} on ({times})"
    if target.kind == "pod":
        clause = (
            f"its sandbox could not be made {since}, for the image of all sandboxes, "
            f"{body.image_id}, had been deleted at {format_ts(removal.ts_ns)}"
        )
    else:
        pods = list(dict.fromkeys(_pod(failure) for failure in failures))
        named = ", ".join(pods[:_PODS_MAX]) + (", ..." if len(pods) > _PODS_MAX else "")
        clause = (
            f"it is the image of all sandboxes: after its deletion at "
            f"{format_ts(removal.ts_ns)} none could be made {since}, which held up {named}"
        )
    return Failures(clause, (removal.seq, *(failure.seq for failure in failures[:_PODS_MAX])))


def _pod(failure: Record) -> str:
    body = failure.body
    assert isinstance(body, KubernetesEvent)
    return f"{body.namespace}/{body.pod}"
