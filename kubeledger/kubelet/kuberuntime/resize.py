"""In-place resize: which running containers get other resources, and which restart for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from kubeledger.kubelet.kube.pod import ResourceRequirements
from kubeledger.kubelet.kube.quantity import Quantity
from kubeledger.kubelet.kube.resources import ResourceList
from kubeledger.kubelet.kuberuntime.objects import (
    Container,
    ContainerStatus,
    Pod,
    Sync,
)
from kubeledger.kubelet.profile.lifecycle import KuberuntimeFacts

_SOURCE: Final = "kubernetes.io/config.source"
_API: Final = "api"
_RESTART: Final = "RestartContainer"
_CPU: Final = "cpu"
_MEMORY: Final = "memory"
_ZERO: Final = Quantity(0)


class _Resources(NamedTuple):
    """Memory in bytes, CPU in millicores; what is not set is 0."""

    memory_limit: int
    memory_request: int
    cpu_limit: int
    cpu_request: int


def is_in_place_pod_vertical_scaling_allowed(pod: Pod, facts: KuberuntimeFacts) -> bool:
    """Whether containers of the pod can be resized while they run.

    Source: v1.36.2 pkg/kubelet/allocation/features_linux.go IsInPlacePodVerticalScalingAllowed
    Differs: the feature gate is a fact.
    """
    if not facts.resizes_in_place:
        return False
    source = (pod.metadata.annotations or {}).get(_SOURCE)
    return facts.static_pods_resized or source in (None, _API)


def compute_pod_resize_action(
    sync: Sync, index: int, container: Container, status: ContainerStatus, *, init: bool
) -> bool:
    """Add what a changed size asks for; whether to keep the container.

    Decreases come before increases, of each the last container first and last respectively.

    Args:
        sync: its actions are added to.
        index: of the container among the app or the init containers.

    Source: v1.36.2 pkg/kubelet/kuberuntime/kuberuntime_manager.go computePodResizeAction
    Differs: nothing is logged.
    """
    facts, actions = sync.facts, sync.actions
    if not is_in_place_pod_vertical_scaling_allowed(sync.pod, facts):
        return True
    pod_level = facts.pod_level_resources_resized
    desired = _resources(container.resources, sync.pod.spec.resources if pod_level else None)
    current = _resources(
        sync.actuated.get(container.name), sync.actuated_pod if pod_level else None
    )
    if desired == current:
        return True
    memory = _first_change(desired[:2], current[:2])
    cpu = _first_change(desired[2:], current[2:])
    for name, change in ((_MEMORY, memory), (_CPU, cpu)):
        if change and _restarts(container, name):
            sync.kill(status, "", f"Container {container.name} resize requires restart")
            starts = actions.init_containers_to_start if init else actions.containers_to_start
            starts.append(index)
            return False
    for name, change in ((_MEMORY, memory), (_CPU, cpu)):
        if change:
            updates = actions.containers_to_update.setdefault(name, [])
            updates.insert(len(updates) if change > 0 else 0, container.name)
    return True


def compute_pod_level_resources_resize_action(sync: Sync) -> bool:
    """Whether the pod's own requests and limits are to be written.

    Source: v1.36.2 kuberuntime_manager.go computePodLevelResourcesResizeAction
    Differs: nothing is logged.
    """
    if not sync.facts.pod_level_resources_resized:
        return False
    return _resources(sync.pod.spec.resources, None) != _resources(sync.actuated_pod, None)


class MemoryLimit(NamedTuple):
    """A limit of memory before and after a resize, None for none, and what is in use; bytes."""

    current: int | None
    desired: int | None
    used: int

    @property
    def is_decreasing(self) -> bool:
        """It is there, and was not, or was higher."""
        before, after = self.current, self.desired
        return after is not None and (before is None or after < before)


def validate_memory_resize(
    pod_name: str, pod: MemoryLimit, containers: Mapping[str, MemoryLimit], facts: KuberuntimeFacts
) -> str:
    """Why limits of memory cannot be lowered now; empty where they can.

    Args:
        pod: limit of its cgroup.
        containers: those whose memory is to be updated.

    Source: v1.36.2 kuberuntime_manager.go validateMemoryResizeAction; v1.33.13 doPodResizeAction
    Differs: the containers come in the order given.
    """
    if not containers:
        return ""
    if not facts.memory_decrease_checked:
        if pod.desired is None or pod.used < pod.desired:
            return ""
        what = "aborting attempt to set pod memory limit less than current memory usage"
        return f"{what} for pod {pod_name}"
    attempt, below = "attempting to set", f"below current usage ({pod.used})"
    errors = []
    if pod.is_decreasing and pod.desired is not None and pod.used >= pod.desired:
        errors.append(f"{attempt} pod memory limit ({pod.desired}) {below}")
    for name, limit in containers.items():
        if limit.is_decreasing and limit.desired is not None and limit.used >= limit.desired:
            errors.append(f'{attempt} container "{name}" memory limit ({limit.desired}) {below}')
    told = f"[{', '.join(errors)}]" if len(errors) > 1 else "".join(errors)
    return f"cannot decrease memory limits: {told}" if errors else ""


def _first_change(desired: tuple[int, ...], current: tuple[int, ...]) -> int:
    """More (> 0) or less (< 0) of the limit, or if that stays of the request; 0 for neither."""
    return next((new - old for new, old in zip(desired, current, strict=True) if new != old), 0)


def _restarts(container: Container, resource: str) -> bool:
    for policy in container.resize_policy or ():
        if policy.resource_name == resource:
            return policy.restart_policy == _RESTART
    return False


def _resources(own: ResourceRequirements | None, of_pod: ResourceRequirements | None) -> _Resources:
    """Source: v1.36.2 kuberuntime_manager.go containerResourcesFromRequirements."""
    limits = (own.limits if own is not None else None) or {}
    requests = (own.requests if own is not None else None) or {}
    above = (of_pod.limits if of_pod is not None else None) or {}
    return _Resources(
        _limit(limits, above, _MEMORY).value(),
        _amount(requests, _MEMORY).value(),
        _limit(limits, above, _CPU).milli_value(),
        _amount(requests, _CPU).milli_value(),
    )


def _limit(limits: ResourceList, above: ResourceList, name: str) -> Quantity:
    own = _amount(limits, name)
    return _amount(above, name) if own.is_zero else own


def _amount(resources: ResourceList, name: str) -> Quantity:
    return Quantity.from_api(resources[name]) if name in resources else _ZERO
