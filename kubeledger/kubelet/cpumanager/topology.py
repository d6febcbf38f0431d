"""The CPUs of a machine by core, uncore cache, socket and NUMA node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

import msgspec

from kubeledger.kubelet.kube.cpuset import CPUSet, set_of
from kubeledger.kubelet.profile.resourcemanagers import ResourceManagerFacts
from kubeledger.kubelet.topologymanager.bitmask import iterate_bit_masks
from kubeledger.model.bodies.cpumanager import CpuPlace
from kubeledger.model.errors import BadInputError

Units = dict[int, CPUSet]
"""ID of a NUMA node, socket, uncore cache or core -> its CPUs."""


class DiscoverError(ValueError):
    """A machine that the kubelet makes no topology of; the text is the kubelet's."""


class Core(msgspec.Struct, frozen=True, gc=False, array_like=True, forbid_unknown_fields=True):
    """A physical CPU as cAdvisor reports it.

    Attributes:
        id: unique only on its socket, and not read.
        socket: ID.
        threads: CPU IDs.
        uncore_cache: ID; None where the core has none.
    """

    id: int
    socket: int
    threads: tuple[int, ...]
    uncore_cache: int | None = None


class Node(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A NUMA node as cAdvisor reports it."""

    id: int
    cores: tuple[Core, ...]


class MachineInfo(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What cAdvisor reports of the CPUs.

    Attributes:
        num_sockets: how many.
        nodes: (n,) in cAdvisor's order.
        num_cores: how many CPUs; None: as many as are listed.
    """

    num_sockets: int
    nodes: tuple[Node, ...]
    num_cores: int | None = None


def machine_of(cpus: Mapping[str, CpuPlace]) -> MachineInfo:
    """A machine as cAdvisor would report it, of what a kubelet logged of it."""
    cores: dict[tuple[int, int, int], list[int]] = {}
    for cpu, place in sorted(cpus.items(), key=lambda item: int(item[0])):
        cores.setdefault((place.numa_node, place.socket, place.core), []).append(int(cpu))
    nodes: dict[int, list[Core]] = {}
    for (node, socket, core), threads in cores.items():
        nodes.setdefault(node, []).append(Core(core, socket, tuple(threads)))
    return MachineInfo(
        num_sockets=len({place.socket for place in cpus.values()}),
        nodes=tuple(Node(node, tuple(of_node)) for node, of_node in sorted(nodes.items())),
    )


class CPUTopology:
    """Where each CPU is.

    Attributes:
        cpus: all that are listed.
        numa_nodes, sockets, cores, uncore_caches: their CPUs by ID. A core has the number of its
            first CPU.
        cpus_per_core, cpus_per_socket, cpus_per_uncore: means over the machine, rounded down.

    Source: v1.36.2 pkg/kubelet/cm/cpumanager/topology/topology.go CPUTopology
    Differs: sets by unit instead of a table by CPU.
    """

    def __init__(self, machine: MachineInfo, facts: ResourceManagerFacts) -> None:
        """Read the machine.

        Raises:
            DiscoverError: it has no CPUs, or a core has none or names one twice.

        Source: v1.36.2 pkg/kubelet/cm/cpumanager/topology/topology.go Discover
        Differs: no
        """
        if machine.num_cores == 0:
            raise DiscoverError("could not detect number of cpus")
        self.cpus: CPUSet = 0
        self.numa_nodes: Units = {}
        self.sockets: Units = {}
        self.cores: Units = {}
        self.uncore_caches: Units = {}
        listed = 0
        for node in machine.nodes:
            for core in node.cores:
                self._add(node.id, core)
                listed += len(core.threads)
        num_cpus = listed if machine.num_cores is None else machine.num_cores
        if not num_cpus:
            raise DiscoverError("could not detect number of cpus")
        num_cores = sum(len(node.cores) for node in machine.nodes)
        counted = facts.sockets_counted_by_cadvisor
        self.num_sockets = machine.num_sockets if counted else len(machine.nodes)
        self.cpus_per_core = num_cpus // num_cores if num_cores else 0
        self.cpus_per_socket = num_cpus // self.num_sockets if self.num_sockets else 0
        self.cpus_per_uncore = num_cpus // len(self.uncore_caches) if self.uncore_caches else 0

    def _add(self, node: int, core: Core) -> None:
        threads = core.threads
        if not threads:
            raise DiscoverError("no cpus provided")
        cpus = set_of(threads)
        if cpus.bit_count() != len(threads):
            raise DiscoverError("cpus provided are not unique")
        if cpus & self.cpus:
            self._forget(cpus)
        uncore = core.socket if core.uncore_cache is None else core.uncore_cache
        self.cpus |= cpus
        for units, unit in (
            (self.numa_nodes, node),
            (self.sockets, core.socket),
            (self.uncore_caches, uncore),
            (self.cores, min(threads)),
        ):
            units[unit] = units.get(unit, 0) | cpus

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
    def node_masks(self) -> list[tuple[int, int, CPUSet]]:
        """Every set of NUMA nodes in the kubelet's order: mask, number of nodes, their CPUs."""
        return list(self._node_masks())

    def _node_masks(self) -> Iterator[tuple[int, int, CPUSet]]:
        for mask in iterate_bit_masks(sorted(self.numa_nodes)):
            cpus = 0
            for node, members in self.numa_nodes.items():
                if mask >> node & 1:
                    cpus |= members
            yield mask, mask.bit_count(), cpus

    def sockets_of(self, cpus: CPUSet) -> int:
        """How many sockets have any of these CPUs."""
        return sum(1 for members in self.sockets.values() if members & cpus)
