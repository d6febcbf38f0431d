"""Cases of doBackOff: one container over a series of syncs that would start it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from msgspec import UNSET, UnsetType

from kubeledger.kubelet.cases.fields import LAST_NS, Strict, shortened
from kubeledger.kubelet.cases.podactions import check_times
from kubeledger.kubelet.kube.flowcontrol import BackOffPolicy
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
from kubeledger.model.units import format_go_duration, format_ts, parse_go_duration

_DURATION_MAX_NS = 2**62 - 1
"""A longer back-off cannot be doubled in 64 bits."""


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
    return Outcome(list(_syncs(case_input, profile)))


def _syncs(case: BackoffCase, profile: KubeletProfile) -> Iterator[StepOutcome]:
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
        held = do_back_off(backoff, name, name, pod, ended_ns, now_ns)
        until: str | UnsetType = UNSET
        if profile.kuberuntime.cases_give_back_off_end:
            until = "" if held is None else _until(held, index)
        message = "" if held is None else held.message
        entry = format_go_duration(backoff.get(name))
        yield StepOutcome(held is not None, message, entry, until)


def _ended_ns(exited: ContainerStatus | None) -> int | None:
    if exited is None:
        return None
    return ZERO_TIME_NS if exited.finished_at is None else instant_ns(exited.finished_at)


def _until(held: BackedOff, index: int) -> str:
    if held.until_ns > LAST_NS:
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
