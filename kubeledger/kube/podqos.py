"""The QoS class of a pod, where its requests decide who is preempted first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from kubeledger.kube.pod import Pod, QuantityMap, ResourceRequirements
from kubeledger.kube.requests import nanos_of

__all__ = ["QOSClass", "pod_qos"]

QOSClass = Literal["BestEffort", "Burstable", "Guaranteed"]

_COMPUTE: Final = ("cpu", "memory")
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
    containers = [*(spec.containers or ()), *(spec.init_containers or ())]
    return _class_of([c.resources or _NOTHING for c in containers], every_one=True)


def _class_of(parts: list[ResourceRequirements], *, every_one: bool) -> QOSClass:
    requests = _positive(part.requests for part in parts)
    limits = _positive(part.limits for part in parts)
    if not requests and not limits:
        return "BestEffort"
    if requests != limits:
        return "Burstable"
    if every_one and not all(_limits_both(part.limits) for part in parts):
        return "Burstable"
    return "Guaranteed"


def _positive(lists: Iterable[QuantityMap | None]) -> dict[str, int]:
    """Sums of cpu and memory, in nanos; without those that are zero everywhere."""
    sums: dict[str, int] = {}
    for quantities in lists:
        if quantities:
            for name in _COMPUTE:
                if name in quantities and (nanos := nanos_of(quantities[name])) > 0:
                    sums[name] = sums.get(name, 0) + nanos
    return sums


def _limits_both(limits: QuantityMap | None) -> bool:
    return limits is not None and all(
        name in limits and nanos_of(limits[name]) > 0 for name in _COMPUTE
    )
