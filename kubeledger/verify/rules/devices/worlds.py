"""What the device manager would decide: in all worlds that evidence leaves open, and in words.

What is open is a must/may set, so that no product of worlds is needed. Of all worlds those matter
that suit a grant best and worst, in all inputs or in one; what a refusal says depends on how many
devices are free, and on whether the resource is registered, so those with the fewest devices, the
most, and as many as are known. All are stepped by the device manager's decider. What the plugin or
the disk answered is in the error alone: such an error is possible whenever the plugin was asked.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from kubeledger.kubelet.devicemanager.allocate import misfit
from kubeledger.kubelet.devicemanager.manager import HEALTHY, Device, ManagerImpl
from kubeledger.kubelet.devicemanager.plans import Refusal, Request, plans, take
from kubeledger.kubelet.topologymanager.policy import bits_of
from kubeledger.model.bodies.devicemanager import NO_HINTS, AllocationFailed
from kubeledger.verify.belief import WORST_FIRST, Judgement, Ruling, judge, lacks, open_to, same
from kubeledger.verify.rules.devices.evidence import OPEN, Evidence, Topic

_ALL: frozenset[Topic] = frozenset(OPEN)
_Devices = frozenset[str]
_Nodes = tuple[int, ...] | None


def granted(evidence: Evidence, claimed: _Devices) -> Judgement:
    """Whether the kubelet can have taken the devices that are said to be granted.

    That it cannot is only said if it could not whatever lines were lost. Of affinities that
    are disputed, one is the stored one: the claim may go by any of them.
    """
    found = [
        _granted(replace(evidence, affinities=masks), claimed)
        for masks in ([(m,) for m in evidence.affinities] if evidence.affinities else [()])
    ]
    return max(found, key=lambda one: WORST_FIRST.index(one.verdict))


def _granted(evidence: Evidence, claimed: _Devices) -> Judgement:
    fits, _, why = _try(evidence, claimed, _ALL)
    # What ``decide`` takes is shown for the world that suits best, but for the plugin's wishes.
    _, likely, _ = _try(evidence, claimed, _ALL - {"preferred"})
    expected = {"device_ids": sorted(likely)} if likely else None
    if not fits:
        why = f"{why}: {surroundings(evidence)}"
        if _try(evidence.opened(), claimed, _ALL)[0]:
            return open_to(evidence.lost(), denied=why)
        return same(False, why, expected=expected)
    is_open = evidence.open_topics()
    why, assumes = taken(evidence, claimed), evidence.inputs(is_open, claimed)
    chosen = likely == claimed
    rulings = [Ruling(allowed=True, chosen=chosen, expected=expected, why=why, assumes=assumes)]
    for topic in is_open:
        fits, _, why = _try(evidence, claimed, _ALL - {topic})
        if not fits:
            rest = evidence.inputs((t for t in is_open if t != topic), claimed)
            rulings.append(Ruling(allowed=False, why=why, assumes=rest))
    fits, _, why = _try(evidence, claimed, frozenset())
    if not fits and len(rulings) == 1:  # only several open inputs together deny it
        rulings.append(Ruling(allowed=False, why=why))
    return judge(rulings)


def _try(
    evidence: Evidence, claimed: _Devices, suits: frozenset[Topic]
) -> tuple[bool, _Devices | None, str]:
    """Whether a claim fits if only topics in ``suits`` suit it; what ``decide`` takes; why not."""
    affinities: Iterable[int | None] = evidence.affinities
    if not affinities:
        # Without an affinity any free device will do, which suits every claim; against one, each.
        each_node = (1 << node for node in evidence.numa_nodes)
        affinities = (None,) if "affinity" in suits else (None, *each_node)
    tried = []
    for affinity in affinities:
        manager = _world(evidence, claimed, suits, affinity)
        tried.append(_fits(manager, evidence.request(affinity), claimed))
    fits = (any if "affinity" in suits else all)(not why for _, why in tried)
    choice = next((choice for choice, why in tried if bool(why) != fits), tried[0][0])
    return fits, choice, "" if fits else next(why for _, why in tried if why)


def _fits(manager: ManagerImpl, request: Request, claimed: _Devices) -> tuple[_Devices | None, str]:
    """What ``decide`` takes, and why it cannot be the claim ("" where it can)."""
    choice: _Devices | None = None
    whys = []
    order = sorted(manager.all_devices[request.resource])
    for plan in plans(manager, request):
        if isinstance(plan, Refusal):
            whys.append(f"the kubelet fails here with: {plan.error}")
            continue
        choice = take(plan, order) if choice is None else choice
        why = "the container holds all it requests, so nothing is allocated"
        whys.append(misfit(manager, request, plan, claimed) if plan.size else why)
    return choice, "" if "" in whys else whys[0]


def _world(
    evidence: Evidence, claimed: _Devices, suits: frozenset[Topic], affinity: int | None
) -> ManagerImpl:
    """The device manager where open inputs suit a claim, or do not."""
    listed, in_use, resource = evidence.listed, evidence.in_use, evidence.resource
    # The fewer devices there are besides the claimed ones, the better for the claim.
    possible = listed.maybe if listed.complete else listed.maybe | claimed
    healthy = listed.healthy | (claimed & possible)
    if "health" not in suits:
        healthy = possible - (claimed - listed.healthy)
    open_use = in_use.maybe - evidence.reuse | (healthy if in_use.unknown else frozenset())
    used = in_use.certain - evidence.reuse
    used |= open_use - claimed if "use" in suits else open_use & claimed
    manager = evidence.manager(healthy, used, claimed if "preferred" in suits else None)
    devices = manager.all_devices[resource] = dict[str, Device]()
    for device in sorted(healthy | used | evidence.reuse | claimed & listed.known):
        is_near = (device in claimed) == ("numa" in suits)
        nodes = _nodes(evidence, device, affinity, suits=is_near)
        devices[device] = Device(device, HEALTHY, nodes)
    for device in sorted((claimed & used) & in_use.holders.keys()):
        whose, its, _ = in_use.holders[device][0]  # only for the message
        name = whose if whose == evidence.holder[0] else evidence.name_of(whose)
        manager.pod_devices.insert(name, its, resource, {0: [device]})
    return manager


def _nodes(evidence: Evidence, device: str, affinity: int | None, *, suits: bool) -> _Nodes:
    known, nodes = evidence.nodes_of(device)
    if known or affinity is None:
        return nodes
    if suits:
        return tuple(bits_of(affinity))
    outside = next((node for node in evidence.numa_nodes if not affinity >> node & 1), None)
    # On a machine without another node, a plugin may still name one that is not there.
    return (outside if outside is not None else affinity.bit_length(),)


# Refused containers.

_SHORTAGE = re.compile(
    r"requested number of devices unavailable for \S+\. Requested: (-?\d+), Available: (-?\d+)"
)
_OPEN: Final[tuple[Topic, ...]] = ("registered", "health", "use")
_ANSWERS = (
    "rpc error: ",
    "endpoint /",
    "endpoint unix",
    "no containers return in allocation response",
    "device plugin GetPreferredAllocation rpc failed",
    "failed to write checkpoint file",
)
"""Errors that are what the plugin, or the disk, answered."""


class _Said(NamedTuple):
    """An error, empty for success, with its counts where it is about these."""

    error: str
    requested: int | None = None
    available: int | None = None


def refused(body: AllocationFailed, evidence: Evidence) -> Judgement:
    """Whether the kubelet says so here."""
    counted = body.error == NO_HINTS or _SHORTAGE.fullmatch(body.error)
    given = _Said(body.error, *((body.requested, body.available) if counted else ()))
    said = _said(evidence, given)
    is_answer = body.error.startswith(_ANSWERS)
    asks = f"container {evidence.holder[1]} requests {times(evidence.required, 'device')}"
    if is_answer and _Said("") in said:
        why = (
            f"{asks}: the plugin of {evidence.resource} was called, and the error is its answer, "
            "or that of the disk, which nothing else shows"
        )
        return judge([Ruling(allowed=True, chosen=False, why=why, expected={})])
    # Where no checkpoint names any device, of what the plugin listed nothing is known.
    unnamed = is_answer and not evidence.is_exact() and not evidence.listed.maybe
    around, only = surroundings(evidence), next(iter(said)) if len(said) == 1 else None
    expected: dict[str, Any] | None = None
    if only is not None and only.error:
        expected = {name: value for name, value in only._asdict().items() if value is not None}
    if given not in said and not unnamed:
        errors = " or ".join(sorted({each.error or "no error" for each in said}))
        return same(False, f"the kubelet comes to {errors} here: {around}", expected=expected)
    if only is None or unnamed:
        return lacks(evidence.inputs(evidence.open_topics(_OPEN) or ("health",)))
    why = f"{asks} of {evidence.resource}: {body.error}"
    if counted:
        needed = f"{body.requested} {evidence.resource}"
        why = f"container {evidence.holder[1]} needs {needed}, more than the {around}"
    return same(True, why, expected=expected)


def _said(evidence: Evidence, given: _Said) -> set[_Said]:
    """What the kubelet may say: with the fewest devices free, the most, and those known."""
    listed, in_use, reuse = evidence.listed, evidence.in_use, evidence.reuse
    certain = in_use.certain - reuse
    few, many = listed.healthy, listed.maybe
    perhaps = (in_use.maybe | few if in_use.unknown else in_use.maybe) - reuse
    if not listed.complete:  # stand-ins for devices that no record names, as many as matter
        all_well = listed.count is not None and listed.count == listed.total
        named = many | certain | reuse if all_well else many
        unnamed = evidence.required if listed.count is None else listed.count - len(named)
        many |= _stand_ins(min(unnamed, evidence.required))
        if all_well and not in_use.unknown:
            few |= _stand_ins((listed.count or 0) - len(few | certain | perhaps | reuse))
    worlds = [(few, certain | perhaps), (many, certain)]
    asked_for = given.available if given.error != NO_HINTS else (given.available or 0) - len(reuse)
    most = sorted(many - certain - reuse)
    least = len(few - certain - perhaps - reuse)
    if asked_for is not None and least <= asked_for <= len(most):
        worlds.append((many, certain.union(most[asked_for:])))
    return {
        said
        for healthy, used in worlds
        for registered in ((True, False) if listed.registered is None else (listed.registered,))
        for said in _said_in(evidence, healthy if registered else None, used, given)
    }


def _said_in(
    evidence: Evidence, healthy: frozenset[str] | None, used: frozenset[str], given: _Said
) -> set[_Said]:
    """What it says in one world; ``healthy`` is None where the resource is not registered."""
    required = evidence.required
    if given.error == NO_HINTS:  # all devices are counted, those to be used again as there
        there = len((healthy or frozenset()) - used - evidence.reuse) + len(evidence.reuse)
        return {_Said(NO_HINTS, required, there) if there < required else _Said("")}
    manager = evidence.manager(healthy or frozenset(), used)
    if healthy is None:
        manager.healthy.clear()
    found = set()
    for plan in plans(manager, evidence.request(None)):
        error = plan.error if isinstance(plan, Refusal) else ""
        counts = _SHORTAGE.fullmatch(error)
        found.add(_Said(error, *map(int, counts.groups())) if counts else _Said(error))
    return found


def _stand_ins(count: int) -> frozenset[str]:
    return frozenset(f"<{index}>" for index in range(count))


# In words.

_LISTED_MAX = 16
_SHOWN_MAX = 8


def listing(ids: Collection[str]) -> str:
    """IDs in order; a long list is cut."""
    ordered = sorted(ids)
    more = f" and {len(ordered) - _LISTED_MAX} more" if len(ordered) > _LISTED_MAX else ""
    return f"{', '.join(ordered[:_LISTED_MAX])}{more}" if ordered else "none"


def joined(parts: Iterable[str]) -> str:
    """``a, b and c``."""
    *most, last = [*parts] or [""]
    return f"{', '.join(most)} and {last}" if most else last


def times(count: int, noun: str) -> str:
    """``1 device``, ``2 devices``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def nodes_text(mask: int | None) -> str:
    """``NUMA node 0``, ``NUMA nodes 0 and 1``, ``any NUMA node``."""
    if mask is None:
        return "any NUMA node"
    nodes = [str(node) for node in bits_of(mask)]
    return f"NUMA node{'s' if len(nodes) != 1 else ''} {joined(nodes) or 'none'}"


def surroundings(evidence: Evidence) -> str:
    """Which devices were there, which were free, and who held the others."""
    listed, in_use, free = evidence.listed, evidence.in_use, evidence.perhaps_free
    perhaps = "" if evidence.is_exact() else "perhaps "
    parts = [f"{times(len(free), f'{perhaps}free healthy device')}: {listing(free)}"]
    by_holder: dict[str, list[str]] = {}
    for device in sorted(in_use.certain | in_use.maybe):
        holders = in_use.holders[device]
        names = joined(f"{evidence.name_of(pod)}/{container}" for pod, container, _ in holders)
        held = "held" if device in in_use.certain else "perhaps held"
        by_holder.setdefault(f"{held} by {names}", []).append(device)
    for held_by, ids in list(by_holder.items())[:_SHOWN_MAX]:
        parts.append(f"{listing(ids)} {held_by}")
    if listed.complete and (sick := listed.known - listed.maybe):
        parts.append(f"{listing(sick)} not healthy")
    return "; ".join(parts)


def taken(evidence: Evidence, devices: frozenset[str]) -> str:
    """``gpu-1 was taken out of the 3 free healthy devices gpu-1, gpu-2, gpu-3; ...``."""
    reused, free = devices & evidence.reuse, evidence.perhaps_free
    fresh = devices - reused
    out_of = f"the {times(len(free), 'free healthy device')} {listing(free)}"
    clauses = [f"{_were(reused)} taken over from an init container of the pod"] if reused else []
    clauses += [f"{_were(fresh)} taken out of {out_of}"] if fresh else []
    _, container, resource = evidence.holder
    asks = f"container {container} asks for {evidence.required} {resource}"
    parts = [f"{asks}: {' and '.join(clauses)}", *surroundings(evidence).split("; ")[1:]]
    if fresh and len(set(evidence.affinities)) == 1 and (mask := evidence.affinities[0]):
        wanted = set(bits_of(mask))
        on_it = [d for d in free if wanted.intersection(evidence.nodes_of(d)[1] or ())]
        are = "is" if len(on_it) == 1 else "are"
        aligned = f"the container is aligned to {nodes_text(mask)}"
        parts.append(f"{aligned}, where {listing(on_it)} {are}")
    return "; ".join(parts)


def _were(devices: Collection[str]) -> str:
    return f"{joined(sorted(devices))} {'was' if len(devices) == 1 else 'were'}"
