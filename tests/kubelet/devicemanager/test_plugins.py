"""Plugins come and go; what the node status and the checkpoint tell of it."""

from __future__ import annotations

import pytest

from kubeledger.kubelet.devicemanager.checkpoint_content import (
    checkpoint_content,
    writes_checkpoint,
)
from kubeledger.kubelet.devicemanager.decider import AllocateCall, decide
from kubeledger.kubelet.devicemanager.manager import Device, ManagerImpl
from kubeledger.kubelet.devicemanager.plugins import (
    STOP_GRACE_NS,
    Endpoint,
    get_capacity,
    is_extended_resource_name,
    register,
    registration_error,
    restart,
    stream_ended,
)
from kubeledger.kubelet.profile.resolve import resolve

GPU = "example.com/gpu"
OLD, NEW = resolve("1.20.2").devices, resolve("1.36.2").devices


class Obliging:
    """A plugin that prefers nothing and grants all."""

    def preferred(
        self, available: frozenset[str], must_include: frozenset[str], size: int
    ) -> frozenset[str] | None:
        """Not offered."""
        return None

    def allocate(self, devices: frozenset[str]) -> None:
        """No error."""


def node(*healths: str) -> tuple[ManagerImpl, dict[str, Endpoint], Endpoint]:
    """A node with a registered plugin whose devices d0, d1, ... are so healthy."""
    manager = ManagerImpl([0, 1])
    endpoints: dict[str, Endpoint] = {}
    endpoint = register(manager, endpoints, GPU, Obliging())
    manager.report(GPU, [Device(f"d{i}", health, (0,)) for i, health in enumerate(healths)])
    return manager, endpoints, endpoint


def call(pod: str, count: int) -> AllocateCall:
    """A container that asks for GPUs."""
    active = frozenset({"u-1", "u-2"})
    return AllocateCall(pod=pod, container="c0", limits={GPU: count}, active_pods=active)


@pytest.mark.parametrize(
    ("version", "resource", "error"),
    [
        ("v1beta1", GPU, ""),
        (
            "v1",
            GPU,
            'requested API version "v1" is not supported by kubelet. '
            'Supported version is ["v1beta1"]',
        ),
        ("v1beta1", "gpu", 'the ResourceName "gpu" is invalid'),
    ],
)
def test_registration(version: str, resource: str, error: str) -> None:
    """Version first, then name."""
    assert registration_error(version, resource) == error


@pytest.mark.parametrize(
    ("name", "extended"),
    [
        (GPU, True),
        ("cpu", False),
        ("kubernetes.io/gpu", False),
        ("requests.example.com/gpu", False),
        ("Example.com/gpu", False),
        ("example.com/", False),
        ("example.com/a/b", False),
        ("example.com/" + "a" * 63, True),
        ("example.com/" + "a" * 64, False),
    ],
)
def test_extended_resource_names(name: str, extended: bool) -> None:
    """Qualified, and not Kubernetes' own."""
    assert is_extended_resource_name(name) == extended


def test_capacity_counts_all_and_allocatable_the_healthy() -> None:
    """Devices in use count, too."""
    manager, endpoints, _ = node("Healthy", "Healthy", "Odd")
    assert decide(manager, call("u-1", 1), NEW) == ""
    reported = get_capacity(manager, endpoints, 0)
    assert (reported.capacity, reported.allocatable, reported.deleted) == ({GPU: 3}, {GPU: 2}, ())


def test_five_minutes_of_grace() -> None:
    """Nothing is allocatable at once; the resource goes when they are over."""
    manager, endpoints, endpoint = node("Healthy")
    assert decide(manager, call("u-1", 1), NEW) == ""
    stream_ended(manager, endpoints, GPU, endpoint, 10, NEW)
    at_the_end = get_capacity(manager, endpoints, 10 + STOP_GRACE_NS)
    assert (at_the_end.capacity, at_the_end.allocatable) == ({GPU: 1}, {GPU: 0})
    assert decide(manager, call("u-2", 1), NEW).startswith("no healthy devices present")
    after = get_capacity(manager, endpoints, 11 + STOP_GRACE_NS)
    assert (after.capacity, after.deleted) == ({}, (GPU,))
    assert decide(manager, call("u-2", 1), NEW) == f"cannot allocate unregistered device {GPU}"
    assert decide(manager, call("u-2", 1), OLD) == f"can't allocate unregistered device {GPU}"


def test_a_dropped_resource_that_nobody_holds_is_skipped() -> None:
    """No error and no device."""
    manager, endpoints, endpoint = node("Healthy")
    stream_ended(manager, endpoints, GPU, endpoint, 0, NEW)
    get_capacity(manager, endpoints, 1 + STOP_GRACE_NS)
    assert decide(manager, call("u-1", 1), NEW) == ""
    assert manager.pod_devices.pods() == set()


@pytest.mark.parametrize(
    ("version", "survives"), [("1.20.2", True), ("1.24.0", True), ("1.25.0", False)]
)
def test_the_late_end_of_an_old_stream(version: str, survives: bool) -> None:
    """From 1.25 on it takes the new endpoint with it."""
    manager, endpoints, old = node("Healthy")
    new = register(manager, endpoints, GPU, Obliging())
    manager.report(GPU, [Device("d9", "Healthy")])
    stream_ended(manager, endpoints, GPU, old, 5, resolve(version).devices)
    assert (manager.healthy[GPU] == {"d9"}) == survives
    assert (new.stopped_at_ns is None) == survives


def test_a_restart_keeps_grants_and_forgets_devices() -> None:
    """Until the plugin is back the capacity is 0; afterwards the grant is checked for health."""
    manager, endpoints, _ = node("Healthy", "Healthy")
    assert decide(manager, call("u-1", 1), NEW) == ""
    entries, registered = checkpoint_content(manager, NEW)
    assert [entry.numa for entry in entries] == [{"0": ("d0",)}]
    assert registered == {GPU: ("d0", "d1")}

    started, endpoints = ManagerImpl([0, 1]), {}
    started.pod_devices = manager.pod_devices.fork()
    restart(started, endpoints, registered, 0)
    assert get_capacity(started, endpoints, 1).capacity == {GPU: 0}
    assert decide(started, call("u-1", 1), NEW).startswith("no healthy devices present")
    assert decide(started, call("u-1", 1), OLD) == ""
    register(started, endpoints, GPU, Obliging())
    started.report(GPU, [Device("d1", "Healthy")])
    assert decide(started, call("u-1", 1), NEW).startswith("previously allocated devices")
    assert decide(started, call("u-1", 2), NEW) == (
        f'pod "u-1" container "c0" changed request for resource "{GPU}" from 1 to 2'
    )


def test_stranded_devices_are_collected() -> None:
    """With the next allocation, once their pod is not active."""
    manager, _, _ = node("Healthy")
    assert decide(manager, call("gone", 1), NEW) == ""
    assert decide(manager, call("u-1", 1), NEW) == ""
    assert manager.pod_devices.pods() == {"u-1"}


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
