"""Why: a headline about a target, dated steps, and the numbered evidence behind them."""

from __future__ import annotations

from kubeledger.explain.explanation import Answer, Explanation, Piece, StoryStep
from kubeledger.explain.names import find_target
from kubeledger.explain.node import explain_node
from kubeledger.explain.target import Target, parse_target
from kubeledger.explain.why import explain

__all__ = [
    "Answer",
    "Explanation",
    "Piece",
    "StoryStep",
    "Target",
    "explain",
    "explain_node",
    "find_target",
    "parse_target",
]
