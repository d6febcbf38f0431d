from functools import lru_cache
from pathlib import Path

import msgspec
import pytest

from kubeledger.kubelet.kube.containermanager import cpus_of
from kubeledger.model.bodies.cgroups import CgroupUpdated
from kubeledger.model.bodies.devicemanager import AllocationFailed, DevicesAllocated
from kubeledger.model.bodies.eviction import PodPreempted, PreemptionFailed
from kubeledger.model.bodies.images import ImageDeleted
from kubeledger.model.bodies.lifecycle import ContainerKilled, PodRejected
from kubeledger.model.bodies.resourcemanagers import (
    CpuAllocationFailed,
    CpusAllocated,
    MemoryAllocated,
)
from kubeledger.model.record import Record
from kubeledger.simulate.engine.sim import Sim
from kubeledger.simulate.scenario import load_scenario, to_plan
from kubeledger.verify.finding import Finding
from tests.simulate.engine.scenes import outcomes, tally

SCENARIOS = Path(__file__).parents[3] / "recordings" / "scenarios"
GI = 1 << 30


@lru_cache
def records(name: str) -> list[Record]:
    return list(Sim(to_plan(load_scenario(SCENARIOS / f"{name}.yaml"))).run())


def test_three_cores_and_three_classes() -> None:
    """CPU shares by class, and memory that is left when the better classes have theirs."""
    values: dict[str, CgroupUpdated] = {}
    for record in records("pod-resources"):
        if isinstance(body := record.body, CgroupUpdated):
            values[body.cgroup] = body
    assert values["kubepods"].cpu_shares == 3072
    assert values["kubepods/burstable"].cpu_shares == 2048
    assert values["kubepods/besteffort"].cpu_shares == 2
    assert values["kubepods/burstable"].memory_limit_bytes == 7 * GI
    assert values["kubepods/besteffort"].memory_limit_bytes == 5 * GI


def test_images_go_least_recently_used_first() -> None:
    plan = to_plan(load_scenario(SCENARIOS / "image-gc.yaml"))
    names = {image.image_id: image.name for image in plan.images}
    deleted = [r.body for r in records("image-gc") if isinstance(r.body, ImageDeleted)]
    assert [names[body.image_id] for body in deleted] == ["example/never:1", "example/batch:1"]


@pytest.mark.parametrize(
    ("name", "victims"),
    [
        ("preemption-besteffort", ["besteffort"]),
        ("preemption-burstable", ["burstable-small"]),
        ("preemption-guaranteed", ["burstable", "guaranteed-small"]),
    ],
)
def test_victims_of_preemption(name: str, victims: list[str]) -> None:
    found = [r.body.victim_pod for r in records(name) if isinstance(r.body, PodPreempted)]
    assert found == victims


def test_who_is_refused() -> None:
    """An ordinary pod on a full node; a critical one among its equals."""
    refused = [r.body for r in records("preemption-besteffort") if isinstance(r.body, PodRejected)]
    assert [(body.pod, body.reason) for body in refused] == [("ordinary", "OutOfpods")]
    found = records("preemption-guaranteed")
    assert sum(isinstance(record.body, PreemptionFailed) for record in found) == 1


def test_devices_are_aligned_where_they_can_be() -> None:
    """Two of one node, six of both, one used again, none for one too many."""
    found = [r.body for r in records("numa-devices") if isinstance(r.body, DevicesAllocated)]
    devices = {f"{body.pod}/{body.container}": sorted(body.device_ids) for body in found}
    assert devices["aligned/train"] == ["gpu-0", "gpu-1"]
    assert devices["unaligned/train"] == [f"gpu-{number}" for number in range(2, 8)]
    assert devices["reuses/prepare"] == devices["reuses/train"]
    failed = [r.body for r in records("numa-devices") if isinstance(r.body, AllocationFailed)]
    assert [body.pod for body in failed] == ["refused"]


@pytest.mark.parametrize(
    ("version", "refused"),
    [
        ("1.28.0", {"aligned", "reuses"}),
        ("1.30.14", {"aligned", "reuses"}),
        ("1.33.13", {"reuses"}),
        ("1.34.9", {"reuses"}),
        ("1.36.2", {"reuses"}),
    ],
)
def test_cpus_are_given_alone(version: str, refused: set[str]) -> None:
    """Whole cores of one NUMA node, an init container's used again, and what is held refused.

    Up to 1.31 the CPUs of a pod that is gone stay taken until another one is to be admitted.
    """
    plan = to_plan(load_scenario(SCENARIOS / "cpus.yaml"))
    found = list(Sim(msgspec.structs.replace(plan, kubelet_version=version)).run())
    given = [r.body for r in found if isinstance(r.body, CpusAllocated)]
    cpus = {f"{body.pod}/{body.container}": body.cpu_set for body in given}
    assert cpus["aligned/solve"] == "1-2,9-10"
    assert (cpus["reuses/prepare"], cpus["reuses/solve"]) == ("4-5,12-13", "4-6,12-14")
    failed = {r.body.pod for r in found if isinstance(r.body, CpuAllocationFailed)}
    assert failed == {"odd", "too-large"} | refused
    assert len(cpus_of(cpus["next/solve"])) == 6
    findings = [o for o in outcomes(found) if isinstance(o, Finding)]
    of_cpus = [each for each in findings if each.kind.startswith("cpumanager.")]
    assert {each.verdict for each in of_cpus} == {"match"}
    assert not [each for each in findings if each.verdict == "impossible"]


@pytest.mark.parametrize("version", ["1.28.0", "1.30.14", "1.33.13", "1.34.9", "1.36.2"])
def test_memory_of_numa_nodes(version: str) -> None:
    """Where it lies, and whose hints keep a pod out though each resource is free."""
    plan = to_plan(load_scenario(SCENARIOS / "memory.yaml"))
    found = list(Sim(msgspec.structs.replace(plan, kubelet_version=version)).run())
    given = [r.body for r in found if isinstance(r.body, MemoryAllocated)]
    assert [(body.pod, body.container, body.affinity) for body in given] == [
        ("cores", "keep", (0,)),
        ("reuses", "prepare", (1,)),
        ("reuses", "keep", (1,)),
        ("small", "keep", (1,)),
        ("again", "keep", (0, 1)),
    ]
    findings = {o.seq: o for o in outcomes(found) if isinstance(o, Finding)}
    assert not [each for each in findings.values() if each.verdict == "impossible"]
    of_memory = [o for o in findings.values() if o.kind.startswith("memorymanager.")]
    assert {each.verdict for each in of_memory} == {"match"}
    refused = {r.seq: r.body for r in found if isinstance(r.body, PodRejected)}
    assert [(body.pod, body.reason) for body in refused.values()] == [
        ("apart", "TopologyAffinityError"),
        ("wide", "UnexpectedAdmissionError"),
        ("reuses", "TopologyAffinityError"),
    ]
    apart = "each fits by itself, cpu on NUMA node 1 and memory on NUMA node 0"
    assert apart in findings[next(iter(refused))].why


def test_all_of_the_chain_is_verified() -> None:
    """A whole ledger has the evidence of each decision, though ticks are recorded late in it."""
    assert set(tally(records("liveness"))) == {"match"}


def test_a_liveness_kill_ends_with_a_restart() -> None:
    """The tutorial's and the chain's containers are killed because of their probes."""
    for name in ("first", "liveness"):
        kills = [r.body for r in records(name) if isinstance(r.body, ContainerKilled)]
        assert kills
        assert {body.reason for body in kills} == {"liveness_probe"}
