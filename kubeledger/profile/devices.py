"""Version differences of the devices subsystem."""

from __future__ import annotations

import msgspec

from kubeledger.profile.facts import Fact

__all__ = ["FACTS", "DeviceFacts"]


class DeviceFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a kubelet version does in this subsystem; see ``FACTS`` for each field."""


FACTS: tuple[Fact, ...] = ()
"""(n,) one per field of ``DeviceFacts``, in the order of the kubelet's own steps."""
