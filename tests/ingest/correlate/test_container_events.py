"""Containers that start, die, are killed, start again or have to wait."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kubeledger.ingest.api import import_sources
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.planning.options import ImportOptions
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.bodies.ledger import FindingReported
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerKilled,
    ContainerRestarted,
    ContainerStarted,
    PodConfigChanged,
    RestartBackedOff,
)
from kubeledger.model.bodies.prober import ProbeExecuted, ProbeTransitioned
from tests.ingest.feeding import DATA
from tests.ingest.pod_world import (
    at,
    container,
    facts_of,
    ingest_lines,
    klog,
    know_pod,
    of,
    values,
    world,
)

UID = "aaaaaaaa-0000-4000-8000-00000000000a"
POD = f"a_shop({UID})"
SANDBOX, FIRST, SECOND, THIRD = "0" * 64, "1" * 64, "2" * 64, "3" * 64
START = klog("09:00:00.0", "kubelet.go", "Starting kubelet main sync loop.")


def _pleg(clock: str, kind: str, container_id: str) -> str:
    event = f'&pleg.PodLifecycleEvent{{ID:"{UID}", Type:"{kind}", Data:"{container_id}"}}'
    return klog(clock, "kubelet.go", f'SyncLoop (PLEG): "{POD}", event: {event}')


def _sandbox(clock: str = "10:00:00.0") -> str:
    return klog(clock, "kuberuntime_manager.go", f'Created PodSandbox "{SANDBOX}" for pod "{POD}"')


def _event(clock: str, reason: str, message: str, path: str = "") -> str:
    field = f' fieldPath="spec.containers{{{path}}}"' if path else ""
    keys = f'object="shop/a"{field} kind="Pod" apiVersion="v1" type="Normal" reason="{reason}"'
    return klog(clock, "event.go", f'"Event occurred" {keys} message="{message}"')


def _grace(clock: str, container_id: str, seconds: int = 30) -> str:
    message = (
        f'Killing container "containerd://{container_id}" with a {seconds} second grace period'
    )
    return klog(clock, "kuberuntime_container.go", message)


def _of_pod(container_id: str, message: str) -> str:
    return f'Container "c" ({{"containerd" "{container_id}"}}) of pod {POD}: {message}'


def _known(*names: str) -> BundleContext:
    context = world()
    spec = {"containers": [{"name": name} for name in names]}
    know_pod(context, "a", UID, namespace="shop", spec=spec)
    return context


def test_names_come_from_pod_statuses() -> None:
    """Names come from pod statuses."""
    context = _known("c", "d")
    status = {"name": "d", "restartCount": 0, "containerID": f"cri-o://{FIRST}"}
    context.pods[UID].statuses.append({"containerStatuses": [status]})
    log = [
        _pleg("10:00:01.0", "ContainerStarted", FIRST),
        _pleg("10:00:01.1", "ContainerStarted", SECOND),
    ]
    bodies = of(ingest_lines(context, log), ContainerStarted)
    assert [values(body, "container", "sandbox") for body in bodies] == [("d", False), (None, None)]


def test_the_only_container_beside_the_sandbox() -> None:
    """The only container beside the sandbox."""
    log = [_sandbox(), _pleg("10:00:01.0", "ContainerStarted", FIRST)]
    log.append(_pleg("10:00:01.1", "ContainerStarted", SANDBOX))
    bodies = of(ingest_lines(_known("c"), log), ContainerStarted)
    assert [values(body, "container", "sandbox") for body in bodies] == [("c", False), (None, True)]


def test_the_only_container_that_was_started() -> None:
    """The only container that was started."""
    log = [_sandbox(), _event("10:00:00.5", "Started", "Started container d")]
    log.append(_pleg("10:00:01.0", "ContainerStarted", FIRST))
    (fact,) = facts_of(ingest_lines(_known("c", "d"), log), ContainerStarted)
    assert values(fact.body, "container") == ("d",)
    assert [piece.line for piece in fact.evidence] == [2, 3]


def test_two_containers_at_once_are_not_guessed() -> None:
    """Two containers at once are not guessed."""
    log = [_sandbox()]
    log += [_event("10:00:00.5", "Started", f"Started container {name}") for name in "cd"]
    log += [
        _pleg("10:00:01.0", "ContainerStarted", FIRST),
        _pleg("10:00:01.0", "ContainerStarted", SECOND),
    ]
    bodies = of(ingest_lines(_known("c", "d"), log), ContainerStarted)
    assert [body.container for body in bodies] == [None, None]


def test_an_exit_code_from_the_line_before() -> None:
    """An exit code from the line before."""
    finished = (
        f'"Generic (PLEG): container finished" podID="{UID}" containerID="{FIRST}" exitCode=137'
    )
    event = f'event={{"ID":"{UID}","Type":"ContainerDied","Data":"{FIRST}"}}'
    log = [
        klog("10:00:01.0", "generic.go", finished),
        klog("10:00:01.1", "kubelet.go", f'"SyncLoop (PLEG): event for pod" pod="shop/a" {event}'),
    ]
    (body,) = of(ingest_lines(_known("c"), log), ContainerDied)
    assert values(body, "pod_uid", "exit_code") == (UID, 137)


def test_an_exit_code_from_the_status() -> None:
    """An exit code from the status."""
    context = _known("c")
    ended = {
        "containerID": f"containerd://{FIRST}",
        "exitCode": 3,
        "finishedAt": "2026-11-21T10:00:00Z",
    }
    status = {"name": "c", "restartCount": 1, "containerID": f"containerd://{SECOND}"}
    status_last = {**status, "lastState": {"terminated": ended}}
    context.pods[UID].statuses.append({"containerStatuses": [status_last]})
    (body,) = of(
        ingest_lines(context, [_pleg("10:00:01.0", "ContainerDied", FIRST)]), ContainerDied
    )
    assert values(body, "container", "exit_code") == ("c", 3)


def test_a_container_that_ended_by_itself_restarts() -> None:
    """A container that ended by itself restarts."""
    log = [START, _sandbox(), _pleg("10:00:01.0", "ContainerStarted", FIRST)]
    log += [
        _pleg("10:00:09.0", "ContainerDied", FIRST),
        _pleg("10:00:09.1", "ContainerStarted", SECOND),
    ]
    (fact,) = facts_of(ingest_lines(_known("c"), log), ContainerRestarted)
    fields = ("container", "container_id", "previous_container_id", "reason")
    assert values(fact.body, *fields) == ("c", SECOND, FIRST, "exited")
    assert fact.cause is not None
    assert isinstance(fact.cause.body, ContainerDied)


def test_an_instance_that_came_and_went_between_two_relists_is_a_restart() -> None:
    """An instance that came and went between two relists is a restart."""
    log = [START, _sandbox(), _pleg("10:00:01.0", "ContainerStarted", FIRST)]
    log += [
        _pleg("10:00:09.0", "ContainerDied", FIRST),
        _pleg("10:00:20.0", "ContainerDied", SECOND),
    ]
    (body,) = of(ingest_lines(_known("c"), log), ContainerRestarted)
    assert body.container_id == SECOND


def test_an_instance_whose_hook_failed_between_two_relists_is_a_restart() -> None:
    """It is killed at once, so the relists see but its end; what a probe killed had run before."""
    log = [START, _sandbox(), _pleg("10:00:01.0", "ContainerStarted", FIRST)]
    for clock, killed in (("10:00:08", FIRST), ("10:00:20", SECOND)):
        kill = (
            f'"Killing container with a grace period" pod="shop/a" podUID="{UID}"'
            f' containerName="c" containerID="containerd://{killed}" gracePeriod=3'
        )
        keys = 'object="shop/a" fieldPath="spec.containers{c}" kind="Pod" type="Normal"'
        log += [
            klog(f"{clock}.1", "kuberuntime_container.go", kill),
            klog(
                f"{clock}.2", "event.go", f'"Event occurred" {keys} reason="Killing" message="%s"'
            ),
            _pleg(f"{clock}.9", "ContainerDied", killed),
        ]
    reported = [line.replace("%s", "FailedPostStartHook") for line in log]
    (fact,) = facts_of(ingest_lines(_known("c"), reported), ContainerRestarted)
    fields = ("container_id", "previous_container_id", "reason")
    assert values(fact.body, *fields) == (SECOND, FIRST, "post_start_hook")
    probed = "Container c failed liveness probe, will be restarted"
    reported = [line.replace("%s", probed) for line in log]
    assert of(ingest_lines(_known("c"), reported), ContainerRestarted) == []


def test_what_a_restarted_kubelet_finds_is_no_restart() -> None:
    """What a restarted kubelet finds is no restart."""
    context = _known("c")
    last = {"terminated": {"containerID": f"containerd://{FIRST}", "exitCode": 0}}
    status = {"name": "c", "restartCount": 1, "containerID": f"containerd://{SECOND}"}
    context.pods[UID].statuses.append({"containerStatuses": [{**status, "lastState": last}]})
    log = [
        START,
        _pleg("10:00:01.0", "ContainerDied", FIRST),
        _pleg("10:00:01.1", "ContainerStarted", SECOND),
    ]
    log.append(_pleg("10:00:30.0", "ContainerStarted", THIRD))
    facts = ingest_lines(context, log)
    assert len(of(facts, ContainerStarted)) == 2
    assert of(facts, ContainerRestarted) == []


def test_what_a_restarted_kubelet_finds_dead_does_not_die_again() -> None:
    """Of a container that died before its first relist tells again, of another for once."""
    log = [START, _sandbox(), _pleg("10:00:01.0", "ContainerStarted", FIRST)]
    log.append(_pleg("10:00:05.0", "ContainerDied", FIRST))
    log.append(klog("10:10:00.0", "kubelet.go", "Starting kubelet main sync loop."))
    log.append(_pleg("10:10:01.0", "ContainerDied", FIRST))
    log.append(_pleg("10:10:01.0", "ContainerDied", SECOND))
    died = facts_of(ingest_lines(_known("c"), log), ContainerDied)
    assert [(fact.ts_ns, *values(fact.body, "container_id")) for fact in died] == [
        (at("10:00:05.0"), FIRST),
        (at("10:10:01.0"), SECOND),
    ]


def test_the_first_relist_may_hold_a_restart_by_this_kubelet() -> None:
    """The first relist may hold a restart by this kubelet."""
    context = _known("c")
    state = {"running": {"startedAt": "2026-11-21T09:00:01Z"}}
    status = {
        "name": "c",
        "restartCount": 4,
        "containerID": f"containerd://{SECOND}",
        "state": state,
    }
    context.pods[UID].statuses.append({"containerStatuses": [status]})
    log = [START, _pleg("09:00:01.5", "ContainerStarted", SECOND)]
    (body,) = of(ingest_lines(context, log), ContainerRestarted)
    assert values(body, "previous_container_id", "restart_count", "reason") == (None, 4, None)


def test_a_restart_counted_by_the_status_when_the_log_begins_late() -> None:
    """A restart counted by the status when the log begins late."""
    context = _known("c")
    status = {"name": "c", "restartCount": 2, "containerID": f"containerd://{SECOND}"}
    context.pods[UID].statuses.append({"containerStatuses": [status]})
    log = [
        _pleg("10:00:01.0", "ContainerDied", FIRST),
        _pleg("10:00:01.1", "ContainerStarted", SECOND),
    ]
    (body,) = of(ingest_lines(context, log), ContainerRestarted)
    assert values(body, "container_id", "restart_count") == (SECOND, 2)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("Container c failed liveness probe, will be restarted", "liveness_probe"),
        ("Container c failed startup probe", "startup_probe"),
        ("Container c definition changed, will be restarted", "spec_changed"),
    ],
)
def test_a_kill_with_its_reason_in_the_message(message: str, reason: str) -> None:
    """A kill with its reason in the message."""
    log = [
        klog(
            "10:00:00.1",
            "kuberuntime_manager.go",
            _of_pod(FIRST, message),
        ),
        klog(
            "10:00:00.2",
            "kuberuntime_manager.go",
            f'Killing unwanted container "c"(id={{"containerd" "{FIRST}"}}) for pod "{POD}"',
        ),
        _grace("10:00:00.3", FIRST),
        _event("10:00:00.4", "Killing", message),
    ]
    (fact,) = facts_of(ingest_lines(world(), log), ContainerKilled)
    fields = ("container", "container_id", "reason", "message", "grace_period_s")
    assert values(fact.body, *fields) == ("c", FIRST, reason, message, 30)
    assert [piece.line for piece in fact.evidence] == [1, 2, 3, 4]


@pytest.mark.parametrize("grace_s", [1, 2])
def test_a_structured_kill(grace_s: int) -> None:
    """The minimum of 2 s holds for a period that was given since 1.28 only: both fit."""
    keys = f'pod="shop/a" podUID="{UID}" containerName="c" containerID="containerd://{FIRST}"'
    log = [
        klog(
            "10:00:00.3",
            "kuberuntime_container.go",
            f'"Killing container with a grace period override" {keys} gracePeriod=1',
        ),
        klog(
            "10:00:00.3",
            "kuberuntime_container.go",
            f'"Killing container with a grace period" {keys} gracePeriod={grace_s}',
        ),
        _event("10:00:00.4", "Killing", "Stopping container c", "c"),
    ]
    facts = ingest_lines(world(), log)
    assert not facts_of(facts, FindingReported)
    (fact,) = facts_of(facts, ContainerKilled)
    assert values(fact.body, "pod_uid", "reason", "grace_period_s", "message") == (
        UID,
        None,
        grace_s,
        "Stopping container c",
    )
    assert len(fact.evidence) == 3


def test_a_kill_that_is_tried_again() -> None:
    """Another decision; what comes with the first is of that one."""
    keys = f'pod="shop/a" podUID="{UID}" containerName="c" containerID="containerd://{FIRST}"'
    lines = [
        klog(
            clock,
            "kuberuntime_container.go",
            f'"Killing container with a grace period" {keys} gracePeriod={seconds}',
        )
        for clock, seconds in (("10:00:00.3", 30), ("10:00:00.4", 30), ("10:00:40.0", 1))
    ]
    facts = facts_of(
        ingest_lines(world(), [*lines, klog("10:01:00.0", "x.go", "y")]), ContainerKilled
    )
    assert [(fact.ts_ns, *values(fact.body, "grace_period_s")) for fact in facts] == [
        (at("10:00:00.3"), 30),
        (at("10:00:40.0"), 1),
    ]


def test_a_deleted_pod_kills_its_containers() -> None:
    """A deleted pod kills its containers."""
    log = [
        _sandbox(),
        _pleg("10:00:01.0", "ContainerStarted", FIRST),
        klog("10:00:02.0", "kubelet.go", f'SyncLoop (DELETE, "api"): "{POD}"'),
        _grace("10:00:02.1", FIRST),
    ]
    (fact,) = facts_of(ingest_lines(_known("c"), log), ContainerKilled)
    assert values(fact.body, "container", "reason") == ("c", "pod_deleted")
    assert fact.cause is not None
    assert isinstance(fact.cause.body, PodConfigChanged)


def test_an_evicted_pod_kills_its_containers_though_the_event_comes_later() -> None:
    """An evicted pod kills its containers though the event comes later."""
    log = [
        _sandbox(),
        _pleg("10:00:01.0", "ContainerStarted", FIRST),
        _grace("10:00:02.1", FIRST),
        _event("10:00:02.2", "Evicted", "The node was low on resource: memory. "),
        _event("10:00:02.3", "Killing", "Stopping container c"),
    ]
    (body,) = of(ingest_lines(_known("c"), log), ContainerKilled)
    assert body.reason == "evicted"


def test_a_failed_kill_is_decided_again() -> None:
    """A failed kill is decided again."""
    failed = f'Container "containerd://{FIRST}" termination failed with gracePeriod 30: deadline'
    log = [_sandbox(), _pleg("10:00:01.0", "ContainerStarted", FIRST), _grace("10:00:02.0", FIRST)]
    log += [klog("10:00:32.0", "kuberuntime_container.go", failed), _grace("10:00:40.0", FIRST)]
    assert len(of(ingest_lines(_known("c"), log), ContainerKilled)) == 2


def test_a_pre_stop_hook_delays_the_grace_period_not_the_fact() -> None:
    """A pre stop hook delays the grace period not the fact."""
    log = [
        _sandbox(),
        _pleg("10:00:01.0", "ContainerStarted", FIRST),
        klog(
            "10:00:02.0",
            "kuberuntime_manager.go",
            _of_pod(FIRST, "Container c definition changed"),
        ),
        klog(
            "10:00:02.1",
            "kuberuntime_container.go",
            f'Running preStop hook for container "containerd://{FIRST}"',
        ),
        _event("10:00:02.2", "Killing", "Container c definition changed"),
        _grace("10:00:20.0", FIRST, 12),
    ]
    (fact,) = facts_of(ingest_lines(_known("c"), log), ContainerKilled)
    assert fact.ts_ns == at("10:00:02")
    assert values(fact.body, "grace_period_s") == (12,)


def test_a_failure_of_an_earlier_instance_is_not_the_cause() -> None:
    """A failure of an earlier instance is not the cause."""
    probe = f'Liveness probe for "{POD}:c" failed (failure): x'
    log = [START, _sandbox(), _pleg("10:00:01.0", "ContainerStarted", FIRST)]
    log += [klog(f"10:00:0{second}.0", "prober.go", probe) for second in (2, 3, 4)]
    log.append(_pleg("10:00:06.0", "ContainerStarted", SECOND))
    message = _of_pod(SECOND, "Container c failed liveness probe")
    log.append(klog("10:00:30.0", "kuberuntime_manager.go", message))
    context = world()
    know_pod(context, "a", UID, namespace="shop", spec=container("c", liveness={}))
    (fact,) = facts_of(ingest_lines(context, log), ContainerKilled)
    assert fact.cause is None


def test_each_back_off_is_one_fact() -> None:
    """Each back off is one fact."""
    text = f"back-off 1m20s restarting failed container=c pod={POD}"
    worker = (
        f'Error syncing pod {UID} ("{POD}"), skipping: failed to "StartContainer" for "c"'
        f' with CrashLoopBackOff: "{text}"'
    )
    log = []
    for second in ("1", "2"):
        log.append(klog(f"10:00:0{second}.0", "kuberuntime_manager.go", text))
        log.append(klog(f"10:00:0{second}.1", "pod_workers.go", worker))
        log.append(_event(f"10:00:0{second}.2", "BackOff", "Back-off restarting failed container"))
    facts = facts_of(ingest_lines(world(), log), RestartBackedOff)
    assert [values(fact.body, "container", "back_off_s") for fact in facts] == [("c", 80)] * 2
    assert [[piece.line for piece in fact.evidence] for fact in facts] == [[1, 2, 3], [4, 5, 6]]


def test_lines_that_tell_different_back_offs_are_two_facts() -> None:
    """One of them is wrong, and which is for others to find out."""
    text = "back-off {} restarting failed container=c pod=" + POD
    worker = (
        f'Error syncing pod {UID} ("{POD}"), skipping: failed to "StartContainer" for "c"'
        f' with CrashLoopBackOff: "{text.format("40s")}"'
    )
    log = [
        klog("10:00:01.0", "kuberuntime_manager.go", text.format("20s")),
        klog("10:00:01.1", "pod_workers.go", worker),
    ]
    facts = facts_of(ingest_lines(world(), log), RestartBackedOff)
    assert [values(fact.body, "back_off_s") for fact in facts] == [(20,), (40,)]


def test_the_line_says_why_and_not_the_event() -> None:
    """A pod that is stopped as a whole has an event that gives no reason."""
    log = [
        START,
        _sandbox(),
        _pleg("10:00:01.0", "ContainerStarted", FIRST),
        klog("10:00:02.0", "kuberuntime_manager.go",
             _of_pod(FIRST, "Container c failed liveness probe")),
        _event("10:00:02.1", "Killing", "Stopping container c"),
    ]  # fmt: skip
    (fact,) = facts_of(ingest_lines(_known("c"), log), ContainerKilled)
    assert values(fact.body, "reason", "message") == (
        "liveness_probe",
        "Container c failed liveness probe",
    )


def test_back_offs_at_low_verbosity_come_from_the_pod_worker() -> None:
    """Back offs at low verbosity come from the pod worker."""
    text = (
        f'failed to \\"StartContainer\\" for \\"c\\" with CrashLoopBackOff: \\"back-off 10s'
        f' restarting failed container=c pod={POD}\\"'
    )
    line = f'"Error syncing pod, skipping" err="{text}" pod="shop/a" podUID="{UID}"'
    (body,) = of(
        ingest_lines(world(), [klog("10:00:00.0", "pod_workers.go", line)]), RestartBackedOff
    )
    assert values(body, "pod_uid", "back_off_s") == (UID, 10)


def test_back_offs_in_json_without_callers(tmp_path: Path) -> None:
    """The runtime manager and the pod worker tell of one back-off; no file tells them apart."""
    refused = f"back-off 40s restarting failed container=c pod={POD}"
    skipped = f'Error syncing pod {UID} ("{POD}"), skipping: failed to "StartContainer" for "c"'
    skipped += f' with CrashLoopBackOff: "{refused}"'
    lines = [
        {"ts": 1795230110480.5 + step, "msg": f"{message}\n", "v": 0}
        for step in (0, 12000)
        for message in (refused, skipped)
    ]
    log = tmp_path / "kubelet.log"
    log.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    ledger = Ledger.create(tmp_path / "ledger")
    import_sources([str(log)], ledger, ImportOptions(node="n"))
    found = [r for r in ledger.records("n") if isinstance(r.body, RestartBackedOff)]
    assert [values(record.body, "container", "back_off_s") for record in found] == [("c", 40)] * 2
    assert [[piece.line for piece in record.evidence] for record in found] == [[1, 2], [3, 4]]


def test_a_failed_sync_of_another_kind_is_no_back_off() -> None:
    """A failed sync of another kind is no back off."""
    line = f'Error syncing pod {UID} ("{POD}"), skipping: failed to "CreatePodSandbox" for "x"'
    assert ingest_lines(world(), [klog("10:00:00.0", "pod_workers.go", line)]) == []


def test_recorded_chain_from_ticks_to_restart() -> None:
    """Recorded chain from ticks to restart."""
    context = world("1.20.2")
    spec = container("app", liveness={"failureThreshold": 3, "exec": {}})
    know_pod(context, "live-fail", "e87c67ca-371e-4b1a-ba0a-2940731faba2", spec=spec)
    facts = ingest_lines(context, (DATA / "kubelet/liveness-1.20.2.log").read_text())
    restarts = facts_of(facts, ContainerRestarted)
    assert len(restarts) == 4
    for restart in restarts:
        kill = restart.cause
        assert kill is not None
        assert values(kill.body, "reason", "grace_period_s") == ("liveness_probe", 2)
        change = kill.cause
        assert change is not None
        assert isinstance(change.body, ProbeTransitioned)
        assert values(change.body, "run", "threshold", "inferred") == (3, 3, False)
        assert change.cause is not None
        assert isinstance(change.cause.body, ProbeExecuted)
        assert change.cause.body.result == "failure"
        assert values(restart.body, "previous_container_id") == values(kill.body, "container_id")
    assert len(of(facts, ContainerKilled)) == 5
    assert len(of(facts, RestartBackedOff)) == 2
