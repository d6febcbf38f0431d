"""Which passes are admissible: exactly those that some order of the tied images gives."""

import copy
import itertools

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeledger.kubelet.images.explain import admissible
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
        assert admissible(copy.deepcopy(manager), operation, observed, done) == ""  # type: ignore[arg-type] # sampled
        for size in range(len(IDS) + 1):
            for removed in itertools.permutations(IDS, size):
                claim = Pass(removed=list(removed), error=done.error, events=done.events)
                why = admissible(copy.deepcopy(manager), operation, observed, claim)  # type: ignore[arg-type] # sampled
                assert (why == "") == (reported(claim) in possible), why


@pytest.mark.parametrize(
    ("removed", "why"),
    [
        (["used"], "used cannot have been removed: it is in use"),
        (["pinned"], "pinned cannot have been removed: it is pinned"),
        (["young"], "young cannot have been removed: it was detected more recently"),
        (["stuck"],
         "stuck cannot have been removed: its removal fails with 'image is being used: stuck'"),
        (["old", "old"], "old was removed twice in one pass"),
        (["later"], "later was removed while old, which was last used earlier, was left"),
        (["later", "old"], "later was removed before old, which was last used earlier"),
        (["old", "later"],
         "later cannot have been removed: the pass ends before its turn, with 10 bytes freed where "
         "10 were to be freed"),
        ([], "old was left, although it was its turn, and only 0 of 10 bytes were freed before"),
        (["other"], "other cannot have been removed: the runtime does not list it"),
        (["old", "other"], "other cannot have been removed: the runtime does not list it"),
    ],
)  # fmt: skip
def test_why_a_removal_is_impossible(removed: list[str], why: str) -> None:
    """In the words of the kubelet's own steps."""
    manager = manager_of(
        {
            "used": ImageRecord(first_detected_ns=0, size_bytes=1),
            "pinned": ImageRecord(first_detected_ns=0, size_bytes=1, pinned=True),
            "young": ImageRecord(first_detected_ns=99 * HOUR, last_used_ns=0, size_bytes=1),
            "stuck": ImageRecord(first_detected_ns=0, last_used_ns=0, size_bytes=1),
            "old": ImageRecord(first_detected_ns=0, last_used_ns=HOUR, size_bytes=10),
            "later": ImageRecord(first_detected_ns=0, last_used_ns=2 * HOUR, size_bytes=10),
        },
        "1.28.0",
        min_age_ns=2 * HOUR,
    )
    observed = observed_of(manager, failing="stuck")
    observed = Observed(
        now_ns=NOW,
        images=observed.images,
        images_in_use=frozenset({"used"}),
        image_fs=observed.image_fs,
        remove_errors=observed.remove_errors,
    )
    assert admissible(manager, "garbageCollect", observed, Pass(removed=removed)).startswith(why)


def test_no_removal_without_need() -> None:
    """A disk below the threshold, a pass that ended before, a detect pass."""
    held = {"a": ImageRecord(first_detected_ns=0, size_bytes=1)}
    claim = Pass(removed=["a"])
    manager = manager_of(held, "1.36.2")
    why = admissible(manager, "garbageCollect", observed_of(manager, free=50), claim)
    assert why == (
        "a cannot have been removed: no space was to be freed, the disk being used to 50 %, "
        "below the high threshold of 85 %"
    )
    why = admissible(manager, "detect", observed_of(manager), claim)
    assert "a detect pass removes nothing" in why
    no_stats = Observed(
        now_ns=NOW, images=(RuntimeImage("a", 1),), images_in_use=frozenset(), image_fs=None
    )
    why = admissible(manager, "garbageCollect", no_stats, claim)
    assert "failed to get image stats" in why


@pytest.mark.parametrize(
    ("claimed", "why"),
    [
        ([], "a was left, although it was its turn: this pass removes all images that it can"),
        (["a", "b"], "c was left, although it was its turn: this pass removes all images that"),
        (["b", "a", "c"], "b was removed before a, which was never used"),
        (["a", "c", "b"], "c was removed before b, which was detected earlier"),
        (["a", "c"], "c was removed while b, which was detected earlier, was left"),
        (["a", "b", "c", "a"], "a was removed twice in one pass"),
        (["a", "b", "c", "d"], "d cannot have been removed: the runtime does not list it"),
    ],
)
def test_why_a_pass_over_all_images_is_impossible(claimed: list[str], why: str) -> None:
    """The first difference, told as it is: an image that goes later was not left."""
    manager = manager_of(
        {
            "a": ImageRecord(first_detected_ns=9, size_bytes=100),
            "b": ImageRecord(first_detected_ns=5, last_used_ns=7, size_bytes=100),
            "c": ImageRecord(first_detected_ns=6, last_used_ns=7, size_bytes=100),
        },
        "1.36.2",
    )
    told_why = admissible(
        manager, "deleteUnusedImages", observed_of(manager), Pass(removed=claimed)
    )
    assert told_why.startswith(why)


def test_why_an_image_goes_for_its_age_or_first() -> None:
    """The age pass counts no bytes; the first image goes even with nothing to free."""
    held = {"a": ImageRecord(first_detected_ns=0, last_used_ns=HOUR, size_bytes=1)}
    manager = manager_of(held, "1.36.2", max_age_ns=HOUR)
    why = admissible(manager, "garbageCollect", observed_of(manager), Pass())
    assert why == "a was left, although it was not used for longer than the maximum age"
    manager = manager_of(
        {"a": ImageRecord(first_detected_ns=0, size_bytes=1)}, "1.36.2", high_threshold_percent=80
    )
    why = admissible(manager, "garbageCollect", observed_of(manager, free=20), Pass())
    assert why.endswith("the first image that can go goes, even with nothing to free")
