"""What would have been decided under other settings, or by another kubelet version."""

from __future__ import annotations

from kubeledger.analyze.whatif.changes import (
    WORDS,
    Becomes,
    Change,
    Counts,
    Outlook,
    becomes,
    following,
    outlook,
    sentences,
)
from kubeledger.analyze.whatif.variants import parse_variants, variants_of

__all__ = [
    "WORDS",
    "Becomes",
    "Change",
    "Counts",
    "Outlook",
    "becomes",
    "following",
    "outlook",
    "parse_variants",
    "sentences",
    "variants_of",
]
