"""Topology hints as log lines write them: Go's ``{01 true}``, or JSON since 1.31 or so."""

from __future__ import annotations

import re
from typing import Any

from kubeledger.ingest.klog.line_values import integer
from kubeledger.model.bodies.topologymanager import Hint

Hints = dict[str, tuple[Hint, ...] | None]
"""Resource -> hints; None means no preference, empty no possible affinity."""

_HINT = re.compile(
    r"\{(?:NUMANodeAffinity:)?(?P<mask><nil>|[01]+) (?:Preferred:)?(?P<preferred>true|false)\}"
)
_RESOURCE = re.compile(r"(?P<resource>[^\s\[\]{}:]+):\[(?P<hints>[^\]]*)\]")


def nodes_of_mask(mask: int) -> tuple[int, ...]:
    """The bits that are set, in ascending order."""
    return tuple(node for node in range(mask.bit_length()) if mask >> node & 1)


def hint_of(value: Any) -> Hint | None:  # noqa: ANN401 - any decoded value
    """One hint in either form; None when it is none."""
    if isinstance(value, dict):
        mask = integer(value.get("NUMANodeAffinity"))
        nodes = None if mask is None or mask < 0 else nodes_of_mask(mask)
        return Hint(numa_nodes=nodes, preferred=value.get("Preferred") is True)
    match = _HINT.search(str(value))
    return None if match is None else _text_hint(match)


def hints_of(value: Any) -> tuple[Hints, frozenset[str]]:  # noqa: ANN401 - any decoded value
    """All hints of one provider, and the resources whose list is empty or nil: Go writes both so.

    JSON tells them apart, so nothing is uncertain there.
    """
    if value is None or isinstance(value, dict):
        return {
            key: _json_hints(hints) for key, hints in sorted((value or {}).items())
        }, frozenset()
    hints: Hints = {
        match["resource"]: tuple(_text_hint(hint) for hint in _HINT.finditer(match["hints"]))
        for match in _RESOURCE.finditer(str(value))
    }
    return hints, frozenset(resource for resource, found in hints.items() if not found)


def _json_hints(value: Any) -> tuple[Hint, ...] | None:  # noqa: ANN401 - any decoded value
    if not isinstance(value, list):
        return None
    return tuple(hint for item in value if (hint := hint_of(item)) is not None)


def _text_hint(match: re.Match[str]) -> Hint:
    mask = match["mask"]
    nodes = None if mask == "<nil>" else nodes_of_mask(int(mask, 2))
    return Hint(numa_nodes=nodes, preferred=match["preferred"] == "true")
