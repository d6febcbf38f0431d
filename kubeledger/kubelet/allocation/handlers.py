"""Why a resize is refused before it is seen whether it fits, and what tells of it.

Source: v1.36.2 pkg/kubelet/allocation/handlers.go podResizesAdmitHandler.Admit; v1.34.9
    allocation_manager.go handlePodResourcesResize, canResizePod; v1.33.13 kubelet.go the same
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

import msgspec

from kubeledger.kubelet.allocation.state import NOTHING, PodResourceInfo, resizable_containers
from kubeledger.kubelet.kube.pod import Container, Pod, ResourceRequirements
from kubeledger.kubelet.kube.podclass import is_static_pod, pod_qos
from kubeledger.kubelet.kube.podtotals import freed_total
from kubeledger.kubelet.kube.quantity import Quantity
from kubeledger.kubelet.kube.resources import NANOS, Remembered, ResourceList, from_nanos, nanos_in
from kubeledger.kubelet.profile.resolve import KubeletProfile

# The two conditions of a pod that tell of its resize, as the status manager keeps them.
#
# Source: v1.36.2 pkg/kubelet/status/status_manager.go podResizeConditions

PENDING: Final = "PodResizePending"
IN_PROGRESS: Final = "PodResizeInProgress"
DEFERRED: Final = "Deferred"
INFEASIBLE: Final = "Infeasible"
ERROR: Final = "Error"

ConditionType = Literal["PodResizePending", "PodResizeInProgress"]


class ResizeCondition(msgspec.Struct, frozen=True, gc=False):
    """One condition; both times are nanoseconds since the epoch."""

    type: ConditionType
    reason: str
    message: str
    observed_generation: int
    last_probe_ns: int
    last_transition_ns: int


class ResizeConditions:
    """Conditions by pod UID."""

    def __init__(self) -> None:
        self.now_ns = 0
        self._pending: dict[str, ResizeCondition] = {}
        self._in_progress: dict[str, ResizeCondition] = {}

    def of(self, uid: str) -> list[ResizeCondition]:
        """A pod's conditions, the pending one first."""
        both = (self._pending.get(uid), self._in_progress.get(uid))
        return [condition for condition in both if condition is not None]

    def pods(self) -> Iterable[str]:
        """UIDs of pods that have any."""
        return dict.fromkeys((*self._pending, *self._in_progress))

    def pending(self, uid: str) -> ResizeCondition | None:
        """The condition of a resize that is deferred or infeasible."""
        return self._pending.get(uid)

    def is_pending(self, uid: str, reason: str) -> bool:
        """Whether it is there with this reason."""
        condition = self._pending.get(uid)
        return condition is not None and condition.reason == reason

    def set_pending(self, uid: str, reason: str, message: str, generation: int) -> bool:
        """Set it; whether that is news: its reason or generation is another."""
        old = self._pending.get(uid)
        self._pending[uid] = self._updated(PENDING, old, reason, message, generation)
        return old is None or (old.reason, old.observed_generation) != (reason, generation)

    def set_in_progress(self, uid: str, generation: int) -> None:
        """Set that a resize is under way; what stands there of an earlier one is kept."""
        old = self._in_progress.get(uid)
        kept = ("", "", generation) if old is None else _told(old)
        self._in_progress[uid] = self._updated(IN_PROGRESS, old, *kept)

    def fail(self, uid: str, message: str, generation: int) -> bool:
        """Set that the runtime does not take it; whether that is news."""
        old = self._in_progress.get(uid)
        kept = generation if old is None else old.observed_generation
        self._in_progress[uid] = self._updated(IN_PROGRESS, old, ERROR, message, kept)
        return old is None or old.reason != ERROR

    def clear_pending(self, uid: str) -> None:
        """Nothing is pending any more."""
        self._pending.pop(uid, None)

    def clear_in_progress(self, uid: str) -> None:
        """Nothing is under way any more."""
        self._in_progress.pop(uid, None)

    def backfill(self, pods: Iterable[Pod]) -> None:
        """Take over what the API server knows, as after a restart; both times are now."""
        for pod in pods:
            for told in (pod.status.conditions if pod.status is not None else None) or ():
                kind = {PENDING: self._pending, IN_PROGRESS: self._in_progress}.get(told.type or "")
                if kind is not None:
                    kind[pod.metadata.uid or ""] = self._updated(
                        PENDING if kind is self._pending else IN_PROGRESS,
                        None,
                        told.reason or "",
                        told.message or "",
                        told.observed_generation or 0,
                    )

    def _updated(
        self,
        kind: ConditionType,
        old: ResizeCondition | None,
        reason: str,
        message: str,
        generation: int,
    ) -> ResizeCondition:
        same = old is not None and old.reason == reason
        since_ns = old.last_transition_ns if same and old is not None else self.now_ns
        return ResizeCondition(kind, reason, message, generation, self.now_ns, since_ns)


def _told(condition: ResizeCondition) -> tuple[str, str, int]:
    return condition.reason, condition.message, condition.observed_generation


# Texts of the events that tell of a resize.
#
# Source: v1.36.2 pkg/kubelet/events/resize.go podResizeMessage

_GO_ESCAPES: Final = str.maketrans(
    {c: f"\\u{ord(c):04x}" for c in ("<", ">", "&", "\u2028", "\u2029")}
)


CANONICAL: Final = Remembered(lambda amount: Quantity.from_api(amount).canonical())
"""A quantity as written -> as Go marshals it; ``QuantityError`` for a text that is none."""


def pod_resize_message(prefix: str, pod: Pod, error: str = "") -> str:
    """The prefix, and what the pod asks for as JSON.

    Args:
        prefix: ``Pod resize started``.
    """
    spec = pod.spec
    summary: dict[str, Any] = {
        "initContainers": _summaries(spec.init_containers),
        "containers": _summaries(spec.containers),
        "generation": pod.metadata.generation or 0,
        "error": error,
    }
    told = {k: v for k, v in summary.items() if k == "generation" or v}
    text = msgspec.json.encode(told).decode()
    return f"{prefix}: {text.translate(_GO_ESCAPES)}"


def _summaries(containers: Iterable[Container] | None) -> list[dict[str, Any]]:
    return [{"name": c.name or "", "resources": _resources(c.resources)} for c in containers or ()]


def _resources(resources: ResourceRequirements | None) -> dict[str, dict[str, str]]:
    if resources is None:
        return {}
    lists = {"limits": resources.limits, "requests": resources.requests}
    return {
        kind: {name: CANONICAL[amounts[name]] for name in sorted(amounts)}
        for kind, amounts in lists.items()
        if amounts
    }


Check = Literal[
    "static_pod",
    "swap_limitation",
    "guaranteed_pod_cpu_manager_static_policy",
    "guaranteed_pod_memory_manager_static_policy",
    "insufficient_node_allocatable",
]
"""What makes a resize infeasible, as ``kubelet_pod_infeasible_resizes_total`` labels it."""

_NO_SWAP: Final = "NoSwap"


class NodeConfig(NamedTuple):
    """What of the node counts besides the pods on it.

    Attributes:
        cpu_manager_policy, memory_manager_policy: ``static``, ``Static``: they give exclusively.
        capacity: what a resize may never exceed; the version says which of the node's amounts.
        swap_behavior: container -> how the runtime lets it swap; absent: not at all.
    """

    cpu_manager_policy: str
    memory_manager_policy: str
    capacity: ResourceList
    swap_behavior: Mapping[str, str]


class Refusal(NamedTuple):
    """Why a resize is not allocated.

    Attributes:
        reason: ``Infeasible``; any other comes from admission, and means that it is deferred.
        check: what refused it; None: it does not fit now.
    """

    reason: str
    message: str
    check: Check | None = None


def infeasible(
    pod: Pod, allocated_pod: Pod, info: PodResourceInfo, node: NodeConfig, profile: KubeletProfile
) -> Refusal | None:
    """What is against this resize on this node, whatever else runs there; None: nothing."""
    if not profile.kuberuntime.static_pods_resized and is_static_pod(pod):
        return _refused("static_pod", "In-place resize of static-pods is not supported")
    if _memory_of_swapping_container_changes(pod, allocated_pod, node):
        return _refused(
            "swap_limitation", "In-place resize of containers with swap is not supported."
        )
    admission = profile.admission
    if node.cpu_manager_policy == "static" or node.memory_manager_policy == "Static":
        qos = pod_qos(pod, status_wins=True, pod_level=admission.pod_level_resources)
        if qos == "Guaranteed":
            refusal = _guaranteed_refused(pod, info, node, profile)
            if refusal is not None:
                return refusal
    if profile.allocation.resize_is_an_admission:
        return None
    return _beyond_capacity(pod, node, profile)


def _refused(check: Check, message: str) -> Refusal:
    return Refusal(INFEASIBLE, message, check)


def _memory_of_swapping_container_changes(pod: Pod, allocated_pod: Pod, node: NodeConfig) -> bool:
    """Source: v1.36.2 handlers.go disallowResizeForSwappableContainers."""
    if not node.swap_behavior:
        return False
    allocated = {c.name: c for c in _containers(allocated_pod)}
    for container in _containers(pod):
        given = allocated.get(container.name)
        if given is None or nanos_in(container.requests, "memory") == nanos_in(
            given.requests, "memory"
        ):
            continue
        restarts = next(
            (p.restart_policy for p in given.resize_policy or () if p.resource_name == "memory"), ""
        )
        swap = node.swap_behavior.get(container.name or "", _NO_SWAP)
        if restarts != "RestartContainer" and swap != _NO_SWAP:
            return True
    return False


def _guaranteed_refused(
    pod: Pod, info: PodResourceInfo, node: NodeConfig, profile: KubeletProfile
) -> Refusal | None:
    by_resource = profile.allocation.guaranteed_refused_by_resource
    managers: tuple[tuple[str, str, str, str, Check], ...] = (
        (
            node.cpu_manager_policy,
            "static",
            "CPU",
            "cpu",
            "guaranteed_pod_cpu_manager_static_policy",
        ),
        (
            node.memory_manager_policy,
            "Static",
            "Memory",
            "memory",
            "guaranteed_pod_memory_manager_static_policy",
        ),
    )
    for policy, exclusive, manager, resource, check in managers:
        if policy != exclusive:
            continue
        rule = f"Resize is infeasible for Guaranteed Pods alongside {manager} Manager"
        if not by_resource:
            return _refused(check, f"{rule} static policy")
        if _request_changes(pod, info, resource, profile):
            return _refused(check, f'{rule} policy "{exclusive}"')
    return None


def _request_changes(
    pod: Pod, info: PodResourceInfo, resource: str, profile: KubeletProfile
) -> bool:
    """Source: v1.36.2 handlers.go guaranteedPodResourceResizeRequired."""
    for container in resizable_containers(pod, profile.kuberuntime):
        given = info.containers.get(container.name or "", NOTHING).requests
        if nanos_in(container.requests, resource) != nanos_in(given, resource):
            return True
    return False


def _beyond_capacity(pod: Pod, node: NodeConfig, profile: KubeletProfile) -> Refusal | None:
    """Source: v1.34.9 allocation_manager.go canResizePod."""
    for resource in ("memory", "cpu"):
        available = from_nanos(resource, nanos_in(node.capacity, resource))
        requested = _request(pod, resource, profile)
        if requested > available:
            return _refused(
                "insufficient_node_allocatable",
                f"Node didn't have enough capacity: {resource}, requested: {requested}, "
                f"capacity: {available}",
            )
    return None


def _request(pod: Pod, resource: str, profile: KubeletProfile) -> int:
    """Source: v1.34.9 pkg/api/v1/resource/helpers.go GetResourceRequest."""
    facts = profile.admission
    sidecars, whole = facts.victims_counted_with_sidecars, facts.pod_level_resources
    nanos = freed_total(pod.spec, resource, NANOS, sidecars=sidecars, pod_level=whole)
    return from_nanos(resource, nanos)


def _containers(pod: Pod) -> Iterator[Container]:
    yield from pod.spec.containers or ()
    yield from pod.spec.init_containers or ()
