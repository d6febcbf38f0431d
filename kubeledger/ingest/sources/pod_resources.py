"""Answers of the pod-resources API, in protobuf's JSON, as ``grpcurl`` prints them, too."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from kubeledger.kubelet.kube.cpuset import cpu_set_text
from kubeledger.model.bodies.memorymanager import MemoryBlock
from kubeledger.model.bodies.podresources import (
    AllocatableResourcesListed,
    ContainerResources,
    ListedDevices,
    PodResourcesListed,
)

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
