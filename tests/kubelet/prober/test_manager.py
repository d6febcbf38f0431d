"""The probe manager: adding, stopping, removing, cleaning up; its pod status."""

from kubeledger.kubelet.prober.objects import Container, Probe
from kubeledger.kubelet.prober.prober_manager import ProbeManager
from tests.kubelet.prober.worlds import container, facts_of, pod, status, step

SIDECAR = container("proxy", restart_policy="Always")
INIT = container("setup")


def stopping(manager: ProbeManager) -> set[tuple[str, str]]:
    """(container, probe type) of the workers that were asked to stop."""
    return {(name, kind) for (_, name, kind), one in manager.workers.items() if one.stopping}


def test_workers_are_made_in_order_app_containers_before_sidecars() -> None:
    """Startup, readiness, liveness; plain init containers have none."""
    manager = ProbeManager(facts_of())
    added = manager.add_pod(pod(container(), init=(INIT, SIDECAR)))
    assert [key[1:] for key in added] == [
        ("app", "startup"),
        ("app", "readiness"),
        ("app", "liveness"),
        ("proxy", "startup"),
        ("proxy", "readiness"),
        ("proxy", "liveness"),
    ]


def test_sidecars_have_no_workers_before_they_exist() -> None:
    """In 1.27, ``restartPolicy`` of an init container means nothing."""
    added = ProbeManager(facts_of("1.27.0")).add_pod(pod(container(), init=(SIDECAR,)))
    assert {name for _, name, _ in added} == {"app"}


def test_a_key_that_is_taken_ends_the_whole_call() -> None:
    """The second container gets nothing, although it is new."""
    manager = ProbeManager(facts_of())
    liveness_only = Container(name="app", liveness_probe=Probe())
    manager.add_pod(pod(liveness_only))
    assert manager.add_pod(pod(liveness_only, container("web"))) == ()
    readiness_too = Container(name="app", liveness_probe=Probe(), readiness_probe=Probe())
    assert manager.add_pod(pod(readiness_too, container("web"))) == (("u", "app", "readiness"),)


def test_terminating_stops_liveness_and_startup_of_app_containers() -> None:
    """Readiness is probed on, and sidecars are left out."""
    manager = ProbeManager(facts_of())
    probed = pod(container(), init=(SIDECAR,))
    manager.add_pod(probed)
    manager.stop_liveness_and_startup(probed)
    assert stopping(manager) == {("app", "liveness"), ("app", "startup")}


def test_removing_stops_all_workers_of_the_pod() -> None:
    manager = ProbeManager(facts_of())
    first, second = pod(container(), init=(SIDECAR,)), pod(uid="v")
    manager.add_pod(first)
    manager.add_pod(second)
    manager.remove_pod(first)
    assert {key[0] for key, one in manager.workers.items() if one.stopping} == {"u"}
    assert len(stopping(manager)) == 6


def test_a_worker_that_exits_takes_its_result_along() -> None:
    """After which the pod may be added again."""
    manager = ProbeManager(facts_of())
    probed = pod(Container(name="app", liveness_probe=Probe(failure_threshold=1)))
    (key,) = manager.add_pod(probed)
    step(manager.workers[key], status(), "failure")
    assert manager.results["liveness"].cache == {"c://1": "Failure"}
    manager.worker_exited(key)
    assert manager.results["liveness"].cache == {}
    assert manager.add_pod(probed) == (key,)


def test_pod_status_sees_its_own_workers_and_results() -> None:
    """A container with a readiness probe becomes ready with the first success."""
    manager = ProbeManager(facts_of())
    probed = pod(Container(name="app", readiness_probe=Probe(success_threshold=1)))
    seen = status(started=None)
    before = manager.update_pod_status(probed, seen)
    assert before.containers["app"].ready  # no worker yet
    (key,) = manager.add_pod(probed)
    unprobed = manager.update_pod_status(probed, seen)
    assert not unprobed.containers["app"].ready
    assert unprobed.triggered == ["app"]
    step(manager.workers[key], status(started=True), "success")
    assert manager.update_pod_status(probed, seen).containers["app"].ready
