"""Probe workers of a simulated kubelet: results, folding, jitter."""

from typing import Any, Literal

import msgspec
import pytest

from kubeledger.model.bodies.lifecycle import ContainerKilled, ContainerStarted
from kubeledger.model.bodies.prober import ProbeExecuted, ProbeTicksFolded, ProbeTransitioned
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from kubeledger.replay.node.reducer import evolve
from kubeledger.replay.node.state import NodeState
from kubeledger.simulate.engine.plan import ContainerScript, KubeletRestart, Plan, ProbeStep
from tests.simulate.engine.scenes import container, plan, planned, records, run

PROBE: dict[str, Any] = {
    "httpGet": {"port": 80},
    "periodSeconds": 5,
    "failureThreshold": 3,
    "successThreshold": 1,
    "timeoutSeconds": 1,
}

Tick = tuple[str, str | None, str, str | None, int]


def steps(
    *found: tuple[float, Any], since: Literal["container", "start"] = "container"
) -> tuple[ProbeStep, ...]:
    return tuple(
        ProbeStep(from_ns=int(s * NS_PER_S), since=since, result=r, output=f"{r} from {s}")
        for s, r in found
    )


def of(found: list[Record], kind: type) -> list[Any]:
    return [record.body for record in found if isinstance(record.body, kind)]


def ticks(found: list[Record]) -> list[Tick]:
    each: list[Tick] = []
    for record in found:
        body = record.body
        if isinstance(body, ProbeExecuted):
            each.append(
                (body.container, body.container_id, body.probe_type, body.result, record.ts_ns)
            )
        elif isinstance(body, ProbeTicksFolded):
            assert body.last_ts_ns == body.first_ts_ns + (body.count - 1) * body.period_ns
            assert body.last_ts_ns <= record.ts_ns
            each += [
                (body.container, body.container_id, body.probe_type, body.result,
                 body.first_ts_ns + n * body.period_ns)
                for n in range(body.count)
            ]  # fmt: skip
    return sorted(each, key=lambda tick: (tick[4], tick[0], tick[2]))


def busy(
    version: str,
    **more: Any,  # noqa: ANN401 # any field
) -> Plan:
    """A pod with all three probes, each of which has its troubles; the kubelet restarts."""
    app = container(
        livenessProbe=PROBE,
        readinessProbe={**PROBE, "periodSeconds": 3},
        startupProbe={**PROBE, "periodSeconds": 2, "failureThreshold": 30},
    )
    script = ContainerScript(
        probes={
            "startup": steps((0, "failure"), (11, "success")),
            "readiness": steps((40, "failure"), (70, "warning"), (90, "error"), (100, "success")),
            "liveness": steps((130, "failure")),
        }
    )
    return plan(
        planned("web", app, scripts={"app": script}),
        planned("quiet", container("steady", livenessProbe={**PROBE, "exec": {"command": ["x"]}})),
        version=version,
        minutes=15,
        kubelet_restarts=(KubeletRestart(at_ns=400 * NS_PER_S, down_ns=20 * NS_PER_S),),
        **more,
    )


def test_folded_ticks_are_the_ticks(version: str) -> None:
    folded = records(busy(version))
    every = records(busy(version, every_tick=True))
    assert ticks(folded) == ticks(every)
    assert not of(every, ProbeTicksFolded)
    assert len(folded) < len(every)
    changes = [(r.ts_ns, r.body) for r in folded if isinstance(r.body, ProbeTransitioned)]
    assert changes == [(r.ts_ns, r.body) for r in every if isinstance(r.body, ProbeTransitioned)]
    assert len(changes) > 6


def test_both_lead_to_the_same_state(version: str) -> None:
    states = []
    for every_tick in (False, True):
        state = NodeState()
        for record in records(busy(version, every_tick=every_tick)):
            state = evolve(state, record)
        pods = state.prober.pods
        for workers in pods.values():
            for kinds in workers.values():
                for worker in kinds.values():
                    worker.counters = None
        states.append(msgspec.to_builtins(pods))
    assert states[0] == states[1]
    assert states[0]


def test_a_liveness_kill_has_its_failures() -> None:
    found = records(busy("1.36.2"))
    by_seq = {record.seq: record for record in found}
    kills = [r for r in found if isinstance(r.body, ContainerKilled)]
    assert kills
    for kill in kills:
        assert kill.cause is not None
        change = by_seq[kill.cause].body
        assert isinstance(change, ProbeTransitioned)
        assert (change.to_result, change.run, change.threshold) == ("failure", 3, 3)
        failed = [
            tick
            for tick in ticks(found)
            if tick[1:4] == (change.container_id, "liveness", "failure") and tick[4] <= kill.ts_ns
        ]
        assert len(failed) == 3


def test_startup_gates_the_others() -> None:
    found = records(busy("1.36.2"))
    (begun,) = [
        r.ts_ns for r in found
        if isinstance(r.body, ProbeTransitioned) and r.body.probe_type == "startup"
    ][:1]  # fmt: skip
    others = [tick[4] for tick in ticks(found) if tick[0] == "app" and tick[2] != "startup"]
    assert min(others) >= begun


@pytest.mark.parametrize(("version", "waits"), [("1.20.2", True), ("1.36.2", False)])
def test_jitter_of_a_late_pod(version: str, waits: bool) -> None:
    """Up to 1.20 workers wait always, later ones only while the kubelet is young."""
    scene = plan(planned("late", container(livenessProbe=PROBE), at_s=60), version=version)
    found = records(scene)
    added = next(r.ts_ns for r in found if isinstance(r.body, ContainerStarted))
    first = ticks(found)[0][4]
    again = ticks(records(msgspec.structs.replace(scene, seed=8)))[0][4]
    assert (abs(first - again) > NS_PER_S // 1000) is waits
    assert 0 <= first - added < 12 * NS_PER_S


def test_a_long_steady_time_is_a_few_records() -> None:
    """Counters are read every five minutes, and nothing else breaks the record."""
    found = run(planned("web", container(livenessProbe=PROBE)), minutes=120)
    assert len(ticks(found)) == pytest.approx(120 * 12, abs=6)
    assert len(of(found, ProbeTicksFolded)) <= 26


@pytest.mark.parametrize("result", ["unknown", "error"])
def test_other_results(version: str, result: str) -> None:
    script = ContainerScript(probes={"liveness": steps((20, result))})
    scene = plan(
        planned("web", container(livenessProbe=PROBE), scripts={"app": script}), version=version
    )
    found = records(scene)
    assert bool(of(found, ContainerKilled)) is (result == "unknown")


def test_workers_see_a_container_when_it_was_listed(version: str) -> None:
    """What a sync began is not in the pod's status before the next sync, whatever else happens."""
    often = {**PROBE, "periodSeconds": 1, "failureThreshold": 60}
    restarted = container("app", livenessProbe={**PROBE, "periodSeconds": 1}, startupProbe=often)
    beside = container("beside", startupProbe=often)
    pods = [
        planned(
            f"web-{n}",
            restarted,
            beside,
            scripts={
                "app": ContainerScript(
                    stop_ns=2 * NS_PER_S, probes={"liveness": steps((20, "failure"))}
                ),
                "beside": ContainerScript(
                    probes={"startup": steps((0, "failure"), (24 + n / 10, "success"))}
                ),
            },
        )
        for n in range(20)
    ]
    found = run(*pods, version=version, minutes=2)
    began = {r.body.container_id: r.ts_ns for r in found if isinstance(r.body, ContainerStarted)}
    early = [tick for tick in ticks(found) if tick[4] < began[str(tick[1])]]
    assert not early
    assert len(of(found, ContainerKilled)) >= len(pods)
