"""Files that are read whole: API objects, checkpoints, snapshots of metrics and cgroups."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from kubeledger.ingest.sources.crictl import containers_of, images_of
from kubeledger.ingest.sources.detect import load_documents
from kubeledger.ingest.sources.items import (
    ApiEvent,
    CgroupFiles,
    Checkpoint,
    CpuManagerState,
    Item,
    KernelReports,
    KubeletConfigFile,
    KubeletCounters,
    MemoryManagerState,
    NodeObject,
    PodList,
    PodResources,
    ProbeCounters,
    RuntimeObjects,
    StatsSummary,
    ToldTime,
)
from kubeledger.ingest.sources.kernel_log import KernelLogReader
from kubeledger.ingest.sources.plain import normal_message, plain
from kubeledger.ingest.sources.pod_resources import read_pod_resources
from kubeledger.ingest.sources.shapes import sound_objects
from kubeledger.ingest.sources.streams import SourceFile
from kubeledger.ingest.sources.times import api_time, date_in
from kubeledger.ingest.sources.yaml_text import load_yaml
from kubeledger.kubelet.cgroups.paths import below_controller
from kubeledger.model.errors import BadInputError
from kubeledger.model.record import Evidence

__all__ = [
    "Document",
    "LineCounts",
    "event_times",
    "first_time",
    "is_list",
    "pods_of",
    "read_document",
]

ListedBy = Literal["kubelet", "api", "manifest"]

_CONFIG_SOURCE = "kubernetes.io/config.source"
_CGROUP_LINE = re.compile(r"(?P<path>\S+)/(?P<file>[\w.-]+)[ \t:=]+(?P<value>.*)")
_PROBE_LINE = re.compile(r"prober_probe_total\{(?P<labels>.*)\}\s+(?P<value>[0-9.eE+]+)")
_COUNTED = re.compile(
    r"(?P<name>kubelet_(?:evictions|preemptions|image_garbage_collected_total))(?:\{.*\})?"
    r"\s+(?P<value>[0-9.eE+]+)"
)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class LineCounts(msgspec.Struct):
    """Where the lines of a document went.

    Attributes:
        unknown: those nobody understands.
        flaws: (n,) sentences: what of the content was rejected or replaced.
    """

    lines: int
    understood: int
    noise: int = 0
    unknown: list[Evidence] = []
    flaws: list[str] = []


class Document(msgspec.Struct):
    """A file that is read whole.

    Attributes:
        source: the file.
        format: as ``detect`` names it.
        ts_ns: time of the snapshot; events have their own.
    """

    source: SourceFile
    format: str
    ts_ns: int


def read_document(document: Document) -> tuple[list[Item], LineCounts]:
    """The items of a document.

    Raises:
        BadInputError: the file changed since it was looked at, or is not what it seems.
    """
    data = document.source.content()
    try:
        return _READERS[document.format](document, data)
    except ValueError as error:
        raise BadInputError(
            f"is no valid {document.format}: {error}", file=document.source.name
        ) from None


def _all_lines(data: bytes, flaws: list[str]) -> LineCounts:
    lines = data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
    return LineCounts(lines, lines, flaws=flaws)


def _evidence(document: Document) -> Evidence:
    return Evidence(file=document.source.name)


def _line_evidence(document: Document, number: int, offset: int, text: str) -> Evidence:
    return Evidence(file=document.source.name, line=number, offset=offset, text=text[:4096])


def _values(data: bytes, flaws: list[str]) -> list[Any]:
    """The values of a JSON or YAML file, made plain."""
    text = data.removeprefix(b"\xef\xbb\xbf").lstrip()
    documents = load_documents(data) if text[:1] in (b"{", b"[") else load_yaml(data)
    return [plain(value, flaws) for value in documents]


def _objects(documents: list[Any]) -> list[dict[str, Any]]:
    """API objects of a file's values, lists and watch envelopes taken apart."""
    objects: list[dict[str, Any]] = []
    for value in documents:
        for entry in value if isinstance(value, list) else (value,):
            if not isinstance(entry, dict):
                continue
            inner = entry["object"] if isinstance(entry.get("object"), dict) else entry
            if is_list(inner):
                objects += [item for item in inner.get("items") or () if isinstance(item, dict)]
            else:
                objects.append(inner)
    return objects


def is_list(document: dict[str, Any]) -> bool:
    """A list of API objects; an empty one of Go's has ``"items": null``."""
    return isinstance(document.get("items"), list) or (
        "items" in document and str(document.get("kind", "")).endswith("List")
    )


def pods_of(documents: list[Any], flaws: list[str]) -> tuple[list[dict[str, Any]], ListedBy, bool]:
    """Pods of a file's values, who listed them, and whether the list is whole."""
    found = [pod for pod in _objects(documents) if pod.get("kind") in (None, "Pod")]
    pods = sound_objects("pod", found, flaws)
    first = documents[0] if documents else None
    listed = isinstance(first, dict) and is_list(first)
    if not listed and not any("status" in pod for pod in pods):
        return pods, "manifest", False
    # Of a pod that is not read nobody knows whether it is gone.
    complete = listed and len(pods) == len(found)
    kubelet = any(
        (pod["metadata"].get("annotations") or {}).get(_CONFIG_SOURCE) == "api" for pod in pods
    )
    metadata = first.get("metadata") if isinstance(first, dict) else None
    metadata = metadata if isinstance(metadata, dict) else {}
    # The kubelet answers with a PodList that has no resource version; an API server
    # gives one, and kubectl makes a List of its own.
    if (
        isinstance(first, dict)
        and listed
        and first.get("kind") == "PodList"
        and not metadata.get("resourceVersion")
    ):
        kubelet = kubelet or "resourceVersion" not in metadata
    nodes = {(pod.get("spec") or {}).get("nodeName") for pod in pods}
    kubelet = kubelet and len(nodes - {None, ""}) < 2  # it knows its own pods only
    return pods, "kubelet" if kubelet else "api", complete


def _pod_list(document: Document, data: bytes) -> tuple[list[Item], LineCounts]:
    flaws: list[str] = []
    pods, listed_by, complete = pods_of(_values(data, flaws), flaws)
    spaces = frozenset(pod["metadata"].get("namespace") or "default" for pod in pods)
    shown = spaces if listed_by == "api" else None
    item = PodList(document.ts_ns, listed_by, pods, complete, _evidence(document), shown)
    return [item], _all_lines(data, flaws)


def _single(data: bytes, flaws: list[str]) -> dict[str, Any]:
    value = plain(load_documents(data)[0], flaws)
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value


def _checkpoint(document: Document, data: bytes) -> tuple[list[Item], LineCounts]:
    flaws: list[str] = []
    item = Checkpoint(document.ts_ns, _single(data, flaws), data, _evidence(document))
    return [item], _all_lines(data, flaws)


def _cpu_manager(document: Document, data: bytes) -> tuple[list[Item], LineCounts]:
    flaws: list[str] = []
    item = CpuManagerState(document.ts_ns, _single(data, flaws), _evidence(document))
    return [item], _all_lines(data, flaws)


def _memory_manager(document: Document, data: bytes) -> tuple[list[Item], LineCounts]:
    flaws: list[str] = []
    item = MemoryManagerState(document.ts_ns, _single(data, flaws), _evidence(document))
    return [item], _all_lines(data, flaws)


def _stats(document: Document, data: bytes) -> tuple[list[Item], LineCounts]:
    flaws: list[str] = []
    item = StatsSummary(document.ts_ns, _single(data, flaws), _evidence(document))
    return [item], _all_lines(data, flaws)


def _pod_resources(document: Document, data: bytes) -> tuple[list[Item], LineCounts]:
    flaws: list[str] = []
    body = read_pod_resources(_single(data, flaws))
    return [PodResources(document.ts_ns, body, _evidence(document))], _all_lines(data, flaws)


def _node(document: Document, data: bytes) -> tuple[list[Item], LineCounts]:
    flaws: list[str] = []
    nodes = sound_objects("node", _objects(_values(data, flaws)), flaws)
    items: list[Item] = [NodeObject(document.ts_ns, node, _evidence(document)) for node in nodes]
    return items, _all_lines(data, flaws)


def _config(document: Document, data: bytes) -> tuple[list[Item], LineCounts]:
    flaws: list[str] = []
    items: list[Item] = []
    for value in _objects(_values(data, flaws)):
        items.append(KubeletConfigFile(document.ts_ns, value, _evidence(document)))
    return items, _all_lines(data, flaws)


def _configz(document: Document, data: bytes) -> tuple[list[Item], LineCounts]:
    flaws: list[str] = []
    value = _single(data, flaws)["kubeletconfig"]
    item = KubeletConfigFile(document.ts_ns, value, _evidence(document), served=True)
    return [item], _all_lines(data, flaws)


def event_times(event: dict[str, Any]) -> tuple[int, int] | None:
    """First and last time of an API event; None when it holds none that can be read."""
    series = event.get("series") or {}
    metadata = event.get("metadata") or {}
    first = first_time(
        event.get("firstTimestamp"),
        event.get("deprecatedFirstTimestamp"),
        event.get("eventTime"),
        metadata.get("creationTimestamp"),
    )
    last = first_time(
        series.get("lastObservedTime"),
        event.get("lastTimestamp"),
        event.get("deprecatedLastTimestamp"),
        event.get("eventTime"),
    )
    if first is None and last is None:
        return None
    return (first if first is not None else last or 0, last if last is not None else first or 0)


def first_time(*texts: object) -> int | None:
    """The first of these fields that holds a time; None when none does."""
    for text in texts:
        if isinstance(text, str) and text:
            try:
                ts_ns = api_time(text)
            except ValueError:
                continue
            if ts_ns is not None:
                return ts_ns
    return None


def _events(document: Document, data: bytes) -> tuple[list[Item], LineCounts]:
    flaws: list[str] = []
    items: list[Item] = []
    for event in sound_objects("event", _objects(_values(data, flaws)), flaws):
        times = event_times(event)
        for key in ("message", "note"):
            # As in log lines: a trailing newline is no part of what is said.
            if isinstance(event.get(key), str):
                event[key] = normal_message(event[key])
        ts_ns = times[1] if times else document.ts_ns
        items.append(ApiEvent(ts_ns, event, _evidence(document)))
    items.sort(key=lambda item: item.ts_ns)
    return items, _all_lines(data, flaws)


def _cgroups(document: Document, data: bytes) -> tuple[list[Item], LineCounts]:
    values: dict[str, dict[str, str]] = {}
    evidence: dict[str, list[Evidence]] = {}
    counts = LineCounts(0, 0)
    last: tuple[str, str] | None = None
    for number, offset, text in _lines(data):
        counts.lines += 1
        last = None
        if _is_damaged(text, counts):
            counts.unknown.append(_line_evidence(document, number, offset, text))
            continue
        match = _CGROUP_LINE.match(text)
        if match is None:
            if not text.strip() or text.startswith("#"):
                counts.noise += 1
            else:
                counts.unknown.append(_line_evidence(document, number, offset, text))
            continue
        counts.understood += 1
        path = below_controller(match["path"])
        last = path, match["file"]
        values.setdefault(path, {})[match["file"]] = match["value"].strip()
        evidence.setdefault(path, []).append(_line_evidence(document, number, offset, text))
    lines = {path: tuple(places) for path, places in evidence.items()}
    open_end = None if data.endswith(b"\n") else last
    return [CgroupFiles(document.ts_ns, values, lines, open_end)], counts


def _metrics(document: Document, data: bytes) -> tuple[list[Item], LineCounts]:
    decided: dict[str, int] = {}
    totals: dict[tuple[str, str, str, str, str, str], int] = {}
    evidence: dict[tuple[str, str, str, str, str, str], Evidence] = {}
    counts = LineCounts(0, 0)
    for number, offset, text in _lines(data):
        counts.lines += 1
        if _is_damaged(text, counts):
            counts.unknown.append(_line_evidence(document, number, offset, text))
            continue
        match = _PROBE_LINE.match(text)
        if match is None:
            counts.noise += 1  # no line of its own becomes a record
            _add_counter(text, decided)
            continue
        total = _count(match["value"])
        if total is None:
            counts.unknown.append(_line_evidence(document, number, offset, text))
            continue
        counts.understood += 1
        labels = dict(_LABEL.findall(match["labels"]))
        key = (
            labels.get("namespace", ""),
            labels.get("pod", ""),
            labels.get("pod_uid", ""),
            labels.get("container", ""),
            labels.get("probe_type", ""),
            labels.get("result", ""),
        )
        totals[key] = total
        evidence[key] = _line_evidence(document, number, offset, text)
    items: list[Item] = [ProbeCounters(document.ts_ns, totals, evidence)] if totals else []
    if decided:
        items.append(KubeletCounters(document.ts_ns, decided, _evidence(document)))
    return items, counts


def _add_counter(text: str, decided: dict[str, int]) -> None:
    """A line of a metric that counts decisions."""
    match = _COUNTED.match(text)
    value = None if match is None else _count(match["value"])
    if match is not None and value is not None:
        decided[match["name"]] = decided.get(match["name"], 0) + value


def _is_damaged(text: str, counts: LineCounts) -> bool:
    """A line with NUL bytes is not believed, but the others are."""
    if "\0" not in text:
        return False
    message = "lines with NUL bytes are not read"
    if message not in counts.flaws:
        counts.flaws.append(message)
    return True


def _count(text: str) -> int | None:
    """A counter's value; None when it is none."""
    try:
        value = float(text)
    except ValueError:
        return None
    return int(value) if 0 <= value < 2**63 else None


def _lines(data: bytes) -> Iterator[tuple[int, int, str]]:
    """1-based number, byte offset and text of each line."""
    offset = 0
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    for number, line in enumerate(lines, 1):
        yield number, offset, line.rstrip(b"\r").decode("utf-8", "replace")
        offset += len(line) + 1


def _kernel_log(document: Document, data: bytes) -> tuple[list[Item], LineCounts]:
    reader = KernelLogReader(document.source.name)
    reader.read(_lines(data))
    found = KernelReports(document.ts_ns, reader.reports, reader.boots, _evidence(document))
    return [found], LineCounts(reader.lines, reader.understood, reader.lines - reader.understood)


def _crictl(document: Document, data: bytes) -> tuple[list[Item], LineCounts]:
    flaws: list[str] = []
    values = [value for value in _values(data, flaws) if isinstance(value, dict)]
    images = [image for value in values for image in images_of(value)]
    containers = [each for value in values for each in containers_of(value)]
    item = RuntimeObjects(document.ts_ns, images, containers, _evidence(document))
    return [item], _all_lines(data, flaws)


def _collected_at(document: Document, data: bytes) -> tuple[list[Item], LineCounts]:
    """The last line that holds a full time: a collection may note its begin and its end."""
    times = [ts_ns for line in data.splitlines() if (ts_ns := date_in(line)) is not None]
    items: list[Item] = []
    if times:
        items.append(ToldTime(document.ts_ns, max(times), _evidence(document)))
    return items, _all_lines(data, [])


def _note(document: Document, data: bytes) -> tuple[list[Item], LineCounts]:
    """A version or a name: whose files these are, and of which kubelet."""
    return [], _all_lines(data, [])


_READERS = {
    "cgroup-files": _cgroups,
    "collected-at": _collected_at,
    "cpu-manager-state": _cpu_manager,
    "crictl": _crictl,
    "device-checkpoint": _checkpoint,
    "events": _events,
    "kernel-log": _kernel_log,
    "kubelet-config": _config,
    "kubelet-configz": _configz,
    "kubelet-version": _note,
    "memory-manager-state": _memory_manager,
    "metrics": _metrics,
    "node": _node,
    "node-name": _note,
    "pod-list": _pod_list,
    "pod-manifest": _pod_list,
    "pod-resources": _pod_resources,
    "stats-summary": _stats,
}
