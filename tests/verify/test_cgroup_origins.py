"""A cgroup keeps what the process wrote that made it."""

from functools import cache
from typing import Any

import msgspec
import pytest

from kubeledger.model.bodies.lifecycle import (
    ContainerStarted,
    PodListed,
)
from kubeledger.model.record import Body, Record
from kubeledger.model.units import NS_PER_S, format_ts
from kubeledger.simulate.engine.plan import ContainerScript, ExitStep
from kubeledger.verify import Finding
from kubeledger.verify.rules.cgroups.rule import CgroupVerifier
from tests.simulate.engine import scenes
from tests.verify.histories import findings, nothing_but, scene
from tests.verify.test_cgroups_scenes import added, cgroup, pod, start

Steps = list[tuple[float, Body]]
START_NS = 1_000 * NS_PER_S
"""Second 0 of a scene."""
POD = "kubepods/burstable/podu-web"


only_cgroups = nothing_but(CgroupVerifier)


def process(second: float, limit: int, version: str = "1.30.14", **settings: Any) -> Steps:  # noqa: ANN401
    begin = start(version, podPidsLimit=limit, **settings)
    return [(second + at, body) for at, body in begin]


def web(synced: float, **changes: object) -> PodListed:
    listed = pod(requests={"cpu": "250m"})
    status = {"phase": "Running", "startTime": format_ts(START_NS + int(synced * NS_PER_S))}
    fields = {"status": status, "created_ts_ns": START_NS + int(synced * NS_PER_S), **changes}
    return msgspec.structs.replace(listed, **fields)


def verdict(steps: Steps, pids: str, second: float, **values: object) -> str:
    """Of the pod's cgroup, which shows a limit of process IDs then."""
    fields: dict[str, Any] = {"cpu_shares": 256, "other": {"pids.max": pids}, **values}
    record = cgroup(POD, **fields)
    reported = sorted([*steps, (second, record)], key=lambda step: step[0])
    (found,) = [each for each in findings(scene(*reported)) if each.subject == f"cgroup/{POD}"]
    return found.verdict


FIRST = [*process(0, -1), (9, added()), (10, web(9)), (11, ContainerStarted(
    namespace="d", pod="web", pod_uid="u-web", container="c", container_id="1"))]  # fmt: skip


def test_what_no_setting_decides_is_the_same_under_every_process() -> None:
    steps = [*process(0, -1), (9, added()), (10, web(-60))]
    assert verdict(steps, "50", 20, cpu_shares=999) == "impossible"


def test_a_pod_that_nothing_places() -> None:
    """Brought while one process ran and synced, perhaps, by the next: both may have made it."""
    steps = [*FIRST[:4], (90, added()), *process(100, 200), (101, added()), (110, web(99.5))]
    assert verdict(steps, "200", 120) == "unverifiable"
    assert verdict(steps, "50", 120) == "impossible"


# The QoS level while the sync loop waits for a preemption, and tells of no death.

_SECOND_BEAT_S = 62


@cache
def waits(version: str, wait_s: int) -> tuple[Record, ...]:
    """A victim takes its time from 30 s on, and at 78 s another pod is done.

    The pods are listed in the first minute only.
    """
    victim = scenes.planned(
        "victim",
        scenes.container("c", {"cpu": "3", "memory": "1Gi"}),
        at_s=1,
        terminationGracePeriodSeconds=wait_s,
        scripts={"c": ContainerScript(stop_ns=wait_s * NS_PER_S)},
    )
    done = scenes.planned(
        "done",
        scenes.container("c", {"cpu": "500m", "memory": "64Mi"}),
        at_s=2,
        restartPolicy="Never",
        scripts={"c": ContainerScript(exits=(ExitStep(after_ns=75 * NS_PER_S, code=0),))},
    )
    critical = scenes.planned(
        "critical",
        scenes.container("c", {"cpu": "2", "memory": "1Gi"}),
        at_s=30,
        priority=2_000_001_000,
        priorityClassName="system-node-critical",
        source="file",
    )
    reserve = {"featureGates": {"QOSReserved": True}, "qosReserved": {"memory": "50%"}}
    plan = scenes.plan(victim, done, critical, version=version, minutes=6, settings=reserve)
    return tuple(
        record
        for record in scenes.records(plan)
        if not isinstance(record.body, PodListed) or _at_s(record) < _SECOND_BEAT_S
    )


def _at_s(record: Record) -> float:
    return record.ts_ns % (3600 * NS_PER_S) / NS_PER_S


def impossible(records: list[Record]) -> list[int]:
    found = scenes.outcomes(records)
    return [o.seq for o in found if isinstance(o, Finding) and o.verdict == "impossible"]


@pytest.mark.parametrize("version", scenes.VERSIONS)
def test_a_wait_that_is_not_over(version: str) -> None:
    records = [r for r in waits(version, 120) if _at_s(r) < 140]
    assert impossible(records) == []
