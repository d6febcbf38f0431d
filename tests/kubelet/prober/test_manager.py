"""The probe manager: adding, stopping, removing, cleaning up; its pod status."""

import msgspec
import pytest

from kubeledger.kubelet.kube.statuses import ExitCodes, RestartRule, container_should_restart
from kubeledger.kubelet.prober.objects import (
    Condition,
    Container,
    ContainerStatus,
    PodStatus,
    Probe,
    State,
    Terminated,
)
from kubeledger.kubelet.prober.prober_manager import ProbeManager
from kubeledger.kubelet.prober.worker import may_run_again, should_all_containers_restart
from kubeledger.kubelet.profile.resolve import resolve, with_gates
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


# -- Whether a container that ended runs again: policies, rules, gates -----------------------------


def rule(action: str, operator: str, *codes: int) -> RestartRule:
    return RestartRule(action, ExitCodes(operator, list(codes)))


def ended(exit_code: int) -> State:
    return State(terminated=Terminated(exit_code))


@pytest.mark.parametrize(
    ("own", "of_pod", "rules", "exit_code", "restarts"),
    [
        pytest.param(None, "Always", [], 0, True, id="pod: always"),
        pytest.param(None, "OnFailure", [], 0, False, id="pod: on failure, ended well"),
        pytest.param(None, "OnFailure", [], 1, True, id="pod: on failure"),
        pytest.param(None, "Never", [], 1, False, id="pod: never"),
        pytest.param(None, "", [], 1, True, id="pod: unset is always"),
        pytest.param("Never", "Always", [], 1, False, id="own: never"),
        pytest.param("OnFailure", "Never", [], 1, True, id="own: on failure"),
        pytest.param("Sometimes", "Never", [], 1, False, id="own: unknown, so the pod's"),
        pytest.param("Never", "Never", [rule("Restart", "In", 42)], 42, True, id="rule in"),
        pytest.param("Never", "Never", [rule("Restart", "In", 42)], 1, False, id="not in"),
        pytest.param("Never", "Never", [rule("Restart", "NotIn", 42)], 1, True, id="rule not in"),
        pytest.param("Never", "Never", [rule("Restart", "Out", 1)], 1, False, id="no such rule"),
        pytest.param(None, "Never", [rule("Restart", "In", 1)], 1, False, id="rule, no policy"),
        pytest.param("Never", "Never", [rule("Nothing", "In", 1), rule("Restart", "In", 1)], 1,
                     False, id="the first match decides"),
        pytest.param("Never", "Never", [RestartRule("Restart")], 1, False, id="no codes"),
    ],
)  # fmt: skip
def test_container_should_restart(
    own: str | None, of_pod: str, rules: list[RestartRule], exit_code: int, restarts: bool
) -> None:
    """Rules, then the container's policy, then the pod's."""
    one = Container(name="app", restart_policy=own, restart_policy_rules=rules)
    assert container_should_restart(one, of_pod, exit_code, restart_all=True) is restarts


@pytest.mark.parametrize(("version", "restarts"), [("1.35.0", False), ("1.36.0", True)])
def test_the_rule_that_restarts_all_containers(version: str, restarts: bool) -> None:
    """Off in 1.35: the policy decides then."""
    one = Container(
        name="app",
        restart_policy="Never",
        restart_policy_rules=[rule("RestartAllContainers", "In", 1)],
    )
    of = pod(one, Container(name="other"), restart_policy="Never")
    known = facts_of(version).restart_all_containers
    assert container_should_restart(one, "Never", 1, restart_all=known) is restarts
    other = ContainerStatus("other", "c://2", ended(0))
    seen = PodStatus(container_statuses=[ContainerStatus("app", "c://1", ended(1)), other])
    waits = may_run_again(of, of.spec.containers[1], other, seen, facts_of(version))
    assert waits is restarts


def test_who_restarts_all_containers() -> None:
    """A condition, or the exit of any container with such a rule; statuses by name."""
    one = Container(name="app", restart_policy_rules=[rule("RestartAllContainers", "In", 1)])
    of = pod(one)
    seen = PodStatus(container_statuses=[ContainerStatus("app", "c://1", ended(1))])
    assert should_all_containers_restart(of, seen)
    assert not should_all_containers_restart(of, PodStatus())
    fine = msgspec.structs.replace(
        seen, container_statuses=[ContainerStatus("app", "c://1", ended(2))]
    )
    assert not should_all_containers_restart(of, fine)
    condition = Condition("AllContainersRestarting", "True")
    assert should_all_containers_restart(of, PodStatus(conditions=[condition]))


def test_before_the_rules_the_pod_policy_alone_decides() -> None:
    """An exit code does not matter, nor does the container's policy."""
    one = Container(name="app", restart_policy="Never")
    found = ContainerStatus("app", "c://1", ended(0))
    seen = PodStatus(container_statuses=[found])
    of = pod(one, restart_policy="OnFailure")
    assert may_run_again(of, one, found, seen, facts_of("1.34.0"))
    assert not may_run_again(of, one, found, seen, facts_of("1.35.0"))


@pytest.mark.parametrize(
    ("state", "own", "rules", "stays"),
    [
        pytest.param(ended(0), "Never", [], True, id="ended for good"),
        pytest.param(State(), "Never", [], False, id="waits, and may never run again"),
        pytest.param(State(), "Never", [rule("Restart", "In", 1)], True, id="waits, with a rule"),
        pytest.param(State(), "OnFailure", [], True, id="waits, with a policy of its own"),
        pytest.param(State(), None, [], False, id="waits, by the pod's policy"),
    ],
)
def test_the_rules_as_they_came(
    state: State, own: str | None, rules: list[RestartRule], stays: bool
) -> None:
    """1.34 with the gate asks whether a container that did not end might be restarted."""
    facts = with_gates(resolve("1.34.9"), {"ContainerRestartRules": True}).prober
    one = Container(name="app", restart_policy=own, restart_policy_rules=rules)
    found = ContainerStatus("app", "c://1", state)
    of = pod(one, restart_policy="Never")
    assert may_run_again(of, one, found, PodStatus(container_statuses=[found]), facts) is stays
