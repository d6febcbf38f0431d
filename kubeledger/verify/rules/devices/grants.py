"""Granted devices: could the kubelet have taken them, out of what was there just then?

A grant that only a later checkpoint shows is judged when its container was aligned, asked or
its pod admitted, with what was held then; the finding waits for the record.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from kubeledger.devicemanager.records import DevicesAllocated
from kubeledger.machine import Record
from kubeledger.node.state import NodeState
from kubeledger.verify.belief import Judgement, lacks, same
from kubeledger.verify.rules.devices.account import surroundings, taken
from kubeledger.verify.rules.devices.desk import Desk, SetUp
from kubeledger.verify.rules.devices.foresight import Entry, Holder, all_ids, when_of
from kubeledger.verify.rules.devices.holdings import Held
from kubeledger.verify.rules.devices.words import listing
from kubeledger.verify.rules.devices.worlds import granted

__all__ = ["RULE", "Grants", "found_with", "recorded"]

RULE: Final = "pkg/kubelet/cm/devicemanager/manager.go devicesToAllocate"
_SETTLING_NS = 2_000_000_000
_UNTOLD = {
    "checkpoint": "the log of the pod's admission",
    "restore": "the log of the kubelet process that allocated the devices",
}


class _Early(NamedTuple):
    """A grant judged before its record comes."""

    set_up: SetUp
    found: Judgement


class _Grant(NamedTuple):
    """A grant, and what is known of its moment.

    Attributes:
        early: it was judged before its record came.
        entry: the checkpoint entry that agrees with it; ``disputed``: the one that does not.
    """

    record: Record
    body: DevicesAllocated
    holder: Holder
    devices: frozenset[str]
    early: _Early | None
    entry: Entry | None
    disputed: Entry | None


class Grants:
    """Judgements of ``DevicesAllocated``."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._early: dict[tuple[Holder, int], _Early] = {}

    def allocated(self, record: Record, body: DevicesAllocated, state: NodeState) -> Judgement:
        """Judge a grant, then let the container hold what it got."""
        desk = self._desk
        pod = desk.key(state, body.pod_uid, body.namespace, body.pod)
        holder, devices = (pod, body.container, body.resource), frozenset(body.device_ids)
        early = self._early.pop((holder, record.seq), None)
        if early is None and body.told_by == "call":
            desk.holdings.restore_failed(holder)
        entry, disputed = self._checkpointed(record, body, holder)
        grant = _Grant(record, body, holder, devices, early, entry, disputed)
        set_up = early.set_up if early else desk.of_record(record, holder, state)
        found = self._told_wrong(grant, set_up)
        if found is None and early is None and body.told_by != "call":
            found = lacks([_UNTOLD[body.told_by]])
        if found is None:
            found = early.found if early else self._by_rule(devices, set_up)
        self._hold(grant, found)
        shown = () if entry is None else (entry.when[1],)
        return found_with(found, (*set_up.seqs, *shown))

    def _told_wrong(self, grant: _Grant, set_up: SetUp) -> Judgement | None:
        """What is wrong by who asked and by other sources of the same grant."""
        body, entry, disputed = grant.body, grant.entry, grant.disputed
        wrong = self._desk.wrong_asker(grant.record, grant.holder, set_up)
        if wrong is not None:
            return same(False, wrong[0], expected=wrong[1])
        if disputed is not None:
            self._contradict(grant, disputed)
            why = (
                f"the checkpoint written after it holds {listing(disputed.ids)} for container "
                f"{body.container}, not {listing(body.device_ids)}"
            )
            return same(False, why, expected={"device_ids": sorted(disputed.ids)})
        if len(body.device_ids) != len(grant.devices):
            return same(False, "a device is granted twice in one grant")
        if body.numa is not None and all_ids(body.numa) != grant.devices:
            expected = {"numa": _plain(entry.numa)} if entry else None
            return same(False, f"its NUMA record holds {listing(all_ids(body.numa))}",
                        expected=expected)  # fmt: skip
        if body.numa and entry is not None and "" not in entry.numa and entry.numa != body.numa:
            why = "the checkpoint has the devices under other NUMA nodes"
            return same(False, why, expected={"numa": _plain(entry.numa)})
        return None

    @staticmethod
    def _by_rule(devices: frozenset[str], set_up: SetUp) -> Judgement:
        """By what was there."""
        evidence = set_up.evidence
        if evidence is None:
            return lacks(set_up.missing)
        return granted(evidence, devices, taken(evidence, devices), surroundings(evidence))

    def _hold(self, grant: _Grant, found: Judgement) -> None:
        """What the container holds from now on; a lie is not built upon."""
        record, holder, disputed, entry = grant.record, grant.holder, grant.disputed, grant.entry
        holdings, right = self._desk.holdings, found.verdict != "impossible"
        caused = self._desk.requests.pop(record.cause or 0, None)
        if caused is not None and caused.holder != holder:  # who asked got them
            holder, right = caused.holder, True
            entry, disputed = self._checkpointed(record, grant.body, holder)
        if disputed is not None:
            # Log or checkpoint lies: nobody else is blamed for what either says.
            holdings.take(holder, Held(disputed.ids, record.seq, disputed=True))
        elif right or entry is not None:
            holdings.take(holder, Held(grant.devices, record.seq))
        elif holdings.get(holder) is None or grant.early is not None:
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
            f"container/{body.namespace}/{body.pod}/{body.container}",
            f"log and checkpoint name different devices of {body.resource} for one allocation",
            (record.seq, f"container {body.container} got {listing(body.device_ids)}"),
            (entry.when[1], f"it holds {listing(entry.ids)}"),
        )

    def shown_later(
        self, record: Record, pod: str, container: str | None, state: NodeState
    ) -> None:
        """A pod's containers get devices about now; a checkpoint showed later which.

        Args:
            record: that tells of the moment.
            pod: key of the pod.
            container: None for all.
            state: just before.
        """
        desk, when = self._desk, when_of(record)
        due = desk.foresight.late.get(pod)
        if not due:
            return
        listed = desk.pod(record)
        asks = desk.asks(listed, pod)
        order = {asker.name: index for index, asker in enumerate(asks.askers)} if asks else {}
        for holder in sorted(due, key=lambda one: (order.get(one[1], 0), one)):
            grant = next(((w, b) for w, b in due[holder] if w > when), None)
            current = desk.holdings.get(holder)
            if container not in (None, holder[1]) or grant is None:
                continue
            (_, seq), body = grant
            if (holder, seq) in self._early or (current is not None and current.certain):
                continue
            devices = frozenset(body.device_ids)
            set_up = desk.set_up(state, when, holder, listed, desk.request_of(holder))
            self._early[holder, seq] = _Early(set_up, self._by_rule(devices, set_up))
            desk.holdings.take(holder, Held(devices, seq))


def recorded(body: DevicesAllocated, found: Judgement) -> dict[str, Any]:
    """The fields of the record that a judgement is about."""
    names = found.expected or {"device_ids": None}
    return {name: _field(body, name) for name in names}


def found_with(found: Judgement, inputs: tuple[int, ...]) -> Judgement:
    """A judgement that rests on these records as well."""
    return msgspec.structs.replace(found, inputs=(*found.inputs, *inputs))


def _plain(numa: dict[str, tuple[str, ...]]) -> dict[str, list[str]]:
    return {node: list(ids) for node, ids in numa.items()}


def _field(body: DevicesAllocated, name: str) -> Any:  # noqa: ANN401 # any field of a body
    value = getattr(body, name)
    if name == "numa" and value is not None:
        return _plain(value)
    return list(value) if isinstance(value, tuple) else value
