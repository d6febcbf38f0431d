"""Whom a record names: pods in each role, and the containers of specs and statuses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

__all__ = ["Named", "containers_in", "pods_in"]

_GROUPS = ("initContainers", "containers", "ephemeralContainers")
_STATUSES = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")


class Named(NamedTuple):
    """A pod that a record names.

    Attributes:
        role: ``victim_``, ``preemptor_`` or empty.
        pod: namespace and name.
        uid: None where the record has none.
    """

    role: str
    pod: tuple[str, str]
    uid: str | None


def pods_in(body: Any) -> Iterator[Named]:  # noqa: ANN401 # any body
    """The pods that a body names, a victim before the one that it made room for."""
    for role in ("", "victim_", "preemptor_"):
        namespace, pod = getattr(body, f"{role}namespace", None), getattr(body, f"{role}pod", None)
        if namespace and pod:
            yield Named(role, (namespace, pod), getattr(body, f"{role or 'pod_'}uid", None))


def containers_in(part: object) -> Iterator[dict[str, Any]]:
    """The containers of a spec, or those of a status, as the API gives them."""
    if isinstance(part, dict):
        for group in (*_GROUPS, *_STATUSES):
            yield from (each for each in part.get(group) or () if isinstance(each, dict))
