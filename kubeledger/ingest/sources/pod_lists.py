"""Lists of pods as the kubelet and the API server answer, and as files hold them.

A node's pods are listed again and again, and few have changed: each is read once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from kubeledger.ingest.sources.detect import load_documents
from kubeledger.ingest.sources.plain import is_of_api, note, object_of, plain
from kubeledger.ingest.sources.shapes import sound_object
from kubeledger.kubelet.kube.statuses import objects_of

ListedBy = Literal["kubelet", "api", "manifest"]

_CONFIG_SOURCE = "kubernetes.io/config.source"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class PodsOfFile(NamedTuple):
    """The pods of a file.

    Attributes:
        listed_by: who listed them.
        complete: the list is whole.
    """

    pods: list[dict[str, Any]]
    listed_by: ListedBy
    complete: bool


class _Envelope(msgspec.Struct):
    """A list whose pods are not read yet."""

    items: list[msgspec.Raw]
    kind: str | None = None
    metadata: dict[str, Any] | None = None
    object: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _Known(NamedTuple):
    """A pod that was read.

    Attributes:
        pod: None for what is none, or is not sound.
        is_pod: it is one, sound or not.
        replaced, flaws: what of it had to be replaced, and what is rejected or unknown.
    """

    pod: dict[str, Any] | None
    is_pod: bool
    replaced: list[str]
    flaws: list[str]


_ENVELOPE = msgspec.json.Decoder(_Envelope)
_VALUE: msgspec.json.Decoder[Any] = msgspec.json.Decoder()


class Room:
    """How much may still be held in memory.

    Attributes:
        left_bytes: so much.
    """

    def __init__(self, left_bytes: int) -> None:
        self.left_bytes = left_bytes

    def take(self, size_bytes: int) -> bool:
        """Take some of it; False where there is not so much."""
        if size_bytes > self.left_bytes:
            return False
        self.left_bytes -= size_bytes
        return True


class PodLists:
    """Reads lists of pods; those that are held are not read again."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._known: dict[bytes, _Known] = {}

    def read(self, data: bytes, flaws: list[str]) -> tuple[PodsOfFile, int]:
        """The pods of a file, and how many bytes of it are those of pods that are not held.

        Args:
            flaws: what was rejected or replaced is appended, in words.

        Raises:
            ValueError: it is neither JSON nor YAML.
        """
        return self._listed(data, flaws) or (pods_of(values_of(data, flaws), flaws), len(data))

    def _listed(self, data: bytes, flaws: list[str]) -> tuple[PodsOfFile, int] | None:
        """The same of a list in JSON; None for what is another thing, or damaged."""
        try:
            envelope = _ENVELOPE.decode(data.removeprefix(_BYTE_ORDER_MARK))
            if envelope.object is not msgspec.UNSET:
                return None
            raw_pods = [bytes(raw) for raw in envelope.items]
            found = [self._pod(raw, number) for number, raw in enumerate(raw_pods, 1)]
        except (msgspec.DecodeError, RecursionError, ValueError):
            return None
        replaced: list[str] = []
        first = {"kind": envelope.kind, "metadata": plain(envelope.metadata, replaced), "items": []}
        for known in found:
            for words in known.replaced:
                note(replaced, words)
        flaws += replaced
        for known in found:
            flaws += known.flaws
        pods = [known.pod for known in found if known.pod is not None]
        rest_bytes = sum(len(raw) for raw in raw_pods if raw not in self._known)
        return _of_list(first, pods, sum(known.is_pod for known in found)), rest_bytes

    def _pod(self, raw: bytes, number: int) -> _Known:
        known = self._known.get(raw)
        if known is None:
            known = _read(raw, number)
            # Of one without a name its flaws say which it is of its list.
            if not (known.flaws and known.pod is None) and self._room.take(len(raw)):
                self._known[raw] = known
        return known


class News:
    """Which pods of a list were not in the one before: one that is read once is one object."""

    def __init__(self) -> None:
        self._last: dict[int, dict[str, Any]] = {}

    def of(self, pods: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Those that changed, that nobody holds, or that could not be read to the end."""
        last, self._last = self._last, {}
        for pod in pods:
            if id(pod) not in last:
                yield pod
            self._last[id(pod)] = pod


def _read(raw: bytes, number: int) -> _Known:
    replaced: list[str] = []
    flaws: list[str] = []
    pod = plain(_VALUE.decode(raw), replaced)
    if not isinstance(pod, dict) or pod.get("kind") not in (None, "Pod"):
        return _Known(None, False, replaced, flaws)
    is_sound = sound_object("pod", number, pod, flaws)
    return _Known(pod if is_sound else None, True, replaced, flaws)


def values_of(data: bytes, flaws: list[str]) -> list[Any]:
    """The values of a JSON or YAML file, made plain.

    Raises:
        ValueError: it is neither.
    """
    text = data.removeprefix(_BYTE_ORDER_MARK).lstrip()
    if text[:1] in (b"{", b"["):
        documents = load_documents(data)
    else:
        from kubeledger.ingest.sources.yaml_text import load_yaml  # few files need it

        documents = load_yaml(data)
    return [plain(value, flaws) for value in documents]


def objects_in(documents: list[Any]) -> list[dict[str, Any]]:
    """API objects of a file's values, lists and watch envelopes taken apart."""
    objects: list[dict[str, Any]] = []
    for value in documents:
        for entry in value if isinstance(value, list) else (value,):
            if not isinstance(entry, dict):
                continue
            inner = entry["object"] if isinstance(entry.get("object"), dict) else entry
            if _is_list(inner):
                objects += objects_of(inner.get("items"))
            else:
                objects.append(inner)
    return objects


def _is_list(document: dict[str, Any]) -> bool:
    """A list of API objects; an empty one of Go's has ``"items": null``."""
    return isinstance(document.get("items"), list) or (
        "items" in document and str(document.get("kind", "")).endswith("List")
    )


def pods_of(documents: list[Any], flaws: list[str]) -> PodsOfFile:
    """Pods of a file's values, who listed them, and whether the list is whole."""
    found = [pod for pod in objects_in(documents) if pod.get("kind") in (None, "Pod")]
    pods = [pod for n, pod in enumerate(found, 1) if sound_object("pod", n, pod, flaws)]
    return _of_list(object_of(documents[0] if documents else None), pods, len(found))


def _of_list(first: dict[str, Any], pods: list[dict[str, Any]], count: int) -> PodsOfFile:
    """What the first value of a file, and sound pods of so many, make a list of."""
    listed = _is_list(first)
    if not listed and not any(map(is_of_api, pods)):
        return PodsOfFile(pods, "manifest", False)
    # Of a pod that is not read nobody knows whether it is gone.
    complete = listed and len(pods) == count
    kubelet = any(
        (pod["metadata"].get("annotations") or {}).get(_CONFIG_SOURCE) == "api" for pod in pods
    )
    metadata = object_of(first.get("metadata"))
    # The kubelet answers with a PodList that has no resource version; an API server
    # gives one, and kubectl makes a List of its own.
    if listed and first.get("kind") == "PodList" and not metadata.get("resourceVersion"):
        kubelet = kubelet or "resourceVersion" not in metadata
    nodes = {(pod.get("spec") or {}).get("nodeName") for pod in pods}
    kubelet = kubelet and len(nodes - {None, ""}) < 2  # it knows its own pods only
    return PodsOfFile(pods, "kubelet" if kubelet else "api", complete)
