"""Which passes are admissible: exactly those that some order of the tied images gives."""

import copy
import itertools

import msgspec
import pytest
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
    detect_images,
    elapsed,
    images_in_use,
    monitor_images,
)
from kubeledger.kubelet.images.policy import (
    ImageFsStats,
    ImageGCPolicy,
    format_size,
    loop_disabled,
    policy_error,
    read_usage,
)
from kubeledger.kubelet.kube.gotexts import DURATION_MAX_NS, ZERO_TIME_NS
from kubeledger.kubelet.kube.int64amount import wrapped
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
        for size in range(len(IDS) + 1):
            for removed in itertools.permutations(IDS, size):
                claim = StepOutcome(removed=list(removed), error=done.error, events=done.events)
                ties = ties_of(claim, observed.remove_errors)
                world = msgspec.structs.replace(observed, ties=ties)
                again = decide(copy.deepcopy(manager), operation, world)  # type: ignore[arg-type] # sampled
                same = reported(again) == reported(claim)  # type: ignore[arg-type] # shown alike
                assert same == (reported(claim) in possible)  # type: ignore[arg-type] # shown alike


# -- Detect passes: records come, move and go ------------------------------------------------------

POLICY = ImageGCPolicy(high_threshold_percent=85, low_threshold_percent=80, min_age_ns=0)


def manager_of_detect(version: str, **fields: str) -> RealImageGCManager:
    return RealImageGCManager(policy=POLICY, facts=resolve(version).images, **fields)  # type: ignore[arg-type] # strings only


def seen(now_ns: int, *image_ids: str, in_use: str = "") -> Observed:
    """These images, of size 5."""
    return Observed(
        now_ns=now_ns,
        images=tuple(RuntimeImage(i, 5) for i in image_ids),
        images_in_use=frozenset(in_use.split()),
        image_fs=None,
    )


def test_two_passes_of_the_loop_in_an_old_kubelet() -> None:
    """The first gives the zero time, the second its own; who is not listed is forgotten."""
    manager = manager_of_detect("1.20.2")
    monitor_images(manager, seen(100, "a", "b", in_use="b"))
    assert manager.records["a"] == ImageRecord(first_detected_ns=ZERO_TIME_NS, size_bytes=5)
    assert manager.records["b"].last_used_ns == 100
    monitor_images(manager, seen(200, "b", "c"))
    assert list(manager.records) == ["b", "c"]
    assert manager.records["b"].last_used_ns == 100
    assert manager.records["c"].first_detected_ns == 200


def test_a_gc_pass_that_comes_first_gives_its_own_time() -> None:
    """So images of before the kubelet's start are protected, or not, by who came first."""
    manager = manager_of_detect("1.20.2")
    detect_images(manager, seen(100, "a"), 100)
    monitor_images(manager, seen(200, "a", "b"))
    assert manager.records["a"].first_detected_ns == 100
    assert manager.records["b"].first_detected_ns == ZERO_TIME_NS


@pytest.mark.parametrize(("version", "in_use"), [("1.34.0", {"a"}), ("1.35.0", {"a", "v"})])
def test_image_volumes(version: str, in_use: set[str]) -> None:
    """They count since the gate is on by default."""
    assert images_in_use(["a", "a"], ["v"], resolve(version).images) == in_use


@pytest.mark.parametrize(
    ("later", "earlier", "ns"),
    [
        (5, 3, 2),
        (3, 5, -2),
        (0, ZERO_TIME_NS, DURATION_MAX_NS),
        (ZERO_TIME_NS, 0, -DURATION_MAX_NS - 1),
    ],
)
def test_elapsed_stops_at_the_limit(later: int, earlier: int, ns: int) -> None:
    """The age of what was detected at the zero time."""
    assert elapsed(later, earlier) == ns


# -- Percent and target in the kubelet's integers; sizes for people --------------------------------


def test_products_beyond_64_bits_wrap() -> None:
    """On a disk of 2**57 bytes (128 PiB) the share of what is available is nonsense."""
    usage = read_usage(ImageFsStats(2**57, 2**57))
    assert usage is not None
    assert wrapped(2**57 * 100) == -28 * 2**57
    assert usage.percent == 128


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (1024**2 - 1, "1024.0 KiB"),
        (28346784973, "26.4 GiB"),
        (1024**4, "1.0 TiB"),
        (5 * 1024**5, "5120.0 TiB"),
        (-5000, "-5000 B"),
    ],
)
def test_format_size(size: int, text: str) -> None:
    """Binary units with one decimal; nothing above TiB."""
    assert format_size(size) == text


@pytest.mark.parametrize(
    ("high", "low", "error"),
    [
        (85, 80, ""),
        (100, 100, ""),
        (0, 0, ""),
        (-1, 0, "invalid HighThresholdPercent -1, must be in range [0-100]"),
        (101, 102, "invalid HighThresholdPercent 101, must be in range [0-100]"),
        (85, -1, "invalid LowThresholdPercent -1, must be in range [0-100]"),
        (85, 101, "invalid LowThresholdPercent 101, must be in range [0-100]"),
        (80, 85, "LowThresholdPercent 85 can not be higher than HighThresholdPercent 80"),
    ],
)
def test_policy_error(high: int, low: int, error: str) -> None:
    """High before low before their order; equal ones are taken."""
    policy = ImageGCPolicy(high_threshold_percent=high, low_threshold_percent=low, min_age_ns=0)
    assert policy_error(policy) == error


OLD = "ImageGCHighThresholdPercent is set 100, Disable image GC"
NEW = "ImageGCHighThresholdPercent is set 100 and ImageMaximumGCAge is 0, Disable image GC"


@pytest.mark.parametrize(
    ("version", "high", "max_age_ns", "message"),
    [
        ("1.20.2", 99, 0, ""),
        ("1.20.2", 100, 0, OLD),
        ("1.29.0", 100, 5, OLD),
        ("1.30.0", 100, 0, NEW),
        ("1.30.0", 100, 5, ""),
        ("1.36.2", 100, 0, NEW),
    ],
)
def test_a_threshold_of_100(version: str, high: int, max_age_ns: int, message: str) -> None:
    """It stops the loop, unless images can still go for their age."""
    assert loop_disabled(high, max_age_ns, resolve(version).images) == message
