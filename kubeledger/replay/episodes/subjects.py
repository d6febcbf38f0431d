"""Which pods a record names, wherever it names them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple


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


class Within(NamedTuple):
    """A container, or a pod, that stands in a list which a record holds."""

    pod: tuple[str, str] | None
    uid: str | None
    container: str | None


_ROLES = ("", "victim_", "preemptor_")
_POD_CGROUP = re.compile(r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})\b")


def pods_in(body: Any) -> Iterator[Named]:  # noqa: ANN401 # any body
    """The pods that a body names, a victim before the one that it made room for."""
    for role in _ROLES:
        namespace, pod = getattr(body, f"{role}namespace", None), getattr(body, f"{role}pod", None)
        if namespace and pod:
            yield Named(role, (namespace, pod), getattr(body, f"{role or 'pod_'}uid", None))


def uid_of(body: Any) -> str | None:  # noqa: ANN401 # any body
    """UID of the pod that a body is about, or whose cgroup it names; None where it has none."""
    paths = (getattr(body, field, None) or "" for field in ("cgroup", "task_cgroup"))
    found = (_POD_CGROUP.search(path) for path in paths)
    in_path = next((match[1].replace("_", "-") for match in found if match), None)
    return getattr(body, "pod_uid", None) or in_path


def named_within(body: Any) -> Iterator[Within]:  # noqa: ANN401 # any body
    """Whom lists in a body name: rankings, usage, checkpoints, resources of containers."""
    for field in ("pods", "ranked", "entries", "containers"):
        listed = getattr(body, field, None)
        for each in listed if isinstance(listed, tuple) else ():
            namespace, pod = getattr(each, "namespace", None), getattr(each, "pod", None)
            name = (namespace, pod) if namespace and pod else None
            yield Within(name, each.pod_uid, getattr(each, "container", None))
    assigned = getattr(body, "assignments", None)
    for uid, containers in assigned.items() if isinstance(assigned, dict) else ():
        yield from (Within(None, uid, container) for container in containers)


def subjects_of(body: Any) -> set[str]:  # noqa: ANN401 # any body
    """By what a pod can be found in a body: its name, ``NAMESPACE/NAME``, its UID."""
    found: set[str | None] = {uid_of(body), getattr(body, "pod_uid", None)}
    for role in _ROLES:
        namespace, pod = getattr(body, f"{role}namespace", None), getattr(body, f"{role}pod", None)
        if pod:
            found |= {pod, f"{namespace}/{pod}", getattr(body, f"{role or 'pod_'}uid", None)}
        elif role:
            found.add(getattr(body, f"{role}uid", None))
    for within in named_within(body):
        found |= {within.uid, "/".join(within.pod) if within.pod else None}
    return {each for each in found if each}
