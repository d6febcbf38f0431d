"""The node and its kubelet: settings, the machine, the node object, probe counters."""

from __future__ import annotations

import re
from typing import Any, cast, get_args

import msgspec

from kubeledger.ingest.correlate.assembler import Assembler, Entry, reads, takes
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.holdback import shown
from kubeledger.ingest.correlate.settings_log import SettingsCollector
from kubeledger.ingest.sources.facts import Fact, Facts
from kubeledger.ingest.sources.items import LogLine, NodeObject, ObservedGap, ProbeCounters
from kubeledger.model.bodies.ledger import GapObserved
from kubeledger.model.bodies.node import NodeObserved
from kubeledger.model.bodies.prober import ProbeCountersRead, ProbeType
from kubeledger.model.record import Evidence

_CORES = re.compile(r"\bNumCores:(\d+)")
_MEMORY = re.compile(r"\bMemoryCapacity:(\d+)")
_NUMA_NODE = re.compile(r"\{Id:(\d+) Memory:\d+")
_PROBE_RESULTS = ("successful", "failed", "unknown")
_Worker = tuple[str, str, str, str, str]


class NodeAssembler(Assembler):
    """Settings once a kubelet process; the node and each worker's counters as they change."""

    def __init__(self, context: BundleContext) -> None:
        super().__init__(context)
        self._settings = SettingsCollector(context, self.queue)
        self.parts = (self._settings,)
        self._node = NodeObserved()
        self._node_evidence: dict[str, Evidence] = {}
        self._counters: dict[_Worker, dict[str, int]] = {}

    @takes(ObservedGap)
    def _gap(self, gap: ObservedGap) -> None:
        body = GapObserved(
            stream=gap.stream,
            reason=gap.reason,
            since_ts_ns=gap.since_ns,
            until_ts_ns=gap.until_ns,
        )
        self.queue.add(shown(gap, body))

    def goes_on(self, line: LogLine) -> Facts:
        """What is known of its settings holds from here on, not only from the next sign of it."""
        self._settings.runs(line)
        return self.queue.release(line.ts_ns)

    def end(self, ts_ns: int) -> None:
        """Settings of a bundle whose log never came to the end of a start."""
        self._settings.close(ts_ns)

    # The node ---------------------------------------------------------------------------

    @reads("Machine")
    def _machine(self, entry: Entry) -> None:
        text = entry.line.message
        cores, memory = _CORES.search(text), _MEMORY.search(text)
        topology = text.find(" Topology:[")
        numa = _NUMA_NODE.findall(text, topology) if topology >= 0 else None
        self._observed(
            entry.ts_ns,
            "machine",
            entry.evidence,
            cpus=int(cores[1]) if cores else None,
            memory_capacity_bytes=int(memory[1]) if memory else None,
            numa_nodes=tuple(sorted(int(node) for node in numa)) if numa is not None else None,
        )

    @takes(NodeObject)
    def _node_object(self, item: NodeObject) -> None:
        metadata, spec, status = (
            item.node.get(part) or {} for part in ("metadata", "spec", "status")
        )
        name = metadata.get("name")
        if self.context.node and name and name != self.context.node:
            return
        taints = spec.get("taints") or []
        self._observed(
            item.ts_ns,
            "object",
            item.evidence,
            labels=metadata.get("labels") or {},
            taints=tuple({key: str(value) for key, value in taint.items()} for taint in taints),
            capacity=status.get("capacity"),
            allocatable=status.get("allocatable"),
        )

    def _observed(self, ts_ns: int, part: str, evidence: Evidence, **fields: object) -> None:
        """The node as now known, when that changed; evidence of both its parts."""
        node = msgspec.structs.replace(self._node, **fields)
        self._node_evidence[part] = evidence
        if node != self._node:
            self._node = node
            others = [e for name, e in self._node_evidence.items() if name != part]
            self.queue.add(Fact(ts_ns, node, (evidence, *others)))

    # Probe counters ---------------------------------------------------------------------

    @takes(ProbeCounters)
    def _probe_counters(self, item: ProbeCounters) -> None:
        workers: dict[_Worker, dict[str, int]] = {}
        evidence: dict[_Worker, list[Evidence]] = {}
        for key, total in item.totals.items():
            namespace, pod, uid, container, probe_type, result = key
            worker = (namespace, pod, uid, container, probe_type.lower())
            if worker[-1] not in get_args(ProbeType) or result not in _PROBE_RESULTS:
                continue
            counts = workers.setdefault(worker, dict.fromkeys(_PROBE_RESULTS, 0))
            counts[result] += total
            if key in item.evidence:
                evidence.setdefault(worker, []).append(item.evidence[key])
        for worker, counts in workers.items():
            if self._counters.get(worker) != counts:
                self._counters[worker] = counts
                body = self._counters_body(item.ts_ns, worker, counts)
                self.queue.add(Fact(item.ts_ns, body, tuple(evidence.get(worker, ()))))

    def _counters_body(
        self, ts_ns: int, worker: _Worker, counts: dict[str, int]
    ) -> ProbeCountersRead:
        namespace, pod, uid, container, probe_type = worker
        counted: dict[str, Any] = dict(counts)
        return ProbeCountersRead(
            namespace=namespace,
            pod=pod,
            pod_uid=uid or self.context.uid_of(namespace, pod, ts_ns),
            container=container,
            probe_type=cast(ProbeType, probe_type),
            **counted,
        )
