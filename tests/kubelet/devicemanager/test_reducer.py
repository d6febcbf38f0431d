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
from tests.kubelet.reducing import evolver
from tests.replay.strategies import record

evolve = evolver(HANDLERS)

GPU, NIC = "example.com/gpu", "vendor.io/nic"


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


def test_reuse_of_an_init_container_shows_a_device_with_both() -> None:
    """The kubelet hands an init container's device on to an app container."""
    state = after(allocated("warmup", GPU, "gpu-0"), allocated("train", GPU, "gpu-0", "gpu-2"))
    assert holdings(state) == {
        ("u", "warmup", GPU): ("gpu-0",),
        ("u", "train", GPU): ("gpu-0", "gpu-2"),
    }
    assert state.allocations == 2


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


def test_a_sound_checkpoint_adds_numa_nodes_and_ids() -> None:
    """It gives and takes no device: that is for records of their own."""
    state = after(allocated("c", GPU, "gpu-0", "gpu-1"), checkpoint(_0=("gpu-0",), _1=("gpu-1",)))
    assert state.pods["u"]["c"][GPU].numa == {"0": ("gpu-0",), "1": ("gpu-1",)}
    assert state.resources[NIC].device_ids == ("nic-0",)
    assert state.checkpoint is not None
    assert state.checkpoint.entries == 1
    assert holdings(after(checkpoint(_0=("gpu-0",)))) == {}


@pytest.mark.parametrize(
    "read",
    [
        checkpoint(sound=False, _0=("gpu-0",)),
        checkpoint(_0=("gpu-1",)),  # of another allocation
        checkpoint(_=("gpu-0",)),  # the flat list of old versions tells no node
    ],
    ids=["wrong checksum", "other devices", "flat list"],
)
def test_numa_nodes_are_not_taken_from(read: CheckpointRead) -> None:
    """A checkpoint that does not fit the holding says nothing about it."""
    assert after(allocated("c", GPU, "gpu-0"), read).pods["u"]["c"][GPU].numa is None


def test_a_checkpoint_with_a_wrong_checksum_adds_no_resource() -> None:
    state = after(checkpoint(sound=False, _0=("gpu-0",)))
    assert state.resources == {}
    assert state.checkpoint is not None
    assert state.checkpoint.checksum_ok is False


def test_plugin_comes_and_goes() -> None:
    """Registration, device list, end of the endpoint, registration again."""
    reported = DevicesReported(resource=GPU, total=4, healthy=3)
    ids = DevicesReported(resource=GPU, device_ids=("gpu-0",))
    state = after(PluginRegistered(resource=GPU), reported, ids)
    gpu = state.resources[GPU]
    assert (gpu.total, gpu.healthy, gpu.device_ids) == (4, 3, ("gpu-0",))
    assert (gpu.registered_ts_ns, gpu.stopped_ts_ns, gpu.reported_ts_ns) == (10**9, None, 3 * 10**9)
    evolve(state, record(4, EndpointStopped(resource=GPU, error="EOF")))
    assert (gpu.stopped_ts_ns, gpu.error, gpu.healthy, gpu.total) == (4 * 10**9, "EOF", 0, 4)
    evolve(state, record(5, PluginRegistered(resource=GPU)))
    assert (gpu.registered_ts_ns, gpu.stopped_ts_ns, gpu.error) == (5 * 10**9, None, None)
    assert (gpu.total, gpu.healthy) == (4, None)


def test_a_new_kubelet_process_knows_no_running_plugin() -> None:
    """Devices stay with their holders; the checkpoint keeps them."""
    state = after(PluginRegistered(resource=GPU), allocated("c", GPU, "gpu-0"))
    stop_endpoints(state, 77)
    assert state.resources[GPU].stopped_ts_ns == 77
    assert state.resources[GPU].healthy == 0
    assert holdings(state) == {("u", "c", GPU): ("gpu-0",)}
    stop_endpoints(state, 99)
    assert state.resources[GPU].stopped_ts_ns == 77


def test_failures_are_counted_and_the_last_is_kept() -> None:
    failed = AllocationFailed(
        namespace="ns", pod="q", pod_uid=None, container=None, resource=GPU, error="no devices"
    )
    state = after(allocated("c", GPU, "gpu-0"), failed)
    assert state.failures == 1
    assert state.last_failure is not None
    assert (state.last_failure.pod, state.last_failure.error) == ("ns/q", "no devices")
    assert holdings(state) == {("u", "c", GPU): ("gpu-0",)}


def test_a_device_given_to_another_pod_ends_the_holding_of_the_first() -> None:
    """The kubelet lets go of pods that ended without a line of its own at low verbosity."""
    state = after(
        allocated("c", GPU, "gpu-0", uid="gone"),
        allocated("d", NIC, "nic-0", uid="other"),
        allocated("c", GPU, "gpu-0", "gpu-1", uid="new"),
    )
    assert set(state.pods) == {"other", "new"}
