"""A topology hint inside the deciders: a mask instead of a list of nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class TopologyHint(NamedTuple):
    """One way to place a resource.

    Attributes:
        affinity: mask of NUMA nodes; None means any.
        preferred: no smaller set of nodes could do.
    """

    affinity: int | None
    preferred: bool


DONT_CARE = TopologyHint(affinity=None, preferred=True)
"""What a provider or resource without a preference counts as."""

IMPOSSIBLE = TopologyHint(affinity=None, preferred=False)
"""What a resource that fits nowhere counts as."""

Hints = tuple[TopologyHint, ...]
"""(n,) the ways to place one resource, in the order generated."""

ProviderHints = Mapping[str, Hints | None] | None
"""A hint provider's answer: resource -> hints; None for no preference, empty for no way."""
