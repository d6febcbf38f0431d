"""Device plugins in the log: they register, report devices, go away."""

from __future__ import annotations

import re

from kubeledger.ingest.correlate.device_model import DeviceManagerModel
from kubeledger.ingest.correlate.entry import Entry
from kubeledger.ingest.correlate.holdback import Waiting
from kubeledger.ingest.sources.facts import Fact
from kubeledger.model.bodies.devicemanager import DevicesReported, EndpointStopped, PluginRegistered

__all__ = ["PluginLines"]

_DIAL_FAILED_RESOURCE = re.compile(r"ResourceName:([^,\s]+)")


class PluginLines:
    """Handlers of the lines about plugins; some lines do not name the resource."""

    def __init__(self, model: DeviceManagerModel) -> None:
        self._queue = model.queue
        self._registering: dict[str, Waiting] = {}
        self._pushed: dict[str, Waiting] = {}
        self._stopping: dict[str, Waiting] = {}

    def registration_requested(self, entry: Entry) -> None:
        """A plugin calls Register; what follows shows whether it can be reached."""
        resource = _resource(entry)
        if resource:
            fact = Fact(entry.ts_ns, PluginRegistered(resource=resource), (entry.evidence,))
            self._registering[resource] = self._queue.hold(fact)

    def registered(self, entry: Entry) -> None:
        """The endpoint is in place."""
        resource = _resource(entry)
        waiting = self._registering.pop(resource, None) if resource else self._latest()
        if waiting is not None and waiting.fact is not None:
            waiting.join(entry.evidence)
            waiting.settle()
        elif resource and waiting is None:
            body = PluginRegistered(resource=resource)
            self._queue.add(Fact(entry.ts_ns, body, (entry.evidence,)))

    def registration_failed(self, entry: Entry) -> None:
        """The plugin was refused, or could not be reached."""
        resource = _resource(entry)
        if resource is None and (dialled := _DIAL_FAILED_RESOURCE.search(entry.line.message)):
            resource = dialled[1]
        waiting = self._registering.pop(resource, None) if resource else self._latest()
        if waiting is not None:
            waiting.drop()

    def state_pushed(self, entry: Entry) -> None:
        """A plugin sent its list; newer versions count it in a second line."""
        resource, total = _resource(entry), entry.number("resourceCapacity")
        if not resource:
            return
        fact = Fact(entry.ts_ns, DevicesReported(resource=resource, total=total), (entry.evidence,))
        if total is None:
            self._queue.add(fact)
        else:
            self._pushed[resource] = self._queue.hold(fact)

    def updates_processed(self, entry: Entry) -> None:
        """The counts of a list."""
        resource = _resource(entry)
        if not resource:
            return
        body = DevicesReported(
            resource=resource,
            total=entry.number("totalCount"),
            healthy=entry.number("healthyCount"),
        )
        waiting = self._pushed.pop(resource, None)
        if waiting is not None and waiting.fact is not None:
            waiting.fact.body = body
            waiting.join(entry.evidence)
            waiting.settle()
        else:
            self._queue.add(Fact(entry.ts_ns, body, (entry.evidence,)))

    def watch_ended(self, entry: Entry) -> None:
        """The stream of a plugin broke."""
        resource = _resource(entry)
        if resource:
            body = EndpointStopped(resource=resource, error=entry.get("err"))
            fact = Fact(entry.ts_ns, body, (entry.evidence,))
            self._stopping[resource] = self._queue.hold(fact)

    def marked_unhealthy(self, entry: Entry) -> None:
        """Its devices count as unhealthy from now on: it was the live endpoint."""
        resource = _resource(entry)
        if not resource:
            return
        waiting = self._stopping.get(resource)
        if waiting is None or waiting.fact is None:
            fact = Fact(entry.ts_ns, EndpointStopped(resource=resource), (entry.evidence,))
            self._stopping[resource] = self._queue.hold(fact)
        else:
            waiting.join(entry.evidence)

    def became_unhealthy(self, entry: Entry) -> None:
        """The end of an endpoint, logged for one that a new plugin has replaced as well.

        A replaced endpoint ends without its devices being marked: nothing changes then.
        """
        waiting = self._stopping.pop(_resource(entry) or "", None)
        if waiting is None or waiting.fact is None:
            return
        if any("Mark all resources" in (piece.text or "") for piece in waiting.fact.evidence):
            waiting.join(entry.evidence)
            waiting.settle()
        else:
            waiting.drop()

    def _latest(self) -> Waiting | None:
        """The registration that is still open, if there is just one line it can belong to."""
        while self._registering:
            _, waiting = self._registering.popitem()
            if waiting.fact is not None:
                return waiting
        return None


def _resource(entry: Entry) -> str | None:
    return entry.get("resourceName")
