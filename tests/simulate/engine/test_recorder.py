"""Events of failed probes: one a tick, and what of them reaches the API server."""

from itertools import pairwise
from typing import Any

import pytest

from kubeledger.model.bodies.lifecycle import KubernetesEvent
from kubeledger.model.bodies.prober import ProbeExecuted, ProbeTicksFolded
from kubeledger.model.units import NS_PER_S
from kubeledger.simulate.engine.plan import ContainerScript, KubeletRestart, Plan, ProbeStep
from kubeledger.simulate.engine.sim import Sim
from tests.simulate.engine.scenes import container, plan, planned, records

PROBE = {"httpGet": {"port": 80}, "periodSeconds": 10, "failureThreshold": 3, "successThreshold": 1}


def failing(version: str, result: Any = "failure", **more: Any) -> Plan:  # noqa: ANN401
    """A readiness probe that fails from the first minute on, for 40 minutes."""
    step = ProbeStep(from_ns=60 * NS_PER_S, result=result, output="connection refused")
    script = ContainerScript(probes={"readiness": (step,)})
    app = container(readinessProbe=PROBE)
    pod = planned("web", app, scripts={"app": script})
    return plan(pod, version=version, minutes=41, **more)


def events(found: Plan) -> list[KubernetesEvent]:
    return [r.body for r in Sim(found).run() if isinstance(r.body, KubernetesEvent)]


@pytest.mark.parametrize("every_tick", [True, False])
def test_each_failed_tick_leaves_an_event(version: str, every_tick: bool) -> None:
    """Folded ones leave one with their number; verification agrees."""
    found = records(failing(version, every_tick=every_tick))
    failed = sum(
        getattr(r.body, "count", 1)
        for r in found
        if isinstance(r.body, ProbeExecuted | ProbeTicksFolded) and r.body.result == "failure"
    )
    sent = [r.body for r in found if isinstance(r.body, KubernetesEvent)]
    assert failed >= 239
    assert sum(body.count for body in sent) == failed
    assert {(b.type, b.reason, b.message, b.container) for b in sent} == {
        ("Warning", "Unhealthy", "Readiness probe failed: connection refused", "app")
    }
    for before, record in pairwise(found):
        if isinstance(record.body, KubernetesEvent):
            assert isinstance(before.body, ProbeExecuted | ProbeTicksFolded)
            assert before.body.result == "failure"


def test_a_pod_has_a_budget_of_events() -> None:
    """25 less the three of its start, then one each five minutes; counts go on meanwhile."""
    counts = [body.api_count for body in events(failing("1.36.2", every_tick=True))]
    reported = [count for count in counts if count is not None]
    assert reported[:22] == list(range(1, 23))
    assert len(reported) == 22 + 2400 // 300
    assert reported[22:] == sorted(set(reported[22:]))
    assert [counts.index(count) + 1 for count in reported] == reported


def test_folded_ticks_reach_the_api_server_as_often() -> None:
    single = [body.api_count for body in events(failing("1.36.2", every_tick=True))]
    folded = [body.api_count for body in events(failing("1.36.2"))]
    assert max(filter(None, folded)) == max(filter(None, single))


@pytest.mark.parametrize(
    ("version", "result", "message"),
    [
        ("1.20.2", "warning", "Readiness probe warning: connection refused"),
        ("1.20.2", "error", "Readiness probe errored: connection refused"),
        (
            "1.36.2",
            "error",
            "Readiness probe errored and resulted in unknown state: connection refused",
        ),
    ],
)
def test_what_else_a_tick_says(version: str, result: str, message: str) -> None:
    sent = events(failing(version, result))
    assert {body.message for body in sent} == {message}
    assert {body.reason for body in sent} == {
        "ProbeWarning" if result == "warning" else "Unhealthy"
    }


def test_a_new_kubelet_counts_anew() -> None:
    restart = KubeletRestart(at_ns=1200 * NS_PER_S, down_ns=NS_PER_S)
    counts = [
        b.api_count for b in events(failing("1.36.2", every_tick=True, kubelet_restarts=(restart,)))
    ]
    assert counts.count(1) == 2
