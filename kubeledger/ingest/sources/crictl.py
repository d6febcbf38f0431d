"""What ``crictl -o json`` and ``crictl inspect`` say: sizes of images, and whose an ID is.

The runtime answers crictl as it answers the kubelet; crictl writes the answers of the CRI as
protobuf's JSON, where 64-bit numbers are texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubeledger.ingest.sources.items import RuntimeContainer, RuntimeImage
from kubeledger.model.wire.instants import is_storable

NOT_USED = (
    "crictl's usage of image filesystem or containers: decisions rest on /stats/summary, which "
    "also has capacity and available bytes"
)
"""Why an answer of ``crictl imagefsinfo`` or ``stats`` is not read."""

_Json = dict[str, Any]
_UID, _NAMESPACE = "io.kubernetes.pod.uid", "io.kubernetes.pod.namespace"
_POD, _CONTAINER = "io.kubernetes.pod.name", "io.kubernetes.container.name"


def is_crictl(value: _Json) -> bool:
    """An answer of images, containers, sandboxes, or one of the latter inspected."""
    return any(map(_looks_like_one, _rows(value)))


def is_usage(value: _Json) -> bool:
    """An answer of ``crictl imagefsinfo``, ``stats`` or ``statsp``."""
    status, stats = value.get("status"), value.get("stats")
    return (isinstance(status, dict) and bool({"imageFilesystems", "fsId"} & status.keys())) or (
        isinstance(stats, list) and any("attributes" in each for each in _objects(stats))
    )


def images_of(value: _Json) -> list[RuntimeImage]:
    """The images that an answer lists, by the tags that they have."""
    found = []
    for row in _objects(value.get("images")):
        tags, size = row.get("repoTags"), _whole(row.get("size"))
        if isinstance(tags, list) and size is not None:
            names = tuple(tag for tag in tags if isinstance(tag, str))
            found.append(RuntimeImage(str(row.get("id")), names, size))
    return found


def containers_of(value: _Json) -> list[RuntimeContainer]:
    """The containers and sandboxes of pods that an answer shows."""
    return [found for row in _rows(value) if (found := _container(row)) is not None]


def _rows(value: _Json) -> Iterator[_Json]:
    for key in ("images", "containers", "items"):
        yield from _objects(value.get(key))
    if isinstance(value.get("info"), dict) and isinstance(value.get("status"), dict):
        yield value["status"]


def _looks_like_one(row: _Json) -> bool:
    if "repoTags" in row or "repoDigests" in row:
        return "size" in row
    state = row.get("state")
    return isinstance(state, str) and state.startswith(("CONTAINER_", "SANDBOX_"))


def _container(row: _Json) -> RuntimeContainer | None:
    labels, metadata = row.get("labels"), row.get("metadata")
    if not isinstance(labels, dict) or not isinstance(metadata, dict):
        return None
    texts = [row.get("id"), *(labels.get(key) for key in (_UID, _NAMESPACE, _POD))]
    if not all(isinstance(text, str) and text for text in texts):
        return None
    container_id, uid, namespace, pod = map(str, texts)
    container = labels.get(_CONTAINER)
    is_sandbox = str(row.get("state")).startswith("SANDBOX_")
    if not is_sandbox and not container:
        return None
    created_ns = _whole(row.get("createdAt"))
    return RuntimeContainer(
        container_id,
        uid,
        namespace,
        pod,
        None if is_sandbox else str(container),
        created_ns if created_ns is not None and is_storable(created_ns) else None,
    )


def _whole(value: Any) -> int | None:  # noqa: ANN401 # any JSON value
    """A number that may be written as a text; None for any other value, and for 0."""
    try:
        number = int(value) if isinstance(value, int | str) else 0
    except ValueError:
        return None
    return number if 0 < number < 1 << 63 else None


def _objects(value: Any) -> list[_Json]:  # noqa: ANN401 # any JSON value
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []
