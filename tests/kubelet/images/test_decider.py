"""Which passes are admissible: exactly those that some order of the tied images gives."""

from __future__ import annotations

import copy
import itertools

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeledger.kubelet.cases.imagegc import StepOutcome, ties_of
from kubeledger.kubelet.images.image_gc_manager import (
    ImageRecord,
    Observed,
    Pass,
    RealImageGCManager,
    RuntimeImage,
    decide,
)
from kubeledger.kubelet.images.policy import ImageFsStats, ImageGCPolicy
from kubeledger.kubelet.profile.resolve import resolve

HOUR = 3600 * 10**9
NOW = 100 * HOUR
IDS = ("a", "ab", "b", "c")


def manager_of(records: dict[str, ImageRecord], version: str, **policy: int) -> RealImageGCManager:
    """A manager that knows these images."""
    settings = {"high_threshold_percent": 85, "low_threshold_percent": 80, "min_age_ns": 0}
    return RealImageGCManager(
        policy=ImageGCPolicy(**settings | policy),
        facts=resolve(version).images,
        records=records,
        initialized=True,
    )


def observed_of(manager: RealImageGCManager, free: int = 10, failing: str = "") -> Observed:
    """All images of the manager, on a disk of 100 bytes."""
    return Observed(
        now_ns=NOW,
        images=tuple(RuntimeImage(i, r.size_bytes, r.pinned) for i, r in manager.records.items()),
        images_in_use=frozenset(),
        image_fs=ImageFsStats(100, free),
        remove_errors={i: f"image is being used: {i}" for i in failing.split()},
    )


def reported(done: Pass) -> tuple[tuple[str, ...], str, tuple[str, ...]]:
    """What a claim shows of a pass."""
    return tuple(done.removed), done.error, tuple(done.events)


records = st.builds(
    ImageRecord,
    first_detected_ns=st.sampled_from([0, 99 * HOUR]),
    last_used_ns=st.sampled_from([0, 98 * HOUR, NOW]),
    size_bytes=st.integers(0, 6),
    pinned=st.booleans(),
)


@settings(max_examples=150, deadline=None)
@given(
    st.fixed_dictionaries(dict.fromkeys(IDS, records)),
    st.sampled_from(["1.20.2", "1.28.0", "1.29.0", "1.36.2"]),
    st.sampled_from([0, 3 * HOUR]),
    st.sampled_from([0, 2 * HOUR]),
    st.integers(0, 25),
    st.lists(st.sampled_from(IDS), max_size=3, unique=True),
    st.sampled_from(["garbageCollect", "deleteUnusedImages"]),
)
def test_admissible_is_what_some_order_gives(
    held: dict[str, ImageRecord],
    version: str,
    max_age_ns: int,
    min_age_ns: int,
    free: int,
    failing: list[str],
    operation: str,
) -> None:
    """Every order gives an admissible pass; what no order gives is refused."""
    manager = manager_of(held, version, max_age_ns=max_age_ns, min_age_ns=min_age_ns)
    observed = observed_of(manager, free, " ".join(failing))
    possible: dict[object, Pass] = {}
    for order in itertools.permutations(IDS):
        ties = {image_id: place for place, image_id in enumerate(order)}
        world = msgspec.structs.replace(observed, ties=ties)
        done = decide(copy.deepcopy(manager), operation, world)  # type: ignore[arg-type] # sampled
        possible[reported(done)] = done
    chosen = decide(copy.deepcopy(manager), operation, observed)  # type: ignore[arg-type] # sampled
    assert reported(chosen) in possible
    for done in possible.values():
        for size in range(len(IDS) + 1):
            for removed in itertools.permutations(IDS, size):
                claim = StepOutcome(removed=list(removed), error=done.error, events=done.events)
                ties = ties_of(claim, observed.remove_errors)
                world = msgspec.structs.replace(observed, ties=ties)
                again = decide(copy.deepcopy(manager), operation, world)  # type: ignore[arg-type] # sampled
                same = reported(again) == reported(claim)  # type: ignore[arg-type] # shown alike
                assert same == (reported(claim) in possible)  # type: ignore[arg-type] # shown alike
