"""Entries of checkpoints that disagree with grants, or with each other."""

from __future__ import annotations

import pytest

from tests.verify.device_world import Node


def granted(policy: str = "none", **checkpointed: str) -> tuple[Node, int]:
    """Pod a got gpu-2, which a checkpoint shows under its node (``node=...``)."""
    node = Node(policy=policy, numa=(0, 1))
    node.plugin()
    node.pod("a", ("c", 1, "app"))
    seq = node.grant("a", "gpu-2")
    node.checkpoint({("a", "c"): {checkpointed.get("node", "1"): ("gpu-2",)}})
    return node, seq


def says(node: Node) -> list[tuple[str, list[str]]]:
    """Subject and sides of every contradiction."""
    return [(found.subject, [side.says for side in found.sides]) for found in node.contradictions()]


@pytest.mark.parametrize("lie_first", [True, False])
def test_other_devices_while_the_container_stays(lie_first: bool) -> None:  # a parameter
    """One reading of several tells other devices: a contradiction, and no decision is wrong."""
    node = Node()
    node.plugin()
    node.pod("a", ("c", 1, "app"))
    seq = node.grant("a", "gpu-2")
    readings = ["gpu-1", "gpu-2"] if lie_first else ["gpu-2", "gpu-1", "gpu-2", "gpu-1"]
    for device in readings:
        node.checkpoint({("a", "c"): {"1": (device,)}})
    assert node.finding(seq).verdict in ("match", "admissible")
    assert says(node) == [("container/ns/a/c", ["container c got gpu-2", "it holds gpu-1"])]


def test_a_pod_that_came_back_may_hold_others() -> None:
    """Its devices were given back in between."""
    node, _ = granted()
    node.end("a")
    node.release("a")
    node.pod("a", ("c", 1, "app"))
    node.grant("a", "gpu-1")
    node.checkpoint({("a", "c"): {"0": ("gpu-1",)}})
    assert says(node) == []


def test_a_kubelet_that_logs_no_requests_may_have_granted_anew() -> None:
    """Of a process that has told nothing of devices, a checkpoint is believed."""
    node, _ = granted()
    node.start(restart=True)
    node.plugin()
    node.checkpoint({("a", "c"): {"0": ("gpu-1",)}})
    assert says(node) == []
