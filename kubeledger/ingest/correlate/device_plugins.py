"""Device plugins in the log: they register, report devices, go away."""

from __future__ import annotations

import re

from kubeledger.ingest.correlate.assembler import Entry, reads
from kubeledger.ingest.correlate.device_model import DeviceManagerModel
from kubeledger.ingest.correlate.holdback import Waiting, shown
from kubeledger.model.bodies.devicemanager import DevicesReported, EndpointStopped, PluginRegistered

_DIAL_FAILED_RESOURCE = re.compile(r"ResourceName:([^,\s]+)")


class PluginLines:
    """Handlers of the lines about plugins; some lines do not name the resource."""

    def __init__(self, model: DeviceManagerModel) -> None:
        self._queue = model.queue
        self._registering: dict[str, Waiting[PluginRegistered]] = {}
        self._pushed: dict[str, Waiting[DevicesReported]] = {}
        self._stopping: dict[str, Waiting[EndpointStopped]] = {}

    @reads("Got registration request from device plugin with resource")
    def _registration_requested(self, entry: Entry) -> None:
        """A plugin calls Register; what follows shows whether it can be reached."""
        resource = _resource(entry)
        body = PluginRegistered(resource=resource)
        self._registering[resource] = self._queue.hold(shown(entry, body))

    @reads("Device plugin connected", "Registered endpoint")
    def _registered(self, entry: Entry) -> None:
        resource = _resource(entry)
        waiting = self._registering.pop(resource, None) if resource else self._latest()
        if waiting is not None:
            waiting.join(entry.evidence)
            waiting.settle()
        elif resource:
            self._queue.add(shown(entry, PluginRegistered(resource=resource)))

    @reads("Bad registration request from device plugin")
    def _registration_failed(self, entry: Entry) -> None:
        resource = _resource(entry)
        if not resource and (dialled := _DIAL_FAILED_RESOURCE.search(entry.line.message)):
            resource = dialled[1]
        waiting = self._registering.pop(resource, None) if resource else self._latest()
        if waiting is not None:
            waiting.drop()

    @reads("State pushed for device plugin")
    def _state_pushed(self, entry: Entry) -> None:
        """A plugin sent its list; newer versions count it in a second line."""
        resource, total = _resource(entry), entry.number("resourceCapacity")
        waiting = self._queue.hold(shown(entry, DevicesReported(resource=resource, total=total)))
        if total is None:
            waiting.settle()
        else:
            self._pushed[resource] = waiting

    @reads("Processed device updates for resource")
    def _updates_processed(self, entry: Entry) -> None:
        resource = _resource(entry)
        total, healthy = entry.number("totalCount"), entry.number("healthyCount")
        waiting = self._pushed.pop(resource, None)
        if waiting is None or not waiting.is_open:
            waiting = self._queue.hold(shown(entry, DevicesReported(resource=resource)))
        waiting.learn(total=total, healthy=healthy)
        waiting.join(entry.evidence)
        waiting.settle()

    @reads("listAndWatch ended unexpectedly for device plugin")
    def _watch_ended(self, entry: Entry) -> None:
        resource = _resource(entry)
        body = EndpointStopped(resource=resource, error=entry.get("err"))
        self._stopping[resource] = self._queue.hold(shown(entry, body))

    @reads("Mark all resources Unhealthy for resource")
    def _marked_unhealthy(self, entry: Entry) -> None:
        """Its devices count as unhealthy from now on: it was the live endpoint."""
        resource = _resource(entry)
        waiting = self._stopping.get(resource)
        if waiting is None or not waiting.is_open:
            body = EndpointStopped(resource=resource)
            self._stopping[resource] = self._queue.hold(shown(entry, body))
        else:
            waiting.join(entry.evidence)

    @reads("Endpoint became unhealthy")
    def _became_unhealthy(self, entry: Entry) -> None:
        """The end of an endpoint, logged for one that a new plugin has replaced as well.

        A replaced endpoint ends without its devices being marked: nothing changes then.
        """
        waiting = self._stopping.pop(_resource(entry), None)
        if waiting is None:
            return
        if any("Mark all resources" in (piece.text or "") for piece in waiting.fact.evidence):
            waiting.join(entry.evidence)
            waiting.settle()
        else:
            waiting.drop()

    def _latest(self) -> Waiting[PluginRegistered] | None:
        """The registration that is still open, if there is just one line it can belong to."""
        while self._registering:
            _, waiting = self._registering.popitem()
            if waiting.is_open:
                return waiting
        return None


def _resource(entry: Entry) -> str:
    return entry.text("resourceName")
