"""Detect passes: records come, move and go."""

import pytest

from kubeledger.kubelet.images.image_gc_manager import (
    ImageRecord,
    Observed,
    RealImageGCManager,
    RuntimeImage,
    detect_images,
    elapsed,
    images_in_use,
    monitor_images,
)
from kubeledger.kubelet.images.policy import ImageGCPolicy
from kubeledger.kubelet.kube.gotexts import DURATION_MAX_NS, ZERO_TIME_NS
from kubeledger.kubelet.profile.resolve import resolve

POLICY = ImageGCPolicy(high_threshold_percent=85, low_threshold_percent=80, min_age_ns=0)


def manager_of(version: str, **fields: str) -> RealImageGCManager:
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
    manager = manager_of("1.20.2")
    monitor_images(manager, seen(100, "a", "b", in_use="b"))
    assert manager.records["a"] == ImageRecord(first_detected_ns=ZERO_TIME_NS, size_bytes=5)
    assert manager.records["b"].last_used_ns == 100
    monitor_images(manager, seen(200, "b", "c"))
    assert list(manager.records) == ["b", "c"]
    assert manager.records["b"].last_used_ns == 100
    assert manager.records["c"].first_detected_ns == 200


def test_a_gc_pass_that_comes_first_gives_its_own_time() -> None:
    """So images of before the kubelet's start are protected, or not, by who came first."""
    manager = manager_of("1.20.2")
    detect_images(manager, seen(100, "a"), 100)
    monitor_images(manager, seen(200, "a", "b"))
    assert manager.records["a"].first_detected_ns == 100
    assert manager.records["b"].first_detected_ns == ZERO_TIME_NS


@pytest.mark.parametrize(("version", "in_use"), [("1.28.0", {"x", "p"}), ("1.29.0", {"x"})])
def test_the_sandbox_image(version: str, in_use: set[str]) -> None:
    """In use, listed or not, until 1.28."""
    manager = manager_of(version, sandbox_image="p")
    assert detect_images(manager, seen(1, "a", in_use="x"), 1) == in_use


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
