"""What would have been decided under other settings, or by another kubelet version."""

from __future__ import annotations

from kubeledger.whatif.changes import Becomes, Change, Outlook, becomes, outlook
from kubeledger.whatif.of_history import variants_of
from kubeledger.whatif.variants import parse_variants

__all__ = [
    "Becomes",
    "Change",
    "Outlook",
    "becomes",
    "outlook",
    "parse_variants",
    "variants_of",
]
