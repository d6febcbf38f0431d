"""What would have been decided under other settings, or by another kubelet version."""

from __future__ import annotations

from kubeledger.analyze.whatif.changes import (
    WORDS,
    Answer,
    Becomes,
    Change,
    Outlook,
    answer,
    becomes,
    outlook,
)
from kubeledger.analyze.whatif.variants import parse_variants, variants_of

__all__ = [
    "WORDS",
    "Answer",
    "Becomes",
    "Change",
    "Outlook",
    "answer",
    "becomes",
    "outlook",
    "parse_variants",
    "variants_of",
]
