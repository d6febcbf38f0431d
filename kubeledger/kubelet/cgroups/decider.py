"""What the kubelet asks for, level by level, from a pod or a node and its settings.

These decisions have no choice in them: the kubelet gives the same values for the same
input every time (it walks maps, but only to add up).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

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
    hard_eviction_reservation,
    kubepods_resources,
    node_reservation,
    over_reserved,
    qos_config,
    qos_requests,
    resource_config_for_node,
)
from kubeledger.kubelet.cgroups.paths import pod_cgroup, to_cgroupfs, to_systemd
from kubeledger.kubelet.cgroups.pod_config import (
    MIN_SHARES,
    Path,
    ResourceConfig,
    resource_config_for_pod,
    shares_reason,
)
from kubeledger.kubelet.cgroups.unified import (
    Files,
    UnifiedSettings,
    container_files,
    pod_files,
    written,
)
from kubeledger.kubelet.kube.pod import Pod, lists_of_pods
from kubeledger.kubelet.kube.podclass import pod_qos
from kubeledger.kubelet.kube.quantity import ZERO, Quantity
from kubeledger.kubelet.kube.resources import HUGE_PAGES, NANOS, check_asked
from kubeledger.kubelet.profile.cgroups import CgroupFacts
from kubeledger.model.bodies.cgroups import QOSClass

_NO_CONTAINER: Final = "the pod has no such container"
_A_CONTAINER: Final = "the pod has this container"
_NO_RESOURCE: Final = "the node has no such resource"


class PodDecision(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """All that is asked for on behalf of one pod; containers by name."""

    qos_class: QOSClass
    qos_reason: str
    pod: ResourceConfig
    containers: dict[str, ContainerConfig]
    cgroupfs_path: str
    systemd_path: str

    def explain(self, path: Path) -> str:
        """The rule for the value at a path of the outcome, as users see it."""
        match path:
            case ("qosClass",):
                return self.qos_reason
            case ("pod", "hugePageLimits"):
                return "" if self.pod.huge_page_limits else "no huge pages are requested"
            case ("pod", "hugePageLimits", size):
                amounts = {str(of): n for of, n in self.pod.huge_page_limits.items()}
                if size not in amounts:
                    return f"no resource {HUGE_PAGES}<size> of this size is requested"
                return f"the pod requests {amounts[size]} bytes in huge pages of {size} bytes"
            case ("pod", name):
                return self.pod.reasons.get(name, "")
            case ("containers", name, *_) if name not in self.containers:
                return _NO_CONTAINER
            case ("containers", name, value):
                return self.containers[name].reasons.get(value, "")
            case ("containers", *_):
                return _A_CONTAINER
            case ("cgroupfsPath",) | ("systemdPath",):
                where = f"in the cgroup of class {self.qos_class}"
                where = "directly in kubepods" if self.qos_class == "Guaranteed" else where
                return f"a {self.qos_class} pod is {where}, under its UID"
        return ""


class PodUnifiedDecision(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """cgroup v2 files of a pod and its containers, those that are left alone among them."""

    qos_class: QOSClass
    pod_files: Files
    container_files: dict[str, Files]

    @property
    def pod(self) -> dict[str, str]:
        """File -> value."""
        return written(self.pod_files)

    @property
    def containers(self) -> dict[str, dict[str, str]]:
        """Container -> file -> value."""
        return {name: written(files) for name, files in self.container_files.items()}

    def explain(self, path: Path) -> str:
        """The rule for the file at a path of the outcome, as users see it."""
        match path:
            case ("pod", "unified", name):
                file = self.pod_files.get(name)
                return file.why if file else "the kubelet asks for no such file of a pod"
            case ("containers", name, *_) if name not in self.container_files:
                return _NO_CONTAINER
            case ("containers", name, "unified", of):
                file = self.container_files[name].get(of)
                return file.why if file else "the kubelet asks for no such file of a container"
            case ("containers", *_):
                return _A_CONTAINER
        return ""


class QOSDecision(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Values of the QoS cgroups, and what they come from."""

    pods: Sequence[Pod]
    facts: CgroupFacts
    allocatable_memory: int | None
    memory_reserve_percent: int | None
    requests: QOSRequests
    config: QOSConfig

    def explain(self, path: Path) -> str:
        """The rule for the value at a path of the outcome, as users see it."""
        match path:
            case ("kubepods", *_) if self.facts.qos_update_names_root:
                return "the update names the root of all pods, and writes nothing to it"
            case ("kubepods", *_):
                return "the update of this version leaves the root of all pods out"
            case ("besteffort", "cpuShares"):
                return f"BestEffort pods share the least, {MIN_SHARES}"
            case ("burstable", "cpuShares"):
                milli, pods = self.requests.burstable_milli_cpu, self._pods("Burstable")
                shares = shares_reason(milli, self.config.burstable_shares)
                return f"the class requests {milli} m over {pods}, {shares}"
            case (_, "memoryLimit") if self.memory_reserve_percent is None:
                return "qosReserved reserves no memory"
            case (_, "memoryLimit") if not self.allocatable_memory:
                return "there is no allocatable memory to reserve of"
            case (level, "memoryLimit"):
                return self._reserve(level)
        return ""

    def _reserve(self, level: str) -> str:
        requests, left = self.requests, self.config.burstable_memory_limit
        less = f"less {self.memory_reserve_percent} % of the"
        if level == "burstable":
            pods = self._pods("Guaranteed")
            of = f"{requests.guaranteed_memory} that {pods} request are {left}"
            return f"{self.allocatable_memory} bytes allocatable {less} {of}"
        pods = self._pods("Burstable")
        of = f"{requests.burstable_memory} that {pods} request"
        limit = self.config.best_effort_memory_limit
        return f"the {left} bytes for Burstable pods {less} {of} are {limit}"

    def _pods(self, qos_class: QOSClass) -> str:
        count = sum(_qos_class(pod, self.facts) == qos_class for pod in self.pods)
        return f"{count} {qos_class} pod{'' if count == 1 else 's'}"


class NodeDecision(msgspec.Struct, frozen=True, kw_only=True):
    """What is reserved, what pods may use together, what is reserved too much, and of what."""

    capacity: Quantities
    settings: ReservationSettings
    facts: CgroupFacts
    reservation: dict[str, Quantity]
    kubepods: dict[str, Quantity]
    config: ResourceConfig
    over_reserved: list[str]

    def explain(self, path: Path) -> str:
        """The rule for the value at a path of the outcome, as users see it."""
        match path:
            case ("reservation", name):
                hard = self.settings.eviction_hard
                eviction = hard_eviction_reservation(hard, self.capacity, self.facts)
                due = {**self._reserves(name), "hard eviction": eviction.get(name, ZERO)}
                sums = " + ".join(f"{n.canonical()} ({of})" for of, n in due.items() if n.sign)
                reason = f"it is {sums}" if sums else "nothing of it is reserved"
                return reason if name in self.capacity else _NO_RESOURCE
            case ("kubepods", "resources", name):
                return self._left(name)
            case ("kubepods", "memoryLimit"):
                return self._left("memory")
            case ("kubepods", "cpuShares"):
                if "cpu" not in self.kubepods:
                    return "the node has no cpu"
                milli = self.kubepods["cpu"].milli_value()
                reason = shares_reason(milli, self.config.cpu_shares or 0)
                return f"all pods may use {milli} m of cpu, {reason}"
            case ("overReserved",):
                over = ", ".join(
                    f"{self.reservation[n].canonical()} of {self.capacity[n].canonical()} {n}"
                    for n in self.over_reserved
                )
                return f"reserved are {over}" if over else "of no resource more than there is"
        return ""

    def _reserves(self, name: str) -> dict[str, Quantity]:
        """Setting -> what it takes off a resource."""
        return {
            "systemReserved": self.settings.system_reserved.get(name, ZERO),
            "kubeReserved": self.settings.kube_reserved.get(name, ZERO),
        }

    def _left(self, name: str) -> str:
        if name not in self.capacity:
            return _NO_RESOURCE
        left, text = self.capacity[name], f"it is the capacity, {self.capacity[name].canonical()}"
        for setting, amount in self._reserves(name).items():
            left = left.sub(amount)
            text += f", less {amount.canonical()} ({setting})" if amount.sign else ""
        return f"{text}, but not below 0" if left.sign < 0 else text


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
        qos_reason=_qos_reason(pod, qos_class, facts),
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


def _qos_reason(pod: Pod, qos_class: QOSClass, facts: CgroupFacts) -> str:
    """The rule for the class of a pod, as users see it."""
    spec, status = pod.spec, pod.status
    if facts.qos_class_from_status and status is not None and status.qos_class:
        return "the pod's status says so"
    level = facts.pod_level_resources and spec.resources is not None
    who = "spec.resources" if level else "its containers"
    if qos_class == "BestEffort":
        return f"{who} neither request nor limit cpu or memory, or only 0"
    if qos_class == "Guaranteed":
        return f"{who} limit cpu and memory, to what is requested where anything is"
    for container in (*(spec.containers or ()), *(spec.init_containers or ())):
        for name in ("cpu", "memory"):
            if not level and not NANOS[container.limits.get(name, "0")]:
                return f"container {container.name or ''} has no {name} limit"
    return f"what is requested in {who} is not all limited to the same amount"


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
        qos_class=qos_class,
        pod_files=pod_files(pod, qos_class, facts, settings),
        container_files={
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
        pods=pods,
        facts=facts,
        allocatable_memory=allocatable_memory,
        memory_reserve_percent=memory_reserve_percent,
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
        capacity=capacity,
        settings=settings,
        facts=facts,
        reservation=reservation,
        kubepods=kubepods,
        config=resource_config_for_node(kubepods),
        over_reserved=over_reserved(capacity, reservation),
    )
