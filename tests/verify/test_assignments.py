"""CPUs and NUMA memory of containers: true histories are sound, each lie is not."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from kubeledger.kubelet.kube.containermanager import cpu_set_text, cpus_of
from kubeledger.model.bodies.lifecycle import (
    ContainerStarted,
    PodAdmitted,
    PodConfigChanged,
    PodListed,
    PodTerminated,
)
from kubeledger.model.bodies.resourcemanagers import (
    CpuAllocationFailed,
    CpuManagerStarted,
    CpuManagerStateRead,
    CpuPlace,
    CpusAllocated,
    CpusReleased,
    CpuStateRefused,
    MemoryAllocated,
    MemoryAllocationFailed,
    MemoryBlock,
    MemoryManagerStarted,
    MemoryManagerStateRead,
    MemoryReleased,
    MemoryStateRefused,
    MemoryTable,
    NUMANodeMemory,
)
from kubeledger.model.record import Body, Record
from kubeledger.verify import Contradiction
from kubeledger.verify.rules.cpus import CpuVerifier
from kubeledger.verify.rules.memory import MemoryVerifier
from tests.verify.histories import (
    changed,
    findings,
    kubelet_of,
    nothing_but,
    outcomes,
    scene,
    settings_told,
)

MACHINE = {str(cpu): CpuPlace(numa_node=cpu // 4, socket=0, core=cpu // 2) for cpu in range(8)}
GIB = 1 << 30


alone = nothing_but(CpuVerifier, MemoryVerifier)


def listed(name: str, cpu: str = "2", init: str | None = None) -> PodListed:
    """A Guaranteed pod of one container, and perhaps an init container."""

    def container(part: str, cpus: str) -> dict[str, Any]:
        amounts = {"cpu": cpus, "memory": "1Gi"}
        return {"name": part, "resources": {"requests": amounts, "limits": amounts}}

    return PodListed(
        namespace="ns",
        pod=name,
        pod_uid=name,
        listed_by="kubelet",
        spec={
            "containers": [container("c", cpu)],
            "initContainers": [] if init is None else [container("i", init)],
        },
        status={"phase": "Running", "qosClass": "Guaranteed"},
    )


def given(name: str, cpus: str, behind: str, container: str = "c", count: int = 2) -> CpusAllocated:
    return CpusAllocated(
        namespace="ns", pod=name, pod_uid=name, container=container, cpu_set=cpus,
        requested=count, numa_nodes=(0, 1), default_cpu_set=behind,
    )  # fmt: skip


def back(name: str, cpus: str, behind: str, container: str = "c") -> CpusReleased:
    return CpusReleased(
        namespace="ns", pod=name, pod_uid=name, container=container, cpu_set=cpus,
        default_cpu_set=behind,
    )  # fmt: skip


def ended(name: str) -> PodTerminated:
    return PodTerminated(namespace="ns", pod=name, pod_uid=name)


def cpu_file(behind: str, **sets: str) -> CpuManagerStateRead:
    return CpuManagerStateRead(
        policy="static", default_cpu_set=behind, checksum=1, checksum_ok=True,
        assignments={
            name: {"c": cpus} | ({"i": cpus} if name == "a" else {}) for name, cpus in sets.items()
        },
    )  # fmt: skip


KUBELET = kubelet_of("1.30.14")
CPU_START = CpuManagerStarted(
    policy="static", reserved_cpu_set="0", cpus=MACHINE, options=(), default_cpu_set="0-7",
    restored=False,
)  # fmt: skip
BEGIN: list[tuple[float, Body]] = [(0, KUBELET), (0.1, CPU_START)]
LISTS: list[tuple[float, Body]] = [
    (0.2, listed("a", init="2")),
    (0.2, listed("b")),
    (0.2, listed("d")),
    (0.2, listed("shared", cpu="1500m")),
]
TRUE: list[tuple[float, Body]] = [
    *BEGIN,
    *LISTS,
    (1, given("a", "2-3", "0-1,4-7", "i")),
    (1.1, given("a", "2-3", "0-1,4-7")),
    (2, given("b", "4-5", "0-1,6-7")),
    (20, cpu_file("0-1,6-7", a="2-3", b="4-5")),
    (30, ended("a")),
    (31, back("a", "2-3", "0-1,6-7")),
    (31.1, back("a", "2-3", "0-3,6-7", "i")),
    (32, given("d", "6-7", "0-3")),
]


def verdicts(records: Sequence[Record]) -> list[str]:
    return [found.verdict for found in findings(records)]


def test_a_true_history() -> None:
    """Reuse by the app container, release after the end, and CPUs that are given again."""
    found = findings(scene(*TRUE))
    assert {finding.verdict for finding in found} <= {"match", "admissible"}
    assert [finding.kind.rpartition(".")[2] for finding in found] == [
        *["CpusAllocated"] * 3,
        *["CpusReleased"] * 2,
        "CpusAllocated",
    ]
    assert "2-3 an init container's before" in found[1].why
    assert not [o for o in outcomes(scene(*TRUE)) if isinstance(o, Contradiction)]


@pytest.mark.parametrize(
    ("seq", "fields", "reported"),
    [
        (9, {"cpu_set": "3-4", "default_cpu_set": None}, "of pod ns/a's, and not given back"),
        (9, {"cpu_set": "0,4", "default_cpu_set": "1,5-7"}, "CPU 0 is reserved"),
        (9, {"cpu_set": "4", "requested": 1}, "it requests 2 CPUs, but got 1"),
        (9, {"cpu_set": "4-6"}, "2 CPUs requested, but it got 3"),
        (9, {"cpu_set": "8-9"}, "the machine has the CPUs 0-7"),
        (9, {"default_cpu_set": "0-1,4-7"}, "still in the shared pool"),
        (9, {"default_cpu_set": "0,6-7"}, "cannot be 0,6-7 without 4-5"),
        (9, {"numa_nodes": (0,)}, "the affinity is NUMA node 0"),
        (9, {"namespace": "ns", "pod": "shared", "pod_uid": "shared"}, "it requests 1500m"),
        (12, {"pod_uid": "b", "pod": "b"}, "it had 4-5"),
        (12, {"cpu_set": "2"}, "it had 2-3"),
        (13, {"default_cpu_set": "0-2,6-7"}, "the shared pool becomes 0-3,6-7"),
        (13, {"container": "x"}, "the pod has no container x"),
        (13, {"namespace": "other"}, "pod a is ns/a in the pod list"),
    ],
)
def test_lies_about_cpus(seq: int, fields: dict[str, Any], reported: str) -> None:
    true = scene(*TRUE)
    if fields.get("numa_nodes"):
        fields = {"cpu_set": "4-5", "numa_nodes": (0,)}
        true = scene(*TRUE[:6], (2, given("b", "4-5", "0-3,6-7")))
        seq = 7
    lied = findings(changed(true, seq, **fields))
    assert reported in next(finding.why for finding in lied if finding.verdict == "impossible")


BROUGHT: list[tuple[float, Body]] = [
    *((0.3, PodConfigChanged(operation="ADD", source="api", namespace="ns", pod=pod, pod_uid=pod))
      for pod in "ab"),
    (0.3, settings_told({"cpuManagerReconcilePeriod": "10s"})),
]  # fmt: skip
"""The API server was heard, so what ended is let go of, every ten seconds."""


@pytest.mark.parametrize(
    ("brought", "version", "another", "at_s", "missed"),
    [
        (BROUGHT, "1.36.2", False, 70, True),
        (BROUGHT, "1.36.2", False, 55, False),
        ([], "1.36.2", False, 70, False),
        (BROUGHT, "1.30.14", False, 70, False),
        (BROUGHT, "1.30.14", True, 70, True),
    ],
)
def test_cpus_that_are_not_given_back(
    brought: list[tuple[float, Body]], version: str, another: bool, at_s: int, missed: bool
) -> None:
    """The reconcile loop lets go of them, once all sources of pods were heard.

    A line may be lost: that they were not given back shows in the state file. Up to 1.31 the last
    pod that was to be admitted keeps its own until another one is.
    """
    kubelet = kubelet_of(version)
    later = [(31, PodAdmitted(namespace="ns", pod="d", pod_uid="d"))] if another else []
    shown = cpu_file("0-1,6-7", a="2-3", b="4-5")
    steps = [(0, kubelet), *TRUE[1:6], *brought, *TRUE[6:9], (30, ended("b")), *later]
    steps.append((at_s, shown))
    found = [finding for finding in findings(scene(*steps)) if finding.recorded is None]
    expected = {"pod_uid": "b", "container": "c"}
    reported = [(finding.subject, finding.expected) for finding in found]
    assert reported == ([("container/ns/b/c", expected)] if missed else [])


@pytest.mark.parametrize(
    ("version", "verdict"), [("1.30.14", "impossible"), ("1.20.2", "unverifiable")]
)
def test_a_release_by_a_living_pod(version: str, verdict: str) -> None:
    """Up to 1.20 a container that could not be moved to its CPUs gave them back."""
    kubelet = kubelet_of(version)
    alive = ContainerStarted(
        namespace="ns", pod="b", pod_uid="b", container="c", container_id="x", sandbox=False
    )
    steps = [
        (0, kubelet),
        (0.1, CPU_START),
        (0.2, listed("b")),
        (0.3, PodAdmitted(namespace="ns", pod="b", pod_uid="b")),
        (2, given("b", "4-5", "0-3,6-7")),
        (3, alive),
        (9, back("b", "4-5", "0-7")),
        (90, alive),
    ]
    assert verdicts(scene(*steps))[-1] == verdict


SHORT = "not enough cpus available to satisfy request"
SMT = "SMT Alignment Error: "
FULL, DISTRIBUTE, UNCORE = (
    "FullPhysicalCPUsOnly", "DistributeCPUsAcrossNUMA", "PreferAlignByUncoreCacheOption"
)  # fmt: skip


def begun(*options: str, version: str = "1.36.2", uncore: int = 4) -> list[tuple[float, Body]]:
    """A start with policy options, of a machine with so many CPUs under an uncore cache."""
    cpus = {cpu: msgspec.structs.replace(place, uncore_cache=int(cpu) // uncore)
            for cpu, place in MACHINE.items()}  # fmt: skip
    start = msgspec.structs.replace(CPU_START, options=options, cpus=cpus)
    kubelet = kubelet_of(version)
    return [(0, kubelet), (0.1, start)]


@pytest.mark.parametrize(
    ("version", "options", "error", "requested", "verdict"),
    [
        ("1.36.2", (), f"{SHORT}: requested=9, available=7", 9, "match"),
        ("1.36.2", (), f"{SHORT}: requested=9, available=8", 9, "impossible"),
        ("1.36.2", (), SHORT, 9, "impossible"),
        ("1.28.0", (), SHORT, 9, "match"),
        ("1.28.0", (), f"{SHORT}: requested=9, available=7", 9, "impossible"),
        ("1.36.2", (), f"{SHORT}: requested=5, available=3", 9, "match"),
        ("1.36.2", (), f"{SHORT}: requested=4, available=2", 9, "impossible"),
        ("1.36.2", (), "SMT Alignment Error", 9, "impossible"),
        (*("1.36.2", (FULL,), f"{SMT}requested 9 cpus not multiple cpus per core = 2"),
         *(9, "match")),
        ("1.36.2", (FULL,), f"{SHORT}: requested=9, available=7", 9, "impossible"),
        (*("1.36.2", (FULL,), f"{SMT}not enough free physical CPUs: available physical CPUs = "),
         *(8, "match")),
    ],
)  # fmt: skip
def test_refusals(
    version: str, options: tuple[str, ...], error: str, requested: int, verdict: str
) -> None:
    """The numbers of the message are those of the shared pool without reserved CPUs.

    Where no line says which NUMA nodes the affinity names, what they have may be taken already.
    Whole cores without a reserved CPU are counted before, and asked for.
    """
    if error.endswith("= "):
        error = f"{error}6, requested CPUs = 8, CPUs per core = 2"
    failed = CpuAllocationFailed(
        namespace="ns", pod="big", pod_uid="big", container="c", requested=requested, error=error
    )
    steps = [*begun(*options, version=version), (0.2, listed("big", cpu=str(requested)))]
    assert verdicts(scene(*steps, (1, failed))) == [verdict]


@pytest.mark.parametrize(
    ("nodes", "error", "verdict"),
    [
        (None, f"{SHORT}: requested=9, available=7", "match"),
        ((1,), f"{SHORT}: requested=5, available=3", "match"),
        ((0,), f"{SHORT}: requested=5, available=3", "impossible"),
        ((0,), f"{SHORT}: requested=6, available=4", "match"),
    ],
)
def test_refusals_with_an_affinity(nodes: tuple[int, ...] | None, error: str, verdict: str) -> None:
    """What the affinity's NUMA nodes have is taken first, and the rest is told."""
    failed = CpuAllocationFailed(
        namespace="ns", pod="big", pod_uid="big", container="c", requested=9, numa_nodes=nodes,
        error=error,
    )  # fmt: skip
    assert verdicts(scene(*begun(), (0.2, listed("big", cpu="9")), (1, failed))) == [verdict]


@pytest.mark.parametrize(
    ("options", "nodes", "cpus", "verdict", "why"),
    [
        ((), None, "2-5", "impossible", "it gets 4-7, by NUMA node, socket and core"),
        ((), None, "4-7", "match", "they are the first by NUMA node, socket and core"),
        ((DISTRIBUTE,), None, "1-6", "match", "the first by distribute-cpus-across-numa"),
        ((), None, "1-6", "impossible", "it gets 2-7, by NUMA node, socket and core"),
        ((DISTRIBUTE,), None, "2-7", "impossible", "it gets 1-6, by distribute-cpus-across-numa"),
        ((FULL,), None, "4-7", "match", "they are the first by NUMA node, socket and core"),
        ((UNCORE,), None, "4-7", "match", "by prefer-align-cpus-by-uncorecache"),
        ((), (1,), "4-5", "match", "they are the first by NUMA node, socket and core"),
        (("AlignBySocket",), (1,), "4-5", "impossible", "it gets 2-3, by align-by-socket"),
    ],
)
def test_which_cpus_options_choose(
    options: tuple[str, ...], nodes: tuple[int, ...] | None, cpus: str, verdict: str, why: str
) -> None:
    count = len(cpus_of(cpus))
    behind = cpu_set_text(frozenset(range(8)) - cpus_of(cpus))
    grant = given("a", cpus, behind, count=count)
    grant = msgspec.structs.replace(grant, numa_nodes=nodes or grant.numa_nodes)
    steps = [*begun(*options), (0.2, listed("a", cpu=str(count))), (1, grant)]
    (found,) = findings(scene(*steps))
    assert (found.verdict, why in found.why) == (verdict, True), found.why


@pytest.mark.parametrize(("options", "verdict"), [((FULL,), "match"), ((), "impossible")])
def test_a_container_that_is_refused_its_own_cpus(options: tuple[str, ...], verdict: str) -> None:
    """After a restart, whole cores are asked for before it is seen that it has its CPUs."""
    error = (
        f"{SMT}not enough free physical CPUs: available physical CPUs = 2, requested CPUs = 4, "
        "CPUs per core = 2"
    )
    failed = CpuAllocationFailed(
        namespace="ns", pod="a", pod_uid="a", container="c", requested=None, error=error
    )
    again = msgspec.structs.replace(begun(*options)[1][1], restored=True, default_cpu_set="0-3")
    alive = ContainerStarted(
        namespace="ns", pod="a", pod_uid="a", container="c", container_id="x", sandbox=False
    )
    steps = [
        *begun(*options),
        (0.2, listed("a", cpu="4")),
        (1, given("a", "4-7", "0-3", count=4)),
        (10, msgspec.structs.replace(begun()[0][1], pid=2)),
        (10.1, again),
        (11, failed),
        (20, alive),
        (90, alive),
    ]
    found = findings(scene(*steps))[-1]
    assert found.verdict == verdict
    assert "it has its CPUs 4-7 already" in found.why
    if options:
        assert "full-pcpus-only asks for as many others before that is seen" in found.why


@pytest.mark.parametrize(
    ("options", "behind", "error", "verdict"),
    [
        ((), "2-7", 'not all reserved cpus: "0" are present in defaultCpuSet: "2-7"', "match"),
        ((), "2-7", "default cpuset cannot be empty", "impossible"),
        (
            *(("StrictCPUReservation",), "0-7"),
            'some of strictly reserved cpus: "0" are present in defaultCpuSet: "0-7"',
            "match",
        ),
    ],
)
def test_refused_state_file(
    options: tuple[str, ...], behind: str, error: str, verdict: str
) -> None:
    start = msgspec.structs.replace(CPU_START, options=options, default_cpu_set=behind)
    refused = CpuStateRefused(error=error)
    assert verdicts(scene((0, KUBELET), (0.1, start), (0.2, refused))) == [verdict]


@pytest.mark.parametrize(
    ("policy", "checksum_ok", "error", "verdict"),
    [
        ("none", True, 'configured policy "static" differs from state checkpoint policy "none"',
         "match"),
        ("static", True, 'configured policy "static" differs from state checkpoint policy "static"',
         "impossible"),
        ("none", True, 'configured policy "none" differs from state checkpoint policy "static"',
         "impossible"),
        ("static", True, 'configured policy "static" differs from state checkpoint policy "none"',
         "unverifiable"),
        ("static", False, "checkpoint is corrupted", "match"),
        ("static", True, "checkpoint is corrupted", "unverifiable"),
    ],
)  # fmt: skip
def test_state_files_that_are_not_read(
    policy: str, checksum_ok: bool, error: str, verdict: str
) -> None:
    """Another policy's, or one with a wrong checksum; a file may have changed since it was seen."""
    file = msgspec.structs.replace(cpu_file("0-7"), policy=policy, checksum_ok=checksum_ok)
    refused = CpuStateRefused(error=f"could not restore state from checkpoint: {error}, please")
    start = msgspec.structs.replace(CPU_START, default_cpu_set=None, restored=None)
    steps = [(0, KUBELET), (0.05, file), (0.1, start), (0.2, refused)]
    assert verdicts(scene(*steps)) == [verdict]


def table(total: int = 8 * GIB, reserved: int = 0) -> MemoryTable:
    """Memory of a node, of which 1 GiB is kept."""
    room = total - GIB
    return MemoryTable(
        total_bytes=total, system_reserved_bytes=GIB, allocatable_bytes=room,
        reserved_bytes=reserved, free_bytes=room - reserved,
    )  # fmt: skip


def memory_file(nodes: int = 2, **sizes: int) -> MemoryManagerStateRead:
    return MemoryManagerStateRead(
        policy="Static", checksum=1, checksum_ok=True,
        assignments={
            name: {"c": (MemoryBlock(numa_nodes=(0,), type="memory", size_bytes=size),)}
            for name, size in sizes.items()
        },
        machine={
            str(node): NUMANodeMemory(assignments=0, group=(node,), memory={"memory": table()})
            for node in range(nodes)
        },
    )  # fmt: skip


def memory(
    name: str, size: int = GIB, nodes: tuple[int, ...] = (0,), container: str = "c",
    affinity: tuple[int, ...] | None = (0,),
) -> MemoryAllocated:  # fmt: skip
    block = MemoryBlock(numa_nodes=nodes, type="memory", size_bytes=size)
    return MemoryAllocated(
        namespace="ns", pod=name, pod_uid=name, container=container, affinity=affinity,
        blocks=(block,),
    )  # fmt: skip


def freed(name: str, container: str = "c") -> MemoryReleased:
    return MemoryReleased(namespace="ns", pod=name, pod_uid=name, container=container)


MEMORY: list[tuple[float, Body]] = [
    (0, KUBELET),
    (0.1, MemoryManagerStarted(policy="Static", restored=False)),
    (0.15, memory_file()),
    *LISTS,
    (1, memory("a", 0, container="i")),
    (1.1, memory("a")),
    (2, memory("b")),
    (5, freed("a", "i")),
    (30, ended("a")),
    (40, freed("a")),
    (40.1, memory("d")),
]


def test_true_memory() -> None:
    """An init container's block shrinks to nothing, and is let go of when the next one starts."""
    found = findings(scene(*MEMORY))
    assert {finding.verdict for finding in found} == {"match"}
    assert "the pod's next container starts" in found[3].why


@pytest.mark.parametrize(
    ("seq", "body", "reported"),
    [
        (10, memory("b", 2 * GIB), "it requests 1073741824 bytes of memory, and got 2147483648"),
        (10, memory("b", 0), "and got 0 bytes of memory"),
        (10, memory("b", nodes=(1,)), "the affinity is NUMA node 0, but it is on 1"),
        (10, memory("b", nodes=(0, 2)), "the machine has NUMA nodes 0, 1, not 0, 2"),
        (10, memory("a"), "it had memory already"),
        (13, freed("d"), "it had nothing that could be given back"),
    ],
)
def test_lies_about_memory(seq: int, body: Body, reported: str) -> None:
    steps = list(MEMORY)
    steps[seq - 1] = (steps[seq - 1][0], body)
    wrong = [f.why for f in findings(scene(*steps)) if f.verdict == "impossible"]
    assert reported in wrong[0]


def test_more_than_allocatable() -> None:
    """Each pod gets what it asks for, until the node is full."""
    big = listed("b")
    assert isinstance(big.spec, dict)
    big.spec["containers"][0]["resources"] = {
        part: {"cpu": "2", "memory": "7Gi"} for part in ("requests", "limits")
    }
    steps = [
        *MEMORY[:3],
        (0.2, listed("a")),
        (0.2, big),
        (1, memory("a")),
        (2, memory("b", 7 * GIB)),
    ]
    assert verdicts(scene(*steps)) == ["match", "unverifiable"]  # a's may be given back by then
    kept = (9, memory_file(a=GIB))
    assert verdicts(scene(*steps, kept)) == ["match", "impossible"]
    assert verdicts(scene(*steps[:5], steps[6])) == ["match"]


@pytest.mark.parametrize(
    ("told_by", "later_s", "verdict"),
    [("state_file", 0.5, "unverifiable"), ("state_file", 20, "impossible"),
     ("log", 0.5, "impossible")],
)  # fmt: skip
def test_what_only_a_file_shows_may_be_later(told_by: Any, later_s: float, verdict: str) -> None:  # noqa: ANN401 # a literal
    """Its stamp is that of a collection, and its line may be lost: then it is no one else's yet."""
    first = msgspec.structs.replace(given("b", "2-3", "0-1,4-7"), told_by=told_by)
    second = (5 + later_s, given("d", "2-3", "0-1,4-7"))
    steps = [*BEGIN, *LISTS, (5, first), second, (60, cpu_file("0-1,4-7", b="2-3"))]
    (found,) = [each for each in findings(scene(*steps)) if each.subject == "container/ns/d/c"]
    assert found.verdict == verdict


@pytest.mark.parametrize(
    ("nodes", "memory_size", "verdict"),
    [(1, "7Gi", "impossible"), (1, "8Gi", "match"), (2, "8Gi", "unverifiable")],
)
def test_memory_refusals(nodes: int, memory_size: str, verdict: str) -> None:
    """Of several nodes a group may have no room even though all together have."""
    big = listed("big")
    assert isinstance(big.spec, dict)
    big.spec["containers"][0]["resources"] = {
        part: {"cpu": "2", "memory": memory_size} for part in ("requests", "limits")
    }
    failed = MemoryAllocationFailed(
        namespace="ns", pod="big", pod_uid="big", container="c",
        error="[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough "
        "memory is available",
    )  # fmt: skip
    steps = [*MEMORY[:2], (0.15, memory_file(nodes)), (0.2, big), (1, failed)]
    assert verdicts(scene(*steps)) == [verdict]


@pytest.mark.parametrize(
    ("stored", "expected", "verdict"),
    [
        (table(), table(16 * GIB), "match"),
        (table(), table(), "impossible"),
        (None, None, "unverifiable"),
    ],
)
def test_refused_memory_state(
    stored: MemoryTable | None, expected: MemoryTable | None, verdict: str
) -> None:
    refused = MemoryStateRefused(
        error="x", numa_node=0, type="memory", stored=stored, expected=expected
    )
    (found,) = findings(scene(*MEMORY[:3], (1, refused)))
    assert found.verdict == verdict
    if verdict == "match":
        assert "total 8589934592 in the file and 17179869184" in found.why
