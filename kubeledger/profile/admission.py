"""Version differences of the admission subsystem."""

from __future__ import annotations

import msgspec

from kubeledger.profile.facts import Fact

__all__ = ["FACTS", "AdmissionFacts"]


class AdmissionFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a kubelet version does in this subsystem; see ``FACTS`` for each field."""


FACTS: tuple[Fact, ...] = ()
"""(n,) one per field of ``AdmissionFacts``, in the order of the kubelet's own steps."""
