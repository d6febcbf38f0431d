"""Pods as config sources, pod lists and their ends show them.

``SyncLoop ADD`` and its kin give one fact a pod; pod lists give one a pod whose spec or
status changed since the last list of that kind. This assembler also keeps what the pods'
configuration is, and where a new kubelet process begins.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, cast, get_args

import msgspec

from kubeledger.ingest.correlate.assembler import Entry, reads, takes
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.holdback import shown
from kubeledger.ingest.correlate.registers import Pod, PodAssembler, Registers, about_pod
from kubeledger.ingest.correlate.survey import kubelet_uid
from kubeledger.ingest.messages.podref import structured_pod
from kubeledger.ingest.sources.facts import Fact, Facts
from kubeledger.ingest.sources.items import PodList
from kubeledger.ingest.sources.times import api_time
from kubeledger.model.bodies.lifecycle import PodConfigChanged, PodListed, PodTerminated

Operation = Literal["ADD", "UPDATE", "DELETE", "REMOVE", "RECONCILE"]
_CONFIGURED = "SyncLoop "


class _Body(NamedTuple):
    """What a list says of a pod; as long as that is held it is the same object."""

    pod: dict[str, Any]
    body: PodListed
    digest: bytes


class LifecycleAssembler(PodAssembler):
    """Config changes, pod lists and terminated pods."""

    def __init__(self, context: BundleContext, registers: Registers) -> None:
        super().__init__(context, registers)
        self._listed: dict[str, dict[tuple[str, str, str], bytes]] = {}
        self._bodies: dict[str, dict[int, _Body]] = {}
        self._terminated: set[tuple[str, str, str | None]] = set()

    @reads("SyncLoop (SYNC) pods", "SyncLoop (housekeeping)")
    def _turn(self, entry: Entry) -> None:
        self._sync_loop.iterated()

    @reads("Starting kubelet main sync loop")
    def _starting(self, entry: Entry) -> Facts:
        self._sync_loop.start(entry.ts_ns)
        self._admissions.abandon()
        return self.queue.drain()

    @reads(*(_CONFIGURED + operation for operation in get_args(Operation)))
    def _configured(self, entry: Entry) -> None:
        self._sync_loop.iterated()
        source, operation = entry.text("source"), entry.message.removeprefix(_CONFIGURED)
        if operation == "ADD":
            self._admissions.begin_add(entry.line)
        find = self._pods.added if operation == "ADD" else self._pods.named
        for ref in entry.pods:
            pod = find(ref, entry)
            body = PodConfigChanged(
                **pod.names, operation=cast(Operation, operation), source=source or None
            )
            _note(pod, operation, source, self.queue.add(shown(entry, body)))

    @reads("Generated pod name", "Topology Admit Handler")
    def _named(self, entry: Entry) -> None:
        """The UID, which the ADD does not show: of a manifest's pod a moment before it.

        From 1.28 to 1.30 the first admit handler shows it, right after the ADD.
        """
        values = entry.values
        name = {"namespace": values.get("podNamespace"), "name": values.get("podName")}
        ref = structured_pod(values.get("pod") or name, values.get("podUID"))
        if ref is not None and ref.uid is not None:
            self._pods.named(ref, entry)

    @about_pod(
        "Pod has completed, ignoring remaining sync work",
        "Pod is terminated and will need no more status updates",
        "Pod fully terminated and removed from etcd",
    )
    def _gone(self, entry: Entry, pod: Pod) -> None:
        """One that is to be created had ended before, and one that was refused never ran."""
        if entry.text("syncType").startswith("create") or pod in self._admissions.rejected:
            return
        key = (pod.namespace, pod.name, pod.uid)
        if key not in self._terminated:
            self._terminated.add(key)
            self.queue.add(shown(entry, PodTerminated(**pod.names), cause=pod.deleted))

    @takes(PodList)
    def _pod_list(self, item: PodList) -> None:
        for body in self._changes(item):
            self.queue.add(shown(item, body))

    def _changes(self, item: PodList) -> Iterator[PodListed]:
        before = self._listed.setdefault(item.listed_by, {})
        last = self._bodies.get(item.listed_by, {})
        bodies: dict[int, _Body] = {}
        now: dict[tuple[str, str, str], bytes] = {}
        for pod in item.pods:
            known = last.get(id(pod)) or _body_of(pod, item)
            bodies[id(pod)] = known
            body = known.body
            key = (body.namespace, body.pod, body.pod_uid or "")
            now[key] = known.digest
            self._note_phase(body)
            if before.get(key) != now[key]:
                yield body
        self._bodies[item.listed_by] = bodies
        if item.complete:
            for key in sorted(before.keys() - now.keys()):
                if item.namespaces is None or key[0] in item.namespaces:
                    del before[key]
                    yield _gone_body(*key, item)
        before.update(now)

    def _note_phase(self, body: PodListed) -> None:
        pod = self._pods.with_uid(body.pod_uid)
        if pod is not None and body.status is not None:
            pod.phase = body.status.get("phase")


def _note(pod: Pod, operation: str, source: str, fact: Fact) -> None:
    if pod.is_static and not pod.removed and source == "api":
        return  # its mirror
    if operation == "ADD":
        pod.source, pod.added = source, fact
    elif operation in ("DELETE", "REMOVE"):
        pod.deleted = pod.deleted or fact
        pod.removed = pod.removed or operation == "REMOVE"


def _body_of(pod: dict[str, Any], item: PodList) -> _Body:
    body = _listed(pod, item)
    return _Body(pod, body, _digest(body))


def _listed(pod: dict[str, Any], item: PodList) -> PodListed:
    metadata = pod.get("metadata") or {}
    created = metadata.get("creationTimestamp")
    return PodListed(
        namespace=metadata.get("namespace") or "default",
        pod=metadata.get("name") or "",
        pod_uid=kubelet_uid(pod),
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
        created_ts_ns=api_time(created),
        spec=pod.get("spec") or {},
        status=None if item.listed_by == "manifest" else pod.get("status") or {},
        listed_by=item.listed_by,
    )


def _gone_body(namespace: str, name: str, uid: str, item: PodList) -> PodListed:
    return PodListed(
        namespace=namespace,
        pod=name,
        pod_uid=uid or None,
        spec=None,
        status=None,
        listed_by=item.listed_by,
        gone=True,
    )


def _digest(body: PodListed) -> bytes:
    """Short stand-in of everything the record holds, so that lists need not be kept."""
    return hashlib.blake2b(msgspec.json.encode(body, order="sorted"), digest_size=16).digest()
