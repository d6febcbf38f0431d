"""API objects and events as the assemblers may rely on them: types checked, times readable.

An API server never answers with other types, but files are written by hand, cut and
edited. An object whose fields are of other types is rejected, and only this object. What
Go reads as absent (null, the zero time) is taken out; a time that no record can hold is
taken as unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from kubeledger.ingest.sources.plain import object_of
from kubeledger.ingest.sources.times import api_time, first_time
from kubeledger.model.patterns import regex

_Json = dict[str, Any]
_Map = dict[str, str | None] | None
_Quantities = dict[str, str | int | float | None] | None

_TIMES = frozenset(
    (
        *("creationTimestamp", "deletionTimestamp", "startTime", "startedAt", "finishedAt"),
        *("lastProbeTime", "lastTransitionTime", "lastHeartbeatTime", "lastObservedTime"),
        *("firstTimestamp", "lastTimestamp", "eventTime", "time"),
        *("deprecatedFirstTimestamp", "deprecatedLastTimestamp"),
    )
)


class _Metadata(msgspec.Struct):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    labels: _Map = None
    annotations: _Map = None
    creationTimestamp: str | None = None
    deletionTimestamp: str | None = None


class _State(msgspec.Struct):
    running: _Json | None = None
    waiting: _Json | None = None
    terminated: _Json | None = None


class _ContainerStatus(msgspec.Struct):
    name: str | None = None
    containerID: str | None = None
    restartCount: int | None = None
    state: _State | None = None
    lastState: _State | None = None


_Statuses = list[_ContainerStatus] | None


class _PodStatus(msgspec.Struct):
    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    conditions: list[_Json] | None = None
    containerStatuses: _Statuses = None
    initContainerStatuses: _Statuses = None
    ephemeralContainerStatuses: _Statuses = None


class _Resources(msgspec.Struct):
    requests: _Quantities = None
    limits: _Quantities = None


class _Probe(msgspec.Struct):
    initialDelaySeconds: int | None = None
    periodSeconds: int | None = None
    timeoutSeconds: int | None = None
    successThreshold: int | None = None
    failureThreshold: int | None = None
    exec: _Json | None = None
    httpGet: _Json | None = None
    tcpSocket: _Json | None = None
    grpc: _Json | None = None


class _Container(msgspec.Struct):
    name: str
    resources: _Resources | None = None
    livenessProbe: _Probe | None = None
    readinessProbe: _Probe | None = None
    startupProbe: _Probe | None = None


class _PodSpec(msgspec.Struct):
    nodeName: str | None = None
    containers: list[_Container] | None = None
    initContainers: list[_Container] | None = None
    ephemeralContainers: list[_Container] | None = None
    overhead: _Quantities = None
    priority: int | None = None
    terminationGracePeriodSeconds: int | None = None


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _PodSpec | None = None
    status: _PodStatus | None = None


class _NodeSpec(msgspec.Struct):
    taints: list[dict[str, str | None]] | None = None


class _NodeInfo(msgspec.Struct):
    kubeletVersion: str | None = None


class _NodeStatus(msgspec.Struct):
    capacity: _Quantities = None
    allocatable: _Quantities = None
    nodeInfo: _NodeInfo | None = None
    conditions: list[_Json] | None = None


class _Node(msgspec.Struct):
    metadata: _Metadata | None = None
    spec: _NodeSpec | None = None
    status: _NodeStatus | None = None


class _Reference(msgspec.Struct):
    kind: str | None = None
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None
    fieldPath: str | None = None


class _EventSource(msgspec.Struct):
    component: str | None = None
    host: str | None = None


class _Series(msgspec.Struct):
    count: int | None = None


class _Event(msgspec.Struct):
    metadata: _Metadata | None = None
    involvedObject: _Reference | None = None
    regarding: _Reference | None = None
    source: _EventSource | None = None
    deprecatedSource: _EventSource | None = None
    series: _Series | None = None
    reason: str | None = None
    message: str | None = None
    note: str | None = None
    type: str | None = None
    count: int | None = None
    deprecatedCount: int | None = None
    reportingComponent: str | None = None
    reportingController: str | None = None
    reportingInstance: str | None = None


_KINDS: dict[str, type[_Pod] | type[_Node] | type[_Event]] = {
    "pod": _Pod,
    "node": _Node,
    "event": _Event,
}
_STRING_MAPS = ("labels", "annotations", "capacity", "allocatable")


def sound_objects(kind: str, objects: Iterable[_Json], flaws: list[str]) -> list[_Json]:
    """The objects that can be relied on, cleaned in place.

    Args:
        kind: ``pod``, ``node`` or ``event``.
        objects: of one file.
        flaws: what was rejected or replaced is appended, one sentence each.
    """
    return [each for n, each in enumerate(objects, 1) if sound_object(kind, n, each, flaws)]


def sound_object(kind: str, number: int, value: _Json, flaws: list[str]) -> bool:
    """The same of one object, the ``number``-th of its file."""
    name = _name(kind, number, value)
    try:
        _check(kind, value, name, flaws)
    except ValueError as error:
        flaws.append(f"{name} is not read: {error}")
        return False
    return True


def _check(kind: str, value: _Json, name: str, flaws: list[str]) -> None:
    """Check one object, and clean it in place.

    Raises:
        ValueError: a field is of another type than the API's; says which.
    """
    try:
        msgspec.convert(value, _KINDS[kind])
    except msgspec.ValidationError as error:
        raise ValueError(_plainly(str(error))) from None
    if kind == "event":
        _clean(value, name, flaws)
    else:
        for part in ("metadata", "status"):
            _clean(value.get(part) or {}, name, flaws)


def _plainly(error: str) -> str:
    """``Expected `str`, got `int` - at `$.metadata.namespace``` without the ticks."""
    what, _, where = error.replace("`", "").partition(" - at ")
    return f"{where.removeprefix('$.')}: {what[:1].lower()}{what[1:]}" if where else what


def _name(kind: str, number: int, value: _Json) -> str:
    names = object_of(value.get("metadata"))
    parts = [names.get(key) for key in ("namespace", "name")]
    known = "/".join(part for part in parts if isinstance(part, str) and part)
    return f"{kind} {known}" if known else f"{kind} number {number}"


def _clean(value: _Json | list[Any], name: str, flaws: list[str]) -> None:
    """Take out zero times, and times that cannot be read."""
    if type(value) is list:
        for member in value:
            if type(member) is dict or type(member) is list:
                _clean(member, name, flaws)
        return
    assert type(value) is dict
    for key, member in value.items():
        kind = type(member)
        if kind is dict and key in _STRING_MAPS:
            # Go reads null as the empty text, and a quantity may be a number.
            value[key] = {
                label: "" if text is None else str(text) for label, text in member.items()
            }
        elif kind is dict or kind is list:
            _clean(member, name, flaws)
        elif kind is str and key in _TIMES:
            value[key] = _time(key, member, name, flaws)


def _time(key: str, text: str, name: str, flaws: list[str]) -> str | None:
    try:
        return None if api_time(text) is None else text
    except ValueError as error:
        flaws.append(f"{name}: {key} is taken as unknown: {error}")
        return None


# Kubernetes API events as the API server gives them, in either of its two versions.

EventKey = tuple[str, str, str, str, str]
"""Object kind, namespace, name, reason, message."""

COMBINED = "(combined from similar events): "
"""What the recorder puts before the newest message once it counts similar events as one."""

MESSAGE_BYTES_MAX = 1024
"""The API server holds no longer messages."""

_NAME_TIME = regex(r"\.([0-9a-f]{14,16})$")
_FIELD_PATH = regex(r"spec\.(?:c|initC|ephemeralC)ontainers\{(?P<name>[\w.-]+)\}")

_NAMED = regex(
    r"(?:Created|Started|Stopping) container (?P<doing>[a-z0-9-]+)"
    r"|Container (?P<failed>[a-z0-9-]+) "
    r"(?:failed (?:liveness|startup) probe|definition changed|resize requires restart)\b.*",
    re.DOTALL,
)


_KUBELETS_KINDS = ("", "Node", "PersistentVolumeClaim", "Pod")
_CONTROLLERS = frozenset(
    (
        *("CIDRAssignmentFailed", "CIDRNotAvailable", "DeletingNode", "RegisteredNode"),
        *("RemovingNode", "NodeControllerEviction", "TaintManagerEviction", "RecyclerPod"),
        *("Scheduled", "FailedScheduling", "Preempted", "ExternalProvisioning"),
        *("FailedBinding", "Provisioning", "ProvisioningFailed", "ProvisioningSucceeded"),
        *("WaitForFirstConsumer", "WaitForPodScheduled", "VolumeDelete", "VolumeFailedDelete"),
    )
)
"""Reasons of the scheduler and the controllers for the kinds that the kubelet has events of, too.

Where all of them run in one process, their events are in one log, and do not name the sender.
"""


def is_controllers(kind: str, reason: str) -> bool:
    """The kubelet reports no such event."""
    return kind not in _KUBELETS_KINDS or reason in _CONTROLLERS


class ApiReason(msgspec.Struct, frozen=True, kw_only=True):
    """What an event object says.

    Attributes:
        object_id: tells event objects with the same words apart.
        named_ns: when the kubelet made the object, as its name shows: the times in it are
            whole seconds; None where the name does not show.
        component, host: who sent it; empty when the object does not say.
        count: occurrences that it stands for so far.
        first_ns, last_ns: when it was first and last sent; None where it says neither.
    """

    key: EventKey
    object_id: str
    pod_uid: str | None
    container: str | None
    type: str
    component: str
    host: str
    count: int
    named_ns: int | None = None
    first_ns: int | None = None
    last_ns: int | None = None

    def may_be_of(self, node: str) -> bool:
        """Sent by this node's kubelet, or by an unknown sender."""
        return self.component in ("", "kubelet") and self.host in ("", node)

    @classmethod
    def read(cls, event: Mapping[str, Any]) -> ApiReason:
        """Read a ``v1`` or an ``events.k8s.io/v1`` object."""
        obj = event.get("involvedObject") or event.get("regarding") or {}
        source = event.get("source") or event.get("deprecatedSource") or {}
        metadata = event.get("metadata") or {}
        series = event.get("series") or {}
        kind = obj.get("kind") or ""
        count = event.get("count") or event.get("deprecatedCount") or series.get("count")
        namespace = obj.get("namespace") or ""
        reason, message = event.get("reason") or "", event.get("message") or event.get("note")
        first_ns = first_time(
            event.get("firstTimestamp"),
            event.get("deprecatedFirstTimestamp"),
            event.get("eventTime"),
            metadata.get("creationTimestamp"),
        )
        last_ns = first_time(
            series.get("lastObservedTime"),
            event.get("lastTimestamp"),
            event.get("deprecatedLastTimestamp"),
            event.get("eventTime"),
        )
        return cls(
            key=(kind, namespace, obj.get("name") or "", reason, message or ""),
            object_id=metadata.get("uid") or f"{namespace}/{metadata.get('name')}",
            # A node's reference holds its name as the UID.
            pod_uid=obj.get("uid") if kind == "Pod" else None,
            container=container_of(obj.get("fieldPath")),
            type=event.get("type") or "",
            component=source.get("component")
            or event.get("reportingComponent")
            or event.get("reportingController")
            or "",
            host=source.get("host") or event.get("reportingInstance") or "",
            count=int(count or 1),
            named_ns=_named_ns(metadata.get("name")),
            first_ns=last_ns if first_ns is None else first_ns,
            last_ns=first_ns if last_ns is None else last_ns,
        )


def _named_ns(name: object) -> int | None:
    """Source: v1.30.0 client-go/tools/record/event.go makeEvent (the name's last part)."""
    match = _NAME_TIME.search(name) if isinstance(name, str) else None
    return None if match is None else int(match[1], 16)


def container_of(field_path: object) -> str | None:
    """Container that an event is about: ``app`` of ``spec.containers{app}``."""
    match = _FIELD_PATH.fullmatch(field_path) if isinstance(field_path, str) else None
    return match["name"] if match else None


def container_named(message: str) -> str | None:
    """Container that the kubelet's own words name (old kubelets log no field path)."""
    match = _NAMED.fullmatch(message)
    return (match["doing"] or match["failed"]) if match else None


def truncated(message: str) -> str:
    """The message as the API server would hold it."""
    raw = message.encode("utf-8", "surrogatepass")
    if len(raw) <= MESSAGE_BYTES_MAX:
        return message
    return raw[:MESSAGE_BYTES_MAX].decode("utf-8", "ignore")
