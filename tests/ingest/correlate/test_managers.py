"""Lines and state files of the CPU manager and the memory manager, of all versions."""

import json
from collections.abc import Mapping

from kubeledger.ingest.correlate.assembler import Assembler
from kubeledger.ingest.correlate.assignments import CpuAssembler, MemoryAssembler
from kubeledger.ingest.correlate.context import BundleContext, ContainerRef
from kubeledger.ingest.correlate.registers import Registers
from kubeledger.ingest.correlate.survey import _take_memory
from kubeledger.ingest.sources.items import CpuManagerState, Fact, Item, LogLine, MemoryManagerState
from kubeledger.model.bodies.resourcemanagers import (
    CpuManagerStarted,
    CpuPlace,
    CpusAllocated,
    CpusReleased,
    MemoryAllocated,
    MemoryManagerStarted,
    MemoryManagerStateRead,
    MemoryReleased,
    MemoryStateRefused,
)
from kubeledger.model.record import Evidence
from kubeledger.model.units import parse_ts
from tests.ingest.feeding import DATA, at, bodies, feed, listening, log_line, recorded
from tests.ingest.scenes import Play, events_of, line_of, played_out

FILE = Evidence(file="state")
LOG = "managers/v1.30.14.log"
SOLVER = "8f7b862d-4d8c-4de6-b3f9-145569158730"
PINNED = "cca6d91bfe004f7e2bdfa4a80acf62b1"


def played_by(assembler: type[CpuAssembler | MemoryAssembler]) -> Play:
    """On a node that knows pods ``p`` and ``q``, UIDs ``u`` and ``v``, and a container of ``u``."""

    def play(files: list[str], rows: list[str], words: Mapping[str, str]) -> list[Fact]:
        known = BundleContext(node="n", containers={"cid": ContainerRef("u", "c")})
        for name, uid in (("p", "u"), ("q", "v")):
            known.learn_uid("ns", name, uid, 0, FILE)
        stream: list[Item] = []
        for number, (clock, word, text) in enumerate(events_of(rows, words), 1):
            if word == "file":
                stream.append(CpuManagerState(at(clock), json.loads(text), FILE))
            else:
                stream.append(log_line(line_of(clock, word, text, words), number))
        return feed(assembler(Registers(known)), stream)

    return play


TAG = "[cpumanager]"
CPU_WORDS = {
    "machine": f"cpu_manager.go {TAG} detected CPU topology: &{{4 2 1 map[0:{{0 0 0}} 1:{{0 0 1}} "
    "2:{0 0 0} 3:{1 0 1}]}",
    "reserved": f'policy_static.go {TAG} reserved 1 CPUs ("0") not available for exclusive '
    "assignment",
    "starts": f"cpu_manager.go {TAG} starting with static policy",
    "default": f'state_mem.go {TAG} updated default cpuset: "{{1}}"',
    "allocate": f"policy_static.go {TAG} static policy: Allocate (pod: {{1}}, container: {{2}})",
    "affinity": f"policy_static.go {TAG} Pod p_ns(u), Container c Topology Affinity is: "
    "{10 true}",
    "asks": f"policy_static.go {TAG} allocateCpus: (numCPUs: 2, socket: {{1}})",
    "returns": f'policy_static.go {TAG} allocateCPUs: returning "{{1}}"',
    "desired": f'state_mem.go {TAG} updated desired cpuset (pod: u, container: c, cpuset: "{{1}}")',
    "unable": f"policy_static.go {TAG} unable to allocate 2 CPUs (pod: q, container: d, error: not "
    "enough cpus available to satisfy request)",
    "error": f"cpu_manager.go {TAG} Allocate error: not enough cpus available to satisfy request",
    "remove": f"policy_static.go {TAG} static policy: RemoveContainer (pod: u, container: c)",
    "Starts": 'cpu_manager.go "Starting" policy="static"',
    "Default": 'state_mem.go "Updated default CPUSet" cpuSet="{1}"',
    "Allocate": 'policy_static.go "Allocate start" pod="ns/p" podUID="u" containerName="c"',
    "Shared": 'policy_static.go "Allocate start" pod="ns/q" podUID="v" containerName="shared"',
    "Affinity": 'policy_static.go "Topology Affinity" pod="ns/p" podUID="u" containerName="c" '
    'affinity={"NUMANodeAffinity":2,"Preferred":true}',
    "Cpus": 'policy_static.go "AllocateCPUs" pod="ns/p" podUID="u" containerName="c" {*}',
    "Desired": 'state_mem.go "Updated desired CPUSet" podUID="u" containerName="c" cpuSet="{1}"',
    "Remove": 'policy_static.go "RemoveContainer start" podUID="{1}" containerName="{2}"',
    "Removed": 'policy_static.go " RemoveContainer end" podUID="u" containerName="c" '
    'defaultCPUSet="0-3"',
    "Static": 'policy_static.go "Static policy: Allocate" pod="ns/p" containerName="c"',
    "GIVEN": '0 Static | .1 Cpus numCPUs=1 socket=null | .2 Default 0,2-3 | .3 Cpus result="1"'
    " | .4 Desired 1",
    "unread": 'cpu_manager.go "Could not initialize checkpoint manager, please drain node and '
    'remove policy state file" err="{*}"',
    "unread-memory": 'memory_manager.go "Could not initialize checkpoint manager, please drain '
    'node and remove policy state file" err="other"',
    "could-not": f"cpu_manager.go {TAG} could not initialize checkpoint manager: bad, please drain "
    "node and remove policy state file",
    "caches": 'cpu_manager.go "Detected CPU topology" topology={"NumCPUs":2,"NumCores":2,'
    '"NumUncoreCache":2,"NumSockets":1,"NumNUMANodes":1,"CPUDetails":{"0":{"NUMANodeID":0,'
    '"SocketID":0,"CoreID":0,"UncoreCacheID":0},"1":{"NUMANodeID":0,"SocketID":0,"CoreID":1,'
    '"UncoreCacheID":8}}}',
    "invalid": 'policy_static.go "Static policy invalid state, please drain node and remove policy '
    'state file" err="default empty"',
}
_STATE = '"policyName":"static","checksum":0'
_OLD = '"policyName":"none","defaultCpuSet":"","checksum":1353318690'

_PLACES = {
    "0": CpuPlace(numa_node=0, socket=0, core=0, uncore_cache=0),
    "1": CpuPlace(numa_node=0, socket=0, core=1, uncore_cache=8),
}

CPUS = f"""
free text of 1.19 and 1.20: the pod's name in one line, its UID in another
    0 machine | .1 reserved | .2 starts | .3 default 0-3 | .4 allocate p_ns(u) c | .5 affinity
    .6 asks 10 | .7 default 0,2 | .8 returns 1,3 | .9 desired 1,3
    1 allocate q d | 1.1 asks <nil> | 1.2 unable | 1.3 error | 1.4 remove | 1.5 default 0-3
    = CpuManagerStarted restored=False reserved_cpu_set=0 default_cpu_set=0-3
    = CpusAllocated namespace=ns pod=p pod_uid=u cpu_set=1,3 numa_nodes=(1,) default_cpu_set=0,2
    = CpuAllocationFailed pod=q container=d requested=2 error={{SCARCE}}
    = CpusReleased pod=p cpu_set=1,3 default_cpu_set=0-3
lines of 1.35 and 1.36: shorter words, the pod in every line, RemoveContainer twice
    0 Starts | .1 Default 0-3 | .2 Shared | .3 Allocate | .4 Affinity | .5 Cpus numCPUs=2 socket=2
    .6 Default 0-1 | .7 Cpus result="2-3" | .8 Desired 2-3 | .9 Remove v shared | 1 Remove u c
    1.1 Default 0-3 | 1.2 Removed | 1.3 Remove u c
    = CpuManagerStarted restored=None
    = CpusAllocated cpu_set=2-3 numa_nodes=(1,) requested=2
    = CpusReleased pod_uid=u container=c cpu_set=2-3
a refused file: the process ends with it
    0 invalid
    = CpuStateRefused error=default empty
one that cannot be read is refused as well, the memory manager's by another record
    0 unread could not restore | .1 unread-memory
    = CpuStateRefused error=could not restore
    0 could-not
    = CpuStateRefused error=bad
uncore caches, which kubelets since 1.32 read
    0 caches | .1 Starts
    = CpuManagerStarted cpus={_PLACES}
what only the file shows was given and taken back; one of the same moment proves nothing
    0 file {{{_STATE},"defaultCpuSet":"0,2-3","entries":{{"u":{{"c":"1"}}}}}}
    GIVEN
    60 file {{{_STATE},"defaultCpuSet":"0,3","entries":{{"u":{{"c":"1"}},"v":{{"d":"2"}}}}}}
    120 file {{{_STATE},"defaultCpuSet":"0-3","entries":{{}}}}
    = CpusAllocated pod=p told_by=log
    = CpusAllocated pod=q told_by=state_file
    = CpusReleased pod=p cpu_set=1 inferred=True
    = CpusReleased pod=q cpu_set=2 inferred=True
state files are recorded when they change; container IDs of the old form get their names
    0 file {{{_OLD}}} | 60 file {{{_OLD}}} | 120 file {{{_OLD},"entries":{{"cid":"1","gone":"2"}}}}
    180 file {{"policyName":1}}
    = CpuManagerStateRead checksum_ok=True
    = CpuManagerStateRead checksum_ok=False assignments={{'u': {{'c': '1'}}, '': {{'gone': '2'}}}}
    = FindingReported finding=checksum_mismatch
    = FindingReported finding=malformed_checkpoint
""".replace("{SCARCE}", "not enough cpus available to satisfy request")

MEMORY_WORDS = {
    "starts": 'memory_manager.go "Starting memorymanager" policy="Static"',
    "beat": 'kubelet.go "SyncLoop (housekeeping)"',
    "allocate": 'policy_static.go "Allocate" pod="ns/p" containerName="c"',
    "error": 'memory_manager.go "Allocate error" err="[memorymanager] no room"',
    "remove": 'policy_static.go "RemoveContainer" podUID="u" containerName="c"',
    "changed": 'state_mem.go "Updated machine memory state"',
    "scoped": 'scope.go "RemoveContainer" containerID="x"',
    "differ": 'policy_static.go "Memory states for the NUMA node and resource are different" node=0'
    ' resource="memory" {*}',
    "invalid": 'policy_static.go "Invalid state, please drain node and remove policy state file" '
    'err="state"',
}
_GO, _JSON = (
    f"memoryState1={table % 8} memoryState2={table % 7}"
    for table in (
        "{TotalMemSize:9 SystemReserved:1 Allocatable:8 Reserved:0 Free:%s}",
        '{"total":9,"systemReserved":1,"allocatable":8,"reserved":0,"free":%s}',
    )
)
_TABLE = (
    "MemoryTable(total_bytes=9, system_reserved_bytes=1, allocatable_bytes=8, reserved_bytes=0, "
    "free_bytes=%s)"
)
MEMORY = f"""
a start without a file: at the verbosity of the next beat a restored one would have been logged
    0 starts | 2 beat
    = MemoryManagerStarted restored=False
a refusal: the manager's line names the error, the policy's the container
    0 allocate | .1 error
    = MemoryAllocationFailed pod_uid=u container=c error=[memorymanager] no room
an allocation that goes on is none
    0 allocate
    = !MemoryAllocationFailed
a removal of what is held changes the machine at once; a later change is of something else
    0 remove | .1 changed
    5 remove | 65 changed
    = MemoryReleased @0.1 pod_uid=u container=c
a removal of nothing: 1.21 and 1.36 write the line for containers without memory, too
    0 remove | .1 scoped | 2 beat
    = !MemoryReleased
a refused state, up to 1.26: the tables that differ
    0 differ {_GO} | .1 invalid
    = MemoryStateRefused numa_node=0 stored={_TABLE % 8} expected={_TABLE % 7}
a refused state, since
    0 differ {_JSON} | .1 invalid
    = MemoryStateRefused type=memory stored={_TABLE % 8} expected={_TABLE % 7}
"""

test_cpus = played_out(CPUS, CPU_WORDS, played_by(CpuAssembler))
test_memory = played_out(MEMORY, MEMORY_WORDS, played_by(MemoryAssembler))


def reported(assembler: Assembler) -> list[LogLine]:
    return [line for line in recorded(LOG) if line.message in listening(assembler)]


def test_a_recorded_log_of_cpus() -> None:
    """Two starts, three allocations, one release, of a kubelet 1.30.14."""
    assembler = CpuAssembler(Registers(BundleContext(node="n")))
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


def test_a_recorded_log_of_memory() -> None:
    """Sizes come from the state file read later; an init container's memory is let go of."""
    data = json.loads((DATA / "managers/v1.30.14.memory_manager_state.json").read_text())
    context = BundleContext(node="n")
    shown = MemoryManagerState(parse_ts("2026-11-22T08:07:52Z"), data, FILE)
    _take_memory(context, shown)
    assembler = MemoryAssembler(Registers(context))
    facts = feed(assembler, [*reported(assembler), shown])
    assert [b.restored for b in bodies(facts, MemoryManagerStarted)] == [None, True]
    given = {
        (b.pod_uid, b.container): b.blocks and b.blocks[0].size_bytes
        for b in bodies(facts, MemoryAllocated)
        if b.told_by == "log"
    }
    assert given == {(PINNED, "app"): None, (SOLVER, "prep"): None, (SOLVER, "app"): 134217728}
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
