"""Simulated device plugins and the managers that hand devices out."""

from typing import Any

import pytest

from kubeledger.model.bodies.devicemanager import NO_HINTS
from kubeledger.model.units import NS_PER_S
from kubeledger.simulate.engine.plan import DeviceScript, KubeletRestart, PluginScript, PluginStep
from tests.simulate.engine.scenes import container, of_kind, planned, run

S = NS_PER_S
GPU = "example.com/gpu"


def asks(count: int) -> dict[str, Any]:
    return container(limits={GPU: str(count)}, requests={GPU: str(count)})


def gpus(*steps: PluginStep, **more: Any) -> PluginScript:  # noqa: ANN401 # any field
    """Four devices on two NUMA nodes, registered after five seconds."""
    devices = tuple(DeviceScript(id=f"gpu-{n}", numa=(n // 2,)) for n in range(4))
    first = PluginStep(at_ns=5 * S, does="register")
    return PluginScript(resource=GPU, devices=devices, steps=(first, *steps), **more)


def test_devices_are_granted_released_and_refused(version: str) -> None:
    found = run(
        planned("a", asks(3), at_s=30, deleted_s=60),
        planned("b", asks(2), at_s=40),
        planned("c", asks(2), at_s=90),
        plugins=(gpus(),),
        numa=(0, 1),
        version=version,
    )
    granted = {b.pod: b.device_ids for b in of_kind(found, "devicemanager.DevicesAllocated")}
    assert granted == {"a": ("gpu-0", "gpu-1", "gpu-2"), "c": ("gpu-0", "gpu-1")}
    refused = of_kind(found, "devicemanager.AllocationFailed")
    assert [(b.pod, b.requested, b.available) for b in refused] == [("b", 2, 1)]
    released = of_kind(found, "devicemanager.DevicesReleased")
    assert [b.pod_uid[-2:] for b in released] == ["61"]  # of a, when c came


def test_a_refused_pod_that_held_nothing_is_not_released() -> None:
    found = run(planned("a", asks(9), at_s=30), planned("b", asks(1), at_s=40), plugins=(gpus(),))
    assert of_kind(found, "devicemanager.DevicesReleased") == []


@pytest.mark.parametrize("scope", ["container", "pod"])
@pytest.mark.parametrize("policy", ["none", "best-effort", "restricted", "single-numa-node"])
def test_policies_align(version: str, policy: str, scope: str) -> None:
    found = run(
        planned("a", asks(1), at_s=30),
        planned("b", asks(2), at_s=31),
        planned("c", asks(3), at_s=32),
        plugins=(gpus(preferred="first"),),
        numa=(0, 1),
        settings={"topologyManagerPolicy": policy, "topologyManagerScope": scope},
        version=version,
    )
    granted = {b.pod: b.device_ids for b in of_kind(found, "devicemanager.DevicesAllocated")}
    aligned = policy != "none"
    assert granted["b"] == (("gpu-2", "gpu-3") if aligned else ("gpu-1", "gpu-2"))
    hints = of_kind(found, "topologymanager.HintsGenerated")
    assert len(hints) == (3 if aligned else 0)
    assert {b.container for b in hints} == ({None if scope == "pod" else "app"} if hints else set())


@pytest.mark.parametrize("policy", ["restricted", "single-numa-node"])
def test_a_refusal_at_hints_is_the_device_managers(version: str, policy: str) -> None:
    """Too few devices for any hint: the manager tells how many before the policy refuses."""
    found = run(
        planned("a", asks(2), at_s=30),
        planned("b", asks(2), at_s=35),
        planned("c", asks(1), at_s=40),
        plugins=(gpus(),),
        numa=(0, 1),
        settings={"topologyManagerPolicy": policy},
        version=version,
    )
    refused = of_kind(found, "devicemanager.AllocationFailed")
    reported = [(b.pod, b.container, b.requested, b.available, b.error) for b in refused]
    assert reported == [("c", "app", 1, 0, NO_HINTS)]
    rejected = of_kind(found, "lifecycle.PodRejected")
    assert [(b.pod, b.reason) for b in rejected] == [("c", "TopologyAffinityError")]


def test_unhealthy_devices_crashes_and_restarts(version: str) -> None:
    steps = (
        PluginStep(at_ns=60 * S, does="unhealthy", devices=("gpu-3",)),
        PluginStep(at_ns=150 * S, does="crash"),
        PluginStep(at_ns=200 * S, does="register"),
    )
    found = run(
        planned("a", asks(1), at_s=30),
        planned("b", asks(3), at_s=100),
        planned("c", asks(1), at_s=170),
        planned("d", asks(1), at_s=260),
        plugins=(gpus(*steps),),
        kubelet_restarts=(KubeletRestart(at_ns=230 * S, down_ns=5 * S),),
        version=version,
        minutes=6,
    )
    reported = of_kind(found, "devicemanager.DevicesReported")
    assert {(b.total, b.healthy) for b in reported if b.total} == {(4, 4), (4, 3)}
    assert len(of_kind(found, "devicemanager.EndpointStopped")) == 1
    # The plugin found the next kubelet by itself.
    assert len(of_kind(found, "devicemanager.PluginRegistered")) == 3
    refused = [b.pod for b in of_kind(found, "devicemanager.AllocationFailed")]
    assert refused == ["b", "c"]
    granted = {b.pod: b.device_ids for b in of_kind(found, "devicemanager.DevicesAllocated")}
    assert granted == {"a": ("gpu-0",), "d": ("gpu-1",)}


def test_the_node_object_follows_within_ten_seconds() -> None:
    found = run(plugins=(gpus(),), minutes=1)
    nodes = of_kind(found, "node.NodeObserved")
    assert [body.allocatable.get(GPU) for body in nodes] == [None, "4"]


@pytest.mark.parametrize(
    ("preferred", "expected"),
    [("first", ("gpu-1", "gpu-2")), ("spread", ("gpu-1", "gpu-2")), ("packed", ("gpu-2", "gpu-3"))],
)
def test_plugins_prefer(preferred: str, expected: tuple[str, ...]) -> None:
    found = run(
        planned("a", asks(1), at_s=30),
        planned("b", asks(2), at_s=31),
        plugins=(gpus(preferred=preferred),),
        numa=(0, 1),
    )
    granted = of_kind(found, "devicemanager.DevicesAllocated")
    assert [body.device_ids for body in granted] == [("gpu-0",), expected]


def test_spread_takes_numa_nodes_in_turn() -> None:
    found = run(planned("a", asks(2), at_s=30), plugins=(gpus(preferred="spread"),), numa=(0, 1))
    granted = of_kind(found, "devicemanager.DevicesAllocated")
    # Without an affinity the plugin is not asked: nothing is aligned, so it is about all.
    assert [body.device_ids for body in granted] == [("gpu-0", "gpu-2")]
