"""Which pods are critical, and who may preempt whom (pkg/kubelet/types/pod_update.go)."""

from __future__ import annotations

from typing import Final

from kubeledger.kubelet.kube.pod import Pod

CONFIG_SOURCE: Final = "kubernetes.io/config.source"
CONFIG_MIRROR: Final = "kubernetes.io/config.mirror"
API_SERVER_SOURCE: Final = "api"
SYSTEM_NODE_CRITICAL: Final = "system-node-critical"
SYSTEM_CRITICAL_PRIORITY: Final = 2_000_000_000
"""Twice the highest priority that users may define."""


def is_static_pod(pod: Pod) -> bool:
    """Whether the pod came from a file or a URL, so from any source but the API server.

    Source: v1.20.2 pkg/kubelet/types/pod_update.go IsStaticPod
    Differs: no.
    """
    annotations = pod.metadata.annotations
    if not annotations:
        return False
    return annotations.get(CONFIG_SOURCE, API_SERVER_SOURCE) != API_SERVER_SOURCE


def is_critical_pod(pod: Pod) -> bool:
    """Whether the pod is static, the mirror of a static one, or of system-critical priority.

    Source: v1.20.2 pkg/kubelet/types/pod_update.go IsCriticalPod
    Differs: no.
    """
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

    Source: v1.20.2 pkg/kubelet/types/pod_update.go Preemptable
    Differs: no.
    """
    if is_critical_pod(preemptor) and not is_critical_pod(preemptee):
        return True
    ours, theirs = preemptor.spec.priority, preemptee.spec.priority
    return ours is not None and theirs is not None and ours > theirs


def is_node_critical_pod(pod: Pod) -> bool:
    """Critical, and of the priority class for what a node cannot do without.

    Source: v1.36.2 pkg/kubelet/types/pod_update.go IsNodeCriticalPod
    Differs: no.
    """
    return pod.spec.priority_class_name == SYSTEM_NODE_CRITICAL and is_critical_pod(pod)
