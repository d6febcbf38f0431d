"""Requests for devices and grants: in the log, and those that only checkpoints show.

The line before the Allocate call names all devices that the container will hold, those it
takes over from an init container included: a container that holds devices already gets
no new ones. But the call may fail, and nothing says that it went well. So a grant waits
for the next sign: another request of the same pod, a checkpoint written, or a refusal.
"""

from __future__ import annotations

from typing import Any

from kubeledger.ingest.correlate.assembler import reads, takes
from kubeledger.ingest.correlate.context import PodName
from kubeledger.ingest.correlate.device_model import (
    DeviceManagerModel,
    Holder,
    Holding,
    Numa,
    all_ids,
)
from kubeledger.ingest.correlate.entry import Entry
from kubeledger.ingest.correlate.holdback import Waiting, shown
from kubeledger.ingest.klog.forms import go_list, split_pod, strings_of
from kubeledger.ingest.sources.items import Checkpoint, Fact
from kubeledger.kubelet.kube.containermanager import MalformedCheckpointError
from kubeledger.model.bodies.devicemanager import (
    CheckpointRead,
    DevicesAllocated,
    DevicesReleased,
    DevicesReported,
)
from kubeledger.model.bodies.ledger import FindingReported
from kubeledger.model.patterns import regex
from kubeledger.model.record import Evidence
from kubeledger.model.units import NS_PER_S

_SETTLING_NS = 2 * NS_PER_S
"""A snapshot is named by a whole second and takes a moment to be made."""


class CheckpointItems:
    """Handlers of checkpoint items."""

    def __init__(self, model: DeviceManagerModel) -> None:
        self._model = model
        self._raw: bytes | None = None
        self._body: CheckpointRead | None = None
        self._reported: set[tuple[str, str]] = set()

    @takes(Checkpoint)
    def _checkpoint(self, item: Checkpoint) -> None:
        from kubeledger.kubelet.devicemanager.checkpoint import read_checkpoint

        if item.raw == self._raw:
            return
        self._raw = item.raw
        try:
            body = read_checkpoint(item.data)
        except MalformedCheckpointError as error:
            self._find(item, "malformed_checkpoint", f"not read: {error}")
            return
        if body == self._body:
            return
        before, self._body = self._body, body
        read = self._model.queue.add(shown(item, body))
        if body.checksum_ok is False:
            message = f"checksum {body.checksum} does not fit the content, which is not relied on"
            self._find(item, "checksum_mismatch", message)
            self._body = before
            return
        self._health(item, before, body, read)
        self._entries(item, body)

    def _health(
        self, item: Checkpoint, before: CheckpointRead | None, body: CheckpointRead, read: Fact
    ) -> None:
        """The registered lists hold healthy devices only: a change is a change of health.

        An empty list is that of a plugin that is away as well, so it says nothing.
        """
        old = before.registered if before is not None else {}
        for resource, ids in body.registered.items():
            if ids and old.get(resource) != ids:
                report = DevicesReported(resource=resource, healthy=len(ids), device_ids=ids)
                self._model.queue.add(shown(item, report, cause=read))

    def _entries(self, item: Checkpoint, body: CheckpointRead) -> None:
        for entry in body.entries:
            self._compare(item, (entry.pod_uid, entry.container, entry.resource), entry.numa)
        self._missing(
            item, {(each.pod_uid, each.container, each.resource) for each in body.entries}
        )

    def _compare(self, item: Checkpoint, holder: Holder, numa: Numa) -> None:
        devices = all_ids(numa)
        holdings = self._model.holdings
        holding = holdings.held.get(holder)
        if holding is None:
            asked = holder in self._model.requests
            if devices and (asked or not holdings.is_stale(holder, devices)):
                self._grant(item, holder, numa)
        elif holding.device_ids == devices:
            holding.in_checkpoint = True
        elif holding.in_checkpoint and self._may_be_anew(holder, holding):
            self._release(item, holder)
            self._grant(item, holder, numa)
        elif holding.disputed != devices:
            self._dispute(item, holder, holding, devices)

    def _may_be_anew(self, holder: Holder, holding: Holding) -> bool:
        """Whether the pod may have been admitted again since: only then its devices change."""
        since_ns = max(holding.since_ns, holding.confirmed_ns)
        pod = self._model.pods.with_uid(holder[0])
        if pod is not None and pod.added is not None:
            return pod.deleted is not None or pod.added.ts_ns > since_ns
        # Of a pod from a file, the next one may have the same UID.
        from_api = "-" in holder[0]
        return not from_api or (self._model.sync_loop.started_ns or 0) > since_ns

    def _grant(self, item: Checkpoint, holder: Holder, numa: Numa) -> None:
        nodes = None if "" in numa else numa
        devices = all_ids(numa)
        fact = self._model.grant(
            holder, devices, item.ts_ns, (item.evidence,), nodes, told_by="checkpoint"
        )
        self._model.holdings.held[holder].in_checkpoint = True
        self._model.queue.add(fact)

    def _dispute(
        self, item: Checkpoint, holder: Holder, holding: Holding, devices: tuple[str, ...]
    ) -> None:
        holding.disputed = devices
        uid, container, resource = holder
        before, believed = "the log gives", "the log is believed"
        if holding.in_checkpoint:
            before, believed = "all sources so far give", "what was recorded first is used"
        message = (
            f"{before} {resource} {', '.join(holding.device_ids)} to container {container} "
            f"of pod {uid}, the checkpoint {', '.join(devices)}; {believed}"
        )
        self._find(item, "contradiction", message, holding.evidence)

    def _missing(self, item: Checkpoint, seen: set[Holder]) -> None:
        """Entries that a later checkpoint has no more: their devices were given back."""
        gone = [
            holder
            for holder, holding in self._model.holdings.held.items()
            if holder not in seen
            and "/" not in holder[0]
            and (holding.in_checkpoint or holding.since_ns < item.ts_ns - _SETTLING_NS)
        ]
        for pod in sorted({holder[0] for holder in gone}):
            if set(self._model.holdings.of_pod(pod)) <= set(gone):
                self._model.holdings.release_pod(pod)
                body = DevicesReleased(pod_uid=pod, inferred=True)
                self._model.queue.add(shown(item, body))
            else:
                for holder in sorted(holder for holder in gone if holder[0] == pod):
                    self._release(item, holder)

    def _release(self, item: Checkpoint, holder: Holder) -> None:
        uid, container, resource = holder
        self._model.holdings.release(holder)
        body = DevicesReleased(pod_uid=uid, container=container, resource=resource, inferred=True)
        self._model.queue.add(shown(item, body))

    def _find(self, item: Checkpoint, finding: str, text: str, *more: Evidence) -> None:
        if (finding, text) in self._reported:
            return
        self._reported.add((finding, text))
        body = FindingReported(finding=finding, file=item.evidence.file, message=text)
        self._model.queue.add(shown(item, body, *more))


_CALL_NS = NS_PER_S
"""Between a request and its call the kubelet asks the plugin for its preference, at most."""

_CALL_WAIT_NS = 2 * NS_PER_S
_SAME_MOMENT_NS = 5 * NS_PER_S
_NODE = regex(r"(-?\d+):\[([^\]]*)\]")


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
        asked = self._caller(resource, name, container, entry.ts_ns)
        # A call for another resource than was asked for is reported as it stands.
        holder = asked and (*asked[:2], resource)
        if not (asked and holder and devices) or self._is_reported(holder, entry, devices):
            return
        request = self._model.requests.get(asked)
        if container is None and request and getattr(request.body, "needed", 0) != len(devices):
            return  # a call is for as many as its request: that of this one is not in the log
        numa, seen = self._model.checkpointed(holder, devices)
        fact = self._model.grant(holder, devices, entry.ts_ns, (entry.evidence, *seen), numa, name)
        fact.cause = fact.cause or self._model.requests.pop(asked, None)
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
