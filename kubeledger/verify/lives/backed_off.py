"""One restart that was held back: is it the back-off that the kubelet had come to?"""

from __future__ import annotations

from kubeledger.lifecycle.records import RestartBackedOff
from kubeledger.machine import Record
from kubeledger.units import NS_PER_S
from kubeledger.verify.bench import Bench
from kubeledger.verify.finding import Verdict
from kubeledger.verify.lives.common import at, seconds, subject_of
from kubeledger.verify.lives.life import Instance, Life

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
    values = life.entry.at(record.ts_ns)
    known = life.newest is not None and life.newest.has_ended and life.is_sure
    entry = None if values is None or not known else tuple(value for value in values if value)
    ended = life.newest if life.newest is not None and life.newest.has_ended else life.before
    inputs = tuple(seq for seq in (bench.settings.seq, *(_ends(ended))) if seq is not None)
    verdict: Verdict = "match"
    name = f"container {body.container}"
    if entry is None:
        if value_ns in possible:
            life.entry.values, life.entry.raised_ns = (value_ns,), None
            bench.unverifiable(
                record,
                subject=subject_of(body),
                missing=[f"the restarts of {name} since the kubelet started"],
                rule=RULE,
            )
            return
        allowed = possible
    else:
        allowed = entry
    why = f"{name} had been started again so often that its back-off was {_list(allowed)}"
    if allowed and max(allowed) < value_ns and value_ns in possible and not _is_verbose(record):
        life.entry.values, life.entry.raised_ns = (value_ns,), None
        bench.unverifiable(
            record, subject=subject_of(body), rule=RULE,
            missing=[f"events about starts of {name} that failed"],
        )  # fmt: skip
        return
    if value_ns not in allowed:
        verdict = "impossible"
        why += f", not {body.back_off_s} s" if allowed else "; nothing held it back"
    elif (
        ended is not None
        and ended.died_ns is not None
        and (record.ts_ns - ended.died_ns >= value_ns)
    ):
        verdict = "impossible"
        why = (
            f"{name} had ended by {at(ended.died_ns)}, {seconds(record.ts_ns - ended.died_ns)} "
            f"before, so a back-off of {body.back_off_s} s was over"
        )
    else:
        life.entry.values = (value_ns,)
        if len(allowed) > 1:
            verdict = "admissible"
    expected = None if len(allowed) != 1 else {"back_off_s": allowed[0] // NS_PER_S}
    bench.find(
        record,
        verdict,
        subject=subject_of(body),
        why=why,
        expected=expected,
        recorded={"back_off_s": body.back_off_s},
        rule=RULE,
        inputs=inputs,
    )


def _is_verbose(record: Record) -> bool:
    """Whether the runtime manager's own line is there, so that events are logged, too."""
    texts = [evidence.text or "" for evidence in record.evidence]
    return not texts or any("Error syncing pod" not in text for text in texts)


def _ends(ended: Instance | None) -> tuple[int | None, ...]:
    return () if ended is None else (ended.killed_seq, ended.died_seq)


def _list(values: tuple[int, ...]) -> str:
    return " or ".join(f"{value // NS_PER_S} s" for value in values)
