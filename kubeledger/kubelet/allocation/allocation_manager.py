"""The queue of pending resizes, and what becomes of each.

Source: v1.36.2 pkg/kubelet/allocation/allocation_manager.go; v1.33.13 pkg/kubelet/kubelet.go
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kubeledger.kubelet.allocation.handlers import (
    DEFERRED,
    INFEASIBLE,
    NodeConfig,
    Refusal,
    ResizeConditions,
    infeasible,
    pod_resize_message,
)
from kubeledger.kubelet.allocation.state import (
    PodResourceInfo,
    State,
    allocation_from_pod,
    update_pod_from_allocation,
)
from kubeledger.kubelet.kube.pod import Pod
from kubeledger.kubelet.kube.podclass import pod_qos
from kubeledger.kubelet.kube.podtotals import scheduled_total
from kubeledger.kubelet.kube.resources import NANOS
from kubeledger.kubelet.profile.resolve import KubeletProfile

Rejection = tuple[str, str]
"""Reason and message."""

Admit = Callable[[Pod, Sequence[Pod]], Rejection | None]
"""The admit handlers: a pod, and the others with what is allocated to them; None: it fits."""


class Retried(NamedTuple):
    """What became of one resize when it was looked at.

    Attributes:
        refusal: why it was not allocated; None: it was, or there was nothing to allocate.
        changed: the pod asks for other than it has.
    """

    uid: str
    refusal: Refusal | None
    changed: bool


class Happened:
    """What the manager did since it was last asked: in this order.

    Attributes:
        tried: the queue was to be tried.
        events: UID of the pod, and type, reason and text in one.
    """

    def __init__(self) -> None:
        self.tried = False
        self.retried: list[Retried] = []
        self.synced: list[str] = []
        self.events: list[tuple[str, str]] = []
        self.accepted: dict[str, int] = {}
        """Trigger -> deferred resizes that were allocated."""


class Manager:
    """The allocation manager.

    Attributes:
        queue: UIDs of pods whose resizes are to be tried, in that order.
    """

    def __init__(
        self,
        profile: KubeletProfile,
        node: NodeConfig,
        admit: Admit,
        pods: Mapping[str, Pod],
        get_active_pods: Callable[[], Sequence[Pod]],
    ) -> None:
        self.allocated = State()
        self.conditions = ResizeConditions()
        self.queue: list[str] = []
        self.happened = Happened()
        self._profile = profile
        self._enabled = profile.kuberuntime.resizes_in_place
        self._node = node
        self._admit = admit
        self._pods = pods
        self._get_active_pods = get_active_pods
        self._views: dict[str, tuple[Pod, PodResourceInfo, Pod]] = {}
        """Pod, its allocation and the pod with that, as asked for last."""

    def restart(self) -> None:
        """Forget all that no file holds."""
        self.allocated.restore()
        self.conditions = ResizeConditions()
        self.queue = []

    def take_happened(self) -> Happened:
        """What happened since this was last asked."""
        happened, self.happened = self.happened, Happened()
        return happened

    def update_pod_from_allocation(self, pod: Pod) -> Pod:
        """The pod with what is allocated to it; itself where it has, or asks for, nothing else."""
        uid = pod.metadata.uid or ""
        info = self.allocated.pods.get(uid)
        if info is None:
            return pod
        known = self._views.get(uid)
        if known is None or known[0] is not pod or known[1] is not info:
            view = update_pod_from_allocation(pod, info, self._profile.kuberuntime)
            known = self._views[uid] = pod, info, view
        return known[2]

    def add_pod(self, pod: Pod) -> Rejection | None:
        """Admit a pod with what a checkpoint says it has, else with what it asks for."""
        pod = self.update_pod_from_allocation(pod)
        rejection = self._can_admit_pod(pod)
        if rejection is None:
            self.set_allocated_resources(pod)
        return rejection

    def set_allocated_resources(self, pod: Pod) -> None:
        """Allocate what the pod asks for."""
        if self._enabled:
            info = allocation_from_pod(pod, self._profile.kuberuntime)
            uid = pod.metadata.uid or ""
            self.allocated.set(uid, info)
            self._views[uid] = pod, info, pod

    def push_pending_resize(self, uid: str) -> None:
        """Queue a pod, and sort the queue; one that stands there already stays where it is."""
        if uid not in self.queue:
            self.queue.append(uid)
            self._sort_pending_resizes()

    def retry_pending_resizes(self, trigger: str, *, sources_ready: bool) -> None:
        """Try all of the queue; what is deferred stays in it.

        Args:
            trigger: as ``kubelet_pod_deferred_accepted_resizes_total`` labels it.
            sources_ready: else nothing is tried.
        """
        self.happened.tried = True
        if not sources_ready:
            return
        conditions, queue = self.conditions, self.queue
        self.queue = []
        for uid in queue:
            pod = self._pods.get(uid)
            if pod is None:
                continue
            before = conditions.of(uid)
            was_deferred = conditions.is_pending(uid, DEFERRED)
            done = self.handle_pod_resources_resize(pod)
            if conditions.is_pending(uid, DEFERRED):
                self.queue.append(uid)
            elif was_deferred and not conditions.is_pending(uid, INFEASIBLE):
                accepted = self.happened.accepted
                accepted[trigger] = accepted.get(trigger, 0) + 1
            if (done.changed and done.refusal is None) or before != conditions.of(uid):
                self.happened.synced.append(uid)

    def handle_pod_resources_resize(self, pod: Pod) -> Retried:
        """Allocate what a pod asks for, or say in its status why not."""
        uid, conditions = pod.metadata.uid or "", self.conditions
        facts = self._profile.allocation
        generation = (pod.metadata.generation or 0) if facts.observed_generation else 0
        allocated_pod = self.update_pod_from_allocation(pod)
        refusal = None
        if allocated_pod is pod:
            conditions.clear_pending(uid)
        elif (refusal := self._can_resize_pod(pod, allocated_pod)) is None:
            self.set_allocated_resources(pod)
            conditions.clear_pending(uid)
            conditions.clear_in_progress(uid)
            if facts.pending_resizes_queued:
                conditions.set_in_progress(uid, generation)
            self._tell("Normal ResizeStarted", "Pod resize started", pod)
        else:
            self._refuse(pod, refusal, generation)
        done = Retried(uid, refusal, allocated_pod is not pod)
        self.happened.retried.append(done)
        return done

    def _can_resize_pod(self, pod: Pod, allocated_pod: Pod) -> Refusal | None:
        info = self.allocated.pods[pod.metadata.uid or ""]
        refusal = infeasible(pod, allocated_pod, info, self._node, self._profile)
        if refusal is None and (rejection := self._can_admit_pod(pod)) is not None:
            refusal = Refusal(*rejection)
        return refusal

    def _refuse(self, pod: Pod, refusal: Refusal, generation: int) -> None:
        reason = INFEASIBLE if refusal.check is not None else DEFERRED
        uid = pod.metadata.uid or ""
        if self.conditions.set_pending(uid, reason, refusal.message, generation):
            told = refusal.reason if self._profile.allocation.resize_is_an_admission else reason
            self._tell(f"Warning Resize{reason}", f"Pod resize {told}", pod, error=refusal.message)

    def _tell(self, event: str, prefix: str, pod: Pod, error: str = "") -> None:
        if self._profile.allocation.resize_events:
            told = f"{event} {pod_resize_message(prefix, pod, error)}"
            self.happened.events.append((pod.metadata.uid or "", told))

    def _can_admit_pod(self, pod: Pod) -> Rejection | None:
        """The pod beside all others, with what is allocated to those."""
        uid = pod.metadata.uid
        others = [
            self.update_pod_from_allocation(other)
            for other in self._get_active_pods()
            if other.metadata.uid != uid
        ]
        return self._admit(pod, others)

    def _sort_pending_resizes(self) -> None:
        """Sort by insertion, as Go does up to 12 elements: the comparison is no order.

        Differs: so does a longer queue.
        """
        pods = [pod for uid in self.queue if (pod := self._pods.get(uid)) is not None]
        for end in range(1, len(pods)):
            at = end
            while at > 0 and self._comes_before(pods[at], pods[at - 1]):
                pods[at], pods[at - 1] = pods[at - 1], pods[at]
                at -= 1
        self.queue = [pod.metadata.uid or "" for pod in pods]

    def _comes_before(self, first: Pod, second: Pod) -> bool:
        """Resizes that ask for no more, then by priority, then Guaranteed, then the longest.

        Source: v1.36.2 allocation_manager.go sortPendingResizes
        """
        if not self._is_resize_increasing_requests(first):
            return True
        if not self._is_resize_increasing_requests(second):
            return False
        ours, theirs = first.spec.priority or 0, second.spec.priority or 0
        if ours != theirs:
            return ours > theirs
        ours, theirs = self._is_guaranteed(first), self._is_guaranteed(second)
        if ours != theirs:
            return ours > theirs
        mine = self.conditions.pending(first.metadata.uid or "")
        other = self.conditions.pending(second.metadata.uid or "")
        if mine is None or other is None:
            return mine is not None
        return mine.last_transition_ns < other.last_transition_ns

    def _is_guaranteed(self, pod: Pod) -> bool:
        pod_level = self._profile.admission.pod_level_resources
        return pod_qos(pod, status_wins=True, pod_level=pod_level) == "Guaranteed"

    def _is_resize_increasing_requests(self, pod: Pod) -> bool:
        allocated_pod = self.update_pod_from_allocation(pod)
        if allocated_pod is pod:
            return False
        pod_level = self._profile.admission.pod_level_resources
        return any(
            scheduled_total(pod.spec, resource, NANOS, sidecars=True, pod_level=pod_level)
            > scheduled_total(
                allocated_pod.spec, resource, NANOS, sidecars=True, pod_level=pod_level
            )
            for resource in ("memory", "cpu")
        )
