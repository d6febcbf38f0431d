"""One restart that was held back: is it the back-off that the kubelet had come to?"""

from __future__ import annotations

from kubeledger.lifecycle.records import RestartBackedOff
from kubeledger.machine import Record
from kubeledger.units import NS_PER_S
from kubeledger.verify.bench import Bench
from kubeledger.verify.finding import Verdict
from kubeledger.verify.lives.common import at, seconds, subject_of
from kubeledger.verify.lives.life import Entry, Instance, Life

__all__ = ["RULE", "judge_backed_off"]

RULE = "pkg/kubelet/kuberuntime/kuberuntime_manager.go doBackOff"


def judge_backed_off(
    bench: Bench,
    record: Record,
    body: RestartBackedOff,
    life: Life,
    possible: tuple[int, ...],
) -> None:
    """Give the finding, and go on from the value if it could have been.

    Args:
        bench: where findings go.
        record: of the decision.
        body: its body.
        life: the container so far; its entry is narrowed.
        possible: all values that an entry can have, in nanoseconds.
    """
    value_ns = body.back_off_s * NS_PER_S
    entry = _entry(life, record)
    allowed = possible if entry is None else entry
    missing = _missing(record, body, entry, possible)
    if missing is not None:
        life.entry.tell(value_ns)
        bench.unverifiable(record, subject=subject_of(body), missing=[missing], rule=RULE)
        return
    why = f"{_history(body, life.entry)} its back-off was {_list(allowed)}"
    over = _is_over(record, body, life)
    verdict: Verdict = "match"
    if value_ns not in allowed:
        verdict = "impossible"
        why += f", not {body.back_off_s} s"
    elif over is not None:
        verdict, why = "impossible", over
    else:
        life.entry.values = (value_ns,)
        if len(allowed) > 1:  # the kubelet knew which, the records do not tell
            missing = f"which restarts of container {body.container} raised its back-off"
            bench.unverifiable(record, subject=subject_of(body), missing=[missing], rule=RULE)
            return
    if verdict != "impossible":
        why += _passed(record, life)
    bench.find(
        record,
        verdict,
        subject=subject_of(body),
        why=why,
        expected=None if len(allowed) != 1 else {"back_off_s": allowed[0] // NS_PER_S},
        recorded={"back_off_s": body.back_off_s},
        rule=RULE,
        inputs=[seq for seq in (bench.settings.seq, *_ends(_ended(life))) if seq is not None],
    )


def _entry(life: Life, record: Record) -> tuple[int, ...] | None:
    """What the entry may be; empty for none, None when it is not known."""
    values = life.entry.at(record.ts_ns)
    ended = life.newest is not None and life.newest.has_ended
    if values is None or not (ended or life.attempt_ns is not None) or not life.is_sure:
        return None
    if life.early_end is not None:
        return None  # an instance ended that was not seen to start
    # Without an entry nothing is held back: starts are missing, or it is told of the wrong one.
    return tuple(value for value in values if value) or None


def _missing(
    record: Record, body: RestartBackedOff, entry: tuple[int, ...] | None, possible: tuple[int, ...]
) -> str | None:
    """What is missing to say whether the value could have been."""
    value_ns = body.back_off_s * NS_PER_S
    if value_ns not in possible:
        return None  # it is none at all
    if entry is None:
        return f"the restarts of container {body.container} since the kubelet started"
    if entry and max(entry) < value_ns and not _is_verbose(record):
        return f"events about starts of container {body.container} that failed"
    return None


def _ended(life: Life) -> Instance | None:
    """The newest instance that has ended."""
    return life.newest if life.newest is not None and life.newest.has_ended else life.before


def _is_over(record: Record, body: RestartBackedOff, life: Life) -> str | None:
    """Why the back-off had passed; None when it can have held the start back."""
    ended = _ended(life)
    if ended is None or ended.died_ns is None or life.attempt_ns is not None:
        return None
    since_ns = record.ts_ns - ended.died_ns
    if since_ns < body.back_off_s * NS_PER_S:
        return None
    return (
        f"container {body.container} had ended by {at(ended.died_ns)}, {seconds(since_ns)} "
        f"before, so a back-off of {body.back_off_s} s was over"
    )


def _is_verbose(record: Record) -> bool:
    """Whether the runtime manager's own line is there, so that events are logged, too."""
    texts = [evidence.text or "" for evidence in record.evidence]
    return not texts or any("Error syncing pod" not in text for text in texts)


def _history(body: RestartBackedOff, entry: Entry) -> str:
    """How the back-off came to be, up to "its back-off was"."""
    name = f"container {body.container}"
    if not entry.raises or entry.first_ns is None or entry.raised_ns is None:
        return f"{name} had been started again so often that"
    if entry.raises == 1:
        return f"{name} had been started again once, at {at(entry.first_ns)}, so"
    return (
        f"{name} had been started again {entry.raises} times from {at(entry.first_ns)} to "
        f"{at(entry.raised_ns)}, so"
    )


def _passed(record: Record, life: Life) -> str:
    """How much of the back-off was over."""
    ended = None if life.attempt_ns is not None else _ended(life)
    if ended is None or ended.died_ns is None or record.ts_ns - ended.died_ns < NS_PER_S // 10:
        return ""
    return (
        f", of which {seconds(record.ts_ns - ended.died_ns)} had passed since it was seen to "
        f"have ended at {at(ended.died_ns)}"
    )


def _ends(ended: Instance | None) -> tuple[int | None, ...]:
    return () if ended is None else (ended.killed_seq, ended.died_seq)


def _list(values: tuple[int, ...]) -> str:
    return " or ".join(f"{value // NS_PER_S} s" for value in values)
