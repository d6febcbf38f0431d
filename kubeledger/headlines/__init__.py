"""What went wrong on a node: the timeline's headlines, and an import's summary."""

from __future__ import annotations

from kubeledger.headlines.amounts import bytes_text, shortened
from kubeledger.headlines.headline import Headline, Incident
from kubeledger.headlines.incidents import incidents
from kubeledger.headlines.summary import counts_on, happened, headlines

__all__ = [
    "Headline",
    "Incident",
    "bytes_text",
    "counts_on",
    "happened",
    "headlines",
    "incidents",
    "shortened",
]
