"""Plugins come and go; what the node status and the checkpoint tell of it."""

import pytest

from kubeledger.kubelet.devicemanager.allocate import AllocateCall, decide
from kubeledger.kubelet.devicemanager.checkpoint import checkpoint_content, writes_checkpoint
from kubeledger.kubelet.devicemanager.manager import STOP_GRACE_NS, Device, Endpoint, ManagerImpl
from kubeledger.kubelet.profile.devices import DeviceFacts
from kubeledger.kubelet.profile.resolve import resolve

GPU = "example.com/gpu"
OLD, NEW = resolve("1.20.2").devices, resolve("1.36.2").devices


class Obliging:
    """A plugin that prefers nothing and grants all."""

    def preferred(
        self, available: frozenset[str], must_include: frozenset[str], size: int
    ) -> frozenset[str] | None:
        return None

    def allocate(self, devices: frozenset[str]) -> None:
        """No error."""


def node(*healths: str, facts: DeviceFacts = NEW) -> tuple[ManagerImpl, Endpoint]:
    """A node with a registered plugin whose devices d0, d1, ... are so healthy."""
    manager = ManagerImpl([0, 1], facts)
    endpoint = manager.register(GPU, Obliging())
    manager.report(GPU, [Device(f"d{i}", health, (0,)) for i, health in enumerate(healths)])
    return manager, endpoint


def call(pod: str, count: int) -> AllocateCall:
    """A container that asks for GPUs."""
    active = frozenset({"u-1", "u-2"})
    return AllocateCall(pod=pod, container="c0", limits={GPU: count}, active_pods=active)


def test_capacity_counts_all_and_allocatable_the_healthy() -> None:
    manager, _ = node("Healthy", "Healthy", "Odd")
    assert decide(manager, call("u-1", 1)) == ""
    reported = manager.get_capacity(0)
    assert (reported.capacity, reported.allocatable, reported.deleted) == ({GPU: 3}, {GPU: 2}, ())


def test_five_minutes_of_grace() -> None:
    """Nothing is allocatable at once; the resource goes when they are over."""
    manager, endpoint = node("Healthy")
    assert decide(manager, call("u-1", 1)) == ""
    manager.stream_ended(GPU, endpoint, 10)
    at_the_end = manager.get_capacity(10 + STOP_GRACE_NS)
    assert (at_the_end.capacity, at_the_end.allocatable) == ({GPU: 1}, {GPU: 0})
    assert decide(manager, call("u-2", 1)).startswith("no healthy devices present")
    after = manager.get_capacity(11 + STOP_GRACE_NS)
    assert (after.capacity, after.deleted) == ({}, (GPU,))
    assert decide(manager, call("u-2", 1)) == f"cannot allocate unregistered device {GPU}"
    manager.facts = OLD
    assert decide(manager, call("u-2", 1)) == f"can't allocate unregistered device {GPU}"


def test_a_dropped_resource_that_nobody_holds_is_skipped() -> None:
    manager, endpoint = node("Healthy")
    manager.stream_ended(GPU, endpoint, 0)
    manager.get_capacity(1 + STOP_GRACE_NS)
    assert decide(manager, call("u-1", 1)) == ""
    assert manager.pod_devices.pods() == set()


@pytest.mark.parametrize(
    ("version", "survives"), [("1.20.2", True), ("1.24.0", True), ("1.25.0", False)]
)
def test_the_late_end_of_an_old_stream(version: str, survives: bool) -> None:
    """From 1.25 on it takes the new endpoint with it."""
    manager, old = node("Healthy", facts=resolve(version).devices)
    new = manager.register(GPU, Obliging())
    manager.report(GPU, [Device("d9", "Healthy")])
    manager.stream_ended(GPU, old, 5)
    assert (manager.healthy[GPU] == {"d9"}) == survives
    assert (new.stopped_at_ns is None) == survives


def test_a_restart_keeps_grants_and_forgets_devices() -> None:
    """Until the plugin is back the capacity is 0; afterwards the grant is checked for health."""
    manager, _ = node("Healthy", "Healthy")
    assert decide(manager, call("u-1", 1)) == ""
    entries, registered = checkpoint_content(manager)
    assert [entry.numa for entry in entries] == [{"0": ("d0",)}]
    assert registered == {GPU: ("d0", "d1")}

    started = ManagerImpl([0, 1], NEW)
    started.pod_devices = manager.pod_devices.fork()
    started.restart(registered, 0)
    assert started.get_capacity(1).capacity == {GPU: 0}
    assert decide(started, call("u-1", 1)).startswith("no healthy devices present")
    started.facts = OLD
    assert decide(started, call("u-1", 1)) == ""
    started.facts = NEW
    started.register(GPU, Obliging())
    started.report(GPU, [Device("d1", "Healthy")])
    assert decide(started, call("u-1", 1)).startswith("previously allocated devices")
    assert decide(started, call("u-1", 2)) == (
        f'pod "u-1" container "c0" changed request for resource "{GPU}" from 1 to 2'
    )


@pytest.mark.parametrize(
    ("version", "error", "asked", "writes"),
    [
        ("1.19.0", "", False, True),
        ("1.20.0", "", False, False),
        ("1.20.0", "", True, True),
        ("1.19.0", "some error", True, False),
    ],
)
def test_when_the_checkpoint_is_written(
    version: str, error: str, asked: bool, writes: bool
) -> None:
    """Not after an error; up to 1.19 even if no plugin was asked."""
    facts = resolve(version).devices
    assert writes_checkpoint(error, facts, plugin_asked=asked) == writes
