"""Why: a headline about a target, dated steps, and their numbered evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubeledger.analyze.why.explanation import (
    Answer,
    Explanation,
    Piece,
    StoryStep,
    Target,
    parse_target,
)
from kubeledger.analyze.why.names import find_target
from kubeledger.analyze.why.why import answers_to, explain

if TYPE_CHECKING:
    from kubeledger.analyze.why.node import explain_node, with_besides

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


def __getattr__(name: str) -> Any:  # noqa: ANN401 - as of a module
    """What is about a node: who asks about a pod needs no reader of logs."""
    if name in {"explain_node", "with_besides"}:
        from kubeledger.analyze.why import node

        return getattr(node, name)
    raise AttributeError(name)
