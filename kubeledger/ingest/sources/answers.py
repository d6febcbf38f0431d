"""Answers of ``crictl`` and of the pod-resources API, as files hold them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from kubeledger.ingest.sources.items import RuntimeContainer, RuntimeImage
from kubeledger.kubelet.kube.containermanager import cpu_set_text
from kubeledger.kubelet.kube.statuses import objects_of
from kubeledger.model.bodies.devicemanager import (
    AllocatableResourcesListed,
    ContainerResources,
    ListedDevices,
    PodResourcesListed,
)
from kubeledger.model.bodies.resourcemanagers import MemoryBlock
from kubeledger.model.wire.catalogue import is_storable

# What ``crictl -o json`` and ``crictl inspect`` say: sizes of images, and whose an ID is.
#
# The runtime answers crictl as it answers the kubelet; crictl writes the answers of the CRI as
# protobuf's JSON, where 64-bit numbers are texts.

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
        isinstance(stats, list) and any("attributes" in each for each in objects_of(stats))
    )


def images_of(value: _Json) -> list[RuntimeImage]:
    """The images that an answer lists, by the tags that they have."""
    found = []
    for row in objects_of(value.get("images")):
        tags, size = row.get("repoTags"), _whole(row.get("size"))
        if isinstance(tags, list) and size is not None:
            names = tuple(tag for tag in tags if isinstance(tag, str))
            found.append(RuntimeImage(str(row.get("id")), names, size))
    return found


def containers_of(value: _Json) -> list[RuntimeContainer]:
    """The containers and sandboxes of pods that an answer shows."""
    return [found for row in _rows(value) if (found := _runtime_container(row)) is not None]


def _rows(value: _Json) -> Iterator[_Json]:
    for key in ("images", "containers", "items"):
        yield from objects_of(value.get(key))
    if isinstance(value.get("info"), dict) and isinstance(value.get("status"), dict):
        yield value["status"]


def _looks_like_one(row: _Json) -> bool:
    if "repoTags" in row or "repoDigests" in row:
        return "size" in row
    state = row.get("state")
    return isinstance(state, str) and state.startswith(("CONTAINER_", "SANDBOX_"))


def _runtime_container(row: _Json) -> RuntimeContainer | None:
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


# Answers of the pod-resources API, in protobuf's JSON, as ``grpcurl`` prints them, too.

_ALLOCATABLE = frozenset({"cpuIds", "devices", "memory"})


class _NumaNode(msgspec.Struct):
    ID: int = 0


class _Topology(msgspec.Struct):
    nodes: list[_NumaNode] = []


class _Devices(msgspec.Struct, rename="camel"):
    resource_name: str = ""
    device_ids: list[str] = []
    topology: _Topology | None = None


class _Memory(msgspec.Struct, rename="camel"):
    memory_type: str = ""
    size: int = 0
    topology: _Topology | None = None


class _ClaimResource(msgspec.Struct, rename="camel"):
    driver_name: str = ""
    pool_name: str = ""
    device_name: str = ""


class _DynamicResource(msgspec.Struct, rename="camel"):
    claim_name: str = ""
    claim_namespace: str = ""
    claim_resources: list[_ClaimResource] = []


class _Container(msgspec.Struct, rename="camel"):
    name: str = ""
    devices: list[_Devices] = []
    cpu_ids: list[int] = []
    memory: list[_Memory] = []
    dynamic_resources: list[_DynamicResource] = []


class _Pod(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    containers: list[_Container] = []


class _List(msgspec.Struct, rename="camel"):
    pod_resources: list[_Pod] = []


class _Allocatable(msgspec.Struct, rename="camel"):
    devices: list[_Devices] = []
    cpu_ids: list[int] = []
    memory: list[_Memory] = []


def is_pod_resources(document: dict[str, Any]) -> bool:
    """Whether a JSON object is one of the API's answers."""
    if isinstance(document.get("podResources"), list):
        return True
    lists = all(isinstance(value, list) for value in document.values())
    return bool(document) and document.keys() <= _ALLOCATABLE and lists


def read_pod_resources(data: dict[str, Any]) -> PodResourcesListed | AllocatableResourcesListed:
    """The record of an answer; it has no UIDs.

    Raises:
        ValueError: a field is of another type.
    """
    if "podResources" not in data:
        answer = msgspec.convert(data, _Allocatable, strict=False)
        return AllocatableResourcesListed(
            devices=_devices(answer.devices),
            cpu_set=cpu_set_text(answer.cpu_ids),
            memory=_blocks(answer.memory),
        )
    pods = msgspec.convert(data, _List, strict=False).pod_resources
    listed = (_container(pod, container) for pod in pods for container in pod.containers)
    held = [each for each in listed if each.devices or each.cpu_set or each.memory or each.claims]
    held.sort(key=lambda each: (each.namespace, each.pod, each.container))
    return PodResourcesListed(containers=tuple(held))


def _container(pod: _Pod, container: _Container) -> ContainerResources:
    return ContainerResources(
        namespace=pod.namespace,
        pod=pod.name,
        pod_uid=None,
        container=container.name,
        devices=_devices(container.devices),
        cpu_set=cpu_set_text(container.cpu_ids),
        memory=_blocks(container.memory),
        claims={
            f"{claim.claim_namespace}/{claim.claim_name}": tuple(
                sorted(
                    f"{each.driver_name}/{each.pool_name}/{each.device_name}"
                    for each in claim.claim_resources
                )
            )
            for claim in container.dynamic_resources
        },
    )


def _devices(entries: Iterable[_Devices]) -> tuple[ListedDevices, ...]:
    """One entry a device or several, in any order, as the kubelet gives them."""
    found: dict[tuple[str, tuple[int, ...]], set[str]] = {}
    for entry in entries:
        found.setdefault((entry.resource_name, _nodes(entry.topology)), set()).update(
            entry.device_ids
        )
    return tuple(
        ListedDevices(resource=resource, numa_nodes=nodes, device_ids=tuple(sorted(ids)))
        for (resource, nodes), ids in sorted(found.items())
    )


def _blocks(entries: Iterable[_Memory]) -> tuple[MemoryBlock, ...]:
    blocks = [
        MemoryBlock(
            numa_nodes=_nodes(entry.topology), type=entry.memory_type, size_bytes=entry.size
        )
        for entry in entries
    ]
    return tuple(sorted(blocks, key=lambda block: (block.type, block.numa_nodes)))


def _nodes(topology: _Topology | None) -> tuple[int, ...]:
    return tuple(sorted({node.ID for node in topology.nodes})) if topology is not None else ()
