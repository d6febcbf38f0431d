"""A whole simulated node: what comes first, that the same comes twice, and that it verifies."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubeledger.model.units import NS_PER_S
from kubeledger.simulate.engine.plan import (
    ContainerScript,
    DeviceScript,
    ExitStep,
    KubeletRestart,
    Plan,
    PluginScript,
    PluginStep,
)
from kubeledger.simulate.engine.sim import Sim
from tests.simulate.engine.scenes import VERSIONS, bad, container, plan, planned, records, tally

S = NS_PER_S


def busy(seed: int, version: str) -> Plan:
    """A node on which everything but probes and preemption happens, drawn from a seed."""
    draw = random.Random(seed)
    pods = []
    for number in range(draw.randint(3, 10)):
        limits = {"example.com/gpu": str(draw.randint(1, 3))} if draw.random() < 0.4 else {}
        requests: dict[str, str] = {"cpu": f"{draw.randint(1, 9)}00m", **limits}
        exits = tuple(
            ExitStep(after_ns=draw.randint(5, 600) * S // 10, code=draw.randint(0, 1))
            for _ in range(draw.randint(0, 3))
        )
        script = ContainerScript(
            exits=exits, exits_repeat=draw.random() < 0.5, stop_ns=draw.choice([0, S, 9 * S])
        )
        at_s = draw.randint(0, 200)
        pods.append(
            planned(
                f"p{number}",
                container(requests=requests, limits=limits),
                at_s=at_s,
                deleted_s=at_s + draw.randint(30, 200) if draw.random() < 0.3 else None,
                scripts={"app": script},
                restartPolicy=draw.choice(["Always", "OnFailure", "Never"]),
            )
        )
    devices = tuple(DeviceScript(id=f"gpu-{n}", numa=(n % 2,)) for n in range(4))
    steps = (PluginStep(at_ns=2 * S, does="register"),)
    restarts = (KubeletRestart(at_ns=draw.randint(60, 200) * S, down_ns=draw.randint(1, 30) * S),)
    return plan(
        *pods,
        plugins=(PluginScript(resource="example.com/gpu", devices=devices, steps=steps),),
        numa=(0, 1),
        kubelet_restarts=restarts if draw.random() < 0.6 else (),
        settings={"topologyManagerPolicy": draw.choice(["none", "best-effort", "restricted"])},
        version=version,
        minutes=6,
        seed=seed,
    )


def digest(of: Plan) -> str:
    """Of all records of a run, as bytes."""
    hashed = blake2b(digest_size=16)
    for record in Sim(of).run():
        hashed.update(msgspec.json.encode(record))
    return hashed.hexdigest()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_process_begins_as_a_real_one(version: str) -> None:
    """A process begins as a real one."""
    found = records(plan(planned("a"), version=version))
    assert [r.kind for r in found[:3]] == [
        "node.KubeletStarted",
        "node.SettingsObserved",
        "node.NodeObserved",
    ]
    assert [r.seq for r in found] == list(range(1, len(found) + 1))
    times = [r.ts_ns for r in found]
    assert times == sorted(times)
    seqs = {r.seq: r.ts_ns for r in found}
    assert all(r.cause is None or (r.cause < r.seq and r.cause in seqs) for r in found)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("seed", range(12))
def test_random_nodes_verify(seed: int, version: str) -> None:
    """Random nodes verify."""
    found = records(busy(seed, version))
    assert bad(found) == [], f"busy({seed}, {version!r})"
    counts = tally(found)
    assert counts["match"] > 8 * (counts["unverifiable"] + counts["admissible"])


@pytest.mark.parametrize("seed", [1, 2])
def test_the_same_seed_gives_the_same_bytes_in_another_process(seed: int) -> None:
    """The same seed gives the same bytes in another process."""
    code = f"from tests.simulate.engine.test_sim import *; print(digest(busy({seed}, '1.36.2')))"
    root = Path(__file__).parents[3]
    env = {**os.environ, "PYTHONHASHSEED": str(seed + 41), "PYTHONPATH": str(root)}
    other = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, cwd=root, env=env, text=True
    )
    assert other.stdout.strip() == digest(busy(seed, "1.36.2"))


def test_another_seed_gives_other_container_ids() -> None:
    """Another seed gives other container ids."""

    def ids(seed: int) -> list[Any]:
        found = records(plan(planned("a"), seed=seed))
        return [r.body for r in found if r.kind == "lifecycle.ContainerStarted"]

    assert ids(1) != ids(2)


def test_a_restart_may_bring_another_version() -> None:
    """A restart may bring another version."""
    newer = KubeletRestart(at_ns=60 * S, down_ns=5 * S, kubelet_version="1.21.0")
    found = records(plan(planned("a"), version="1.20.2", kubelet_restarts=(newer,)))
    started: list[Any] = [r.body for r in found if r.kind == "node.KubeletStarted"]
    assert [(b.kubelet_version, b.restart) for b in started] == [
        ("1.20.2", False),
        ("1.21.0", True),
    ]
    assert bad(found) == []


def test_pods_that_a_list_never_showed_are_listed_before_they_go() -> None:
    """Pods that a list never showed are listed before they go."""
    found = records(plan(planned("a", at_s=20, deleted_s=22)))
    listed = [r for r in found if r.kind == "lifecycle.PodListed"]
    assert [getattr(r.body, "gone", None) for r in listed][:1] == [False]
    assert tally(found)["unverifiable"] == 0
    assert bad(found) == []


def test_memory_of_the_journal_stays_flat() -> None:
    """Memory of the journal stays flat."""
    sim = Sim(plan(planned("a"), minutes=60))
    for _ in sim.run():
        assert len(sim.journal.take()) < 500
