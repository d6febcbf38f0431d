"""Topology manager: how hints are merged, and who is let in."""

from typing import Any

from kubeledger.model.bodies.lifecycle import PodRejected
from tests.testing.goldens.devices import DeviceWorld, gpus, hint
from tests.testing.goldens.registry import Lie, maker_of

__all__: list[str] = []

golden = maker_of(DeviceWorld)
WIDE = (hint(0), hint(1), hint(0, 1, preferred=False))
SPLIT = (hint(0, 1, preferred=False),)
"""A request that one NUMA node cannot serve, although its size would fit one."""

SPLIT_VERSIONS = {
    "best-effort": ("1.20.2", "1.28.0", "1.36.2"),
    "restricted": ("1.20.2", "1.28.0", "1.36.2"),
    "single-numa-node": (),
}
"""1.20 merges to the narrowest node set; later ones to as many nodes as are needed."""


def _register(policy: str, scope: str) -> None:
    name = None if scope == "pod" else "app"
    settings: dict[str, Any] = {"topologyManagerPolicy": policy, "topologyManagerScope": scope}

    @golden(f"topology-{policy}-{scope}-aligned", numa=(0, 1), **settings)
    def aligned(node: DeviceWorld) -> Lie:
        """Both providers can have NUMA node 1: that is the merged hint."""
        node.plugin()
        node.pod("train", gpus("app", 1))
        offered = node.hints("train", name, cpu=WIDE, gpu=(hint(1),))
        seq = node.affinity("train", name, hint(1), offered, policy=policy)
        return Lie(seq, {"hint": hint(0)})

    @golden(f"topology-{policy}-{scope}-split", *SPLIT_VERSIONS[policy], numa=(0, 1), **settings)
    def split(node: DeviceWorld) -> Lie:
        """No NUMA node serves it alone: best-effort lets the pod in, the others refuse it."""
        node.plugin()
        node.handed("train")
        offered = node.hints("train", name, cpu=WIDE, gpu=SPLIT)
        admit = policy == "best-effort"
        nodes = () if policy == "single-numa-node" else (0,) if node.version == "1.20.2" else (0, 1)
        merged = hint(*nodes, preferred=False)
        seq = node.affinity("train", name, merged, offered, policy=policy, admit=admit)
        if not admit:
            message = "Resources cannot be allocated with Topology locality"
            node.add(
                PodRejected(**node.of("train"), reason="TopologyAffinityError", message=message)
            )
        node.listed("train", gpus("app", 1))
        return Lie(seq, {"admit": not admit})


for _policy in ("best-effort", "restricted", "single-numa-node"):
    for _scope in ("container", "pod"):
        _register(_policy, _scope)


@golden("topology-none", numa=(0, 1))
def none(node: DeviceWorld) -> Lie:
    """Under policy none nothing is aligned: a device of any NUMA node will do."""
    node.plugin()
    node.pod("first", gpus("app", 1))
    node.grant("first", "app", "gpu-3")
    node.pod("second", gpus("app", 1))
    seq = node.grant("second", "app", "gpu-0")
    node.checkpoint({"first": {"1": ("gpu-3",)}, "second": {"0": ("gpu-0",)}})
    return Lie(seq, {"device_ids": ("gpu-3",)})
