"""What one subsystem needs of another: pods that end, containers that start, restarts."""

from typing import Any

import pytest

from kubeledger.model.bodies.devicemanager import (
    DevicesAllocated,
    DevicesReleased,
    PluginRegistered,
)
from kubeledger.model.bodies.eviction import NodeCondition, NodeConditionsChanged, PodPreempted
from kubeledger.model.bodies.images import EvictionSignalObserved, ImagesDetected, ListedImage
from kubeledger.model.bodies.ledger import FindingReported
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerRestarted,
    ContainerStarted,
    KubernetesEvent,
    PodAdmitted,
    PodConfigChanged,
    PodRejected,
    PodTerminated,
)
from kubeledger.model.bodies.node import (
    ClockStepped,
    KubeletStarted,
    NodeObserved,
    Setting,
    SettingsObserved,
)
from kubeledger.model.bodies.prober import ProbeExecuted, ProbeTransitioned
from kubeledger.model.bodies.resourcemanagers import AffinityDecided, Hint
from kubeledger.model.record import Body
from kubeledger.model.units import parse_ts
from kubeledger.replay.node.reducer import evolve, move
from kubeledger.replay.node.state import NodeState, time_in_name
from tests.replay.strategies import record

S = 10**9
GPU = "example.com/gpu"
NOTHING: tuple[set[str], set[str], set[str]] = (set(), set(), set())


def after(*bodies: Body, state: NodeState | None = None) -> NodeState:
    state = state or NodeState()
    for seq, body in enumerate(bodies, state.seq + 1):
        state = evolve(state, record(seq, body))
    return state


def who(uid: str | None = "u") -> dict[str, Any]:
    return {"namespace": "ns", "pod": "p", "pod_uid": uid}


def about(uid: str | None = "u") -> tuple[Body, Body, Body]:
    return (
        DevicesAllocated(**who(uid), container="c", resource=GPU, device_ids=("gpu-0",)),
        AffinityDecided(**who(uid), container="c", hint=Hint(numa_nodes=(0,), preferred=True)),
        ProbeExecuted(
            **who(uid), container="c", container_id=None, probe_type="liveness", result="failure",
            output=None,
        ),
    )  # fmt: skip


def held(state: NodeState) -> tuple[set[str], set[str], set[str]]:
    return (
        set(state.devicemanager.pods),
        set(state.topologymanager.pods),
        set(state.prober.pods),
    )


ADD = PodConfigChanged(**who(), operation="ADD", source="api")
REMOVE = PodConfigChanged(**who(), operation="REMOVE", source="api")
STARTED = ContainerStarted(**who(), container="c", container_id="1")
DIED = ContainerDied(**who(), container="c", container_id="1")
PREEMPTED = PodPreempted(
    victim_namespace="ns", victim_pod="p", victim_uid="u", preemptor_namespace="ns",
    preemptor_pod="critical", preemptor_uid=None, insufficient=(), evicted=None,
)  # fmt: skip


def kubelet(pid: int | None, *, restart: bool = False) -> KubeletStarted:
    return KubeletStarted(pid=pid, kubelet_version="1.36.2", version_source="log", restart=restart)


@pytest.mark.parametrize(
    "end",
    [PodTerminated(**who()), PodRejected(**who(), reason="r", message="m"), REMOVE],
    ids=lambda body: body.kind,
)
def test_a_pod_that_ends_lets_go_of_all_but_its_devices(end: Body) -> None:
    """Those the device manager takes back later; and what is said of it brings nothing back."""
    state = after(ADD, *about())
    assert held(state) == ({"u"}, {"u"}, {"u"})
    after(end, state=state)
    assert held(state) == ({"u"}, set(), set())
    after(DevicesReleased(pod_uid="u"), state=state)
    assert held(state) == NOTHING
    after(*about(), state=state)
    assert held(state) == NOTHING


def test_holdings_of_a_pod_not_heard_of_make_it_known() -> None:
    state = after(*about())
    assert held(state) == ({"u"}, {"u"}, {"u"})
    assert set(state.lifecycle.pods) == {"u"}


def test_a_record_without_uid_goes_to_the_pod_of_that_name() -> None:
    assert held(after(ADD, *about(None))) == ({"u"}, {"u"}, {"u"})


@pytest.mark.parametrize("first", [ADD, about("u")[0]], ids=["config", "devices"])
def test_a_uid_that_becomes_known_takes_over_everywhere(first: Body) -> None:
    state = after(*about(None))
    assert held(state) == ({"ns/p"}, {"ns/p"}, {"ns/p"})
    after(first, state=state)
    assert held(state) == ({"u"}, {"u"}, {"u"})
    assert set(state.lifecycle.pods) == {"u"}


def test_what_is_newer_under_the_uid_wins() -> None:
    held = {"ns/p": {"c": "older", "d": "kept"}, "u": {"c": "newer"}}
    move(held, "ns/p", "u")
    assert held == {"u": {"c": "newer", "d": "kept"}}


def test_a_new_container_is_taken_up_by_its_workers() -> None:
    moved = ProbeTransitioned(
        **who(), container="c", container_id="1", probe_type="liveness", from_result="success",
        to_result="failure",
    )  # fmt: skip
    for again in (
        ContainerStarted(**who(), container="c", container_id="2"),
        ContainerRestarted(**who(None), container="c", container_id="2"),
    ):
        state = after(STARTED, moved)
        assert live(state) == ("1", "failure", True)
        assert live(after(again, state=state)) == ("2", "success", False)


def live(state: NodeState) -> tuple[str | None, str, bool]:
    worker = state.prober.pods["u"]["c"]["liveness"]
    return worker.container_id, worker.cached_result, worker.on_hold


# Preemption


def test_a_victim_is_awaited_until_its_containers_are_down() -> None:
    state = after(STARTED, PREEMPTED)
    awaited = [state.preemption.victims["u"].awaiting]
    after(DIED, state=state)
    awaited += [state.preemption.victims["u"].awaiting]
    assert awaited == [True, False]
    after(REMOVE, state=state)
    assert state.preemption.victims == {}
    assert state.preemption.preempted == 1


def test_termination_ends_the_wait_too() -> None:
    state = after(STARTED, PREEMPTED, PodTerminated(**who()))
    assert not state.preemption.victims["u"].awaiting


def test_the_preemptors_uid_is_looked_up() -> None:
    critical = PodAdmitted(namespace="ns", pod="critical", pod_uid="k")
    assert after(critical, PREEMPTED).preemption.victims["u"].preemptor_uid == "k"
    assert after(PREEMPTED).preemption.victims["u"].preemptor_uid is None


def test_a_victim_that_went_is_not_kept() -> None:
    state = after(ADD, REMOVE, PREEMPTED)
    assert state.preemption.victims == {}
    assert state.preemption.preempted == 1


# The kubelet process


def lived() -> NodeState:
    return after(
        kubelet(1),
        STARTED,
        *about(),
        PluginRegistered(resource=GPU),
        ImagesDetected(images=(ListedImage(image_id="i", new=True),)),
        EvictionSignalObserved(signal="nodefs.available", available=1, capacity=2),
    )


@pytest.mark.parametrize(
    "again",
    [kubelet(2), kubelet(2, restart=True), kubelet(None, restart=True)],
    ids=["other pid", "both", "no pid"],
)
def test_a_restart_empties_the_kubelets_memory(again: KubeletStarted) -> None:
    state = after(again, state=lived())
    assert held(state) == ({"u"}, set(), set())
    assert state.images.images == {}
    assert state.images.signals == {}
    assert state.devicemanager.resources[GPU].stopped_ts_ns == state.ts_ns
    assert state.lifecycle.pods["u"].containers["c"].running
    assert (state.kubelet.pid, state.kubelet.restarts) == (again.pid, 1)
    assert state.kubelet.started_ts_ns == state.ts_ns


@pytest.mark.parametrize("again", [kubelet(1), kubelet(None)], ids=["same pid", "no pid"])
def test_another_word_of_the_same_process_is_no_restart(again: KubeletStarted) -> None:
    state = after(again, state=lived())
    assert held(state) == ({"u"}, {"u"}, {"u"})
    assert state.kubelet.restarts == 0


def test_the_first_start_is_no_restart() -> None:
    state = after(*about(), kubelet(1))
    assert held(state) == ({"u"}, {"u"}, {"u"})
    assert (state.kubelet.version, state.kubelet.restarts) == ("1.36.2", 0)
    assert state.kubelet.started_ts_ns == 4 * S


def test_a_pod_of_which_a_whole_process_never_spoke_goes() -> None:
    state = after(*about(), kubelet(1), kubelet(2))
    assert set(state.lifecycle.pods) == {"u"}
    after(kubelet(3), state=state)
    assert state.lifecycle.pods == {}
    assert held(state) == ({"u"}, set(), set()), "the checkpoint keeps its devices"
    state = after(*about(), kubelet(1), kubelet(2), about()[2], kubelet(3))
    assert set(state.lifecycle.pods) == {"u"}


# The node


def test_settings_add_up() -> None:
    state = after(
        SettingsObserved(
            settings={
                "cgroupDriver": Setting(value='"systemd"', source="default"),
                "maxPods": Setting(value="110", source="default"),
            }
        ),
        SettingsObserved(
            settings={"cgroupDriver": Setting(value='"cgroupfs"', source="config")},
            conflicts=("two drivers",),
        ),
    )
    assert state.settings["cgroupDriver"].value == '"cgroupfs"'
    assert state.settings["maxPods"].value == "110"
    assert state.conflicts == ("two drivers",)


def test_the_node_is_put_together_from_its_sources() -> None:
    node = NodeObserved(
        labels={"zone": "a"},
        taints=({"key": "k"},),
        capacity={"cpu": "4"},
        allocatable={"cpu": "3"},
    )
    state = after(node, NodeObserved(cpus=4, memory_capacity_bytes=8, numa_nodes=(0, 1)))
    machine = state.machine
    assert (machine.labels, machine.taints) == ({"zone": "a"}, ({"key": "k"},))
    assert (machine.capacity, machine.allocatable) == ({"cpu": "4"}, {"cpu": "3"})
    assert (machine.cpus, machine.memory_capacity_bytes, machine.numa_nodes) == (4, 8, (0, 1))
    after(NodeObserved(capacity={"cpu": "4"}), state=state)
    assert (machine.labels, machine.taints) == ({}, ())


def test_events_of_the_node_and_of_pods_are_kept_apart() -> None:
    reason = {"type": "Normal", "reason": "Starting", "message": "m", "pod_uid": None}
    state = after(
        ADD,
        KubernetesEvent(object_kind="Node", namespace="ns", pod="p", **reason),  # type: ignore[arg-type] # mixed values
        KubernetesEvent(object_kind="Pod", namespace="ns", pod="p", **reason),  # type: ignore[arg-type] # mixed values
    )
    assert state.machine.reasons == {"Starting": 1}
    assert state.lifecycle.pods["u"].reasons == {"Starting": 1}


def test_pressure_conditions() -> None:
    """Each since it is reported, until it is not; a new kubelet process reports none."""
    state = NodeState()
    reported: list[tuple[NodeCondition, ...]] = [
        ("MemoryPressure",), ("DiskPressure", "MemoryPressure"), ("DiskPressure",)
    ]  # fmt: skip
    seen = []
    for seq, conditions in enumerate(reported, 1):
        body = NodeConditionsChanged(conditions=conditions, observed=())
        evolve(state, record(seq, body, seq))
        seen.append(dict(state.machine.pressure or {}))
    assert seen == [
        {"MemoryPressure": 1},
        {"DiskPressure": 2, "MemoryPressure": 1},
        {"DiskPressure": 2},
    ]
    start = KubeletStarted(pid=2, kubelet_version=None, version_source=None, restart=True)
    evolve(state, record(4, start, 4))
    assert state.machine.pressure == {}


def test_place_in_the_history() -> None:
    """Every record moves it on, also one that says nothing of the node; a clock may go back."""
    state = evolve(NodeState(), record(1, ClockStepped(from_ts_ns=9, to_ts_ns=5), 9))
    finding = FindingReported(finding="truncated", file=None, message="m")
    evolve(state, record(2, finding, 5))
    assert (state.node, state.seq, state.ts_ns, state.latest_ts_ns) == ("node-t", 2, 5, 9)
    assert state.machine.clock_steps == 1


# Times in the names of snapshots.


@pytest.mark.parametrize(
    ("name", "ts"),
    [
        ("snapshots/20261121T025401Z/pods.json", "2026-11-21T02:54:01Z"),
        ("snapshots/20261121T025401.296Z/pods.json", "2026-11-21T02:54:01.296Z"),
        ("2026-11-21_02-54-01/20261122T025401Z.json", "2026-11-22T02:54:01Z"),
        ("pods-2026-11-21T02:54:01,5Z.json", "2026-11-21T02:54:01.5Z"),
        ("snapshots/20261121T025401/pods.json", "2026-11-21T02:54:01Z"),
    ],
)
def test_the_innermost_time(name: str, ts: str) -> None:
    assert time_in_name(name) == parse_ts(ts)


@pytest.mark.parametrize("name", ["pods.json", "20261321T025401Z/pods.json", "120261121T025401Z"])
def test_no_time(name: str) -> None:
    assert time_in_name(name) is None
