"""Cases of resizes in place: a node whose pods come, change and go.

Nothing here is left to chance, so every claim matches or is impossible.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from kubeledger.kubelet.allocation.allocation_manager import Rejection, Retried
from kubeledger.kubelet.allocation.handlers import (
    CANONICAL,
    NodeConfig,
    ResizeCondition,
)
from kubeledger.kubelet.allocation.state import PodResourceInfo, State
from kubeledger.kubelet.allocation.sync_handler import SyncHandler
from kubeledger.kubelet.cases.fields import Strict, Subsystem, check_amounts
from kubeledger.kubelet.kube.gotexts import instant_ns
from kubeledger.kubelet.kube.pod import Node, NodeStatus, ObjectMeta, Pod, ResourceRequirements
from kubeledger.kubelet.kube.resources import ResourceList
from kubeledger.kubelet.lifecycle import predicate as lifecycle
from kubeledger.kubelet.lifecycle.nodeinfo import NodeInfo
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.model.errors import BadInputError
from kubeledger.model.units import format_ts

Operation = Literal["add", "update", "remove", "reconcile", "periodic", "completed", "restart"]


class Step(Strict, frozen=True):
    """One thing that happens; ``pods`` and ``uids`` as the operation takes them."""

    at: str
    op: Operation
    pods: tuple[Pod, ...] = ()
    uids: tuple[str, ...] = ()
    sources_ready: bool | None = True


class ResizeCase(Strict, frozen=True):
    """One case.

    Attributes:
        node_allocatable_absolute: before the hard eviction threshold is taken off.
        swap_behavior: container -> what the runtime says; absent: ``NoSwap``.
    """

    node_allocatable: ResourceList
    steps: tuple[Step, ...]
    node_allocatable_absolute: ResourceList | None = None
    cpu_manager_policy: str | None = None
    memory_manager_policy: str | None = None
    swap_behavior: dict[str, str] | None = None
    kubelet_started_at: str | None = None


def decide(case_input: ResizeCase, profile: KubeletProfile) -> dict[str, object]:
    """Run the steps."""
    return {"steps": list(_walk(case_input, profile))}


def _walk(case: ResizeCase, profile: KubeletProfile) -> Iterator[dict[str, object]]:
    """What comes of each step.

    ``retried`` are UIDs in the order in which their resizes were looked at, ``allocated`` what
    changed of a pod (None: it is gone), ``pending`` is the queue afterwards, ``synced`` whose sync
    was asked for, metrics how much they rose, in versions that have them.
    """
    handler = _handler(case, profile)
    if case.kubelet_started_at is not None:
        instant_ns(case.kubelet_started_at)
    manager = handler.manager
    for index, step in enumerate(case.steps):
        try:
            manager.conditions.now_ns = instant_ns(step.at)
        except BadInputError as error:
            raise BadInputError(f"input.steps[{index}].at: {error.message}") from None
        handler.sources_ready = step.sources_ready is not False
        rejected = _run(handler, step)
        happened, conditions = manager.take_happened(), manager.conditions
        outcome: dict[str, object] = {
            "rejected": rejected,
            "retried": [retried.uid for retried in happened.retried],
            "allocated": _changes(manager.allocated),
            "conditions": {u: list(map(_condition, conditions.of(u))) for u in conditions.pods()},
            "pending": manager.queue.copy(),
            "synced": happened.synced,
            "events": [event for _, event in happened.events],
        }
        if profile.allocation.pending_resizes_queued:
            outcome["infeasibleMetric"] = _counts(happened.retried)
            outcome["deferredAcceptedMetric"] = happened.accepted
        yield outcome


def _run(handler: SyncHandler, step: Step) -> dict[str, Rejection]:
    if step.op == "add":
        return handler.handle_pod_additions(step.pods)
    if step.op == "update":
        handler.handle_pod_updates(step.pods)
    elif step.op == "reconcile":
        handler.handle_pod_reconcile(step.pods)
    elif step.op == "remove":
        handler.handle_pod_removes(step.uids)
    elif step.op == "completed":
        handler.completed(step.uids)
    elif step.op == "periodic":
        handler.periodic()
    else:
        handler.restart()
    return {}


def _handler(case: ResizeCase, profile: KubeletProfile) -> SyncHandler:
    check_amounts("input.nodeAllocatable", case.node_allocatable)
    check_amounts("input.nodeAllocatableAbsolute", case.node_allocatable_absolute)
    absolute = profile.allocation.capacity_ignores_eviction_threshold
    capacity = case.node_allocatable_absolute if absolute else case.node_allocatable
    config = NodeConfig(
        case.cpu_manager_policy or "",
        case.memory_manager_policy or "",
        capacity or {},
        case.swap_behavior or {},
    )
    node = Node(ObjectMeta(), NodeStatus(allocatable=case.node_allocatable))
    facts = profile.admission

    def admit(pod: Pod, others: Sequence[Pod]) -> Rejection | None:
        result = lifecycle.decide(pod, NodeInfo(node, others, facts), None)
        return None if result.admit else (result.reason, result.message)

    return SyncHandler(profile, config, admit)


def _changes(state: State) -> dict[str, dict[str, object] | None]:
    changes: dict[str, dict[str, object] | None] = {}
    for uid, old in state.take_changed().items():
        info = state.pods.get(uid)
        if info != old:
            allocation = None if info is None else _allocation(info)
            if allocation is None or old is None or allocation != _allocation(old):
                changes[uid] = allocation
    return changes


def _allocation(info: PodResourceInfo) -> dict[str, object]:
    whole = info.pod_level
    given: dict[str, object] = {
        "containers": {name: _resources(resources) for name, resources in info.containers.items()}
    }
    return given if whole is None else given | {"podLevel": _resources(whole)}


def _resources(resources: ResourceRequirements) -> dict[str, dict[str, str]]:
    """Requests and limits in canonical quantities, as far as there are any."""
    lists = (("requests", resources.requests), ("limits", resources.limits))
    return {
        kind: {name: CANONICAL[amount] for name, amount in amounts.items()}
        for kind, amounts in lists
        if amounts
    }


def _condition(told: ResizeCondition) -> dict[str, object]:
    return {
        "type": told.type,
        "reason": told.reason,
        "message": told.message,
        "observedGeneration": told.observed_generation,
        "lastTransitionTime": format_ts(told.last_transition_ns),
    }


def _counts(retried: Sequence[Retried]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for each in retried:
        if each.refusal is not None and (check := each.refusal.check) is not None:
            counts[check] = counts.get(check, 0) + 1
    return counts


RESIZE = Subsystem(ResizeCase, object, decide)
