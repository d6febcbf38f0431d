"""What the kubelet asks for, level by level, from a pod or a node and its settings.

These decisions have no choice in them: the kubelet gives the same values for the same
input every time (it walks maps, but only to add up).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kubeledger.kubelet.cgroups.container_config import (
    ContainerConfig,
    container_config,
    exclusive_containers,
)
from kubeledger.kubelet.cgroups.node_config import (
    QOSConfig,
    QOSRequests,
    Quantities,
    ReservationSettings,
    kubepods_resources,
    node_reservation,
    over_reserved,
    qos_config,
    qos_requests,
    resource_config_for_node,
)
from kubeledger.kubelet.cgroups.paths import pod_cgroup, to_cgroupfs, to_systemd
from kubeledger.kubelet.cgroups.pod_config import (
    ResourceConfig,
    resource_config_for_pod,
)
from kubeledger.kubelet.cgroups.unified import (
    Files,
    UnifiedSettings,
    container_files,
    pod_files,
)
from kubeledger.kubelet.kube.pod import Pod, lists_of_pods
from kubeledger.kubelet.kube.podclass import pod_qos
from kubeledger.kubelet.kube.quantity import Quantity
from kubeledger.kubelet.kube.resources import check_asked
from kubeledger.kubelet.profile.cgroups import CgroupFacts
from kubeledger.model.bodies.cgroups import QOSClass


class PodDecision(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """All that is asked for on behalf of one pod; containers by name."""

    qos_class: QOSClass
    pod: ResourceConfig
    containers: dict[str, ContainerConfig]
    cgroupfs_path: str
    systemd_path: str


class PodUnifiedDecision(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """cgroup v2 files that are written for a pod and its containers."""

    pod: Files
    containers: dict[str, Files]


class QOSDecision(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Values of the QoS cgroups, and what they come from."""

    requests: QOSRequests
    config: QOSConfig


class NodeDecision(msgspec.Struct, frozen=True, kw_only=True):
    """What is reserved, what pods may use together, and of what more is reserved than there is."""

    reservation: dict[str, Quantity]
    kubepods: dict[str, Quantity]
    config: ResourceConfig
    over_reserved: list[str]


def decide_pod(
    pod: Pod,
    facts: CgroupFacts,
    *,
    enforce_cpu_limits: bool,
    cpu_period_us: int,
    memory_capacity: int,
    static_cpu_policy: bool = False,
    with_init_containers: bool = False,
) -> PodDecision:
    """Values for a pod's cgroup and its containers.

    Args:
        enforce_cpu_limits: setting cpuCFSQuota.
        cpu_period_us: setting cpuCFSQuotaPeriod.
        memory_capacity: bytes of the node, above 0.
        static_cpu_policy: setting cpuManagerPolicy is static.

    Raises:
        BadInputError: an amount of the pod cannot be asked for.
        CgroupNameError: the pod's UID cannot be part of a name.
    """
    check_asked(lists_of_pods((pod,)))
    qos_class = _qos_class(pod, facts)
    name = pod_cgroup(qos_class, pod.metadata.uid or "")
    exclusive: frozenset[str] = frozenset()
    if static_cpu_policy:
        exclusive = exclusive_containers(pod, qos_class, facts)
    containers = pod.spec.containers or ()
    if with_init_containers:
        containers = (*containers, *(pod.spec.init_containers or ()))
    return PodDecision(
        qos_class=qos_class,
        pod=resource_config_for_pod(
            pod,
            qos_class,
            facts,
            enforce_cpu_limits=enforce_cpu_limits,
            cpu_period_us=cpu_period_us,
            exclusive_cpus=bool(exclusive),
        ),
        containers={
            container.name or "": container_config(
                pod,
                container,
                qos_class,
                facts,
                enforce_cpu_limits=enforce_cpu_limits,
                cpu_period_us=cpu_period_us,
                memory_capacity=memory_capacity,
                exclusive_cpus=(container.name or "") in exclusive,
            )
            for container in containers
        },
        cgroupfs_path=to_cgroupfs(name),
        systemd_path=to_systemd(name),
    )


def decide_pod_unified(
    pod: Pod, facts: CgroupFacts, settings: UnifiedSettings
) -> PodUnifiedDecision:
    """Cgroup v2 files for a pod and its containers.

    Raises:
        BadInputError: an amount of the pod cannot be asked for.
    """
    check_asked(lists_of_pods((pod,)))
    qos_class = _qos_class(pod, facts)
    return PodUnifiedDecision(
        pod=pod_files(pod, qos_class, facts, settings),
        containers={
            container.name or "": container_files(pod, container, qos_class, facts, settings)
            for container in pod.spec.containers or ()
        },
    )


def decide_qos(
    pods: Sequence[Pod],
    facts: CgroupFacts,
    *,
    allocatable_memory: int | None,
    memory_reserve_percent: int | None,
) -> QOSDecision:
    """Values for the QoS cgroups over the active pods.

    Raises:
        BadInputError: an amount of a pod cannot be asked for.
    """
    check_asked(lists_of_pods(pods))
    requests = qos_requests(pods, facts)
    config = qos_config(
        requests,
        allocatable_memory=allocatable_memory,
        memory_reserve_percent=memory_reserve_percent,
    )
    return QOSDecision(
        requests=requests,
        config=config,
    )


def _qos_class(pod: Pod, facts: CgroupFacts) -> QOSClass:
    return pod_qos(
        pod, status_wins=facts.qos_class_from_status, pod_level=facts.pod_level_resources
    )


def decide_node(
    capacity: Quantities, settings: ReservationSettings, facts: CgroupFacts
) -> NodeDecision:
    """Reservation and the cgroup of all pods.

    Raises:
        EvictionThresholdError: a threshold is refused.
    """
    reservation = node_reservation(capacity, settings, facts)
    kubepods = kubepods_resources(capacity, settings)
    return NodeDecision(
        reservation=reservation,
        kubepods=kubepods,
        config=resource_config_for_node(kubepods),
        over_reserved=over_reserved(capacity, reservation),
    )
