"""Why: one sentence about a target, and the numbered evidence behind it."""

from __future__ import annotations

from kubeledger.explain.explanation import Explanation, Piece
from kubeledger.explain.target import Target, parse_target
from kubeledger.explain.why import explain

__all__ = ["Explanation", "Piece", "Target", "explain", "parse_target"]
