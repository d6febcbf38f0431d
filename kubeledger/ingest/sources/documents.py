"""Files that are read whole: API objects, checkpoints, snapshots of metrics and cgroups."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any

import msgspec

from kubeledger.ingest.sources.answers import containers_of, images_of, read_pod_resources
from kubeledger.ingest.sources.detect import load_documents
from kubeledger.ingest.sources.items import (
    ApiEvent,
    CgroupFiles,
    Checkpoint,
    CollectedAt,
    CpuManagerState,
    DraManagerState,
    FirstEvent,
    ImageManagerRecord,
    Item,
    KernelReports,
    KubeletConfigFile,
    KubeletCounters,
    MemoryManagerState,
    NodeObject,
    ObservedGap,
    PodList,
    PodResources,
    PodsState,
    ProbeCounters,
    RuntimeObjects,
    StatsSummary,
)
from kubeledger.ingest.sources.kernel_log import KernelLogReader
from kubeledger.ingest.sources.plain import normal_message, plain
from kubeledger.ingest.sources.pod_lists import PodLists, PodsOfFile, Room, objects_in, values_of
from kubeledger.ingest.sources.shapes import ApiReason, sound_objects
from kubeledger.ingest.sources.streams import SourceFile
from kubeledger.ingest.sources.times import date_in, first_time
from kubeledger.kubelet.cgroups.paths import below_controller
from kubeledger.model.errors import BadInputError
from kubeledger.model.patterns import regex
from kubeledger.model.record import Evidence

_Content = tuple[list[tuple[Any, ...]], "LineCounts"]
"""Of each item its values without time and evidence; where the lines went."""

HELD_BYTES_MAX = 16 << 20
"""Bytes of documents whose parsed content is held in memory; what is beyond is read again."""

_CGROUP_LINE = regex(r"(?P<path>\S+)/(?P<file>[\w.-]+)[ \t:=]+(?P<value>.*)")
_PROBE = b"prober_probe_total"
_PROBE_LINE = regex(r"prober_probe_total\{(?P<labels>.*)\}\s+(?P<value>[0-9.eE+]+)")
_COUNTED = regex(
    r"(?P<name>kubelet_(?:evictions|preemptions|image_garbage_collected_total))(?:\{.*\})?"
    r"\s+(?P<value>[0-9.eE+]+)"
)
_LABEL = regex(r'(\w+)="((?:[^"\\]|\\.)*)"')


class LineCounts(msgspec.Struct):
    """Where the lines of a document went.

    Attributes:
        unknown: those not understood.
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
        digest: of its content; "" where it is not known.
    """

    source: SourceFile
    format: str
    ts_ns: int
    digest: str = ""


class DocumentContents:
    """What documents hold whatever their names and times, each read once within a bound.

    The node's name, the times, the context and the facts are all taken from the documents, and
    files of one content (a checkpoint in which nothing changed) are read as one. What is held
    is shared: nobody changes it.
    """

    def __init__(self, bytes_max: int = HELD_BYTES_MAX) -> None:
        self._room = Room(bytes_max)
        self._pods = PodLists(self._room)
        self._held: dict[tuple[str, str], _Content] = {}

    def of(self, document: Document) -> _Content:
        """The content of a document.

        Raises:
            BadInputError, ValueError: as ``read_document``.
        """
        key = (document.digest, document.format)
        found = self._held.get(key)
        if found is None:
            data = document.source.content()
            flaws: list[str] = []
            if document.format in _POD_LISTS:
                pods, size_bytes = self._pods.read(data, flaws)
                values: list[tuple[Any, ...]] = [(pods,)]
            else:
                values, size_bytes = _PARSERS[document.format][0](data, flaws), len(data)
            found = values, _all_lines(data, flaws)
            if document.digest and self._room.take(size_bytes):
                self._held[key] = found
        return found


def read_document(
    document: Document, contents: DocumentContents | None = None
) -> tuple[list[Item], LineCounts]:
    """The items of a document.

    Args:
        document: the file.
        contents: what was read before, and where this is held.

    Raises:
        BadInputError: the file changed since it was looked at, or is not what it seems.
    """
    try:
        if document.format in _LINE_READERS:
            return _LINE_READERS[document.format](document, document.source.content())
        found, counts = (contents or DocumentContents(0)).of(document)
    except ValueError as error:
        raise BadInputError(
            f"is not a valid {document.format}: {error}", file=document.source.name
        ) from None
    is_list, place = document.format in _POD_LISTS, _evidence(document)
    item: Callable[..., Item] = _listed if is_list else _PARSERS[document.format][1]
    items: list[Item] = [item(document.ts_ns, *values, place) for values in found]
    firsts = (_first_of(each) for each in items if isinstance(each, ApiEvent))
    items += [each for each in firsts if each is not None]
    items.sort(key=lambda each: each.ts_ns)
    return items, counts


def _all_lines(data: bytes, flaws: list[str]) -> LineCounts:
    lines = data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
    return LineCounts(lines, lines, flaws=flaws)


def _evidence(document: Document) -> Evidence:
    return Evidence(file=document.source.name)


def _line_evidence(document: Document, number: int, offset: int, text: str) -> Evidence:
    return Evidence(file=document.source.name, line=number, offset=offset, text=text[:4096])


def _listed(ts_ns: int, listed: PodsOfFile, evidence: Evidence) -> PodList:
    pods, listed_by, complete = listed
    spaces = frozenset(pod["metadata"].get("namespace") or "default" for pod in pods)
    of_api = spaces if listed_by == "api" else None
    return PodList(ts_ns, listed_by, pods, complete, evidence, of_api)


def _single(data: bytes, flaws: list[str]) -> list[tuple[Any, ...]]:
    value = plain(load_documents(data)[0], flaws)
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return [(value,)]


def _checkpoint(data: bytes, flaws: list[str]) -> list[tuple[Any, ...]]:
    return [(*_single(data, flaws)[0], data)]


def _nodes(data: bytes, flaws: list[str]) -> list[tuple[Any, ...]]:
    return [(node,) for node in sound_objects("node", objects_in(values_of(data, flaws)), flaws)]


def _configs(data: bytes, flaws: list[str]) -> list[tuple[Any, ...]]:
    return [(value,) for value in objects_in(values_of(data, flaws))]


def _image_manager_record(data: bytes, flaws: list[str]) -> list[tuple[Any, ...]]:
    from kubeledger.kubelet.imagepull.readings import read_image_manager_record  # few files need it

    return [(read_image_manager_record(data),)]


def _pod_resources(data: bytes, flaws: list[str]) -> list[tuple[Any, ...]]:
    return [(read_pod_resources(value),) for (value,) in _single(data, flaws)]


def _configz(data: bytes, flaws: list[str]) -> list[tuple[Any, ...]]:
    return [(value["kubeletconfig"],) for (value,) in _single(data, flaws)]


def _events(data: bytes, flaws: list[str]) -> list[tuple[Any, ...]]:
    events = sound_objects("event", objects_in(values_of(data, flaws)), flaws)
    for event in events:
        for key in ("message", "note"):
            # As in log lines: a trailing newline is no part of what is said.
            if isinstance(event.get(key), str):
                event[key] = normal_message(event[key])
    return [(ApiReason.read(event),) for event in events]


def _first_of(last: ApiEvent) -> FirstEvent | None:
    """When an event was first sent that was sent again since."""
    first_ns, last_ns = last.event.first_ns, last.event.last_ns
    if first_ns is None or last_ns is None or first_ns >= last_ns:
        return None
    return FirstEvent(first_ns, last.event, last.evidence)


def _event(ts_ns: int, event: ApiReason, evidence: Evidence) -> ApiEvent:
    return ApiEvent(ts_ns if event.last_ns is None else event.last_ns, event, evidence)


def _gaps(data: bytes, flaws: list[str]) -> list[tuple[Any, ...]]:
    return [(gap,) for gap in values_of(data, flaws) if isinstance(gap, dict)]


def _gap(ts_ns: int, gap: dict[str, Any], evidence: Evidence) -> ObservedGap:
    since_ns, until_ns = (first_time(gap.get(key)) for key in ("since", "until"))
    stream, reason = str(gap.get("gap", "")), str(gap.get("reason", ""))
    return ObservedGap(
        first_time(gap.get("at")) or ts_ns, stream, reason, since_ns, until_ns, evidence
    )


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
        found = _cgroup_value(text)
        if found is None:
            if not text.strip() or text.startswith("#"):
                counts.noise += 1
            else:
                counts.unknown.append(_line_evidence(document, number, offset, text))
            continue
        counts.understood += 1
        path, file, value = found
        last = path, file
        values.setdefault(path, {})[file] = value
        evidence.setdefault(path, []).append(_line_evidence(document, number, offset, text))
    lines = {path: tuple(places) for path, places in evidence.items()}
    open_end = None if data.endswith(b"\n") else last
    return [CgroupFiles(document.ts_ns, values, lines, open_end)], counts


@lru_cache(1 << 14)  # of the lines of a snapshot most stand in the next one, too
def _cgroup_value(text: str) -> tuple[str, str, str] | None:
    """Path below the controller, file and value of a line; None when it is none of a cgroup's."""
    match = _CGROUP_LINE.match(text)
    if match is None:
        return None
    return below_controller(match["path"]), match["file"], match["value"].strip()


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
    cut = data[data.rfind(b"\n") + 1 :][: len(_PROBE)]
    if totals and cut and _PROBE.startswith(cut):
        *of_last, _ = next(reversed(totals))  # what the last one counted is cut with the file
        totals = {key: total for key, total in totals.items() if [*key[:-1]] != of_last}
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
    texts = data.decode("utf-8", "replace").split("\n")
    for number, (line, text) in enumerate(zip(lines, texts, strict=False), 1):
        yield number, offset, text.rstrip("\r")
        offset += len(line) + 1


def _kernel_log(document: Document, data: bytes) -> tuple[list[Item], LineCounts]:
    reader = KernelLogReader(document.source.name)
    reader.read(_lines(data))
    found = KernelReports(document.ts_ns, reader.reports, reader.boots, _evidence(document))
    return [found], LineCounts(reader.lines, reader.understood, reader.lines - reader.understood)


def _crictl(data: bytes, flaws: list[str]) -> list[tuple[Any, ...]]:
    values = [value for value in values_of(data, flaws) if isinstance(value, dict)]
    images = [image for value in values for image in images_of(value)]
    containers = [each for value in values for each in containers_of(value)]
    return [(images, containers)]


def _collected_at(data: bytes, flaws: list[str]) -> list[tuple[Any, ...]]:
    """The last line that holds a full time: a collection may note its begin and its end."""
    times = [ts_ns for line in data.splitlines() if (ts_ns := date_in(line)) is not None]
    return [(max(times),)] if times else []


def _note(data: bytes, flaws: list[str]) -> list[tuple[Any, ...]]:
    """No items: a version or a name says whose these files are, and of which kubelet."""
    return []


_PARSERS: dict[
    str, tuple[Callable[[bytes, list[str]], list[tuple[Any, ...]]], Callable[..., Item]]
] = {
    "collected-at": (_collected_at, CollectedAt),
    "cpu-manager-state": (_single, CpuManagerState),
    "crictl": (_crictl, RuntimeObjects),
    "device-checkpoint": (_checkpoint, Checkpoint),
    "dra-manager-state": (_single, DraManagerState),
    "events": (_events, _event),
    "gaps": (_gaps, _gap),
    "image-manager-record": (_image_manager_record, ImageManagerRecord),
    "kubelet-config": (_configs, KubeletConfigFile),
    "kubelet-configz": (_configz, partial(KubeletConfigFile, served=True)),
    "kubelet-version": (_note, CollectedAt),
    "memory-manager-state": (_single, MemoryManagerState),
    "node": (_nodes, NodeObject),
    "node-name": (_note, CollectedAt),
    "pod-resources": (_pod_resources, PodResources),
    "pods-state": (_single, PodsState),
    "stats-summary": (_single, StatsSummary),
}
"""Format -> what parses it and takes down what was rejected or replaced, and its kind of item."""

_POD_LISTS = ("pod-list", "pod-manifest")

_LINE_READERS = {"cgroup-files": _cgroups, "kernel-log": _kernel_log, "metrics": _metrics}
"""Formats whose items name the lines that they stand in."""
