"""Entries of checkpoints against what else tells who holds a device, and where it is.

What a container was granted stays its own while its pod does, and a device stays on its
NUMA nodes: a checkpoint that tells otherwise disagrees with the source that told it first.
"""

from __future__ import annotations

from kubeledger.devicemanager.records import CheckpointEntry, CheckpointRead
from kubeledger.machine import Record
from kubeledger.topologymanager.bitmask import BITS_MAX, mask_of
from kubeledger.units import NS_PER_S
from kubeledger.verify.devices.desk import Desk, when_of
from kubeledger.verify.devices.foresight import Holder, all_ids, nodes_by_device
from kubeledger.verify.devices.words import joined, listing

__all__ = ["Entries", "misplaced"]

_SETTLING_NS = 2 * NS_PER_S
"""A snapshot is named by a whole second and takes a moment to be made."""

_TOLD_MAX = 1024
_NO_TOPOLOGY = (-1,)


class Entries:
    """Compares checkpoints with grants, and with each other."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._told: dict[tuple[Holder, frozenset[str]], None] = {}
        self._nodes: dict[tuple[str, str], dict[tuple[int, ...], tuple[int, Holder]]] = {}

    def read(self, record: Record, body: CheckpointRead) -> None:
        """A sound checkpoint was read; before what it holds is taken over."""
        for entry in body.entries:
            holder = (entry.pod_uid, entry.container, entry.resource)
            self._devices(record, entry, holder)
            self._numa(record, entry, holder)

    def _devices(self, record: Record, entry: CheckpointEntry, holder: Holder) -> None:
        desk, when = self._desk, when_of(record)
        held, devices = desk.holdings.get(holder), all_ids(entry.numa)
        if held is None or held.devices is None or held.devices == devices:
            return
        if not held.certain or (holder, devices) in self._told:
            return
        from_api = "-" in entry.pod_uid
        same_process = held.run == desk.holdings.run
        if not (from_api and same_process) and not desk.foresight.lists.tells_requests(when):
            return  # it may have been granted anew, and no line would tell
        if desk.foresight.may_change(entry.pod_uid, when, (when[0] + _SETTLING_NS, 0)):
            return
        if len(self._told) >= _TOLD_MAX:
            self._told.clear()
        self._told[holder, devices] = None
        name = f"{desk.name_of(entry.pod_uid)}/{entry.container}"
        desk.bench.contradict(
            record.ts_ns,
            f"container/{name}",
            f"a checkpoint holds other devices of {entry.resource} than the container was granted",
            (held.seq, f"container {entry.container} got {listing(held.devices)}"),
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
            if len(told) < _TOLD_MAX:
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


def misplaced(
    desk: Desk, holder: Holder, numa: dict[str, tuple[str, ...]]
) -> dict[str, list[str]] | None:
    """NUMA nodes of a grant as entries of others have its devices, where they differ.

    One entry against another proves nothing: it takes two, or the container's affinity.
    """
    masks, _ = desk.affinity(holder)
    mask = masks[0] if len(masks) == 1 else None
    differs = False
    expected: dict[str, list[str]] = {}
    for device, nodes in sorted(nodes_by_device(numa).items()):
        elsewhere, entries = desk.foresight.nodes_elsewhere(holder, device)
        if elsewhere is not None and elsewhere != nodes:
            aligned = mask is not None and bool(mask & _mask(elsewhere)) and not mask & _mask(nodes)
            differs = differs or aligned or entries > 1
        for node in elsewhere or nodes:
            expected.setdefault(str(node), []).append(device)
    return expected if differs else None


def _mask(nodes: tuple[int, ...]) -> int:
    return mask_of(node for node in nodes if 0 <= node < BITS_MAX)
