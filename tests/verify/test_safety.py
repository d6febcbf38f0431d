"""What can never be is told, with the records that show it, and nothing else is."""

import json
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from kubeledger.kubelet.devicemanager.checkpoint import checkpoint_document
from kubeledger.kubelet.lifecycle.disputes import LINES_MIXED
from kubeledger.model.bodies.devicemanager import (
    CheckpointEntry,
    CheckpointRead,
    ClaimPrepared,
    ClaimReleased,
    DevicesAllocated,
    DevicesReleased,
    DevicesReported,
)
from kubeledger.model.bodies.eviction import PodPreempted
from kubeledger.model.bodies.ledger import FindingReported
from kubeledger.model.bodies.lifecycle import ContainerStarted, PodListed, PodTerminating
from kubeledger.model.bodies.node import ClockStepped, LogThinned
from kubeledger.model.bodies.resourcemanagers import (
    CpuManagerStarted,
    CpuManagerStateRead,
    CpusAllocated,
    CpusReleased,
    MemoryBlock,
    MemoryManagerStateRead,
    MemoryTable,
    NUMANodeMemory,
)
from kubeledger.model.record import Body
from kubeledger.model.units import NS_PER_S
from kubeledger.replay.episodes.safety import violations
from kubeledger.testing.scene import Scene
from kubeledger.verify import Violation, verify
from tests.cli.nodes import run
from tests.verify.histories import kubelet_of, reader, recorded
from tests.verify.properties.truths import RECORDED, truths

GPU = "example.com/gpu"
THINNED = LogThinned(from_ts_ns=0, to_ts_ns=2**62, beats_expected=9, beats_missing=1)
MIXED = FindingReported(finding=LINES_MIXED, file="kubelet.log", message="")
NEW_YEAR_S = 1_767_225_600
SET_BACK = ClockStepped(
    from_ts_ns=(NEW_YEAR_S + 70) * NS_PER_S, to_ts_ns=(NEW_YEAR_S - 20) * NS_PER_S
)
Phase = Literal["Running", "Failed"]


def entry(pod: str, container: str, *ids: str) -> CheckpointEntry:
    return CheckpointEntry(pod_uid=pod, container=container, resource=GPU, numa={"0": ids})


def checkpoint(*entries: CheckpointEntry, ids: tuple[str, ...] = ("g0", "g1")) -> CheckpointRead:
    return CheckpointRead(entries=entries, registered={GPU: ids}, checksum=1, checksum_ok=True)


def cpus(pool: str, policy: str = "static", **of_pods: dict[str, str]) -> CpuManagerStateRead:
    return CpuManagerStateRead(
        policy=policy, default_cpu_set=pool, assignments=of_pods, checksum=1, checksum_ok=True
    )


def listed(uid: str, phase: Phase = "Running", **status: object) -> PodListed:
    sidecar = {"name": "side", "restartPolicy": "Always"}
    return PodListed(
        namespace="d", pod=uid, pod_uid=uid, listed_by="kubelet",
        spec={"initContainers": [{"name": "init"}, sidecar],
              "containers": [{"name": "app"}, {"name": "two"}]},
        status={"phase": phase, **status},
    )  # fmt: skip


def gpu(uid: str, *ids: str) -> DevicesAllocated:
    return DevicesAllocated(
        namespace="d", pod=uid, pod_uid=uid, container="app", resource=GPU, device_ids=ids
    )


def cores(uid: str, cpu_set: str) -> CpusAllocated:
    return CpusAllocated(namespace="d", pod=uid, pod_uid=uid, container="app", cpu_set=cpu_set)


def prepared(uid: str) -> ClaimPrepared:
    return ClaimPrepared(
        namespace="d", pod=uid, pod_uid=uid, claim="shared", claim_uid="c", drivers={"gpu": ()}
    )


def released(uid: str, *, unprepared: bool = True) -> ClaimReleased:
    return ClaimReleased(
        namespace="d", pod=None, pod_uid=uid, claim="shared", claim_uid="c", unprepared=unprepared,
        inferred=True,
    )  # fmt: skip


def ends(uid: str) -> PodTerminating:
    return PodTerminating(namespace="d", pod=uid, pod_uid=uid, reason="deleted", grace_period_s=0)


def runs(uid: str) -> ContainerStarted:
    return ContainerStarted(
        namespace="d", pod=uid, pod_uid=uid, container="app", container_id=f"c-{uid}"
    )


def preempts(uid: str) -> PodPreempted:
    return PodPreempted(
        victim_namespace="d", victim_pod="v", victim_uid="v", preemptor_namespace="d",
        preemptor_pod=uid, preemptor_uid=uid, insufficient=(), evicted=None,
    )  # fmt: skip


def met(*bodies: Body, version: str = "1.30.1") -> list[Violation]:
    scene = Scene(version)
    for second, body in enumerate(bodies, 1):
        scene.at(second, body)
    read = reader(scene.records)
    return [each for each in verify(read) if isinstance(each, Violation)]


def memory(size: int) -> MemoryManagerStateRead:
    """A NUMA node with 100 bytes for containers, and two pods that have ``size`` each."""
    table = MemoryTable(
        total_bytes=120, system_reserved_bytes=20, allocatable_bytes=100,
        reserved_bytes=min(100, 2 * size), free_bytes=max(0, 100 - 2 * size),
    )  # fmt: skip
    block = MemoryBlock(numa_nodes=(0,), type="memory", size_bytes=size)
    return MemoryManagerStateRead(
        policy="Static", checksum=1, checksum_ok=True,
        machine={"0": NUMANodeMemory(assignments=2, group=(0,), memory={"memory": table})},
        assignments={"a": {"app": (block,)}, "b": {"app": (block,)}},
    )  # fmt: skip


def grouped(*groups: tuple[int, ...], split: int = 0) -> MemoryManagerStateRead:
    """A machine of two NUMA nodes of 100 bytes, and pods that have 60 bytes of such groups each.

    Args:
        groups: NUMA nodes of each pod, in their order.
        split: bytes that are reserved on node 1 instead of node 0.
    """
    free = [100, 100]
    last: dict[int, tuple[int, ...]] = {0: (0,), 1: (1,)}
    for group in groups:
        rest = 60
        for node in group:
            taken = min(rest, free[node])
            free[node], rest, last[node] = free[node] - taken, rest - taken, group
    tables = [
        MemoryTable(
            total_bytes=100, system_reserved_bytes=0, allocatable_bytes=100,
            reserved_bytes=100 - each, free_bytes=each,
        )
        for each in (free[0] + split, free[1] - split)
    ]  # fmt: skip
    return MemoryManagerStateRead(
        policy="Static", checksum=1, checksum_ok=True,
        machine={
            str(node): NUMANodeMemory(
                assignments=sum(node in group for group in groups), group=last[node],
                memory={"memory": table},
            )
            for node, table in enumerate(tables)
        },
        assignments={
            f"p{n}": {"app": (MemoryBlock(numa_nodes=group, type="memory", size_bytes=60),)}
            for n, group in enumerate(groups)
        },
    )  # fmt: skip


def half(pods: int) -> MemoryManagerStateRead:
    """Memory is taken of a group for several pods, and the entry of one is written."""
    written = grouped(*[(0, 1)] * pods)
    return msgspec.structs.replace(written, assignments=grouped((0, 1)).assignments)


def test_a_split_that_counts_no_more() -> None:
    """Since 1.32 the kubelet adds the nodes of a group up."""
    assert met(grouped((0, 1), split=10), version="1.32.0") == []


STARTED = CpuManagerStarted(policy="static", reserved_cpu_set="0-1", default_cpu_set="0-7")
TWICE: dict[str, Any] = {
    "containerStatuses": [{"name": "app",
                           "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
                           "lastState": {"terminated": {"finishedAt": "2026-01-01T00:01:00Z"}}}]
}  # fmt: skip


@pytest.mark.parametrize(
    ("bodies", "invariant", "words", "bugs"),
    [
        ([checkpoint(entry("a", "app", "g0"), entry("b", "app", "g0"))], "device_in_two_lives",
         f"device {GPU}/g0 is given to container app of pod a and container app of pod b",
         ("kubernetes#137534",)),
        ([gpu("a", "g0"), gpu("b", "g0"), runs("a")], "device_in_two_lives",
         "container app of pod d/a and container app of pod d/b", ("kubernetes#137534",)),
        ([listed("a"), checkpoint(entry("a", "app", "g0"), entry("a", "two", "g0"))],
         "device_in_two_lives", "container app of pod d/a and container two of pod d/a",
         ("kubernetes#137534",)),
        ([cpus("0-1", a={"app": "2-3"}, b={"app": "3-4"})], "cpu_in_two_lives",
         "CPU 3 belongs alone to container app of pod a and container app of pod b", ()),
        ([STARTED, cores("a", "2-3"), cores("b", "3"), runs("a")], "cpu_in_two_lives",
         "CPU 3 belongs alone to", ()),
        ([STARTED, cores("a", "1-2")], "reserved_cpu_given",
         "CPUs 1 alone, which are reserved for the system (0-1)", ("kubernetes#124066",)),
        ([cpus("0-2", a={"app": "2-3"})], "pools_overlap",
         "has CPUs 2 alone, and they are in the shared pool (0-2)", ("kubernetes#124066",)),
        ([cpus("", a={"app": "0-3"})], "pool_empty", "the shared pool of CPUs is empty", ()),
        ([memory(60)], "memory_in_two_lives",
         "120 bytes of memory of NUMA node 0 are given away, of 100", ()),
        ([grouped((0, 1), (1,))], "memory_groups_overlap",
         "NUMA node 1 used in a group with 0 and alone: the next start of the kubelet may refuse",
         ("kubernetes#113035",)),
        ([half(2), half(3)], "memory_state_refused",
         "other memory reserved on its NUMA nodes than its entries give: the next start of the",
         ("kubernetes#113130",)),
        ([grouped((0, 1), split=10)], "memory_state_refused",
         "on another of its nodes than the entries, counted anew, would have it: the next start",
         ("kubernetes#113130",)),
        ([listed("a", **TWICE)], "container_twice",
         "began at 2026-01-01T00:00:00Z, and the one before it ended at 2026-01-01T00:01:00Z", ()),
        ([prepared("a"), released("a"), runs("a")], "claim_unprepared_in_use",
         "claim d/shared is unprepared while pod d/a runs with it", ("kubernetes#140212",)),
    ],
)  # fmt: skip
def test_each_is_told(
    bodies: list[Body], invariant: str, words: str, bugs: tuple[str, ...]
) -> None:
    (found,) = met(*bodies, *bodies[-1:])
    assert (found.invariant, found.bugs) == (invariant, bugs)
    assert words in found.why
    assert {side.seq for side in found.sides} <= set(range(1, len(bodies) + 2))


def test_more_devices_than_exist() -> None:
    """A plugin counts them all, since the first start; a checkpoint registers healthy ones only."""
    given = checkpoint(entry("a", "app", "g0", "g1", "g2"))
    counted = DevicesReported(resource=GPU, total=2, healthy=1, device_ids=None)
    for from_start, said in (
        (True, ["3 devices of example.com/gpu are given away, of 2 that exist: g2 no plugin "
                "registered"]),
        (False, []),
    ):  # fmt: skip
        start = kubelet_of("1.30.1", from_start=from_start)
        scene = Scene(None)
        for second, body in enumerate((start, counted, given, given)):
            scene.at(second, body)
        found = [each for each in verify(reader(scene.records)) if isinstance(each, Violation)]
        assert [each.why for each in found] == said
        assert all([side.seq for side in each.sides] == [2, 3] for each in found)


def test_the_records_that_show_it() -> None:
    (found,) = met(gpu("a", "g0"), gpu("b", "g0"), runs("b"), runs("a"))
    assert [(side.seq, side.says) for side in found.sides] == [
        (2, "given to container app of pod d/a"),
        (3, "given to container app of pod d/b"),
        (5, "pod d/a lives"),
    ]


def test_bugs_are_those_of_the_version() -> None:
    """An empty pool came with strict reservation, pods that are given CPUs again with 1.36."""
    empty, shared = cpus("", a={"app": "0-3"}), cpus("0", a={"app": "2"}, b={"app": "2"})
    for version, of_empty, of_shared in (
        ("1.31.0", (), ()),
        ("1.32.0", ("kubernetes#141196",), ()),
        ("1.36.2", ("kubernetes#141196",), ("kubernetes#140989",)),
    ):
        assert [each.bugs for each in met(empty, version=version)] == [of_empty]
        assert [each.bugs for each in met(shared, version=version)] == [of_shared]


@pytest.mark.parametrize(
    "bodies",
    [
        [listed("a"), checkpoint(entry("a", "init", "g0"), entry("a", "app", "g0"))],
        [checkpoint(entry("a", "init", "g0"), entry("a", "app", "g0"))],
        [checkpoint(entry("a", "app", "g0", "g1", "g2"))],  # it registers healthy ones only
        [cpus("0-1", a={"init": "2", "app": "2"})],
        [gpu("a", "g0"), ends("a"), gpu("b", "g0"), runs("b")],
        # Parts of a log changed places, or a log and files go by two clocks.
        [gpu("b", "g0"), ends("a"), gpu("a", "g0"), runs("b")],
        [gpu("a", "g0"), MIXED, gpu("b", "g0"), runs("a")],
        [prepared("a"), prepared("b"), ends("a"), released("a"), runs("a"), runs("b")],
        [prepared("a"), prepared("b"), released("a", unprepared=False), runs("a"), runs("b")],
        [prepared("a"), released("a"), ends("a"), runs("a")],
        [prepared("a"), released("a"), listed("a")],
        [gpu("a", "g0"), gpu("b", "g0"), runs("b"), listed("a", "Failed"), listed("a")],
        [gpu("a", "g0"), DevicesReleased(pod_uid="a"), gpu("b", "g0"), runs("a")],
        [cores("a", "3"), CpusReleased(namespace=None, pod=None, pod_uid="a", container="app",
                                       cpu_set="3"), cores("b", "3"), runs("a")],
        # Who waits for a victim's end may lose what it was given, and is let in all the same.
        [cores("a", "3"), preempts("a"), cores("b", "3"), runs("a")],
        [gpu("a", "g0"), preempts("a"), gpu("b", "g0"), runs("a")],
        # The line with which it was taken back may be lost.
        [cores("a", "3"), THINNED, cores("b", "3"), runs("a")],
        [checkpoint(entry("a", "app", "g0", "g1"), ids=("g0", "g1")),
         checkpoint(entry("a", "app", "g0", "g1"), ids=("g0",))],
        [grouped((0,), (1,)), grouped((0, 1), (0, 1), (0, 1))],
        # Half of a change was written.
        [half(2), grouped((0, 1))],
        [cpus("0-7", policy="none")],
        # One ended by the old clock, the next began by the new one.
        [SET_BACK, listed("a", **TWICE)],
        [cpus("")],
        [memory(50)],
    ],
)  # fmt: skip
def test_no_false_alarm(bodies: list[Body]) -> None:
    """Init containers leave theirs to others, a pod that ended its own, and plugins shrink."""
    assert met(*bodies) == []


def test_what_is_no_sidecar_to_an_old_kubelet() -> None:
    """A newer API server's list shows a field that the kubelet does not know."""
    shared = listed("a"), checkpoint(entry("a", "side", "g0"), entry("a", "app", "g0"))
    assert met(*shared, version="1.27.16") == []
    assert [each.invariant for each in met(*shared, version="1.28.0")] == ["device_in_two_lives"]


@pytest.mark.parametrize("name", RECORDED)
def test_no_false_alarm_on_a_recording(name: str) -> None:
    assert list(violations(recorded(name))) == []


def test_no_false_alarm_on_simulated_nodes() -> None:
    assert [list(violations(truth.records)) for truth in truths(3, 4)] == [[]] * 4


def test_a_checkpoint_alone_is_enough(tmp_path: Path) -> None:
    source, ledger = tmp_path / "node-x", str(tmp_path / "l")
    source.mkdir()
    held = checkpoint(entry("a", "app", "g0"), entry("b", "app", "g0"))
    document = checkpoint_document(held.entries, held.registered)
    (source / "kubelet_internal_checkpoint").write_text(json.dumps(document))
    told = run("import", str(source), "--ledger", ledger)
    assert "kubernetes#137534" in told.stdout
    result = run("verify", "--ledger", ledger)
    assert result.exit_code == 1
    assert f"violation, device_in_two_lives: device/{GPU}/g0" in result.stdout
    assert "a known bug of this kubelet does so: kubernetes#137534" in result.stdout
    (found,) = json.loads(run("verify", "--ledger", ledger, "-o", "json").stdout)["violations"]
    assert (found["invariant"], found["bugs"]) == ("device_in_two_lives", ["kubernetes#137534"])
    assert [side["says"] for side in found["sides"]] == [
        "given to container app of pod a",
        "given to container app of pod b",
        "kubelet_internal_checkpoint shows it",
    ]
    result = run("audit", "--ledger", ledger)
    assert result.exit_code == 1
    assert "device_in_two_lives" in result.stdout
    (again,) = json.loads(run("audit", "--ledger", ledger, "-o", "json").stdout)["violations"]
    assert again["why"] == found["why"]
    junit = tmp_path / "junit.xml"
    run("verify", "--ledger", ledger, "--junit", str(junit))
    assert 'classname="device_in_two_lives"' in junit.read_text()
