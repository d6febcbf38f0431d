"""From lines and checkpoints of the device manager to its observations and decisions.

Four parts share a model (queue, holdings, open requests): plugins, grants, refusals and
checkpoints. Texts of free text are those of 1.19 and 1.20, structured ones those of 1.21
to 1.36; where a message lost or gained keys on the way, it is read by the keys it has.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from kubeledger.ingest.correlate.assembler import Assembler, reads, reads_events, takes
from kubeledger.ingest.correlate.context import PodName, Subject
from kubeledger.ingest.correlate.device_grants import CheckpointItems, GrantLines
from kubeledger.ingest.correlate.device_model import DeviceManagerModel
from kubeledger.ingest.correlate.entry import Entry
from kubeledger.ingest.correlate.holdback import Seen, Waiting, shown
from kubeledger.ingest.correlate.registers import Registers
from kubeledger.ingest.correlate.survey import kubelet_uid
from kubeledger.ingest.klog.forms import split_pod
from kubeledger.ingest.messages.devices import DeviceError, device_error, is_topology_refusal
from kubeledger.ingest.messages.noise import HEARTBEAT
from kubeledger.ingest.sources.items import ApiEvent, Fact, PodList
from kubeledger.kubelet.lifecycle.disputes import Dispute
from kubeledger.model.bodies.devicemanager import (
    NO_HINTS,
    AllocationFailed,
    DevicesReported,
    EndpointStopped,
    PluginRegistered,
)
from kubeledger.model.patterns import regex
from kubeledger.model.record import Evidence
from kubeledger.model.units import NS_PER_S

_DIAL_FAILED_RESOURCE = regex(r"ResourceName:([^,\s]+)")


class PluginLines:
    """Handlers of the lines about plugins; some lines do not name the resource."""

    def __init__(self, model: DeviceManagerModel) -> None:
        self._queue = model.queue
        self._registering: dict[str, Waiting[PluginRegistered]] = {}
        # With whether no other list of the resource was under way.
        self._pushed: dict[str, tuple[Waiting[DevicesReported], bool]] = {}
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
            before = self._pushed.get(resource)
            self._pushed[resource] = waiting, before is None or not before[0].is_open

    @reads("Processed device updates for resource")
    def _updates_processed(self, entry: Entry) -> None:
        resource = _resource(entry)
        total, healthy = entry.number("totalCount"), entry.number("healthyCount")
        waiting, is_alone = self._pushed.pop(resource, (None, False))
        if waiting is None or not waiting.is_open:
            waiting = self._queue.hold(shown(entry, DevicesReported(resource=resource)))
        elif is_alone and None not in (total, waiting.body.total) and total != waiting.body.total:
            here, elsewhere = (f"{each} devices" for each in (total, waiting.body.total))
            why = f"lines about one list of a plugin, of {resource}, count differently"
            dispute = Dispute("node", why, here, elsewhere).in_file(entry.evidence.file)
            self._queue.add(shown(entry, dispute, *waiting.fact.evidence))
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


# Pods that the device manager refused.
#
# A refusal stands in up to six lines and objects: the topology manager's result, the denied
# admission, the API event, the status updates, and the shortage that the device manager
# noticed while it made topology hints. The first of them opens the fact, the others join.

_REASONS = frozenset({"UnexpectedAdmissionError", "TopologyAffinityError"})
_REFUSAL = regex(
    r"(?:Allocate|Update plugin resources) failed due to .*?, which is unexpected"
    r"|Resources cannot be allocated with Topology locality",
    re.DOTALL,
)
_SAME_REFUSAL_NS = 5 * NS_PER_S
_EVENT_WAIT_NS = 2 * NS_PER_S
_SHORTAGE_LIFE_NS = 5 * NS_PER_S
_MAX_SHORTAGES = 64
_ToldBy = Literal["log", "event", "status"]


class _Shortage(msgspec.Struct):
    """Too few devices for topology hints."""

    seen: Seen
    error: DeviceError
    pod: PodName


class _Refusal(Waiting[AllocationFailed]):
    """The newest refusal of a pod."""

    def __init__(self, fact: Fact, error: str, *, from_event: bool) -> None:
        super().__init__(fact, _EVENT_WAIT_NS if from_event else NS_PER_S)
        self.error = error
        self.from_event = from_event

    def is_near(self, ts_ns: int) -> bool:
        return abs(ts_ns - self.fact.ts_ns) <= _SAME_REFUSAL_NS


class RefusalLines:
    """Handlers of what reports a refusal."""

    def __init__(self, model: DeviceManagerModel, grants: GrantLines) -> None:
        self._model = model
        self._grants = grants
        self._refusals: dict[str, _Refusal] = {}
        self._shortages: list[_Shortage] = []

    @reads("Unable to generate topology hints: requested number of devices unavailable")
    def _shortage(self, entry: Entry) -> None:
        error = DeviceError(
            error=NO_HINTS,
            container=entry.get("containerName"),
            resource=entry.get("resourceName"),
            requested=entry.number("request"),
            available=entry.number("available"),
        )
        alive = self._alive(entry.ts_ns)[-_MAX_SHORTAGES:]
        self._shortages = [*alive, _Shortage(entry, error, split_pod(entry.get("pod")))]

    def _alive(self, ts_ns: int) -> list[_Shortage]:
        return [s for s in self._shortages if ts_ns - s.seen.ts_ns <= _SHORTAGE_LIFE_NS]

    @reads("Pod admission denied", "Pod Admit Result")
    def _denied(self, entry: Entry) -> None:
        self._refused(entry, entry.subject, entry.text("message"))

    @reads_events(*_REASONS)
    def _event(self, entry: Entry) -> None:
        if entry.values.get("kind") == "Pod":
            self._refused(entry, entry.event_subject, entry.text("message"))

    @reads("Status shows a refusal")
    def _status_refusal(self, entry: Entry) -> None:
        self._refused(entry, entry.subject, entry.text("message"), repeats=True)

    @reads(
        "Patch status for pod",
        "Status for pod updated successfully",
        "Status Manager: adding pod",
        "Status Manager: syncing pod",
    )
    def _status(self, entry: Entry) -> None:
        found = _REFUSAL.search(entry.text("patch")) or _REFUSAL.search(entry.text("status"))
        if found is not None:
            self._refused(entry, entry.subject, found[0], repeats=True)

    @takes(ApiEvent)
    def _api_event(self, item: ApiEvent) -> None:
        kind, namespace, name, reason, message = item.event.key
        if kind == "Pod" and reason in _REASONS:
            pod = Subject(namespace or None, name or None, item.event.pod_uid)
            self._refused(item, pod, message, from_event=True)

    @takes(PodList)
    def _pod_list(self, item: PodList) -> None:
        for pod in item.pods:
            status, metadata = pod.get("status") or {}, pod.get("metadata") or {}
            if status.get("reason") in _REASONS:
                who = Subject(metadata.get("namespace"), metadata.get("name"), kubelet_uid(pod))
                message = str(status.get("message") or "")
                self._refused(item, who, message, repeats=True, from_event=True)

    def _refused(
        self,
        seen: Seen,
        pod: Subject,
        message: str,
        *,
        repeats: bool = False,
        from_event: bool = False,
    ) -> None:
        """A source says that a pod was refused.

        Args:
            seen: the source.
            pod: the pod, as far as the source names it.
            message: the admission message; one that is not about devices is ignored.
            repeats: the source repeats an old refusal (a status), so a later one is no news.
            from_event: the time is one of whole seconds, so a log line may still follow.
        """
        error, ts_ns = device_error(message), seen.ts_ns
        if not (pod.uid or pod.pod) or (error is None and not is_topology_refusal(message)):
            return
        pod = self._complete(pod, ts_ns)
        told_by: _ToldBy = "log"
        if from_event:
            told_by = "status" if repeats else "event"
        text = error.error if error is not None else NO_HINTS
        previous = self._refusals.get(_key(pod))
        if previous is not None and previous.error == text:
            near = previous.is_near(ts_ns)
            if near and previous.from_event and previous.is_open and not from_event:
                # The log's own line takes the place of an event, whose time is less exact.
                previous.drop()
                opened = self._open(seen, pod, error, told_by)
                if opened is not None:
                    opened.join(*previous.fact.evidence)
                return
            if near or repeats or from_event:
                previous.join(seen.evidence)
                return
        elif previous is not None and not from_event and self._is_same(previous, pod, ts_ns):
            # A pod is refused once an admission: other words for it are no other refusal.
            previous.join(seen.evidence)
            return
        self._open(seen, pod, error, told_by)

    def _is_same(self, previous: _Refusal, pod: Subject, ts_ns: int) -> bool:
        """Whether the log repeats a refusal that it has just reported."""
        if previous.from_event or not previous.is_near(ts_ns):
            return False
        known = self._model.pods.with_uid(pod.uid)
        added = None if known is None else known.added
        return added is None or added.ts_ns <= previous.fact.ts_ns

    def _complete(self, pod: Subject, ts_ns: int) -> Subject:
        """With the UID; the names are those of the source, if it shows both."""
        known = self._model.context.completed(pod, ts_ns)
        names = pod if pod.namespace and pod.pod else known
        return Subject(names.namespace, names.pod, known.uid)

    def _open(
        self, seen: Seen, pod: Subject, error: DeviceError | None, told_by: _ToldBy
    ) -> _Refusal | None:
        key = _key(pod)
        shortage = self._take_shortage(seen.ts_ns, pod, error)
        if error is None:
            if shortage is None:
                return None
            error = shortage.error
        hints = _other_counts(shortage, error)
        called = self._grants.call_failed(key) if error.undoes_call else None
        asking = called or self._model.asking.get(key)
        if asking is not None and error.resource not in (None, asking[2]):
            asking = None
        of_shortage = shortage.error.container if shortage is not None else None
        who = Subject(
            *(pod.namespace, pod.pod, pod.uid),
            error.container or (asking[1] if asking else of_shortage),
        )
        body = AllocationFailed(
            **who.names,
            resource=error.resource or (asking[2] if asking else None),
            requested=error.requested,
            available=error.available,
            hints_requested=hints[0],
            hints_available=hints[1],
            error=error.error,
            told_by=told_by,
        )
        short = (shortage.seen.evidence,) if shortage is not None else ()
        evidence = (*short, seen.evidence, *self._events_about(pod, error, seen.ts_ns))
        cause = self._model.requests.pop(asking, None) if asking else None
        fact = Fact(seen.ts_ns, body, evidence, cause)
        refusal = _Refusal(fact, error.error, from_event=told_by != "log")
        self._refusals[key] = self._model.queue.put(refusal)
        return refusal

    def _take_shortage(
        self, ts_ns: int, pod: Subject, error: DeviceError | None
    ) -> _Shortage | None:
        """The oldest shortage that can have led here, best one with the same counts."""
        fitting = [
            shortage
            for shortage in self._alive(ts_ns)
            if shortage.pod in ((None, None), (pod.namespace, pod.pod))
            and (error is None or error.resource == shortage.error.resource)
        ]
        same = [
            each for each in fitting if error is not None and _counts(error) == _counts(each.error)
        ]
        chosen = next(iter(same or fitting), None)
        if chosen is not None:
            self._shortages.remove(chosen)
        return chosen

    def _events_about(self, pod: Subject, error: DeviceError, ts_ns: int) -> tuple[Evidence, ...]:
        """The API server's event about this refusal, when the bundle has it."""
        message = f"Allocate failed due to {error.error}, which is unexpected"
        key = ("Pod", pod.namespace or "", pod.pod or "", "UnexpectedAdmissionError", message)
        event = self._model.context.events.get(key)
        if event is None or not (
            event.first_ts_ns - _SAME_REFUSAL_NS <= ts_ns <= event.last_ts_ns + _SAME_REFUSAL_NS
        ):
            return ()
        return event.evidence


def _other_counts(shortage: _Shortage | None, error: DeviceError) -> tuple[int | None, int | None]:
    """Counts of the line about hints, where the message has others."""
    if shortage is None or None in _counts(error):
        return None, None
    hints = _counts(shortage.error)
    return (None, None) if hints == _counts(error) else hints


def _counts(error: DeviceError) -> tuple[int | None, int | None]:
    return error.requested, error.available


def _key(pod: Subject) -> str:
    return pod.uid or f"{pod.namespace}/{pod.pod}"


class DeviceAssembler(Assembler):
    """Device plugins, allocations, refusals, releases and the checkpoints after them."""

    part_kinds = PluginLines, GrantLines, RefusalLines, CheckpointItems
    time_passes = HEARTBEAT

    def __init__(self, registers: Registers) -> None:
        super().__init__(registers)
        model = DeviceManagerModel(registers, self.queue)
        grants = GrantLines(model)
        refusals = RefusalLines(model, grants)
        self.parts = (PluginLines(model), grants, refusals, CheckpointItems(model))
