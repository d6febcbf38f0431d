"""A lie in a decision whose inputs are all there is caught."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from tests.verify.properties.lies import UNDETERMINED, lies_about
from tests.verify.properties.measure import Answer, answers
from tests.verify.properties.truths import Truth, golden_names, named, truths

CAUGHT: dict[str, int] = {
    "cgroups.CgroupUpdated": 70,
    "devicemanager.AllocationFailed": 95,
    "devicemanager.DevicesAllocated": 96,
    "images.GarbageCollected": 96,
    "images.GarbageCollectionStarted": 100,
    "images.ImageDeleted": 90,
    "lifecycle.ContainerKilled": 69,
    "lifecycle.ContainerRestarted": 97,
    "lifecycle.PodAdmitted": 35,
    "lifecycle.PodRejected": 87,
    "lifecycle.RestartBackedOff": 93,
    "oom.ProcessKilled": 80,
    "preemption.PodPreempted": 100,
    "prober.ProbeTransitioned": 95,
    "topologymanager.AffinityDecided": 100,
}
"""Kind of decision -> least percentage of lies that are caught; those not here are too rare."""


def reported(histories: list[Truth], most: int) -> list[Answer]:
    """Lies, ``most`` a history, and what is said of them."""
    found = (answers(each, Random(each.name), most, ("",)) for each in histories)
    return [answer for some in found for answer in some]


def too_kind(answers: list[Answer], slack: int) -> list[str]:
    """Kinds of which fewer lies are caught than before; percentages, ``slack`` points less."""
    tried = Counter(answer.kind for answer in answers)
    caught = Counter(answer.kind for answer in answers if answer.verdict == "caught")
    return [
        f"{kind}: {caught[kind]} of {tried[kind]} lies caught, which is less than {percent} %"
        for kind, percent in CAUGHT.items()
        if caught[kind] * 100 < (percent - slack) * tried[kind]
    ]


@pytest.mark.slow
def test_lies() -> None:
    """Some, the same every day."""
    histories = [*truths(1, 6), *map(named, golden_names()[::5]), named("node-b")]
    assert too_kind(reported(histories, 24), 0) == []


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(4))
def test_many_lies(seed: int) -> None:
    """Many more."""
    recorded = map(named, ("node-a", "node-b", "node-e-evictions", "node-e-oom"))
    histories = [*recorded, *truths(seed, 40), *map(named, golden_names()[seed::4])]
    assert too_kind(reported(histories, 60), 5) == []


def test_what_nothing_determines_is_not_lied_about() -> None:
    """And every other field that holds a value is."""
    truth = named("node-a")
    for record in truth.records:
        if record.role == "decision":
            fields = {lie.field for lie in lies_about(record, truth.records, Random(0))}
            assert not fields & {name.rpartition(".")[2] for name in UNDETERMINED if "*" in name}
            assert fields, record.kind
