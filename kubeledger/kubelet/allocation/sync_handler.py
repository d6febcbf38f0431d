"""What the kubelet does about resizes when pods are added, updated, removed or reconciled.

Source: v1.36.2 pkg/kubelet/kubelet.go HandlePodAdditions, HandlePodUpdates, HandlePodRemoves,
    HandlePodReconcile; v1.33.13 the same, and handlePodResourcesResize in each sync of a pod
Differs: only what concerns allocations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from kubeledger.kubelet.allocation.allocation_manager import Admit, Manager, Rejection
from kubeledger.kubelet.allocation.handlers import NodeConfig
from kubeledger.kubelet.allocation.state import NOTHING, State, resizable_containers, same_pod_level
from kubeledger.kubelet.kube.pod import Pod, ResourceRequirements
from kubeledger.kubelet.kube.podtotals import resized_spec, scheduled_total
from kubeledger.kubelet.kube.resources import NANOS, nanos_in
from kubeledger.kubelet.profile.resolve import KubeletProfile

_TERMINAL: Final = ("Failed", "Succeeded")
_RESIZED: Final = ("memory", "cpu")


class SyncHandler:
    """The kubelet's pods, and its allocation manager.

    Attributes:
        pods: by UID, in the order in which they were added.
        sources_ready: all sources of pods have told all they have.
    """

    def __init__(self, profile: KubeletProfile, node: NodeConfig, admit: Admit) -> None:
        self.pods: dict[str, Pod] = {}
        self.manager = Manager(profile, node, admit, self.pods, self.active_pods)
        self.sources_ready = True
        self._profile = profile
        self._rejected: set[str] = set()
        self._queued = profile.allocation.pending_resizes_queued
        self._enabled = profile.kuberuntime.resizes_in_place
        self._actuated = State()
        self._running: set[str] = set()

    def active_pods(self) -> list[Pod]:
        """Pods that were admitted and are not at their end."""
        rejected = self._rejected
        return [
            pod for uid, pod in self.pods.items() if uid not in rejected and not _is_terminal(pod)
        ]

    def restart(self) -> None:
        """All memory is lost."""
        self.pods.clear()
        self._rejected.clear()
        self._actuated.restore()
        self.manager.restart()

    def handle_pod_additions(self, pods: Sequence[Pod]) -> dict[str, Rejection]:
        """Add pods; those that are not admitted, and why."""
        manager, rejected = self.manager, {}
        resized = []
        for pod in pods:
            uid = _uid(pod)
            self.pods[uid] = pod
            if _is_terminal(pod):
                continue
            rejection = manager.add_pod(pod)
            if rejection is not None:
                self._rejected.add(uid)
                rejected[uid] = rejection
            elif manager.update_pod_from_allocation(pod) is not pod:
                resized.append(uid)
        if not self._queued:
            self.sync_pods(pods)
        elif self._enabled:
            manager.conditions.backfill(pods)
            for uid in resized:
                manager.push_pending_resize(uid)
            if resized:
                self._retry("pods_added")
        return rejected

    def handle_pod_updates(self, pods: Sequence[Pod]) -> None:
        """Take in pods whose specs have changed."""
        manager = self.manager
        for pod in pods:
            uid = _uid(pod)
            old = self.pods.get(uid)
            self.pods[uid] = pod
            if not (self._queued and self._enabled) or not self._is_resize(old, pod):
                continue
            if manager.update_pod_from_allocation(pod) is pod:
                manager.conditions.clear_pending(uid)
            else:
                manager.push_pending_resize(uid)
                self._retry("pod_updated")
        if not self._queued:
            self.sync_pods(pods)

    def handle_pod_removes(self, uids: Iterable[str]) -> None:
        """Forget pods, and what was allocated to them."""
        for uid in uids:
            self.pods.pop(uid, None)
            self._rejected.discard(uid)
            self._actuated.remove(uid)
            self._running.discard(uid)
            self.manager.allocated.remove(uid)
            self.manager.conditions.clear_pending(uid)
            self.manager.conditions.clear_in_progress(uid)
        if self._queued and self._enabled:
            self._retry("pods_removed")

    def handle_pod_reconcile(self, pods: Sequence[Pod]) -> None:
        """Take in pods whose statuses have changed: where one gives something back, try again."""
        trigger = ""
        has_pending = bool(self.manager.queue)
        for pod in pods:
            old = self.pods.get(_uid(pod))
            self.pods[_uid(pod)] = pod
            if not has_pending or trigger or old is None:
                continue
            if self._profile.allocation.retried_when_pods_end and (
                _is_terminal(pod) and not _is_terminal(old)
            ):
                trigger = "pod_terminated"
            if self._has_shrunk(old, pod):
                trigger = "pod_resized"
        if trigger:
            self._retry(trigger)

    def periodic(self) -> None:
        """What happens by the clock: the queue is tried, or before there was one each pod syncs."""
        if self._queued:
            self._retry("periodic_retry")
        else:
            self.sync_pods([*self.pods.values()])

    def completed(self, uids: Iterable[str]) -> None:
        """The runtime has what was allocated."""
        for uid in uids:
            if self._queued:
                self.manager.conditions.clear_in_progress(uid)
            elif uid in self.pods:
                self._actuate(uid)
                self.sync_pods([self.pods[uid]])

    def _retry(self, trigger: str) -> None:
        self.manager.retry_pending_resizes(trigger, sources_ready=self.sources_ready)

    def sync_pods(self, pods: Sequence[Pod]) -> None:
        """Look at the resizes of pods that are synced, as before there was a queue.

        Source: v1.33.13 pkg/kubelet/kubelet.go SyncPod, handlePodResourcesResize
        """
        conditions = self.manager.conditions
        for pod in pods if self._enabled else ():
            uid = _uid(pod)
            if uid in self._rejected or _is_terminal(pod):
                continue
            self.manager.handle_pod_resources_resize(pod)
            if uid in self._running and self._is_in_progress(uid):
                conditions.set_in_progress(uid, 0)
            else:
                conditions.clear_in_progress(uid)
            if uid not in self._running:
                self._running.add(uid)
                self._actuate(uid)

    def _actuate(self, uid: str) -> None:
        info = self.manager.allocated.pods.get(uid)
        if info is not None:
            self._actuated.set(uid, info)

    def _is_in_progress(self, uid: str) -> bool:
        """Source: v1.33.13 pkg/kubelet/kubelet.go isPodResizeInProgress."""
        info = self.manager.allocated.pods.get(uid)
        actuated = self._actuated.pods.get(uid)
        given = {} if actuated is None else actuated.containers
        return info is not None and any(
            _resized(given.get(name), resources) for name, resources in info.containers.items()
        )

    def _is_resize(self, old: Pod | None, new: Pod) -> bool:
        """Source: v1.36.2 pkg/kubelet/kubelet.go recordResizeOperations."""
        if old is None:
            return True
        facts = self._profile.kuberuntime
        wanted = {c.name: c for c in resizable_containers(new, facts)}
        for container in resizable_containers(old, facts):
            other = wanted.get(container.name, container)
            if _resized(container.resources, other.resources):
                return True
        return self._profile.allocation.pod_level_changes_queued and not same_pod_level(
            old.spec.resources, new.spec.resources
        )

    def _has_shrunk(self, old: Pod, new: Pod) -> bool:
        """Whether the pod holds less than before, by its status."""
        before, after = (self.manager.update_pod_from_allocation(pod) for pod in (old, new))
        facts = self._profile.admission
        pod_level = facts.resized_pod_level_requests_count
        held, holds = (resized_spec(pod, pod_level=pod_level) for pod in (before, after))
        whole = facts.pod_level_resources
        return any(
            scheduled_total(holds, resource, NANOS, sidecars=True, pod_level=whole)
            < scheduled_total(held, resource, NANOS, sidecars=True, pod_level=whole)
            for resource in _RESIZED
        )


def _uid(pod: Pod) -> str:
    return pod.metadata.uid or ""


def _is_terminal(pod: Pod) -> bool:
    return pod.status is not None and pod.status.phase in _TERMINAL


def _resized(old: ResourceRequirements | None, new: ResourceRequirements | None) -> bool:
    """Whether a request or limit of cpu or memory is another."""
    old, new = old or NOTHING, new or NOTHING
    return old != new and any(
        nanos_in(old_list, resource) != nanos_in(new_list, resource)
        for old_list, new_list in ((old.requests, new.requests), (old.limits, new.limits))
        for resource in _RESIZED
    )
