"""Cases of image GC: a policy and a series of passes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import zip_longest

import msgspec

from kubeledger.kubelet.cases.fields import (
    Strict,
    Subsystem,
    check_uint64,
    shortened,
    time_of,
)
from kubeledger.kubelet.images import image_gc_manager
from kubeledger.kubelet.images.image_gc_manager import (
    Observed,
    Operation,
    RealImageGCManager,
    RuntimeImage,
)
from kubeledger.kubelet.images.policy import ImageFsStats, ImageGCPolicy, policy_error
from kubeledger.kubelet.kube.gotexts import DURATION_MAX_NS, ZERO_TIME_NS
from kubeledger.kubelet.kube.pod import Int32
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.model.errors import BadInputError
from kubeledger.model.units import format_ts, parse_go_duration


class Policy(Strict, frozen=True, kw_only=True):
    """The policy that the image manager is given, under the names of the configuration."""

    high: Int32 = msgspec.field(name="imageGCHighThresholdPercent")
    low: Int32 = msgspec.field(name="imageGCLowThresholdPercent")
    minimum_age: str = msgspec.field(name="imageMinimumGCAge")
    maximum_age: str = msgspec.field(name="imageMaximumGCAge", default="0s")


class Step(Strict, frozen=True, kw_only=True):
    """One pass, and the world it meets."""

    at: str
    op: Operation
    images: tuple[RuntimeImage, ...]
    images_in_use: tuple[str, ...]
    image_fs: ImageFsStats | None
    remove_errors: tuple[str, ...] = ()


class ImageGCInput(Strict, frozen=True, kw_only=True):
    """A case's input."""

    policy: Policy
    steps: tuple[Step, ...]
    sandbox_image: str = ""
    kubelet_started_at: str | None = None


class StepOutcome(Strict, frozen=True, kw_only=True):
    """What one pass did."""

    removed: list[str]
    error: str
    events: list[str]


class Outcome(Strict, frozen=True, kw_only=True):
    """A case's outcome; a record is first detected, last used, size."""

    invalid_policy: str
    steps: list[StepOutcome]
    records: dict[str, tuple[str, str, str]]


def decide(case_input: ImageGCInput, profile: KubeletProfile) -> Outcome:
    """The outcome; ties between images are decided by their IDs."""
    return _passes(case_input, profile, ())


def nearest(
    case_input: ImageGCInput, profile: KubeletProfile, decided: Outcome, claimed: Outcome
) -> Outcome:
    """The same passes, with the order of tied images taken *from the claim*.

    Those first whose removal it says failed, in its order, then those it says were removed, in
    its order, then the rest. If any order gives the claim, this one does: within a tie only the
    order of the failures, the order of the removals, and who came before the end of the pass can
    be seen.
    """
    return _passes(case_input, profile, claimed.steps)


def _passes(
    case_input: ImageGCInput, profile: KubeletProfile, claims: Sequence[StepOutcome]
) -> Outcome:
    manager = _manager(case_input, profile)
    # Also what an invalid policy leaves unused must be sound.
    observed = [_observed(step, at) for at, step in enumerate(case_input.steps)]
    if error := policy_error(manager.policy):
        return Outcome(invalid_policy=error, steps=[], records={})
    steps = []
    for step, world, claim in zip_longest(case_input.steps, observed, claims[: len(observed)]):
        if claim is not None:
            world = msgspec.structs.replace(world, ties=ties_of(claim, world.remove_errors))
        done = image_gc_manager.decide(manager, step.op, world)
        steps.append(StepOutcome(removed=done.removed, error=done.error, events=done.events))
    records = {
        image_id: (
            _format_time(record.first_detected_ns),
            _format_time(record.last_used_ns),
            str(record.size_bytes),
        )
        for image_id, record in sorted(manager.records.items())
    }
    return Outcome(invalid_policy="", steps=steps, records=records)


def ties_of(claimed: StepOutcome, remove_errors: Mapping[str, str]) -> dict[str, int]:
    """Image ID -> place among tied images that the claim speaks of."""
    dated: list[tuple[int, str]] = []
    for image_id, error in remove_errors.items():
        # An ID may be the beginning of another one.
        if found := re.search(re.escape(error) + r"(?=, |\]|\Z)", claimed.error):
            dated.append((found.start(), image_id))
    order = [image_id for _, image_id in sorted(dated)] + claimed.removed
    return {image_id: place for place, image_id in reversed(list(enumerate(order)))}


def _manager(case_input: ImageGCInput, profile: KubeletProfile) -> RealImageGCManager:
    configured, started = case_input.policy, case_input.kubelet_started_at
    policy = ImageGCPolicy(
        high_threshold_percent=configured.high,
        low_threshold_percent=configured.low,
        min_age_ns=_duration(configured.minimum_age, "imageMinimumGCAge"),
        max_age_ns=_duration(configured.maximum_age, "imageMaximumGCAge"),
    )
    if started is None and policy.max_age_ns and profile.images.age_pass_waits_for_max_age:
        raise BadInputError("input.kubeletStartedAt: it is missing, but the age pass waits from it")
    return RealImageGCManager(
        policy=policy,
        facts=profile.images,
        sandbox_image=case_input.sandbox_image,
        began_ns=None if started is None else time_of(started, "input.kubeletStartedAt"),
    )


def _observed(step: Step, at: int) -> Observed:
    where, stats = f"input.steps[{at}]", step.image_fs
    if stats is not None:
        check_uint64(f"{where}.imageFs.capacityBytes", stats.capacity_bytes)
        check_uint64(f"{where}.imageFs.availableBytes", stats.available_bytes)
    return Observed(
        now_ns=time_of(step.at, f"{where}.at"),
        images=step.images,
        images_in_use=frozenset(step.images_in_use),
        image_fs=stats,
        remove_errors={i: f"image is being used: {i}" for i in step.remove_errors},
    )


def _format_time(ts_ns: int) -> str:
    return "" if ts_ns == ZERO_TIME_NS else format_ts(ts_ns)


@lru_cache(maxsize=256)
def _duration(text: str, name: str) -> int:
    try:
        duration_ns = parse_go_duration(text)
    except ValueError:
        duration_ns = DURATION_MAX_NS + 1
    if not -DURATION_MAX_NS <= duration_ns <= DURATION_MAX_NS:
        raise BadInputError(f"input.policy.{name}: no Go duration: {shortened(text)}")
    return duration_ns


IMAGEGC = Subsystem(ImageGCInput, Outcome, decide, nearest)
