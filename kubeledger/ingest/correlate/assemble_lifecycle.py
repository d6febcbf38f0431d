"""Pods as config sources, pod lists and the end of their life show them.

``SyncLoop ADD`` and its kin give one fact a pod; pod lists give one a pod whose spec or
status changed since the last list of that kind. This assembler also keeps the links'
pods: what is added and deleted, and where a new kubelet process begins.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Literal, get_args

import msgspec

from kubeledger.ingest.correlate.assembler import (
    Assembler,
    ItemHandler,
    StructuredHandler,
)
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.links import PodLink
from kubeledger.ingest.correlate.survey import kubelet_uid
from kubeledger.ingest.messages.podref import (
    structured_pod,
    structured_pods,
    text_value,
)
from kubeledger.ingest.sources.facts import Fact, Facts
from kubeledger.ingest.sources.items import Item, LogLine, PodList
from kubeledger.ingest.sources.times import api_time
from kubeledger.model.bodies.lifecycle import PodConfigChanged, PodListed, PodTerminated

__all__ = ["LifecycleAssembler"]

Operation = Literal["ADD", "UPDATE", "DELETE", "REMOVE", "RECONCILE"]


class LifecycleAssembler(Assembler):
    """Config changes, pod lists and terminated pods."""

    def __init__(self, context: BundleContext) -> None:
        super().__init__(context)
        self._links = context.links
        self._listed: dict[str, dict[tuple[str, str, str], bytes]] = {}
        self._terminated: set[tuple[str, str, str | None]] = set()

    def structured(self) -> Mapping[str, StructuredHandler]:
        """Messages since 1.21."""
        handlers: dict[str, StructuredHandler] = {}
        for operation in get_args(Operation):
            handlers[f"SyncLoop {operation}"] = partial(self._config, operation=operation)
        for message in ("SyncLoop (SYNC) pods", "SyncLoop (housekeeping)"):
            handlers[message] = self._turn
        handlers["Starting kubelet main sync loop"] = self._starting
        handlers["Pod is terminated and will need no more status updates"] = self._gone
        handlers["Pod fully terminated and removed from etcd"] = self._gone
        handlers["Pod has completed, ignoring remaining sync work"] = self._completed
        handlers["Generated pod name"] = self._named
        handlers["Topology Admit Handler"] = self._named
        return handlers

    def items(self) -> Mapping[type, ItemHandler]:
        """Pod lists."""
        return {PodList: self._pod_list}

    def waiting_since(self) -> int | None:
        """Time of the oldest fact that is held back; None when nothing is."""
        return self._links.queue.waiting_since()

    def finish(self, ts_ns: int) -> Facts:
        """What still waited."""
        return self._links.queue.drain()

    def _release(self, line: LogLine) -> list[Fact]:
        return self._links.queue.release(line.ts_ns)

    def _turn(self, line: LogLine) -> Facts:
        self._links.sync_loop_turned()
        return self._release(line)

    def _starting(self, line: LogLine) -> Facts:
        self._links.begin_epoch(line.ts_ns)
        return self._links.queue.drain()

    def _config(self, line: LogLine, operation: Operation) -> Facts:
        refs = structured_pods((line.values or {}).get("pods"))
        source = text_value(line, "source")
        self._links.sync_loop_turned()
        if operation == "ADD":
            self._links.begin_add(line)
        for ref in refs:
            if operation == "ADD":
                pod = self._links.added_pod(self.context, ref, line)
            else:
                pod = self._links.pod(self.context, ref, line)
            fact = Fact(
                line.ts_ns,
                PodConfigChanged(
                    namespace=pod.namespace,
                    pod=pod.name,
                    pod_uid=pod.uid,
                    operation=operation,
                    source=source or None,
                ),
                (line.evidence,),
            )
            self._links.queue.add(fact)
            _note(pod, operation, source, fact)
        return self._release(line)

    def _named(self, line: LogLine) -> Facts:
        """The UID, which the ADD does not tell: of a manifest's pod a moment before it.

        From 1.28 to 1.30 the first admit handler tells it, right behind the ADD.
        """
        values = line.values or {}
        name = {"namespace": values.get("podNamespace"), "name": values.get("podName")}
        ref = structured_pod(values.get("pod") or name, values.get("podUID"))
        if ref is not None and ref.uid is not None:
            self._links.pod(self.context, ref, line)
        return ()

    def _completed(self, line: LogLine) -> Facts:
        """One that is to be created had ended before: admission is skipped."""
        if text_value(line, "syncType").startswith("create"):
            return self._release(line)
        return self._gone(line)

    def _gone(self, line: LogLine) -> Facts:
        ref = structured_pod((line.values or {}).get("pod"), (line.values or {}).get("podUID"))
        if ref is None:
            return self._release(line)
        pod = self._links.pod(self.context, ref, line)
        key = (pod.namespace, pod.name, pod.uid)
        # A pod that was refused never ran: nothing of it ends.
        if key not in self._terminated and pod.rejected is None:
            self._terminated.add(key)
            body = PodTerminated(namespace=pod.namespace, pod=pod.name, pod_uid=pod.uid)
            self._links.queue.add(Fact(line.ts_ns, body, (line.evidence,), cause=pod.deleted))
        return self._release(line)

    def _pod_list(self, item: Item) -> Facts:
        assert isinstance(item, PodList)
        for fact in self._changes(item):
            self._links.queue.add(fact)
        return self._links.queue.release(item.ts_ns)

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
            for namespace, name, uid in sorted(before.keys() - now.keys()):
                yield Fact(item.ts_ns, _gone_body(namespace, name, uid, item), (item.evidence,))
            before.clear()
        before.update(now)

    def _note_phase(self, body: PodListed) -> None:
        if body.pod_uid is None or body.status is None:
            return
        pod = self._links.pod_by_uid(self.context, body.pod_uid)
        if pod is not None:
            pod.phase = body.status.get("phase")


def _note(pod: PodLink, operation: str, source: str, fact: Fact) -> None:
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
