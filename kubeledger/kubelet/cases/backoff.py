"""Cases of doBackOff: one container over a series of syncs that would start it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from msgspec import UNSET, UnsetType

from kubeledger.kubelet.cases.fields import MATCH, Judgement, Strict, impossible, shortened
from kubeledger.kubelet.cases.podactions import check_times
from kubeledger.kubelet.kube.flowcontrol import Backoff, BackOffPolicy
from kubeledger.kubelet.kube.gotexts import ZERO_TIME_NS, instant_ns
from kubeledger.kubelet.kuberuntime.kuberuntime_manager import (
    BackedOff,
    do_back_off,
    newest_exited,
    restart_backoff,
)
from kubeledger.kubelet.kuberuntime.objects import ContainerStatus, Pod
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.model.errors import BadInputError
from kubeledger.model.units import format_go_duration, format_ts, parse_go_duration, parse_ts

_DURATION_MAX_NS = 2**62 - 1
"""A longer back-off cannot be doubled in 64 bits."""
_LAST_NS = parse_ts("9999-12-31T23:59:59.999999999Z")


class Step(Strict, frozen=True):
    """One sync: expired entries are dropped before, where ``gc`` says so."""

    at: str
    containers: tuple[ContainerStatus, ...]
    gc: bool = False


class BackoffCase(Strict, frozen=True):
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


class StepOutcome(Strict, frozen=True):
    """What came of one sync.

    Attributes:
        message: of the error then; else empty.
        entry: the entry's value after it, as a Go duration.
        until: when the back-off ends, or empty; only in versions whose cases have it.
    """

    held: bool
    message: str
    entry: str
    until: str | UnsetType = UNSET


class Outcome(Strict, frozen=True):
    """What came of each sync."""

    steps: list[StepOutcome]


INPUT = BackoffCase
OUTCOME = Outcome


def decide(case_input: BackoffCase, profile: KubeletProfile) -> Outcome:
    """Go through all syncs."""
    return Outcome([outcome for outcome, _ in _syncs(case_input, profile)])


def judge(
    case_input: BackoffCase, profile: KubeletProfile, decided: Outcome, outcome: Outcome
) -> Judgement:
    """Compare a claim step by step; nothing here is left to chance."""
    syncs, claimed = list(_syncs(case_input, profile)), outcome.steps
    if len(claimed) != len(syncs):
        return impossible(f"{len(syncs)} steps have {len(claimed)} outcomes")
    for step, (ours, state), theirs in zip(case_input.steps, syncs, claimed, strict=True):
        if ours != theirs:
            what = f"at {step.at} container {case_input.container}"
            return impossible(f"{what} {_difference(ours, theirs)}: {state}")
    return MATCH


def _syncs(case: BackoffCase, profile: KubeletProfile) -> Iterator[tuple[StepOutcome, str]]:
    """What came of each sync, and the state that it found."""
    spec, meta, name = case.pod.spec, case.pod.metadata, case.container
    if all(c.name != name for c in (*(spec.containers or ()), *(spec.init_containers or ()))):
        raise BadInputError(f"input.container: the pod has no container {shortened(name)}")
    policy = BackOffPolicy(_duration(case.initial, "initial"), _duration(case.max, "max"))
    backoff = restart_backoff(policy, profile.kuberuntime)
    pod = f"{meta.name}_{meta.namespace}({meta.uid})"
    for index, step in enumerate(case.steps):
        now_ns = _time(step.at, f"input.steps[{index}].at")
        check_times(step.containers)
        if step.gc:
            backoff.gc(now_ns)
        exited = newest_exited(step.containers, name)
        ended_ns = _ended_ns(exited)
        state = _state(backoff, name, exited, ended_ns)
        held = do_back_off(backoff, name, name, pod, ended_ns, now_ns)
        until: str | UnsetType = UNSET
        if profile.kuberuntime.cases_give_back_off_end:
            until = "" if held is None else _until(held, index)
        message = "" if held is None else held.message
        entry = format_go_duration(backoff.get(name))
        yield StepOutcome(held is not None, message, entry, until), state


def _state(backoff: Backoff, key: str, exited: ContainerStatus | None, ended_ns: int | None) -> str:
    if exited is None or ended_ns is None:
        return "no instance of it has exited"
    entry = format_go_duration(backoff.get(key))
    expired = ", which had expired by then" if backoff.has_expired(key, ended_ns) else ""
    return (
        f"its newest exited instance ended at {exited.finished_at}, and its back-off was "
        f"{entry}{expired}"
    )


def _difference(ours: StepOutcome, theirs: StepOutcome) -> str:
    if ours.held != theirs.held:
        return "is held back" if ours.held else "is not held back"
    for field in ("entry", "message", "until"):
        mine, claimed = getattr(ours, field), getattr(theirs, field)
        if claimed is UNSET or mine is UNSET:
            return f"has {'no ' if mine is UNSET else ''}{field} in this version"
        if mine != claimed:
            return f"has {field} {mine!r} afterwards, not {claimed!r}"
    raise AssertionError("the outcomes do not differ")


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
