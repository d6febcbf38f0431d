"""All that is known when a container asks for devices: what must be so, and what may be.

Four inputs may be open: which devices were healthy, which were in use, on which NUMA nodes
they are, and to which nodes the container was aligned; the plugin's answer is always.

A device is held certainly, or perhaps, as far as records show. A holding begins with a grant and
ends when the device manager says that it releases the pod. Where its lines are not in the log, a
pod that ended may hold its devices or not, and a grant that only a later checkpoint shows counts
as possible until its pod was admitted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Literal

import msgspec
from msgspec.structs import replace

from kubeledger.kubelet.devicemanager.manager import ManagerImpl
from kubeledger.kubelet.devicemanager.plans import Request
from kubeledger.kubelet.profile.devices import DeviceFacts
from kubeledger.verify.rules.devices.first_pass import Holder
from kubeledger.verify.rules.devices.lists import Listed


class Held(msgspec.Struct):
    """Devices of one resource in the hands of one container.

    Attributes:
        devices: IDs; None where only their number is certain.
        certain: False while it is only possible.
        run: number of the kubelet process that showed it last.
        disputed: another source shows other devices.
    """

    devices: frozenset[str] | None
    seq: int
    certain: bool = True
    run: int = 0
    disputed: bool = False


class InUse(msgspec.Struct, frozen=True):
    """Devices of one resource in use just before a request, but for the one who asks.

    Attributes:
        maybe: perhaps in use, besides.
        unknown: somebody may hold devices whose IDs are not known.
        holders: device -> (n,) who holds it, certainly or perhaps; several where an init
            container's was taken over.
    """

    certain: frozenset[str]
    maybe: frozenset[str]
    unknown: bool
    holders: dict[str, tuple[Holder, ...]]
    seqs: tuple[int, ...] = ()


class Holdings:
    """All holdings of a node; bounded by the pods on it.

    Attributes:
        complete: every holder is known: the kubelet's start or a checkpoint was seen.
        restored: some were there before the log, perhaps others whose lines are lost, too.
    """

    def __init__(self) -> None:
        self.complete = self.restored = False
        self.run = 0
        self._held: dict[Holder, Held] = {}

    def take(self, holder: Holder, held: Held) -> None:
        held.run = self.run
        self._held[holder] = held

    def get(self, holder: Holder) -> Held | None:
        return self._held.get(holder)

    def release(self, pod: str, container: str | None = None, resource: str | None = None) -> None:
        for holder in self.of_pod(pod):
            if container in (None, holder[1]) and resource in (None, holder[2]):
                del self._held[holder]

    def of_pod(self, pod: str) -> list[Holder]:
        return sorted(holder for holder in self._held if holder[0] == pod)

    def __iter__(self) -> Iterator[tuple[Holder, Held]]:
        yield from self._held.items()

    def in_use(self, holder: Holder, keeps: Callable[[str], bool]) -> InUse:
        """What is in use for others than one container; ``keeps``: if a pod surely keeps it."""
        certain: set[str] = set()
        maybe: set[str] = set()
        holders: dict[str, tuple[Holder, ...]] = {}
        seqs: list[int] = []
        unknown = not self.complete
        for other, held in self._held.items():
            mine = other[0] == holder[0] and not held.certain
            if other[2] != holder[2] or other == holder or mine:
                continue  # a pod's containers get theirs one after the other
            if held.devices is None:
                unknown = True
                continue
            seqs.append(held.seq)
            sure = held.certain and (other[0] == holder[0] or keeps(other[0]))
            (certain if sure else maybe).update(held.devices)
            for device in held.devices:
                holders[device] = (*holders.get(device, ()), other)
        return InUse(
            certain=frozenset(certain),
            maybe=frozenset(maybe - certain),
            unknown=unknown,
            holders=holders,
            seqs=tuple(sorted(seqs)),
        )


Topic = Literal["health", "use", "numa", "affinity", "preferred", "registered"]
"""An input that may be open."""

OPEN: tuple[Topic, ...] = ("health", "use", "numa", "affinity", "preferred")
_Devices = frozenset[str]
_Nodes = tuple[int, ...] | None


class _Plugin:
    """A plugin whose preference is given, and whose Allocate succeeds."""

    def __init__(self, preference: _Devices | None) -> None:
        self._preference = preference

    def preferred(self, available: _Devices, must: _Devices, size: int) -> _Devices | None:
        return self._preference

    def allocate(self, devices: _Devices) -> None:
        return None


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known when a container asks for devices of one resource.

    Attributes:
        holder: who asks for what; ``required``: for how many.
        held: what the container holds already; None for nothing.
        reuse: devices that the pod's init containers are done with.
        in_use: devices of others, those of ``reuse`` among them.
        nodes_of: device -> whether its NUMA nodes are known, and which; None for no topology.
        affinities: (n,) masks that may be stored for the container, None for none; empty
            when nothing says.
        surely: whether a container certainly holds its devices, whatever lines were lost.
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
        return self.holder[2]

    def opened(self) -> Evidence:
        """What is certain whatever lines were lost: others may hold devices, or no more do."""
        in_use = self.in_use
        sure = frozenset(d for d in in_use.certain if any(map(self.surely, in_use.holders[d])))
        maybe = in_use.maybe | in_use.certain - sure
        in_use = replace(in_use, certain=sure, maybe=maybe, unknown=True)
        return replace(self, in_use=in_use, listed=self.listed.opened())

    @property
    def perhaps_free(self) -> _Devices:
        """Devices that may have been to be had."""
        return self.listed.maybe - self.in_use.certain - self.reuse

    def is_exact(self) -> bool:
        """Nothing is open but the kubelet's own choice, and NUMA nodes."""
        free = self.listed.healthy - self.in_use.certain - self.in_use.maybe - self.reuse
        return self.listed.complete and not self.in_use.unknown and free == self.perhaps_free

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

    def open_topics(self, of: Iterable[Topic] = OPEN) -> tuple[Topic, ...]:
        """Inputs that are open at all, when devices are claimed."""
        nodes_known = all(self.nodes_of(device)[0] for device in self.perhaps_free)
        is_open: dict[Topic, bool] = {
            "health": not self.listed.complete,
            "use": self.in_use.unknown or bool(self.in_use.maybe),
            "numa": self.affinities != (None,) and not nodes_known,
            "affinity": len(self.affinities) != 1,
            "preferred": True,
            "registered": self.listed.registered is None,
        }
        return tuple(topic for topic in of if is_open[topic])

    def lost(self) -> str:
        """What a line that was lost may have reported."""
        both: tuple[Topic, ...] = ("health", "use")
        return " and ".join(self.inputs(both[self.listed.observed_at_instant :]))

    def request(self, affinity: int | None) -> Request:
        """What is asked of the device manager, with this mask stored."""
        pod, container, resource = self.holder
        return Request(
            pod=pod,
            container=container,
            resource=resource,
            required=self.required,
            affinity=affinity,
            reusable=self.reuse,
        )

    def manager(
        self, healthy: _Devices, used: _Devices, preference: _Devices | None = None
    ) -> ManagerImpl:
        """The device manager with these devices, besides what the container holds or reuses."""
        pod, container, resource = self.holder
        manager = ManagerImpl(self.numa_nodes, self.facts)
        if self.listed.registered is not False:
            manager.healthy[resource] = set(healthy)
        manager.register(resource, _Plugin(preference))
        manager.allocated[resource] = {*used, *self.reuse, *(self.held or ())}
        if self.held is not None:
            manager.pod_devices.insert(pod, container, resource, {0: sorted(self.held)})
        return manager
