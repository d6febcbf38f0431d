"""Cases of the device manager: containers to allocate for in turn, and what each gets."""

from __future__ import annotations

import msgspec

from kubeledger.kubelet.cases.device_node import (
    Allocation,
    CasePod,
    ResourceCase,
    check_pod,
    counted_limits,
    manager_of,
)
from kubeledger.kubelet.cases.fields import node_set
from kubeledger.kubelet.cases.judgement import ADMISSIBLE, Judgement, impossible
from kubeledger.kubelet.devicemanager import allocate
from kubeledger.kubelet.devicemanager.allocate import AllocateCall
from kubeledger.kubelet.devicemanager.explain import Claim, admissible
from kubeledger.kubelet.devicemanager.manager import ManagerImpl
from kubeledger.kubelet.devicemanager.pod_devices import DevicesPerNUMA
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.kubelet.topologymanager.bitmask import mask_of
from kubeledger.model.errors import BadInputError


class StepCase(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Allocate for one container, with the NUMA affinity stored for it (None for none)."""

    pod: CasePod
    container: str
    affinity: list[int] | None = None


class DevicesCase(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Input of a run of allocations.

    Attributes:
        numa_nodes: of the machine.
        resources: name -> devices and plugin.
        allocated: what containers hold from the start.
        active_pods: UIDs, besides those of the pods in ``steps``.
        steps: in this order.
    """

    numa_nodes: list[int] = msgspec.field(name="numaNodes")
    resources: dict[str, ResourceCase] | None
    allocated: list[Allocation] | None = None
    active_pods: list[str] | None = msgspec.field(name="activePods", default=None)
    steps: list[StepCase]


class StepOutcome(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The error, or empty; and resource -> NUMA node -> IDs that the container holds then."""

    error: str
    devices: dict[str, DevicesPerNUMA]


class DevicesOutcome(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What came of each step."""

    steps: list[StepOutcome]


INPUT = DevicesCase
OUTCOME = DevicesOutcome


def decide(case_input: DevicesCase, profile: KubeletProfile) -> DevicesOutcome:
    """Allocate step by step; where the kubelet has a choice, in the order of the case.

    Raises:
        BadInputError: a container that its pod has not, a bad quantity or NUMA node.
    """
    manager, calls = _manager(case_input, profile), _calls(case_input)
    steps = []
    for call in calls:
        error = allocate.decide(manager, call)
        steps.append(StepOutcome(error=error, devices=_held(manager, call)))
    return DevicesOutcome(steps=steps)


def judge(
    case_input: DevicesCase,
    profile: KubeletProfile,
    decided: DevicesOutcome,
    claimed: DevicesOutcome,
) -> Judgement:
    """Whether the steps can have come out so; each continues from what is claimed before it."""
    calls = _calls(case_input)
    if len(claimed.steps) != len(calls):
        return impossible(f"{len(claimed.steps)} steps came out, but there are {len(calls)}")
    managers = [_manager(case_input, profile)]
    for number, (call, step) in enumerate(zip(calls, claimed.steps, strict=True), start=1):
        claim = Claim(error=step.error, devices=step.devices)
        found = [admissible(m, call, claim) for m in managers]
        managers = [manager for one in found for manager in one.managers]
        if not managers:
            return impossible(f"step {number}: {found[0].why}")
    return ADMISSIBLE


def _manager(case: DevicesCase, profile: KubeletProfile) -> ManagerImpl:
    resources, allocated = case.resources or {}, case.allocated or ()
    return manager_of(case.numa_nodes, resources, allocated, profile.devices)


def _calls(case_input: DevicesCase) -> list[AllocateCall]:
    active = frozenset(case_input.active_pods or ()).union(
        step.pod.metadata.uid for step in case_input.steps
    )
    return [_call(index, step, active) for index, step in enumerate(case_input.steps)]


def _call(index: int, step: StepCase, active: frozenset[str]) -> AllocateCall:
    path = f"input.steps[{index}]"
    check_pod(f"{path}.pod", step.pod)
    found = step.pod.container(step.container)
    if found is None:
        raise BadInputError(f"{path}.container: the pod has no {step.container!r}")
    container, is_init = found
    affinity = step.affinity
    return AllocateCall(
        pod=step.pod.metadata.uid,
        container=step.container,
        limits=counted_limits(container),
        claimed=step.pod.claimed(step.container),
        is_init=is_init,
        is_restartable=is_init and container.is_restartable,
        affinity=None if affinity is None else mask_of(node_set(f"{path}.affinity", affinity)),
        active_pods=active,
    )


def _held(manager: ManagerImpl, call: AllocateCall) -> dict[str, DevicesPerNUMA]:
    held = manager.pod_devices.held_by(call.pod, call.container)
    return {
        resource: {node: sorted(ids) for node, ids in sorted(record.items())}
        for resource, record in sorted(held.items())
    }
