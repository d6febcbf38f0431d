"""Lines and state files of the CPU manager and the memory manager, of all versions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubeledger.ingest.correlate.assembler import Assembler
from kubeledger.ingest.correlate.context import BundleContext, ContainerRef
from kubeledger.ingest.correlate.cpus import CpuAssembler
from kubeledger.ingest.correlate.memory import MemoryAssembler
from kubeledger.ingest.correlate.survey import _take_memory
from kubeledger.ingest.sources.items import CpuManagerState, LogLine, MemoryManagerState
from kubeledger.model.bodies.cpumanager import (
    CpuAllocationFailed,
    CpuManagerStarted,
    CpuManagerStateRead,
    CpuPlace,
    CpusAllocated,
    CpusReleased,
    CpuStateRefused,
)
from kubeledger.model.bodies.ledger import FindingReported
from kubeledger.model.bodies.memorymanager import (
    MemoryAllocated,
    MemoryAllocationFailed,
    MemoryManagerStarted,
    MemoryManagerStateRead,
    MemoryReleased,
    MemoryStateRefused,
)
from kubeledger.model.record import Evidence
from kubeledger.model.units import parse_ts
from tests.ingest.feeding import DATA, at, bodies, feed, lines, recorded

FILE = Evidence(file="state")
LOG = "managers/v1.30.14.log"
SOLVER = "8f7b862d-4d8c-4de6-b3f9-145569158730"
PINNED = "cca6d91bfe004f7e2bdfa4a80acf62b1"


def reported(assembler: Assembler) -> list[LogLine]:
    """The recorded lines that an assembler asks for."""
    return [line for line in recorded(LOG) if line.message in assembler.structured()]


def known(**names: str) -> BundleContext:
    """A context that knows pods (name -> UID) of namespace ns."""
    made = BundleContext(node="n")
    for name, uid in names.items():
        made.learn_uid("ns", name, uid, 0, FILE)
    return made


def cpu_file(ts_ns: int, default: str, **entries: dict[str, str]) -> CpuManagerState:
    """A state file; its checksum of 0 is not checked."""
    data = {"policyName": "static", "defaultCpuSet": default, "entries": entries, "checksum": 0}
    return CpuManagerState(ts_ns, data, FILE)


class TestCpus:
    """The CPU manager."""

    def test_a_recorded_log(self) -> None:
        """Two starts, three allocations, one release, of a kubelet 1.30.14."""
        assembler = CpuAssembler(BundleContext(node="n"))
        facts = feed(assembler, reported(assembler))
        first, second = bodies(facts, CpuManagerStarted)
        places = [CpuPlace(numa_node=0, socket=0, core=core) for core in (0, 1)]
        machine = {"0": places[0], "1": places[1]}
        assert (first.cpus, first.options, first.reserved_cpu_set) == (machine, (), "0")
        assert (first.default_cpu_set, first.restored) == ("0-1", False)
        assert (second.default_cpu_set, second.restored) == ("0", True)
        given = bodies(facts, CpusAllocated)
        assert [(b.pod_uid, b.container, b.cpu_set, b.requested) for b in given] == [
            (PINNED, "app", "1", 1),
            (SOLVER, "prep", "1", 1),
            (SOLVER, "app", "1", 1),
        ]
        assert {(b.default_cpu_set, b.numa_nodes, b.told_by) for b in given} == {("0", None, "log")}
        (back,) = bodies(facts, CpusReleased)
        assert (back.pod_uid, back.cpu_set, back.default_cpu_set) == (PINNED, "1", "0-1")

    def test_free_text(self) -> None:
        """1.19 and 1.20: the pod's name in one line, its UID in another."""
        tag = "[cpumanager]"
        facts = feed(
            CpuAssembler(known(p="u", q="v")),
            lines(
                f"cpu_manager.go {tag} detected CPU topology: &{{4 2 1 "
                "map[0:{0 0 0} 1:{0 0 1} 2:{0 0 0} 3:{1 0 1}]}",
                f'policy_static.go {tag} reserved 1 CPUs ("0") not available for exclusive '
                "assignment",
                f"cpu_manager.go {tag} starting with static policy",
                f'state_mem.go {tag} updated default cpuset: "0-3"',
                f"policy_static.go {tag} static policy: Allocate (pod: p_ns(u), container: c)",
                f"policy_static.go {tag} Pod p_ns(u), Container c Topology Affinity is: "
                "{10 true}",
                f"policy_static.go {tag} allocateCpus: (numCPUs: 2, socket: 10)",
                f'state_mem.go {tag} updated default cpuset: "0,2"',
                f'policy_static.go {tag} allocateCPUs: returning "1,3"',
                f'state_mem.go {tag} updated desired cpuset (pod: u, container: c, cpuset: "1,3")',
                f"policy_static.go {tag} static policy: Allocate (pod: q, container: d)",
                f"policy_static.go {tag} allocateCpus: (numCPUs: 2, socket: <nil>)",
                f"policy_static.go {tag} unable to allocate 2 CPUs (pod: q, container: d, error: "
                "not enough cpus available to satisfy request)",
                f"cpu_manager.go {tag} Allocate error: not enough cpus available to satisfy "
                "request",
                f"policy_static.go {tag} static policy: RemoveContainer (pod: u, container: c)",
                f'state_mem.go {tag} updated default cpuset: "0-3"',
            ),
        )
        (start,) = bodies(facts, CpuManagerStarted)
        assert start.cpus is not None
        assert start.cpus["3"] == CpuPlace(numa_node=1, socket=0, core=1)
        assert (start.restored, start.reserved_cpu_set) == (False, "0")
        (given,) = bodies(facts, CpusAllocated)
        assert (given.namespace, given.pod, given.pod_uid) == ("ns", "p", "u")
        assert (given.cpu_set, given.numa_nodes, given.default_cpu_set) == ("1,3", (1,), "0,2")
        (failed,) = bodies(facts, CpuAllocationFailed)
        assert (failed.pod, failed.container, failed.requested) == ("q", "d", 2)
        assert failed.error == "not enough cpus available to satisfy request"
        (back,) = bodies(facts, CpusReleased)
        assert (back.pod, back.cpu_set, back.default_cpu_set) == ("p", "1,3", "0-3")

    def test_lines_of_later_versions(self) -> None:
        """1.35 and 1.36: shorter words, the pod in every line, RemoveContainer told twice."""
        about = 'pod="ns/p" podUID="u" containerName="c"'
        gone = 'podUID="u" containerName="c"'
        facts = feed(
            CpuAssembler(known(p="u")),
            lines(
                'cpu_manager.go "Starting" policy="static"',
                'state_mem.go "Updated default CPUSet" cpuSet="0-3"',
                'policy_static.go "Allocate start" pod="ns/q" podUID="v" containerName="shared"',
                f'policy_static.go "Allocate start" {about}',
                f'policy_static.go "Topology Affinity" {about} '
                'affinity={"NUMANodeAffinity":2,"Preferred":true}',
                f'policy_static.go "AllocateCPUs" {about} numCPUs=2 socket=2',
                'state_mem.go "Updated default CPUSet" cpuSet="0-1"',
                f'policy_static.go "AllocateCPUs" {about} result="2-3"',
                f'state_mem.go "Updated desired CPUSet" {gone} cpuSet="2-3"',
                'policy_static.go "RemoveContainer start" podUID="v" containerName="shared"',
                f'policy_static.go "RemoveContainer start" {gone}',
                'state_mem.go "Updated default CPUSet" cpuSet="0-3"',
                f'policy_static.go " RemoveContainer end" {gone} defaultCPUSet="0-3"',
                f'policy_static.go "RemoveContainer start" {gone}',
            ),
        )
        (start,) = bodies(facts, CpuManagerStarted)
        assert start.restored is None
        (given,) = bodies(facts, CpusAllocated)
        assert (given.cpu_set, given.numa_nodes, given.requested) == ("2-3", (1,), 2)
        (back,) = bodies(facts, CpusReleased)
        assert (back.pod_uid, back.container, back.cpu_set) == ("u", "c", "2-3")

    def test_a_refused_file(self) -> None:
        """The process ends with it."""
        message = "Static policy invalid state, please drain node and remove policy state file"
        facts = feed(
            CpuAssembler(known()), lines(f'policy_static.go "{message}" err="default empty"')
        )
        assert bodies(facts, CpuStateRefused) == [CpuStateRefused(error="default empty")]

    def test_what_only_the_file_shows(self) -> None:
        """It was given and taken back without a line; a file of the same moment proves nothing."""
        allocation = lines(
            'policy_static.go "Static policy: Allocate" pod="ns/p" containerName="c"',
            'policy_static.go "AllocateCPUs" numCPUs=1 socket=null',
            'state_mem.go "Updated default CPUSet" cpuSet="0,2-3"',
            'policy_static.go "AllocateCPUs" result="1"',
            'state_mem.go "Updated desired CPUSet" podUID="u" containerName="c" cpuSet="1"',
        )
        files = [
            cpu_file(at("02:00:00"), "0,2-3", u={"c": "1"}),
            cpu_file(at("02:01:00"), "0,3", u={"c": "1"}, v={"d": "2"}),
            cpu_file(at("02:02:00"), "0-3"),
        ]
        facts = feed(CpuAssembler(known(p="u", q="v")), [files[0], *allocation, *files[1:]])
        assert [(b.pod, b.told_by) for b in bodies(facts, CpusAllocated)] == [
            ("p", "log"),
            ("q", "state_file"),
        ]
        gone = bodies(facts, CpusReleased)
        assert [(b.pod, b.cpu_set, b.inferred) for b in gone] == [
            ("p", "1", True),
            ("q", "2", True),
        ]

    def test_state_files(self) -> None:
        """Recorded when they change; container IDs of the old form get their names."""
        data: dict[str, Any] = {"policyName": "none", "defaultCpuSet": "", "checksum": 1353318690}
        old = data | {"entries": {"cid": "1", "gone": "2"}}
        context = BundleContext(node="n", containers={"cid": ContainerRef("u", "c")})
        items = [
            CpuManagerState(at(f"02:0{minute}:00"), state, FILE)
            for minute, state in enumerate([data, dict(data), old, {"policyName": 1}])
        ]
        facts = feed(CpuAssembler(context), items)
        states = bodies(facts, CpuManagerStateRead)
        assert [state.checksum_ok for state in states] == [True, False]
        assert states[1].assignments == {"u": {"c": "1"}, "": {"gone": "2"}}
        assert [body.finding for body in bodies(facts, FindingReported)] == [
            "checksum_mismatch",
            "malformed_checkpoint",
        ]


class TestMemory:
    """The memory manager."""

    def test_a_recorded_log(self) -> None:
        """Sizes come from the state file read behind; an init container's memory is let go of."""
        data = json.loads((DATA / "managers/v1.30.14.memory_manager_state.json").read_text())
        context = BundleContext(node="n")
        shown = MemoryManagerState(parse_ts("2026-11-22T08:07:52Z"), data, FILE)
        _take_memory(context, shown)
        assembler = MemoryAssembler(context)
        facts = feed(assembler, [*reported(assembler), shown])
        assert [b.restored for b in bodies(facts, MemoryManagerStarted)] == [None, True]
        given = {
            (b.pod_uid, b.container): b.blocks and b.blocks[0].size_bytes
            for b in bodies(facts, MemoryAllocated)
            if b.told_by == "log"
        }
        assert given == {
            (PINNED, "app"): None,
            (SOLVER, "prep"): None,
            (SOLVER, "app"): 134217728,
        }
        (refused,) = bodies(facts, MemoryStateRefused)
        assert refused.stored is not None
        assert refused.expected is not None
        assert (refused.numa_node, refused.type) == (0, "memory")
        assert refused.stored.total_bytes == 13247918080
        assert refused.expected.total_bytes == 19153498112
        assert [(b.pod_uid, b.container) for b in bodies(facts, MemoryReleased)][:2] == [
            (PINNED, "app"),
            (SOLVER, "prep"),
        ]
        (read,) = bodies(facts, MemoryManagerStateRead)
        assert read.checksum_ok is True

    def test_a_start_without_a_file(self) -> None:
        """At the verbosity of the next beat a restored file would have been told."""
        start = 'memory_manager.go "Starting memorymanager" policy="Static"'
        beat = '+2s kubelet.go "SyncLoop (housekeeping)"'
        facts = feed(MemoryAssembler(known()), lines(start, beat))
        assert [b.restored for b in bodies(facts, MemoryManagerStarted)] == [False]

    @pytest.mark.parametrize(
        ("message", "reported"),
        [("Allocate error", True), ("Unrelated", False)],
    )
    def test_a_refusal(self, message: str, reported: bool) -> None:
        """The manager's line names the error, the policy's the container."""
        facts = feed(
            MemoryAssembler(known(p="u")),
            lines(
                'policy_static.go "Allocate" pod="ns/p" containerName="c"',
                f'memory_manager.go "{message}" err="[memorymanager] no room"',
            )[: 2 if reported else 1],
        )
        failed = bodies(facts, MemoryAllocationFailed)
        assert [(b.pod_uid, b.container, b.error) for b in failed] == (
            [("u", "c", "[memorymanager] no room")] if reported else []
        )

    def test_a_removal_of_nothing(self) -> None:
        """1.21 and 1.36 write the line for containers without memory, too."""
        facts = feed(
            MemoryAssembler(known(p="u")),
            lines(
                'policy_static.go "RemoveContainer" podUID="u" containerName="c"',
                'scope.go "RemoveContainer" containerID="x"',
                '+2s kubelet.go "SyncLoop (housekeeping)"',
            ),
        )
        assert bodies(facts, MemoryReleased) == []
