"""What the kubelet says of an eviction: status, event, annotations, word for word."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from kubeledger.kubelet.eviction.ranking import memory_usage
from kubeledger.kubelet.eviction.signals import (
    RESOURCE_OF,
    ContainerStats,
    PodStats,
    SignalObservation,
    format_of,
    int64,
)
from kubeledger.kubelet.eviction.thresholds import Threshold, threshold_quantity
from kubeledger.kubelet.kube.gotexts import sprintf_without_arguments
from kubeledger.kubelet.kube.pod import Container, Pod
from kubeledger.kubelet.kube.quantity import ZERO, Format, Quantity, wrapped
from kubeledger.kubelet.kube.resources import ResourceList
from kubeledger.kubelet.profile.eviction import EvictionFacts

REASON = "Evicted"
"""Reason in the status of an evicted pod, of its event, and of a pod kept out by a condition."""

THRESHOLD_MET = "EvictionThresholdMet"


class Event(msgspec.Struct, frozen=True):
    """A Kubernetes event; that of a threshold is about the node."""

    reason: str
    message: str
    annotations: Mapping[str, str] = {}
    type: str = "Warning"


class EvictionMessage(msgspec.Struct, frozen=True):
    """Message of a status, and what its event is annotated with."""

    text: str
    annotations: Mapping[str, str] = {}


def pressure_message(
    pod: Pod,
    stats: PodStats | None,
    threshold: Threshold,
    seen: SignalObservation,
    facts: EvictionFacts,
) -> EvictionMessage:
    """What is said of a pod that is evicted because something is short.

    Source: v1.36.2 pkg/kubelet/eviction/helpers.go evictionMessage; v1.24.0, v1.31.0
    """
    resource = RESOURCE_OF[threshold.signal]
    text = f"The node was low on resource: {resource}. "
    if facts.eviction_message_names_threshold:
        quantity = threshold_quantity(threshold.value, seen.capacity)
        available = Quantity.of(seen.available, format_of(resource))
        text += f"Threshold quantity: {quantity}, available: {available}. "
    if stats is None:
        return EvictionMessage(text)
    annotations: dict[str, str] = {}
    if facts.message_names_pod_request and resource == "memory":
        request = _pod_level_request(pod)
        if request is not None and stats.memory is not None:
            usage = str(Quantity.of(memory_usage(stats), Format.BINARY_SI))
            text += (
                f"Pod {pod.metadata.name or ''} was using {usage}, request is {request}, "
                f"has larger consumption of {resource}. "
            )
            annotations["offending_pod"] = pod.metadata.name or ""
            annotations["offending_pod_usage"] = usage
    names: list[str] = []
    usages: list[str] = []
    for name, usage, requested in _offenders(pod, stats, resource, facts):
        if facts.eviction_message_names_threshold:
            text += (
                f"Container {name} was using {usage}, request is {requested}, "
                f"has larger consumption of {resource}. "
            )
        else:
            text += (
                f"Container {name} was using {usage}, which exceeds its request of {requested}. "
            )
        names.append(name)
        usages.append(usage)
    annotations["offending_containers"] = ",".join(names)
    annotations["offending_containers_usage"] = ",".join(usages)
    annotations["starved_resource"] = resource
    return EvictionMessage(text, annotations)


def container_limit_message(name: str, limit: Quantity) -> str:
    """A container that uses more local storage than its limit."""
    return f'Container {name} exceeded its local ephemeral storage limit "{limit}". '


def pod_limit_message(limit: Quantity) -> str:
    """A pod that uses more local storage than its containers may together."""
    return f"Pod ephemeral local storage usage exceeds the total limit of containers {limit}. "


def empty_dir_message(name: str, limit: Quantity) -> str:
    """An emptyDir volume over its size limit."""
    return f'Usage of EmptyDir volume "{name}" exceeds the limit "{limit}". '


def node_condition_message(conditions: tuple[str, ...]) -> str:
    """Why a pod is not admitted while the node has conditions."""
    return f"The node had condition: [{' '.join(conditions)}]. "


def attempting_to_reclaim(resource: str) -> Event:
    """The event about the node before anything is reclaimed."""
    return Event(THRESHOLD_MET, f"Attempting to reclaim {resource}")


def evicted_event(message: EvictionMessage, facts: EvictionFacts) -> Event:
    """The event about an evicted pod."""
    text = message.text
    if facts.event_is_a_format and "%" in text:
        text = sprintf_without_arguments(text)
    return Event(REASON, text, message.annotations)


def _pod_level_request(pod: Pod) -> Quantity | None:
    """What a pod requests of memory as a whole."""
    resources = pod.spec.resources
    requests: ResourceList = (resources.requests if resources is not None else None) or {}
    return Quantity.from_api(requests["memory"]) if "memory" in requests else None


def _offenders(
    pod: Pod, stats: PodStats, resource: str, facts: EvictionFacts
) -> Iterator[tuple[str, str, Quantity]]:
    """Name, usage and request of containers over their request, in the order of statistics."""
    if resource not in ("memory", "ephemeral-storage"):
        return
    containers: tuple[Container, ...] = pod.spec.containers or ()
    if facts.message_names_init_containers:
        containers += pod.spec.init_containers or ()
    for seen in stats.containers or ():
        usage = _usage(seen, resource)
        for container in containers:
            if (container.name or "") != (seen.name or ""):
                continue
            requests = container.requests
            if facts.message_reads_allocated_memory and resource == "memory":
                requests = _allocated(pod, container)
            request = Quantity.from_api(requests[resource]) if resource in requests else ZERO
            if usage is not None and usage > request:
                yield container.name or "", str(usage), request
            if facts.message_names_init_containers:
                break


def _allocated(pod: Pod, container: Container) -> ResourceList:
    """What a container's status says it has been given; without a status what it requests."""
    for each in (pod.status.container_statuses if pod.status is not None else None) or ():
        if each.name == container.name:
            return each.allocated_resources or {}
    return container.requests


def _usage(stats: ContainerStats, resource: str) -> Quantity | None:
    """What the message compares with the request; None where a part is not known."""
    if resource == "memory":
        memory = stats.memory
        if memory is None or memory.working_set_bytes is None:
            return None
        return Quantity.of(int64(memory.working_set_bytes), Format.BINARY_SI)
    rootfs, logs = stats.rootfs, stats.logs
    if rootfs is None or rootfs.used_bytes is None or logs is None or logs.used_bytes is None:
        return None
    return Quantity.of(wrapped(rootfs.used_bytes + logs.used_bytes), Format.BINARY_SI)
