"""Texts of the events that tell of a resize.

Source: v1.36.2 pkg/kubelet/events/resize.go podResizeMessage
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from kubeledger.kubelet.kube.pod import Container, Pod, ResourceRequirements
from kubeledger.kubelet.kube.quantity import Quantity
from kubeledger.kubelet.kube.requests import Amount

_GO_ESCAPES: Final = str.maketrans(
    {c: f"\\u{ord(c):04x}" for c in ("<", ">", "&", "\u2028", "\u2029")}
)


_REMEMBERED_MAX: Final = 1 << 14


class _Canonical(dict[Amount, str]):
    """A quantity as written -> as Go marshals it."""

    def __missing__(self, amount: Amount) -> str:
        text = Quantity.from_api(amount).canonical()
        if len(self) >= _REMEMBERED_MAX:
            self.clear()
        self[amount] = text
        return text


CANONICAL: Final = _Canonical()
"""Raises ``QuantityError`` for a text that is no quantity."""


def pod_resize_message(prefix: str, pod: Pod, error: str = "") -> str:
    """The prefix, and what the pod asks for as JSON.

    Args:
        prefix: ``Pod resize started``.
        pod: with its present spec.
        error: what was said against it.
    """
    spec = pod.spec
    summary: dict[str, Any] = {
        "initContainers": _summaries(spec.init_containers),
        "containers": _summaries(spec.containers),
        "generation": pod.metadata.generation or 0,
        "error": error,
    }
    told = {k: v for k, v in summary.items() if k == "generation" or v}
    text = msgspec.json.encode(told).decode()
    return f"{prefix}: {text.translate(_GO_ESCAPES)}"


def _summaries(containers: Iterable[Container] | None) -> list[dict[str, Any]]:
    return [{"name": c.name or "", "resources": _resources(c.resources)} for c in containers or ()]


def _resources(resources: ResourceRequirements | None) -> dict[str, dict[str, str]]:
    if resources is None:
        return {}
    lists = {"limits": resources.limits, "requests": resources.requests}
    return {
        kind: {name: CANONICAL[amounts[name]] for name in sorted(amounts)}
        for kind, amounts in lists.items()
        if amounts
    }
