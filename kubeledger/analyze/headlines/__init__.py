"""What went wrong on a node: the timeline's headlines, and an import's summary."""

from __future__ import annotations

from kubeledger.analyze.headlines.incidents import (
    Headline,
    Incident,
    bytes_text,
    incidents,
    shortened,
)
from kubeledger.analyze.headlines.summary import counts_on, happened, headlines

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
