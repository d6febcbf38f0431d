"""The node and its kubelet: settings, the machine, the node object, probe counters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, cast

import msgspec

from kubeledger.ingest.correlate.assembler import (
    Assembler,
    ItemHandler,
    StructuredHandler,
)
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.settings_log import SettingsCollector
from kubeledger.ingest.sources.facts import Fact, Facts
from kubeledger.ingest.sources.items import (
    Item,
    KubeletConfigFile,
    LogLine,
    NodeObject,
    ProbeCounters,
)
from kubeledger.model.bodies.node import NodeObserved
from kubeledger.model.bodies.prober import ProbeCountersRead, ProbeType
from kubeledger.model.record import Evidence

__all__ = ["NodeAssembler"]

_CORES = re.compile(r"\bNumCores:(\d+)")
_MEMORY = re.compile(r"\bMemoryCapacity:(\d+)")
_NUMA_NODE = re.compile(r"\{Id:(\d+) Memory:\d+")

_PROBE_TYPES = {"liveness", "readiness", "startup"}
_PROBE_RESULTS = ("successful", "failed", "unknown")
_Worker = tuple[str, str, str, str, str]

_RUNNING = ("Recording event message for node", "Started kubelet", "Updating node status")
"""Signs of a kubelet that is past its start."""


class NodeAssembler(Assembler):
    """Settings once a kubelet process; the node and each worker's counters as they change."""

    def __init__(self, context: BundleContext) -> None:
        super().__init__(context)
        self._settings = SettingsCollector(context)
        self._node = NodeObserved()
        self._node_evidence: dict[str, Evidence] = {}
        self._counters: dict[_Worker, dict[str, int]] = {}

    def structured(self) -> Mapping[str, StructuredHandler]:
        """Message -> method for structured lines."""
        return {
            **dict.fromkeys(_RUNNING, self._settings.running),
            "KubeletConfiguration": self._dump,
            "Creating Container Manager object based on Node Config": self._node_config,
            "--cgroups-per-qos enabled, but --cgroup-root was not specified.  Defaulting to /": (
                self._root_defaulted
            ),
            "Using cgroup driver setting received from the CRI runtime": self._driver,
            "After cpu setting is overwritten": self._overwritten,
            "Kubelet version": self._version,
            "Creating topology manager with policy per scope": partial(
                self._topology, who="the topology manager's start"
            ),
            "Initializing Topology Manager with policy": partial(
                self._topology, who="the container manager's start"
            ),
            "FLAG": self._flag,
            "Machine": self._machine,
        }

    def items(self) -> Mapping[type, ItemHandler]:
        """Item type -> method."""
        return {
            KubeletConfigFile: self._config_file,
            NodeObject: self._node_object,
            ProbeCounters: self._probe_counters,
        }

    def goes_on(self, line: LogLine) -> Facts:
        """What is known of its settings holds from here on, not only from the next sign of it."""
        return self._settings.running(line)

    def finish(self, ts_ns: int) -> Facts:
        """Settings of a bundle whose log never came to the end of a start."""
        return self._settings.close(ts_ns)

    # Settings ---------------------------------------------------------------------------

    def _config_file(self, item: Item) -> Facts:
        assert isinstance(item, KubeletConfigFile)
        return self._settings.config_file(item)

    def _flag(self, line: LogLine) -> Facts:
        values = line.values or {}
        return self._settings.flag(line, values["name"], values["value"]) if values else ()

    def _dump(self, line: LogLine) -> Facts:
        values = line.values or {}
        return self._settings.dump(line, values.get("literal"), values.get("configuration"))

    def _node_config(self, line: LogLine) -> Facts:
        return self._settings.node_config(line, (line.values or {}).get("nodeConfig"))

    def _root_defaulted(self, line: LogLine) -> Facts:
        return self._settings.replaced(line, {"cgroupRoot": "/"})

    def _driver(self, line: LogLine) -> Facts:
        driver = (line.values or {}).get("cgroupDriver")
        return self._settings.replaced(line, {"cgroupDriver": driver} if driver else {})

    def _overwritten(self, line: LogLine) -> Facts:
        values = line.values or {}
        fields = ("kubeReserved", "systemReserved")
        return self._settings.replaced(line, {f: values[f] for f in fields if f in values})

    def _topology(self, line: LogLine, who: str) -> Facts:
        values = line.values or {}
        policy, scope = values.get("topologyPolicyName"), values.get("topologyScopeName")
        fields = {"topologyManagerPolicy": policy, "topologyManagerScope": scope}
        return self._settings.stated(line, who, {f: v for f, v in fields.items() if v})

    def _version(self, line: LogLine) -> None:
        self._settings.version(str((line.values or {}).get("kubeletVersion", "")))

    # The node ---------------------------------------------------------------------------

    def _machine(self, line: LogLine) -> Facts:
        text = line.message
        cores, memory = _CORES.search(text), _MEMORY.search(text)
        topology = text.find(" Topology:[")
        numa = _NUMA_NODE.findall(text, topology) if topology >= 0 else None
        return self._observed(
            line.ts_ns,
            "machine",
            line.evidence,
            cpus=int(cores[1]) if cores else None,
            memory_capacity_bytes=int(memory[1]) if memory else None,
            numa_nodes=tuple(sorted(int(node) for node in numa)) if numa is not None else None,
        )

    def _node_object(self, item: Item) -> Facts:
        assert isinstance(item, NodeObject)
        metadata, spec, status = (
            item.node.get(part) or {} for part in ("metadata", "spec", "status")
        )
        name = metadata.get("name")
        if self.context.node and name and name != self.context.node:
            return ()
        taints = spec.get("taints") or []
        return self._observed(
            item.ts_ns,
            "object",
            item.evidence,
            labels=metadata.get("labels") or {},
            taints=tuple({key: str(value) for key, value in taint.items()} for taint in taints),
            capacity=status.get("capacity"),
            allocatable=status.get("allocatable"),
        )

    def _observed(self, ts_ns: int, part: str, evidence: Evidence, **fields: object) -> Facts:
        """The node as now known, when that changed; evidence of both its parts."""
        node = msgspec.structs.replace(self._node, **fields)
        self._node_evidence[part] = evidence
        if node == self._node:
            return ()
        self._node = node
        others = [e for name, e in self._node_evidence.items() if name != part]
        return (Fact(ts_ns, node, (evidence, *others)),)

    # Probe counters ---------------------------------------------------------------------

    def _probe_counters(self, item: Item) -> Facts:
        assert isinstance(item, ProbeCounters)
        return list(self._changed_workers(item))

    def _changed_workers(self, item: ProbeCounters) -> Iterator[Fact]:
        workers: dict[_Worker, dict[str, int]] = {}
        evidence: dict[_Worker, list[Evidence]] = {}
        for key, total in item.totals.items():
            namespace, pod, uid, container, probe_type, result = key
            worker = (namespace, pod, uid, container, probe_type.lower())
            if worker[-1] not in _PROBE_TYPES or result not in _PROBE_RESULTS:
                continue
            counts = workers.setdefault(worker, dict.fromkeys(_PROBE_RESULTS, 0))
            counts[result] += total
            if key in item.evidence:
                evidence.setdefault(worker, []).append(item.evidence[key])
        for worker, counts in workers.items():
            if self._counters.get(worker) != counts:
                self._counters[worker] = counts
                body = self._counters_body(item.ts_ns, worker, counts)
                yield Fact(item.ts_ns, body, tuple(evidence.get(worker, ())))

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
