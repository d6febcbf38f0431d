"""Properties of simulated nodes, over random scenarios.

A scenario is drawn from one number, so Hypothesis only draws numbers; a failure names the
number with the command that runs it again.
"""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from kubeledger.simulate.engine.sim import Sim
from tests.random_scenarios import VERSIONS, random_plan, random_scenario
from tests.simulate.engine.properties.check import digest, reproduction, violations

ROOT = Path(__file__).parents[4]
_QUICK, _NIGHTLY = 100, 10_000
_CHUNKS = 20
_OPEN: frozenset[int] = frozenset()
"""Of the first numbers those whose records verification still doubts; the nightly run has all."""


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, _QUICK, 50))
def test_verification_finds_nothing_impossible(first: int) -> None:
    seeds_of = [seed for seed in range(first, first + 50) if seed not in _OPEN]
    found = {seed: texts for seed in seeds_of if (texts := violations(seed))}
    assert not found, "\n  ".join([t for s in found for t in (reproduction(s), *found[s])])


@pytest.mark.nightly
@pytest.mark.parametrize("chunk", range(_CHUNKS))
def test_properties_hold_over_many_scenarios(chunk: int) -> None:
    size = _NIGHTLY // _CHUNKS
    failed = [s for s in range(chunk * size, (chunk + 1) * size) if violations(s)]
    assert not failed, "\n  ".join(map(reproduction, failed))


@pytest.mark.parametrize("seed", range(0, 2**32, 2**28))
def test_plans_are_drawn_from_their_seed(seed: int) -> None:
    plan = random_plan(seed)
    assert plan.seed == seed
    assert random_plan(seed) == plan


def test_scenarios_are_not_quiet() -> None:
    """What properties are about does happen in them, else they would hold for nothing."""
    kinds: Counter[str] = Counter()
    reasons: Counter[str | None] = Counter()
    for seed in range(80):
        for record in Sim(random_plan(seed)).run():
            kinds[record.kind.partition(".")[2]] += 1
            if record.kind == "lifecycle.ContainerKilled":
                reasons[getattr(record.body, "reason", None)] += 1
    for kind, least in (
        ("DevicesAllocated", 40),
        ("DevicesReleased", 10),
        ("CpusAllocated", 30),
        ("CpusReleased", 20),
        ("CpuAllocationFailed", 5),
        ("MemoryAllocated", 30),
        ("MemoryReleased", 20),
        ("MemoryAllocationFailed", 5),
        ("PodResized", 60),
        ("ClaimPrepared", 8),
        ("ClaimReleased", 5),
        ("ImageDeleted", 15),
        ("GarbageCollectionStarted", 8),
        ("PodPreempted", 10),
        ("PreemptionFailed", 2),
        ("PodEvicted", 3),
        ("PodRejected", 50),
    ):
        assert kinds[kind] >= least, kind
    assert reasons["liveness_probe"] >= 20
    assert reasons["startup_probe"] >= 20


def test_versions_and_cgroups_are_all_drawn() -> None:
    drawn = {
        (each["kubeletVersion"], each["node"]["cgroupVersion"])
        for each in map(random_scenario, range(150))
    }
    assert drawn == {(v, c) for v in VERSIONS for c in (1, 2)}


def test_bytes_do_not_depend_on_the_order_of_sets() -> None:
    """Other processes with other hashes of texts write the same bytes."""
    code = (
        "from kubeledger.simulate.engine.sim import Sim\n"
        "from tests.random_scenarios import random_plan\n"
        "from tests.simulate.engine.properties.check import digest\n"
        "for seed in range(6): print(digest(list(Sim(random_plan(seed)).run())))\n"
    )
    here = [digest(list(Sim(random_plan(seed)).run())) for seed in range(6)]
    for hash_seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.split() == here
