"""Which of the free CPUs a container gets: whole NUMA nodes, sockets and cores first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping

from kubeledger.kubelet.cpumanager.decider import Cpus
from kubeledger.model.bodies.cpumanager import CpuPlace


def take_aligned(
    machine: Mapping[int, CpuPlace], free: Cpus, count: int, nodes: Collection[int] | None
) -> Cpus:
    """CPUs out of ``free``, those of the affinity's NUMA nodes first.

    Args:
        machine: CPU -> its place; holds all of ``free``.
        free: CPUs that may be taken.
        count: how many are, 0 or more.
        nodes: NUMA nodes of the affinity; None for any.

    Source: v1.30.1 pkg/kubelet/cm/cpumanager/policy_static.go allocateCPUs
    Differs: no policy option is on.
    """
    on_nodes = frozenset(cpu for cpu in free if machine[cpu].numa_node in (nodes or ()))
    first = take_by_topology(machine, on_nodes, min(count, len(on_nodes)))
    return first | take_by_topology(machine, free - first, count - len(first))


def take_by_topology(machine: Mapping[int, CpuPlace], free: Cpus, count: int) -> Cpus:
    """So many CPUs out of ``free``: whole units of a level that fit, from the fullest node on.

    Source: v1.23.0 pkg/kubelet/cm/cpumanager/cpu_assignment.go takeByTopologyNUMAPacked
    Differs: no policy option is on.
    """
    sockets = len({place.socket for place in machine.values()})
    nodes = len({place.numa_node for place in machine.values()})
    levels = ["numa_node", "socket"] if sockets >= nodes else ["socket", "numa_node"]
    levels.append("core")
    taken: Cpus = frozenset()
    for depth, level in enumerate(levels):
        unit_of = _units(machine, level)
        sizes = Counter(map(unit_of, machine))
        ordered = _ordered(machine, free - taken, levels[: depth + 1])
        for unit in dict.fromkeys(map(unit_of, ordered)):
            whole = frozenset(cpu for cpu in ordered if unit_of(cpu) == unit)
            if len(whole) == sizes[unit] <= count - len(taken):
                taken |= whole
    rest = _ordered(machine, free - taken, levels)
    return taken | frozenset(rest[: count - len(taken)])


def _units(machine: Mapping[int, CpuPlace], level: str) -> Callable[[int], int]:
    return lambda cpu: getattr(machine[cpu], level)


def _ordered(machine: Mapping[int, CpuPlace], free: Iterable[int], levels: list[str]) -> list[int]:
    """CPUs by their units, those with fewer free CPUs first."""
    left = sorted(free)
    left_in = {level: Counter(map(_units(machine, level), left)) for level in levels}

    def rank(cpu: int) -> list[tuple[int, int]]:
        units = [(level, _units(machine, level)(cpu)) for level in levels]
        return [(left_in[level][unit], unit) for level, unit in units]

    return sorted(left, key=rank)
