"""Checkpoints against what else tells who holds a device, and where it is.

What a container was granted stays its own while its pod does, and a device stays on its
NUMA nodes: a checkpoint that tells otherwise disagrees with the source that told it first.
"""

from __future__ import annotations

from kubeledger.devicemanager.records import CheckpointEntry, CheckpointRead, DevicesReported
from kubeledger.machine import Record
from kubeledger.node.state import NodeState
from kubeledger.units import NS_PER_S
from kubeledger.verify.rules.devices.desk import Desk
from kubeledger.verify.rules.devices.foresight import Holder, all_ids, nodes_by_device, when_of
from kubeledger.verify.rules.devices.words import joined, listing

__all__ = ["Checkpoints"]

_SETTLING_NS = 2 * NS_PER_S
"""A snapshot is named by a whole second and takes a moment to be made."""

_TOLD_MAX = 1024
_NO_TOPOLOGY = (-1,)


class Checkpoints:
    """Compares checkpoints with grants, with each other, and with what plugins sent."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._last: tuple[int, CheckpointRead] | None = None
        self._told: dict[tuple[Holder, frozenset[str]], None] = {}
        self._nodes: dict[tuple[str, str], dict[tuple[int, ...], tuple[int, Holder]]] = {}

    def read(self, record: Record, body: CheckpointRead) -> bool:
        """A checkpoint was read; gives whether it is sound, so that it counts."""
        self._clash(record)
        if body.checksum_ok is False:
            self._desk.bench.contradict(
                record.ts_ns,
                "node",
                "the checksum of kubelet_internal_checkpoint is not that of its content, which "
                "is not relied on",
                (record.seq, f"checksum {body.checksum} is stored"),
                (record.seq, "its content has another checksum"),
                *self._odd(body),
            )
            return False
        self._last = record.seq, body
        for entry in body.entries:
            holder = (entry.pod_uid, entry.container, entry.resource)
            self._devices(record, entry, holder)
            self._numa(record, entry, holder)
        return True

    def reported(self, record: Record, body: DevicesReported, state: NodeState) -> None:
        """A list that a checkpoint tells holds what the checkpoint holds."""
        self._clash(record)
        seq, checkpoint = self._last or (0, None)
        if checkpoint is None or body.device_ids is None or record.cause != seq:
            return
        registered = checkpoint.registered.get(body.resource, body.device_ids)
        if registered != body.device_ids:
            self._desk.bench.contradict(
                record.ts_ns,
                f"device/{body.resource}",
                f"the list of {body.resource} is not that of the checkpoint it was read from",
                (seq, f"registered: {listing(registered)}"),
                (record.seq, f"devices: {listing(body.device_ids)}"),
            )

    def _clash(self, record: Record) -> None:
        clash = self._desk.foresight.lists.clashes.get(record.seq)
        if clash is not None:
            self._desk.bench.contradict(
                record.ts_ns,
                f"device/{clash.resource}",
                f"the healthy devices of {clash.resource} are told in two ways",
                clash.one,
                clash.other,
                by_absence=True,
            )

    def _odd(self, body: CheckpointRead) -> list[tuple[int, str]]:
        """Grants that a checkpoint which does not count tells otherwise."""
        sides = []
        for entry in body.entries:
            held = self._desk.holdings.get((entry.pod_uid, entry.container, entry.resource))
            if held is None or held.devices is None or held.devices == all_ids(entry.numa):
                continue
            name = f"container {entry.container} of {self._desk.name_of(entry.pod_uid)}"
            got, other = listing(held.devices), listing(all_ids(entry.numa))
            sides.append((held.seq, f"{name} got {got}, and that content says {other}"))
        return sides

    def _devices(self, record: Record, entry: CheckpointEntry, holder: Holder) -> None:
        desk, when, devices = self._desk, when_of(record), all_ids(entry.numa)
        held = desk.holdings.get(holder)
        if held is None or held.devices in (None, devices) or not held.certain:
            return
        own = "-" in entry.pod_uid and held.run == desk.holdings.run
        if not own and not desk.foresight.lists.tells_requests(when):
            return  # it may have been granted anew, and no line would tell
        changed = desk.foresight.may_change(entry.pod_uid, when, (when[0] + _SETTLING_NS, 0))
        if changed or (holder, devices) in self._told:
            return
        if len(self._told) >= _TOLD_MAX:
            self._told.clear()
        self._told[holder, devices] = None
        desk.bench.contradict(
            record.ts_ns,
            f"container/{desk.name_of(entry.pod_uid)}/{entry.container}",
            f"a checkpoint holds other devices of {entry.resource} than the container was granted",
            (held.seq, f"container {entry.container} got {listing(held.devices or ())}"),
            (record.seq, f"it holds {listing(devices)}"),
        )

    def _numa(self, record: Record, entry: CheckpointEntry, holder: Holder) -> None:
        for device, nodes in nodes_by_device(entry.numa).items():
            told = self._nodes.setdefault((entry.resource, device), {})
            if nodes in told:
                continue
            # A device that its plugin had dropped counts as one without topology.
            rivals = [
                (other, seq, whose)
                for other, (seq, whose) in told.items()
                if whose == holder or _NO_TOPOLOGY not in (other, nodes)
            ]
            told[nodes] = (record.seq, holder)
            if rivals:
                other, seq, whose = rivals[0]
                self._desk.bench.contradict(
                    record.ts_ns,
                    f"device/{entry.resource}/{device}",
                    f"checkpoints have device {device} on different NUMA nodes",
                    (seq, self._says(device, other, whose)),
                    (record.seq, self._says(device, nodes, holder)),
                )

    def _says(self, device: str, nodes: tuple[int, ...], holder: Holder) -> str:
        held = f"held by {self._desk.name_of(holder[0])}/{holder[1]}"
        if nodes == _NO_TOPOLOGY:
            return f"{device}, {held}, is on no NUMA node"
        word = "node" if len(nodes) == 1 else "nodes"
        return f"{device}, {held}, is on NUMA {word} {joined(map(str, nodes))}"
