"""The CPUs of a machine by core, uncore cache, socket and NUMA node."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import Annotated, Final

import msgspec

from kubeledger.kubelet.kube.containermanager import CPUSet
from kubeledger.kubelet.profile.resourcemanagers import ResourceManagerFacts
from kubeledger.kubelet.topologymanager.policy import TopologyHint, iterate_bit_masks
from kubeledger.model.bodies.resourcemanagers import CpuPlace
from kubeledger.model.errors import BadInputError

CPU_MAX: Final = (1 << 16) - 1
Units = dict[int, CPUSet]
"""ID of a NUMA node, socket, uncore cache or core -> its CPUs."""


class DiscoverError(ValueError):
    """A machine that the kubelet makes no topology of; the text is the kubelet's."""


class Core(msgspec.Struct, frozen=True, gc=False, array_like=True, forbid_unknown_fields=True):
    """A physical CPU as cAdvisor reports it.

    Attributes:
        id: unique only on its socket, and not read.
        uncore_cache: ID; None where the core has none.
    """

    id: int
    socket: int
    threads: tuple[Annotated[int, msgspec.Meta(ge=0, le=CPU_MAX)], ...]
    uncore_cache: int | None = None


class Node(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A NUMA node as cAdvisor reports it."""

    id: int
    cores: tuple[Core, ...]


class MachineInfo(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What cAdvisor reports of the CPUs.

    Attributes:
        nodes: (n,) in cAdvisor's order.
        num_cores: how many CPUs; None: as many as are listed.
    """

    num_sockets: int
    nodes: tuple[Node, ...]
    num_cores: int | None = None


def machine_of(cpus: Mapping[str, CpuPlace]) -> MachineInfo:
    """A machine as cAdvisor would report it, of what a kubelet logged of it."""
    cores: dict[CpuPlace, list[int]] = {}
    for cpu, place in sorted(cpus.items(), key=lambda item: int(item[0])):
        cores.setdefault(place, []).append(int(cpu))
    nodes: dict[int, list[Core]] = {}
    for at, threads in cores.items():
        core = Core(at.core, at.socket, tuple(threads), at.uncore_cache)
        nodes.setdefault(at.numa_node, []).append(core)
    return MachineInfo(
        num_sockets=len({place.socket for place in cpus.values()}),
        nodes=tuple(Node(node, tuple(of_node)) for node, of_node in sorted(nodes.items())),
    )


def places_of(machine: MachineInfo, *, with_caches: bool) -> dict[str, CpuPlace]:
    """CPUs (decimal text) and where they are, as a kubelet logs them.

    Args:
        with_caches: the kubelet's version reads uncore caches.
    """
    places: dict[int, CpuPlace] = {}
    for node in machine.nodes:
        for core in node.cores:
            cache = core.socket if core.uncore_cache is None else core.uncore_cache
            place = CpuPlace(
                numa_node=node.id,
                socket=core.socket,
                core=min(core.threads),
                uncore_cache=cache if with_caches else None,
            )
            places |= dict.fromkeys(core.threads, place)
    return {str(cpu): places[cpu] for cpu in sorted(places)}


class CPUTopology:
    """Where each CPU is.

    Attributes:
        cpus: all that are listed.
        numa_nodes, sockets, cores, uncore_caches: their CPUs by ID. A core has the number of its
            first CPU.
        cpus_per_core, cpus_per_socket, cpus_per_uncore: means over the machine, rounded down.
        smallest: CPUs of the smallest NUMA node or socket.

    Source: v1.36.2 pkg/kubelet/cm/cpumanager/topology/topology.go CPUTopology
    Differs: sets by unit instead of a table by CPU.
    """

    def __init__(self, machine: MachineInfo, facts: ResourceManagerFacts) -> None:
        """Read the machine.

        Raises:
            DiscoverError: it has no CPUs, or a core has none or names one twice.

        Source: v1.36.2 pkg/kubelet/cm/cpumanager/topology/topology.go Discover
        """
        if machine.num_cores == 0:
            raise DiscoverError("could not detect number of cpus")
        self.cpus: CPUSet = 0
        self.numa_nodes: Units = {}
        self.sockets: Units = {}
        self.cores: Units = {}
        self.uncore_caches: Units = {}
        listed = num_cores = 0
        for node in machine.nodes:
            num_cores += len(node.cores)
            for core in node.cores:
                listed += len(core.threads)
                self._add(node.id, core.socket if facts.sockets_are_known else node.id, core)
        self.cores = dict(sorted(self.cores.items()))
        num_cpus = listed if machine.num_cores is None else machine.num_cores
        if not num_cpus:
            raise DiscoverError("could not detect number of cpus")
        counted = facts.sockets_counted_by_cadvisor
        self.num_sockets = machine.num_sockets if counted else len(machine.nodes)
        self.cpus_per_core = num_cpus // num_cores if num_cores else 0
        self.cpus_per_socket = num_cpus // self.num_sockets if self.num_sockets else 0
        self.cpus_per_uncore = num_cpus // len(self.uncore_caches) if self.uncore_caches else 0
        units = (*self.numa_nodes.values(), *self.sockets.values())
        self.smallest = min(map(int.bit_count, units), default=0)

    def _add(self, node: int, socket: int, core: Core) -> None:
        cpus = 0
        for thread in core.threads:
            cpus |= 1 << thread
        if cpus.bit_count() != len(core.threads):
            raise DiscoverError("cpus provided are not unique")
        if not cpus:
            raise DiscoverError("no cpus provided")
        if cpus & self.cpus:
            self._forget(cpus)
        self.cpus |= cpus
        uncore = socket if core.uncore_cache is None else core.uncore_cache
        first = (cpus & -cpus).bit_length() - 1
        self.cores[first] = self.cores.get(first, 0) | cpus
        self.numa_nodes[node] = self.numa_nodes.get(node, 0) | cpus
        self.sockets[socket] = self.sockets.get(socket, 0) | cpus
        self.uncore_caches[uncore] = self.uncore_caches.get(uncore, 0) | cpus

    def _forget(self, cpus: CPUSet) -> None:
        """A CPU that is listed again is where it was listed last."""
        for units in (self.numa_nodes, self.sockets, self.uncore_caches, self.cores):
            for unit, members in list(units.items()):
                units[unit] = members & ~cpus
                if not units[unit]:
                    del units[unit]

    @property
    def cpu_group_size(self) -> int:
        """CPUs of a core, which the kubelet divides by.

        Raises:
            BadInputError: none, where cAdvisor counts fewer CPUs than cores.
        """
        if not self.cpus_per_core:
            raise BadInputError("fewer CPUs than cores: the kubelet divides by 0 and crashes")
        return self.cpus_per_core

    @cached_property
    def node_masks(self) -> list[tuple[int, CPUSet, TopologyHint, TopologyHint]]:
        """Every set of NUMA nodes in the kubelet's order: how many, their CPUs, two hints of it.

        The first of these is not preferred, the second one is.
        """
        nodes = self.numa_nodes
        cpus = {0: 0}
        masks = []
        for size, rest, node, other, preferred in _shape(tuple(sorted(nodes))):
            mask = rest | 1 << node
            cpus[mask] = cpus[rest] | nodes[node]
            masks.append((size, cpus[mask], other, preferred))
        return masks

    def sockets_of(self, cpus: CPUSet) -> int:
        """How many sockets have any of these CPUs."""
        return sum(1 for members in self.sockets.values() if members & cpus)


@lru_cache(maxsize=64)
def _shape(nodes: tuple[int, ...]) -> list[tuple[int, int, int, TopologyHint, TopologyHint]]:
    """Sets of NUMA nodes: size, the mask without the last node, the last node, two hints."""
    shape = []
    for mask in iterate_bit_masks(nodes):
        last = mask.bit_length() - 1
        hints = TopologyHint(mask, preferred=False), TopologyHint(mask, preferred=True)
        shape.append((mask.bit_count(), mask ^ (1 << last), last, *hints))
    return shape
