"""Version differences of the images subsystem."""

from __future__ import annotations

import msgspec

from kubeledger.profile.facts import Fact

__all__ = ["FACTS", "ImageFacts"]


class ImageFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a kubelet version does in this subsystem; see ``FACTS`` for each field."""


FACTS: tuple[Fact, ...] = ()
"""(n,) one per field of ``ImageFacts``, in the order of the kubelet's own steps."""
