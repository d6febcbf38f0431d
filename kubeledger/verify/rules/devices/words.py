"""Sentences about devices."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kubeledger.topologymanager.bitmask import bits_of

__all__ = ["joined", "listing", "nodes_text", "times"]

_LISTED_MAX = 16


def listing(ids: Collection[str]) -> str:
    """IDs in order; a long list is cut."""
    ordered = sorted(ids)
    if not ordered:
        return "none"
    if len(ordered) <= _LISTED_MAX:
        return ", ".join(ordered)
    return f"{', '.join(ordered[:_LISTED_MAX])} and {len(ordered) - _LISTED_MAX} more"


def joined(parts: Iterable[str], word: str = "and") -> str:
    """``a, b and c``."""
    all_parts = list(parts)
    if len(all_parts) < 2:
        return "".join(all_parts)
    return f"{', '.join(all_parts[:-1])} {word} {all_parts[-1]}"


def times(count: int, noun: str) -> str:
    """``1 device``, ``2 devices``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def nodes_text(mask: int | None) -> str:
    """``NUMA node 0``, ``NUMA nodes 0 and 1``, ``any NUMA node``."""
    if mask is None:
        return "any NUMA node"
    nodes = [str(node) for node in bits_of(mask)]
    return f"NUMA node{'s' if len(nodes) != 1 else ''} {joined(nodes) or 'none'}"
