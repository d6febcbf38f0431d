"""Granted devices: could the kubelet have taken them, out of what was there just then?

A grant that only a later checkpoint shows is judged when its container was aligned, asked or
its pod admitted, with what was held then; the finding waits for the record.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from kubeledger.model.bodies.devicemanager import DevicesAllocated
from kubeledger.model.record import Record
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.belief import Judgement, lacks, same
from kubeledger.verify.rules.devices.desk import Desk, SetUp
from kubeledger.verify.rules.devices.foresight import Entry, Holder, all_ids, when_of
from kubeledger.verify.rules.devices.holdings import Held
from kubeledger.verify.rules.devices.specs import asks_of
from kubeledger.verify.rules.devices.words import listing, surroundings, taken
from kubeledger.verify.rules.devices.worlds import granted

__all__ = ["RULE", "Grants", "found_with"]

RULE: Final = "pkg/kubelet/cm/devicemanager/manager.go devicesToAllocate"
_SETTLING_NS = 2_000_000_000
_UNTOLD = {
    "checkpoint": "the log of the pod's admission",
    "restore": "the log of the kubelet process that allocated the devices",
}


class _Grant(NamedTuple):
    """A grant, and what is known of its moment.

    Attributes:
        entry: the checkpoint entry that agrees with it; ``disputed``: the one that does not.
    """

    record: Record
    body: DevicesAllocated
    holder: Holder
    devices: frozenset[str]
    entry: Entry | None
    disputed: Entry | None


class Grants:
    """Judgements of ``DevicesAllocated``."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._early: dict[tuple[Holder, int], tuple[SetUp, Judgement]] = {}

    def allocated(self, record: Record, body: DevicesAllocated, state: NodeState) -> Judgement:
        """Judge a grant, then let the container hold what it got."""
        desk, devices = self._desk, frozenset(body.device_ids)
        holder = (desk.key(record, state), body.container, body.resource)
        early = self._early.pop((holder, record.seq), None)
        if early is None and body.told_by == "call":
            desk.holdings.restore_failed(holder)
        grant = _Grant(record, body, holder, devices, *self._checkpointed(record, body, holder))
        set_up = early[0] if early else desk.set_up(record, state, holder)
        found = desk.wrong_asker(record, holder, set_up) or self._told_wrong(grant)
        if found is None and early is None and body.told_by != "call":
            found = lacks([_UNTOLD[body.told_by]])
        if found is None:
            found = early[1] if early else self._by_rule(devices, set_up)
        self._hold(grant, found, is_early=early is not None)
        shown = () if grant.entry is None else (grant.entry.when[1],)
        return found_with(found, (*set_up.seqs, *shown))

    def _told_wrong(self, grant: _Grant) -> Judgement | None:
        """What is wrong by other sources of the same grant."""
        body, entry, disputed = grant.body, grant.entry, grant.disputed
        if disputed is not None:
            self._contradict(grant, disputed)
            why = (
                f"the checkpoint written after it holds {listing(disputed.ids)} for container "
                f"{body.container}, not {listing(body.device_ids)}"
            )
            return same(False, why, expected={"device_ids": sorted(disputed.ids)})
        if not body.numa:
            return None
        wrong = all_ids(body.numa) != grant.devices
        if wrong or (entry is not None and "" not in entry.numa and entry.numa != body.numa):
            told = {node: list(ids) for node, ids in entry.numa.items()} if entry else None
            why = f"its NUMA record holds {body.numa}, and the checkpoint {told or 'no such entry'}"
            return same(False, why, expected={"numa": told} if told else None)
        return None

    @staticmethod
    def _by_rule(devices: frozenset[str], set_up: SetUp) -> Judgement:
        """By what was there."""
        evidence = set_up.evidence
        if evidence is None:
            return lacks(set_up.missing)
        return granted(evidence, devices, taken(evidence, devices), surroundings(evidence))

    def _hold(self, grant: _Grant, found: Judgement, *, is_early: bool) -> None:
        """What the container holds from now on; a lie is not built upon."""
        record, holder, disputed, entry = grant.record, grant.holder, grant.disputed, grant.entry
        holdings, right = self._desk.holdings, found.verdict != "impossible"
        asking = self._desk.answered(record, holder)
        if asking != holder:  # who asked got them
            holder, right = asking, True
            entry, disputed = self._checkpointed(record, grant.body, holder)
        if disputed is not None:
            # Log or checkpoint lies: nobody else is blamed for what either says.
            holdings.take(holder, Held(disputed.ids, record.seq, disputed=True))
        elif right or entry is not None:
            holdings.take(holder, Held(grant.devices, record.seq))
        elif holdings.get(holder) is None or is_early:
            holdings.take(holder, Held(None, record.seq))

    def _checkpointed(
        self, record: Record, body: DevicesAllocated, holder: Holder
    ) -> tuple[Entry | None, Entry | None]:
        """The checkpoint entry that agrees with a grant, or the one that does not."""
        foresight, when = self._desk.foresight, when_of(record)
        if body.told_by == "checkpoint":
            return None, None
        entries = foresight.entries.get(holder, ())
        later = [entry for entry in entries if entry.last[0] + _SETTLING_NS >= when[0]]
        agreeing = next((e for e in later if e.ids == frozenset(body.device_ids)), None)
        disputing = next((entry for entry in later if entry.when > when), None)
        if agreeing is not None or disputing is None:
            return agreeing, None
        changed = foresight.may_change(holder[0], when, disputing.when)
        return None, None if changed else disputing

    def _contradict(self, grant: _Grant, entry: Entry) -> None:
        body, record = grant.body, grant.record
        self._desk.bench.contradict(
            max(record.ts_ns, entry.when[0]),
            self._desk.subject(record, grant.holder[0], body.container),
            f"log and checkpoint name different devices of {body.resource} for one allocation",
            (record.seq, f"container {body.container} got {listing(body.device_ids)}"),
            (entry.when[1], f"it holds {listing(entry.ids)}"),
        )

    def shown_later(self, record: Record, container: str | None, state: NodeState) -> None:
        """A pod's containers get devices about now; a checkpoint showed later which.

        Args:
            record: that tells of the moment.
            container: None for all.
            state: just before.
        """
        desk, when = self._desk, when_of(record)
        due = desk.foresight.late.get(desk.key(record, state))
        if not due:
            return
        asks = asks_of(desk.pod(record))
        order = {asker.name: index for index, asker in enumerate(asks.askers)} if asks else {}
        for holder in sorted(due, key=lambda one: (order.get(one[1], 0), one)):
            grant = next(((w, b) for w, b in due[holder] if w > when), None)
            current = desk.holdings.get(holder)
            if container not in (None, holder[1]) or grant is None:
                continue
            (_, seq), body = grant
            if (holder, seq) in self._early or (current is not None and current.certain):
                continue
            devices, set_up = frozenset(body.device_ids), desk.set_up(record, state, holder)
            self._early[holder, seq] = set_up, self._by_rule(devices, set_up)
            desk.holdings.take(holder, Held(devices, seq))


def found_with(found: Judgement, inputs: tuple[int, ...] = (), **fields: Any) -> Judgement:  # noqa: ANN401
    """A judgement that rests on these records as well."""
    return msgspec.structs.replace(found, inputs=(*found.inputs, *inputs), **fields)
