"""Pods and containers: what makes them known, moves them on, and lets them go."""

from typing import Any, Literal

import msgspec
import pytest

from kubeledger.kubelet.lifecycle.reducer import HANDLERS
from kubeledger.kubelet.lifecycle.state import (
    GONE_MAX,
    ContainerState,
    LifecycleState,
    PodState,
    killer_unknown,
)
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
    PodStarted,
    PodTerminated,
    PodTerminating,
    RestartBackedOff,
)
from kubeledger.model.record import Body
from tests.kubelet.reducing import Histories, evolver, told_by
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
        "containerStatuses": [
            {
                "name": "c",
                "containerID": f"containerd://{container_id}",
                "restartCount": restarts,
                "state": {"running": {"startedAt": at}},
            }
        ],
    }


def pod(state: LifecycleState, key: str = "u") -> PodState:
    return state.pods[key]


KILLED = ContainerKilled(
    **who(), container="c", container_id=None, reason="preempted", message=None, grace_period_s=2
)
REASON = KubernetesEvent(
    **who(), object_kind="Pod", type="Warning", reason="Unhealthy", message="m", count=3
)
NODES = msgspec.structs.replace(REASON, object_kind="Node")
ADD, REMOVE, ADMITTED, TERMINATED = (
    config("ADD"), config("REMOVE"), PodAdmitted(**who()), PodTerminated(**who()),
)  # fmt: skip
REJECTED = PodRejected(**who(), reason="OutOfcpu", message="m")
SANDBOX = started("s", None, sandbox=True)


def back_off(seconds: int) -> RestartBackedOff:
    return RestartBackedOff(**who(), container="c", back_off_s=seconds)


def restarted(container_id: str | None, count: int | None = None) -> ContainerRestarted:
    return ContainerRestarted(
        **who(), container="c", container_id=container_id, restart_count=count
    )


EVICTED = PodEvicted(**who(), resource="memory", message="low", evicted=True)


@pytest.mark.parametrize(
    "body",
    [
        config("ADD"), config("UPDATE"), config("RECONCILE"), config("DELETE"), started("1"),
        ADMITTED, REJECTED,
        listed(), listed(by="api"), restarted("2"), back_off(10),
    ],
    ids=lambda body: body.kind,
)  # fmt: skip
def test_what_shows_a_pod_makes_it_known(body: Body) -> None:
    """Recordings may start late."""
    assert set(after(body).pods) == {"u"}
    known = pod(after(body))
    assert (known.namespace, known.name, known.since_ts_ns) == ("ns", "p", S)


@pytest.mark.parametrize(
    "body",
    [
        REMOVE, died("1"), KILLED, REASON, TERMINATED, listed(gone=True), listed(by="manifest"),
    ],
    ids=lambda body: body.kind,
)  # fmt: skip
def test_what_may_come_after_a_pod_makes_none_known(body: Body) -> None:
    """An event about a pod that was gone before the recording is no pod on the node."""
    assert after(body).pods == {}


SPEC_OF_THREE = {"initContainers": [{"name": "i"}], "containers": [{"name": "c"}, {"name": "d"}]}
SPEC = {"restartPolicy": "Never", "containers": [{"name": "c"}, {"name": "d"}]}
TWO = [started("1", "c"), started("2", "d")]
LATER = "1970-01-01T00:00:09Z"
NONE: dict[str, object] = {"pods": {}}

HISTORIES: Histories = {
    # Presence.
    "a removed pod goes when nothing of it runs": [
        ADD, {"u.source": "api"}, SANDBOX, started("1"), REMOVE, {"u.removed": True}, died("1"),
        NONE | {"names": {}}],
    # It counts as a pod of the node as long as the API has it.
    "a terminated pod stays until it is removed": [
        ADD, TERMINATED, {"u.ended": True}, REMOVE, NONE],
    "a rejected pod stays until it is removed": [ADD, REJECTED, {"u.ended": True}, REMOVE, NONE],
    "a pod that succeeded stays until it is removed": [
        ADD, listed({"phase": "Succeeded"}), {"u.ended": True}, REMOVE, NONE],
    # The kubelet's own list is the truth; others are what is wanted of it.
    "a list of the kubelet without the pod": [started("1"), listed(gone=True), NONE],
    "a list of the API without the pod": [
        started("1"), listed(by="api", gone=True), {"u.c.running": True}, died("1"), NONE],
    "a manifest that is gone": [
        started("1"), listed(by="manifest", gone=True), {"u.c.running": True}],
    **{f"what comes late brings no pod back: {late.kind}": [ADD, REMOVE, late, NONE]
       for late in (started("9"), config("UPDATE"), died("9"), REASON)},
    "nor what comes late under its name": [ADD, REMOVE, started("9", uid=None), NONE],
    **{f"a static pod comes back under its UID: {again.kind}": [
           ADD, REMOVE, again, {"u.uid": "u", "gone": ["ns/p"]}]
       for again in (ADD, listed(), ADMITTED)},
    # Names and UIDs.
    "a record without UID is about the newest pod of that name": [
        ADD, config("ADD", "v"), started("1", uid=None),
        {"v.c.container_id": "1", "u.containers": {}}],
    "a UID that becomes known takes over": [
        started("1", uid=None), {"ns/p.c.container_id": "1", "without_uid": 1}, ADD,
        {"without_uid": 0, "names": {"ns/p": "u"}, "u.c.container_id": "1", "u.uid": "u"}],
    "a pod that is said to run": [
        PodStarted(**who()), {"u.phase": "Running"}, EVICTED, PodStarted(**who()),
        {"u.phase": "Failed"}],
    "a pod that is deleted": [
        ADD, PodTerminating(**who(None), reason="deleted", grace_period_s=None),
        {"u.deleting": True}],
    # Admission and phase: a kubelet restart decides again; the last decision counts.
    "admission and rejection": [
        ADD, ADMITTED,
        {"u.admitted": True, "u.ended": False, "u.phase": "Pending", "u.decided_ts_ns": 2 * S},
        REJECTED, {"u.admitted": False, "u.phase": "Failed", "u.reason": "OutOfcpu"},
        listed({"phase": "Pending"}), {"u.phase": "Failed"}, ADMITTED,
        {"u.admitted": True, "u.phase": "Pending", "u.reason": None,
         "counts": {"admitted": 2, "rejected": 1}}],
    "an evicted pod has failed before its containers end": [
        ADMITTED, started("1"), EVICTED,
        {"u.phase": "Failed", "u.reason": "Evicted", "u.message": "low", "u.admitted": True,
         "u.ended": True, "u.c.running": True, "counts": {"admitted": 1, "evicted": 1}},
        died("1"), {"u.phase": "Failed", "u.c.running": False}],
    "an eviction alone makes no pod known": [EVICTED, NONE],
    "running once all containers of the pod have started": [
        ADMITTED, listed(spec=SPEC_OF_THREE, by="manifest"), started("0", "i"),
        {"u.phase": "Pending"}, started("1", "c"), {"u.phase": "Pending"}, started("2", "d"),
        {"u.phase": "Running"}, listed({"phase": "Pending"}), {"u.phase": "Running"}],
    **{f"phase at the end, of codes 0 and {code}": [
           *TWO, died("1", "c", 0), died("2", "d", code), TERMINATED,
           {"u.phase": phase, "u.terminated": True, "u.runs": False}]
       for code, phase in ((0, "Succeeded"), (137, "Failed"), (None, "Running"))},
    # A static pod whose manifest came back.
    "a terminated pod begins anew when it is admitted": [
        started("1"), died("1", exit_code=0), TERMINATED, ADMITTED, started("2"),
        {"u.terminated": False, "u.phase": "Running", "u.c.restart_count": 0}],
    # Containers: a new ID is a new run; it counts once, however many records tell of it.
    "start, death, restart": [
        started("1"), KILLED, died("1", exit_code=137),
        {"u.c.running": False, "u.c.exit_code": 137, "u.c.started_ts_ns": S,
         "u.c.finished_ts_ns": 3 * S, "u.c.kill_reason": "preempted", "u.c.killed_ts_ns": 2 * S},
        back_off(20), {"u.c.back_off_s": 20, "u.c.restart_count": 2},  # what it takes
        started("2"), restarted("2"), started("2"),
        {"u.c.container_id": "2", "u.c.running": True, "u.c.restart_count": 3,
         "u.c.started_ts_ns": 7 * S,
         "u.c.exit_code": None, "u.c.finished_ts_ns": None, "u.c.kill_reason": None,
         "u.c.back_off_s": None},
        died("1"), {"u.c.running": True}],
    "a restart without IDs counts once": [
        started("1"), died("1"), restarted(None), started("2"),
        {"u.c.restart_count": 1, "u.c.running": True}, restarted(None), {"u.c.restart_count": 1}],
    # Starts that fail double it, too; and what a list shows next would seem to be older.
    "a back-off counts no restarts of a listed pod": [
        listed(running("1", 0)), died("1"), back_off(80), {"u.c.restart_count": 0},
        listed(running("2", 1, LATER)), {"u.c.container_id": "2", "u.c.restart_count": 1}],
    "the runtime's count wins": [restarted("5", 4), {"u.c.restart_count": 4}],
    "a container without name is kept by its ID until it is named": [
        started("1", None), {"u.unnamed.keys": {"1"}, "u.runs": True}, config("UPDATE"),
        started("1", "c"), {"u.unnamed": {}, "u.c.started_ts_ns": S}, started("2", None),
        died("2", None), {"u.unnamed": {}}],
    "the sandbox is no container": [
        SANDBOX, {"u.sandbox_id": "s", "u.containers": {}, "u.runs": False}, died("s", None),
        {"u.sandbox_id": None}],
    "a death alone makes the container known": [
        ADD, died("1", exit_code=3),
        {"u.c.container_id": "1", "u.c.running": False, "u.c.exit_code": 3}],
    "a sandbox's death makes none": [
        ADD, ContainerDied(**who(), container="c", container_id="s", exit_code=0, sandbox=True),
        {"u.containers": {}}],
    "a death of another run is not this one's": [
        ADD, started("2"), died("1", exit_code=3), {"u.c.running": True}],
    "events are counted by reason: a record may stand for several": [
        ADD, REASON, NODES, REASON, {"u.reasons": {"Unhealthy": 6}}],
    # Lists.
    "a list tells what the log did not": [
        listed(running("1", 3), SPEC),
        {"u.phase": "Running", "u.qos_class": "Burstable", "u.restart_policy": "Never",
         "u.c.container_id": "1", "u.c.running": True, "u.c.restart_count": 3,
         "u.c.started_ts_ns": S, "u.d": ContainerState(init=False)}],
    "a list that still shows what died running is late": [
        started("1"), died("1"), listed(running("1", 0)), {"u.c.running": False}],
    "a pod that failed elsewhere tells why": [
        listed({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}),
        {"u.reason": "Evicted", "u.message": "low on memory", "u.ended": True}],
    # An older container does not come back.
    **{f"a list that lags behind the log, {number}": [
           ADD, started("1"), started("2"), {"u.c.restart_count": 1}, listed(status),
           {"u.c.container_id": container_id}]
       for number, (status, container_id) in enumerate((
           (running("1", 0), "2"),  # fewer restarts: it is from before
           (running("1", 1, "1970-01-01T00:00:00Z"), "2"),  # as many, but it started earlier
           (running("3", 2), "3"),
           (running("3", 1, LATER), "3"),
       ))},
}  # fmt: skip

test_history = told_by(HISTORIES, LifecycleState, evolve)


def test_memory_of_pods_that_went_is_bounded() -> None:
    state = LifecycleState()
    for n in range(GONE_MAX):
        after(config("ADD", f"u{n}"), config("REMOVE", f"u{n}"), state=state)
    assert len(state.gone) == GONE_MAX
    assert state.gone[-2:] == [f"u{GONE_MAX - 1}", "ns/p"]


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
    c = pod(after(started("1"), listed(status))).containers["c"]
    assert (c.running, c.exit_code, c.finished_ts_ns) == (False, 3, 7 * S)


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


def test_a_list_tells_when_the_next_container_began() -> None:
    def listed(container_id: str, restarts: int, began: str) -> PodListed:
        status = {
            "name": "c",
            "containerID": f"containerd://{container_id}",
            "restartCount": restarts,
            "state": {"running": {"startedAt": began}},
        }
        listing = {"containerStatuses": [status]}
        return PodListed(**who(), listed_by="kubelet", spec=None, status=listing)

    first = listed("1", 0, "1970-01-01T00:00:05Z")
    state = after(first, listed("2", 1, "1970-01-01T00:00:09Z"))
    assert state.pods["u"].containers["c"].started_ts_ns == 9 * S


@pytest.mark.parametrize(("exit_code", "is_unknown"), [(None, False), (0, False), (137, True)])
def test_what_ends_by_a_signal_was_ended_by_somebody(
    exit_code: int | None, is_unknown: bool
) -> None:
    assert killer_unknown(exit_code) is is_unknown
