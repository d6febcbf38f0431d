"""Whose hints keep a pod out, and in which words."""

import pytest

from kubeledger.kubelet.profile.resolve import resolve
from kubeledger.kubelet.topologymanager.explain import blame_text, blamed
from kubeledger.kubelet.topologymanager.policy import Hints, Policy, PolicyName, TopologyHint

FACTS = resolve("1.36.0").topology


def on(*masks: int, preferred: bool = True) -> Hints:
    """Hints of these groups of nodes."""
    return tuple(TopologyHint(mask, preferred) for mask in masks)


@pytest.mark.parametrize(
    ("policy", "hints", "words"),
    [
        ("restricted", {"cpu": on(1), "memory": on(1)}, None),
        ("best-effort", {"cpu": on(1), "memory": ()}, None),
        ("restricted", {"cpu": (), "memory": on(1)}, "cpu fits on no NUMA nodes"),
        ("restricted", {"cpu": on(1, 2), "gpu": on(1), "memory": on(2)},
         "each fits by itself, gpu on NUMA node 0 and memory on NUMA node 1, but not on the same "
         "NUMA nodes"),
        ("restricted", {"cpu": on(1, 2), "memory": on(3, preferred=False)},
         "memory fits on NUMA nodes 0 and 1 only, and would fit on fewer if nothing was in use"),
        ("single-numa-node", {"gpu": on(3), "memory": None},
         "gpu needs NUMA nodes 0 and 1 where policy single-numa-node admits one"),
        ("single-numa-node", {"cpu": (), "gpu": on(3), "memory": on(1)},
         "cpu fits on no NUMA nodes and gpu needs NUMA nodes 0 and 1 where policy "
         "single-numa-node admits one"),
    ],
)  # fmt: skip
def test_the_fewest_resources(
    policy: PolicyName, hints: dict[str, Hints | None], words: str | None
) -> None:
    """Without whose hints the pod would have been admitted."""
    rule = Policy(name=policy, numa_nodes=(0, 1))
    blame = blamed(rule, hints, FACTS)
    assert (None if blame is None else blame_text(blame, rule)) == words
