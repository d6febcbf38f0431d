"""Cases of the device manager as hint provider: one container or pod in, its hints out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from kubeledger.kubelet.cases.devices import DevicesCase, manager_of
from kubeledger.kubelet.cases.fields import (
    Strict,
    container_named,
    node_set,
)
from kubeledger.kubelet.cases.hints import HintOutcome, shown
from kubeledger.kubelet.devicemanager.topology_hints import (
    device_limits,
    pod_device_request,
    topology_hints,
)
from kubeledger.kubelet.kube.pod import lists_of_pods
from kubeledger.kubelet.kube.quantity import QuantityError
from kubeledger.kubelet.kube.resources import check_asked
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.kubelet.topologymanager.policy import Hints
from kubeledger.model.errors import BadInputError

NODES_MAX = 20
"""More nodes than this are refused: the kubelet would look at 2**n masks and hang."""


class HintsCase(DevicesCase, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Input: as for allocations, with one step, and the topology manager's scope."""

    scope: Literal["container", "pod"]


class HintsStep(Strict, frozen=True, kw_only=True):
    """Resource -> hints in the order generated; None for a resource without topology."""

    hints: dict[str, list[HintOutcome] | None]


class HintsOutcome(Strict, frozen=True, kw_only=True):
    """What came of the one step."""

    steps: list[HintsStep]


INPUT = HintsCase
OUTCOME = HintsOutcome


def decide(case_input: HintsCase, profile: KubeletProfile) -> HintsOutcome:
    """The hints that the device manager gives."""
    hints = _hints(case_input, profile)
    found = {name: None if each is None else list(map(shown, each)) for name, each in hints.items()}
    return HintsOutcome(steps=[HintsStep(hints=dict(sorted(found.items())))])


def nearest(
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
    manager = manager_of(
        case_input.numa_nodes, case_input.resources or {}, case_input.allocated or (), facts
    )
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
    hints: dict[str, list[HintOutcome] | None], nodes: Sequence[int]
) -> tuple[int, ...] | None:
    """An order of the machine's nodes in which these hints come in this order; None for none.

    Of two hints of one size, that one is first which has the first node that they do not
    share. So a node may be next in the order unless only the second of two such neighbours
    has it, and they are not yet ordered. Taking any such node rules out nothing.
    """
    open_pairs = [
        (set(one.numa_nodes), set(other.numa_nodes))
        for listed in hints.values()
        for one, other in pairwise(listed or ())
        if len(one.numa_nodes) == len(other.numa_nodes)
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
    hints: dict[str, list[HintOutcome] | None], nodes: tuple[int, ...]
) -> dict[str, list[HintOutcome] | None]:
    """The same hints as generated with the nodes of the machine in another order."""
    place = {node: index for index, node in enumerate(nodes)}

    def position(hint: HintOutcome) -> tuple[int, list[int]]:
        return len(hint.numa_nodes), sorted(place[node] for node in hint.numa_nodes)

    return {
        resource: None if listed is None else sorted(listed, key=position)
        for resource, listed in hints.items()
    }
