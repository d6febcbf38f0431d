"""Why: a headline about a target, dated steps, and their numbered evidence."""

from __future__ import annotations

from kubeledger.analyze.why.explanation import Answer, Explanation, Piece, StoryStep
from kubeledger.analyze.why.names import find_target
from kubeledger.analyze.why.node import explain_node, with_besides
from kubeledger.analyze.why.target import Target, parse_target
from kubeledger.analyze.why.why import answers_to, explain

__all__ = [
    "Answer",
    "Explanation",
    "Piece",
    "StoryStep",
    "Target",
    "answers_to",
    "explain",
    "explain_node",
    "find_target",
    "parse_target",
    "with_besides",
]
