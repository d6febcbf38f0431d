"""From lines and checkpoints of the device manager to its observations and decisions.

Four parts share a model (queue, holdings, open requests): plugins, grants, refusals and
checkpoints. Texts of free text are those of 1.19 and 1.20, structured ones those of 1.21
to 1.36; where a message lost or gained keys on the way, it is read by the keys it has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from kubeledger.ingest.correlate.assembler import Assembler, Method, nothing
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.device_checkpoints import CheckpointItems
from kubeledger.ingest.correlate.device_grants import GrantLines
from kubeledger.ingest.correlate.device_model import DeviceManagerModel
from kubeledger.ingest.correlate.device_plugins import PluginLines
from kubeledger.ingest.correlate.device_refusals import PodName, RefusalLines
from kubeledger.ingest.correlate.entry import Entry
from kubeledger.ingest.correlate.pods import Pods
from kubeledger.ingest.correlate.survey import kubelet_uid
from kubeledger.ingest.correlate.sync_loop import SyncLoop
from kubeledger.ingest.klog.line_values import split_pod, split_pod_text
from kubeledger.ingest.messages.heartbeat import HEARTBEAT
from kubeledger.ingest.sources.items import ApiEvent, Checkpoint, PodList

__all__ = ["DeviceAssembler"]

_REASONS = frozenset({"UnexpectedAdmissionError", "TopologyAffinityError"})
_REFUSAL = (
    r"(?P<message>(?:Allocate|Update plugin resources) failed due to .*?, which is unexpected"
    r"|Resources cannot be allocated with Topology locality)"
)


class DeviceAssembler(Assembler):
    """Device plugins, allocations, refusals, releases and the checkpoints behind them."""

    def __init__(self, context: BundleContext, pods: Pods, sync_loop: SyncLoop) -> None:
        super().__init__(context)
        model = DeviceManagerModel(context, self.queue, pods, sync_loop)
        self._plugins = PluginLines(model)
        self._grants = GrantLines(model)
        self._refusals = RefusalLines(model, self._grants)
        self._checkpoints = CheckpointItems(model)

    def messages(self) -> Mapping[str, Method]:
        """Message -> method for structured lines."""
        plugins, grants = self._plugins, self._grants
        return {
            **dict.fromkeys(HEARTBEAT, nothing),
            "Got registration request from device plugin with resource": (
                plugins.registration_requested
            ),
            "Bad registration request from device plugin": plugins.registration_failed,
            "Device plugin connected": plugins.registered,
            "Registered endpoint": plugins.registered,
            "State pushed for device plugin": plugins.state_pushed,
            "Processed device updates for resource": plugins.updates_processed,
            "listAndWatch ended unexpectedly for device plugin": plugins.watch_ended,
            "Mark all resources Unhealthy for resource": plugins.marked_unhealthy,
            "Endpoint became unhealthy": plugins.became_unhealthy,
            "Need devices to allocate for pod": grants.needs,
            "Making allocation request for device plugin": grants.calls_plugin,
            "Checkpoint file written": grants.checkpoint_written,
            "Found pre-allocated devices for resource on pod": grants.preallocated,
            "Get checkpoint entry": grants.restored,
            "Pods to be removed": grants.removed,
            "Unable to generate topology hints: requested number of devices unavailable": (
                self._refusals.shortage
            ),
            "Pod admission denied": self._denied,
            "Pod Admit Result": self._denied,
            "Event occurred": self._event,
            "Patch status for pod": self._status,
            "Status for pod updated successfully": self._status,
            "Status Manager: adding pod": self._status,
            "Status Manager: syncing pod": self._status,
            "Status shows a refusal": self._status_refusal,
        }

    def takes(self) -> Mapping[type, Callable[[Any], None]]:
        """Checkpoints, and what the API shows of refusals."""
        return {
            Checkpoint: self._checkpoints.checkpoint,
            ApiEvent: self._api_event,
            PodList: self._pod_list,
        }

    def _denied(self, entry: Entry) -> None:
        pod = PodName(*split_pod(entry.get("pod")), entry.get("podUID"))
        self._refused(entry, pod, entry.get("message"))

    def _event(self, entry: Entry) -> None:
        if entry.values.get("reason") in _REASONS and entry.values.get("kind") == "Pod":
            pod = PodName(*split_pod(entry.get("object")), entry.get("podUID"))
            self._refused(entry, pod, entry.get("message"))

    def _status_refusal(self, entry: Entry) -> None:
        pod = PodName(*split_pod_text(entry.text("pod")))
        self._refused(entry, pod, entry.get("message"), repeats=True)

    def _status(self, entry: Entry) -> None:
        found = (re.search(_REFUSAL, entry.text(key), re.DOTALL) for key in ("patch", "status"))
        message = next((match["message"] for match in found if match), None)
        namespace, name = split_pod(entry.get("pod"))
        pod = PodName(namespace, name, entry.get("podUID"))
        self._refused(entry, pod, message, repeats=True)

    def _refused(
        self, entry: Entry, pod: PodName, message: str | None, *, repeats: bool = False
    ) -> None:
        if message and (pod.uid or pod.name):
            self._refusals.refused(entry.ts_ns, entry.evidence, pod, message, repeats=repeats)

    def _api_event(self, item: ApiEvent) -> None:
        event = item.event
        about = event.get("involvedObject") or event.get("regarding") or {}
        if event.get("reason") in _REASONS and about.get("kind") == "Pod":
            pod = PodName(about.get("namespace"), about.get("name"), about.get("uid"))
            message = str(event.get("message") or event.get("note") or "")
            self._refusals.refused(item.ts_ns, item.evidence, pod, message, from_event=True)

    def _pod_list(self, item: PodList) -> None:
        for pod in item.pods:
            status, metadata = pod.get("status") or {}, pod.get("metadata") or {}
            if status.get("reason") in _REASONS:
                name = PodName(metadata.get("namespace"), metadata.get("name"), kubelet_uid(pod))
                message = str(status.get("message") or "")
                self._refusals.refused(
                    item.ts_ns, item.evidence, name, message, repeats=True, from_event=True
                )
