"""Transitions of logs that leave out successful ticks, or all ticks."""

from __future__ import annotations

from typing import Any

import pytest

from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.sources.facts import Fact
from kubeledger.model.bodies.ledger import FindingReported
from kubeledger.model.bodies.lifecycle import ContainerKilled
from kubeledger.model.bodies.prober import ProbeTransitioned
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
OTHER = "3" * 64
START = klog("09:59:00.000000", "kubelet.go", '"Starting kubelet main sync loop"')
ADD = klog("09:59:01.000000", "kubelet.go", '"SyncLoop ADD" source="api" pods=["shop/web-0"]')


def _pod(spec: dict[str, Any], ids: dict[str, str], version: str = "1.36.2") -> BundleContext:
    """A pod whose statuses name the container IDs (ID -> container name)."""
    context = world(version)
    statuses = [
        {"containerStatuses": [{"name": name, "containerID": f"containerd://{container_id}"}]}
        for container_id, name in ids.items()
    ]
    know_pod(context, "web-0", UID, namespace="shop", spec=spec, statuses=statuses)
    return context


def _loop(second: int, probe: str, status: str) -> str:
    message = f'"SyncLoop (probe)" probe="{probe}" status="{status}" pod="shop/web-0"'
    return klog(f"10:00:{second:02}.000500", "kubelet.go", message)


def _pleg(second: int, kind: str, container_id: str) -> str:
    event = f'{{"ID":"{UID}","Type":"Container{kind}","Data":"{container_id}"}}'
    message = f'"SyncLoop (PLEG): event for pod" pod="shop/web-0" event={event}'
    return klog(f"10:00:{second:02}.000000", "kubelet.go", message)


def _failed(second: int, kind: str, name: str) -> str:
    keys = f'probeType="{kind}" pod="shop/web-0" podUID="{UID}" containerName="{name}"'
    message = f'"Probe failed" {keys} probeResult="failure" output="x"'
    return klog(f"10:00:{second:02}.000000", "prober.go", message)


def _changes(facts: list[Fact], *fields: str) -> list[tuple[Any, ...]]:
    return [values(body, *fields) for body in of(facts, ProbeTransitioned)]


def _two(**probes: dict[str, Any]) -> dict[str, Any]:
    both = [*container("a", **probes)["containers"], *container("b", **probes)["containers"]]
    return {"containers": both}


BOTH = {FIRST: "a", OTHER: "b"}


def test_the_first_line_is_the_initial_value_and_the_next_are_changes() -> None:
    """The first line is the initial value and the next are changes."""
    context = _pod(container("c", readiness={}), {FIRST: "c"})
    log = [START, ADD, _pleg(0, "Started", FIRST), _loop(1, "readiness", "not ready")]
    log += [_loop(2, "readiness", "ready"), _loop(30, "readiness", "not ready")]
    facts = ingest_lines(context, log)
    fields = ("container", "container_id", "from_result", "to_result", "inferred")
    assert _changes(facts, *fields) == [
        ("c", FIRST, "failure", "success", False),
        ("c", FIRST, "success", "failure", False),
    ]
    assert _changes(facts, "run", "threshold") == [(None, None)] * 2
    assert [fact.cause for fact in facts_of(facts, ProbeTransitioned)] == [None, None]
    assert of(facts, FindingReported) == []


def test_not_ready_of_a_new_container_is_no_change() -> None:
    """Not ready of a new container is no change."""
    context = _pod(container("c", readiness={}), {FIRST: "c", SECOND: "c"})
    log = [START, ADD, _pleg(0, "Started", FIRST), _loop(1, "readiness", "not ready")]
    log += [_loop(2, "readiness", "ready"), _pleg(9, "Died", FIRST), _pleg(9, "Started", SECOND)]
    log += [_loop(10, "readiness", "not ready"), _loop(11, "readiness", "ready")]
    assert _changes(ingest_lines(context, log), "container_id", "from_result", "to_result") == [
        (FIRST, "failure", "success"),
        (SECOND, "failure", "success"),
    ]


def test_not_ready_of_a_container_that_ended_is_a_change() -> None:
    """Not ready of a container that ended is a change, and its successor begins anew."""
    context = _pod(container("c", readiness={}), {FIRST: "c", SECOND: "c"})
    log = [START, ADD, _pleg(0, "Started", FIRST), _loop(1, "readiness", "not ready")]
    log += [_loop(2, "readiness", "ready"), _pleg(9, "Died", FIRST)]
    log += [_loop(10, "readiness", "not ready"), _pleg(20, "Started", SECOND)]
    log += [_loop(21, "readiness", "not ready")]
    assert _changes(ingest_lines(context, log), "container_id", "to_result") == [
        (FIRST, "success"),
        (FIRST, "failure"),
    ]


@pytest.mark.parametrize("with_ticks", [True, False])
def test_startup_fails_after_its_initial_value(with_ticks: bool) -> None:
    """Startup fails after its initial value: both lines say the same."""
    context = _pod(container("c", startup={"failureThreshold": 2}), {FIRST: "c", SECOND: "c"})
    log = [START, ADD]
    for second, container_id in ((0, FIRST), (20, SECOND)):
        log += [_pleg(second, "Started", container_id), _loop(second + 1, "startup", "unhealthy")]
        log += [_failed(second + 2, "Startup", "c")] * with_ticks
        log += [_failed(second + 4, "Startup", "c")] * with_ticks
        log += [_loop(second + 4, "startup", "unhealthy")]
    run = 2 if with_ticks else None
    assert _changes(
        ingest_lines(context, log), "container_id", "from_result", "run", "inferred"
    ) == [
        (FIRST, "unknown", run, False),
        (SECOND, "unknown", run, False),
    ]


def test_startup_of_a_successor_of_what_had_started_is_no_change() -> None:
    """Startup of a successor of what had started is no change, be its ID told or not."""
    context = _pod(container("c", startup={}), {FIRST: "c"})
    log = [START, ADD, _pleg(0, "Started", FIRST), _loop(1, "startup", "unhealthy")]
    log += [_loop(2, "startup", "started"), _loop(9, "startup", "unhealthy")]
    log += [_loop(12, "startup", "started")]
    assert _changes(ingest_lines(context, log), "from_result", "to_result") == [
        ("unknown", "success"),
        ("unknown", "success"),
    ]


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": [{"name": "b"}, {"name": "c", "readinessProbe": {"exec": {}}}]},
        {
            "initContainers": [
                {"name": "b", "readinessProbe": {"exec": {}}},
                {"name": "c", "readinessProbe": {"exec": {}}, "restartPolicy": "Always"},
            ],
            "containers": [{"name": "d", "livenessProbe": {"exec": {}}}],
        },
    ],
)
def test_only_containers_with_that_probe_are_meant(spec: dict[str, Any]) -> None:
    """Only containers with that probe are meant."""
    log = [START, ADD, _loop(1, "readiness", "not ready"), _loop(2, "readiness", "ready")]
    assert _changes(ingest_lines(_pod(spec, {}), log), "container") == [("c",)]


def test_of_two_containers_the_one_that_can_change_is_meant() -> None:
    """Of two containers the one that can change is meant."""
    context = _pod(_two(liveness={"failureThreshold": 1}, readiness={}), BOTH)
    log = [START, ADD, _pleg(0, "Started", FIRST), _pleg(0, "Started", OTHER)]
    log += [_loop(1, "readiness", "not ready")] * 2
    log += [_loop(2, "readiness", "ready"), _loop(3, "readiness", "ready")]
    ticks = [_failed(second, "Readiness", "b") for second in (10, 20, 30)]
    log += [*ticks, _loop(30, "readiness", "not ready"), _loop(40, "readiness", "ready")]
    facts = ingest_lines(context, log)
    # Whose the first two lines are nobody can say; after both, both are ready.
    assert _changes(facts, "container", "from_result", "to_result", "run") == [
        ("b", "success", "failure", 3),
        ("b", "failure", "success", None),
    ]
    (finding,) = facts_of(facts, FindingReported)
    assert isinstance(finding.body, FindingReported)
    assert finding.body.finding == "probe_not_attributed"
    assert "readiness" in finding.body.message
    assert "shop/web-0" in finding.body.message
    assert "2 line(s)" in finding.body.message
    assert [piece.line for piece in finding.evidence] == [7, 8]


def test_a_new_container_of_two_is_told_by_what_the_other_holds() -> None:
    """A line may be the initial value of one or a change of the other: nobody is named."""
    context = _pod(_two(readiness={}), {**BOTH, SECOND: "a"})
    log = [START, ADD, _pleg(0, "Started", FIRST), _pleg(0, "Started", OTHER)]
    log += [_loop(1, "readiness", "not ready")] * 2 + [_loop(2, "readiness", "ready")] * 2
    log += [_pleg(9, "Died", FIRST), _pleg(9, "Started", SECOND)]
    log += [_loop(10, "readiness", "not ready"), _loop(11, "readiness", "not ready")]
    log += [_loop(12, "readiness", "ready")]
    facts = ingest_lines(context, log)
    assert _changes(facts, "container") == []
    (finding,) = of(facts, FindingReported)
    assert "5 line(s)" in finding.message


def test_liveness_of_old_logs_leads_to_kills_without_ticks() -> None:
    """Liveness of old logs leads to kills without ticks."""
    context = _pod(container("c", liveness={}), {FIRST: "c", SECOND: "c"}, "1.20.2")
    log = [klog("09:59:00.000000", "kubelet.go", "Starting kubelet main sync loop.")]
    for second, container_id in ((0, FIRST), (30, SECOND)):
        event = f'&pleg.PodLifecycleEvent{{ID:"{UID}", Type:"ContainerStarted", Data:"'
        pleg = f'SyncLoop (PLEG): "{POD}", event: {event}{container_id}"}}'
        log.append(klog(f"10:00:{second:02}.000000", "kubelet.go", pleg))
        unhealthy = f'SyncLoop (container unhealthy): "{POD}"'
        log.append(klog(f"10:00:{second + 20}.000000", "kubelet.go", unhealthy))
        killed = f'Container "c" ({{"containerd" "{container_id}"}}) of pod {POD}: '
        killed += "Container c failed liveness probe, will be restarted"
        log.append(klog(f"10:00:{second + 20}.001000", "kuberuntime_manager.go", killed))
    facts = ingest_lines(context, log)
    fields = ("container_id", "from_result", "to_result", "run", "threshold", "inferred")
    assert _changes(facts, *fields) == [
        (FIRST, "success", "failure", None, None, False),
        (SECOND, "success", "failure", None, None, False),
    ]
    causes = [fact.cause for fact in facts_of(facts, ContainerKilled)]
    assert causes == facts_of(facts, ProbeTransitioned)


def test_failures_around_an_unlogged_success_are_no_change() -> None:
    """Failures around an unlogged success are no change."""
    context = _pod(container("c", liveness={"failureThreshold": 3}), {FIRST: "c"})
    log = [START, ADD, _pleg(0, "Started", FIRST)]
    log += [_failed(second, "Liveness", "c") for second in (1, 11, 31, 41)]
    assert _changes(ingest_lines(context, log), "container") == []
    log += [_failed(51, "Liveness", "c"), _loop(51, "liveness", "unhealthy")]
    assert _changes(ingest_lines(context, log), "run", "inferred") == [(3, False)]


def test_without_the_pleg_a_failed_container_may_have_a_successor() -> None:
    """Without the PLEG a failed container may have a successor: not ready may be its first."""
    context = _pod(container("c", liveness={}, readiness={}), {})
    log = [START, _loop(1, "readiness", "not ready"), _loop(2, "readiness", "ready")]
    log += [_loop(30, "liveness", "unhealthy"), _loop(32, "readiness", "not ready")]
    log += [_loop(40, "readiness", "ready"), _loop(55, "liveness", "unhealthy")]
    facts = ingest_lines(context, log)
    assert _changes(facts, "probe_type", "from_result", "to_result") == [
        ("readiness", "failure", "success"),
        ("liveness", "success", "failure"),
        ("readiness", "failure", "success"),
        ("liveness", "success", "failure"),
    ]
    assert len(of(facts, FindingReported)) == 1


@pytest.mark.parametrize(("pleg", "changes"), [(True, 1), (False, 0)])
def test_a_log_that_begins_late(pleg: bool, changes: int) -> None:
    """A log that begins late: with the PLEG's events, what did not start in it is older."""
    context = _pod(container("c", readiness={}), {FIRST: "c"})
    other = f'pod="shop/x" event={{"ID":"u","Type":"ContainerStarted","Data":"{OTHER}"}}'
    event = klog("10:00:00.000000", "kubelet.go", f'"SyncLoop (PLEG): event for pod" {other}')
    log = [event] * pleg + [_loop(1, "readiness", "not ready")]
    facts = ingest_lines(context, log)
    assert _changes(facts, "from_result", "to_result") == [("success", "failure")] * changes
    assert len(of(facts, FindingReported)) == 1 - changes


def test_a_container_id_without_a_name_may_be_the_successor() -> None:
    """A container ID without a name may be the successor of one that died."""
    spec = {"containers": [*container("c", readiness={})["containers"], {"name": "d"}]}
    context = _pod(spec, {FIRST: "c", OTHER: "d"})
    log = [START, ADD, _pleg(0, "Started", FIRST), _pleg(0, "Started", OTHER)]
    log += [_loop(1, "readiness", "not ready"), _loop(2, "readiness", "ready")]
    log += [_pleg(9, "Died", FIRST), _pleg(12, "Started", SECOND)]
    log += [_loop(13, "readiness", "not ready"), _loop(14, "readiness", "ready")]
    facts = ingest_lines(context, log)
    assert _changes(facts, "container_id", "to_result") == [(FIRST, "success"), (None, "success")]
    assert len(of(facts, FindingReported)) == 1


def test_without_a_pod_spec_only_sure_changes_are_counted() -> None:
    """Without a pod spec only sure changes are counted: not ready may be an initial value."""
    log = [START, _loop(1, "readiness", "not ready"), _loop(2, "readiness", "ready")]
    facts = ingest_lines(world("1.36.2"), log)
    assert _changes(facts) == []
    (finding,) = of(facts, FindingReported)
    assert "1 line(s)" in finding.message


def test_recorded_startup_probe_without_its_ticks() -> None:
    """Recorded startup probe without its ticks."""
    context = world("1.36.2")
    spec = container("app", startup={"failureThreshold": 4, "exec": {}})
    know_pod(context, "startup-never-node-b", "47c6fba2e82b7402f7219b7089c7f992", spec=spec)
    lines = (DATA / "kubelet/startup-1.36.2.log").read_text().splitlines()
    whole = ingest_lines(context, lines)
    quiet = ingest_lines(
        BundleContext(node="n", kubelet_version="1.36.2", pods=context.pods),
        [line for line in lines if " prober.go:" not in line],
    )
    fields = ("container_id", "from_result", "to_result", "inferred")
    assert _changes(quiet, *fields) == _changes(whole, *fields)
    assert _changes(quiet, "run", "threshold") == [(None, None)] * 4
