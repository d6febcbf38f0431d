"""Worlds of the device manager: what it may have held where evidence leaves it open.

Four inputs may be open: which devices were healthy, which were in use, on which NUMA nodes
they are, and to which nodes the container was aligned; the plugin's answer is always. Each is
a must/may set, so that no product of worlds is needed: of all worlds those matter that suit a
claim best and worst, in all inputs or in one. They are stepped by the device manager's decider.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Literal

import msgspec

from kubeledger.kubelet.devicemanager.allocate import Refusal, Request, plans, take
from kubeledger.kubelet.devicemanager.manager import HEALTHY, Device, ManagerImpl
from kubeledger.kubelet.devicemanager.refute import misfit
from kubeledger.kubelet.profile.devices import DeviceFacts
from kubeledger.kubelet.topologymanager.bitmask import bits_of
from kubeledger.verify.belief import WORST_FIRST, Judgement, Ruling, judge
from kubeledger.verify.rules.devices.foresight import Holder
from kubeledger.verify.rules.devices.holdings import InUse
from kubeledger.verify.rules.devices.lists import Listed

__all__ = ["Evidence", "Topic", "errors_in", "granted"]

Topic = Literal["health", "use", "numa", "affinity", "preferred", "registered"]
"""An input that may be open."""

_OPEN: tuple[Topic, ...] = ("health", "use", "numa", "affinity", "preferred")
_ALL: frozenset[Topic] = frozenset(_OPEN)
_Devices = frozenset[str]
_Nodes = tuple[int, ...] | None


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known when a container asks for devices of one resource.

    Attributes:
        holder: who asks for what; ``required``: for how many.
        held: what the container holds already; None for nothing.
        reuse: devices that the pod's init containers are done with.
        listed: the plugin's devices.
        in_use: devices of others, those of ``reuse`` among them.
        nodes_of: device -> whether its NUMA nodes are known, and which; None for no topology.
        name_of: pod key -> its name, for people.
        affinities: (n,) masks that may be stored for the container, None for none; empty
            when nothing tells.
        numa_nodes: of the machine.
        facts: of the kubelet version.
        surely: whether a container certainly holds its devices, whatever lines were lost.
        seqs: (n,) records that tell it.
    """

    holder: Holder
    required: int
    held: _Devices | None
    reuse: _Devices
    listed: Listed
    in_use: InUse
    nodes_of: Callable[[str], tuple[bool, _Nodes]]
    name_of: Callable[[str], str]
    affinities: tuple[int | None, ...]
    numa_nodes: tuple[int, ...]
    facts: DeviceFacts
    surely: Callable[[Holder], bool]
    seqs: tuple[int, ...] = ()

    @property
    def resource(self) -> str:
        """What is asked for."""
        return self.holder[2]

    def opened(self) -> Evidence:
        """What is certain whatever lines were lost: others may hold devices, or no more do."""
        in_use = self.in_use
        sure = frozenset(d for d in in_use.certain if any(map(self.surely, in_use.holders[d])))
        maybe = in_use.maybe | in_use.certain - sure
        in_use = msgspec.structs.replace(in_use, certain=sure, maybe=maybe, unknown=True)
        return msgspec.structs.replace(self, in_use=in_use, listed=self.listed.opened())

    @property
    def free(self) -> _Devices:
        """Devices that were certainly to be had."""
        if self.in_use.unknown:
            return frozenset()
        return self.listed.healthy - self.in_use.certain - self.in_use.maybe - self.reuse

    @property
    def perhaps_free(self) -> _Devices:
        """Devices that may have been to be had."""
        return self.listed.maybe - self.in_use.certain - self.reuse

    def is_exact(self) -> bool:
        """Nothing is open but the kubelet's own choice, and NUMA nodes."""
        return self.listed.complete and not self.in_use.unknown and self.free == self.perhaps_free

    def inputs(self, topics: Iterable[Topic], devices: Collection[str] = ()) -> tuple[str, ...]:
        """Topics as inputs that are missing; ``devices`` are those of a claim."""
        resource = self.resource
        asked = self.perhaps_free.union(devices)
        unknown = [device for device in asked if not self.nodes_of(device)[0]]
        phrases: dict[Topic, str] = {
            "health": f"the healthy devices of {resource} at that time",
            "use": f"all holders of {resource} at that time",
            "numa": f"the NUMA nodes of {', '.join(sorted(unknown))} of {resource}",
            "affinity": f"the affinity of container {self.holder[1]}",
            "preferred": f"the answer to GetPreferredAllocation of the plugin of {resource}",
            "registered": f"whether {resource} was registered at that time",
        }
        return tuple(phrases[topic] for topic in topics)

    def open_topics(self) -> tuple[Topic, ...]:
        """Inputs that are open at all, when devices are claimed."""
        nodes_known = all(self.nodes_of(device)[0] for device in self.perhaps_free)
        is_open: dict[Topic, bool] = {
            "health": not self.listed.complete,
            "use": self.in_use.unknown or bool(self.in_use.maybe),
            "numa": self.affinities != (None,) and not nodes_known,
            "affinity": len(self.affinities) != 1,
            "preferred": True,
        }
        return tuple(topic for topic in _OPEN if is_open[topic])

    def lost(self) -> tuple[Topic, ...]:
        """What a line that was lost may have told."""
        return ("use",) if self.listed.firm else ("health", "use")


class _Plugin:
    """A plugin whose preference is given, and whose Allocate succeeds."""

    def __init__(self, preference: _Devices | None) -> None:
        self._preference = preference

    def preferred(self, available: _Devices, must: _Devices, size: int) -> _Devices | None:
        return self._preference

    def allocate(self, devices: _Devices) -> None:
        return None


def granted(evidence: Evidence, claimed: _Devices, taken: str, around: str) -> Judgement:
    """Whether the kubelet can have taken these devices.

    That it cannot is only said if it could not whatever lines were lost. Of affinities that
    are disputed, one is the stored one: the claim may go by any of them.

    Args:
        evidence: what was there.
        claimed: what is said to be granted.
        taken: words for a grant that is right.
        around: words for what was there.
    """
    found = [
        _granted(msgspec.structs.replace(evidence, affinities=masks), claimed, taken, around)
        for masks in ([(m,) for m in evidence.affinities] if evidence.affinities else [()])
    ]
    return max(found, key=lambda one: WORST_FIRST.index(one.verdict))


def _granted(evidence: Evidence, claimed: _Devices, taken: str, around: str) -> Judgement:
    fits, _, why = _try(evidence, claimed, _ALL)
    # What ``decide`` takes is told of the world that suits best, but for the plugin's wishes.
    _, likely, _ = _try(evidence, claimed, _ALL - {"preferred"})
    expected = {"device_ids": sorted(likely)} if likely else None
    if not fits:
        told = Ruling(allowed=False, why=f"{why}: {around}", expected=expected)
        lost = Ruling(allowed=_try(evidence.opened(), claimed, _ALL)[0], why=told.why,
                      expected=expected, assumes=evidence.inputs(evidence.lost()))  # fmt: skip
        return judge([told, lost])
    is_open = evidence.open_topics()
    rulings = [Ruling(allowed=True, chosen=likely == claimed, expected=expected, why=taken,
                      assumes=evidence.inputs(is_open, claimed))]  # fmt: skip
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
    why, choice, results = "", None, []
    for affinity in _affinities(evidence, suits):
        manager = _world(evidence, claimed, suits, affinity)
        request = _request(evidence, affinity)
        fitting, taken, reason = _fits(manager, request, evidence, claimed)
        results.append(fitting)
        if choice is None or (fitting and not all(results[:-1])):
            choice = taken
        why = why or reason
    fits = any(results) if "affinity" in suits else all(results)
    return fits, choice, "" if fits else why


def _fits(
    manager: ManagerImpl, request: Request, evidence: Evidence, claimed: _Devices
) -> tuple[bool, _Devices | None, str]:
    choice: _Devices | None = None
    why = ""
    order = sorted(manager.all_devices[evidence.resource])
    for plan in plans(manager, request, evidence.facts):
        if isinstance(plan, Refusal):
            why = why or f"the kubelet fails here with: {plan.error}"
            continue
        choice = take(plan, order) if choice is None else choice
        reason = "the container holds all that it asks for, so nothing is allocated"
        if plan.size:
            reason = misfit(manager, request, plan, claimed)
        if not reason:
            return True, choice, ""
        why = why or reason
    return False, choice, why


def errors_in(evidence: Evidence) -> tuple[set[str], bool]:
    """What the kubelet may say, over the extreme worlds: error texts, empty for success.

    Returns:
        the texts; whether there is but one world.
    """
    texts: set[str] = set()
    listed = evidence.listed
    everything = listed.maybe | evidence.in_use.maybe
    if not listed.complete:  # stand-ins for devices that no record names, as many as matter
        more = evidence.required if listed.count is None else listed.count - len(listed.healthy)
        everything |= {f"<{index}>" for index in range(min(more, evidence.required))}
    for registered in (True, False) if listed.registered is None else (listed.registered,):
        for claimed in (everything, frozenset[str]()):
            for suits in (_ALL, frozenset[Topic]()):
                manager = _world(evidence, claimed, suits, None)
                if not registered:
                    manager.healthy.clear()
                for plan in plans(manager, _request(evidence, None), evidence.facts):
                    texts.add(plan.error if isinstance(plan, Refusal) else "")
    return texts, listed.registered is not None and evidence.is_exact()


def _affinities(evidence: Evidence, suits: frozenset[Topic]) -> Iterable[int | None]:
    if evidence.affinities:
        return evidence.affinities
    # Without an affinity any free device will do, which suits every claim; against one, each.
    return (None,) if "affinity" in suits else (None, *(1 << n for n in evidence.numa_nodes))


def _request(evidence: Evidence, affinity: int | None) -> Request:
    pod, container, resource = evidence.holder
    return Request(
        pod=pod,
        container=container,
        resource=resource,
        required=evidence.required,
        affinity=affinity,
        reusable=evidence.reuse,
    )


def _world(
    evidence: Evidence, claimed: _Devices, suits: frozenset[Topic], affinity: int | None
) -> ManagerImpl:
    """The device manager where open inputs suit a claim, or do not."""
    listed, in_use = evidence.listed, evidence.in_use
    certain = in_use.certain - evidence.reuse
    # The fewer devices there are besides the claimed ones, the better for the claim.
    possible = listed.maybe if listed.complete else listed.maybe | claimed
    healthy = listed.healthy | (claimed & possible)
    if "health" not in suits:
        healthy = possible - (claimed - listed.healthy)
    open_use = in_use.maybe - evidence.reuse | (healthy if in_use.unknown else frozenset())
    used = certain | (open_use - claimed if "use" in suits else open_use & claimed)
    manager = ManagerImpl(evidence.numa_nodes)
    pod, container, resource = evidence.holder
    manager.all_devices[resource] = {
        device: Device(device, HEALTHY, _nodes(evidence, device, claimed, suits, affinity))
        for device in sorted(healthy | used | evidence.reuse | claimed & listed.known)
    }
    if listed.registered is not False:
        manager.healthy[resource] = set(healthy)
    manager.allocated[resource] = set(used | evidence.reuse)
    for device in sorted((claimed & used - evidence.reuse) & in_use.holders.keys()):
        whose, its, _ = in_use.holders[device][0]  # only so that it can be told
        name = pod if whose == pod else evidence.name_of(whose)
        manager.pod_devices.insert(name, its, resource, {0: [device]})
    manager.endpoints[resource] = _Plugin(claimed if "preferred" in suits else None)
    if evidence.held is not None:
        manager.allocated[resource] |= evidence.held
        manager.pod_devices.insert(pod, container, resource, {0: sorted(evidence.held)})
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
