"""Completeness: what evidence there is of a time, and what is missing."""

from __future__ import annotations

from kubeledger.analyze.completeness.report import Completeness, completeness, log_gaps
from kubeledger.analyze.completeness.sources import ALWAYS, Span

__all__ = ["ALWAYS", "Completeness", "Span", "completeness", "log_gaps"]
