"""How much a pod counts: its QoS class, whether it is critical, whom it may preempt.

Source: v1.20.2 pkg/kubelet/types/pod_update.go, under the names there
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kubeledger.kubelet.kube.pod import Container, Pod
from kubeledger.kubelet.kube.resources import NANOS
from kubeledger.model.bodies.cgroups import QOSClass

# The QoS class of a pod: which of its containers ask for what.
#
# Only cpu and memory count, and only amounts above zero::
#
#     nothing asked for or limited                                  BestEffort
#     every container limits both, and what is requested is limited
#     to the same amount over the pod                               Guaranteed
#     everything else                                               Burstable


def pod_qos(pod: Pod, *, status_wins: bool, pod_level: bool) -> QOSClass:
    """The class the kubelet puts a pod in.

    Init containers count like any. Nothing is defaulted here, so limits without requests are
    Burstable.

    Args:
        status_wins: a class in the pod's status is taken as it stands.
        pod_level: resources of the pod as a whole, if there, hide those of its containers.

    Raises:
        BadInputError: something in the pod cannot be asked for.

    Source: v1.36.2 pkg/apis/core/v1/helper/qos/qos.go GetPodQOS, ComputePodQOS
    Differs: stops at the first container that settles the class. v1.20.2 is the same without
        the two arguments.
    """
    if status_wins and pod.status is not None and pod.status.qos_class:
        return pod.status.qos_class
    spec = pod.spec
    if pod_level and spec.resources is not None:
        # No limits at all leave the pod a candidate here; the last comparison settles it.
        whole = Container(resources=spec.resources)
        return _class_of((whole,), limits_needed=bool(spec.resources.limits))
    containers = spec.containers or ()
    if spec.init_containers:
        containers += spec.init_containers
    return _class_of(containers, limits_needed=True)


def _class_of(containers: Iterable[Container], *, limits_needed: bool) -> QOSClass:
    """The class of what runs in a pod.

    Args:
        limits_needed: whether limits are looked for. Without any at the pod level none
            is missing; the comparison of the sums then decides.
    """
    asked_cpu = asked_memory = limited_cpu = limited_memory = 0
    guaranteed, nanos = True, NANOS
    for container in containers:
        part = container.resources
        cpu = memory = 0
        if part is not None:
            if limits := part.limits:
                cpu = nanos[limits["cpu"]] if "cpu" in limits else 0
                memory = nanos[limits["memory"]] if "memory" in limits else 0
                limited_cpu += cpu
                limited_memory += memory
            if requests := part.requests:
                if "cpu" in requests:
                    asked_cpu += nanos[requests["cpu"]]
                if "memory" in requests:
                    asked_memory += nanos[requests["memory"]]
        if limits_needed and not (cpu and memory):
            guaranteed = False
        if not guaranteed and (asked_cpu or asked_memory or limited_cpu or limited_memory):
            return "Burstable"
    if not (asked_cpu or asked_memory or limited_cpu or limited_memory):
        return "BestEffort"
    equal = asked_cpu == limited_cpu and asked_memory == limited_memory
    return "Guaranteed" if guaranteed and equal else "Burstable"


# Which pods are critical, and who may preempt whom (pkg/kubelet/types/pod_update.go).

CONFIG_SOURCE: Final = "kubernetes.io/config.source"
CONFIG_MIRROR: Final = "kubernetes.io/config.mirror"
API_SERVER_SOURCE: Final = "api"
SYSTEM_NODE_CRITICAL: Final = "system-node-critical"
SYSTEM_CRITICAL_PRIORITY: Final = 2_000_000_000
"""Twice the highest priority that users may define."""


def is_static_pod(pod: Pod) -> bool:
    """Whether the pod came from a file or a URL, so from any source but the API server."""
    annotations = pod.metadata.annotations
    if not annotations:
        return False
    return annotations.get(CONFIG_SOURCE, API_SERVER_SOURCE) != API_SERVER_SOURCE


def is_critical_pod(pod: Pod) -> bool:
    """Whether the pod is static, the mirror of a static one, or of system-critical priority."""
    priority = pod.spec.priority
    if priority is not None and priority >= SYSTEM_CRITICAL_PRIORITY:
        return True
    annotations = pod.metadata.annotations
    if not annotations:
        return False
    return CONFIG_MIRROR in annotations or is_static_pod(pod)


def preemptable(preemptor: Pod, preemptee: Pod) -> bool:
    """Whether ``preemptee`` may be killed to let ``preemptor`` in.

    A critical pod may preempt any that is not, whatever their priorities. Between two of the
    same kind both need a priority, and the preemptor's must be higher: a static pod without
    priority is safe from all.
    """
    if is_critical_pod(preemptor) and not is_critical_pod(preemptee):
        return True
    ours, theirs = preemptor.spec.priority, preemptee.spec.priority
    return ours is not None and theirs is not None and ours > theirs


def is_node_critical_pod(pod: Pod) -> bool:
    """Critical, and of the priority class for what a node cannot do without.

    Source: v1.36.2 pkg/kubelet/types/pod_update.go IsNodeCriticalPod
    """
    return pod.spec.priority_class_name == SYSTEM_NODE_CRITICAL and is_critical_pod(pod)
