"""Removals that something denies, where no detect pass was logged."""

from typing import Any

import pytest

from kubeledger.model.bodies.lifecycle import PodListed
from kubeledger.model.record import Body
from tests.verify.histories import findings, kubelet_of
from tests.verify.image_scenes import deleted, detected, disk, history, settings, signal, started

KUBELET = kubelet_of(from_start=True)


def listed(image_id: str, since: str = "1970-01-01T00:16:45Z") -> PodListed:
    """A container that runs since five seconds behind the start of the scene, or later."""
    status = {
        "name": "c",
        "imageID": image_id,
        "containerID": f"containerd://{image_id}",
        "state": {"running": {"startedAt": since}},
    }
    return PodListed(
        namespace="ns", pod="p", pod_uid="u", listed_by="kubelet", spec={},
        status={"containerStatuses": [status]},
    )  # fmt: skip


def verdict_of(*steps: tuple[float, Body], **changes: Any) -> tuple[str, str]:  # noqa: ANN401
    records = history((0, KUBELET), (0.1, settings(**changes)), *steps)
    found = findings(records, kind="images.ImageDeleted")[-1]
    return found.verdict, found.why


@pytest.mark.parametrize(
    ("steps", "verdict", "reported"),
    [
        ([(60, started()), (61, deleted("a"))], "unverifiable", "detect pass"),
        ([(60, started()), (61, deleted("a")), (90, listed("a"))], "impossible", "ns/p/c ran on"),
        ([(30, listed("a")), (60, started()), (61, deleted("a"))], "unverifiable", "detect pass"),
        ([(60, started()), (61, deleted("a")), (90, listed("b"))], "unverifiable", "detect pass"),
        ([(60, started(amount=5)), (61, deleted("b", size=6)), (62, deleted("a"))], "impossible",
         "6 of 5 bytes had been freed before its turn"),
        ([(60, started(amount=7)), (61, deleted("b", size=6)), (62, deleted("a"))], "unverifiable",
         "detect pass"),
        ([(60, signal(4)), (61, deleted("a", "all"))], "unverifiable", "detect pass"),
        ([(60, signal(4)), (61, deleted("a", "all")), (90, listed("a"))], "impossible",
         "it is in use: container ns/p/c ran on it"),
    ],
)  # fmt: skip
def test_space_and_unused(steps: list[tuple[float, Body]], verdict: str, reported: str) -> None:
    found = verdict_of(*steps)
    assert found[0] == verdict
    assert reported in found[1]


@pytest.mark.parametrize(
    ("at_s", "steps", "verdict", "reported"),
    [
        (500, [], "impossible", "in a kubelet that ran so long"),
        (700, [], "unverifiable", "detect pass"),
        (700, [(600, listed("a"))], "impossible", "nor had it been unused for more than 10m0s"),
        (700, [(100, listed("a"))], "unverifiable", "detect pass"),
        (1600, [(600, listed("a"))], "unverifiable", "detect pass"),
    ],
)
def test_age(at_s: int, steps: list[tuple[float, Body]], verdict: str, reported: str) -> None:
    """Not before the kubelet has run that long, nor where a pass must have found it in use."""
    steps = [*steps, (at_s - 5, disk(50)), (at_s, deleted("a", "age"))]
    found = verdict_of(*steps, imageMaximumGCAge="10m")
    assert found[0] == verdict
    assert reported in found[1]


def test_lists_deny_what_detect_passes_allow() -> None:
    """A pass tells that no container used the image, and a list that one ran on it all the time."""
    passes = [(55.0, detected("ab", new="ab")), (185.0, detected("ab"))]
    removal = [(190.0, disk(15)), (190.1, started()), (190.2, deleted("a"))]
    assert verdict_of(*passes, *removal)[0] == "match"
    found = verdict_of(*passes, *removal, (300, listed("a")))
    assert found[0] == "impossible"
    assert "ns/p/c ran on it" in found[1]
