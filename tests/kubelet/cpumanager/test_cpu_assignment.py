"""Which free CPUs are taken: by NUMA node, socket and core, or spread."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeledger.kubelet.cpumanager.cpu_assignment import (
    iterate_combinations,
    standard_deviation,
    take_by_topology,
)
from kubeledger.kubelet.cpumanager.policy_options import StaticPolicyOptions
from kubeledger.kubelet.cpumanager.topology import Core, CPUTopology, MachineInfo, Node
from kubeledger.kubelet.kube.containermanager import (
    AllocationError,
    cpu_set_text,
    cpus_of,
    parse,
    text_of,
)
from kubeledger.kubelet.profile.resolve import resolve

PACKED = StaticPolicyOptions()


def machine(
    cpus: int, *, per_node: int, per_socket: int, per_core: int = 2, per_cache: int = 0
) -> MachineInfo:
    cores = [
        Core(
            first // per_core,
            first // per_socket,
            tuple(range(first, first + per_core)),
            first // per_cache if per_cache else None,
        )
        for first in range(0, cpus, per_core)
    ]
    nodes = [
        Node(node, tuple(core for core in cores if core.threads[0] // per_node == node))
        for node in range(cpus // per_node)
    ]
    return MachineInfo(num_sockets=-(-cpus // per_socket), nodes=tuple(nodes))


FOUR_NODES = machine(16, per_node=4, per_socket=8)


def taken(
    of: MachineInfo,
    free: str,
    count: int,
    options: StaticPolicyOptions = PACKED,
    version: str = "1.36.2",
) -> str:
    facts = resolve(version).resourcemanagers
    try:
        return text_of(take_by_topology(CPUTopology(of, facts), parse(free), count, options, facts))
    except AllocationError as error:
        return str(error)


def test_before_1_23_numa_nodes_do_not_count() -> None:
    """Whole sockets, then cores of the fuller socket."""
    assert taken(FOUR_NODES, "0-1,4-15", 4, version="1.22.0") == "0-1,4-5"
    assert taken(FOUR_NODES, "0-1,4-15", 4, version="1.23.0") == "4-7"


@pytest.mark.parametrize(("version", "expected"), [("1.19.8", "4-7"), ("1.19.9", "0-1,4-5")])
def test_before_1_19_9_each_numa_node_is_a_socket(version: str, expected: str) -> None:
    """Until then the kubelet took cAdvisor's NUMA nodes for sockets."""
    assert taken(FOUR_NODES, "0-1,4-15", 4, version=version) == expected


@pytest.mark.parametrize(
    ("version", "expected"), [("1.19.8", 4), ("1.19.9", 8), ("1.20.4", 4), ("1.20.5", 8)]
)
def test_cpus_of_a_socket(version: str, expected: int) -> None:
    topology = CPUTopology(FOUR_NODES, resolve(version).resourcemanagers)
    assert topology.cpus_per_socket == expected


@pytest.mark.parametrize(("version", "expected"), [("1.23.0", "0-2,8-10"), ("1.24.0", "0-2,4-6")])
def test_what_is_balanced(version: str, expected: str) -> None:
    """In 1.23 the NUMA nodes that are chosen, since then the machine, of which one is nearly full.

    With 4, 4, 3 and 1 CPUs free nodes 0 and 2 are left with 1 and 0, or 0 and 1 with 1 each.
    """
    options = StaticPolicyOptions(distribute_cpus_across_numa=True)
    assert taken(FOUR_NODES, "0-10,12", 6, options, version) == expected


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("1.23.0", "accounting error, not enough CPUs allocated, remaining: 1"),
        ("1.24.0", "0-2,8,12"),
    ],
)
def test_who_gives_the_rest(version: str, expected: str) -> None:
    """In 1.23 each chosen NUMA node gives one CPU more or none, also one that has no more."""
    options = StaticPolicyOptions(distribute_cpus_across_numa=True)
    assert taken(FOUR_NODES, "0-2,4,8,12", 5, options, version) == expected


def test_a_combination_that_is_kept_is_overwritten() -> None:
    """Of four and more: the kubelet gives CPUs of another node than it found best."""
    kept = next(combinations := iterate_combinations(range(6), 4))
    assert kept[:4] == [0, 1, 2, 3]
    next(combinations)
    assert kept[:4] == [0, 1, 2, 4]
    assert [c[:3] for c in iterate_combinations(range(4), 3)] == [
        [0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3],
    ]  # fmt: skip
    eight = machine(16, per_node=2, per_socket=8, per_core=1)
    options = StaticPolicyOptions(distribute_cpus_across_numa=True)
    assert taken(eight, "1-15", 8, options) == "2-7,14-15"


@pytest.mark.parametrize(
    ("version", "expected"), [("1.32.0", "1,4-5"), ("1.33.0", "8-10"), ("1.36.0", "8-10")]
)
def test_an_odd_number_of_one_uncore_cache(version: str, expected: str) -> None:
    """Since 1.33 the last core gives one of its threads."""
    of = machine(16, per_node=16, per_socket=16, per_cache=4)
    options = StaticPolicyOptions(prefer_align_cpus_by_uncore_cache=True)
    assert taken(of, "1,4-5,8-15", 3, options, version) == expected


def test_a_unit_that_is_taken_twice_counts_twice() -> None:
    """A socket over two NUMA nodes, where there are as many sockets: the kubelet takes too few."""
    of_socket_1 = tuple(Core(core, 1, (2 * core, 2 * core + 1)) for core in range(3, 7))
    nodes = (
        Node(0, (Core(0, 0, (0, 1)), Core(1, 0, (2, 3)))),
        Node(1, (Core(2, 0, (4, 5)), *of_socket_1)),
    )
    assert taken(MachineInfo(num_sockets=2, nodes=nodes), "0-1,4-11", 8) == "0-1,4-5"


def test_deviation_is_rounded() -> None:
    assert standard_deviation((1, 2, 2)) == 0.471
    assert standard_deviation((3,)) == 0


# -- Sets of CPUs as text --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "cpus", "canonical"),
    [("", [], ""), ("0-3,7", [0, 1, 2, 3, 7], "0-3,7"), ("7,0,1", [0, 1, 7], "0-1,7")],
)
def test_notation(text: str, cpus: list[int], canonical: str) -> None:
    """Ranges, single CPUs, and their one form."""
    assert cpus_of(text) == frozenset(cpus)
    assert cpu_set_text(cpus) == canonical


@pytest.mark.parametrize("text", ["x", "3-1", "1,,2", "-1", "1-", "9999999"])
def test_no_sets(text: str) -> None:
    with pytest.raises(ValueError, match="is not a set of CPUs"):
        cpus_of(text)


@given(st.frozensets(st.integers(0, 300)))
def test_back_and_forth(cpus: frozenset[int]) -> None:
    assert cpus_of(cpu_set_text(cpus)) == cpus
