"""Which pod a record is about, where some name only the UID and some only the name."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class PodKey(NamedTuple):
    """The key of a pod: its UID, or its namespace and name as long as no record has the UID.

    Attributes:
        renamed: the key that it had until this record told its UID; None for any other record.
    """

    current: str
    renamed: str | None


class Named(Protocol):
    """What names a pod, perhaps not whole."""

    namespace: str | None
    pod: str | None
    pod_uid: str | None


class PodNames:
    """What the records so far say of the names and UIDs of a node's pods."""

    def __init__(self) -> None:
        self._uids: dict[tuple[str | None, str], str] = {}
        self._names: dict[str, tuple[str | None, str]] = {}

    def key(self, namespace: str | None, name: str | None, uid: str | None) -> PodKey:
        """The pod that a record names; without a UID the newest of that name."""
        if name is None:
            return PodKey(uid or "", None)
        named = f"{namespace or ''}/{name}"
        if uid is None:
            return PodKey(self._uids.get((namespace, name), named), None)
        is_first = (namespace, name) not in self._uids
        self._uids[namespace, name] = uid
        if namespace is not None or uid not in self._names:
            self._names[uid] = (namespace, name)
        return PodKey(uid, named if is_first else None)

    def complete(self, named: Named) -> None:
        """Give something the name, or the UID, that other records have shown."""
        if named.namespace is None and named.pod_uid is not None:
            named.namespace, named.pod = self._names.get(named.pod_uid, (None, named.pod))
        elif named.pod is not None and named.pod_uid is None:
            named.pod_uid = self._uids.get((named.namespace, named.pod))
