"""The node and its kubelet: settings, the machine, the node object, conditions, probe counters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, cast, get_args

import msgspec

from kubeledger.ingest.correlate.assembler import Assembler, reads, reads_events, takes
from kubeledger.ingest.correlate.entry import Entry
from kubeledger.ingest.correlate.holdback import Seen, Waiting, shown
from kubeledger.ingest.correlate.registers import Registers
from kubeledger.ingest.correlate.settings_log import SettingsCollector
from kubeledger.ingest.sources.items import (
    Fact,
    Facts,
    LogLine,
    NodeObject,
    ObservedGap,
    ProbeCounters,
)
from kubeledger.ingest.sources.times import api_time, go_time
from kubeledger.model.bodies.ledger import GapObserved
from kubeledger.model.bodies.node import NodeCondition, NodeConditionChanged, NodeObserved
from kubeledger.model.bodies.prober import ProbeCountersRead, ProbeType
from kubeledger.model.patterns import regex
from kubeledger.model.record import Evidence
from kubeledger.model.units import NS_PER_S

# The node's conditions, as they change: from lines about them, and from the node object.
#
# The kubelet's setters say what they find, often of an object that is new (at each try to register)
# or that could not be written: a change is what differs from what was said before. The object shows
# a change that no line did, such as the node controller's; it may be older than the last line.
#
# Source: pkg/kubelet/nodestatus/setters.go of 1.19 to 1.36.

Status = Literal["True", "False", "Unknown"]

EVENTS: Mapping[str, tuple[NodeCondition, Status]] = {
    "NodeReady": ("Ready", "True"),
    "NodeNotReady": ("Ready", "False"),
    "NodeHasInsufficientMemory": ("MemoryPressure", "True"),
    "NodeHasSufficientMemory": ("MemoryPressure", "False"),
    "NodeHasDiskPressure": ("DiskPressure", "True"),
    "NodeHasNoDiskPressure": ("DiskPressure", "False"),
    "NodeHasInsufficientPID": ("PIDPressure", "True"),
    "NodeHasSufficientPID": ("PIDPressure", "False"),
}
"""Event of a change -> the condition, and what it is from then on."""

_TEXT = regex(
    r"\{Type:(?P<type>\w+) Status:(?P<status>\w+) .*?LastTransitionTime:(?P<lastTransitionTime>"
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? [+-]\d{4}).*? Reason:(?P<reason>\S*) "
    r"Message:(?P<message>.*)\}",
    re.DOTALL,
)


class _Known(NamedTuple):
    """What a condition is since its last change."""

    status: Status
    ts_ns: int
    waiting: Waiting[NodeConditionChanged]


class ConditionsAssembler(Assembler):
    """Changes of Ready and of the pressures."""

    def __init__(self, registers: Registers) -> None:
        super().__init__(registers)
        self._known: dict[str, _Known] = {}

    @reads("Recording event message for node")
    def _recorded(self, entry: Entry) -> None:
        self._event(entry.text("event"), entry)

    @reads_events(*EVENTS)
    def _sent(self, entry: Entry) -> None:
        if entry.text("kind") == "Node" and entry.text("object").strip("/") == self.context.node:
            self._event(entry.text("reason"), entry)

    @reads("Fast updating node status as it just became ready")
    def _ready(self, entry: Entry) -> None:
        self._event("NodeReady", entry)

    def _event(self, event: str, entry: Entry) -> None:
        if event in EVENTS:
            condition, status = EVENTS[event]
            self._say(NodeConditionChanged(condition=condition, status=status), entry)

    @reads("Node became not ready")
    def _not_ready(self, entry: Entry) -> None:
        told = condition_in(entry.values["condition"])
        self._say(told or NodeConditionChanged(condition="Ready", status="False"), entry)

    @takes(NodeObject)
    def _object(self, item: NodeObject) -> None:
        name = (item.node.get("metadata") or {}).get("name")
        if self.context.node and name and name != self.context.node:
            return
        for each in (item.node.get("status") or {}).get("conditions") or ():
            told = condition_in(each)
            if told is None:
                continue
            known = self._known.get(told.condition)
            since_ns = told.transition_ts_ns or 0
            if known is None or since_ns > known.ts_ns or known.status == told.status:
                self._say(told, item)

    def _say(self, told: NodeConditionChanged, seen: Seen) -> None:
        known = self._known.get(told.condition)
        if known is None or known.status != told.status:
            waiting = self.queue.hold(shown(seen, told))
            self._known[told.condition] = _Known(told.status, seen.ts_ns, waiting)
            return
        if not known.waiting.is_open:
            return
        body = known.waiting.body
        fields = ("reason", "message", "transition_ts_ns")
        unknown = (field for field in fields if getattr(body, field) is None)
        known.waiting.learn(**{field: getattr(told, field) for field in unknown})
        if seen.ts_ns - known.ts_ns <= NS_PER_S:
            known.waiting.join(seen.evidence)


def condition_in(value: Any) -> NodeConditionChanged | None:  # noqa: ANN401 - decoded JSON or text
    """A condition as JSON holds it, or as Go prints it; None where it is neither."""
    since_ns: int | None
    if isinstance(value, str):
        match = _TEXT.search(value)
        if match is None:
            return None
        value, since_ns = match.groupdict(), go_time(match["lastTransitionTime"])
    elif isinstance(value, dict):
        since_ns = api_time(value.get("lastTransitionTime"))
    else:
        return None
    condition, status = value.get("type"), value.get("status")
    if condition not in get_args(NodeCondition) or status not in get_args(Status):
        return None
    return NodeConditionChanged(
        condition=condition,
        status=status,
        reason=value.get("reason") or None,
        message=value.get("message") or None,
        transition_ts_ns=since_ns,
    )


_CORES = regex(r"\bNumCores:(\d+)")
_MEMORY = regex(r"\bMemoryCapacity:(\d+)")
_NUMA_NODE = regex(r"\{Id:(\d+) Memory:\d+")
_PROBE_RESULTS = ("successful", "failed", "unknown")
_Worker = tuple[str, str, str, str, str]


class NodeAssembler(Assembler):
    """Settings once a kubelet process; the node and each worker's counters as they change."""

    part_kinds = (SettingsCollector,)

    def __init__(self, registers: Registers) -> None:
        super().__init__(registers)
        self._settings = SettingsCollector(self.context, self.queue)
        self.parts = (self._settings,)
        self._node = NodeObserved()
        self._node_evidence: dict[str, Evidence] = {}
        self._counters: dict[_Worker, dict[str, int]] = {}

    @takes(ObservedGap)
    def _gap(self, gap: ObservedGap) -> None:
        body = GapObserved(
            stream=gap.stream, reason=gap.reason, since_ts_ns=gap.since_ns, until_ts_ns=gap.until_ns
        )
        self.queue.add(shown(gap, body))

    def goes_on(self, line: LogLine) -> Facts:
        """Another kubelet process, whose begin no log holds, is running by this line.

        What is known of its settings holds from here on, not only from the next sign of it.
        """
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
