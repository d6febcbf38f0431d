"""Image GC against recorded passes of the real kubelet; versions without recordings; bad input."""

import itertools
from typing import Any

import pytest

from tests.kubelet.cases.conformance import canonical, load
from tests.kubelet.cases.lines import Lines

LINES = Lines("imagegc")


@pytest.mark.parametrize("version", ["1.20.2", "1.28.0", "1.36.2"])
def test_no_order_but_a_recorded_one_is_possible(version: str) -> None:
    """Removals in any other order, with all else as recorded."""
    for case in load(version, "imagegc"):
        possible = {canonical(outcome) for outcome in case["outcomes"]}
        for outcome in case["outcomes"][:4]:
            for step in outcome["steps"]:
                removed = step["removed"]
                if not 1 < len(removed) < 6:
                    continue
                for step["removed"] in map(list, itertools.permutations(removed)):
                    verdict, _ = LINES.judged(version, case["input"], outcome)
                    assert (verdict != "impossible") == (canonical(outcome) in possible)
                step["removed"] = removed


AT = "2026-01-05T08:00:00Z"


def step(op: str = "garbageCollect", at: str = AT, **changes: object) -> dict[str, Any]:
    """A pass over two images, one GiB each, on a disk that is 90 % full."""
    gib = 1 << 30
    return {
        "at": at,
        "op": op,
        "images": [{"id": "a", "size": gib}, {"id": "b", "size": gib}],
        "imagesInUse": [],
        "imageFs": {"capacityBytes": 100 * gib, "availableBytes": 10 * gib},
        "removeErrors": [],
        **changes,
    }


def case_input(*steps: dict[str, Any], **policy: object) -> dict[str, Any]:
    """A case with the default thresholds and no minimum age."""
    return {
        "policy": {
            "imageGCHighThresholdPercent": 85,
            "imageGCLowThresholdPercent": 80,
            "imageMinimumGCAge": "0s",
            **policy,
        },
        "sandboxImage": "",
        "kubeletStartedAt": AT,
        "steps": list(steps),
    }


@pytest.mark.parametrize(
    ("version", "text"),
    [
        ("1.19.0", "failed to garbage collect required amount of images. Wanted to free "
                   "10737418240 bytes, but freed 2147483648 bytes"),
        ("1.25.16", "failed to garbage collect required amount of images. Wanted to free "
                    "10737418240 bytes, but freed 2147483648 bytes"),
        ("1.26.0", "Failed to garbage collect required amount of images. Attempted to free "
                   "10737418240 bytes, but only found 2147483648 bytes eligible to free."),
        ("1.34.1", "Failed to garbage collect required amount of images. Attempted to free "
                   "10737418240 bytes, but only found 2147483648 bytes eligible to free."),
        ("1.35.0", "Insufficient free disk space on the node's image filesystem (90% of 100.0 GiB "
                   "used). Failed to free sufficient space by deleting unused images (freed "
                   "2147483648 bytes). Investigate disk usage, as it could be used by active "
                   "images, logs, volumes, or other data."),
    ],
)  # fmt: skip
def test_the_three_generations_of_the_shortfall(version: str, text: str) -> None:
    """Error and event say the same."""
    (done,) = LINES.decided(version, case_input(step()))["steps"]
    assert done["error"] == text
    assert done["events"] == [f"Warning FreeDiskSpaceFailed {text}"]


@pytest.mark.parametrize(
    ("version", "first_detected"), [("1.19.0", ""), ("1.28.15", ""), ("1.29.0", AT)]
)
def test_the_first_detect_pass(version: str, first_detected: str) -> None:
    """Until 1.28 what it finds is infinitely old."""
    records = LINES.decided(version, case_input(step("detect")))["records"]
    assert records["a"] == [first_detected, "", str(1 << 30)]


@pytest.mark.parametrize(("version", "removed"), [("1.22.0", ["a", "b"]), ("1.23.0", ["b"])])
def test_pinned_images(version: str, removed: list[str]) -> None:
    """Since 1.23 they stay."""
    images = [{"id": "a", "size": 1, "pinned": True}, {"id": "b", "size": 1}]
    done = LINES.decided(version, case_input(step("deleteUnusedImages", images=images)))
    assert done["steps"][0]["removed"] == removed


@pytest.mark.parametrize(("version", "removed"), [("1.28.0", ["b"]), ("1.29.0", ["a", "b"])])
def test_the_configured_sandbox_image(version: str, removed: list[str]) -> None:
    """Until 1.28 it counts as in use."""
    case = case_input(step("deleteUnusedImages")) | {"sandboxImage": "a"}
    assert LINES.decided(version, case)["steps"][0]["removed"] == removed


@pytest.mark.parametrize(
    ("version", "at", "removed"),
    [
        ("1.28.0", "2026-01-06T08:00:00Z", []),  # no age pass
        ("1.29.0", "2026-01-05T08:00:01Z", ["a", "b"]),  # it does not wait
        ("1.30.0", "2026-01-05T09:00:00Z", []),  # not longer than the age
        ("1.30.0", "2026-01-05T09:00:00.000000001Z", ["a", "b"]),
        ("1.36.2", "2026-01-05T09:00:00.000000001Z", ["a", "b"]),
    ],
)
def test_the_age_pass(version: str, at: str, removed: list[str]) -> None:
    """It goes before the disk check, and passes over the minimum age."""
    empty = {"capacityBytes": 100, "availableBytes": 100}
    policy = {"imageMaximumGCAge": "1h", "imageMinimumGCAge": "24h"}
    done = LINES.decided(version, case_input(step(at=at, imageFs=empty), **policy))
    assert done["steps"] == [{"removed": removed, "error": "", "events": []}]


def test_a_failure_in_the_age_pass_ends_the_collection() -> None:
    late = step(at="2026-01-06T08:00:00Z", imageFs=None, removeErrors=["a"])
    (done,) = LINES.decided("1.36.2", case_input(late, imageMaximumGCAge="90m"))["steps"]
    assert done == {
        "removed": ["b"],
        "error": "wanted to free images older than 1h30m0s, encountered errors in image "
        "deletion: image is being used: a",
        "events": [],
    }


@pytest.mark.parametrize(("version", "known"), [("1.28.0", []), ("1.29.0", ["a", "b"])])
def test_when_a_collection_detects(version: str, known: list[str]) -> None:
    """Since 1.29 in every collection; before, only when the disk was too full."""
    assert sorted(LINES.decided(version, case_input(step(imageFs=None)))["records"]) == known
