"""Cases of the device manager as hint provider: one container or pod in, its hints out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Literal

from kubeledger.kubelet.cases.devices import DevicesCase, manager_of
from kubeledger.kubelet.cases.fields import (
    ADMISSIBLE,
    Judgement,
    Strict,
    container_named,
    impossible,
    node_set,
)
from kubeledger.kubelet.cases.hints import HintOutcome, shown
from kubeledger.kubelet.devicemanager.topology_hints import (
    Wanted,
    device_limits,
    pod_device_request,
    topology_hints,
    wanted,
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
    hints, _ = _hints(case_input, profile)
    found = {name: None if each is None else list(map(shown, each)) for name, each in hints.items()}
    return HintsOutcome(steps=[HintsStep(hints=dict(sorted(found.items())))])


def judge(
    case_input: HintsCase, profile: KubeletProfile, decided: HintsOutcome, claimed: HintsOutcome
) -> Judgement:
    """Whether these are the hints that the device manager gives.

    It has no choice, except that 1.19 takes the nodes of the machine in any order.
    """
    if len(claimed.steps) != 1:
        return impossible(f"there is one step, not {len(claimed.steps)}")
    _, wanted_of = _hints(case_input, profile)
    asked = wanted_of()
    mine, theirs = decided.steps[0].hints, claimed.steps[0].hints
    if not profile.devices.hints_in_machine_order:
        order = _order_after(theirs, case_input.numa_nodes)
        if order is not None and not _difference(_ordered(mine, order), theirs, asked):
            return ADMISSIBLE
    return impossible(_difference(mine, theirs, asked))


def _hints(
    case_input: HintsCase, profile: KubeletProfile
) -> tuple[dict[str, Hints | None], Callable[[], dict[str, Wanted]]]:
    """The hints, and what is asked for by resource."""
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
    hints = topology_hints(manager, uid, container, requests, active)
    return hints, lambda: {
        resource: wanted(manager, uid, container, resource, requested)
        for resource, requested in requests.items()
    }


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


def _difference(
    mine: dict[str, list[HintOutcome] | None],
    theirs: dict[str, list[HintOutcome] | None],
    asked: Mapping[str, Wanted],
) -> str:
    """Why the hints are not those claimed; empty if they are."""
    for resource in sorted(mine.keys() | theirs.keys()):
        if resource not in mine:
            why = f"no device plugin serves {resource}"
            why = why if resource in asked else f"{resource} is not requested"
            return f"there are no hints for {resource}: {why}"
        if resource not in theirs:
            return f"there are hints for {resource} as well: it is requested, and has a plugin"
        one, other = mine[resource], theirs[resource]
        if one == other:
            continue
        if one is None or other is None:
            has = "no preference" if one is None else "a preference"
            return f"{resource} has {has} for NUMA nodes: {preference(asked[resource])}"
        return _first_difference(asked[resource], one, other)
    return ""


def _first_difference(asked: Wanted, mine: list[HintOutcome], theirs: list[HintOutcome]) -> str:
    resource = asked.resource
    if not mine:
        return f"there is no hint for {resource}: {no_hint(asked)}"
    for index, hint in enumerate(mine):
        if index < len(theirs) and theirs[index] == hint:
            continue
        kind = "preferred" if hint.preferred else "not preferred"
        why = given(asked, hint.numa_nodes, preferred=hint.preferred)
        own = [other.numa_nodes for other in mine]
        if index < len(theirs) and theirs[index].numa_nodes not in own:
            why = not_given(asked, theirs[index].numa_nodes)
        return f"hint {index + 1} for {resource} is nodes {list(hint.numa_nodes)}, {kind}: {why}"
    why = not_given(asked, theirs[len(mine)].numa_nodes)
    return f"there are only {len(mine)} hints for {resource}: {why}"


def preference(wanted: Wanted) -> str:
    """Why a resource has hints at all, or none."""
    if wanted.manager.has_topology_alignment(wanted.resource):
        return "one of its devices has a topology"
    return "none of its devices has a topology"


def no_hint(wanted: Wanted) -> str:
    """Why a resource with topology has an empty list."""
    asked, held = wanted.requested, len(wanted.held)
    if held and held != asked:
        return f"{_devices(held)} held, {asked} requested"
    if wanted.shortage is not None:
        return f"{_devices(wanted.shortage)} free, {asked} requested"
    return f"no set of nodes has all it must and {_devices(asked)} that can be had"


def given(wanted: Wanted, nodes: Sequence[int], *, preferred: bool) -> str:
    """Why there is this hint, with this preference."""
    asked = wanted.requested
    text = f"{_devices(_on(wanted, wanted.usable, nodes))} available there, {asked} requested"
    if preferred:
        return f"{text}, and no smaller set of nodes has {_devices(asked)}, used or not"
    return f"{text}, but a smaller set of nodes has {_devices(asked)}, used or not"


def not_given(wanted: Wanted, nodes: Sequence[int]) -> str:
    """Why there is no hint of these nodes."""
    if list(nodes) != sorted(set(nodes)):
        return "the nodes of a hint are listed in ascending order, each once"
    if not nodes or not set(nodes) <= set(wanted.nodes):
        return f"hints are made of the nodes {list(wanted.nodes)}"
    named, must = f"nodes {list(nodes)}", wanted.required
    if len(must) > _on(wanted, must, nodes):
        return f"{named} do not have all devices that init containers of the pod left"
    on, asked = _on(wanted, wanted.usable, nodes), wanted.requested
    if on < asked:
        return f"{_devices(on)} available on {named}, {asked} requested"
    return f"each set of nodes comes once, smaller ones first, and {named} not here"


def _on(wanted: Wanted, devices: Iterable[str], nodes: Collection[int]) -> int:
    """How many of the devices are on one of the nodes."""
    known = (wanted.manager.numa_node_ids(wanted.resource, device) for device in devices)
    return sum(not set(nodes).isdisjoint(each) for each in known)


def _devices(count: int) -> str:
    return f"{count} device" if count == 1 else f"{count} devices"
