"""Why: one sentence about a target, and the numbered evidence behind it."""

from __future__ import annotations

from kubeledger.explain.explanation import Answer, Explanation, Piece
from kubeledger.explain.node import explain_node
from kubeledger.explain.target import Target, parse_target
from kubeledger.explain.why import explain

__all__ = ["Answer", "Explanation", "Piece", "Target", "explain", "explain_node", "parse_target"]
