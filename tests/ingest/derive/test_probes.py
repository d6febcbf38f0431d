"""Ticks as the log tells them, and the transitions that follow or are logged."""

from __future__ import annotations

from typing import Any

import pytest

from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.model.bodies.ledger import FindingReported
from kubeledger.model.bodies.prober import ProbeExecuted, ProbeTransitioned
from tests.ingest.feeding import DATA
from tests.ingest.pod_world import (
    container,
    facts_of,
    ingest_lines,
    klog,
    know_pod,
    of,
    values,
    world,
)

UID = "aaaaaaaa-0000-4000-8000-000000000001"
POD = f"web-0_shop({UID})"
FIRST = "1" * 64
SECOND = "2" * 64


START = klog("09:59:00.000000", "kubelet.go", "Starting kubelet main sync loop")


def _probed(version: str = "1.20.2", **probes: dict[str, Any]) -> BundleContext:
    context = world(version)
    know_pod(context, "web-0", UID, namespace="shop", spec=container("c", **probes))
    return context


def _text(second: int, kind: str, outcome: str) -> str:
    return klog(f"10:00:{second:02}.000000", "prober.go", f'{kind} probe for "{POD}:c" {outcome}')


def _pleg(second: int, kind: str, container_id: str) -> str:
    event = f'&pleg.PodLifecycleEvent{{ID:"{UID}", Type:"{kind}", Data:"{container_id}"}}'
    return klog(
        f"10:00:{second:02}.500000", "kubelet.go", f'SyncLoop (PLEG): "{POD}", event: {event}'
    )


def _structured(second: int, message: str, rest: str = "", kind: str = "Readiness") -> str:
    keys = f'probeType="{kind}" pod="shop/web-0" podUID="{UID}" containerName="c"{rest}'
    return klog(f"10:00:{second:02}.000000", "prober.go", f'"{message}" {keys}')


def _loop(second: int, probe: str, status: str, micro: int = 100) -> str:
    message = f'"SyncLoop (probe)" probe="{probe}" status="{status}" pod="shop/web-0"'
    return klog(f"10:00:{second:02}.{micro:06}", "kubelet.go", message)


@pytest.mark.parametrize(
    ("line", "result", "output"),
    [
        (_text(1, "Liveness", "succeeded"), "success", None),
        (_text(1, "Liveness", "succeeded with a warning: moved"), "warning", "moved"),
        (_text(1, "Liveness", "failed (failure): no: such file"), "failure", "no: such file"),
        (_text(1, "Liveness", "failed (failure): "), "failure", ""),
        (_text(1, "Liveness", "failed (unknown): ?"), "unknown", "?"),
        (_text(1, "Liveness", "errored: rpc error: gone"), "error", "rpc error: gone"),
        (_structured(1, "Probe succeeded", kind="Liveness"), "success", None),
        (
            _structured(1, "Probe failed", ' probeResult="failure" output="a \\"b\\""'),
            "failure",
            'a "b"',
        ),
        (_structured(1, "Probe failed", ' probeResult="failure" output=""'), "failure", ""),
        (_structured(1, "Probe failed", ' probeResult="failure" output=<'), "failure", None),
        (_structured(1, "Probe failed", ' probeResult="failure"'), "failure", None),
        (_structured(1, "Probe errored", ' probeResult="unknown" err="gone"'), "error", "gone"),
        (_structured(1, "Probe succeeded with a warning", ' output="moved"'), "warning", "moved"),
        (_structured(1, "Probe unknown without error", ' probeResult="unknown"'), "unknown", None),
        (_structured(1, "Unsupported probe result", ' probeResult="x"'), "unknown", None),
    ],
)
def test_one_tick_a_line(line: str, result: str, output: str | None) -> None:
    """One tick a line."""
    (tick,) = of(ingest_lines(world(), [line]), ProbeExecuted)
    assert values(tick, "namespace", "pod", "pod_uid", "container") == ("shop", "web-0", UID, "c")
    assert (tick.result, tick.output) == (result, output)


def test_output_over_several_lines() -> None:
    """Output over several lines."""
    log = [
        _text(1, "Readiness", "failed (failure): first"),
        "second",
        _text(3, "Readiness", "succeeded"),
    ]
    first, _ = of(ingest_lines(world(), log), ProbeExecuted)
    assert first.output == "first\nsecond"


@pytest.mark.parametrize(
    ("probe", "handler"),
    [
        ({"httpGet": {"port": 80}}, "http"),
        ({"tcpSocket": {"port": 80}}, "tcp"),
        ({"grpc": {"port": 80}}, "grpc"),
        ({"exec": {"command": ["x"]}}, "exec"),
    ],
)
def test_handler_from_the_pod_spec(probe: dict[str, Any], handler: str) -> None:
    """Handler from the pod spec."""
    (tick,) = of(
        ingest_lines(_probed(readiness=probe), [_text(1, "Readiness", "succeeded")]), ProbeExecuted
    )
    assert tick.handler == handler


def test_handler_from_the_line_before_without_a_spec() -> None:
    """Handler from the line before without a spec."""
    announced = klog(
        "10:00:01.000000", "prober.go", "Exec-Probe Pod: web-0, Container: c, Command: [x]"
    )
    log = [announced, _text(1, "Readiness", "succeeded"), _text(2, "Readiness", "succeeded")]
    assert [tick.handler for tick in of(ingest_lines(world(), log), ProbeExecuted)] == [
        "exec",
        None,
    ]


def test_readiness_in_old_logs_is_inferred_with_its_thresholds() -> None:
    """Readiness in old logs is inferred with its thresholds."""
    context = _probed(readiness={"failureThreshold": 2, "successThreshold": 2})
    outcomes = [
        "succeeded",
        "succeeded",
        "failed (failure): x",
        "errored: y",
        "failed (failure): x",
    ]
    log = [START]
    log += [_text(n + 1, "Readiness", outcome) for n, outcome in enumerate(outcomes)]
    facts = ingest_lines(context, log)
    changes = [
        values(body, "from_result", "to_result", "run", "threshold", "inferred")
        for body in of(facts, ProbeTransitioned)
    ]
    # The error in between neither counts nor breaks the run.
    assert changes == [("failure", "success", 2, 2, True), ("success", "failure", 2, 2, True)]
    causes = [fact.cause.body for fact in facts_of(facts, ProbeTransitioned) if fact.cause]
    assert [values(body, "result") for body in causes] == [("success",), ("failure",)]


def test_defaults_are_three_failures_and_one_success() -> None:
    """Defaults are three failures and one success."""
    log = [START, _text(1, "Readiness", "succeeded")]
    log += [_text(second, "Readiness", "failed (failure): x") for second in (2, 3, 4)]
    changes = of(ingest_lines(_probed(readiness={}), log), ProbeTransitioned)
    assert [values(body, "run", "threshold") for body in changes] == [(1, 1), (3, 3)]


def test_a_warning_is_a_success() -> None:
    """A warning is a success."""
    log = [START, _text(1, "Readiness", "succeeded with a warning: x")]
    (change,) = of(ingest_lines(_probed(readiness={}), log), ProbeTransitioned)
    assert change.to_result == "success"


def test_the_run_survives_a_new_container_and_the_result_does_not() -> None:
    """The run survives a new container and the result does not."""
    context = _probed(liveness={"failureThreshold": 3})
    log = [_pleg(0, "ContainerStarted", "f" * 64)]
    log += [
        _text(1, "Liveness", "failed (failure): x"),
        _text(2, "Liveness", "failed (failure): x"),
    ]
    instance = {"name": "c", "restartCount": 1, "containerID": f"containerd://{SECOND}"}
    last = {"terminated": {"containerID": f"containerd://{FIRST}"}}
    context.pods[UID].statuses.append({"containerStatuses": [{**instance, "lastState": last}]})
    log += [_pleg(3, "ContainerStarted", SECOND), _text(5, "Liveness", "failed (failure): x")]
    (change,) = of(ingest_lines(context, log), ProbeTransitioned)
    assert values(change, "container_id", "from_result", "run") == (SECOND, "success", 3)


def test_a_worker_on_hold_that_probes_again_has_a_new_container() -> None:
    """A worker on hold that probes again has a new container."""
    log = [_text(second, "Liveness", "failed (failure): x") for second in range(1, 7)]
    changes = of(ingest_lines(_probed(liveness={}), log), ProbeTransitioned)
    assert [values(body, "from_result", "to_result", "run") for body in changes] == [
        ("success", "failure", 3)
    ] * 2


def test_a_logged_failure_is_one_fact_with_both_lines() -> None:
    """A logged failure is one fact with both lines."""
    log = [_text(second, "Liveness", "failed (failure): x") for second in (1, 2, 3)]
    log.append(klog("10:00:03.000200", "kubelet.go", f'SyncLoop (container unhealthy): "{POD}"'))
    (fact,) = facts_of(ingest_lines(_probed(liveness={}), log), ProbeTransitioned)
    assert isinstance(fact.body, ProbeTransitioned)
    assert not fact.body.inferred
    assert [piece.line for piece in fact.evidence] == [3, 4]


def test_structured_readiness_waits_for_its_line() -> None:
    """Structured readiness waits for its line."""
    log = [_structured(1, "Probe succeeded"), _loop(1, "readiness", "ready")]
    log += [_structured(s, "Probe failed", ' probeResult="failure" output=""') for s in (2, 3, 4)]
    log += [_loop(6, "readiness", "not ready")]
    facts = facts_of(ingest_lines(_probed("1.36.2", readiness={}), log), ProbeTransitioned)
    assert [len(fact.evidence) for fact in facts] == [2, 2]
    assert [values(fact.body, "inferred", "to_result") for fact in facts] == [
        (False, "success"),
        (False, "failure"),
    ]


def test_a_change_whose_line_never_comes_is_inferred() -> None:
    """A change whose line never comes is inferred."""
    log = [START, _structured(1, "Probe succeeded"), _structured(40, "Probe succeeded")]
    (change,) = of(ingest_lines(_probed("1.36.2", readiness={}), log), ProbeTransitioned)
    assert change.inferred


def test_a_lost_line_shifts_no_other() -> None:
    """A line is of a change of its time, not of the oldest one that has none."""
    log = [START]
    for second, message in ((1, "succeeded"), (20, "failed"), (40, "succeeded")):
        rest = ' probeResult="failure" output=""' if message == "failed" else ""
        log.append(_structured(second, f"Probe {message}", rest))
        if second > 1:
            status = "not ready" if message == "failed" else "ready"
            log.append(_loop(second, "readiness", status))
    log.append(_structured(59, "Probe succeeded"))
    facts = ingest_lines(_probed("1.36.2", readiness={"failureThreshold": 1}), log)
    changes = of(facts, ProbeTransitioned)
    assert [values(change, "to_result", "inferred") for change in changes] == [
        ("success", True),
        ("failure", False),
        ("success", False),
    ]


def test_a_kill_ends_the_run_whatever_the_ticks_say() -> None:
    """The kubelet has counted to the threshold; the next container's ticks begin anew."""

    def fails(second: int) -> str:
        return _text(second, "Startup", "failed (failure): x")

    kill = f'Container "c" ({{"containerd" "{FIRST}"}}) of pod {POD}: Container c failed startup'
    log = [START, _pleg(0, "ContainerStarted", FIRST), fails(1), fails(2)]
    log.append(
        klog("10:00:03.000000", "kuberuntime_manager.go", f"{kill} probe, will be restarted")
    )
    log += [_pleg(5, "ContainerDied", FIRST), _pleg(5, "ContainerStarted", SECOND)]
    log += map(fails, (6, 7, 8))
    context = _probed(startup={"failureThreshold": 3})
    instance = {"name": "c", "restartCount": 1, "containerID": f"containerd://{SECOND}"}
    last_state = {"terminated": {"containerID": f"containerd://{FIRST}"}}
    context.pods[UID].statuses.append(
        {"containerStatuses": [{**instance, "lastState": last_state}]}
    )
    facts = ingest_lines(context, log)
    (change,) = of(facts, ProbeTransitioned)
    (*_, last) = facts_of(facts, ProbeExecuted)
    assert values(change, "run", "to_result") == (3, "failure")
    assert facts_of(facts, ProbeTransitioned)[0].cause is last


def test_initial_values_are_no_transitions() -> None:
    """Initial values are no transitions."""
    log = [
        _loop(1, "readiness", "not ready"),
        _loop(1, "startup", "unhealthy", 200),
        _structured(2, "Probe succeeded"),
        _loop(2, "readiness", "ready"),
    ]
    (change,) = of(ingest_lines(_probed("1.36.2", readiness={}), log), ProbeTransitioned)
    assert values(change, "from_result", "to_result", "inferred") == ("failure", "success", False)


def test_without_a_pod_spec_only_logged_changes_are_told() -> None:
    """Without a pod spec only logged changes are told."""
    log = [_structured(1, "Probe succeeded"), _structured(2, "Probe succeeded")]
    assert of(ingest_lines(world("1.36.2"), log), ProbeTransitioned) == []
    log.append(_loop(2, "readiness", "ready"))
    (change,) = of(ingest_lines(world("1.36.2"), log), ProbeTransitioned)
    assert values(change, "container", "run", "threshold", "inferred") == ("c", 2, None, False)


def _fail(second: int, kind: str = "Liveness") -> str:
    return _structured(second, "Probe failed", ' probeResult="failure" output="x"', kind=kind)


UNHEALTHY = ("liveness", "unhealthy")


def test_a_change_whose_tick_is_lost_is_dated_to_its_line() -> None:
    """Without a pod spec: the last tick in the log is a period older than the line."""
    log = [_fail(1), _fail(11), _loop(21, *UNHEALTHY), _fail(31)]
    facts = ingest_lines(world("1.36.2"), log)
    (fact,) = facts_of(facts, ProbeTransitioned)
    assert fact.cause is None
    assert [piece.line for piece in fact.evidence] == [3]
    assert fact.ts_ns - facts_of(facts, ProbeExecuted)[1].ts_ns == 10_000_100_000
    assert values(fact.body, "container", "run", "threshold", "inferred") == (
        "c",
        None,
        None,
        False,
    )


def test_a_line_soon_after_a_tick_is_of_that_tick() -> None:
    """The sync loop may be late, by less than half a period."""
    facts = ingest_lines(world("1.36.2"), [_fail(1), _fail(11), _loop(15, *UNHEALTHY)])
    (fact,) = facts_of(facts, ProbeTransitioned)
    assert fact.cause is facts_of(facts, ProbeExecuted)[1]
    assert values(fact.body, "run", "inferred") == (2, False)


def test_short_periods_are_told_by_the_ticks() -> None:
    """Half a period is half of the shortest time between two ticks."""
    facts = ingest_lines(world("1.36.2"), [_fail(1), _fail(3), _loop(5, *UNHEALTHY)])
    (fact,) = facts_of(facts, ProbeTransitioned)
    assert (fact.cause, values(fact.body, "run")) == (None, (None,))


@pytest.mark.parametrize(
    ("seconds", "caused"),
    [((1, 11), False), ((1, 21), True), ((11, 21), True), ((), False)],
)
def test_with_thresholds_a_failure_is_told_though_ticks_are_lost(
    seconds: tuple[int, ...], caused: bool
) -> None:
    """The replay does not reach the threshold, but the line says that the kubelet did."""
    log = [START, _structured(0, "Probe succeeded", kind="Liveness")]
    log += [*map(_fail, seconds), _loop(21, *UNHEALTHY)]
    facts = ingest_lines(_probed("1.36.2", liveness={"failureThreshold": 3}), log)
    (fact,) = facts_of(facts, ProbeTransitioned)
    assert (fact.cause is not None) == caused
    assert values(fact.body, "from_result", "run", "inferred") == ("success", None, False)
    assert fact.evidence[-1].line == len(log)


def test_after_a_lost_tick_the_next_container_begins_anew() -> None:
    """The worker was on hold, as after a tick that is in the log."""
    log = [START, _structured(0, "Probe succeeded", kind="Liveness")]
    log += [_fail(1), _fail(11), _loop(21, *UNHEALTHY), _fail(31), _fail(41), _fail(51)]
    changes = of(ingest_lines(_probed("1.36.2", liveness={}), log), ProbeTransitioned)
    assert [values(change, "from_result", "run") for change in changes] == [
        ("success", None),
        ("success", 3),
    ]


def test_an_errored_tick_decides_nothing() -> None:
    """The worker throws it away, so the tick that decided is not in the log."""
    errored = _structured(11, "Probe errored", ' err="x"', kind="Liveness")
    facts = ingest_lines(world("1.36.2"), [_fail(1), errored, _loop(11, *UNHEALTHY)])
    (fact,) = facts_of(facts, ProbeTransitioned)
    assert (fact.cause, values(fact.body, "run")) == (None, (None,))


def test_of_two_containers_the_one_that_just_failed_is_meant() -> None:
    """An older failure of another container does not take the line."""
    log = [_fail(1).replace('"c"', '"b"'), _fail(11), _loop(11, *UNHEALTHY)]
    (change,) = of(ingest_lines(world("1.36.2"), log), ProbeTransitioned)
    assert values(change, "container", "run") == ("c", 1)


def test_of_two_containers_with_lost_ticks_none_is_named() -> None:
    """Both were on their way: no transition is recorded, and a finding says so."""
    log = [_fail(1).replace('"c"', '"b"'), _fail(2), _loop(11, *UNHEALTHY)]
    facts = ingest_lines(world("1.36.2"), log)
    assert of(facts, ProbeTransitioned) == []
    assert [finding.finding for finding in of(facts, FindingReported)] == ["probe_not_attributed"]


def test_a_container_found_not_running_fails_without_a_threshold() -> None:
    """A container found not running fails without a threshold."""
    log = [_structured(1, "Probe succeeded"), _loop(1, "readiness", "ready")]
    stopped = '"Non-running container probed" pod="shop/web-0" containerName="c"'
    log += [klog("10:00:04.000000", "worker.go", stopped), _loop(4, "readiness", "not ready")]
    changes = of(ingest_lines(_probed("1.36.2", readiness={}), log), ProbeTransitioned)
    assert values(changes[1], "from_result", "to_result", "run", "threshold", "inferred") == (
        "success",
        "failure",
        None,
        None,
        False,
    )


def test_a_kubelet_restart_makes_all_workers_new() -> None:
    """A kubelet restart makes all workers new."""
    again = klog("10:00:03.000000", "kubelet.go", "Starting kubelet main sync loop.")
    log = [START, _text(1, "Readiness", "succeeded"), again, _text(5, "Readiness", "succeeded")]
    changes = of(ingest_lines(_probed(readiness={}), log), ProbeTransitioned)
    assert [change.from_result for change in changes] == ["failure", "failure"]


def test_from_1_35_nothing_is_cached_for_what_ran_before_the_kubelet() -> None:
    """From 1 35 nothing is cached for what ran before the kubelet."""
    context = _probed("1.36.2", readiness={}, liveness={})
    state = {"running": {"startedAt": "2026-11-21T09:00:00Z"}}
    status = {
        "name": "c",
        "restartCount": 0,
        "containerID": f"containerd://{FIRST}",
        "state": state,
    }
    context.pods[UID].statuses.append({"containerStatuses": [status]})
    log = [
        klog("10:00:00.000000", "kubelet.go", '"Starting kubelet main sync loop"'),
        _structured(2, "Probe succeeded", kind="Liveness"),
        _structured(3, "Probe succeeded"),
        _loop(3, "readiness", "ready"),
    ]
    (change,) = of(ingest_lines(context, log), ProbeTransitioned)
    assert values(change, "probe_type", "from_result", "container_id") == (
        "readiness",
        "unknown",
        FIRST,
    )


def test_a_log_that_begins_late_does_not_guess_what_was_cached() -> None:
    """A log that begins late does not guess what was cached."""
    log = [_text(second, "Readiness", "succeeded") for second in (1, 2)]
    log += [_text(second, "Readiness", "failed (failure): x") for second in (3, 4, 5)]
    context = _probed(readiness={})
    state = {"running": {"startedAt": "2026-11-21T09:00:00Z"}}
    status = {"name": "c", "containerID": f"containerd://{FIRST}", "state": state}
    context.pods[UID].statuses.append({"containerStatuses": [status]})
    (change,) = of(ingest_lines(context, log), ProbeTransitioned)
    assert values(change, "from_result", "to_result") == ("success", "failure")


def test_a_status_tells_only_the_second_in_which_a_container_started() -> None:
    """A tick in that second may be of the container before it."""
    context = _probed(liveness={})
    state = {"running": {"startedAt": "2026-11-21T10:00:02Z"}}
    status = {"name": "c", "containerID": f"containerd://{FIRST}", "state": state}
    context.pods[UID].statuses.append({"containerStatuses": [status]})
    log = [_text(second, "Liveness", "failed (failure): x") for second in (1, 2, 3)]
    log[1] = log[1].replace("10:00:02.000000", "10:00:02.900000")
    ticks = of(ingest_lines(context, log), ProbeExecuted)
    assert [tick.container_id for tick in ticks] == [None, None, FIRST]


def test_recorded_startup_probe_that_never_succeeds() -> None:
    """Recorded startup probe that never succeeds."""
    context = world("1.36.2")
    spec = container("app", startup={"failureThreshold": 4, "exec": {}})
    know_pod(context, "startup-never-node-b", "47c6fba2e82b7402f7219b7089c7f992", spec=spec)
    facts = ingest_lines(context, (DATA / "kubelet/startup-1.36.2.log").read_text())
    assert len(of(facts, ProbeExecuted)) == 16
    changes = of(facts, ProbeTransitioned)
    assert [values(body, "from_result", "to_result", "run", "inferred") for body in changes] == [
        ("unknown", "failure", 4, False)
    ] * 4
    assert len({body.container_id for body in changes}) == 4
