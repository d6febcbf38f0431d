"""Differences between two histories, or two states of a node."""

from __future__ import annotations

from kubeledger.analyze.diff.differences import (
    Difference,
    Place,
    StateDifference,
    diff_decisions,
    diff_states,
)

__all__ = ["Difference", "Place", "StateDifference", "diff_decisions", "diff_states"]
