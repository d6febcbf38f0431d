"""Kubernetes API events as the API server gives them, in either of its two versions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

EventKey = tuple[str, str, str, str, str]
"""Object kind, namespace, name, reason, message."""

COMBINED = "(combined from similar events): "
"""What the recorder puts before the newest message once it counts similar events as one."""

MESSAGE_BYTES_MAX = 1024
"""The API server holds no longer messages."""

_NAME_TIME = re.compile(r"\.([0-9a-f]{14,16})$")
_FIELD_PATH = re.compile(r"spec\.(?:c|initC|ephemeralC)ontainers\{(?P<name>.*)\}")

_NAMED = re.compile(
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
