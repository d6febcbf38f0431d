"""From lines and checkpoints of the device manager to its observations and decisions.

Four parts share a desk (queue, holdings, open requests): plugins, grants, refusals and
checkpoints. Texts of free text are those of 1.19 and 1.20, structured ones those of 1.21
to 1.36; where a message lost or gained keys on the way, it is read by the keys it has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from kubeledger.ingest.correlate.assembler import (
    ItemHandler,
    StructuredHandler,
)
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.device_checkpoints import CheckpointItems
from kubeledger.ingest.correlate.device_desk import DeviceDesk
from kubeledger.ingest.correlate.device_grants import GrantLines
from kubeledger.ingest.correlate.device_plugins import PluginLines
from kubeledger.ingest.correlate.device_refusals import PodName, RefusalLines
from kubeledger.ingest.correlate.queued import (
    LineMethod,
    QueuedAssembler,
    nothing,
)
from kubeledger.ingest.klog.line_values import integer, split_pod, split_pod_text, text_of
from kubeledger.ingest.messages.heartbeat import (
    HEARTBEAT,
)
from kubeledger.ingest.sources.facts import Facts
from kubeledger.ingest.sources.items import (
    ApiEvent,
    Checkpoint,
    Item,
    LogLine,
    PodList,
)

__all__ = ["DeviceAssembler"]

_REASONS = frozenset({"UnexpectedAdmissionError", "TopologyAffinityError"})
_REFUSAL = (
    r"(?P<message>(?:Allocate|Update plugin resources) failed due to .*?, which is unexpected"
    r"|Resources cannot be allocated with Topology locality)"
)
_MIRROR_OF = "kubernetes.io/config.hash"


class DeviceAssembler(QueuedAssembler):
    """Device plugins, allocations, refusals, releases and the checkpoints behind them."""

    def __init__(self, context: BundleContext) -> None:
        self._desk = DeviceDesk(context)
        super().__init__(context, self._desk.queue)
        self._plugins = PluginLines(self._desk)
        self._grants = GrantLines(self._desk)
        self._refusals = RefusalLines(self._desk, self._grants)
        self._checkpoints = CheckpointItems(self._desk)

    def structured(self) -> Mapping[str, StructuredHandler]:
        """Message -> method for structured lines."""
        methods: dict[str, LineMethod] = dict.fromkeys(HEARTBEAT, nothing)
        methods |= self._plugin_methods()
        methods |= {
            "Need devices to allocate for pod": self._grants.needs,
            "Making allocation request for device plugin": self._grants.calls_plugin,
            "Checkpoint file written": self._grants.checkpoint_written,
            "Found pre-allocated devices for resource on pod": self._grants.preallocated,
            "Get checkpoint entry": self._grants.restored,
            "Pods to be removed": self._grants.removed,
            "Unable to generate topology hints: requested number of devices unavailable": (
                self._shortage
            ),
            "Pod admission denied": self._denied,
            "Pod Admit Result": self._admit_result,
            "Event occurred": self._event_line,
            "Patch status for pod": self._status_values,
            "Status for pod updated successfully": self._status_values,
            "Status Manager: adding pod": self._status_values,
            "Status Manager: syncing pod": self._status_values,
            "Status tells a refusal": self._status_refusal,
        }
        return self.then_release(methods)

    def _plugin_methods(self) -> dict[str, LineMethod]:
        plugins = self._plugins

        def by(
            method: Callable[[LogLine, str | None], None], key: str = "resourceName"
        ) -> LineMethod:
            return lambda line: method(line, text_of(line, key))

        return {
            "Got registration request from device plugin with resource": by(
                plugins.registration_requested
            ),
            "Got registration request from device plugin with resource name": by(
                plugins.registration_requested
            ),
            "Device plugin connected": by(plugins.registered),
            "Registered endpoint": lambda line: plugins.registered(line, None),
            "Bad registration request from device plugin with resource": by(
                plugins.registration_failed
            ),
            "Bad registration request from device plugin with resource name": by(
                plugins.registration_failed
            ),
            "Bad registration request from device plugin": by(plugins.registration_failed),
            "Error connecting to device plugin client": by(plugins.registration_failed),
            "Failed to connect to new client": by(plugins.registration_failed, "resource"),
            "Failed to dial device plugin with request": by(plugins.registration_failed),
            "State pushed for device plugin": by(plugins.state_pushed, "resource"),
            "Processed device updates for resource": plugins.updates_processed,
            "ListAndWatch ended unexpectedly for device plugin": lambda line: plugins.watch_ended(
                line, text_of(line, "resource", "resourceName"), text_of(line, "err")
            ),
            "listAndWatch ended unexpectedly for device plugin": lambda line: plugins.watch_ended(
                line, text_of(line, "resource", "resourceName"), text_of(line, "err")
            ),
            "Mark all resources Unhealthy for resource": by(plugins.marked_unhealthy),
            "Endpoint became unhealthy": by(plugins.became_unhealthy),
        }

    def items(self) -> Mapping[type, ItemHandler]:
        """Item type -> method."""
        return {
            Checkpoint: self._checkpoint,
            ApiEvent: self._api_event,
            PodList: self._pod_list,
        }

    def finish(self, ts_ns: int) -> Facts:
        """What still waits."""
        return self.queue.drain()

    def _shortage(self, line: LogLine) -> None:
        values = line.values or {}
        counts = integer(values.get("request")), integer(values.get("available"))
        if resource := text_of(line, "resourceName", "resource"):
            container = text_of(line, "containerName")
            self._refusals.shortage(line, resource, counts, text_of(line, "pod"), container)

    def _denied(self, line: LogLine) -> None:
        namespace, name = split_pod(text_of(line, "pod"))
        pod = PodName(namespace, name, text_of(line, "podUID"))
        self._refused(line, pod, text_of(line, "message"))

    def _admit_result(self, line: LogLine) -> None:
        pod = PodName(*split_pod(text_of(line, "pod")))
        self._refused(line, pod, text_of(line, "Message", "message"))

    def _event_line(self, line: LogLine) -> None:
        values = line.values or {}
        if values.get("reason") in _REASONS and values.get("kind") == "Pod":
            pod = PodName(*split_pod(text_of(line, "object")), text_of(line, "podUID"))
            self._refused(line, pod, text_of(line, "message"))

    def _status_refusal(self, line: LogLine) -> None:
        namespace, name, uid = split_pod_text(text_of(line, "pod") or "")
        pod = PodName(namespace, name, uid)
        self._refused(line, pod, text_of(line, "message"), repeats=True)

    def _status_values(self, line: LogLine) -> None:
        message = next(
            (
                found["message"]
                for key in ("patch", "status")
                if (found := re.search(_REFUSAL, text_of(line, key) or "", re.DOTALL))
            ),
            None,
        )
        namespace, name = split_pod(text_of(line, "pod"))
        self._refused(
            line, PodName(namespace, name, text_of(line, "podUID")), message, repeats=True
        )

    def _refused(
        self, line: LogLine, pod: PodName, message: str | None, *, repeats: bool = False
    ) -> None:
        if message and (pod.uid or pod.name):
            self._refusals.refused(line.ts_ns, line.evidence, pod, message, repeats=repeats)

    def _checkpoint(self, item: Item) -> Facts:
        assert isinstance(item, Checkpoint)
        due = self.queue.release(item.ts_ns)
        self._checkpoints.checkpoint(item)
        return [*due, *self.queue.release(item.ts_ns)]

    def _api_event(self, item: Item) -> Facts:
        assert isinstance(item, ApiEvent)
        event = item.event
        about = event.get("involvedObject") or event.get("regarding") or {}
        if event.get("reason") in _REASONS and about.get("kind") == "Pod":
            pod = PodName(about.get("namespace"), about.get("name"), about.get("uid"))
            message = str(event.get("message") or event.get("note") or "")
            self._refusals.refused(item.ts_ns, item.evidence, pod, message, from_event=True)
        return self.queue.release(item.ts_ns)

    def _pod_list(self, item: Item) -> Facts:
        assert isinstance(item, PodList)
        for pod in item.pods:
            status = pod.get("status") or {}
            if status.get("reason") in _REASONS:
                message = str(status.get("message") or "")
                name = _pod_name(pod.get("metadata") or {})
                self._refusals.refused(
                    item.ts_ns, item.evidence, name, message, repeats=True, from_event=True
                )
        return self.queue.release(item.ts_ns)


def _pod_name(metadata: dict[str, Any]) -> PodName:
    """A pod of a list, by the UID that the kubelet uses."""
    uid = (metadata.get("annotations") or {}).get(_MIRROR_OF) or metadata.get("uid")
    return PodName(metadata.get("namespace"), metadata.get("name"), uid)
