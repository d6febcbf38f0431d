"""The kernel's OOM killer in simulated nodes, and what the kubelet makes of it."""

from typing import Any

import msgspec
import pytest

from kubeledger.model.bodies.eviction import ProcessKilled
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerRestarted,
    KubernetesEvent,
    PodListed,
    RestartBackedOff,
)
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from kubeledger.simulate.engine.plan import ContainerScript, NodePlan, Plan, PlannedPod, Usage
from kubeledger.verify.finding import Finding
from tests.simulate.engine.scenes import GIB, container, outcomes, plan, planned, records, run

MIB = 1 << 20
VERSIONS = ("1.20.2", "1.25.0", "1.28.0", "1.30.14", "1.32.0", "1.36.2")


def uses(*steps: tuple[int, int], child: bool = False) -> ContainerScript:
    """Seconds since the start -> MiB from then on."""
    usage = tuple(Usage(from_ns=at * NS_PER_S, memory_bytes=mib * MIB) for at, mib in steps)
    return ContainerScript(usage=usage, child=child)


def limited(name: str, mib: int) -> dict[str, Any]:
    return container(name, limits={"memory": f"{mib}Mi"})


def on_v2(scene: Plan) -> Plan:
    """The same on a node with cgroup v2."""
    node: NodePlan = msgspec.structs.replace(scene.node, cgroup_version=2)
    return msgspec.structs.replace(scene, node=node)


def kills(found: list[Record]) -> list[ProcessKilled]:
    reported = [
        o for o in outcomes(found) if isinstance(o, Finding) and o.kind == ProcessKilled.kind
    ]
    assert {finding.verdict for finding in reported} <= {"match"}
    return [record.body for record in found if isinstance(record.body, ProcessKilled)]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_leak_ends_at_the_limit_until_it_is_mended(version: str) -> None:
    """Status, exit code, restart with back-off, and the kill as their cause."""
    leak = uses((0, 20), (60, 90), (150, 30))
    found = run(planned("leak", limited("app", 64), scripts={"app": leak}),
                         version=version)  # fmt: skip
    killed = kills(found)
    assert {(kill.reason, kill.limit_bytes) for kill in killed} == {("pod_limit", 64 * MIB)}
    assert all(kill.rss_bytes == 64 * MIB - 256 * 1024 for kill in killed)  # and the sandbox
    by_seq = {record.seq: record.body for record in found}
    deaths = [r for r in found if isinstance(r.body, ContainerDied)]
    assert [isinstance(by_seq[r.cause or 0], ProcessKilled) for r in deaths] == [True] * len(killed)
    assert {r.body.exit_code for r in deaths if isinstance(r.body, ContainerDied)} == {137}
    restarts = [r for r in found if isinstance(r.body, ContainerRestarted)]
    assert [by_seq[r.cause or 0] for r in restarts] == [r.body for r in deaths]
    held = [r.body.back_off_s for r in found if isinstance(r.body, RestartBackedOff)]
    assert sorted(set(held))[:3] == [10, 20, 40]
    listed = [r.body for r in found if isinstance(r.body, PodListed)][-1]
    assert listed.status is not None
    (status,) = listed.status["containerStatuses"]
    assert status["restartCount"] == len(deaths)
    assert "running" in status["state"]
    assert status["lastState"]["terminated"]["reason"] == "OOMKilled"


@pytest.mark.parametrize("cgroup_version", [1, 2])
@pytest.mark.parametrize("single", [None, True])
@pytest.mark.parametrize("version", VERSIONS)
def test_one_process_or_the_whole_container(
    version: str, single: bool | None, cgroup_version: int
) -> None:
    minor = int(version.split(".")[1])
    settings = {} if single is None else {"singleProcessOOMKill": single}
    pod = planned(
        "forks",
        limited("app", 64),
        limited("other", 64),
        scripts={"app": uses((0, 20), (60, 90), child=True)},
    )
    scene = plan(pod, version=version, settings=settings)
    found = records(on_v2(scene) if cgroup_version == 2 else scene)
    first, *later = kills(found)
    whole = cgroup_version == 2 and (minor >= 28 if single is None or minor < 32 else not single)
    assert first.reason == "container_limit"
    assert bool(first.also_killed) is whole is bool(later)
    assert any(isinstance(r.body, ContainerDied) for r in found) is whole


def crowd(*pods: PlannedPod, version: str) -> list[Record]:
    """Pods on 8 GiB that no eviction protects."""
    settings: dict[str, Any] = {"evictionHard": {}, "kubeReserved": {}, "systemReserved": {}}
    return run(*pods, version=version, settings=settings)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_node_takes_the_pod_of_the_worst_class(version: str) -> None:
    """Not who asks, nor who holds the most: what the kubelet gave by the QoS class decides."""
    found = crowd(
        planned("asks", container(requests={"memory": "7Gi"}),
                scripts={"app": uses((0, 6000), (60, 7600))}),
        planned("idle", scripts={"app": uses((0, 500))}),
        planned("sure", limited("app", 512), scripts={"app": uses((0, 500))}),
        version=version,
    )  # fmt: skip
    killed = kills(found)
    assert {(k.pod, k.reason, k.cgroup, k.oom_score_adj) for k in killed[:1]} == {
        ("idle", "node", None, 1000)
    }
    events = [r.body for r in found if isinstance(r.body, KubernetesEvent)]
    said = [e.message for e in events if e.reason == "SystemOOM"]
    assert said[0] == f"System OOM encountered, victim process: app, pid: {killed[0].pid}"
    assert len(said) == len(killed)


def test_the_limit_of_all_pods_comes_before_the_node() -> None:
    scene = plan(planned("app", scripts={"app": uses((60, 8000))}), settings={"evictionHard": {}})
    (first, *_) = kills(records(scene))
    assert (first.reason, first.cgroup, first.limit_bytes) == (
        None, "kubepods", 8 * GIB - 256 * MIB,
    )  # fmt: skip
