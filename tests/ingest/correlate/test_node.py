from pathlib import Path
from typing import Any

import pytest

from kubeledger.ingest.correlate.context import BundleContext, KnownPod
from kubeledger.ingest.correlate.node import NodeAssembler
from kubeledger.ingest.correlate.registers import Registers
from kubeledger.ingest.sources.documents import Document, read_document
from kubeledger.ingest.sources.items import NodeObject, ProbeCounters
from kubeledger.ingest.sources.streams import SourceFile
from kubeledger.model.bodies.node import NodeObserved
from kubeledger.model.bodies.prober import ProbeCountersRead
from kubeledger.model.record import Evidence
from tests.ingest.pieces import feed_items, feed_log, klog

MACHINE = (
    "Machine: {Timestamp:2026-11-21 02:52:41.55821571 +0000 UTC m=+0.339372842 NumCores:4 "
    "NumPhysicalCores:2 MemoryCapacity:25276514304 MemoryByType:map[] HugePages:[] "
    "Filesystems:[{Device:/dev/vda Capacity:270553174016}] "
    "Topology:[{Id:1 Memory:2048 HugePages:[] Cores:[{Id:0 Threads:[0 1] Caches:[]}] Caches:[]} "
    "{Id:0 Memory:1024 HugePages:[] Cores:[{Id:1 Threads:[2 3] Caches:[]}] Caches:[]}] "
    "CloudProvider:Unknown}"
)


def test_machine_line() -> None:
    """CPUs, memory and NUMA nodes; a second start with the same machine is no news."""
    line = klog("manager.go", MACHINE)
    (fact,) = feed_log(NodeAssembler(Registers(BundleContext(node="n"))), line + line)
    assert fact.body == NodeObserved(cpus=4, memory_capacity_bytes=25276514304, numa_nodes=(0, 1))


def node_object(**metadata: Any) -> dict[str, Any]:  # noqa: ANN401  (any JSON value)
    """A node as the API server gives it."""
    return {
        "kind": "Node",
        "metadata": {"name": "n", **metadata},
        "spec": {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]},
        "status": {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "3700m"}},
    }


def test_node_object_joins_the_machine() -> None:
    """Both sources make one picture, with the evidence of both; only changes are recorded."""
    assembler = NodeAssembler(Registers(BundleContext(node="n")))
    feed_log(assembler, klog("manager.go", MACHINE))
    node, evidence = node_object(labels={"zone": "a"}), Evidence(file="node.json")
    items = [NodeObject(5, node, evidence), NodeObject(6, node, evidence)]
    (fact,) = feed_items(assembler, items)
    assert fact.body == NodeObserved(
        labels={"zone": "a"},
        taints=({"key": "gpu", "value": "yes", "effect": "NoSchedule"},),
        capacity={"cpu": "4"},
        allocatable={"cpu": "3700m"},
        cpus=4,
        memory_capacity_bytes=25276514304,
        numa_nodes=(0, 1),
    )
    assert [piece.file for piece in fact.evidence] == ["node.json", "kubelet.log"]


def test_other_nodes_are_left_out() -> None:
    """A list of all nodes of a cluster holds others too."""
    item = NodeObject(5, node_object(name="another"), Evidence(file="nodes.json"))
    assert feed_items(NodeAssembler(Registers(BundleContext(node="n"))), [item]) == []


def counters(ts_ns: int, **counts: int) -> ProbeCounters:
    """A reading of one worker's counters, as 1.20 labels them."""
    keys = {("ns", "web", "u1", "app", "Liveness", result): n for result, n in counts.items()}
    evidence = {key: Evidence(file=f"{ts_ns}.txt", text=key[-1]) for key in keys}
    return ProbeCounters(ts_ns, keys, evidence)


@pytest.mark.parametrize("cut", [0, 1, 40, 80])
def test_a_cut_file_of_counters(cut: int, tmp_path: Path) -> None:
    """What the last worker counted is cut with it, even where a whole line of it is left."""
    line = 'prober_probe_total{pod="%s",container="c",probe_type="Liveness",result="%s"} 7\n'
    lines = [line % (pod, result) for pod in "ab" for result in ("failed", "successful")]
    path = tmp_path / "metrics.txt"
    path.write_text("".join(lines)[: -cut or None])
    items, _ = read_document(Document(SourceFile(path.name, path), "metrics", 1))
    (read,) = items
    assert isinstance(read, ProbeCounters)
    assert {key[1] for key in read.totals} == ({"a"} if cut else {"a", "b"})


def test_probe_counters_without_a_uid() -> None:
    """Newer kubelets label no UID; what is no probe is left out."""
    context = BundleContext(node="n")
    context.pods["u9"] = KnownPod("ns", "web", "u9", 0, "api", Evidence(file="pods.json"))
    context.uids_by_name["ns", "web"] = ["u9"]
    totals = {
        ("ns", "web", "", "app", "Startup", "unknown"): 2,
        ("ns", "web", "", "app", "Other", "successful"): 2,
        ("ns", "web", "", "app", "Startup", "other"): 2,
    }
    (fact,) = feed_items(NodeAssembler(Registers(context)), [ProbeCounters(1, totals, {})])
    assert isinstance(fact.body, ProbeCountersRead)
    assert (fact.body.pod_uid, fact.body.unknown, fact.body.successful) == ("u9", 2, 0)
