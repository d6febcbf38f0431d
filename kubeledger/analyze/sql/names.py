"""Names that records know, near to one that they do not."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

from kubeledger.model.record import Record

__all__ = ["similar_pods"]

_SUGGESTIONS_MAX = 3


def similar_pods(records: Iterable[Record], asked: str) -> list[str]:
    """Pods as ``NAMESPACE/NAME`` whose name may have been meant, the most likely first.

    Args:
        records: of any kinds.
        asked: ``NAMESPACE/NAME`` or ``NAME``.

    Returns:
        (n,) n <= 3: of the same name in another namespace; of a name that it begins, as
        a static pod's does with the node's name and others' with what their controller adds;
        of a name that is written much like it.
    """
    name = asked.rpartition("/")[2]
    pods: dict[str, str] = {}
    for record in records:
        body: Any = record.body
        if getattr(body, "object_kind", "Pod") == "Pod" and getattr(body, "pod", None):
            pods[f"{body.namespace}/{body.pod}"] = body.pod
    same = sorted(pod for pod, its in pods.items() if its == name)
    longer = sorted(pod for pod, its in pods.items() if its.startswith(f"{name}-"))
    names = difflib.get_close_matches(name, sorted(set(pods.values())), _SUGGESTIONS_MAX)
    alike = sorted((pod for pod in pods if pods[pod] in names), key=lambda p: names.index(pods[p]))
    found = dict.fromkeys([*same, *longer, *alike])
    found.pop(asked, None)
    return list(found)[:_SUGGESTIONS_MAX]
