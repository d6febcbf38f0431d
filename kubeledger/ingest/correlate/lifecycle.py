"""Pods as config sources, pod lists and their ends show them.

``SyncLoop ADD`` and its kin give one fact a pod; pod lists give one a pod whose spec or
status changed since the last list of that kind. This assembler also keeps what the pods'
configuration is, and where a new kubelet process begins.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Literal, cast

import msgspec

from kubeledger.ingest.correlate.assembler import Method
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.entry import Entry
from kubeledger.ingest.correlate.pod_assembler import PodAssembler, Registers
from kubeledger.ingest.correlate.pods import Pod
from kubeledger.ingest.correlate.survey import kubelet_uid
from kubeledger.ingest.messages.podref import structured_pod
from kubeledger.ingest.sources.facts import Fact, Facts
from kubeledger.ingest.sources.items import PodList
from kubeledger.ingest.sources.times import api_time
from kubeledger.model.bodies.lifecycle import PodConfigChanged, PodListed, PodTerminated

__all__ = ["LifecycleAssembler"]

Operation = Literal["ADD", "UPDATE", "DELETE", "REMOVE", "RECONCILE"]


class LifecycleAssembler(PodAssembler):
    """Config changes, pod lists and terminated pods."""

    def __init__(self, context: BundleContext, registers: Registers) -> None:
        super().__init__(context, registers)
        self._listed: dict[str, dict[tuple[str, str, str], bytes]] = {}
        self._terminated: set[tuple[str, str, str | None]] = set()

    def messages(self) -> Mapping[str, Method]:
        """Messages since 1.21."""
        operations = ("ADD", "UPDATE", "DELETE", "REMOVE", "RECONCILE")
        return {
            **{f"SyncLoop {name}": partial(self._configured, name) for name in operations},
            "SyncLoop (SYNC) pods": self._turn,
            "SyncLoop (housekeeping)": self._turn,
            "Starting kubelet main sync loop": self._starting,
            "Pod has completed, ignoring remaining sync work": self._completed,
            "Pod is terminated and will need no more status updates": self._gone,
            "Pod fully terminated and removed from etcd": self._gone,
            "Generated pod name": self._named,
            "Topology Admit Handler": self._named,
        }

    def takes(self) -> Mapping[type, Callable[[Any], None]]:
        """Pod lists."""
        return {PodList: self._pod_list}

    def _turn(self, entry: Entry) -> None:
        self._sync_loop.iterated()

    def _starting(self, entry: Entry) -> Facts:
        self._sync_loop.start(entry.ts_ns)
        self._admissions.abandon()
        return self.queue.drain()

    def _configured(self, operation: str, entry: Entry) -> None:
        self._sync_loop.iterated()
        source = entry.text("source")
        if operation == "ADD":
            self._admissions.begin_add(entry.line)
        find = self._pods.added if operation == "ADD" else self._pods.named
        for ref in entry.pods:
            pod = find(ref, entry)
            body = PodConfigChanged(
                **pod.names, operation=cast(Operation, operation), source=source or None
            )
            fact = self.queue.add(Fact(entry.ts_ns, body, (entry.evidence,)))
            _note(pod, operation, source, fact)

    def _named(self, entry: Entry) -> None:
        """The UID, which the ADD does not show: of a manifest's pod a moment before it.

        From 1.28 to 1.30 the first admit handler shows it, right after the ADD.
        """
        values = entry.values
        name = {"namespace": values.get("podNamespace"), "name": values.get("podName")}
        ref = structured_pod(values.get("pod") or name, values.get("podUID"))
        if ref is not None and ref.uid is not None:
            self._pods.named(ref, entry)

    def _completed(self, entry: Entry) -> None:
        """One that is to be created had ended before: admission is skipped."""
        if not entry.text("syncType").startswith("create"):
            self._gone(entry)

    def _gone(self, entry: Entry) -> None:
        pod = self._pods.of(entry)
        if pod is None:
            return
        key = (pod.namespace, pod.name, pod.uid)
        # A pod that was refused never ran: nothing of it ends.
        if key not in self._terminated and pod not in self._admissions.rejected:
            self._terminated.add(key)
            body = PodTerminated(**pod.names)
            self.queue.add(Fact(entry.ts_ns, body, (entry.evidence,), cause=pod.deleted))

    def _pod_list(self, item: PodList) -> None:
        for fact in self._changes(item):
            self.queue.add(fact)

    def _changes(self, item: PodList) -> Iterator[Fact]:
        before = self._listed.setdefault(item.listed_by, {})
        now: dict[tuple[str, str, str], bytes] = {}
        for pod in item.pods:
            body = _listed(pod, item)
            key = (body.namespace, body.pod, body.pod_uid or "")
            now[key] = _digest(body)
            self._note_phase(body)
            if before.get(key) != now[key]:
                yield Fact(item.ts_ns, body, (item.evidence,))
        if item.complete:
            for key in sorted(before.keys() - now.keys()):
                if item.namespaces is None or key[0] in item.namespaces:
                    del before[key]
                    yield Fact(item.ts_ns, _gone_body(*key, item), (item.evidence,))
        before.update(now)

    def _note_phase(self, body: PodListed) -> None:
        if body.pod_uid is None or body.status is None:
            return
        pod = self._pods.with_uid(body.pod_uid)
        if pod is not None:
            pod.phase = body.status.get("phase")


def _note(pod: Pod, operation: str, source: str, fact: Fact) -> None:
    if pod.is_static and not pod.removed and source == "api":
        return  # its mirror
    if operation == "ADD":
        pod.source, pod.added = source, fact
    elif operation in ("DELETE", "REMOVE"):
        pod.deleted = pod.deleted or fact
        pod.removed = pod.removed or operation == "REMOVE"


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
