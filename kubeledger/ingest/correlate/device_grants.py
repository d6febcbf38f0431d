"""Requests for devices and grants in the log.

The line before the Allocate call names all devices that the container will hold, those it
takes over from an init container included: a container that holds devices already gets
no new ones. But the call may fail, and nothing says that it went well. So a grant waits
for the next sign: another request of the same pod, a checkpoint written, or a refusal.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from kubeledger.ingest.correlate.assembler import Entry, reads
from kubeledger.ingest.correlate.context import PodName
from kubeledger.ingest.correlate.device_model import DeviceManagerModel, Holder, Numa, all_ids
from kubeledger.ingest.correlate.holdback import Waiting, shown
from kubeledger.ingest.klog.line_values import go_list, split_pod, strings_of
from kubeledger.model.bodies.devicemanager import DevicesAllocated, DevicesReleased
from kubeledger.model.units import NS_PER_S

_CALL_NS = NS_PER_S
"""Between a request and its call the kubelet asks the plugin for its preference, at most."""

_CALL_WAIT_NS = 2 * NS_PER_S
_SAME_MOMENT_NS = 5 * NS_PER_S
_NODE = re.compile(r"(-?\d+):\[([^\]]*)\]")


def numa_of(value: Any) -> Numa:  # noqa: ANN401 - any decoded value
    """``DevicesPerNUMA`` as a line shows it; the node is ``""`` in the flat form of 1.19."""
    if isinstance(value, dict):
        return {str(node): strings_of(ids) for node, ids in sorted(value.items())}
    text = str(value)
    if text.startswith("map["):
        return {match[1]: go_list(f"[{match[2]}]") for match in _NODE.finditer(text)}
    return {"": strings_of(value)}


class GrantLines:
    """Handlers of the lines about requests, grants, restored grants and releases."""

    def __init__(self, model: DeviceManagerModel) -> None:
        self._model = model
        self._calls: dict[str, tuple[Holder, Waiting[DevicesAllocated]]] = {}

    @reads("Need devices to allocate for pod")
    def _needs(self, entry: Entry) -> None:
        holder, needed = _holder(entry), entry.number("deviceNumber")
        if needed is None:
            return
        # The pod got as far as its next request: the call before it went well.
        if call := self._calls.pop(holder[0], None):
            call[1].settle()
        self._model.ask(holder, needed, entry)

    @reads("Making allocation request for device plugin")
    def _calls_plugin(self, entry: Entry) -> None:
        resource, devices = entry.text("resourceName"), strings_of(entry.values.get("devices"))
        name, container = split_pod(entry.get("pod")), entry.get("containerName")
        holder = self._caller(resource, name, container, entry.ts_ns)
        if holder is None or not devices or self._is_reported(holder, entry, devices):
            return
        numa, seen = self._model.checkpointed(holder, devices)
        fact = self._model.grant(holder, devices, entry.ts_ns, (entry.evidence, *seen), numa, name)
        if resource != holder[2] and isinstance(fact.body, DevicesAllocated):
            # The call is for another resource than was asked for: it is reported as it stands.
            fact.body = msgspec.structs.replace(fact.body, resource=resource)
        if seen:
            self._model.queue.add(fact)
        else:
            self._calls[holder[0]] = (holder, self._model.queue.hold(fact, _CALL_WAIT_NS))

    def _is_reported(self, holder: Holder, entry: Entry, devices: tuple[str, ...]) -> bool:
        """Whether the line stands twice in the log, or a checkpoint of its second showed it."""
        held = self._model.holdings.held.get(holder)
        if held is None or held.device_ids != devices:
            return False
        twice = held.since_ns == entry.ts_ns and held.evidence.text == entry.evidence.text
        return twice or (held.in_checkpoint and entry.ts_ns - held.since_ns < _SAME_MOMENT_NS)

    def _caller(
        self, resource: str, name: PodName, container: str | None, ts_ns: int
    ) -> Holder | None:
        """Who calls: the line shows it, or the request before it."""
        name_of = self._model.context.name_of
        asked = [
            holder
            for holder in reversed(self._model.requests)
            if container in (None, holder[1])
            and (name == (None, None) or name_of(holder[0]) in ((None, None), name))
        ]
        for holder in asked:
            if holder[2] == resource:
                return holder
        for holder in asked[:1]:
            # Each request is followed by its call: the one that just was is answered by this.
            if ts_ns - self._model.requests[holder].ts_ns <= _CALL_NS:
                return holder
        namespace, pod = name
        if namespace is None or pod is None or container is None:
            return None
        uid = self._model.context.uid_of(namespace, pod, ts_ns)
        return (uid or f"{namespace}/{pod}", container, resource)

    @reads("Checkpoint file written")
    def _checkpoint_written(self, entry: Entry) -> None:
        """The kubelet writes its checkpoint only after all calls for a container went well."""
        for _, waiting in self._calls.values():
            waiting.settle()
        self._calls.clear()

    def call_failed(self, pod: str) -> Holder | None:
        """The pod's last call gave nothing; shows whose it was."""
        call = self._calls.pop(pod, None)
        if call is None or not call[1].is_open:
            return None
        call[1].drop()
        self._model.holdings.undo(call[0])
        return call[0]

    @reads("Found pre-allocated devices for resource on pod")
    def _preallocated(self, entry: Entry) -> None:
        """Devices of an init container, or from before, are found again."""
        holder = _holder(entry)
        self._model.asking[holder[0]] = holder
        self._restore(entry, holder, {"": strings_of(entry.values.get("devices"))})

    @reads("Get checkpoint entry")
    def _restored(self, entry: Entry) -> None:
        self._restore(entry, _holder(entry), numa_of(entry.values.get("deviceIDs")))

    def _restore(self, entry: Entry, holder: Holder, numa: Numa) -> None:
        """What the kubelet remembers from before: a new fact only when nothing reported it yet."""
        devices = all_ids(numa)
        holdings = self._model.holdings
        held = holdings.held.get(holder)
        if held is not None and held.device_ids == devices:
            held.confirmed_ns = entry.ts_ns
        if held is not None or holdings.is_stale(holder, devices) or not devices:
            return
        known, seen = self._model.checkpointed(holder, devices)
        nodes = known if "" in numa else numa
        evidence = (entry.evidence, *seen)
        fact = self._model.grant(holder, devices, entry.ts_ns, evidence, nodes, told_by="restore")
        self._model.queue.add(fact)

    @reads("Pods to be removed")
    def _removed(self, entry: Entry) -> None:
        for uid in strings_of(entry.values.get("podUIDs")):
            if self._model.holdings.release_pod(uid):
                self._model.queue.add(shown(entry, DevicesReleased(pod_uid=uid)))


def _holder(entry: Entry) -> Holder:
    """Whom a line is about."""
    return entry.text("podUID"), entry.text("containerName"), entry.text("resourceName")
