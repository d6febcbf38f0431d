"""Masks, options and set-up errors, admission in both scopes."""

from __future__ import annotations

import pytest

from kubeledger.kubelet.profile.resolve import resolve
from kubeledger.kubelet.topologymanager.bitmask import (
    NUMANodeError,
    bits_of,
    iterate_bit_masks,
    mask_of,
    mask_text,
)
from kubeledger.kubelet.topologymanager.hint import TopologyHint
from kubeledger.kubelet.topologymanager.options import (
    ConfigurationError,
    PolicyOptions,
    check_setup,
    policy_options,
)
from kubeledger.kubelet.topologymanager.policies import Policy, PolicyName
from kubeledger.kubelet.topologymanager.scope import HintProvider, admit

FACTS = resolve("1.36.0").topology
CLOSEST, ALLOWABLE = "prefer-closest-numa-nodes", "max-allowable-numa-nodes"


@pytest.mark.parametrize(
    ("mask", "text"), [(1, "01"), (2, "10"), (3, "11"), (4, "100"), (5, "0101"), (16, "10000")]
)
def test_mask_text(mask: int, text: str) -> None:
    """Two digits or an even number of them, but for powers of four."""
    assert mask_text(mask) == text


def test_masks_go_by_size_then_by_place() -> None:
    """In the order of the machine's list of nodes."""
    assert [bits_of(mask) for mask in iterate_bit_masks([2, 0])] == [[2], [0], [0, 2]]


@pytest.mark.parametrize("node", [-1, 64])
def test_nodes_no_mask_can_hold(node: int) -> None:
    """The kubelet's error."""
    with pytest.raises(NUMANodeError, match="range 0-63"):
        mask_of([node])


@pytest.mark.parametrize(
    ("version", "options", "alpha", "beta", "error"),
    [
        ("1.25.0", {CLOSEST: "true"}, True, True, "unknown Topology Manager Policy option"),
        ("1.26.0", {CLOSEST: "true"}, False, True, "Policy Alpha-level Options not enabled"),
        ("1.28.0", {CLOSEST: "true"}, False, False, "Policy Beta-level Options not enabled"),
        ("1.28.0", {CLOSEST: "true"}, False, True, ""),
        ("1.32.0", {CLOSEST: "true"}, False, False, ""),
        ("1.30.0", {ALLOWABLE: "9"}, True, True, "unknown Topology Manager Policy option"),
        ("1.32.0", {ALLOWABLE: "9"}, True, False, "Policy Beta-level Options not enabled"),
        ("1.33.1", {ALLOWABLE: "9"}, True, False, "policy beta-level options not enabled"),
        ("1.35.0", {ALLOWABLE: "9"}, False, False, ""),
        ("1.36.0", {ALLOWABLE: "7"}, False, False, "should not be less than 8"),
        ("1.36.0", {ALLOWABLE: "x"}, False, False, "unable to convert policy option to integer"),
        ("1.36.0", {CLOSEST: "yes"}, False, False, "bad value for option"),
    ],
)
def test_options(
    version: str, options: dict[str, str], alpha: bool, beta: bool, error: str
) -> None:
    """By version and gate."""
    facts = resolve(version).topology
    if not error:
        assert policy_options(options, facts, alpha_gate=alpha, beta_gate=beta) != PolicyOptions()
        return
    with pytest.raises(ConfigurationError, match=error):
        policy_options(options, facts, alpha_gate=alpha, beta_gate=beta)


@pytest.mark.parametrize(
    ("policy", "scope", "nodes", "error"),
    [
        ("none", "container", 64, ""),
        ("restricted", "pod", 8, ""),
        ("restricted", "pod", 9, "unsupported on machines with more than 8 NUMA Nodes"),
        ("strict", "pod", 2, 'unknown policy: "strict"'),
        ("none", "node", 2, 'unknown scope: "node"'),
    ],
)
def test_set_up(policy: str, scope: str, nodes: int, error: str) -> None:
    """What the topology manager refuses to start with."""
    if not error:
        check_setup(policy, scope, nodes, PolicyOptions(), FACTS)
        return
    with pytest.raises(ConfigurationError, match=error):
        check_setup(policy, scope, nodes, PolicyOptions(), FACTS)


class Node:
    """A provider that gives out what it has, one unit a container, of node 0 and 1."""

    def __init__(self, *free: int) -> None:
        self.free = list(free)
        self.calls: list[tuple[str, int | None]] = []

    def provider(self, error_for: str = "") -> HintProvider:
        """As the topology manager sees it; a pod is of containers ``a`` and ``b``."""

        def hints(needed: int) -> dict[str, tuple[TopologyHint, ...] | None]:
            fitting = (n for n in (0, 1) if self.free[n] >= needed)
            return {"r": tuple(TopologyHint(1 << n, preferred=True) for n in fitting)}

        def allocate(container: str, affinity: int | None) -> str:
            self.calls.append((container, affinity))
            if container == error_for:
                return "no luck"
            self.free[0 if affinity in (None, 1) else 1] -= 1
            return ""

        return HintProvider(
            container_hints=lambda name: hints({"a": 1, "b": 1}[name]),
            pod_hints=lambda: hints(2),
            allocate=allocate,
        )


NO_LUCK = "Allocate failed due to no luck, which is unexpected"
NO_PLACE = "Resources cannot be allocated with Topology locality"


@pytest.mark.parametrize(
    ("policy", "scope", "free", "error_for", "message", "affinities", "asked"),
    [
        # The second container finds node 0 used up; the pod as a whole fits on node 1 alone.
        ("single-numa-node", "container", (1, 2), "", "", {"a": 1, "b": 2}, [1, 2]),
        ("single-numa-node", "pod", (1, 2), "", "", {"a": 2, "b": 2}, [2, 2]),
        # Grants before an error stay.
        ("restricted", "container", (1, 0), "", NO_PLACE, {"a": 1}, [1]),
        ("restricted", "pod", (1, 1), "", NO_PLACE, {}, []),
        ("restricted", "container", (2, 0), "b", NO_LUCK, {"a": 1, "b": 1}, [1, 1]),
        # Policy none stores nothing, in either scope.
        ("none", "container", (9, 9), "b", NO_LUCK, {}, [None, None]),
        ("none", "pod", (9, 9), "", "", {}, [None, None]),
    ],
)
def test_a_pod_is_aligned(
    policy: PolicyName,
    scope: str,
    free: tuple[int, int],
    error_for: str,
    message: str,
    affinities: dict[str, int],
    asked: list[int | None],
) -> None:
    """Each container by itself, or all by one merged hint; the first error ends it."""
    node = Node(*free)
    providers = [node.provider(error_for)]
    rule = Policy(name=policy, numa_nodes=(0, 1))
    result = admit(["a", "b"], providers, rule, scope, FACTS)
    assert (result.admit, result.message) == (not message, message)
    reasons = {NO_PLACE: "TopologyAffinityError", NO_LUCK: "UnexpectedAdmissionError", "": ""}
    assert result.reason == reasons[message]
    assert result.affinities == affinities
    assert node.calls == list(zip("ab", asked, strict=False))
