"""The QoS class of a pod, where its requests decide who is preempted first."""

from __future__ import annotations

from typing import Final, Literal

from kubeledger.kube.pod import Pod, QuantityMap, ResourceRequirements
from kubeledger.kube.requests import nanos_of

__all__ = ["QOSClass", "pod_qos"]

QOSClass = Literal["BestEffort", "Burstable", "Guaranteed"]

_NOTHING: Final = ResourceRequirements()
_CLASSES: Final[dict[str, QOSClass]] = {
    "BestEffort": "BestEffort",
    "Burstable": "Burstable",
    "Guaranteed": "Guaranteed",
}


def pod_qos(pod: Pod, *, status_wins: bool, pod_level: bool) -> QOSClass | None:
    """QoS class by cpu and memory alone.

    BestEffort asks for none of them and limits none. Guaranteed limits both in every container,
    init containers included, and its requests add up to its limits: nothing is defaulted here,
    so limits without requests are Burstable.

    Args:
        pod: the pod.
        status_wins: a class in the pod's status is taken as it stands.
        pod_level: resources of the pod as a whole, if there, hide those of its containers.

    Returns:
        None for a status that holds no class at all.

    Source: v1.36.2 pkg/apis/core/v1/helper/qos/qos.go GetPodQOS, ComputePodQOS
    Differs: no. v1.20.2 is the same without the two arguments.
    """
    if status_wins and pod.status is not None and pod.status.qos_class:
        return _CLASSES.get(pod.status.qos_class)
    spec = pod.spec
    if pod_level and spec.resources is not None:
        # No limits at all leave the pod a candidate here; the last comparison settles it.
        return _class_of([spec.resources], every_one=bool(spec.resources.limits))
    containers = spec.containers or ()
    if spec.init_containers:
        containers += spec.init_containers
    return _class_of([c.resources or _NOTHING for c in containers], every_one=True)


def _class_of(parts: list[ResourceRequirements], *, every_one: bool) -> QOSClass:
    """The class by the sums over all parts; Burstable is settled by the first that shows it."""
    asked_cpu = asked_memory = limited_cpu = limited_memory = 0
    guaranteed = True
    for part in parts:
        cpu, memory = _positive(part.limits)
        limited_cpu += cpu
        limited_memory += memory
        if every_one and not (cpu and memory):
            guaranteed = False
        cpu, memory = _positive(part.requests)
        asked_cpu += cpu
        asked_memory += memory
        if not guaranteed and (asked_cpu or asked_memory or limited_cpu or limited_memory):
            return "Burstable"
    if not (asked_cpu or asked_memory or limited_cpu or limited_memory):
        return "BestEffort"
    equal = asked_cpu == limited_cpu and asked_memory == limited_memory
    return "Guaranteed" if guaranteed and equal else "Burstable"


def _positive(quantities: QuantityMap | None) -> tuple[int, int]:
    """Nanos of cpu and memory; an amount below zero does not count."""
    if not quantities:
        return 0, 0
    cpu = nanos_of(quantities["cpu"]) if "cpu" in quantities else 0
    memory = nanos_of(quantities["memory"]) if "memory" in quantities else 0
    return (cpu, memory) if cpu >= 0 and memory >= 0 else (max(cpu, 0), max(memory, 0))
