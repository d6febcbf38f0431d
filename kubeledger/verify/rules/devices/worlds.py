"""Granted devices: can the kubelet have taken them, where evidence leaves open what it had?

What is open is a must/may set, so that no product of worlds is needed: of all worlds those matter
that suit a claim best and worst, in all inputs or in one. They are stepped by the device
manager's decider.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kubeledger.kubelet.devicemanager.explain import misfit
from kubeledger.kubelet.devicemanager.manager import HEALTHY, Device, ManagerImpl
from kubeledger.kubelet.devicemanager.plans import Refusal, Request, plans, take
from kubeledger.kubelet.topologymanager.bitmask import bits_of
from kubeledger.verify.belief import WORST_FIRST, Judgement, Ruling, judge, open_to, same
from kubeledger.verify.rules.devices.evidence import OPEN, Evidence, Topic
from kubeledger.verify.rules.devices.words import surroundings, taken

_ALL: frozenset[Topic] = frozenset(OPEN)
_Devices = frozenset[str]
_Nodes = tuple[int, ...] | None


def granted(evidence: Evidence, claimed: _Devices) -> Judgement:
    """Whether the kubelet can have taken these devices.

    That it cannot is only said if it could not whatever lines were lost. Of affinities that
    are disputed, one is the stored one: the claim may go by any of them.

    Args:
        evidence: what was there.
        claimed: what is said to be granted.
    """
    found = [
        _granted(msgspec.structs.replace(evidence, affinities=masks), claimed)
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
    suited = Ruling(
        allowed=True,
        chosen=likely == claimed,
        expected=expected,
        why=taken(evidence, claimed),
        assumes=evidence.inputs(is_open, claimed),
    )
    rulings = [suited]
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
    """Whether a claim fits, with the topics in ``suits`` settled for it and others against it.

    Returns:
        whether it fits; what ``decide`` takes; why it does not fit.
    """
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
    manager.all_devices[resource] = {
        device: Device(device, HEALTHY, _nodes(evidence, device, claimed, suits, affinity))
        for device in sorted(healthy | used | evidence.reuse | claimed & listed.known)
    }
    for device in sorted((claimed & used) & in_use.holders.keys()):
        whose, its, _ = in_use.holders[device][0]  # only for the message
        name = whose if whose == evidence.holder[0] else evidence.name_of(whose)
        manager.pod_devices.insert(name, its, resource, {0: [device]})
    return manager


def _nodes(
    evidence: Evidence,
    device: str,
    claimed: _Devices,
    suits: frozenset[Topic],
    affinity: int | None,
) -> _Nodes:
    known, nodes = evidence.nodes_of(device)
    if known or affinity is None:
        return nodes
    if (device in claimed) == ("numa" in suits):
        return tuple(bits_of(affinity))
    outside = next((node for node in evidence.numa_nodes if not affinity >> node & 1), None)
    # On a machine without another node, a plugin may still name one that is not there.
    return (outside if outside is not None else affinity.bit_length(),)
