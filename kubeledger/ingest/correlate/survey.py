"""The first look over the documents of a bundle: pods, containers, events, allocations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kubeledger.ingest.correlate.context import (
    AllocationEntry,
    BundleContext,
    ContainerRef,
    IndexedEvent,
    KnownPod,
    MemoryEntry,
)
from kubeledger.ingest.sources.documents import Document, DocumentContents, read_document
from kubeledger.ingest.sources.items import (
    ApiEvent,
    Checkpoint,
    Item,
    KernelReports,
    KubeletConfigFile,
    MemoryManagerState,
    NodeObject,
    PodList,
    RuntimeObjects,
)
from kubeledger.ingest.sources.pod_lists import News
from kubeledger.ingest.sources.times import api_time
from kubeledger.kubelet.kube.containermanager import MalformedCheckpointError
from kubeledger.kubelet.kube.statuses import statuses_in
from kubeledger.model.errors import BadInputError

_MIRROR = "kubernetes.io/config.mirror"
_FOR_FACTS_ONLY = ("cgroup-files", "metrics")
"""Nothing is looked up in these, and nothing in them makes them invalid."""


def fill_context(
    context: BundleContext, documents: Sequence[Document], contents: DocumentContents
) -> dict[str, str]:
    """Read the documents that assemblers look things up in, in the order of their time.

    Args:
        documents: all, of which those that are not what their format says are named.
        contents: what they hold.

    Returns:
        file -> what is wrong, for documents that are not what their format says.
    """
    malformed: dict[str, str] = {}
    named: dict[str, KnownPod] = {}
    runtime: list[RuntimeObjects] = []
    news = News()
    for document in documents:
        if document.format in _FOR_FACTS_ONLY:
            continue
        try:
            for item in read_document(document, contents)[0]:
                _take(context, item, news)
                if isinstance(item, ApiEvent):
                    _name_pod(context, item, named)
                elif isinstance(item, RuntimeObjects):
                    runtime.append(item)
        except BadInputError as error:
            malformed[document.source.name] = error.message
        except (AttributeError, KeyError, TypeError, ValueError):
            what = "a value is of another type than it should be"
            malformed[document.source.name] = f"is not a valid {document.format}: {what}"
    for answer in runtime:
        _take_runtime(context, answer, named)
    for pod in named.values():
        if context.pods.setdefault(pod.uid, pod) is pod:
            context.uids_by_name.setdefault((pod.namespace, pod.name), []).append(pod.uid)
    for uids in context.uids_by_name.values():
        uids.sort(key=lambda uid: context.pods[uid].first_seen_ts_ns)
    return malformed


def _take(context: BundleContext, item: Item, news: News) -> None:
    match item:
        case PodList():
            for pod in news.of(item.pods):
                _take_pod(context, item, pod)
                if context.list_signs is not None and item.listed_by != "manifest":
                    context.list_signs.take(pod)
        case ApiEvent():
            _take_event(context, item)
        case Checkpoint():
            _take_checkpoint(context, item)
        case KubeletConfigFile(served=True):
            context.served.append(item)
        case NodeObject():
            _take_node(context, item)
        case MemoryManagerState():
            _take_memory(context, item)
        case KernelReports():
            for report in item.reports:
                context.kernel_reports.setdefault(report.file, []).append(report)
            context.kernel_boots += item.boots
        case _:
            return


def kubelet_uid(pod: dict[str, Any]) -> str | None:
    """UID as the kubelet uses it: for a mirror pod that of its static pod."""
    metadata = pod.get("metadata") or {}
    mirror = (metadata.get("annotations") or {}).get(_MIRROR)
    uid = mirror or metadata.get("uid")
    return str(uid) if uid else None


def _take_pod(context: BundleContext, item: PodList, pod: dict[str, Any]) -> None:
    metadata = pod.get("metadata") or {}
    uid = kubelet_uid(pod)
    name = metadata.get("name")
    node = (pod.get("spec") or {}).get("nodeName")
    if uid is None or not name or (node and node != context.node):
        return
    namespace = metadata.get("namespace") or "default"
    known = context.pods.get(uid)
    if known is None:
        known = context.pods[uid] = KnownPod(
            namespace=namespace,
            name=name,
            uid=uid,
            first_seen_ts_ns=_created(metadata, item.ts_ns),
            listed_by=item.listed_by,
            evidence=item.evidence,
            created=api_time(metadata.get("creationTimestamp")) is not None,
        )
        context.uids_by_name.setdefault((namespace, name), []).append(uid)
    status = pod.get("status")
    known.learn(pod.get("spec"), status)
    known.listed_by = item.listed_by
    for container_id, container in _containers(status or {}):
        context.containers[container_id] = ContainerRef(uid, container)


def _created(metadata: dict[str, Any], otherwise: int) -> int:
    created = api_time(metadata.get("creationTimestamp"))
    return otherwise if created is None else created


def _containers(status: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Bare container ID and container name, of running and of ended instances."""
    for entry in statuses_in(status):
        ids = [entry.get("containerID")]
        for state in ("state", "lastState"):
            ids.append(((entry.get(state) or {}).get("terminated") or {}).get("containerID"))
        for text in ids:
            if text:
                yield text.rpartition("://")[2], entry.get("name", "")


def _times(item: ApiEvent) -> tuple[int, int]:
    """When an event was first and last sent."""
    first_ns, last_ns = item.event.first_ns, item.event.last_ns
    return (item.ts_ns,) * 2 if first_ns is None or last_ns is None else (first_ns, last_ns)


def _take_event(context: BundleContext, item: ApiEvent) -> None:
    event, key, count = item.event, item.event.key, item.event.count
    if not event.may_be_of(context.node):
        return
    first, last = _times(item)
    known = context.events.get(key)
    if known is None:
        context.events[key] = IndexedEvent(event, count, first, last, (item.evidence,))
        return
    if count >= known.count:
        known.event, known.count = event, count
    known.first_ts_ns = min(known.first_ts_ns, first)
    known.last_ts_ns = max(known.last_ts_ns, last)
    if item.evidence not in known.evidence:
        known.evidence = (*known.evidence, item.evidence)


def _name_pod(context: BundleContext, item: ApiEvent, named: dict[str, KnownPod]) -> None:
    """The kubelet's event names a pod of which no list may show: its UID, and since when."""
    api = item.event
    _, namespace, name, _, _ = api.key
    if not api.pod_uid or not name or not api.may_be_of(context.node):
        return
    first, _ = _times(item)
    pod = KnownPod(namespace, name, api.pod_uid, first, "log", item.evidence)
    known = named.setdefault(api.pod_uid, pod)
    known.first_seen_ts_ns = min(known.first_seen_ts_ns, first)


def _take_runtime(context: BundleContext, item: RuntimeObjects, named: dict[str, KnownPod]) -> None:
    """What the runtime says, where neither pods nor the node object do."""
    for each in item.containers:
        owner = ContainerRef(each.pod_uid, each.container, sandbox=each.container is None)
        context.containers.setdefault(each.container_id, owner)
        first_ns = each.created_ns or item.ts_ns
        pod = KnownPod(each.namespace, each.pod, each.pod_uid, first_ns, "log", item.evidence)
        known = named.setdefault(each.pod_uid, pod)
        known.first_seen_ts_ns = min(known.first_seen_ts_ns, first_ns)
    sizes = {name: image.size_bytes for image in item.images for name in image.names}
    for name, size in sizes.items():
        context.image_sizes.setdefault(name, size)


def _take_checkpoint(context: BundleContext, item: Checkpoint) -> None:
    from kubeledger.kubelet.devicemanager.checkpoint import read_checkpoint  # few files need it

    data = item.data.get("Data") or {}
    try:
        sound = read_checkpoint(item.data).checksum_ok
    except MalformedCheckpointError:
        sound = None
    if sound is False:
        return  # its content is not relied on, by the kubelet either
    for entry in data.get("PodDeviceEntries") or ():
        key = (
            str(entry.get("PodUID", "")),
            str(entry.get("ContainerName", "")),
            str(entry.get("ResourceName", "")),
        )
        if key not in context.allocations:
            numa = _numa(entry.get("DeviceIDs"))
            context.allocations[key] = AllocationEntry(item.ts_ns, numa, item.evidence)


def _take_node(context: BundleContext, item: NodeObject) -> None:
    """Images of the node: names of one image share its size."""
    status = item.node.get("status") or {}
    for image in status.get("images") or ():
        size = image.get("sizeBytes")
        if isinstance(size, int):
            context.image_sizes.update(dict.fromkeys(map(str, image.get("names") or ()), size))


def _take_memory(context: BundleContext, item: MemoryManagerState) -> None:
    from kubeledger.kubelet.memorymanager.checkpoint import read_memory_manager_state

    try:
        body = read_memory_manager_state(item.data)
    except MalformedCheckpointError:
        return
    if body.checksum_ok is False:
        return
    context.memory_files.append(item.ts_ns)
    for uid, containers in body.assignments.items():
        for name, blocks in containers.items():
            entry = MemoryEntry(item.ts_ns, blocks, item.evidence)
            context.memory.setdefault((uid, name), []).append(entry)


def _numa(devices: Any) -> dict[str, tuple[str, ...]]:  # noqa: ANN401 - the kubelet's JSON
    """NUMA node -> sorted IDs; key "" for the flat list of old versions."""
    if isinstance(devices, dict):
        return {
            str(node): tuple(sorted(map(str, ids or ()))) for node, ids in sorted(devices.items())
        }
    return {"": tuple(sorted(map(str, devices or ())))}
