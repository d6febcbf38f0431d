"""What a first look over the small files of a bundle finds, before the log is read.

Pod specs, container names, API events and checkpoint entries are looked up here by the
assemblers, so that a log line can be told apart and completed by what other files hold.
Everything is bounded by the number of API objects, not by the length of the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from kubeledger.ingest.correlate.list_signs import ListSigns
from kubeledger.ingest.messages.podref import bare_container_id
from kubeledger.ingest.sources.items import KernelReport, KubeletConfigFile
from kubeledger.ingest.sources.shapes import ApiReason
from kubeledger.ingest.sources.times import api_time
from kubeledger.kubelet.kube.statuses import containers_of_spec, statuses_in
from kubeledger.kubelet.profile.resolve import KubeletProfile, resolve
from kubeledger.model.bodies.resourcemanagers import MemoryBlock
from kubeledger.model.errors import BadQuestionError
from kubeledger.model.record import Evidence
from kubeledger.model.units import NS_PER_S


class Instance(msgspec.Struct):
    """One container ID in the statuses of its pod.

    Attributes:
        restart_count: restarts before this instance; None when no status shows it.
        started_ts_ns, finished_ts_ns: whole seconds; None when not known (yet).
        exit_code: None while no status shows the end; ``reason`` (``OOMKilled``) likewise.
    """

    pod_uid: str
    container: str
    restart_count: int | None = None
    started_ts_ns: int | None = None
    finished_ts_ns: int | None = None
    exit_code: int | None = None
    reason: str | None = None

    @property
    def ran_ts_ns(self) -> int | None:
        """When it began to run; None where no status says that it did.

        A runtime writes 1970 or the year 1 for one whose start failed.
        """
        return self.started_ts_ns if (self.started_ts_ns or 0) > 0 else None


def index_instances(statuses: Iterable[tuple[str, dict[str, Any]]]) -> dict[str, Instance]:
    """Bare container ID -> instance, over all statuses, each with the UID of its pod."""
    instances: dict[str, Instance] = {}
    for uid, status in statuses:
        for entry in statuses_in(status):
            _add(instances, uid, entry)
    return instances


def is_later(instance: Instance | None, other: Instance | None) -> bool:
    """Whether lists count the instance after the other one of the same container."""
    counts = [None if each is None else each.restart_count for each in (other, instance)]
    return counts[0] is not None and counts[1] is not None and counts[0] < counts[1]


def is_next(before: Instance | None, instance: Instance | None) -> bool:
    """Whether lists count the instance right after the other one."""
    counts = [None if each is None else each.restart_count for each in (before, instance)]
    return counts[0] is not None and counts[1] == counts[0] + 1


def ran_by(instance: Instance | None, ts_ns: int) -> bool:
    """Whether a status says that it had begun by then."""
    began_ns = None if instance is None else instance.ran_ts_ns
    return began_ns is not None and began_ns <= ts_ns


def _add(instances: dict[str, Instance], uid: str, entry: dict[str, Any]) -> None:
    current = bare_container_id(entry.get("containerID"))
    count = entry.get("restartCount")
    if current is not None:
        instance = instances.setdefault(current, Instance(uid, entry.get("name", "")))
        instance.restart_count = count
        _complete(instance, entry.get("state") or {})
    last = (entry.get("lastState") or {}).get("terminated") or {}
    previous = bare_container_id(last.get("containerID"))
    if previous is None:
        return
    instance = instances.setdefault(previous, Instance(uid, entry.get("name", "")))
    # While a container waits for its restart, both fields hold the instance that ended. Without
    # a present instance the count may or may not include one that is still to come.
    if current not in (None, previous) and instance.restart_count is None and count:
        instance.restart_count = count - 1
    _complete(instance, {"terminated": last})


def _complete(instance: Instance, state: dict[str, Any]) -> None:
    running, terminated = state.get("running") or {}, state.get("terminated") or {}
    started = terminated.get("startedAt") or running.get("startedAt")
    if started:
        instance.started_ts_ns = api_time(started)
    if terminated.get("finishedAt"):
        instance.finished_ts_ns = api_time(terminated["finishedAt"])
        instance.exit_code = terminated.get("exitCode")
        instance.reason = terminated.get("reason")


PodName = tuple[str | None, str | None]
"""Namespace and name."""

_SKEW_NS = 60 * NS_PER_S
"""By how much the clock of the API server, which dates objects, may be ahead of the node's."""


class Subject(msgspec.Struct, frozen=True):
    """The pod or container that a line is about, as far as it says; no container in pod scope."""

    namespace: str | None = None
    pod: str | None = None
    uid: str | None = None
    container: str | None = None

    @property
    def names(self) -> dict[str, Any]:
        """The fields that name it in a body."""
        named = {"namespace": self.namespace, "pod": self.pod, "pod_uid": self.uid}
        return {**named, "container": self.container}

    @property
    def holder(self) -> tuple[str, str]:
        """Pod UID and container; empty where the line does not say."""
        return self.uid or "", self.container or ""

    @property
    def of_pod(self) -> Subject:
        return msgspec.structs.replace(self, container=None)

    def may_be(self, other: Subject) -> bool:
        """No part that both name differs; of a pod's container, the pod alone will do."""
        return may_be_same(msgspec.structs.astuple(self), msgspec.structs.astuple(other))


def may_be_same(one: Iterable[object], other: Iterable[object]) -> bool:
    """Whether no value that both have differs; None: it is not known."""
    pairs = zip(one, other, strict=True)
    return all(None in pair or pair[0] == pair[1] for pair in pairs)


_SPECS_HELD = 128
_PACKED = msgspec.msgpack.Decoder(dict[str, Any])


@lru_cache(_SPECS_HELD)
def _unpacked(data: bytes) -> dict[str, Any]:
    """A spec that is looked into again and again."""
    return _PACKED.decode(data)


class KnownPod(msgspec.Struct):
    """A pod that some file of the bundle shows whole.

    A node has thousands in a day: spec and statuses are packed, in a tenth of the room.

    Attributes:
        uid: as the kubelet uses it.
        first_seen_ts_ns: creation time if the object shows it, else the list's time.
        listed_by: as in ``PodList``.
        created: ``first_seen_ts_ns`` is its creation, as its object shows.
    """

    namespace: str
    name: str
    uid: str
    first_seen_ts_ns: int
    listed_by: str
    evidence: Evidence
    created: bool = False
    _spec: bytes | None = None
    _statuses: list[bytes] = []

    @property
    def spec(self) -> dict[str, Any]:
        """The API's JSON, the last one seen; empty where none was."""
        return {} if self._spec is None else _unpacked(self._spec)

    @property
    def statuses(self) -> list[dict[str, Any]]:
        """(n,) pod status JSONs in the order of time, distinct ones only."""
        return [_PACKED.decode(status) for status in self._statuses]

    def learn(self, spec: Any, status: Any) -> None:  # noqa: ANN401 - decoded JSON
        """What the next list shows of it."""
        if isinstance(spec, dict) and spec:
            self._spec = msgspec.msgpack.encode(spec)
        last = [_PACKED.decode(each) for each in self._statuses[-1:]]
        if isinstance(status, dict) and status and status not in last:
            self._statuses.append(msgspec.msgpack.encode(status))

    def thin_out(self, held_max: int) -> None:
        """Forget older statuses that show no phase, reason or containers that the next lacks.

        A pod's conditions may change all day; what its containers were is needed to the end.

        Args:
            held_max: so many of the last ones stay, and the first one.
        """
        if len(self._statuses) - held_max <= 1:
            return
        shown = [_history(status) for status in self.statuses]
        for index in reversed(range(1, len(shown) - held_max)):
            if shown[index] == shown[index + 1]:
                del self._statuses[index]


def _history(status: dict[str, Any]) -> tuple[object, ...]:
    return status.get("phase"), status.get("reason"), set(index_instances([("", status)]))


class ContainerRef(msgspec.Struct, frozen=True):
    """Whose container an ID is; ``container`` None and ``sandbox`` True for a sandbox."""

    pod_uid: str
    container: str | None
    sandbox: bool = False


class AllocationEntry(msgspec.Struct, frozen=True):
    """A checkpoint entry where it was first seen."""

    ts_ns: int
    numa: dict[str, tuple[str, ...]]
    evidence: Evidence


class MemoryEntry(msgspec.Struct, frozen=True):
    """Memory of a container as ``memory_manager_state`` first showed it so."""

    ts_ns: int
    blocks: tuple[MemoryBlock, ...]
    evidence: Evidence


class IndexedEvent(msgspec.Struct):
    """An API event that log lines may match.

    Attributes:
        count: the highest count seen.
        first_ts_ns, last_ts_ns: as in the event (whole seconds).
    """

    event: ApiReason
    count: int
    first_ts_ns: int
    last_ts_ns: int
    evidence: tuple[Evidence, ...]


class BundleContext(msgspec.Struct):
    """The first look over one bundle.

    Attributes:
        node: node name.
        kubelet_version: ``1.36.2``; None when unknown.
        pods: pod UID -> pod.
        uids_by_name: (namespace, name) -> UIDs in the order they were first seen.
        containers: bare container ID -> whose.
        events: (object kind, namespace, name, reason, message) -> event.
        allocations: (pod UID, container, resource) -> first checkpoint entry.
        served: what kubelets answered at ``/configz``, in the order of time.
        starts_ns: when kubelets stated their version, which each does once.
        image_sizes: name of an image -> its size in bytes, by the node object.
        memory_files: times of the files of the memory manager's state.
        memory: (pod UID, container) -> entries in the order of time.
        logged_until_ns: the last time of the logs; None without one.
        first_ts_ns, last_ts_ns: span of the bundle; equal when only one time is known.
        kernel_reports: file of a kernel log -> its reports of the OOM killer, by time.
        kernel_boots: times of the boot that kernel logs show.
        list_signs: what all lists of pods show of who changed them; None where nobody asks.
        logs_read: so many logs were read, and no line of theirs waits.
    """

    node: str
    kubelet_version: str | None = None
    pods: dict[str, KnownPod] = {}
    uids_by_name: dict[tuple[str, str], list[str]] = {}
    containers: dict[str, ContainerRef] = {}
    events: dict[tuple[str, str, str, str, str], IndexedEvent] = {}
    allocations: dict[tuple[str, str, str], AllocationEntry] = {}
    served: list[KubeletConfigFile] = []
    starts_ns: tuple[int, ...] = ()
    image_sizes: dict[str, int] = {}
    memory_files: list[int] = []
    memory: dict[tuple[str, str], list[MemoryEntry]] = {}
    logged_until_ns: int | None = None
    first_ts_ns: int = 0
    last_ts_ns: int = 0
    kernel_reports: dict[str, list[KernelReport]] = {}
    kernel_boots: list[int] = []
    _instances: dict[str, Instance] | None = None
    logs_read: int = 0
    list_signs: ListSigns | None = None
    _asked: dict[str, int] = {}
    _names: dict[str, set[str]] | None = None

    @property
    def profile(self) -> KubeletProfile | None:
        """What the kubelet's version decides by; None when that is not known."""
        try:
            return None if self.kubelet_version is None else resolve(self.kubelet_version)
        except BadQuestionError:
            return None

    @property
    def instances(self) -> dict[str, Instance]:
        """Bare container ID -> what pod statuses show of it, those read so far."""
        if self._instances is None:
            pods = self.pods.values()
            statuses = ((pod.uid, status) for pod in pods for status in pod.statuses)
            self._instances = index_instances(statuses)
        return self._instances

    def forget_instances(self) -> None:
        """More statuses were read."""
        self._instances = self._names = None
        self._asked.clear()

    def container(self, container_id: str) -> ContainerRef | None:
        """Whose container an ID is; None where nothing says."""
        found = self.containers.get(container_id)
        if found is None:
            self._asked.setdefault(container_id, self.logs_read)
        return found

    def container_names(self, uid: str) -> set[str]:
        """Containers of a pod that lists or kills name."""
        self._asked.setdefault(uid, self.logs_read)
        return self._names_by_pod.get(uid, set())

    @property
    def _names_by_pod(self) -> dict[str, set[str]]:
        if self._names is None:
            self._names = {}
            for known in self.containers.values():
                if known.container is not None:
                    self._names.setdefault(known.pod_uid, set()).add(known.container)
        return self._names

    def learn_containers(self, others: Mapping[str, ContainerRef]) -> int | None:
        """Note whose containers are that a log shows which is read later.

        Returns:
            after how many logs something was asked that has another answer by this; None: nothing
            was.
        """
        new = {key: each for key, each in others.items() if key not in self.containers}
        asked = [self._asked[key] for key in new if key in self._asked]
        asked += [
            self._asked[each.pod_uid]
            for each in new.values()
            if each.container is not None
            and each.pod_uid in self._asked
            and each.container not in self._names_by_pod.get(each.pod_uid, ())
        ]
        self.containers |= new
        self._names = None
        return min(asked, default=None)

    def status_of(self, uid: str | None) -> list[dict[str, Any]]:
        """Statuses of a pod in the order of time; none of a pod that no list shows."""
        known = self.pods.get(uid or "")
        return [] if known is None else known.statuses

    def spec_of(self, uid: str | None) -> dict[str, Any]:
        """The spec of a pod; empty when no list shows it."""
        known = self.pods.get(uid or "")
        return {} if known is None else known.spec

    def containers_of(self, uid: str | None) -> list[dict[str, Any]]:
        """The containers of a pod's spec, of whatever sort."""
        return list(containers_of_spec(self.spec_of(uid)))

    def name_of(self, uid: str | None) -> PodName:
        """Namespace and name of a pod; (None, None) when no source shows it."""
        known = self.pods.get(uid or "")
        return (None, None) if known is None else (known.namespace, known.name)

    def uid_of(self, namespace: str, name: str, ts_ns: int) -> str | None:
        """UID of the pod that had this name at ``ts_ns``; None when no file shows.

        Of several pods with one name the newest that existed by then is taken; a log line
        that names a UID is to be believed over this. One that was created later is another.
        """
        uids = self.uids_by_name.get((namespace, name), ())
        existing = [uid for uid in uids if self.pods[uid].first_seen_ts_ns <= ts_ns]
        if existing:
            return existing[-1]
        first = self.pods[uids[0]] if uids else None
        if first is None or (first.created and first.first_seen_ts_ns - ts_ns > _SKEW_NS):
            return None
        return first.uid

    def completed(self, subject: Subject, ts_ns: int) -> Subject:
        """The subject, with what the bundle knows of its pod."""
        namespace, pod, uid = subject.namespace, subject.pod, subject.uid
        if uid is None and namespace and pod:
            uid = self.uid_of(namespace, pod, ts_ns)
        if uid in self.pods:
            namespace, pod = self.name_of(uid)
        return Subject(namespace, pod, uid, subject.container)

    def memory_of(self, uid: str, container: str, ts_ns: int) -> MemoryEntry | None:
        """Memory of a container by the next state file, or by one that bears this second's name.

        A later one may show what the container got after it was released.
        """
        following = next((file_ns for file_ns in self.memory_files if file_ns >= ts_ns), ts_ns)
        for entry in self.memory.get((uid, container), ()):
            if ts_ns - NS_PER_S < entry.ts_ns <= following:
                return entry
        return None

    def learn_uid(
        self, namespace: str, name: str, uid: str, ts_ns: int, evidence: Evidence
    ) -> None:
        """Note a UID that a log line reported, for later lines that hold only the name."""
        uids = self.uids_by_name.setdefault((namespace, name), [])
        known = self.pods.get(uid)
        if known is None:
            self.pods[uid] = KnownPod(namespace, name, uid, ts_ns, "log", evidence)
            uids.append(uid)
        elif known.created or known.first_seen_ts_ns <= ts_ns:
            return
        else:  # a list showed it later
            known.first_seen_ts_ns = ts_ns
        uids.sort(key=lambda each: self.pods[each].first_seen_ts_ns)
