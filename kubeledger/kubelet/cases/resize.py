"""Cases of resizes in place: a node whose pods come, change and go.

Nothing here is left to chance, so every claim matches or is impossible.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import UNSET, UnsetType

from kubeledger.kubelet.allocation.allocation_manager import Rejection, Retried
from kubeledger.kubelet.allocation.handlers import (
    CANONICAL,
    ConditionType,
    NodeConfig,
    ResizeCondition,
)
from kubeledger.kubelet.allocation.state import PodResourceInfo, State
from kubeledger.kubelet.allocation.sync_handler import SyncHandler
from kubeledger.kubelet.cases.fields import Strict, check_amounts
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


class Resources(Strict, frozen=True, omit_defaults=True):
    """Requests and limits in canonical quantities."""

    requests: dict[str, str] | None = None
    limits: dict[str, str] | None = None


class Allocation(Strict, frozen=True, omit_defaults=True):
    """What a pod has been given."""

    containers: dict[str, Resources]
    pod_level: Resources | None = None


class Condition(Strict, frozen=True):
    """A condition of the pod's status."""

    type: ConditionType
    reason: str
    message: str
    observed_generation: int
    last_transition_time: str


class StepOutcome(Strict, frozen=True):
    """What came of one step.

    Attributes:
        rejected: UID -> reason and message of admission.
        retried: UIDs in the order in which their resizes were looked at.
        allocated: UID -> what changed; None: it is gone.
        conditions: of all pods that have any.
        pending: the queue afterwards.
        synced: pods whose sync was asked for.
        infeasible_metric, deferred_accepted_metric: how much they rose; only in versions that
            have them.
    """

    rejected: dict[str, Rejection]
    retried: list[str]
    allocated: dict[str, Allocation | None]
    conditions: dict[str, list[Condition]]
    pending: list[str]
    synced: list[str]
    events: list[str]
    infeasible_metric: dict[str, int] | UnsetType = UNSET
    deferred_accepted_metric: dict[str, int] | UnsetType = UNSET


class Outcome(Strict, frozen=True):
    """What came of each step."""

    steps: list[StepOutcome]


INPUT = ResizeCase
OUTCOME = Outcome


def decide(case_input: ResizeCase, profile: KubeletProfile) -> Outcome:
    """Run the steps."""
    return Outcome([outcome for outcome, _ in _walk(case_input, profile)])


def _walk(case: ResizeCase, profile: KubeletProfile) -> Iterator[tuple[StepOutcome, list[Retried]]]:
    """Each step's outcome, and what became of the resizes that were looked at in it."""
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
        happened = manager.take_happened()
        metrics = profile.allocation.pending_resizes_queued
        yield (
            StepOutcome(
                rejected,
                [retried.uid for retried in happened.retried],
                _changes(manager.allocated),
                {
                    u: list(map(_condition, manager.conditions.of(u)))
                    for u in manager.conditions.pods()
                },
                manager.queue.copy(),
                happened.synced,
                [event for _, event in happened.events],
                _counts(happened.retried) if metrics else UNSET,
                happened.accepted if metrics else UNSET,
            ),
            happened.retried,
        )


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


def _changes(state: State) -> dict[str, Allocation | None]:
    changes: dict[str, Allocation | None] = {}
    for uid, old in state.take_changed().items():
        info = state.pods.get(uid)
        if info != old:
            allocation = None if info is None else _allocation(info)
            if allocation is None or old is None or allocation != _allocation(old):
                changes[uid] = allocation
    return changes


def _allocation(info: PodResourceInfo) -> Allocation:
    whole = info.pod_level
    return Allocation(
        {name: _resources(resources) for name, resources in info.containers.items()},
        None if whole is None else _resources(whole),
    )


def _resources(resources: ResourceRequirements) -> Resources:
    return Resources(_canonical(resources.requests), _canonical(resources.limits))


def _canonical(amounts: ResourceList | None) -> dict[str, str] | None:
    return {name: CANONICAL[amount] for name, amount in amounts.items()} if amounts else None


def _condition(told: ResizeCondition) -> Condition:
    return Condition(
        told.type,
        told.reason,
        told.message,
        told.observed_generation,
        format_ts(told.last_transition_ns),
    )


def _counts(retried: Sequence[Retried]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for each in retried:
        if each.refusal is not None and (check := each.refusal.check) is not None:
            counts[check] = counts.get(check, 0) + 1
    return counts
