"""Devices come with an allocation and go with a release."""

import pytest

from kubeledger.kubelet.devicemanager.reducer import (
    HANDLERS,
    DeviceManagerState,
    stop_endpoints,
)
from kubeledger.model.bodies.devicemanager import (
    AllocationFailed,
    CheckpointEntry,
    CheckpointRead,
    DevicesAllocated,
    DevicesReleased,
    DevicesReported,
    EndpointStopped,
    PluginRegistered,
)
from kubeledger.model.record import Body
from tests.kubelet.reducing import Histories, evolver, told_by
from tests.replay.strategies import record

evolve = evolver(HANDLERS)

GPU, NIC = "gpu", "nic"
S = 10**9


def after(*bodies: Body) -> DeviceManagerState:
    state = DeviceManagerState()
    for seq, body in enumerate(bodies, 1):
        state = evolve(state, record(seq, body))
    return state


def allocated(
    container: str, resource: str, *device_ids: str, uid: str | None = "u"
) -> DevicesAllocated:
    """Devices for a container of pod ns/p."""
    return DevicesAllocated(
        namespace="ns", pod="p", pod_uid=uid, container=container, resource=resource,
        device_ids=device_ids,
    )  # fmt: skip


def checkpoint(*, sound: bool | None = True, **numa: tuple[str, ...]) -> CheckpointRead:
    """A checkpoint with one entry: what u/c holds of the GPUs."""
    entry = CheckpointEntry(
        pod_uid="u", container="c", resource=GPU, numa={k.strip("_"): v for k, v in numa.items()}
    )
    return CheckpointRead(
        entries=(entry,), registered={NIC: ("nic-0",)}, checksum=7, checksum_ok=sound
    )


def holdings(state: DeviceManagerState) -> dict[tuple[str, str, str], tuple[str, ...]]:
    """(pod, container, resource) -> IDs."""
    return {
        (key, container, resource): held.device_ids
        for key, containers in state.pods.items()
        for container, resources in containers.items()
        for resource, held in resources.items()
    }


FAILED = AllocationFailed(
    namespace="ns", pod="q", pod_uid=None, container=None, resource=GPU, error="no devices"
)
HISTORIES: Histories = {
    # The kubelet hands an init container's device on to an app container.
    "reuse of an init container shows a device with both": [
        allocated("warmup", GPU, "gpu-0"), allocated("train", GPU, "gpu-0", "gpu-2"),
        {"u.warmup.gpu.device_ids": ("gpu-0",), "u.train.gpu.device_ids": ("gpu-0", "gpu-2"),
         "allocations": 2}],
    # It gives and takes no device: that is for records of their own.
    "a sound checkpoint adds NUMA nodes and IDs": [
        allocated("c", GPU, "gpu-0", "gpu-1"), checkpoint(_0=("gpu-0",), _1=("gpu-1",)),
        {"u.c.gpu.numa": {"0": ("gpu-0",), "1": ("gpu-1",)},
         "resources.nic.device_ids": ("nic-0",), "checkpoint.entries": 1}],
    "a checkpoint alone gives no device": [checkpoint(_0=("gpu-0",)), {"pods": {}}],
    **{f"NUMA nodes are not taken from a checkpoint with {what}": [
           allocated("c", GPU, "gpu-0"), read, {"u.c.gpu.numa": None}]
       for what, read in (
           ("a wrong checksum", checkpoint(sound=False, _0=("gpu-0",))),
           ("other devices", checkpoint(_0=("gpu-1",))),
           ("the flat list of old versions", checkpoint(_=("gpu-0",))),
       )},
    "a checkpoint with a wrong checksum adds no resource": [
        checkpoint(sound=False, _0=("gpu-0",)), {"resources": {}, "checkpoint.checksum_ok": False}],
    "a plugin comes and goes": [
        PluginRegistered(resource=GPU), DevicesReported(resource=GPU, total=4, healthy=3),
        DevicesReported(resource=GPU, device_ids=("gpu-0",)),
        {"resources.gpu.total": 4, "resources.gpu.healthy": 3,
         "resources.gpu.device_ids": ("gpu-0",), "resources.gpu.registered_ts_ns": S,
         "resources.gpu.stopped_ts_ns": None, "resources.gpu.reported_ts_ns": 3 * S},
        EndpointStopped(resource=GPU, error="EOF"),
        {"resources.gpu.stopped_ts_ns": 5 * S, "resources.gpu.error": "EOF",
         "resources.gpu.healthy": 0, "resources.gpu.total": 4},
        PluginRegistered(resource=GPU),
        {"resources.gpu.registered_ts_ns": 7 * S, "resources.gpu.stopped_ts_ns": None,
         "resources.gpu.error": None, "resources.gpu.total": 4, "resources.gpu.healthy": None}],
    "failures are counted and the last is kept": [
        allocated("c", GPU, "gpu-0"), FAILED,
        {"failures": 1, "last_failure.pod": "ns/q", "last_failure.error": "no devices",
         "u.c.gpu.device_ids": ("gpu-0",)}],
    # The kubelet lets go of pods that ended without a line of its own at low verbosity.
    "a device given to another pod ends the holding of the first": [
        allocated("c", GPU, "gpu-0", uid="gone"), allocated("d", NIC, "nic-0", uid="other"),
        allocated("c", GPU, "gpu-0", "gpu-1", uid="new"), {"pods.keys": {"other", "new"}}],
}  # fmt: skip

test_history = told_by(HISTORIES, DeviceManagerState, evolve)


@pytest.mark.parametrize(
    ("container", "resource", "left"),
    [
        (None, None, set()),
        ("c", None, {("u", "d", GPU)}),
        ("c", GPU, {("u", "c", NIC), ("u", "d", GPU)}),
        (None, GPU, {("u", "c", NIC)}),
        ("e", None, {("u", "c", GPU), ("u", "c", NIC), ("u", "d", GPU)}),
        ("c", "other/thing", {("u", "c", GPU), ("u", "c", NIC), ("u", "d", GPU)}),
    ],
)
def test_release(
    container: str | None, resource: str | None, left: set[tuple[str, str, str]]
) -> None:
    """A release without container or resource means all of them."""
    state = after(
        allocated("c", GPU, "gpu-0"),
        allocated("c", NIC, "nic-0"),
        allocated("d", GPU, "gpu-1"),
        DevicesReleased(pod_uid="u", container=container, resource=resource),
    )
    assert set(holdings(state)) == left
    assert ("u" in state.pods) == bool(left)


def test_release_of_an_unknown_pod_changes_nothing() -> None:
    """Recordings may start late."""
    assert after(DevicesReleased(pod_uid="v")) == DeviceManagerState()


def test_a_new_kubelet_process_knows_no_running_plugin() -> None:
    """Devices stay with their holders; the checkpoint keeps them."""
    state = after(PluginRegistered(resource=GPU), allocated("c", GPU, "gpu-0"))
    stop_endpoints(state, 77)
    assert state.resources[GPU].stopped_ts_ns == 77
    assert state.resources[GPU].healthy == 0
    assert holdings(state) == {("u", "c", GPU): ("gpu-0",)}
    stop_endpoints(state, 99)
    assert state.resources[GPU].stopped_ts_ns == 77
