"""What managers do that surprises their users: ``why`` and ``verify`` know each by its name."""

from collections.abc import Callable
from itertools import count
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from kubeledger.cli.main import cli
from kubeledger.cli.simulate import into_ledger
from kubeledger.model.bodies.resourcemanagers import MemoryStateRefused
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from kubeledger.simulate.engine.plan import KubeletRestart
from kubeledger.simulate.engine.sim import Sim
from kubeledger.verify.finding import Finding, Violation
from tests.simulate.engine import test_claims, test_cpus, test_numa_memory, test_resizes
from tests.simulate.engine.scenes import outcomes, plan, planned
from tests.verify.properties.assignment_telling import planned as scenario

S = NS_PER_S
OVERLAP = "kubernetes#113035"


def own_cpus() -> list[Record]:
    """After a restart fewer whole cores are free than a container asks for, which has them."""
    made = plan(
        planned("a", test_cpus.asks(4), at_s=10),
        planned("b", test_cpus.asks(2), at_s=20),
        cpus=10,
        settings={
            "cpuManagerPolicy": "static",
            "cpuManagerPolicyOptions": {"full-pcpus-only": "true"},
        },
        kubelet_restarts=(KubeletRestart(at_ns=70 * S, down_ns=5 * S),),
    )
    node = msgspec.structs.replace(made.node, threads_per_core=2)
    return list(Sim(msgspec.structs.replace(made, node=node)).run())


def none_left() -> list[Record]:
    """With strict-cpu-reservation all CPUs but the reserved ones can be given away."""
    made = plan(
        planned("a", test_cpus.asks(3), at_s=10),
        settings={
            "cpuManagerPolicy": "static",
            "cpuManagerPolicyOptions": {"strict-cpu-reservation": "true"},
        },
        kubelet_restarts=(KubeletRestart(at_ns=70 * S, down_ns=5 * S),),
    )
    return list(Sim(made).run())


def by_chance() -> list[Record]:
    """A memory state that the kubelet wrote itself, and that its next start refuses."""
    drawn = (test_numa_memory.overlapping(seed) for seed in count())
    return next(
        found for found in drawn if any(isinstance(r.body, MemoryStateRefused) for r in found)
    )


def unprepared() -> list[Record]:
    """A pod ends that was never given the claim which others run with."""
    made = test_claims.deleted(test_claims.plan("1.36.2"), "intruder", 6)
    return list(Sim(made).run())


def for_ever() -> list[Record]:
    made = scenario("resizes", test_resizes.VERSIONS[-1])
    return list(Sim(msgspec.structs.replace(made, duration_ns=11 * 60 * S)).run())


@pytest.mark.parametrize(
    ("happened", "asked", "because", "bugs"),
    [
        (own_cpus, "pod/default/a",
         "it has its CPUs 1-2,6-7 already, but full-pcpus-only asks for as many others before that "
         "is seen", ()),
        (none_left, "node",
         "the shared pool of CPUs is empty: all others run on no CPU of their own, and the next "
         "start of the kubelet refuses cpu_manager_state (default cpuset cannot be empty)",
         ("kubernetes#141196",)),
        (by_chance, "node",
         "memory_manager_state has NUMA node 0 used alone and in a group with 1: the next start of "
         "the kubelet may refuse it, by the order in which it reads the entries", (OVERLAP,)),
        (unprepared, "pod/default/train",
         "had its claim gpus unprepared while it ran at 2026-01-01T00:06:00Z: the end of another "
         "pod that names the claim unprepares it (kubernetes#140212)", ("kubernetes#140212",)),
        (for_ever, "pod/default/shop",
         "it is tried for ever, but the node has only 2000m of cpu", ()),
    ],
)  # fmt: skip
def test_a_trap(
    tmp_path: Path,
    happened: Callable[[], list[Record]],
    asked: str,
    because: str,
    bugs: tuple[str, ...],
) -> None:
    """The sentence of ``why``; ``verify`` finds nothing impossible, and names what is a bug."""
    records, ledger = happened(), str(tmp_path / "ledger")
    list(into_ledger(iter(records), Path(ledger), records[0].node, [0]))
    told = CliRunner().invoke(cli, ["why", "--ledger", ledger, asked]).output
    assert because in " ".join(told.split())
    found = outcomes(records)
    assert {each for of in found if isinstance(of, Violation) for each in of.bugs} == {*bugs}
    assert "impossible" not in {each.verdict for each in found if isinstance(each, Finding)}
