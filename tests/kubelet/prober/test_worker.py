"""Steps of a probe worker: every way out, thresholds, hold, restarts."""

import pytest

from kubeledger.kubelet.prober.objects import (
    Container,
    PodStatus,
    Probe,
    Results,
    Running,
    State,
    Update,
)
from kubeledger.kubelet.prober.worker import (
    BELOW_THRESHOLD,
    CONTAINER_NOT_FOUND,
    INITIAL_DELAY,
    NO_STATUS,
    NOT_RESTARTED,
    NOT_RUNNING,
    NOT_STARTED,
    ON_HOLD,
    POD_DELETED,
    POD_TERMINATED,
    STARTED,
    STARTED_ENDS,
    SkipReason,
    new_worker,
)
from kubeledger.model.bodies.prober import ProbeType
from tests.kubelet.prober.worlds import ENDED, container, facts_of, pod, status, step, worker

DELAYED = Probe(initial_delay_seconds=30, success_threshold=1, failure_threshold=3)


@pytest.mark.parametrize(
    ("probe_type", "seen", "reason"),
    [
        pytest.param("liveness", None, NO_STATUS, id="no status"),
        pytest.param("liveness", status(phase="Failed"), POD_TERMINATED, id="pod failed"),
        pytest.param("liveness", status(phase="Succeeded"), POD_TERMINATED, id="pod succeeded"),
        pytest.param("liveness", PodStatus(), CONTAINER_NOT_FOUND, id="no statuses"),
        pytest.param("liveness", status(name="web"), CONTAINER_NOT_FOUND, id="another name"),
        pytest.param("liveness", status(container_id=""), CONTAINER_NOT_FOUND, id="no ID"),
        pytest.param("liveness", status(State()), NOT_RUNNING, id="waiting"),
        pytest.param("liveness", status(ENDED), NOT_RUNNING, id="ended, to be restarted"),
        pytest.param("liveness", status(started=False), NOT_STARTED, id="not started"),
        pytest.param("readiness", status(started=None), NOT_STARTED, id="started unset"),
        pytest.param("startup", status(started=True), STARTED, id="started"),
        pytest.param("startup", status(started=False), None, id="startup probes"),
        pytest.param("readiness", status(started=True), None, id="readiness probes"),
    ],
)
def test_ways_out(probe_type: ProbeType, seen: PodStatus | None, reason: SkipReason | None) -> None:
    """Each guard by itself, and the probe once all are passed."""
    one = worker(probe_type)
    took = step(one, seen, "success")
    assert took.skipped is reason
    assert took.attempts == (1 if reason is None else 0)
    assert took.keep_going is (reason is None or reason.keep_going)


def test_no_delay_passes_when_the_clock_is_a_little_behind() -> None:
    """Half a second before the start truncates to 0; a whole second does not."""
    one = worker()
    assert step(one, status(), "success", after_s=-0.5).skipped is None
    assert step(one, status(), "success", after_s=-1).skipped is INITIAL_DELAY


def test_a_container_without_start_time_never_passes_its_delay() -> None:
    one = worker()
    assert step(one, status(State(running=Running())), "success").skipped is INITIAL_DELAY


@pytest.mark.parametrize(
    ("version", "probe_type", "reason"),
    [
        ("1.19.9", "liveness", None),
        ("1.19.10", "liveness", POD_DELETED),
        ("1.20.5", "liveness", None),
        ("1.20.6", "liveness", POD_DELETED),
        ("1.21.0", "liveness", POD_DELETED),
        ("1.36.2", "readiness", None),
    ],
)
def test_graceful_deletion(version: str, probe_type: ProbeType, reason: SkipReason | None) -> None:
    """Since 1.21 and two backports; readiness goes on."""
    one = worker(probe_type, version, of=pod(deleted=True))
    took = step(one, status(), "failure")
    assert took.keep_going is (reason is None)
    assert took.skipped is (BELOW_THRESHOLD if reason is None else reason)


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ("1.19.9", STARTED),
        ("1.19.10", STARTED_ENDS),
        ("1.19.11", STARTED),
        ("1.20.5", STARTED),
        ("1.20.6", STARTED_ENDS),
        ("1.20.7", STARTED),
        ("1.21.0", STARTED_ENDS),
        ("1.21.1", STARTED),
        ("1.22.0", STARTED),
    ],
)
def test_a_started_container_ended_its_startup_worker_for_one_release(
    version: str, reason: SkipReason
) -> None:
    """After which a restarted container was never probed for its start."""
    one = worker("startup", version)
    assert step(one, status(started=True)).skipped is reason


def test_a_failed_liveness_probe_holds_until_there_is_a_new_container() -> None:
    """With the run back at 0, the last result kept."""
    one = worker()
    for _ in range(3):
        step(one, status(), "failure")
    assert (one.on_hold, one.result_run, one.last_result) == (True, 0, "Failure")
    assert step(one, status(), "success").skipped is ON_HOLD
    step(one, status(container_id="c://2"), "success")
    assert not one.on_hold
    assert one.result_run == 1


@pytest.mark.parametrize(("version", "holds"), [("1.31.14", False), ("1.32.0", True)])
def test_a_successful_startup_probe_holds(version: str, holds: bool) -> None:
    """Since 1.32, even while the status does not say started yet."""
    one = worker("startup", version)
    step(one, status(started=False), "success")
    assert (one.on_hold, one.result_run) == (holds, 0 if holds else 1)


@pytest.mark.parametrize(
    ("version", "started_at", "cached"),
    [
        ("1.34.9", "2026-01-05T07:00:00Z", {"c://1": "Failure"}),
        ("1.35.0", "2026-01-05T07:00:00Z", {}),
        ("1.35.0", "2026-01-05T07:59:50Z", {"c://1": "Failure"}),
        ("1.35.0", "2026-01-05T07:59:49.999999999Z", {}),
        ("1.35.0", None, {"c://1": "Failure"}),
    ],
)
def test_a_kubelet_restart(version: str, started_at: str | None, cached: dict[str, str]) -> None:
    """Containers from before it get no initial result since 1.35."""
    one = worker("readiness", version, probe=DELAYED)
    step(one, status(State(running=Running(started_at)), started=False), after_s=1)
    assert one.results.cache == cached


@pytest.mark.parametrize(
    ("version", "started", "cached"),
    [
        ("1.35.3", True, {}),
        ("1.35.4", True, {"c://1": "Success"}),
        ("1.36.0", True, {"c://1": "Success"}),
        ("1.36.0", False, {}),
    ],
)
def test_a_started_sidecar_after_a_kubelet_restart(
    version: str, started: bool, cached: dict[str, str]
) -> None:
    """Its start is known, so that the app containers may be restarted."""
    one = worker("startup", version, sidecar=True, probe=DELAYED)
    old = State(running=Running("2026-01-05T07:00:00Z"))
    step(one, status(old, started=started, init=True), "failure")
    assert one.results.cache == cached


def test_a_started_sidecar_that_is_new_sends_two_updates() -> None:
    """Success, then the initial value over it."""
    one = worker("startup", sidecar=True)
    step(one, status(init=True))
    assert one.results.take_updates() == [Update("c://1", "Success"), Update("c://1", "UNKNOWN")]


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ("1.27.0", CONTAINER_NOT_FOUND),
        ("1.28.0", NOT_RESTARTED),
        ("1.33.5", NOT_RESTARTED),
        ("1.33.6", NOT_RUNNING),
        ("1.34.1", NOT_RESTARTED),
        ("1.34.2", NOT_RUNNING),
        ("1.35.0", NOT_RUNNING),
    ],
)
def test_a_sidecar_that_ended_in_a_pod_that_is_never_restarted(
    version: str, reason: SkipReason
) -> None:
    """It is restarted all the same, but its worker did not always know."""
    sidecar = container(restart_policy="Always")
    never = pod(container("main"), init=(sidecar,), restart_policy="Never")
    one = new_worker(never, sidecar, "startup", Results(), facts_of(version))
    assert one is not None
    assert step(one, status(ENDED, init=True)).skipped is reason


def test_there_is_no_worker_without_a_probe() -> None:
    bare = Container(name="app", readiness_probe=Probe())
    assert new_worker(pod(bare), bare, "liveness", Results(), facts_of()) is None
    assert new_worker(pod(bare), bare, "readiness", Results(), facts_of()) is not None
