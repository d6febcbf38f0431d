"""Granted devices: could the kubelet have taken them, out of what was there just then?

A grant that only a later checkpoint shows is judged when its container was aligned, asked or
its pod admitted, with what was held then; the finding waits for the record.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kubeledger.model.bodies.devicemanager import DevicesAllocated
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.belief import Judgement, lacks, same
from kubeledger.verify.rules.devices.evidence import Evidence, Held
from kubeledger.verify.rules.devices.first_pass import Entry, Holder, when_of
from kubeledger.verify.rules.devices.model import DeviceManagerModel
from kubeledger.verify.rules.devices.words import listing
from kubeledger.verify.rules.devices.worlds import granted

RULE: Final = "pkg/kubelet/cm/devicemanager/manager.go devicesToAllocate"
_SETTLING_NS: Final = 2 * NS_PER_S
_UNREPORTED = {
    "checkpoint": "the log of the pod's admission",
    "restore": "the log of the kubelet process that allocated the devices",
}


class Grants:
    """Judgements of ``DevicesAllocated``."""

    def __init__(self, model: DeviceManagerModel) -> None:
        self._model = model
        self._early: dict[tuple[Holder, int], Judgement] = {}

    def allocated(self, record: Record, body: DevicesAllocated, state: NodeState) -> Judgement:
        """Judge a grant, then let the container hold what it got."""
        model, devices = self._model, frozenset(body.device_ids)
        holder = (model.key(record, state), body.container, body.resource)
        early = self._early.pop((holder, record.seq), None)
        if early is None and body.told_by == "call":
            model.holdings.restore_failed(holder)
        model.holdings.restored |= body.told_by == "restore"
        entry, disputed = self._checkpointed(record, body, holder)
        found = model.wrong_asker(record, holder)
        if found is None and disputed is not None:
            found = self._disputed(record, body, disputed)
        elif found is None and entry is not None and body.numa not in (None, entry.numa):
            why = f"its NUMA record holds {body.numa}, and the checkpoint {entry.numa}"
            numa = {node: list(ids) for node, ids in entry.numa.items()}
            found = None if "" in numa else same(False, why, expected={"numa": numa})
        if found is None and early is None and body.told_by != "call":
            found = lacks([_UNREPORTED[body.told_by]])
        found = found or early or self._by_rule(record, devices, holder, state)
        self._hold(record, body, holder, found, is_early=early is not None)
        return found_with(found, () if entry is None else (entry.when[1],))

    def _disputed(self, record: Record, body: DevicesAllocated, entry: Entry) -> Judgement:
        """Log and checkpoint name different devices for one allocation."""
        self._model.context.contradict(
            max(record.ts_ns, entry.when[0]),
            self._model.subject(record, body.pod_uid or "", body.container),
            f"log and checkpoint name different devices of {body.resource} for one allocation",
            (record.seq, f"container {body.container} got {listing(body.device_ids)}"),
            (entry.when[1], f"it holds {listing(entry.ids)}"),
        )
        why = (
            f"the checkpoint written after it holds {listing(entry.ids)} for container "
            f"{body.container}, not {listing(body.device_ids)}"
        )
        return same(False, why, expected={"device_ids": sorted(entry.ids)})

    def _by_rule(
        self, record: Record, devices: frozenset[str], holder: Holder, state: NodeState
    ) -> Judgement:
        """By what was there."""
        evidence = self._model.evidence(record, state, holder)
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
        holdings, right = self._model.holdings, found.verdict != "impossible"
        asking = self._model.answered(record, holder)
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
        first_pass, when = self._model.first_pass, when_of(record)
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

    def shown_later(self, record: Record, container: str | None, state: NodeState) -> None:
        """A pod's containers get devices about now; a checkpoint showed later which.

        Args:
            record: that shows the moment.
            container: None for all.
            state: just before.
        """
        model, when = self._model, when_of(record)
        due = model.first_pass.late.get(model.key(record, state))
        if not due:
            return
        order = {spec.name: index for index, spec in enumerate(model.specs(record))}
        for holder in sorted(due, key=lambda one: (order.get(one[1], 0), one)):
            grant = next(((w, b) for w, b in due[holder] if w > when), None)
            current = model.holdings.get(holder)
            if container not in (None, holder[1]) or grant is None:
                continue
            (_, seq), body = grant
            asked = model.first_pass.asked.get(holder, ())
            if container is None and any(when < at < grant[0] for at in asked):
                continue  # a pod that is aligned as a whole: the container itself asks later
            if (holder, seq) in self._early or (current is not None and current.certain):
                continue
            devices = frozenset(body.device_ids)
            self._early[holder, seq] = self._by_rule(record, devices, holder, state)
            model.holdings.take(holder, Held(devices, seq))


def found_with(found: Judgement, inputs: tuple[int, ...] = (), **fields: Any) -> Judgement:  # noqa: ANN401
    """A judgement that rests on these records as well."""
    return msgspec.structs.replace(found, inputs=(*found.inputs, *inputs), **fields)
