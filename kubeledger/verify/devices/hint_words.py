"""Hints, and what was merged of them, in words."""

from __future__ import annotations

from typing import Any

from kubeledger.topologymanager.bitmask import BITS_MAX, mask_of
from kubeledger.topologymanager.hint import TopologyHint
from kubeledger.topologymanager.policies import Policy
from kubeledger.topologymanager.records import Hint, HintsGenerated
from kubeledger.verify.devices.words import joined, nodes_text

__all__ = ["difference", "hint_text", "hints_text", "mask", "merged"]


def mask(hint: Hint) -> int | None:
    """Its NUMA nodes as the kubelet holds them; None for no preference."""
    if hint.numa_nodes is None:
        return None
    return mask_of(node for node in hint.numa_nodes if 0 <= node < BITS_MAX)


def hint_text(hint: Hint) -> str:
    """A hint."""
    return f"{nodes_text(mask(hint))}, {'preferred' if hint.preferred else 'not preferred'}"


def hints_text(hints: tuple[Hint, ...] | None) -> str:
    """What one resource is offered."""
    if hints is None:
        return "no preference"
    return joined(hint_text(hint) for hint in hints) if hints else "no possible affinity"


def merged(policy: Policy, offered: HintsGenerated, hint: TopologyHint, *, admits: bool) -> str:
    """What providers offered, what a policy made of it, and whether that is good enough."""
    given = [
        f"{resource} has {hints_text(hints)}" for resource, hints in sorted(offered.hints.items())
    ]
    offers = joined(given) if given else "no provider has a preference"
    best = f"{nodes_text(hint.affinity)}, {'preferred' if hint.preferred else 'not preferred'}"
    machine = nodes_text(mask_of(policy.numa_nodes))
    verb = "admits" if admits else "refuses"
    return (
        f"{offers}: on a machine with {machine} this merges to {best}, which policy "
        f"{policy.name} {verb}"
    )


def difference(recorded: dict[str, Any], expected: dict[str, Any]) -> str:
    """What a record has in place of what was expected."""
    return joined(
        f"{name} {_value(value)}" for name, value in recorded.items() if value != expected[name]
    )


def _value(value: Any) -> str:  # noqa: ANN401 # any JSON value
    if isinstance(value, dict) and "preferred" in value:
        nodes = value["numa_nodes"]
        return hint_text(
            Hint(numa_nodes=None if nodes is None else tuple(nodes), preferred=value["preferred"])
        )
    return str(value)
