"""Possible worlds: what the device manager may have held where evidence leaves it open.

Four inputs may be open: which devices were healthy, which were in use, on which NUMA nodes
they are, and to which nodes the container was aligned. A world settles all of them. Of all
worlds two matter: the one that suits a claim best, and the one that suits it worst. If the
claim fits the worst, it fits all; if it does not fit the best, it fits none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

import msgspec

from kubeledger.devicemanager.allocate import Plan, Refusal, Request, plans, take
from kubeledger.devicemanager.manager import HEALTHY, Device, ManagerImpl
from kubeledger.devicemanager.refute import misfit
from kubeledger.profile.devices import DeviceFacts
from kubeledger.topologymanager.bitmask import bits_of
from kubeledger.verify.devices.foresight import Holder
from kubeledger.verify.devices.holdings import InUse
from kubeledger.verify.devices.lists import Listed

__all__ = ["OPEN", "Evidence", "Judged", "Topic", "judge", "lost_topics", "refusals"]

Topic = Literal["health", "use", "numa", "affinity", "preferred", "registered"]
"""An input that may be open."""

OPEN: tuple[Topic, ...] = ("health", "use", "numa", "affinity", "preferred")

Nodes = tuple[int, ...] | None
NodesOf = Callable[[str], tuple[bool, Nodes]]
"""Device -> whether its NUMA nodes are known, and which; None for no topology."""


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known when a container asks for devices of one resource.

    Attributes:
        pod, container, resource: who asks for what.
        required: devices that it asks for.
        held: what the container holds already; None for nothing.
        reuse: devices that the pod's init containers are done with.
        listed: the plugin's devices.
        in_use: devices of others, those of ``reuse`` left out.
        nodes_of: NUMA nodes of devices.
        name_of: pod key -> its name, for people.
        affinities: (n,) masks that may be stored for the container, None for none; empty
            when nothing tells.
        numa_nodes: of the machine.
        facts: of the kubelet version.
        surely: whether a container certainly holds its devices, whatever lines were lost.
    """

    pod: str
    container: str
    resource: str
    required: int
    held: frozenset[str] | None
    reuse: frozenset[str]
    listed: Listed
    in_use: InUse
    nodes_of: NodesOf
    name_of: Callable[[str], str]
    affinities: tuple[int | None, ...]
    numa_nodes: tuple[int, ...]
    facts: DeviceFacts
    surely: Callable[[Holder], bool] = lambda _: True

    def opened(self) -> Evidence:
        """What is certain whatever lines were lost: others may hold devices, or no more do."""
        in_use = self.in_use
        sure = self.of_sure_holders().in_use.certain
        lost = in_use.certain - sure
        return msgspec.structs.replace(
            self,
            listed=self.listed.opened(),
            in_use=msgspec.structs.replace(
                in_use, certain=sure, maybe=in_use.maybe | lost, unknown=True
            ),
        )

    def of_sure_holders(self) -> Evidence:
        """The same, with those devices in use whose holders something later shows."""
        in_use = self.in_use
        sure = frozenset(d for d in in_use.certain if self.surely(in_use.holders[d]))
        in_use = msgspec.structs.replace(in_use, certain=sure)
        listed = self.listed.opened()
        return msgspec.structs.replace(self, in_use=in_use, listed=listed)

    @property
    def free(self) -> frozenset[str]:
        """Devices that were certainly to be had."""
        if self.in_use.unknown:
            return frozenset()
        return self.listed.healthy - self.in_use.certain - self.in_use.maybe - self.reuse

    @property
    def perhaps_free(self) -> frozenset[str]:
        """Devices that may have been to be had."""
        return self.listed.maybe - self.in_use.certain - self.reuse

    def is_exact(self) -> bool:
        """Nothing is open but the kubelet's own choice."""
        return self.listed.complete and not self.in_use.unknown and self.free == self.perhaps_free

    def nodes_known(self) -> bool:
        """NUMA nodes of all devices that could be had are known, or do not matter."""
        if self.affinities == (None,):
            return True
        return bool(self.affinities) and all(
            self.nodes_of(device)[0] for device in self.perhaps_free
        )


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a claim.

    Attributes:
        fits: in every world, in none, or in some.
        choice: what ``decide`` takes in the world that suits best; None when it refuses.
        why: why it fits in no world; empty otherwise.
        open: topics that decide it, when it fits in some.
        lost: it fits only if a line was lost.
    """

    fits: Literal["all", "none", "some"]
    choice: frozenset[str] | None
    why: str = ""
    open: tuple[Topic, ...] = ()
    lost: bool = False


class _Plugin:
    """A plugin whose preference is given, and whose Allocate succeeds."""

    def __init__(self, preference: frozenset[str] | None) -> None:
        self._preference = preference

    def preferred(
        self, available: frozenset[str], must_include: frozenset[str], size: int
    ) -> frozenset[str] | None:
        return self._preference

    def allocate(self, devices: frozenset[str]) -> None:
        return None


def judge(evidence: Evidence, claimed: frozenset[str]) -> Judged:
    """Whether the kubelet can have taken these devices.

    That it cannot is only said if it could not whatever lines were lost. Of affinities that
    are disputed, one is the stored one: the claim may go by any of them.
    """
    judged = _judge_any(evidence, claimed)
    if judged.fits != "none":
        return judged
    opened = _judge_any(evidence.opened(), claimed)
    if opened.fits == "none":
        return judged
    return msgspec.structs.replace(
        judged, fits="some", why="", open=lost_topics(evidence), lost=True
    )


def lost_topics(evidence: Evidence) -> tuple[Topic, ...]:
    """What a line that was lost may have told."""
    return ("use",) if evidence.listed.firm else ("health", "use")


def _judge_any(evidence: Evidence, claimed: frozenset[str]) -> Judged:
    if len(evidence.affinities) < 2:
        return _judge(evidence, claimed)
    ranks = ("all", "some", "none")
    judged = [
        _judge(msgspec.structs.replace(evidence, affinities=(mask,)), claimed)
        for mask in evidence.affinities
    ]
    return min(judged, key=lambda one: ranks.index(one.fits))


def _judge(evidence: Evidence, claimed: frozenset[str]) -> Judged:
    fits, choice, why = _try(evidence, claimed, frozenset())
    if fits and evidence.is_exact() and evidence.nodes_known():
        return Judged(fits="all", choice=choice)
    # What ``decide`` takes is told of the world that suits best, but for the plugin's wishes.
    _, likely, _ = _try(evidence, claimed, frozenset(OPEN) - {"preferred"})
    if fits:
        return Judged(fits="all", choice=likely)
    fits, _, why = _try(evidence, claimed, frozenset(OPEN))
    if not fits:
        return Judged(fits="none", choice=likely, why=why)
    topics = tuple(
        topic for topic in OPEN if not _try(evidence, claimed, frozenset(OPEN) - {topic})[0]
    )
    return Judged(fits="some", choice=likely, open=topics or _open(evidence))


def _open(evidence: Evidence) -> tuple[Topic, ...]:
    """Topics that are open at all."""
    is_open: dict[Topic, bool] = {
        "health": not evidence.listed.complete,
        "use": evidence.in_use.unknown or bool(evidence.in_use.maybe),
        "numa": not evidence.nodes_known(),
        "affinity": len(evidence.affinities) != 1,
        "preferred": True,
    }
    return tuple(topic for topic in OPEN if is_open[topic])


def _try(
    evidence: Evidence, claimed: frozenset[str], suits: frozenset[Topic]
) -> tuple[bool, frozenset[str] | None, str]:
    """Whether a claim fits, with the topics in ``suits`` settled for it and others against it.

    Returns:
        whether it fits; what ``decide`` takes; why it does not fit.
    """
    why = ""
    choice: frozenset[str] | None = None
    results = []
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
    manager: ManagerImpl, request: Request, evidence: Evidence, claimed: frozenset[str]
) -> tuple[bool, frozenset[str] | None, str]:
    choice: frozenset[str] | None = None
    why = ""
    order = sorted(manager.all_devices[evidence.resource])
    for plan in plans(manager, request, evidence.facts):
        if isinstance(plan, Refusal):
            why = why or f"the kubelet fails here with: {plan.error}"
            continue
        if choice is None:
            choice = take(plan, order)
        reason = _misfit(manager, request, plan, claimed)
        if not reason:
            return True, choice, ""
        why = why or reason
    return False, choice, why


def _misfit(manager: ManagerImpl, request: Request, plan: Plan, claimed: frozenset[str]) -> str:
    if not plan.size:
        return "the container holds all that it asks for, so nothing is allocated"
    return misfit(manager, request, plan, claimed)


def refusals(evidence: Evidence) -> tuple[set[str], bool]:
    """What the kubelet may say, over the extreme worlds: error texts, empty for success.

    Returns:
        the texts; whether there is but one world.
    """
    texts: set[str] = set()
    everything = evidence.listed.maybe | evidence.in_use.maybe
    registered = evidence.listed.registered
    for flag in (True, False) if registered is None else (registered,):
        for claimed in (everything | _unnamed(evidence), frozenset[str]()):
            for suits in (frozenset(OPEN), frozenset[Topic]()):
                manager = _world(evidence, claimed, suits, None)
                if not flag:
                    manager.healthy.clear()
                request = _request(evidence, None)
                for plan in plans(manager, request, evidence.facts):
                    texts.add(plan.error if isinstance(plan, Refusal) else "")
    return texts, registered is not None and evidence.is_exact()


def _unnamed(evidence: Evidence) -> frozenset[str]:
    """Stand-ins for healthy devices that no record names; no more of them than matter."""
    listed = evidence.listed
    if listed.complete:
        return frozenset()
    others = evidence.required if listed.count is None else listed.count - len(listed.healthy)
    return frozenset(f"<{index}>" for index in range(min(others, evidence.required)))


def _affinities(evidence: Evidence, suits: frozenset[Topic]) -> Iterable[int | None]:
    if evidence.affinities:
        return evidence.affinities
    # Without an affinity any free device will do, which suits every claim; against one, each.
    return (None,) if "affinity" in suits else (None, *(1 << n for n in evidence.numa_nodes))


def _request(evidence: Evidence, affinity: int | None) -> Request:
    return Request(
        pod=evidence.pod,
        container=evidence.container,
        resource=evidence.resource,
        required=evidence.required,
        affinity=affinity,
        reusable=evidence.reuse,
    )


def _world(
    evidence: Evidence, claimed: frozenset[str], suits: frozenset[Topic], affinity: int | None
) -> ManagerImpl:
    listed, in_use = evidence.listed, evidence.in_use
    # The fewer devices there are besides the claimed ones, the better for the claim.
    possible = listed.maybe if listed.complete else listed.maybe | claimed
    healthy = listed.healthy | (claimed & possible)
    if "health" not in suits:
        healthy = possible - (claimed - listed.healthy)
    open_use = in_use.maybe | (healthy if in_use.unknown else frozenset())
    used = in_use.certain | (open_use - claimed)
    if "use" not in suits:
        used = in_use.certain | (open_use & claimed)
    manager = ManagerImpl(evidence.numa_nodes)
    resource = evidence.resource
    ids = healthy | used | evidence.reuse | claimed & listed.known
    manager.all_devices[resource] = {
        device: Device(device, HEALTHY, _nodes(evidence, device, claimed, suits, affinity))
        for device in sorted(ids)
    }
    if listed.registered is not False:
        manager.healthy[resource] = set(healthy)
    manager.allocated[resource] = set(used | evidence.reuse)
    _record_holders(manager, evidence, claimed & used - evidence.reuse)
    manager.endpoints[resource] = _Plugin(claimed if "preferred" in suits else None)
    if evidence.held is not None:
        manager.allocated[resource] |= evidence.held
        record = {0: sorted(evidence.held)}
        manager.pod_devices.insert(evidence.pod, evidence.container, resource, record)
    return manager


def _record_holders(manager: ManagerImpl, evidence: Evidence, devices: frozenset[str]) -> None:
    """Who holds devices, only so that it can be told."""
    by_holder: dict[tuple[str, str], list[str]] = {}
    for device in sorted(devices & evidence.in_use.holders.keys()):
        pod, container, _ = evidence.in_use.holders[device]
        of = evidence.pod if pod == evidence.pod else evidence.name_of(pod)
        by_holder.setdefault((of, container), []).append(device)
    for (of, container), ids in by_holder.items():
        manager.pod_devices.insert(of, container, evidence.resource, {0: ids})


def _nodes(
    evidence: Evidence,
    device: str,
    claimed: frozenset[str],
    suits: frozenset[Topic],
    affinity: int | None,
) -> Nodes:
    known, nodes = evidence.nodes_of(device)
    if known or affinity is None:
        return nodes
    aligned = (device in claimed) == ("numa" in suits)
    if aligned:
        return tuple(bits_of(affinity))
    outside = next((node for node in evidence.numa_nodes if not affinity >> node & 1), None)
    # On a machine without another node, a plugin may still name one that is not there.
    return (outside if outside is not None else affinity.bit_length(),)
