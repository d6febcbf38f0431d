"""What the machine has, where its sources disagree."""

from __future__ import annotations

from kubeledger.model.bodies.images import EvictionSignalObserved
from kubeledger.model.bodies.node import KubeletStarted, NodeObserved
from kubeledger.model.record import Body
from kubeledger.verify import Contradiction
from tests.verify.histories import outcomes, scene

GIB = 1 << 30
KUBELET = KubeletStarted(pid=1, kubelet_version="1.36.2", version_source="log")


def signal(name: str, capacity: int) -> EvictionSignalObserved:
    """A signal of the eviction manager."""
    return EvictionSignalObserved(signal=name, available=capacity // 2, capacity=capacity)


def machine(memory: int) -> NodeObserved:
    """The line about the machine."""
    return NodeObserved(cpus=2, memory_capacity_bytes=memory)


def signals(sizes: list[int], name: str = "memory.available") -> list[tuple[float, Body]]:
    """One every ten seconds."""
    return [(10.0 * n, signal(name, size)) for n, size in enumerate(sizes, start=1)]


def disputes(*steps: tuple[float, Body]) -> list[list[str]]:
    """Places and sizes of each contradiction."""
    return [
        [side.says.split(",")[0] for side in each.sides]
        for each in outcomes(scene((0, KUBELET), *steps))
        if isinstance(each, Contradiction)
    ]


def test_the_memory_of_the_machine() -> None:
    """The signals of the same kubelet process are believed."""
    steps = [(1.0, machine(GIB + 4096)), *signals([GIB] * 9)]
    (sides,) = disputes(*steps)
    assert sides == [f"kubelet.log:2: {GIB + 4096} bytes", f"kubelet.log:3: {GIB} bytes"]
    assert disputes((1.0, machine(GIB)), *signals([GIB] * 9)) == []


def test_a_machine_that_grew() -> None:
    """Between two kubelet processes, the first of which sent no signals; or while it ran."""
    again: list[tuple[float, Body]] = [(5.0, KUBELET), (6.0, machine(GIB))]
    assert disputes((1.0, machine(GIB // 2)), *again, *signals([GIB] * 9)) == []
    steps = signals([GIB // 2] * 2 + [GIB] * 9)
    assert disputes((1.0, machine(GIB // 2)), *steps) == []


def test_the_last_kubelet_process() -> None:
    """Its own signals count, though there were some before."""
    steps = [(1.0, machine(GIB)), *signals([GIB] * 9)]
    again: list[tuple[float, Body]] = [(95.0, KUBELET), (96.0, machine(GIB + 4096))]
    later: list[tuple[float, Body]] = [(105.0, signal("memory.available", GIB))]
    assert len(disputes(*steps, *again, *later)) == 1
    assert disputes(*steps, *again) == []
