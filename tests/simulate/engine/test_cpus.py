"""The simulated CPU manager: what is given is what verification decides, and no other set is."""

from typing import Any

import msgspec
import pytest

from kubeledger.kubelet.kube.containermanager import cpu_set_text, cpus_of
from kubeledger.model.bodies.resourcemanagers import CpuManagerStateRead, CpusAllocated
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from kubeledger.simulate.engine.plan import ContainerScript, ExitStep, KubeletRestart, PlannedPod
from kubeledger.verify.finding import Finding
from tests.simulate.engine.scenes import container, of_kind, outcomes, plan, planned, records

S = NS_PER_S
FULL, ACROSS_NUMA, BY_SOCKET = "full-pcpus-only", "distribute-cpus-across-numa", "align-by-socket"
ACROSS_CORES, STRICT = "distribute-cpus-across-cores", "strict-cpu-reservation"
UNCORE = "prefer-align-cpus-by-uncorecache"


def asks(cpus: int | str, name: str = "app", **more: Any) -> dict[str, Any]:  # noqa: ANN401
    amounts = {"cpu": str(cpus), "memory": "64Mi"}
    return container(name, amounts, amounts, **more)


PODS: tuple[PlannedPod, ...] = (
    planned("a", asks(4), at_s=10),
    planned("b", asks(2), asks(2, "more"), at_s=15),
    planned("c", asks("1500m"), at_s=20),
    planned("sidecar", asks(4), at_s=25,
            initContainers=[asks(6, "prepare"), asks(2, "beside", restartPolicy="Always")],
            scripts={"prepare": ContainerScript(exits=(ExitStep(after_ns=S, code=0),))}),
    planned("e", asks(2), at_s=30, deleted_s=60),
    planned("f", asks(4), at_s=80),
    planned("g", asks(1), at_s=90),
    planned("h", asks(9), at_s=100),
)  # fmt: skip


def machine(*options: str, version: str = "1.36.2", **settings: Any) -> list[Record]:  # noqa: ANN401
    """The pods on 24 CPUs, on two sockets, four NUMA nodes and six uncore caches.

    Without the one that has a sidecar for a kubelet that knows none.
    """
    pods = [pod for pod in PODS if version != "1.20.2" or "sidecar" not in pod.place]
    made = plan(
        *pods,
        version=version,
        settings={
            "cpuManagerPolicy": "static",
            "cpuManagerPolicyOptions": dict.fromkeys(options, "true"),
            "featureGates": {"CPUManagerPolicyAlphaOptions": True},
            **settings,
        },
        numa=(0, 1, 2, 3),
        cpus=24,
        kubelet_restarts=(KubeletRestart(at_ns=70 * S, down_ns=5 * S),),
    )
    layout = {"sockets": 2, "threads_per_core": 2, "uncore_caches": 6}
    node = msgspec.structs.replace(made.node, **layout)
    return records(msgspec.structs.replace(made, node=node))


def of_cpus(found: list[Record]) -> dict[int, Finding]:
    return {
        each.seq: each
        for each in outcomes(found)
        if isinstance(each, Finding) and each.kind.startswith("cpumanager.")
    }


@pytest.mark.parametrize("policy", ["none", "best-effort", "single-numa-node"])
@pytest.mark.parametrize(
    ("version", "options"),
    [
        ("1.28.0", ()),
        ("1.28.0", (FULL, ACROSS_NUMA)),
        ("1.30.14", (FULL,)),
        ("1.30.14", (ACROSS_NUMA,)),
        ("1.33.13", (FULL, UNCORE)),
        ("1.34.9", (ACROSS_CORES,)),
        ("1.34.9", (STRICT, FULL)),
        ("1.36.2", (UNCORE, STRICT)),
        ("1.36.2", ()),
    ],
)
def test_what_is_given_is_verified(version: str, options: tuple[str, ...], policy: str) -> None:
    found = machine(*options, version=version, topologyManagerPolicy=policy)
    verdicts = {each.verdict for each in of_cpus(found).values()}
    assert verdicts == {"match"}
    assert len(of_kind(found, "cpumanager.CpusAllocated")) >= 5
    assert of_kind(found, "cpumanager.CpusReleased")


def test_sockets_are_aligned_with() -> None:
    """Not with policy single-numa-node, with which no kubelet starts."""
    found = machine(BY_SOCKET, topologyManagerPolicy="restricted")
    assert {each.verdict for each in of_cpus(found).values()} == {"match"}


@pytest.mark.parametrize("options", [(), (FULL,), (ACROSS_NUMA,), (UNCORE,), (ACROSS_CORES,)])
def test_no_other_set_could_have_been_given(options: tuple[str, ...]) -> None:
    found = machine(*options)
    lies = 0
    for index, record in enumerate(found):
        body = record.body
        if not isinstance(body, CpusAllocated):
            continue
        given, left = cpus_of(body.cpu_set), cpus_of(body.default_cpu_set or "")
        others = sorted(left - {0})
        if not others:
            continue
        other = given - {min(given)} | {others[-1]}
        lied = msgspec.structs.replace(
            body, cpu_set=cpu_set_text(other), default_cpu_set=cpu_set_text(left | given - other)
        )
        story = [*found]
        story[index] = msgspec.structs.replace(record, body=lied)
        verdict = of_cpus(story)[record.seq].verdict
        assert verdict == "impossible", (body, lied)
        lies += 1
    assert lies >= 5


def test_the_state_file_is_kept() -> None:
    """A new process has the CPUs of the file, and the file is recorded when it changes."""
    found = machine(STRICT)
    first, second = of_kind(found, "cpumanager.CpuManagerStarted")
    assert (first.restored, second.restored) == (False, True)
    assert (first.options, first.default_cpu_set) == (("StrictCPUReservation",), "1-23")
    restarted = next(r.seq for r in found if r.body is second)
    files = [(r.seq, r.body) for r in found if isinstance(r.body, CpuManagerStateRead)]
    assert all(file.checksum_ok for _, file in files)
    before = [file for seq, file in files if seq < restarted]
    assert second.default_cpu_set == before[-1].default_cpu_set


def test_a_container_is_refused_the_cpus_that_it_holds() -> None:
    made = plan(
        planned("a", asks(4), at_s=10),
        planned("b", asks(2), at_s=20),
        cpus=10,
        settings={"cpuManagerPolicy": "static", "cpuManagerPolicyOptions": {FULL: "true"}},
        kubelet_restarts=(KubeletRestart(at_ns=70 * S, down_ns=5 * S),),
    )
    found = records(msgspec.structs.replace(
        made, node=msgspec.structs.replace(made.node, threads_per_core=2)
    ))  # fmt: skip
    (failed,) = of_kind(found, "cpumanager.CpuAllocationFailed")
    assert failed.pod == "a"
    (finding,) = (f for f in of_cpus(found).values() if f.kind.endswith("AllocationFailed"))
    assert finding.verdict == "match"
    assert "has its CPUs 1-2,6-7 already, but full-pcpus-only asks" in finding.why
    (rejected,) = of_kind(found, "lifecycle.PodRejected")
    assert rejected.reason == "SMTAlignmentError"


def test_a_kubelet_that_refuses_its_state_file() -> None:
    """Its reserved CPUs are in the pool, and strict reservation is new: the kubelet ends."""
    made = plan(
        planned("a", asks(2)),
        settings={"cpuManagerPolicy": "static"},
        kubelet_restarts=(
            KubeletRestart(
                at_ns=60 * S,
                down_ns=5 * S,
                kubelet_version="1.36.2",
                settings={
                    **plan().settings,
                    "cpuManagerPolicy": "static",
                    "cpuManagerPolicyOptions": {STRICT: "true"},
                },
            ),
        ),
    )
    found = records(made)
    (refused,) = of_kind(found, "cpumanager.CpuStateRefused")
    assert "some of strictly reserved cpus" in refused.error
    (finding,) = (f for f in of_cpus(found).values() if f.kind.endswith("CpuStateRefused"))
    assert finding.verdict == "match"
    (gone,) = of_kind(found, "node.KubeletExited")
    assert gone.message.startswith("Failed to start ContainerManager: start cpu manager error: ")
    assert found[-1].ts_ns >= made.start_ns + 60 * S
