"""Cases of the device manager: a node, containers to allocate for, and what each gets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise, zip_longest
from typing import Annotated, Literal

import msgspec

from kubeledger.kubelet.cases.fields import (
    Strict,
    Subsystem,
    container_named,
    keyed,
    node_set,
)
from kubeledger.kubelet.cases.hints import Hint, shown
from kubeledger.kubelet.devicemanager import allocate
from kubeledger.kubelet.devicemanager.allocate import AllocateCall, admissible
from kubeledger.kubelet.devicemanager.manager import (
    HEALTHY,
    Device,
    DevicesPerNUMA,
    ManagerImpl,
    RpcError,
)
from kubeledger.kubelet.devicemanager.topology_hints import (
    device_limits,
    pod_device_request,
    topology_hints,
)
from kubeledger.kubelet.kube.pod import Pod, is_sidecar, lists_of_pods
from kubeledger.kubelet.kube.quantity import QuantityError
from kubeledger.kubelet.kube.resources import check_asked
from kubeledger.kubelet.profile.devices import DeviceFacts
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.kubelet.topologymanager.policy import BITS_MAX, Hints, mask_of
from kubeledger.model.errors import BadInputError

_NodeKey = Annotated[int, msgspec.Meta(ge=-1, le=BITS_MAX - 1)]
"""-1 stands for devices without topology."""


class ResourceCase(Strict, frozen=True, kw_only=True):
    """A resource and what its plugin answers.

    Attributes:
        preferred_order: device IDs, best first; None if the plugin offers no preference.
        allocate_error: what Allocate fails with, or empty.
        no_endpoint: the plugin is gone.
    """

    devices: list[Device]
    preferred_order: list[str] | None = None
    allocate_error: str = ""
    no_endpoint: bool = False


class Allocation(Strict, frozen=True, kw_only=True):
    """Devices that a container held from the start: NUMA node -> IDs."""

    pod_uid: str = msgspec.field(name="podUID")
    container: str = msgspec.field(name="containerName")
    resource: str = msgspec.field(name="resourceName")
    devices: dict[_NodeKey, list[str]] = msgspec.field(name="deviceIDs")


class ScriptedPlugin(msgspec.Struct, frozen=True):
    """A plugin that answers as the case says."""

    order: tuple[str, ...] | None
    error: str

    def preferred(
        self, available: frozenset[str], must_include: frozenset[str], size: int
    ) -> frozenset[str] | None:
        """What must be included first, then the order, as far as it is offered and fits."""
        if self.order is None:
            return None
        rest = [d for d in self.order if d in available and d not in must_include]
        return must_include.union(rest[: max(size - len(must_include), 0)])

    def allocate(self, devices: frozenset[str]) -> RpcError | None:
        """The error of the case, whatever the devices."""
        return RpcError(self.error) if self.error else None


def manager_of(
    numa_nodes: Iterable[int],
    resources: dict[str, ResourceCase],
    allocated: Iterable[Allocation],
    facts: DeviceFacts,
) -> ManagerImpl:
    """The device manager after its plugins reported and its ledger was restored."""
    manager = ManagerImpl(node_set("input.numaNodes", numa_nodes), facts)
    for name, resource in resources.items():
        manager.report(name, _devices(f"{keyed('input.resources', name)}.devices", resource))
        if not resource.no_endpoint:
            preferred = resource.preferred_order
            order = None if preferred is None else tuple(preferred)
            manager.register(name, ScriptedPlugin(order, resource.allocate_error))
    for entry in allocated:
        manager.pod_devices.insert(entry.pod_uid, entry.container, entry.resource, entry.devices)
    manager.restore_allocated()
    return manager


def _devices(path: str, resource: ResourceCase) -> list[Device]:
    devices: dict[str, Device] = {}
    for index, d in enumerate(resource.devices):
        if d.id in devices:
            raise BadInputError(f"{path}[{index}].ID: {d.id!r} is there twice")
        if d.health not in (HEALTHY, "Unhealthy"):
            raise BadInputError(f"{path}[{index}].health: invalid enum value {d.health!r}")
        node_set(f"{path}[{index}].numaNodes", d.numa_nodes or ())
        devices[d.id] = d
    return list(devices.values())


class StepCase(Strict, frozen=True, kw_only=True):
    """Allocate for one container, with the NUMA affinity stored for it (None for none)."""

    pod: Pod
    container: str
    affinity: list[int] | None = None


class DevicesCase(Strict, frozen=True, kw_only=True):
    """Input of a run of allocations.

    Attributes:
        allocated: what containers hold from the start.
        active_pods: UIDs, besides those of the pods in ``steps``.
    """

    numa_nodes: list[int]
    resources: dict[str, ResourceCase] | None
    allocated: list[Allocation] | None = None
    active_pods: list[str] | None = None
    steps: list[StepCase]


class StepOutcome(Strict, frozen=True, kw_only=True):
    """The error, or empty; and resource -> NUMA node -> IDs that the container holds then."""

    error: str
    devices: dict[str, DevicesPerNUMA]


class DevicesOutcome(Strict, frozen=True, kw_only=True):
    """What came of each step."""

    steps: list[StepOutcome]


def decide(case_input: DevicesCase, profile: KubeletProfile) -> DevicesOutcome:
    """Allocate step by step; where the kubelet has a choice, in the order of the case."""
    manager, calls = _manager(case_input, profile), _calls(case_input)
    steps = []
    for call in calls:
        steps.append(_allocated(manager, call))
    return DevicesOutcome(steps=steps)


def nearest(
    case_input: DevicesCase,
    profile: KubeletProfile,
    decided: DevicesOutcome,
    claimed: DevicesOutcome,
) -> DevicesOutcome:
    """Follow a claim step by step; each continues from what is claimed before it."""
    managers, steps = [_manager(case_input, profile)], list[StepOutcome]()
    for call, claim in zip_longest(_calls(case_input), claimed.steps):
        if call is None:
            break
        found = (
            []
            if claim is None
            else [
                after for m in managers for after in admissible(m, call, claim.error, claim.devices)
            ]
        )
        if claim is None or not found:
            steps.append(_allocated(managers[0], call))
            break
        managers = found
        steps.append(claim)
    return DevicesOutcome(steps=steps)


def _manager(case: DevicesCase, profile: KubeletProfile) -> ManagerImpl:
    resources, allocated = case.resources or {}, case.allocated or ()
    return manager_of(case.numa_nodes, resources, allocated, profile.devices)


def _calls(case_input: DevicesCase) -> list[AllocateCall]:
    check_asked(lists_of_pods(step.pod for step in case_input.steps))
    active = frozenset(case_input.active_pods or ()).union(
        step.pod.metadata.uid or "" for step in case_input.steps
    )
    return [_call(index, step, active) for index, step in enumerate(case_input.steps)]


def _call(index: int, step: StepCase, active: frozenset[str]) -> AllocateCall:
    path, pod, affinity = f"input.steps[{index}]", step.pod, step.affinity
    container = container_named(f"{path}.container", pod, step.container)
    is_init = any(each is container for each in pod.spec.init_containers or ())
    nodes = None if affinity is None else node_set(f"{path}.affinity", affinity)
    return AllocateCall(
        pod=pod.metadata.uid or "",
        container=step.container,
        limits=device_limits(container),
        claimed=_claimed(pod, step.container),
        is_init=is_init,
        is_restartable=is_init and is_sidecar(container),
        affinity=None if nodes is None else mask_of(nodes),
        active_pods=active,
    )


def _claimed(pod: Pod, container: str) -> frozenset[str]:
    """Resources of a container that a resource claim of the pod stands for."""
    claim = pod.status.extended_resource_claim_status if pod.status is not None else None
    mappings = claim.request_mappings if claim is not None else None
    return frozenset(m.resource_name for m in mappings or () if m.container_name == container)


def _allocated(manager: ManagerImpl, call: AllocateCall) -> StepOutcome:
    error = allocate.decide(manager, call)
    held = manager.pod_devices.held_by(call.pod, call.container)
    devices = {
        resource: {node: sorted(ids) for node, ids in sorted(record.items())}
        for resource, record in sorted(held.items())
    }
    return StepOutcome(error=error, devices=devices)


DEVICES = Subsystem(DevicesCase, DevicesOutcome, decide, nearest)


# ``topologyhints``: the device manager as hint provider, one container or pod in, its hints out.

NODES_MAX = 20
"""More nodes than this are refused: the kubelet would look at 2**n masks and hang."""


class HintsCase(DevicesCase, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Input: as for allocations, with one step, and the topology manager's scope."""

    scope: Literal["container", "pod"]


class HintsStep(Strict, frozen=True, kw_only=True):
    """Resource -> hints in the order generated; None for a resource without topology."""

    hints: dict[str, list[Hint] | None]


class HintsOutcome(Strict, frozen=True, kw_only=True):
    """What came of the one step."""

    steps: list[HintsStep]


def decide_topologyhints(case_input: HintsCase, profile: KubeletProfile) -> HintsOutcome:
    """The hints that the device manager gives."""
    hints = _hints(case_input, profile)
    found = {name: None if each is None else list(map(shown, each)) for name, each in hints.items()}
    return HintsOutcome(steps=[HintsStep(hints=dict(sorted(found.items())))])


def nearest_topologyhints(
    case_input: HintsCase, profile: KubeletProfile, decided: HintsOutcome, claimed: HintsOutcome
) -> HintsOutcome:
    """There is no choice, except that 1.19 takes the nodes of the machine in any order."""
    if profile.devices.hints_in_machine_order or len(claimed.steps) != 1:
        return decided
    order = _order_after(claimed.steps[0].hints, case_input.numa_nodes)
    mine = decided.steps[0].hints
    return HintsOutcome(steps=[HintsStep(hints=mine if order is None else _ordered(mine, order))])


def _hints(case_input: HintsCase, profile: KubeletProfile) -> dict[str, Hints | None]:
    if len(case_input.steps) != 1:
        raise BadInputError(f"input.steps: one step is needed, not {len(case_input.steps)}")
    if case_input.scope == "pod" and not profile.topology.pod_scope:
        raise BadInputError(f"input.scope: kubelet {profile.version} has no scope pod")
    if len(case_input.numa_nodes) > NODES_MAX:
        raise BadInputError(f"input.numaNodes: more than {NODES_MAX} nodes")
    facts, step = profile.devices, case_input.steps[0]
    check_asked(lists_of_pods((step.pod,)))
    asked = container_named("input.steps[0].container", step.pod, step.container)
    node_set("input.steps[0].affinity", step.affinity or ())
    manager = _manager(case_input, profile)
    uid = step.pod.metadata.uid or ""
    active = {uid, *(case_input.active_pods or ())}
    container = None if case_input.scope == "pod" else step.container
    if container is None:
        try:
            requests = pod_device_request(step.pod.spec, facts)
        except QuantityError as error:
            raise BadInputError(f"input.steps[0].pod: the sum of its limits: {error}") from None
    else:
        requests = device_limits(asked)
    return topology_hints(manager, uid, container, requests, active)


def _order_after(
    hints: dict[str, list[Hint] | None], nodes: Sequence[int]
) -> tuple[int, ...] | None:
    """An order of the machine's nodes in which these hints come in this order; None for none.

    Of two hints of one size, that one is first which has the first node that they do not
    share. So a node may be next in the order unless only the second of two such neighbours
    has it, and they are not yet ordered. Taking any such node rules out nothing.
    """
    open_pairs = [
        (one, other)
        for listed in hints.values()
        for one, other in pairwise([set(hint.numa_nodes or ()) for hint in listed or ()])
        if len(one) == len(other)
    ]
    order: list[int] = []
    left = list(nodes)
    while left:
        held_back: set[int] = set().union(*(other - one for one, other in open_pairs))
        chosen = next((node for node in left if node not in held_back), None)
        if chosen is None:
            return None
        left.remove(chosen)
        order.append(chosen)
        open_pairs = [pair for pair in open_pairs if chosen not in pair[0] - pair[1]]
    return tuple(order)


def _ordered(
    hints: dict[str, list[Hint] | None], nodes: tuple[int, ...]
) -> dict[str, list[Hint] | None]:
    """The same hints as generated with the nodes of the machine in another order."""
    place = {node: index for index, node in enumerate(nodes)}

    def position(hint: Hint) -> tuple[int, list[int]]:
        places = sorted(place[node] for node in hint.numa_nodes or ())
        return len(places), places

    return {
        resource: None if listed is None else sorted(listed, key=position)
        for resource, listed in hints.items()
    }


TOPOLOGYHINTS = Subsystem(HintsCase, HintsOutcome, decide_topologyhints, nearest_topologyhints)
