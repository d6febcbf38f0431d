"""The pods of a node as its lists show them, also of times before the list was taken.

A pod's spec hardly changes while it lives, and the list that shows it is taken after the
kubelet has decided about it. So the register is filled by a first reading of all lists,
and asked with a time: it gives the version that held then, or the earliest one after it.
It grows with the number of pods that a ledger knows, not with its records.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from kubeledger.kubelet.kube.keys import pod_key
from kubeledger.model.bodies.lifecycle import PodConfigChanged, PodListed
from kubeledger.model.record import Record

T = TypeVar("T")

_STATUS_KEYS = (
    *("qosClass", "resources", "allocatedResources"),
    *("resourceClaimStatuses", "extendedResourceClaimStatus"),
)
_CONTAINER_STATUS_KEYS = ("name", "resources", "allocatedResources")


class ListedPod:
    """One version of a pod object.

    Attributes:
        seq: record that showed it first.
        ts_ns: its time.
        namespace, name, uid: identity; ``uid`` None when the list held none.
        created_ns: when the pod was made; None when it does not say.
        is_manifest: a static pod's manifest, in which nothing is defaulted.
    """

    __slots__ = (
        *("_raw", "_typed", "created_ns", "is_manifest", "name", "namespace", "seq", "ts_ns"),
        "uid",
    )

    def __init__(
        self, seq: int, ts_ns: int, body: PodListed, raw: bytes, typed: dict[type, Any]
    ) -> None:
        self.seq = seq
        self.ts_ns = ts_ns
        self.namespace = body.namespace
        self.name = body.pod
        self.uid = body.pod_uid
        self.created_ns = body.created_ts_ns
        self.is_manifest = body.listed_by == "manifest"
        self._raw = raw
        self._typed = typed

    def as_(self, cls: type[T]) -> T:
        """The object as one of the slim pod types (``kube.pod.Pod``, ``prober.objects.Pod`` ...).

        ``status`` holds only the QoS class, what a resize in place gave, and names of claims.

        Raises:
            msgspec.ValidationError: the object does not have the API's types.
        """
        found = self._typed.get(cls)
        if found is None:
            found = self._typed[cls] = msgspec.json.decode(self._raw, type=cls)
        return found

    @property
    def raw(self) -> bytes:
        """JSON of metadata, spec and status."""
        return self._raw


class PodRegister:
    """All pods that any list of a node shows."""

    def __init__(self) -> None:
        self._versions: dict[str, list[ListedPod]] = {}
        self._names: dict[str, list[tuple[int, str]]] = {}
        self._manifests: dict[str, ListedPod] = {}
        self._objects: dict[bytes, tuple[bytes, dict[type, Any]]] = {}
        self._updated_ns: dict[str, int] = {}

    def note_update(self, record: Record) -> None:
        """Take in a config line: when the API server changed a pod first."""
        body = record.body
        if isinstance(body, PodConfigChanged) and body.operation == "UPDATE" and body.pod_uid:
            before_ns = self._updated_ns.get(body.pod_uid, record.ts_ns)
            self._updated_ns[body.pod_uid] = min(record.ts_ns, before_ns)

    def changed_unseen(self, ts_ns: int, listed: ListedPod) -> bool:
        """Whether a pod was changed after a time and before all lists: none shows it as it was."""
        first_ns = self.versions(listed)[0].ts_ns
        return ts_ns < self._updated_ns.get(listed.uid or "", 0) < first_ns

    def note(self, seq: int, ts_ns: int, body: PodListed) -> None:
        """Take in one list entry; the same object again adds nothing."""
        if body.gone or body.spec is None:
            return
        if body.listed_by == "manifest":
            # Nothing is defaulted in it: it counts only where no list shows the pod.
            self._manifests[f"{body.namespace}/{body.pod}"] = self._listed(seq, ts_ns, body)
            return
        key = pod_key(body.pod_uid, body.namespace, body.pod) or ""
        listed = self._listed(seq, ts_ns, body)
        versions = self._versions.setdefault(key, [])
        if versions and versions[-1].raw == listed.raw:
            return
        if not versions:
            name = f"{body.namespace}/{body.pod}"
            self._names.setdefault(name, []).append((ts_ns, key))
        versions.append(listed)

    def _listed(self, seq: int, ts_ns: int, body: PodListed) -> ListedPod:
        """A version; equal objects are held once, for sources may take turns with two forms."""
        raw = msgspec.json.encode(_object_of(body), order="deterministic")
        shared, typed = self._objects.setdefault(raw, (raw, {}))
        return ListedPod(seq, ts_ns, body, shared, typed)

    def settle(self) -> None:
        """All lists were noted: put versions in the order of time."""
        for versions in self._versions.values():
            versions.sort(key=lambda version: (version.ts_ns, version.seq))
        for keys in self._names.values():
            keys.sort()

    def at(
        self, ts_ns: int, uid: str | None, namespace: str | None = None, name: str | None = None
    ) -> ListedPod | None:
        """The pod as it was then; the earliest version known when all are later; None if unknown.

        Without ``uid``: the newest pod of that name listed by then, else the first later one.
        """
        key = uid if uid is not None else self._key_of(ts_ns, namespace, name)
        versions = self._versions.get(key) if key is not None else None
        if not versions:
            return self._manifests.get(f"{namespace}/{name}")
        if len(versions) == 1:
            return versions[0]
        index = bisect_right(versions, ts_ns, key=lambda version: version.ts_ns)
        return versions[max(index - 1, 0)]

    def all_versions(self) -> Iterator[tuple[ListedPod, ...]]:
        """The versions of every pod, oldest first; manifests are not among them."""
        return map(tuple, self._versions.values())

    def manifest(self, namespace: str, name: str) -> ListedPod | None:
        """A static pod's manifest, by the name in it."""
        return self._manifests.get(f"{namespace}/{name}")

    def newest(self) -> tuple[ListedPod, ...]:
        """The last version of every pod, in the order in which they were noted."""
        return tuple(versions[-1] for versions in self._versions.values())

    def versions(self, listed: ListedPod) -> tuple[ListedPod, ...]:
        """All versions of the same pod, oldest first."""
        key = pod_key(listed.uid, listed.namespace, listed.name) or ""
        return tuple(self._versions.get(key, (listed,)))

    def _key_of(self, ts_ns: int, namespace: str | None, name: str | None) -> str | None:
        keys = self._names.get(f"{namespace}/{name}")
        if not keys:
            return None
        index = bisect_right(keys, ts_ns, key=lambda entry: entry[0])
        return keys[max(index - 1, 0)][1]


def _object_of(body: PodListed) -> dict[str, Any]:
    """What decisions read of it; of the status only what does not change with every restart."""
    metadata: dict[str, Any] = {"name": body.pod, "namespace": body.namespace}
    if body.pod_uid is not None:
        metadata["uid"] = body.pod_uid
    if body.labels:
        metadata["labels"] = body.labels
    if body.annotations:
        metadata["annotations"] = body.annotations
    status = body.status or {}
    kept = {key: status[key] for key in _STATUS_KEYS if key in status}
    for key in ("containerStatuses", "initContainerStatuses"):
        statuses = status.get(key)
        resources = (
            [_resources_of(entry) for entry in statuses] if isinstance(statuses, list) else []
        )
        if given := [entry for entry in resources if len(entry) > 1]:
            kept[key] = given
    return {"metadata": metadata, "spec": body.spec, "status": kept}


def _resources_of(status: object) -> dict[str, Any]:
    if not isinstance(status, dict):
        return {}
    return {key: status[key] for key in _CONTAINER_STATUS_KEYS if key in status}
