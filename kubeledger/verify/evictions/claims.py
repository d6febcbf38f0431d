"""What is said of one eviction, held against the pod's spec: grace period and message."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kubeledger.eviction.messages import (
    container_limit_message,
    empty_dir_message,
    pod_limit_message,
    pressure_message,
)
from kubeledger.eviction.observations import SignalObservation
from kubeledger.eviction.signals import RESOURCE_OF
from kubeledger.eviction.summary import (
    ContainerStats,
    FsStats,
    MemoryStats,
    PodReference,
    PodStats,
)
from kubeledger.eviction.thresholds import Threshold
from kubeledger.eviction.usage import storage_limit
from kubeledger.kube.pod import Pod
from kubeledger.kube.quantity import Quantity, QuantityError, value_of
from kubeledger.lifecycle.graceperiod import overridden_grace_s
from kubeledger.profile.resolve import KubeletProfile

__all__ = ["grace_periods", "limit_messages", "said_again", "used_by_containers"]

_CONTAINER = re.compile(
    r"Container (\S+) was using (\S+?),? (?:request is|which exceeds its request of) "
)
_POD = re.compile(r"Pod (\S+) was using (\S+?), request is ")


def grace_periods(profile: KubeletProfile, override_s: int, pod: Pod) -> tuple[int, ...]:
    """Seconds that an evicted pod's containers may be given, the likeliest first.

    The pod worker tells its own number; the runtime is told at least two seconds.
    """
    facts, own = profile.lifecycle, pod.spec.termination_grace_period_seconds
    given = override_s
    if facts.pod_worker_gives_grace:
        given = max(override_s or own or 0, 1)
    return given, overridden_grace_s(facts, override_s, own)


def used_by_containers(message: str) -> int | None:
    """What the containers used together that a message names; None where it names none."""
    used = [value_of(text) for _, text in _CONTAINER.findall(message)]
    return sum(used) if used else None


def said_again(
    message: str,
    pod: Pod,
    threshold: Threshold,
    seen: SignalObservation,
    profile: KubeletProfile,
) -> str:
    """The message that the kubelet composes of the usage that this one tells.

    Raises:
        QuantityError: an amount in it cannot be read.
    """
    memory = RESOURCE_OF[threshold.signal] == "memory"
    containers = tuple(
        ContainerStats(name, memory=MemoryStats(working_set_bytes=value_of(used)))
        if memory
        else ContainerStats(
            name, rootfs=FsStats(used_bytes=value_of(used)), logs=FsStats(used_bytes=0)
        )
        for name, used in _CONTAINER.findall(message)
    )
    whole = _POD.search(message)
    stats = PodStats(
        pod_ref=PodReference(uid=pod.metadata.uid),
        containers=containers,
        memory=MemoryStats(working_set_bytes=value_of(whole[2])) if whole else None,
    )
    return pressure_message(pod, stats, threshold, seen, profile.eviction).text


def limit_messages(pod: Pod, profile: KubeletProfile) -> Iterator[tuple[str, str, int]]:
    """(signal, message, limit) of every limit of local storage that the pod may exceed."""
    for volume in pod.spec.volumes or ():
        size = volume.empty_dir.size_limit if volume.empty_dir is not None else None
        if size is not None and (allowed := _quantity(size)) is not None:
            yield "emptydirfs.limit", empty_dir_message(volume.name or "", allowed), allowed.value()
    whole = storage_limit(pod, profile)
    if whole is not None:
        yield "ephemeralpodfs.limit", pod_limit_message(whole), whole.value()
    for container in pod.spec.containers or ():
        limit = container.limits.get("ephemeral-storage")
        if limit is not None and (allowed := _quantity(limit)) is not None:
            message = container_limit_message(container.name or "", allowed)
            yield "ephemeralcontainerfs.limit", message, allowed.value()


def _quantity(text: str | int | float) -> Quantity | None:
    try:
        return Quantity.from_api(text)
    except QuantityError:
        return None
