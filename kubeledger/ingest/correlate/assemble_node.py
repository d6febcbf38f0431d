"""The node and its kubelet: settings, the machine, the node object, probe counters."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec

from kubeledger.ingest.correlate.assembler import (
    Assembler,
    FreeTextHandler,
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

_FLAG = re.compile(r'FLAG: --(?P<name>[\w.-]+)=(?P<value>"(?:.|\n)*"|`[^`]*`)')
_DUMP = re.compile(r"KubeletConfiguration: (?P<dump>(?:.|\n)*)")
_NODE_CONFIG = re.compile(
    r"Creating Container Manager object based on Node Config: (?P<config>.*)", re.DOTALL
)
_CGROUP_ROOT = re.compile(r"--cgroups-per-qos enabled, but --cgroup-root was not specified")
_OVERWRITTEN = re.compile(
    r'After cpu setting is overwritten, KubeReserved="(?P<kube>.*)", '
    r'SystemReserved="(?P<system>.*)"'
)
_VERSION = re.compile(r"Version: (?P<version>v\d+\.\d+\.\S+)")
_TOPOLOGY = re.compile(
    r"\[topologymanager\] Creating topology manager with (?P<policy>\S+) policy"
    r"(?: per (?P<scope>\w+) scope)?"
)
_TOPOLOGY_INIT = re.compile(
    r"\[topologymanager\] Initializing Topology Manager with (?P<policy>\S+) policy"
    r"(?: and (?P<scope>\w+)-level scope)?"
)
_MACHINE = re.compile(r"Machine: \{")
_CORES = re.compile(r"\bNumCores:(\d+)")
_MEMORY = re.compile(r"\bMemoryCapacity:(\d+)")
_NUMA_NODE = re.compile(r"\{Id:(\d+) Memory:\d+")

_TOPOLOGY_MANAGER = "the topology manager's start"
_CONTAINER_MANAGER = "the container manager's start"

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
            "--cgroups-per-qos enabled, but --cgroup-root was not specified.  defaulting to /": (
                self._root_defaulted
            ),
            "Using cgroup driver setting received from the CRI runtime": self._driver,
            "After cpu setting is overwritten": self._overwritten,
            "Kubelet version": self._version,
            "Creating topology manager with policy per scope": self._topology,
        }

    def free_text(self) -> Mapping[str, Sequence[tuple[re.Pattern[str], FreeTextHandler]]]:
        """``file.go`` -> patterns and methods for free text."""
        patterns: dict[str, list[tuple[re.Pattern[str], FreeTextHandler]]] = defaultdict(list)
        ours: dict[str, list[tuple[re.Pattern[str], FreeTextHandler]]] = {
            "flags.go": [(_FLAG, self._flag)],
            "server.go": [
                (_DUMP, self._dump_free),
                (_CGROUP_ROOT, lambda line, match: self._root_defaulted(line)),
                (_OVERWRITTEN, self._overwritten_free),
                (_VERSION, self._version_free),
                (re.compile(r"Started kubelet"), self._running_free),
            ],
            "container_manager_linux.go": [
                (_NODE_CONFIG, self._node_config_free),
                (_TOPOLOGY_INIT, self._topology_init_free),
            ],
            "topology_manager.go": [(_TOPOLOGY, self._topology_free)],
            "kubelet_node_status.go": [
                (re.compile(r"Updating node status|Recording \S+ event"), self._running_free)
            ],
            "manager.go": [(_MACHINE, self._machine)],
        }
        return {
            file: [*ours.get(file, ()), *patterns.get(file, ())]
            for file in sorted(ours.keys() | patterns.keys())
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

    def _flag(self, line: LogLine, match: re.Match[str]) -> Facts:
        return self._settings.flag(line, match["name"], match["value"])

    def _dump_free(self, line: LogLine, match: re.Match[str]) -> Facts:
        return self._settings.dump(line, match["dump"], None)

    def _dump(self, line: LogLine) -> Facts:
        return self._settings.dump(line, None, (line.values or {}).get("configuration"))

    def _node_config_free(self, line: LogLine, match: re.Match[str]) -> Facts:
        return self._settings.node_config(line, match["config"], None)

    def _node_config(self, line: LogLine) -> Facts:
        return self._settings.node_config(line, None, (line.values or {}).get("nodeConfig"))

    def _root_defaulted(self, line: LogLine) -> Facts:
        return self._settings.replaced(line, {"cgroupRoot": "/"})

    def _driver(self, line: LogLine) -> Facts:
        driver = (line.values or {}).get("cgroupDriver")
        return self._settings.replaced(line, {"cgroupDriver": driver} if driver else {})

    def _overwritten(self, line: LogLine) -> Facts:
        values = line.values or {}
        fields = ("kubeReserved", "systemReserved")
        return self._settings.replaced(line, {f: values[f] for f in fields if f in values})

    def _overwritten_free(self, line: LogLine, match: re.Match[str]) -> Facts:
        fields = {"kubeReserved": match["kube"], "systemReserved": match["system"]}
        return self._settings.replaced(line, fields)

    def _topology(self, line: LogLine) -> Facts:
        values = line.values or {}
        policy, scope = values.get("topologyPolicyName"), values.get("topologyScopeName")
        return self._runs_with(line, _TOPOLOGY_MANAGER, policy, scope)

    def _topology_free(self, line: LogLine, match: re.Match[str]) -> Facts:
        return self._runs_with(line, _TOPOLOGY_MANAGER, match["policy"], match["scope"])

    def _topology_init_free(self, line: LogLine, match: re.Match[str]) -> Facts:
        return self._runs_with(line, _CONTAINER_MANAGER, match["policy"], match["scope"])

    def _runs_with(self, line: LogLine, who: str, policy: object, scope: object) -> Facts:
        fields = {"topologyManagerPolicy": policy, "topologyManagerScope": scope}
        return self._settings.stated(line, who, {f: v for f, v in fields.items() if v})

    def _version(self, line: LogLine) -> None:
        self._settings.version(str((line.values or {}).get("kubeletVersion", "")))

    def _version_free(self, line: LogLine, match: re.Match[str]) -> None:
        self._settings.version(match["version"])

    def _running_free(self, line: LogLine, match: re.Match[str]) -> Facts:
        return self._settings.running(line)

    # The node ---------------------------------------------------------------------------

    def _machine(self, line: LogLine, match: re.Match[str]) -> Facts:
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
