"""Granted devices: could the kubelet have taken them, whatever evidence leaves open?

A grant that only a later checkpoint shows is judged when its container was aligned, asked or
its pod admitted, with what was held then; the finding waits for the record.

What is open is a must/may set, so that no product of worlds is needed: of all worlds those matter
that suit a claim best and worst, in all inputs or in one. They are stepped by the device
manager's decider.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from msgspec.structs import replace

from kubeledger.kubelet.devicemanager.allocate import misfit
from kubeledger.kubelet.devicemanager.manager import HEALTHY, Device, ManagerImpl
from kubeledger.kubelet.devicemanager.plans import Refusal, Request, plans, take
from kubeledger.kubelet.topologymanager.policy import bits_of
from kubeledger.model.bodies.devicemanager import DevicesAllocated
from kubeledger.model.record import Body, Record
from kubeledger.model.units import NS_PER_S
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.belief import WORST_FIRST, Judgement, Ruling, judge, lacks, open_to, same
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.rules.devices.evidence import OPEN, Evidence, Held, Topic
from kubeledger.verify.rules.devices.first_pass import Entry, Holder, when_of
from kubeledger.verify.rules.devices.model import DeviceTable, listing, surroundings, taken

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


RULE: Final = "pkg/kubelet/cm/devicemanager/manager.go devicesToAllocate"
_SETTLING_NS: Final = 2 * NS_PER_S
_UNREPORTED = {
    "checkpoint": "the log of the pod's admission",
    "restore": "the log of the kubelet process that allocated the devices",
}


class Grants(DeviceTable):
    """Judgements of ``DevicesAllocated``."""

    def __init__(self, context: VerifyContext) -> None:
        super().__init__(context)
        self._early: dict[tuple[Holder, int], Judgement] = {}

    def allocated(self, record: Record, body: DevicesAllocated, state: NodeState) -> None:
        """Judge a grant, then let the container hold what it got."""
        devices = frozenset(body.device_ids)
        holder = (self.key(record, state), body.container, body.resource)
        early = self._early.pop((holder, record.seq), None)
        if early is None and body.told_by == "call":
            self.holdings.restore_failed(holder)
        self.holdings.restored |= body.told_by == "restore"
        entry, disputed = self._checkpointed(record, body, holder)
        found = self.wrong_asker(record, holder)
        if found is None and disputed is not None:
            found = self._judge_disputed(record, body, disputed)
        elif found is None and entry is not None and body.numa not in (None, entry.numa):
            why = f"its NUMA record holds {body.numa}, and the checkpoint {entry.numa}"
            numa = {node: list(ids) for node, ids in entry.numa.items()}
            found = None if "" in numa else same(False, why, expected={"numa": numa})
        if found is None and early is None and body.told_by != "call":
            found = lacks([_UNREPORTED[body.told_by]])
        found = found or early or self._by_rule(record, devices, holder, state)
        subject = self.subject(record, holder[0], body.container)
        self._hold(record, body, holder, found, is_early=early is not None)
        found = found_with(found, () if entry is None else (entry.when[1],))
        self.give(record, subject, found, found.expected or ("device_ids",))

    def _judge_disputed(self, record: Record, body: DevicesAllocated, entry: Entry) -> Judgement:
        """Log and checkpoint name different devices for one allocation."""
        subject = self.subject(record, body.pod_uid or "", body.container)
        why = f"log and checkpoint name different devices of {body.resource} for one allocation"
        got, held = listing(body.device_ids), listing(entry.ids)
        granted = record.seq, f"container {body.container} got {got}"
        sides, at_ns = (granted, (entry.when[1], f"it holds {held}")), entry.when[0]
        self.context.contradict(max(record.ts_ns, at_ns), subject, why, *sides)
        whose = f"the checkpoint written after it holds {held} for container {body.container}"
        return same(False, f"{whose}, not {got}", expected={"device_ids": sorted(entry.ids)})

    def _by_rule(
        self, record: Record, devices: frozenset[str], holder: Holder, state: NodeState
    ) -> Judgement:
        """By what was there."""
        evidence = self.evidence(record, state, holder)
        if not isinstance(evidence, Evidence):
            return evidence
        return found_with(granted(evidence, devices), evidence.seqs)

    def _hold(
        self,
        record: Record,
        body: DevicesAllocated,
        holder: Holder,
        found: Judgement,
        *,
        is_early: bool,
    ) -> None:
        """What the container holds from now on; a lie is not built upon."""
        holdings, right = self.holdings, found.verdict != "impossible"
        asking = self.answered(record, holder)
        if asking != holder:  # who asked got them
            holder, right = asking, True
        entry, disputed = self._checkpointed(record, body, holder)
        if disputed is not None:
            # Log or checkpoint lies: nobody else is blamed for what either says.
            holdings.take(holder, Held(disputed.ids, record.seq, disputed=True))
        elif right or entry is not None:
            holdings.take(holder, Held(frozenset(body.device_ids), record.seq))
        elif holdings.get(holder) is None or is_early:
            holdings.take(holder, Held(None, record.seq))

    def _checkpointed(
        self, record: Record, body: DevicesAllocated, holder: Holder
    ) -> tuple[Entry | None, Entry | None]:
        """The checkpoint entry that agrees with a grant, or the one that does not."""
        first_pass, when = self.first_pass, when_of(record)
        if body.told_by == "checkpoint":
            return None, None
        entries = first_pass.entries.get(holder, ())
        later = [entry for entry in entries if entry.last[0] + _SETTLING_NS >= when[0]]
        agreeing = next((e for e in later if e.ids == frozenset(body.device_ids)), None)
        disputing = next((entry for entry in later if entry.when > when), None)
        if agreeing is not None or disputing is None:
            return agreeing, None
        changed = first_pass.may_change(holder[0], when, disputing.when)
        return None, None if changed else disputing

    def shown_later(self, record: Record, body: Body, state: NodeState) -> None:
        """A pod's containers (None: all) get devices about now; a checkpoint showed later which."""
        when, container = when_of(record), getattr(body, "container", None)
        due = self.first_pass.late.get(self.key(record, state))
        if not due:
            return
        order = {spec.name: index for index, spec in enumerate(self.specs(record))}
        for holder in sorted(due, key=lambda one: (order.get(one[1], 0), one)):
            grant = next(((w, b) for w, b in due[holder] if w > when), None)
            current = self.holdings.get(holder)
            if container not in (None, holder[1]) or grant is None:
                continue
            (_, seq), granted_body = grant
            asked = self.first_pass.asked.get(holder, ())
            if container is None and any(when < at < grant[0] for at in asked):
                continue  # a pod that is aligned as a whole: the container itself asks later
            if (holder, seq) in self._early or (current is not None and current.certain):
                continue
            devices = frozenset(granted_body.device_ids)
            self._early[holder, seq] = self._by_rule(record, devices, holder, state)
            self.holdings.take(holder, Held(devices, seq))


def found_with(found: Judgement, inputs: tuple[int, ...] = (), **fields: Any) -> Judgement:  # noqa: ANN401
    """A judgement that rests on these records as well."""
    return replace(found, inputs=(*found.inputs, *inputs), **fields)
