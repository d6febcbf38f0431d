"""The name under which the state keeps a pod: its UID, or what there is without one."""

from __future__ import annotations


def name_key(namespace: str, name: str) -> str:
    """``namespace/name``; a UID never holds a slash, so the two cannot be confused."""
    return f"{namespace}/{name}"


def pod_key(uid: str | None, namespace: str | None, name: str | None) -> str | None:
    """The UID, else ``namespace/name``, else None: then nothing can be kept about the pod."""
    if uid:
        return uid
    return name_key(namespace, name) if namespace and name else None
