"""A whole simulated node: what comes first, that the same comes twice, and that it verifies."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from kubeledger.model.units import NS_PER_S
from kubeledger.simulate.engine.plan import KubeletRestart
from kubeledger.simulate.engine.sim import Sim
from tests.random_scenarios import random_plan
from tests.simulate.engine.properties.check import digest
from tests.simulate.engine.scenes import plan, planned, records, run, tally

S = NS_PER_S


def test_a_process_begins_as_a_real_one(version: str) -> None:
    found = run(planned("a"), version=version)
    assert [r.kind for r in found[:3]] == [
        "node.KubeletStarted",
        "node.SettingsObserved",
        "node.NodeObserved",
    ]


def test_the_same_seed_gives_the_same_bytes_in_another_process() -> None:
    code = "from tests.simulate.engine.test_sim import *; print(digest(records(random_plan(1))))"
    root = Path(__file__).parents[3]
    env = {**os.environ, "PYTHONHASHSEED": "42", "PYTHONPATH": str(root)}
    other = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, cwd=root, env=env, text=True
    )
    assert other.stdout.strip() == digest(records(random_plan(1)))


def test_another_seed_gives_other_container_ids() -> None:
    def ids(seed: int) -> list[Any]:
        found = run(planned("a"), seed=seed)
        return [r.body for r in found if r.kind == "lifecycle.ContainerStarted"]

    assert ids(1) != ids(2)


def test_a_restart_may_bring_another_version() -> None:
    newer = KubeletRestart(at_ns=60 * S, down_ns=5 * S, kubelet_version="1.21.0")
    found = run(planned("a"), version="1.20.2", kubelet_restarts=(newer,))
    started: list[Any] = [r.body for r in found if r.kind == "node.KubeletStarted"]
    assert [(b.kubelet_version, b.restart) for b in started] == [
        ("1.20.2", False),
        ("1.21.0", True),
    ]


def test_pods_that_a_list_never_showed_are_listed_before_they_go() -> None:
    """Pods that a list never showed are listed before they go."""
    found = run(planned("a", at_s=20, deleted_s=22))
    listed = [r for r in found if r.kind == "lifecycle.PodListed"]
    assert [getattr(r.body, "gone", None) for r in listed][:1] == [False]
    assert tally(found)["unverifiable"] == 0


def test_memory_of_the_journal_stays_flat() -> None:
    sim = Sim(plan(planned("a"), minutes=60))
    for _ in sim.run():
        assert len(sim.journal.take()) < 500
