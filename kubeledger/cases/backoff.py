"""Cases of doBackOff: one container over a series of syncs that would start it."""

from __future__ import annotations

from functools import lru_cache

import msgspec
from msgspec import UNSET, UnsetType

from kubeledger.cases.fields import shortened
from kubeledger.cases.judgement import MATCH, Judgement, impossible
from kubeledger.cases.podactions import check_containers
from kubeledger.errors import BadInputError
from kubeledger.kuberuntime.backoff import (
    BackedOff,
    Backoff,
    BackOffPolicy,
    do_back_off,
    newest_exited,
)
from kubeledger.kuberuntime.objects import ContainerStatus, Pod
from kubeledger.prober.instants import ZERO_TIME_NS, instant_ns
from kubeledger.profile.resolve import KubeletProfile
from kubeledger.units import format_go_duration, format_ts, parse_go_duration, parse_ts

__all__ = ["INPUT", "BackoffCase", "Outcome", "decide", "judge"]

_DURATION_MAX_NS = 2**62 - 1
"""A longer back-off cannot be doubled in 64 bits."""
_LAST_NS = parse_ts("9999-12-31T23:59:59.999999999Z")


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One sync: expired entries are dropped before, where ``gc`` says so."""

    at: str
    containers: tuple[ContainerStatus, ...]
    gc: bool = False


class BackoffCase(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One case.

    Attributes:
        container: name of an app or init container.
        initial, max: first and greatest back-off, as Go durations.
    """

    pod: Pod
    container: str
    initial: str
    max: str
    steps: tuple[Step, ...]


class StepOutcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What came of one sync.

    Attributes:
        held: the start is held back.
        message: of the error then; else empty.
        entry: the entry's value after it, as a Go duration.
        until: when the back-off ends, or empty; only in versions whose cases tell it.
    """

    held: bool
    message: str
    entry: str
    until: str | UnsetType = UNSET


class Outcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What came of each sync."""

    steps: list[StepOutcome]


INPUT = BackoffCase


def decide(case_input: BackoffCase, profile: KubeletProfile) -> Outcome:
    """Go through all syncs.

    Raises:
        BadInputError: no such container, or a duration or a time that is none.
    """
    spec, meta = case_input.pod.spec, case_input.pod.metadata
    name = case_input.container
    if all(c.name != name for c in (*(spec.containers or ()), *(spec.init_containers or ()))):
        raise BadInputError(f"input.container: the pod has no container {shortened(name)}")
    policy = BackOffPolicy(
        _duration(case_input.initial, "initial"), _duration(case_input.max, "max")
    )
    backoff = Backoff(policy, profile.kuberuntime)
    pod = f"{meta.name}_{meta.namespace}({meta.uid})"
    outcomes = []
    for index, step in enumerate(case_input.steps):
        now_ns = _time(step.at, f"input.steps[{index}].at")
        check_containers(f"input.steps[{index}].containers", step.containers)
        if step.gc:
            backoff.gc(now_ns)
        exited = newest_exited(step.containers, name)
        held = do_back_off(backoff, name, name, pod, _ended_ns(exited), now_ns)
        until: str | UnsetType = UNSET
        if profile.kuberuntime.back_off_until_told:
            until = "" if held is None else _until(held, index)
        outcomes.append(
            StepOutcome(
                held=held is not None,
                message="" if held is None else held.message,
                entry=format_go_duration(backoff.get(name)),
                until=until,
            )
        )
    return Outcome(outcomes)


def judge(case_input: BackoffCase, profile: KubeletProfile, outcome: object) -> Judgement:
    """Compare a claim step by step; nothing here is left to chance.

    Raises:
        BadInputError: as ``decide``.
    """
    decided = decide(case_input, profile)
    try:
        claimed = msgspec.convert(outcome, Outcome)
    except msgspec.ValidationError as error:
        return impossible(f"the outcome has not the shape of one: {error}")
    if claimed == decided:
        return MATCH
    if len(claimed.steps) != len(decided.steps):
        return impossible(f"{len(decided.steps)} steps have {len(claimed.steps)} outcomes")
    entry = "0s"
    for step, ours, theirs in zip(case_input.steps, decided.steps, claimed.steps, strict=True):
        if ours != theirs:
            return impossible(_why(case_input, step, entry, ours, theirs))
        entry = ours.entry
    raise AssertionError("the outcomes do not differ")


def _why(case: BackoffCase, step: Step, before: str, ours: StepOutcome, theirs: StepOutcome) -> str:
    """One sentence about a step that differs; ``before`` is the entry that it began with."""
    exited = newest_exited(step.containers, case.container)
    ended = "no instance of it has exited"
    if exited is not None:
        ended = f"its newest exited instance ended at {exited.finished_at or 'no time'}"
    state = f"{ended}, and the entry was {before}{' before its expiry' if step.gc else ''}"
    what = f"at {step.at} container {case.container}"
    if ours.held != theirs.held:
        return f"{what} is {'held back' if ours.held else 'not held back'}: {state}"
    for field in ("entry", "until", "message"):
        mine, claimed = getattr(ours, field), getattr(theirs, field)
        if mine is UNSET or claimed is UNSET:
            continue
        if mine != claimed:
            return f"{what} has {field} {mine!r} afterwards, not {claimed!r}: {state}"
    told = "has" if theirs.until is UNSET else "has not"
    return f"the outcome has not the shape of one: this version {told} `until`"


def _ended_ns(exited: ContainerStatus | None) -> int | None:
    if exited is None:
        return None
    return ZERO_TIME_NS if exited.finished_at is None else instant_ns(exited.finished_at)


def _until(held: BackedOff, index: int) -> str:
    if held.until_ns > _LAST_NS:
        raise BadInputError(f"input.steps[{index}]: the back-off ends after the year 9999")
    return format_ts(held.until_ns)


def _time(text: str, field: str) -> int:
    try:
        return instant_ns(text)
    except BadInputError as error:
        raise BadInputError(f"{field}: {error.message}") from None


@lru_cache(maxsize=256)
def _duration(text: str, name: str) -> int:
    try:
        duration_ns = parse_go_duration(text)
    except ValueError:
        duration_ns = -1
    if not 0 <= duration_ns <= _DURATION_MAX_NS:
        raise BadInputError(f"input.{name}: no Go duration for a back-off: {shortened(text)}")
    return duration_ns
