"""The node's conditions, as they change: from lines about them, and from the node object.

The kubelet's setters say what they find, often of an object that is new (at each try to register)
or that could not be written: a change is what differs from what was said before. The object shows
a change that no line did, such as the node controller's; it may be older than the last line.

Source: pkg/kubelet/nodestatus/setters.go of 1.19 to 1.36.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, get_args

from kubeledger.ingest.correlate.assembler import Assembler, Entry, reads, reads_events, takes
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.holdback import Seen, Waiting, shown
from kubeledger.ingest.sources.items import NodeObject
from kubeledger.ingest.sources.times import api_time, go_time
from kubeledger.model.bodies.stages import NodeCondition, NodeConditionChanged
from kubeledger.model.units import NS_PER_S

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

_TEXT = re.compile(
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

    def __init__(self, context: BundleContext) -> None:
        super().__init__(context)
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
