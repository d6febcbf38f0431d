"""The QoS level while the sync loop waits for a preemption, and tells of no death."""

from __future__ import annotations

from functools import cache

import pytest

from kubeledger.model.bodies.eviction import PodPreempted
from kubeledger.model.bodies.lifecycle import ContainerDied, PodListed
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from kubeledger.simulate.engine.plan import ContainerScript, ExitStep
from kubeledger.verify import Finding
from tests.simulate.engine import scenes

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
def test_a_death_that_is_told_behind_the_wait(version: str) -> None:
    """It counts from when it may have happened, however many beats come meanwhile."""
    records = list(waits(version, 120))
    chosen, deaths = (
        [
            r
            for r in records
            if isinstance(r.body, kind) and getattr(r.body, "pod", "done") == "done"
        ]
        for kind in (PodPreempted, ContainerDied)
    )
    assert _at_s(deaths[0]) - _at_s(chosen[0]) > 60, "the scene has more than one beat of it"
    assert impossible(records) == []


@pytest.mark.parametrize("version", scenes.VERSIONS)
def test_a_wait_that_is_not_over(version: str) -> None:
    records = [r for r in waits(version, 120) if _at_s(r) < 140]
    assert impossible(records) == []
