"""The pods of a node as its lists show them, also of times before the list was taken.

A pod's spec hardly changes while it lives, and the list that shows it is taken after the
kubelet has decided about it. So the register is filled by a first reading of all lists,
and asked with a time: it gives the version that held then, or the earliest one after it.
It grows with the number of pods that a ledger knows, not with its records.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Protocol, TypeVar

import msgspec

from kubeledger.kubelet.kube.pod import Pod
from kubeledger.kubelet.kube.resources import pod_key
from kubeledger.kubelet.kube.statuses import LOST_EXIT_CODE, ShownInstance, instances_in, time_in
from kubeledger.kubelet.lifecycle.state import TERMINAL_PHASES
from kubeledger.model.bodies.lifecycle import PodConfigChanged, PodListed
from kubeledger.model.record import Record


class OfPod(Protocol):
    """A body about a pod."""

    @property
    def namespace(self) -> str | None: ...
    @property
    def pod(self) -> str | None: ...
    @property
    def pod_uid(self) -> str | None: ...


def key_of_pod(body: OfPod) -> str:
    """What keeps the pod that a body is about apart from others: its UID, else its name."""
    return pod_key(body.pod_uid, body.namespace, body.pod) or ""


class ListedInstance(msgspec.Struct):
    """One instance of a container as lists show it.

    Attributes:
        seen_ns: when it is shown first, by the record ``seq``.
        began_ns, ended_ns: when it was started and ended, to the second; None when no list says.
        exit_code: as the newest list has it that shows when it ended.
        is_lost: the runtime lost it: what lists show of it until then may be old.
        ended: (time, record) of the first list that shows it ended; None when none does.
        ran: (time, record) of the last list of the kubelet that shows it running.
        lived: the last time at which it ran by such a list, or any list's times.
        counts: restarts up to it -> how many lists show so many.
    """

    name: str
    seen_ns: int
    seq: int
    began_ns: int | None = None
    ended_ns: int | None = None
    exit_code: int | None = None
    is_lost: bool = False
    ended: tuple[int, int] | None = None
    lived: tuple[int, int] = (0, 0)
    ran: tuple[int, int] = (0, 0)
    counts: Counter[int] = msgspec.field(default_factory=Counter)


class ListedInstances:
    """What pod lists show of instances: when they ran, how often they had been restarted."""

    def __init__(self) -> None:
        self._of_pods: dict[str, dict[str, ListedInstance]] = {}
        self._by_id: dict[str, ListedInstance] = {}
        self._known_ns: dict[str, int] = {}
        self._over: dict[str, tuple[int, int]] = {}

    def note(self, record: Record) -> None:
        body = record.body
        assert isinstance(body, PodListed)
        key = key_of_pod(body)
        if body.gone or (body.status or {}).get("phase") in TERMINAL_PHASES:
            at = record.ts_ns, record.seq
            self._over[key] = min(self._over.get(key, at), at)
        times = [record.ts_ns, time_in(body.status or {}, "startTime")]
        for shown in instances_in(body.status):
            times += shown.time("startedAt"), shown.time("finishedAt")
            self._note_instance(record, key, shown)
        self._known_ns[key] = min(self._known_ns.get(key, record.ts_ns), *filter(None, times))

    def _note_instance(self, record: Record, key: str, shown: ShownInstance) -> None:
        at, of = (record.ts_ns, record.seq), shown.container_id
        known = self._of_pods.setdefault(key, {})
        own = self._by_id[of] = known.setdefault(of, ListedInstance(shown.name, *at))
        own.seen_ns, own.seq = min((own.seen_ns, own.seq), at)
        own.counts.update([] if shown.restart_count is None else [shown.restart_count])
        if (began_ns := shown.time("startedAt")) is not None:
            own.began_ns = began_ns
        if shown.state == "terminated":
            own.ended = min(own.ended or at, at)
            own.is_lost |= shown.shown.get("exitCode") == LOST_EXIT_CODE
            if not own.is_lost and (ended_ns := shown.time("finishedAt")) is not None:
                own.ended_ns, own.exit_code = ended_ns, shown.shown.get("exitCode")
                own.lived = max(own.lived, (ended_ns, record.seq))
        # An API server's list is behind what the kubelet tells it, by nobody knows how much.
        if shown.state == "running" and getattr(record.body, "listed_by", None) == "kubelet":
            own.lived, own.ran = max(own.lived, at), max(own.ran, at)

    def forget(self, gone: Collection[str]) -> None:
        for key in gone:
            self._known_ns.pop(key, None)
            self._over.pop(key, None)
            for container_id in self._of_pods.pop(key, ()):
                self._by_id.pop(container_id, None)

    def of_pod(self, key: str) -> Mapping[str, ListedInstance]:
        return self._of_pods.get(key, {})

    def instance(self, container_id: str | None) -> ListedInstance | None:
        """The instance with that ID; None when no list shows it."""
        return self._by_id.get(container_id or "")

    def known_ns(self, key: str) -> int | None:
        """The earliest time at which a list, or a status in it, has a pod; None without one."""
        return self._known_ns.get(key)

    def over(self, key: str) -> tuple[int, int] | None:
        """(time, record) of the first list that shows a pod ended, or gone; None when none does."""
        return self._over.get(key)

    def count(self, container_id: str | None) -> int | None:
        """Restarts up to an instance, as most lists show; None when none does."""
        instance = self.instance(container_id)
        return instance.counts.most_common(1)[0][0] if instance and instance.counts else None


T = TypeVar("T")

_STATUS_KEYS = (
    *("qosClass", "resources", "allocatedResources"),
    *("resourceClaimStatuses", "extendedResourceClaimStatus"),
)
_CONTAINER_STATUS_KEYS = ("name", "resources", "allocatedResources")


class ListedPod(msgspec.Struct, eq=False):
    """One version of a pod object.

    Attributes:
        seq: record that showed it first.
        namespace, name, uid: identity; ``uid`` None when the list held none.
        created_ns: when the pod was made; None when it does not say.
        is_manifest: a static pod's manifest, in which nothing is defaulted.
        raw: JSON of metadata, spec and status.
    """

    seq: int
    ts_ns: int
    namespace: str
    name: str
    uid: str | None
    created_ns: int | None
    is_manifest: bool
    raw: bytes
    _typed: dict[type, Any]

    def as_(self, cls: type[T]) -> T:
        """The object as one of the slim pod types (``kube.pod.Pod``, ``prober.objects.Pod`` ...).

        ``status`` holds only the QoS class, what a resize in place gave, and names of claims.

        Raises:
            msgspec.ValidationError: the object does not have the API's types.
        """
        found = self._typed.get(cls)
        if found is None:
            found = self._typed[cls] = msgspec.json.decode(self.raw, type=cls)
        return found

    @property
    def pod(self) -> Pod | None:
        """The object; None where it does not have the API's types."""
        try:
            return self.as_(Pod)
        except msgspec.ValidationError:
            return None


class PodRegister:
    """All pods that any list of a node shows."""

    def __init__(self) -> None:
        self._versions: dict[str, list[ListedPod]] = {}
        self._names: dict[str, list[tuple[int, str]]] = {}
        self._manifests: dict[str, ListedPod] = {}
        self._objects: dict[bytes, tuple[bytes, dict[type, Any]]] = {}
        self._updated_ns: dict[str, list[int]] = {}
        self._added_ns: dict[str, list[int]] = {}

    def note_update(self, record: Record) -> None:
        """Take in a config line: when the API server changed a pod."""
        body = record.body
        if isinstance(body, PodConfigChanged) and body.operation in ("UPDATE", "ADD"):
            times = self._updated_ns if body.operation == "UPDATE" else self._added_ns
            times.setdefault(body.pod_uid or "", []).append(record.ts_ns)

    def changed_unseen(self, ts_ns: int, listed: ListedPod) -> bool:
        """Whether a pod was changed after a time and before all lists: none shows it as it was."""
        first_ns = self.versions(listed)[0].ts_ns
        return ts_ns < min(self._updated_ns.get(listed.uid or "", (0,))) < first_ns

    def is_unchanged(self, listed: ListedPod, since_ns: int, until_ns: int) -> bool:
        """Whether a later list shows a pod as it was, or no config line where there are others."""
        if self.versions(listed)[-1].ts_ns > until_ns:
            return True
        times = self._updated_ns.get(listed.uid or "", ())
        return bool(self._updated_ns) and not any(since_ns <= ts <= until_ns for ts in times)

    def updates(self, listed: ListedPod, since_ns: int, until_ns: int) -> int:
        """How often config lines tell between two times that a pod was changed."""
        return sum(since_ns <= ts <= until_ns for ts in self._updated_ns.get(listed.uid or "", ()))

    def additions(self, listed: ListedPod, since_ns: int, until_ns: int) -> int:
        """How often a process was handed it then, as it was changed while none ran."""
        return sum(since_ns <= ts <= until_ns for ts in self._added_ns.get(listed.uid or "", ()))

    def note(self, record: Record) -> None:
        """Take in one list entry; the same object again adds nothing."""
        body = record.body
        assert isinstance(body, PodListed)
        if body.gone or not body.spec:
            return
        # Equal objects are held once, for sources may take turns with two forms.
        raw = msgspec.json.encode(_object_of(body), order="deterministic")
        shared = self._objects.setdefault(raw, (raw, {}))
        who, is_manifest = (body.namespace, body.pod), body.listed_by == "manifest"
        of = (*who, body.pod_uid, body.created_ts_ns)
        listed = ListedPod(record.seq, record.ts_ns, *of, is_manifest, *shared)
        key, name = key_of_pod(body), "/".join(who)
        if is_manifest:
            # Nothing is defaulted in it: it counts only where no list shows the pod.
            self._manifests[name] = listed
            return
        versions = self._versions.setdefault(key, [])
        if not versions:
            self._names.setdefault(name, []).append((record.ts_ns, key))
        if not versions or versions[-1].raw != listed.raw:
            versions.append(listed)

    def forget(self, gone: Collection[str]) -> None:
        for key in gone:
            self._updated_ns.pop(key, None)
            self._added_ns.pop(key, None)
            for listed in self._versions.pop(key, ()):
                self._objects.pop(listed.raw, None)
                name = f"{listed.namespace}/{listed.name}"
                others = [each for each in self._names.pop(name, ()) if each[1] != key]
                if others:
                    self._names[name] = others

    def settle(self) -> None:
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

    def of(self, record: Record) -> ListedPod | None:
        """The pod that a record is about, as :meth:`at` gives it."""
        names = (getattr(record.body, name, None) for name in ("pod_uid", "namespace", "pod"))
        return self.at(record.ts_ns, *names)

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
        each = (
            {name: one[name] for name in _CONTAINER_STATUS_KEYS if name in one}
            for one in (statuses if isinstance(statuses, list) else ())
            if isinstance(one, dict)
        )
        if given := [entry for entry in each if len(entry) > 1]:
            kept[key] = given
    return {"metadata": metadata, "spec": body.spec, "status": kept}
