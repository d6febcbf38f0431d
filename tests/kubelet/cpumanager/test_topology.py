"""Which free CPUs a container gets: by NUMA node, socket and core."""

from __future__ import annotations

import pytest

from kubeledger.kubelet.cpumanager.topology import take_aligned
from kubeledger.kubelet.kube.cpuset import cpu_set_text, cpus_of
from kubeledger.model.bodies.cpumanager import CpuPlace

TWO_NODES = {cpu: CpuPlace(numa_node=cpu // 8, socket=cpu // 8, core=cpu // 2) for cpu in range(16)}


@pytest.mark.parametrize(
    ("free", "count", "nodes", "taken"),
    [
        ("0-15", 2, None, "0-1"),  # a whole core
        ("1-15", 2, None, "2-3"),  # of the fuller node
        ("1-15", 3, None, "1-3"),  # and then the thread of the core that is begun
        ("1-15", 8, None, "8-15"),  # a whole node
        ("1-7,9-15", 4, (1,), "10-13"),
        ("6-7,8-15", 4, (0,), "6-9"),  # too few there: the rest of another
        ("3,5,9", 2, None, "3,9"),
    ],
)
def test_whole_units_first(
    free: str, count: int, nodes: tuple[int, ...] | None, taken: str
) -> None:
    """Nodes, sockets and cores that are all free, then single threads; the fuller come first."""
    assert cpu_set_text(take_aligned(TWO_NODES, cpus_of(free), count, nodes)) == taken


@pytest.mark.parametrize(("per_node", "per_socket"), [(4, 8), (8, 4)])
def test_the_larger_unit_comes_first(per_node: int, per_socket: int) -> None:
    """A whole unit of the fuller one: sockets may hold several nodes, or nodes several sockets."""
    machine = {
        cpu: CpuPlace(numa_node=cpu // per_node, socket=cpu // per_socket, core=cpu // 2)
        for cpu in range(16)
    }
    assert cpu_set_text(take_aligned(machine, cpus_of("0-5,8-12"), 4, None)) == "8-11"
