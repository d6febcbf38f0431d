"""The QoS class of a pod, where its requests decide who is preempted first."""

from __future__ import annotations

from typing import Final, Literal

from kubeledger.kube.pod import Pod, QuantityMap, ResourceRequirements
from kubeledger.kube.requests import nanos_of

__all__ = ["QOSClass", "pod_qos"]

QOSClass = Literal["BestEffort", "Burstable", "Guaranteed"]

_COMPUTE: Final = ("cpu", "memory")
_NOTHING: Final = ResourceRequirements()
_ZERO: Final = [0, 0]
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
    containers = [*(spec.containers or ()), *(spec.init_containers or ())]
    return _class_of([c.resources or _NOTHING for c in containers], every_one=True)


def _class_of(parts: list[ResourceRequirements], *, every_one: bool) -> QOSClass:
    requests = [part.requests for part in parts if part.requests]
    limits = [part.limits for part in parts if part.limits]
    asked = _positive(requests)
    limited = _positive(limits)
    if not any(asked) and not any(limited):
        return "BestEffort"
    if asked != limited:
        return "Burstable"
    if every_one and (len(limits) < len(parts) or not all(map(_limits_both, limits))):
        return "Burstable"
    return "Guaranteed"


def _positive(lists: list[QuantityMap]) -> list[int]:
    """Sums of cpu and memory, in nanos; without amounts that are not above zero."""
    if not lists:
        return _ZERO
    return [
        sum([a for m in lists if name in m and (a := nanos_of(m[name])) > 0]) for name in _COMPUTE
    ]


def _limits_both(limits: QuantityMap) -> bool:
    return all(name in limits and nanos_of(limits[name]) > 0 for name in _COMPUTE)
