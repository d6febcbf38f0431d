"""The pods of a bundle, as its log tells them apart.

The log of 1.36 mostly holds names only, so a pod is found by UID or name. One :class:`Pod` a pod
instance. What an assembler decides about a pod stays with that assembler.
"""

from __future__ import annotations

from typing import Any, Protocol

from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.entry import Entry
from kubeledger.ingest.messages.podref import PodRef
from kubeledger.ingest.sources.facts import Fact
from kubeledger.model.record import Evidence

__all__ = ["Pod", "Pods"]


class _Seen(Protocol):
    """A line or an item that names a pod."""

    @property
    def ts_ns(self) -> int: ...
    @property
    def evidence(self) -> Evidence: ...


class Pod:
    """One pod instance, with what the pod configuration showed of it.

    Attributes:
        source: config source of its ADD; None before that.
        added: the fact of its last ADD; ``deleted`` the one of DELETE or REMOVE.
        removed: REMOVE was seen.
        phase: of the last pod list so far.
    """

    def __init__(self, ref: PodRef) -> None:
        self.namespace = ref.namespace
        self.name = ref.name
        self.uid = ref.uid
        self.source: str | None = None
        self.added: Fact | None = None
        self.deleted: Fact | None = None
        self.removed = False
        self.phase: str | None = None

    @property
    def is_static(self) -> bool:
        """Whether it came from a file or a URL."""
        return self.source in ("file", "http")

    @property
    def names(self) -> dict[str, Any]:
        """The fields that name it in a body."""
        return {"namespace": self.namespace, "pod": self.name, "pod_uid": self.uid}


class Pods:
    """All pods of one bundle so far."""

    def __init__(self, context: BundleContext) -> None:
        self._context = context
        self._by_uid: dict[str, Pod] = {}
        self._by_name: dict[tuple[str, str], Pod] = {}

    def of(self, entry: Entry) -> Pod | None:
        """The pod that an entry names; None when it names none."""
        ref = entry.pod
        return None if ref is None else self.named(ref, entry)

    def named(self, ref: PodRef, seen: _Seen) -> Pod:
        """The pod a line or an event names, made when it is new; a UID in the line is learned."""
        context = self._context
        if ref.uid is not None:
            context.learn_uid(ref.namespace, ref.name, ref.uid, seen.ts_ns, seen.evidence)
            return self._by_uid.get(ref.uid) or self._make(ref)
        named = self._by_name.get((ref.namespace, ref.name))
        if named is not None:
            return named
        uid = context.uid_of(ref.namespace, ref.name, seen.ts_ns)
        if uid is not None and uid in self._by_uid:
            return self._by_uid[uid]
        return self._make(ref._replace(uid=uid))

    def added(self, ref: PodRef, seen: _Seen) -> Pod:
        """The pod of an ADD: a new instance when the one of that name was removed.

        Only a static pod comes back with the UID that it had.
        """
        named = self._by_name.get((ref.namespace, ref.name))
        pod = None
        if named is not None and named.removed and ref.uid is None:
            del self._by_name[ref.namespace, ref.name]
            known = self._context.uid_of(ref.namespace, ref.name, seen.ts_ns)
            if known == named.uid and not named.is_static:
                pod = self._make(ref)
        pod = pod or self.named(ref, seen)
        pod.removed, pod.deleted = False, None
        return pod

    def with_uid(self, uid: str | None) -> Pod | None:
        """The pod with that UID; None when neither the log nor the bundle names it."""
        pod = self._by_uid.get(uid or "")
        if pod is None and uid in self._context.pods:
            known = self._context.pods[uid]
            pod = self._make(PodRef(known.namespace, known.name, uid))
        return pod

    def all_named(self, namespace: str, name: str) -> list[Pod]:
        """All instances that had this name (a static pod and its mirror share one)."""
        pods = self._by_uid.values()
        return [pod for pod in pods if pod.namespace == namespace and pod.name == name]

    def _make(self, ref: PodRef) -> Pod:
        name = (ref.namespace, ref.name)
        pod = self._by_name.get(name)
        if pod is None or pod.uid is not None:
            static = pod
            pod = Pod(ref)
            # The mirror of a static pod has its name, but lines with a name mean the pod.
            if static is None or not static.is_static or static.removed:
                self._by_name[name] = pod
        pod.uid = ref.uid
        if ref.uid is not None:
            self._by_uid[ref.uid] = pod
        return pod
