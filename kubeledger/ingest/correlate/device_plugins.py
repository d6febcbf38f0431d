"""Device plugins in the log: they register, report devices, go away."""

from __future__ import annotations

import re

from kubeledger.ingest.correlate.device_desk import DeviceDesk
from kubeledger.ingest.correlate.holdback import Waiting
from kubeledger.ingest.klog.line_values import integer, text_of
from kubeledger.ingest.sources.facts import Fact
from kubeledger.ingest.sources.items import LogLine
from kubeledger.model.bodies.devicemanager import DevicesReported, EndpointStopped, PluginRegistered

__all__ = ["PluginLines"]

_DIAL_FAILED_RESOURCE = re.compile(r"ResourceName:([^,\s]+)")


class PluginLines:
    """Handlers of the lines about plugins; ``resource`` is None where a line does not name it."""

    def __init__(self, desk: DeviceDesk) -> None:
        self._queue = desk.queue
        self._registering: dict[str, Waiting] = {}
        self._pushed: dict[str, Waiting] = {}
        self._stopping: dict[str, Waiting] = {}

    def registration_requested(self, line: LogLine, resource: str | None) -> None:
        """A plugin calls Register; what follows tells whether it can be reached."""
        if resource:
            fact = Fact(line.ts_ns, PluginRegistered(resource=resource), (line.evidence,))
            self._registering[resource] = self._queue.hold(fact)

    def registered(self, line: LogLine, resource: str | None) -> None:
        """The endpoint is in place."""
        waiting = self._registering.pop(resource, None) if resource else self._latest()
        if waiting is not None and waiting.fact is not None:
            waiting.join(line.evidence)
            waiting.settle()
        elif resource and waiting is None:
            self._queue.add(Fact(line.ts_ns, PluginRegistered(resource=resource), (line.evidence,)))

    def registration_failed(self, line: LogLine, resource: str | None) -> None:
        """The plugin was refused, or could not be reached."""
        if resource is None and (dialled := _DIAL_FAILED_RESOURCE.search(line.message)):
            resource = dialled[1]
        waiting = self._registering.pop(resource, None) if resource else self._latest()
        if waiting is not None:
            waiting.drop()

    def state_pushed(self, line: LogLine, resource: str | None) -> None:
        """A plugin sent its list; newer versions count it in a second line."""
        if not resource:
            return
        total = integer((line.values or {}).get("resourceCapacity"))
        fact = Fact(line.ts_ns, DevicesReported(resource=resource, total=total), (line.evidence,))
        if total is None:
            self._queue.add(fact)
        else:
            self._pushed[resource] = self._queue.hold(fact)

    def updates_processed(self, line: LogLine) -> None:
        """The counts of a list."""
        resource = text_of(line, "resourceName", "resource")
        if not resource:
            return
        values = line.values or {}
        body = DevicesReported(
            resource=resource,
            total=integer(values.get("totalCount")),
            healthy=integer(values.get("healthyCount")),
        )
        waiting = self._pushed.pop(resource, None)
        if waiting is not None and waiting.fact is not None:
            waiting.fact.body = body
            waiting.join(line.evidence)
            waiting.settle()
        else:
            self._queue.add(Fact(line.ts_ns, body, (line.evidence,)))

    def watch_ended(self, line: LogLine, resource: str | None, error: str | None) -> None:
        """The stream of a plugin broke."""
        if resource:
            fact = Fact(
                line.ts_ns, EndpointStopped(resource=resource, error=error), (line.evidence,)
            )
            self._stopping[resource] = self._queue.hold(fact)

    def marked_unhealthy(self, line: LogLine, resource: str | None) -> None:
        """Its devices count as unhealthy from now on: it was the live endpoint."""
        if not resource:
            return
        waiting = self._stopping.get(resource)
        if waiting is None or waiting.fact is None:
            fact = Fact(line.ts_ns, EndpointStopped(resource=resource), (line.evidence,))
            self._stopping[resource] = self._queue.hold(fact)
        else:
            waiting.join(line.evidence)

    def became_unhealthy(self, line: LogLine, resource: str | None) -> None:
        """The end of an endpoint, logged for one that a new plugin has replaced as well.

        A replaced endpoint ends without its devices being marked: nothing changes then.
        """
        waiting = self._stopping.pop(resource, None) if resource else None
        if waiting is None or waiting.fact is None:
            return
        if any("Mark all resources" in (piece.text or "") for piece in waiting.fact.evidence):
            waiting.join(line.evidence)
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
