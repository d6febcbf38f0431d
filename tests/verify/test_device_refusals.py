"""Refused containers, in small scenes."""

from typing import Any

import pytest

from kubeledger.model.bodies.devicemanager import EndpointStopped
from tests.verify.device_world import GPU, Node

UNREGISTERED = f"cannot allocate unregistered device {GPU}"
HINTS = "Unable to generate topology hints: requested number of devices unavailable"
SHORT = f"requested number of devices unavailable for {GPU}. Requested: 3, Available: 2"
ANSWER = "rpc error: code = Unavailable desc = no"


def two_free(limit: int = 3, version: str = "1.36.2") -> Node:
    node = Node(version)
    node.plugin()
    node.pod("h", ("c", 2, "app"))
    node.grant("h", "gpu-0", "gpu-1")
    node.pod("a", ("c", limit, "app"))
    return node


@pytest.mark.parametrize(
    ("error", "fields", "verdict"),
    [
        (SHORT, {"requested": 3, "available": 1}, "impossible"),
        (SHORT, {"hints_requested": 3, "hints_available": 1}, "impossible"),
        (SHORT, {"hints_requested": 4, "hints_available": 2}, "impossible"),
        (HINTS, {}, "match"),
        (HINTS, {"available": 1}, "unverifiable"),
        (HINTS, {"requested": 2, "available": 1}, "impossible"),
        ("x", {"resource": None}, "unverifiable"),
        ("x", {"container": None}, "impossible"),  # it is the only one that asks
        ("x", {"told_by": "status"}, "unverifiable"),
    ],
)
def test_the_words_and_counts_of_two_lines(
    error: str, fields: dict[str, Any], verdict: str
) -> None:
    """The error's own words, its counts and those of the line about hints tell the same."""
    node = two_free()
    seq = node.refuse("a", 0, error, **{"requested": 3, "available": 2, **fields})
    assert node.finding(seq).verdict == verdict


@pytest.mark.parametrize(("limit", "verdict"), [(1, "admissible"), (3, "impossible")])
def test_the_plugin_s_own_error(limit: int, verdict: str) -> None:
    node = two_free(limit)
    seq = node.refuse("a", limit, ANSWER)
    node.live_on("h")
    assert node.finding(seq).verdict == verdict


def test_registered_or_not() -> None:
    """A resource whose plugin sent its list is registered; after the grace, nobody knows."""
    node = two_free(limit=1)
    assert node.finding(node.refuse("a", 1, UNREGISTERED)).verdict == "impossible"
    assert node.finding(node.refuse("h", 0, UNREGISTERED)).verdict == "impossible"
    node.start(restart=True)
    node.now += 301
    seq = node.refuse("a", 1, UNREGISTERED)
    assert node.finding(seq).missing == (f"whether {GPU} was registered at that time",)


def test_a_process_knows_of_resources_what_the_checkpoint_holds() -> None:
    """The grace of a plugin that stopped is over: the checkpoint is without its resource."""
    for resources, verdict in (((), "match"), ((GPU,), "impossible")):
        node = two_free(limit=1)
        node.add(EndpointStopped(resource=GPU))
        node.now += 301
        node.checkpoint({("h", "c"): {"0": ("gpu-0", "gpu-1")}}, resources=resources)
        node.start(restart=True)
        assert node.finding(node.refuse("a", 1, UNREGISTERED)).verdict == verdict
