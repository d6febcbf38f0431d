"""Version differences of the prober subsystem."""

from __future__ import annotations

import msgspec

from kubeledger.profile.facts import Fact

__all__ = ["FACTS", "ProberFacts"]


class ProberFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a kubelet version does in this subsystem; see ``FACTS`` for each field."""


FACTS: tuple[Fact, ...] = ()
"""(n,) one per field of ``ProberFacts``, in the order of the kubelet's own steps."""
