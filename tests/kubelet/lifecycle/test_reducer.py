"""Pods and containers: what makes them known, moves them on, and lets them go."""

from typing import Any, Literal

import pytest

from kubeledger.kubelet.lifecycle.reducer import HANDLERS
from kubeledger.kubelet.lifecycle.state import GONE_MAX, ContainerState, LifecycleState, PodState
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerKilled,
    ContainerRestarted,
    ContainerStarted,
    KubernetesEvent,
    PodAdmitted,
    PodConfigChanged,
    PodEvicted,
    PodListed,
    PodRejected,
    PodTerminated,
    RestartBackedOff,
)
from kubeledger.model.record import Body
from tests.kubelet.reducing import evolver
from tests.replay.strategies import record

evolve = evolver(HANDLERS)

S = 10**9
Operation = Literal["ADD", "UPDATE", "DELETE", "REMOVE", "RECONCILE"]


def after(*bodies: Body, state: LifecycleState | None = None) -> LifecycleState:
    state = state or LifecycleState()
    for seq, body in enumerate(bodies, 1):
        state = evolve(state, record(seq, body))
    return state


def who(uid: str | None = "u", name: str = "p") -> dict[str, Any]:
    return {"namespace": "ns", "pod": name, "pod_uid": uid}


def config(operation: Operation, uid: str | None = "u", name: str = "p") -> PodConfigChanged:
    return PodConfigChanged(**who(uid, name), operation=operation, source="api")


def started(
    container_id: str, name: str | None = "c", *, sandbox: bool | None = None, uid: str | None = "u"
) -> ContainerStarted:
    return ContainerStarted(**who(uid), container=name, container_id=container_id, sandbox=sandbox)


def died(container_id: str, name: str | None = "c", exit_code: int | None = None) -> ContainerDied:
    return ContainerDied(**who(), container=name, container_id=container_id, exit_code=exit_code)


def listed(
    status: dict[str, Any] | None = None,
    spec: dict[str, Any] | None = None,
    by: Literal["kubelet", "api", "manifest"] = "kubelet",
    *,
    gone: bool = False,
) -> PodListed:
    return PodListed(**who(), spec=spec, status=status, listed_by=by, gone=gone)


def running(container_id: str, restarts: int, at: str = "1970-01-01T00:00:01Z") -> dict[str, Any]:
    """Status of a pod whose container c runs."""
    return {
        "phase": "Running",
        "qosClass": "Burstable",
        "containerStatuses": [{"name": "c", "containerID": f"containerd://{container_id}",
                               "restartCount": restarts, "state": {"running": {"startedAt": at}}}],
    }  # fmt: skip


def pod(state: LifecycleState, key: str = "u") -> PodState:
    return state.pods[key]


def container(state: LifecycleState, name: str = "c") -> ContainerState:
    return state.pods["u"].containers[name]


KILLED = ContainerKilled(
    **who(), container="c", container_id=None, reason="preempted", message=None, grace_period_s=2
)
REASON = KubernetesEvent(
    **who(), object_kind="Pod", type="Warning", reason="Unhealthy", message="m", count=3
)


# Presence


@pytest.mark.parametrize(
    "body",
    [
        config("ADD"), config("UPDATE"), config("RECONCILE"), config("DELETE"), started("1"),
        PodAdmitted(**who()), PodRejected(**who(), reason="OutOfcpu", message="m"),
        listed(), listed(by="api"), ContainerRestarted(**who(), container="c", container_id="2"),
        RestartBackedOff(**who(), container="c", back_off_s=10),
    ],
    ids=lambda body: body.kind,
)  # fmt: skip
def test_what_shows_a_pod_makes_it_known(body: Body) -> None:
    """Recordings may start late."""
    assert set(after(body).pods) == {"u"}
    assert pod(after(body)).since_ts_ns == S


@pytest.mark.parametrize(
    "body",
    [
        config("REMOVE"), died("1"), KILLED, REASON, PodTerminated(**who()), listed(gone=True),
        listed(by="manifest"),
    ],
    ids=lambda body: body.kind,
)  # fmt: skip
def test_what_may_come_after_a_pod_makes_none_known(body: Body) -> None:
    """An event about a pod that was gone before the recording is no pod on the node."""
    assert after(body).pods == {}


def test_a_removed_pod_goes_when_nothing_of_it_runs() -> None:
    state = after(config("ADD"), started("s", None, sandbox=True), started("1"), config("REMOVE"))
    assert pod(state).removed
    state = after(died("1"), state=state)
    assert state.pods == {}
    assert state.names == {}


@pytest.mark.parametrize(
    "ended",
    [PodTerminated(**who()), PodRejected(**who(), reason="r", message="m"),
     listed({"phase": "Succeeded"})],
    ids=["terminated", "rejected", "succeeded"],
)  # fmt: skip
def test_an_ended_pod_stays_until_its_source_has_it_no_more(ended: Body) -> None:
    """It counts as a pod of the node as long as the API has it."""
    state = after(config("ADD"), ended)
    assert pod(state).ended
    assert after(config("REMOVE"), state=state).pods == {}


@pytest.mark.parametrize(("by", "left"), [("kubelet", set()), ("api", {"u"}), ("manifest", {"u"})])
def test_a_list_without_the_pod(by: Literal["kubelet", "api", "manifest"], left: set[str]) -> None:
    """The kubelet's own list is the truth; others are what is wanted of it."""
    state = after(started("1"), listed(by=by, gone=True))
    assert set(state.pods) == left
    if by == "api":
        assert after(died("1"), state=state).pods == {}


@pytest.mark.parametrize("late", [started("9"), config("UPDATE"), died("9"), REASON])
def test_what_comes_late_does_not_bring_a_pod_back(late: Body) -> None:
    """Neither under its UID nor under its name."""
    gone = after(config("ADD"), config("REMOVE"))
    assert after(late, state=gone).pods == {}
    gone = after(config("ADD"), config("REMOVE"))
    assert after(started("9", uid=None), state=gone).pods == {}


@pytest.mark.parametrize("again", [config("ADD"), listed(), PodAdmitted(**who())])
def test_a_static_pod_comes_back_under_its_uid(again: Body) -> None:
    state = after(again, state=after(config("ADD"), config("REMOVE")))
    assert set(state.pods) == {"u"}
    assert state.gone == ["ns/p"]


def test_memory_of_pods_that_went_is_bounded() -> None:
    state = LifecycleState()
    for n in range(GONE_MAX):
        after(config("ADD", f"u{n}"), config("REMOVE", f"u{n}"), state=state)
    assert len(state.gone) == GONE_MAX
    assert state.gone[-2:] == [f"u{GONE_MAX - 1}", "ns/p"]


# Names and UIDs


def test_a_record_without_uid_is_about_the_newest_pod_of_that_name() -> None:
    state = after(config("ADD", "u"), config("ADD", "v"), started("1", uid=None))
    assert pod(state, "v").containers["c"].container_id == "1"
    assert pod(state, "u").containers == {}


def test_a_uid_that_becomes_known_takes_over() -> None:
    state = after(started("1", uid=None))
    assert (set(state.pods), state.without_uid) == ({"ns/p"}, 1)
    after(config("ADD"), state=state)
    assert (set(state.pods), state.without_uid, state.names) == ({"u"}, 0, {"ns/p": "u"})
    assert container(state).container_id == "1"
    assert pod(state).uid == "u"


# Admission and phase


def test_admission_and_rejection() -> None:
    """A kubelet restart decides again; the last decision counts."""
    state = after(config("ADD"), PodAdmitted(**who()))
    assert (pod(state).admitted, pod(state).phase, pod(state).decided_ts_ns) == (
        True, "Pending", 2 * S,
    )  # fmt: skip
    after(PodRejected(**who(), reason="OutOfcpu", message="m"), state=state)
    assert (pod(state).admitted, pod(state).phase, pod(state).reason) == (
        False, "Failed", "OutOfcpu",
    )  # fmt: skip
    after(listed({"phase": "Pending"}), state=state)
    assert pod(state).phase == "Failed"
    after(PodAdmitted(**who()), state=state)
    assert (pod(state).admitted, pod(state).phase, pod(state).reason) == (True, "Pending", None)
    assert state.counts == {"admitted": 2, "rejected": 1}


def test_an_evicted_pod_has_failed_before_its_containers_end() -> None:
    evicted = PodEvicted(**who(), resource="memory", message="low", evicted=True)
    state = after(PodAdmitted(**who()), started("1"), evicted)
    assert (pod(state).phase, pod(state).reason, pod(state).message) == ("Failed", "Evicted", "low")
    assert (pod(state).admitted, pod(state).ended, container(state).running) == (True, True, True)
    assert state.counts["evicted"] == 1
    after(died("1"), state=state)
    assert (pod(state).phase, container(state).running) == ("Failed", False)
    assert after(evicted).pods == {}


def test_running_once_all_containers_of_the_pod_have_started() -> None:
    spec = {"initContainers": [{"name": "i"}], "containers": [{"name": "c"}, {"name": "d"}]}
    state = after(PodAdmitted(**who()), listed(spec=spec, by="manifest"), started("0", "i"))
    assert pod(state).phase == "Pending"
    after(started("1", "c"), state=state)
    assert pod(state).phase == "Pending"
    after(started("2", "d"), state=state)
    assert pod(state).phase == "Running"
    after(listed({"phase": "Pending"}), state=state)
    assert pod(state).phase == "Running"


@pytest.mark.parametrize(
    ("codes", "phase"), [((0, 0), "Succeeded"), ((0, 137), "Failed"), ((0, None), "Running")]
)
def test_phase_at_the_end(codes: tuple[int | None, int | None], phase: str) -> None:
    state = after(started("1", "c"), started("2", "d"))
    after(died("1", "c", codes[0]), died("2", "d", codes[1]), PodTerminated(**who()), state=state)
    assert (pod(state).phase, pod(state).terminated) == (phase, True)
    assert not pod(state).runs()


def test_a_terminated_pod_begins_anew_when_it_is_admitted() -> None:
    """A static pod whose manifest came back."""
    state = after(started("1"), died("1", exit_code=0), PodTerminated(**who()))
    after(PodAdmitted(**who()), started("2"), state=state)
    assert (pod(state).terminated, pod(state).phase) == (False, "Running")
    assert container(state).restart_count == 0


# Containers


def test_start_death_restart() -> None:
    """A new ID is a new run; it counts once, however many records tell of it."""
    state = after(started("1"), KILLED, died("1", exit_code=137))
    c = container(state)
    assert (c.running, c.exit_code, c.started_ts_ns, c.finished_ts_ns) == (False, 137, S, 3 * S)
    assert (c.kill_reason, c.killed_ts_ns) == ("preempted", 2 * S)
    after(RestartBackedOff(**who(), container="c", back_off_s=20), state=state)
    assert (c.back_off_s, c.restart_count) == (20, 2)  # as many as such a back-off takes
    restarted = ContainerRestarted(**who(), container="c", container_id="2")
    after(started("2"), restarted, started("2"), state=state)
    assert (c.container_id, c.running, c.restart_count) == ("2", True, 3)
    assert [c.exit_code, c.finished_ts_ns, c.kill_reason, c.back_off_s] == [None] * 4
    after(died("1"), state=state)
    assert c.running


def test_a_restart_without_ids_counts_once() -> None:
    nameless = ContainerRestarted(**who(), container="c", container_id=None)
    state = after(started("1"), died("1"), nameless, started("2"))
    assert (container(state).restart_count, container(state).running) == (1, True)
    after(nameless, state=state)
    assert container(state).restart_count == 1


def test_a_back_off_counts_no_restarts_of_a_listed_pod() -> None:
    """Starts that fail double it, too; and what a list shows next would seem to be older."""
    back_off = RestartBackedOff(**who(), container="c", back_off_s=80)
    state = after(listed(running("1", 0)), died("1"), back_off)
    assert container(state).restart_count == 0
    after(listed(running("2", 1, "1970-01-01T00:00:09Z")), state=state)
    assert (container(state).container_id, container(state).restart_count) == ("2", 1)


def test_the_runtimes_count_wins() -> None:
    state = after(ContainerRestarted(**who(), container="c", container_id="5", restart_count=4))
    assert container(state).restart_count == 4


def test_a_container_without_name_is_kept_by_its_id_until_it_is_named() -> None:
    state = after(started("1", None))
    assert set(pod(state).unnamed) == {"1"}
    assert pod(state).runs()
    after(config("UPDATE"), started("1", "c"), state=state)
    assert pod(state).unnamed == {}
    assert container(state).started_ts_ns == S
    after(started("2", None), died("2", None), state=state)
    assert pod(state).unnamed == {}


def test_the_sandbox_is_no_container() -> None:
    state = after(started("s", None, sandbox=True))
    assert (pod(state).sandbox_id, pod(state).containers, pod(state).runs()) == ("s", {}, False)
    assert pod(after(died("s", None), state=state)).sandbox_id is None


@pytest.mark.parametrize(
    ("container_name", "container_id", "killed"),
    [
        ("c", None, {"c"}), (None, "2", {"d"}), (None, None, {"c", "d"}), ("c", "1", {"c"}),
        ("c", "0", set()), (None, "9", set()), ("e", "3", {"e"}),
    ],
)  # fmt: skip
def test_kills(container_name: str | None, container_id: str | None, killed: set[str]) -> None:
    """By name, by ID, all that run; a kill of an earlier run is not one of this."""
    kill = ContainerKilled(
        **who(), container=container_name, container_id=container_id, reason=None, message=None,
        grace_period_s=None,
    )  # fmt: skip
    state = after(started("1", "c"), started("2", "d"), kill)
    reasons = {name: c.kill_reason for name, c in pod(state).containers.items()}
    assert {name for name, reason in reasons.items() if reason == "unknown"} == killed


def test_events_are_counted_by_reason() -> None:
    """A record may stand for several."""
    assert pod(after(config("ADD"), REASON, REASON)).reasons == {"Unhealthy": 6}


# Lists


def test_a_list_tells_what_the_log_did_not() -> None:
    """Phase, QoS class, restart policy, containers with their IDs and counts."""
    spec = {"restartPolicy": "Never", "containers": [{"name": "c"}, {"name": "d"}]}
    state = after(listed(running("1", 3), spec))
    assert (pod(state).phase, pod(state).qos_class) == ("Running", "Burstable")
    assert pod(state).restart_policy == "Never"
    c = container(state)
    assert (c.container_id, c.running, c.restart_count, c.started_ts_ns) == ("1", True, 3, S)
    assert container(state, "d") == ContainerState(init=False)


@pytest.mark.parametrize(
    ("status", "container_id"),
    [
        (running("1", 0), "2"),  # fewer restarts: it is from before
        (running("1", 1, "1970-01-01T00:00:00Z"), "2"),  # as many, but it started earlier
        (running("3", 2), "3"),
        (running("3", 1, "1970-01-01T00:00:09Z"), "3"),
    ],
)
def test_a_list_that_lags_behind_the_log(status: dict[str, Any], container_id: str) -> None:
    """An older container does not come back."""
    state = after(config("ADD"), started("1"), started("2"))
    assert container(state).restart_count == 1
    after(listed(status), state=state)
    assert container(state).container_id == container_id


def test_what_died_stays_dead() -> None:
    """A list that still shows it running is late."""
    state = after(started("1"), died("1"), listed(running("1", 0)))
    assert not container(state).running


@pytest.mark.parametrize(
    "end",
    [
        {"state": {"terminated": {"exitCode": 3, "finishedAt": "1970-01-01T00:00:07Z"}}},
        {"state": {"waiting": {"reason": "CrashLoopBackOff"}},
         "lastState": {"terminated": {"exitCode": 3, "finishedAt": "1970-01-01T00:00:07Z",
                                      "containerID": "containerd://1"}}},
    ],
    ids=["terminated", "waiting"],
)  # fmt: skip
def test_a_list_shows_an_end(end: dict[str, Any]) -> None:
    """Also that of a container that waits to be started again."""
    status = {"containerStatuses": [{"name": "c", "containerID": "containerd://1", **end}]}
    c = container(after(started("1"), listed(status)))
    assert (c.running, c.exit_code, c.finished_ts_ns) == (False, 3, 7 * S)


def test_a_pod_that_failed_elsewhere_tells_why() -> None:
    state = after(listed({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}))
    assert (pod(state).reason, pod(state).message, pod(state).ended) == (
        "Evicted", "low on memory", True,
    )  # fmt: skip


@pytest.mark.parametrize(
    "status",
    [
        {"phase": 3, "qosClass": None},
        {"containerStatuses": "none"},
        {"containerStatuses": [7, {}, {"name": "c"}, {"name": "c", "containerID": ""}]},
        {"containerStatuses": [{"name": "c", "containerID": "x", "state": [], "lastState": 1}]},
        {"containerStatuses": [{"name": "c", "containerID": "x", "restartCount": "many",
                                "state": {"running": {"startedAt": "soon"}}}]},
        {"containerStatuses": [{"name": "c", "containerID": "x",
                                "state": {"terminated": {"exitCode": "x", "finishedAt": 0}}}]},
    ],
)  # fmt: skip
def test_a_list_of_another_form_does_no_harm(status: dict[str, Any]) -> None:
    kept = pod(after(listed(status, {"containers": {}, "restartPolicy": 1})))
    assert (kept.qos_class, kept.restart_policy, kept.reason) == (None, None, None)
    assert not any(c.exit_code or c.finished_ts_ns for c in kept.containers.values())


def test_a_death_alone_makes_the_container_known() -> None:
    """One whose start no record has died as well; a sandbox's death makes none."""
    (container,) = pod(after(config("ADD"), died("1", exit_code=3))).containers.values()
    assert (container.container_id, container.running, container.exit_code) == ("1", False, 3)
    sandbox = ContainerDied(**who(), container="c", container_id="s", exit_code=0, sandbox=True)
    assert pod(after(config("ADD"), sandbox)).containers == {}


def test_a_death_of_another_run_is_not_this_ones() -> None:
    """A container that runs goes on when the death of an unknown one of its name is told."""
    state = after(config("ADD"), started("2"), died("1", exit_code=3))
    assert pod(state).containers["c"].running
