"""Which of the free CPUs are taken: whole NUMA nodes, sockets and cores first, or spread evenly.

Order is by how many CPUs of a unit are free, fewest first, and then by number, so that no choice
is left to chance.

Source: v1.36.2 pkg/kubelet/cm/cpumanager/cpu_assignment.go, under the names there
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from math import floor, inf, sqrt

from kubeledger.kubelet.cpumanager.policy_options import StaticPolicyOptions
from kubeledger.kubelet.cpumanager.topology import CPUTopology, Units
from kubeledger.kubelet.kube.containermanager import AllocationError, CPUSet, cpus_in
from kubeledger.kubelet.profile.resourcemanagers import ResourceManagerFacts


class CPUAccumulator:
    """CPUs taken so far, and those that are still free.

    Attributes:
        details: CPUs that may be taken.
        needed: how many are still to be taken; below 0 where a unit was taken twice.
    """

    __slots__ = ("_facts", "_first", "_second", "_topo", "details", "needed", "result")

    def __init__(
        self, topo: CPUTopology, available: CPUSet, count: int, facts: ResourceManagerFacts
    ) -> None:
        self._topo = topo
        self._facts = facts
        self.details = available & topo.cpus
        self.needed = count
        self.result: CPUSet = 0
        if not facts.whole_numa_nodes_first:
            self._first = self._second = topo.sockets
        elif topo.num_sockets >= len(topo.numa_nodes):
            self._first, self._second = topo.numa_nodes, topo.sockets
        else:
            self._first, self._second = topo.sockets, topo.numa_nodes

    def take(self, cpus: CPUSet) -> None:
        """Take CPUs; those that are taken already count once more, as in the kubelet."""
        self.result |= cpus
        self.details &= ~cpus
        self.needed -= cpus.bit_count()

    def sort_available(self, units: Units) -> list[int]:
        """NUMA nodes or sockets with free CPUs, the smaller of the two by the larger around them.

        A unit that reaches over several larger ones stands there several times.
        """
        details = self.details
        firsts = _by_free(self._first, details, details)
        if units is self._first:
            return firsts
        around = self._first
        return [unit for first in firsts for unit in _by_free(units, around[first], details)]

    def sort_available_uncore_caches(self) -> list[int]:
        """Uncore caches with free CPUs, node by node."""
        nodes, caches, details = self._topo.numa_nodes, self._topo.uncore_caches, self.details
        ordered = self.sort_available(nodes)
        return [cache for node in ordered for cache in _by_free(caches, nodes[node], details)]

    def units_around_cores(self) -> Iterator[CPUSet]:
        """CPUs of the units by which cores are sorted, of those that have free ones."""
        return (self._second[unit] for unit in self.sort_available(self._second))

    def sort_available_cpus(self, *, spread: bool) -> Iterator[int]:
        """Free CPUs core by core, or socket by socket where they are to be spread over cores."""
        details = self.details
        if spread:
            sockets = self._topo.sockets
            for socket in self.sort_available(sockets):
                yield from cpus_in(sockets[socket] & details)
            return
        cores = self._topo.cores
        for within in self.units_around_cores():
            for core in _by_free(cores, within, details):
                yield from cpus_in(cores[core] & details)

    def take_full_level(self, units: Units) -> None:
        """Whole NUMA nodes or sockets that are all free, while they fit into what is needed."""
        if self.needed < self._topo.smallest:
            return
        size = self._topo.cpus_per_socket if units is self._topo.sockets else None
        self._take_full(units, self.sort_available(units), size)

    def take_full_cores(self) -> None:
        """Whole cores that are all free, by number: none has fewer free CPUs than another."""
        size, details = self._topo.cpus_per_core, self.details
        for within in self.units_around_cores():
            for members in self._topo.cores.values():
                if self.needed < size:
                    return
                free = members & details
                if free & within and free.bit_count() == (size or members.bit_count()):
                    self._take_whole(members, details)

    def _take_full(self, units: Units, ordered: Iterable[int], size: int | None = None) -> None:
        """Take units that are free, while they fit.

        Args:
            ordered: those with free CPUs.
            size: of a free unit; None: that of the unit itself. Where units differ in size, one
                may count as free that is not; up to 1.21 only its free CPUs are taken.
        """
        details = self.details
        for unit in ordered:
            members = units[unit]
            if (members & details).bit_count() == (size or members.bit_count()):
                self._take_whole(members, details)

    def _take_whole(self, members: CPUSet, details: CPUSet) -> None:
        taken = members if self._facts.units_sorted_by_free_cpus else members & details
        if self.needed >= taken.bit_count():
            self.take(taken)

    def take_full_first_levels(self) -> None:
        """Whole units of the larger level, then of the smaller one."""
        self.take_full_level(self._first)
        if self.needed > 0 and self._second is not self._first:
            self.take_full_level(self._second)

    def take_uncore_cache(self) -> None:
        """Whole uncore caches while one is needed, and then a part of one that has the rest."""
        caches = self._topo.uncore_caches
        for cache in self.sort_available_uncore_caches():
            if self.needed >= self._topo.cpus_per_uncore:
                self._take_full(caches, self.sort_available_uncore_caches())
            if self.needed > 0:
                self.take_partial_uncore(caches[cache])
            if self.needed < 1:
                return

    def take_partial_uncore(self, cache: CPUSet) -> None:
        """The first free cores of an uncore cache, if they are exactly what is needed."""
        size, needed, cores = self._topo.cpu_group_size, self.needed, self._topo.cores
        rounds_up = self._facts.odd_requests_in_one_uncore_cache
        count = -(-needed // size) if rounds_up else needed // size
        within = cache & self.details
        free = 0
        for core in sorted(core for core, members in cores.items() if members & within)[:count]:
            free |= cores[core] & self.details
        if rounds_up and needed % 2 and size > 1 and free.bit_count() > needed:
            free &= ~(1 << (free.bit_length() - 1))
        if free.bit_count() == needed:
            self.take(free)

    def take_remaining_cpus(self, *, spread: bool) -> None:
        """Single CPUs."""
        for cpu in self.sort_available_cpus(spread=spread):
            self.take(1 << cpu)
            if self.needed < 1:
                return


def _by_free(units: Units, within: CPUSet, details: CPUSet) -> list[int]:
    """IDs of the units with a free CPU in a set, by their free CPUs, fewest first."""
    within &= details
    ranked = [((m & details).bit_count(), unit) for unit, m in units.items() if m & within]
    ranked.sort()
    return [unit for _, unit in ranked]


def take_by_topology(
    topo: CPUTopology,
    available: CPUSet,
    count: int,
    options: StaticPolicyOptions,
    facts: ResourceManagerFacts,
) -> CPUSet:
    """So many CPUs out of those available, in the way that the policy's options want.

    Raises:
        AllocationError: there are too few.

    Source: v1.36.2 pkg/kubelet/cm/cpumanager/policy_static.go takeByTopology
    """
    if options.distribute_cpus_across_numa:
        group = topo.cpu_group_size if options.full_physical_cpus_only else 1
        return take_by_topology_numa_distributed(topo, available, count, group, options, facts)
    return take_by_topology_numa_packed(
        topo, available, count, options, facts, uncore=options.prefer_align_cpus_by_uncore_cache
    )


def take_by_topology_numa_packed(
    topo: CPUTopology,
    available: CPUSet,
    count: int,
    options: StaticPolicyOptions,
    facts: ResourceManagerFacts,
    *,
    uncore: bool = False,
) -> CPUSet:
    """So many CPUs, as close together as possible.

    Differs: up to 1.21 the kubelet compares cores by a rule that is no order, so that which it
        takes depends on how Go sorts; here the order of 1.22 stands for it.
    """
    if count < 1:
        return 0
    acc = CPUAccumulator(topo, available, count, facts)
    _check_enough(acc, available, count, facts)
    spread = options.distribute_cpus_across_cores
    acc.take_full_first_levels()
    if acc.needed > 0 and uncore:
        acc.take_uncore_cache()
    if acc.needed > 0 and not spread:
        acc.take_full_cores()
    if acc.needed > 0:
        acc.take_remaining_cpus(spread=spread)
    if acc.needed > 0:
        raise AllocationError("failed to allocate cpus")
    return acc.result


def _check_enough(
    acc: CPUAccumulator, available: CPUSet, count: int, facts: ResourceManagerFacts
) -> None:
    if count <= acc.details.bit_count():
        return
    numbers = ""
    if facts.cpu_shortage_names_numbers:
        numbers = f": requested={count}, available={available.bit_count()}"
    raise AllocationError(f"not enough cpus available to satisfy request{numbers}")


def take_by_topology_numa_distributed(
    topo: CPUTopology,
    available: CPUSet,
    count: int,
    group: int,
    options: StaticPolicyOptions,
    facts: ResourceManagerFacts,
) -> CPUSet:
    """So many CPUs, evenly out of as few NUMA nodes as have them.

    Args:
        group: CPUs that are taken together.

    Source: v1.36.2 pkg/kubelet/cm/cpumanager/cpu_assignment.go takeByTopologyNUMADistributed;
        v1.23.0
    """
    if count % group and facts.distribution_balances_machine:
        return take_by_topology_numa_packed(topo, available, count, options, facts)
    if count < 1:
        return 0
    acc = CPUAccumulator(topo, available, count, facts)
    _check_enough(acc, available, count, facts)
    nodes = topo.numa_nodes
    ordered = acc.sort_available(nodes)
    free = {node: (nodes[node] & acc.details).bit_count() for node in ordered}
    for size in _range_needed(topo, free, count, group, facts):
        chosen = _best_combination(ordered, free, size, count, group, facts)
        if chosen is None:
            continue
        combo, givers = chosen

        def take_from(node: int, number: int) -> None:
            with suppress(AllocationError):
                part = nodes[node] & acc.details
                acc.take(take_by_topology_numa_packed(topo, part, number, options, facts))

        even = count // size // group * group
        for node in combo:
            take_from(node, even)
        rest = count - even * size
        in_turn = _in_turn(
            givers, lambda node: (nodes[node] & acc.details).bit_count(), rest, group
        )
        for node in in_turn if facts.distribution_balances_machine else givers:
            take_from(node, group)
        if acc.needed:
            many = "not enough" if acc.needed > 0 else "too many"
            raise AllocationError(
                f"accounting error, {many} CPUs allocated, remaining: {acc.needed}"
            )
        return acc.result
    return take_by_topology_numa_packed(topo, available, count, options, facts)


def _range_needed(
    topo: CPUTopology, free: Mapping[int, int], count: int, group: int, facts: ResourceManagerFacts
) -> range:
    """Numbers of NUMA nodes that may do, of those with free CPUs.

    Source: v1.36.2 pkg/kubelet/cm/cpumanager/cpu_assignment.go rangeNUMANodesNeededToSatisfy;
        v1.23.0
    """
    cpus, nodes = topo.cpus.bit_count(), len(topo.numa_nodes)
    if not facts.distribution_balances_machine:
        cpus, nodes = sum(free.values()), len(free)
    groups_of_node = ((cpus - 1) // group) // nodes + 1
    needed = (count - 1) // group + 1
    return range((needed - 1) // groups_of_node + 1, min(needed, len(free)) + 1)


def _in_turn(
    nodes: Sequence[int], free: Callable[[int], int], rest: int, group: int
) -> Iterator[int]:
    """NUMA nodes in turn, each as often as it gives a group of CPUs, until the rest is there.

    Where they have not enough groups, the kubelet would go on for ever; here it ends.
    """
    while rest > 0 and any(free(node) >= group for node in nodes):
        for node in nodes:
            if rest > 0 and free(node) >= group:
                rest -= group
                yield node


def _best_combination(
    ordered: Sequence[int],
    free: Mapping[int, int],
    size: int,
    count: int,
    group: int,
    facts: ResourceManagerFacts,
) -> tuple[Sequence[int], Sequence[int]] | None:
    """The NUMA nodes that leave the machine most evenly filled, and which of them give the rest.

    Args:
        ordered: NUMA nodes in the order in which combinations are tried.
        group: CPUs that are taken together.
    """
    best = inf
    found: list[int] | None = None
    givers: Sequence[int] = ()
    even = count // size // group * group
    rest = count - even * size
    for kept in iterate_combinations(ordered, size):
        if best == 0:
            break
        combo = kept[:size]
        counts = [free[node] for node in combo]
        groups = sum(number // group for number in counts)
        enough = sum(free[node] for node in set(combo)) >= count and groups * group >= count
        if not enough or min(counts) < even:
            continue
        if facts.distribution_balances_machine:
            after = dict(free)
            for node in combo:
                after[node] -= even
            balance, of_combo = _best_remainder(after, combo, rest, group)
        else:
            after = {node: free[node] - even for node in combo}
            balance, of_combo = _best_groups(after, combo, rest, group)
        if balance < best:
            best, found, givers = balance, kept, of_combo
    return None if found is None else (found[:size], givers)


def _best_remainder(
    after: dict[int, int], combo: Sequence[int], rest: int, group: int
) -> tuple[float, Sequence[int]]:
    """The balance of the machine, and which nodes give what cannot be divided evenly."""
    if not rest:
        return standard_deviation(tuple(sorted(after.values()))), ()
    best = inf
    found: tuple[list[int], int] = ([], 0)
    givers = [node for node in combo if after[node] >= group]
    for size in range(len(givers), 0, -1):
        for kept in iterate_combinations(givers, size):
            subset = kept[:size]
            if sum(after[node] for node in subset) < rest:
                continue
            left = after.copy()
            given = 0
            for node in _in_turn(subset, left.__getitem__, rest, group):
                left[node] -= group
                given += group
            balance = standard_deviation(tuple(sorted(left.values())))
            if given >= rest and balance < best:
                best, found = balance, (kept, size)
    return best, found[0][: found[1]]


def _best_groups(
    after: dict[int, int], combo: Sequence[int], rest: int, group: int
) -> tuple[float, Sequence[int]]:
    """The same in 1.23, of the chosen NUMA nodes alone, each of which gives a group or none.

    For each of them a 0 is counted beside what is left on it.

    Source: v1.23.0 pkg/kubelet/cm/cpumanager/cpu_assignment.go takeByTopologyNUMADistributed,
        mapIntInt.Values, standardDeviation
    """

    def balance_of(left: Mapping[int, int]) -> float:
        counts = [0] * len(left) + [*left.values()]
        mean = sum(counts) / len(counts)
        return sqrt(sum((n - mean) * (n - mean) for n in counts) / len(counts))

    if not rest:
        return balance_of(after), ()
    best, found, size = inf, list[int](), rest // group
    for kept in iterate_combinations(combo, size):
        left = after.copy()
        for node in kept[:size]:
            left[node] -= group
        balance = balance_of(left)
        if balance < best:
            best, found = balance, kept
    return best, found[:size]


def iterate_combinations(items: Sequence[int], size: int) -> Iterator[list[int]]:
    """Combinations in order: the first ``size`` entries of each list.

    A combination that is kept changes as long as the next ones differ from it in their last
    entries only: so in the kubelet, where they share an array that append had made too large.
    It then takes other NUMA nodes than it chose.
    """

    def below(start: int, array: list[int], length: int) -> Iterator[list[int]]:
        if length == size:
            yield array
            return
        for index in range(start, len(items) - (size - length) + 1):
            grown = array
            if length == len(array):
                grown = array + [0] * max(length, 1)
            grown[length] = items[index]
            yield from below(index + 1, grown, length + 1)

    if size > 0:
        yield from below(0, [], 0)


@lru_cache(maxsize=1 << 12)
def standard_deviation(counts: tuple[int, ...]) -> float:
    """To three digits, of a mean to three digits.

    Source: v1.36.2 pkg/kubelet/cm/cpumanager/cpu_assignment.go standardDeviation, mean
    Differs: adds in the order of the counts, where the kubelet adds in that of a map.
    """
    mean = _rounded(sum(counts) / len(counts))
    return _rounded(sqrt(sum((n - mean) * (n - mean) for n in counts) / len(counts)))


def _rounded(number: float) -> float:
    """``math.Round`` of the thousandths of what is not negative."""
    thousandths = number * 1000
    whole = floor(thousandths)
    return (whole + (thousandths - whole >= 0.5)) / 1000
