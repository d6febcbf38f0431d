"""What a simulated CPU manager decided, as lines of each form, is read as what it was."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from kubeledger.ingest.correlate.assignments import CpuAssembler
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.registers import Registers
from kubeledger.model.bodies.resourcemanagers import (
    CpuAllocationFailed,
    CpuManagerStarted,
    CpusAllocated,
    CpusReleased,
)
from kubeledger.model.record import Body, Evidence
from tests.ingest.feeding import feed, lines
from tests.simulate.engine.test_cpus import ACROSS_NUMA, FULL, STRICT, UNCORE, machine

DECISIONS = (CpuManagerStarted, CpusAllocated, CpuAllocationFailed, CpusReleased)
TAG = "[cpumanager]"
SMT = "SMT Alignment Error"
GO = {"NUMANodeID": "numa_node", "SocketID": "socket", "CoreID": "core"}


def places(body: CpuManagerStarted) -> dict[str, dict[str, int]]:
    """CPUs by Go's names."""
    found = {}
    for cpu, place in (body.cpus or {}).items():
        found[cpu] = {name: getattr(place, field) for name, field in GO.items()}
        if place.uncore_cache is not None:
            found[cpu]["UncoreCacheID"] = place.uncore_cache
    return found


def mask(nodes: tuple[int, ...] | None) -> int:
    return sum(1 << node for node in nodes or ())


def structured(body: Any, *, short: bool) -> Iterator[str]:  # noqa: ANN401 # of four kinds
    """Since 1.21; ``short``: since 1.35."""
    memory = "state_mem.go "
    if isinstance(body, CpuManagerStarted):
        topology = msgspec.json.encode({"NumCPUs": 24, "CPUDetails": places(body)}).decode()
        yield f'cpu_manager.go "Detected CPU topology" topology={topology}'
        on = " ".join(f"{name}:true" for name in body.options or ())
        created = "created" if short else "Static policy created"
        yield f'policy_static.go "{created} with configuration" options={{"{on}"}} cpuGroupSize=2'
        reserved = f'reservedSize=1 reserved="{body.reserved_cpu_set}"'
        words = "Reserved CPUs not available for exclusive assignment"
        yield f'policy_static.go "{words}" {reserved}'
        starting = "Starting" if short else "Starting CPU manager"
        yield f'cpu_manager.go "{starting}" policy="{body.policy}"'
        yield f'{memory}"Updated default CPUSet" cpuSet="{body.default_cpu_set}"'
        if body.restored:
            yield f'{memory}"Updated CPUSet assignments" assignments={{}}'
        return
    pod = f'pod="{body.namespace}/{body.pod}" containerName="{body.container}"'
    default = f'{memory}"Updated default CPUSet" cpuSet="{getattr(body, "default_cpu_set", "")}"'
    if isinstance(body, CpusReleased):
        words = "RemoveContainer start" if short else "Static policy: RemoveContainer"
        yield f'policy_static.go "{words}" podUID="{body.pod_uid}" containerName="{body.container}"'
        yield default
        return
    yield f'policy_static.go "{"Allocate start" if short else "Static policy: Allocate"}" {pod}'
    error = getattr(body, "error", "")
    if not error.startswith(SMT):
        hint = f'{{"NUMANodeAffinity":{mask(body.numa_nodes) or "null"},"Preferred":true}}'
        yield f'policy_static.go "Topology Affinity" {pod} affinity={hint}'
        yield f'policy_static.go "AllocateCPUs" {pod} numCPUs={body.requested} socket=null'
    if isinstance(body, CpuAllocationFailed):
        if not error.startswith(SMT):
            yield f'policy_static.go "Unable to allocate CPUs" err="{error}" {pod} numCPUs=1'
        yield f'cpu_manager.go "{"policy error" if short else "Allocate error"}" err="{error}"'
        return
    yield default
    yield f'policy_static.go "AllocateCPUs" {pod} result="{body.cpu_set}"'
    set_of = f'containerName="{body.container}" cpuSet="{body.cpu_set}"'
    yield f'{memory}"Updated desired CPUSet" podUID="{body.pod_uid}" {set_of}'


def free_text(body: Any) -> Iterator[str]:  # noqa: ANN401 # of four kinds
    """Of 1.20."""
    memory, policy, manager = (f"{file} {TAG}" for file in (
        "state_mem.go", "policy_static.go", "cpu_manager.go"
    ))  # fmt: skip
    if isinstance(body, CpuManagerStarted):
        of_cpus = (
            f"{cpu}:{{{' '.join(map(str, at.values()))}}}" for cpu, at in places(body).items()
        )
        yield f"{manager} detected CPU topology: &{{24 12 4 map[{' '.join(of_cpus)}]}}"
        reserved = f'reserved 1 CPUs ("{body.reserved_cpu_set}")'
        yield f"{policy} {reserved} not available for exclusive assignment"
        yield f"{manager} starting with {body.policy} policy"
        yield f'{memory} updated default cpuset: "{body.default_cpu_set}"'
        if body.restored:
            yield f'{memory} updated cpuset assignments: "map[]"'
        return
    whose = f"pod: {body.pod_uid}, container: {body.container}"
    default = f'{memory} updated default cpuset: "{getattr(body, "default_cpu_set", "")}"'
    if isinstance(body, CpusReleased):
        yield f"{policy} static policy: RemoveContainer ({whose})"
        yield default
        return
    pod = f"{body.pod}_{body.namespace}({body.pod_uid})"
    yield f"{policy} static policy: Allocate (pod: {pod}, container: {body.container})"
    hint = f"{{{mask(body.numa_nodes):b} true}}" if body.numa_nodes else "{<nil> false}"
    yield f"{policy} Pod {pod}, Container {body.container} Topology Affinity is: {hint}"
    yield f"{policy} allocateCpus: (numCPUs: {body.requested}, socket: <nil>)"
    if isinstance(body, CpuAllocationFailed):
        named = f"pod: {pod}, container: {body.container}, error: {body.error}"
        yield f"{policy} unable to allocate {body.requested} CPUs ({named})"
        yield f"{manager} Allocate error: {body.error}"
        return
    yield default
    yield f'{policy} allocateCPUs: returning "{body.cpu_set}"'
    yield f'{memory} updated desired cpuset ({whose}, cpuset: "{body.cpu_set}")'


def as_logged(body: Any, names: dict[str, dict[str, str]], *, minor: int) -> Body:  # noqa: ANN401
    """What lines of a version tell of a body."""
    other: dict[str, Any] = {}
    if isinstance(body, CpuManagerStarted):
        other = {"options": None} if minor < 22 else {}
    elif isinstance(body, CpuAllocationFailed) and body.error.startswith(SMT):
        other = {"requested": None, "numa_nodes": None}
    elif isinstance(body, CpusReleased):
        other = names[body.pod_uid]  # an import knows them of a pod that is gone, too
    found: Body = msgspec.structs.replace(body, **other)
    return found


@pytest.mark.parametrize(
    ("version", "options"),
    [
        ("1.20.2", ()),
        ("1.28.0", (FULL, ACROSS_NUMA)),
        ("1.34.9", (STRICT,)),
        ("1.36.2", (FULL, UNCORE)),
    ],
)
@pytest.mark.parametrize("policy", ["none", "best-effort"])
def test_lines_of_each_form(version: str, options: tuple[str, ...], policy: str) -> None:
    """Starts, grants, refusals and releases, with all that they name."""
    minor = int(version.split(".")[1])
    records = machine(*options, version=version, topologyManagerPolicy=policy)
    bodies = [record.body for record in records if isinstance(record.body, DECISIONS)]
    context = BundleContext(node="n")
    names: dict[str, dict[str, str]] = {}
    for body in bodies:
        if isinstance(body, CpusAllocated | CpuAllocationFailed):
            namespace, pod, uid = body.namespace or "", body.pod or "", body.pod_uid or ""
            context.learn_uid(namespace, pod, uid, 0, Evidence(file="pods.json"))
            names[uid] = {"namespace": namespace, "pod": pod}
    written: list[str] = []
    for body in bodies:
        first, *rest = free_text(body) if minor < 21 else structured(body, short=minor > 34)
        written += [f"+3s {first}", *rest]
    facts = feed(CpuAssembler(Registers(context)), lines(*written))
    read = [fact.body for fact in facts]
    assert read == [as_logged(body, names, minor=minor) for body in bodies]
