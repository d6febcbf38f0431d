"""Does the node match the pod's nodeSelector and required node affinity?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kubeledger.kubelet.kube.names import is_label_value, is_qualified_name
from kubeledger.kubelet.kube.pod import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodSpec,
)

_IN: Final = "In"
_NOT_IN: Final = "NotIn"
_GREATER: Final = "Gt"
_NODE_NAME: Final = "metadata.name"
_INT64: Final = range(-(2**63), 2**63)


def matches_node(spec: PodSpec, labels: Mapping[str, str], node_name: str) -> bool:
    """Whether the pod may be on the node as far as labels and name go.

    Source: v1.36.2 staging/src/k8s.io/component-helpers/scheduling/corev1/nodeaffinity/
        nodeaffinity.go GetRequiredNodeAffinity, Match
    Differs: a nodeSelector that the API would not have taken is compared as it stands.
    """
    for key, value in (spec.node_selector or {}).items():
        if labels.get(key) != value:
            return False
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    if affinity is None or affinity.required is None:
        return True
    return _matches_any_term(affinity.required, labels, node_name)


def _matches_any_term(selector: NodeSelector, labels: Mapping[str, str], node_name: str) -> bool:
    return any(_matches_term(t, labels, node_name) for t in selector.node_selector_terms or ())


def _matches_term(term: NodeSelectorTerm, labels: Mapping[str, str], node_name: str) -> bool:
    """All requirements hold; a term without any, or with one that is invalid, matches nothing."""
    expressions, fields = term.match_expressions or (), term.match_fields or ()
    if not expressions and not fields:
        return False
    if not all(map(_is_valid, expressions)) or not all(map(_is_valid_field, fields)):
        return False
    if not all(_matches_label(expression, labels) for expression in expressions):
        return False
    # A node without a name has no fields at all, and nothing is asked of it.
    return not node_name or all(_matches_field(field, node_name) for field in fields)


def _is_valid(requirement: NodeSelectorRequirement) -> bool:
    values: Sequence[str] = requirement.values or ()
    match requirement.operator:
        case "In" | "NotIn":
            fits = bool(values)
        case "Exists" | "DoesNotExist":
            fits = not values
        case "Gt" | "Lt":
            fits = len(values) == 1 and _integer(values[0]) is not None
        case _:
            fits = False
    return fits and is_qualified_name(requirement.key) and all(map(is_label_value, values))


def _is_valid_field(requirement: NodeSelectorRequirement) -> bool:
    return requirement.operator in (_IN, _NOT_IN) and len(requirement.values or ()) == 1


def _matches_label(requirement: NodeSelectorRequirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    values = requirement.values or ()
    match requirement.operator:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    ours = _integer(value) if value is not None else None
    bound = _integer(values[0])
    if ours is None or bound is None:
        return False
    return ours > bound if requirement.operator == _GREATER else ours < bound


def _matches_field(requirement: NodeSelectorRequirement, node_name: str) -> bool:
    actual = node_name if requirement.key == _NODE_NAME else ""
    (wanted,) = requirement.values or ("",)
    return (actual == wanted) == (requirement.operator == _IN)


def _integer(text: str) -> int | None:
    """As Go's ``strconv.ParseInt(text, 10, 64)``."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits.isascii() or not digits.isdigit() or len(digits) > 100:
        return None
    return int(text) if int(text) in _INT64 else None
