"""Pods that the device manager refused.

A refusal stands in up to six lines and objects: the topology manager's result, the denied
admission, the API event, the status updates, and the shortage that the device manager
noticed while it made topology hints. The first of them opens the fact, the others join.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from kubeledger.ingest.correlate.device_grants import GrantLines
from kubeledger.ingest.correlate.device_model import DeviceManagerModel
from kubeledger.ingest.correlate.entry import Entry
from kubeledger.ingest.correlate.holdback import Waiting
from kubeledger.ingest.klog.line_values import split_pod
from kubeledger.ingest.messages.device_errors import DeviceError, device_error, is_topology_refusal
from kubeledger.ingest.sources.facts import Fact
from kubeledger.model.bodies.devicemanager import NO_HINTS, AllocationFailed
from kubeledger.model.record import Evidence
from kubeledger.model.units import NS_PER_S

__all__ = ["PodName", "RefusalLines"]

_SAME_REFUSAL_NS = 5 * NS_PER_S
_EVENT_WAIT_NS = 2 * NS_PER_S
_SHORTAGE_LIFE_NS = 5 * NS_PER_S
_MAX_SHORTAGES = 64
_ToldBy = Literal["log", "event", "status"]


class PodName(msgspec.Struct, frozen=True):
    """A pod as far as a source names it."""

    namespace: str | None = None
    name: str | None = None
    uid: str | None = None


class _Shortage(msgspec.Struct):
    """Too few devices for topology hints."""

    ts_ns: int
    error: DeviceError
    pod: tuple[str | None, str | None]
    evidence: Evidence


class _Refusal(msgspec.Struct):
    """The newest refusal of a pod."""

    ts_ns: int
    error: str
    waiting: Waiting
    from_event: bool


class RefusalLines:
    """Handlers of what reports a refusal."""

    def __init__(self, model: DeviceManagerModel, grants: GrantLines) -> None:
        self._model = model
        self._grants = grants
        self._refusals: dict[str, _Refusal] = {}
        self._shortages: list[_Shortage] = []

    def shortage(self, entry: Entry) -> None:
        """The device manager cannot make hints."""
        resource = entry.get("resourceName")
        if not resource:
            return
        error = DeviceError(
            error=NO_HINTS,
            container=entry.get("containerName"),
            resource=resource,
            requested=entry.number("request"),
            available=entry.number("available"),
        )
        alive = [s for s in self._shortages if entry.ts_ns - s.ts_ns <= _SHORTAGE_LIFE_NS]
        pod = split_pod(entry.get("pod"))
        self._shortages = alive[-_MAX_SHORTAGES:]
        self._shortages.append(_Shortage(entry.ts_ns, error, pod, entry.evidence))

    def refused(
        self,
        ts_ns: int,
        evidence: Evidence,
        pod: PodName,
        message: str,
        *,
        repeats: bool = False,
        from_event: bool = False,
    ) -> None:
        """A source says that a pod was refused.

        Args:
            ts_ns: when it says so.
            evidence: where.
            pod: the pod, as far as the source names it.
            message: the admission message; one that is not about devices is ignored.
            repeats: the source repeats an old refusal (a status), so a later one is no news.
            from_event: the time is one of whole seconds, so a log line may still follow.
        """
        error = device_error(message)
        if error is None and not is_topology_refusal(message):
            return
        pod = self._complete(pod, ts_ns)
        told_by: _ToldBy = "log"
        if from_event:
            told_by = "status" if repeats else "event"
        key = pod.uid or f"{pod.namespace}/{pod.name}"
        text = error.error if error is not None else NO_HINTS
        previous = self._refusals.get(key)
        if previous is not None and previous.error == text:
            near = abs(ts_ns - previous.ts_ns) <= _SAME_REFUSAL_NS
            event = previous.waiting.fact if previous.from_event else None
            if near and event is not None and not from_event:
                # The log's own line takes the place of an event, whose time is less exact.
                previous.waiting.drop()
                opened = self._open(ts_ns, evidence, pod, error, told_by)
                if opened is not None:
                    opened.join(*event.evidence)
                return
            if near or repeats or from_event:
                previous.waiting.join(evidence)
                return
        elif previous is not None and not from_event and self._is_same(previous, pod, ts_ns):
            # A pod is refused once an admission: other words for it are no other refusal.
            previous.waiting.join(evidence)
            return
        self._open(ts_ns, evidence, pod, error, told_by)

    def _is_same(self, previous: _Refusal, pod: PodName, ts_ns: int) -> bool:
        """Whether the log repeats a refusal that it has just reported."""
        if previous.from_event or abs(ts_ns - previous.ts_ns) > _SAME_REFUSAL_NS:
            return False
        known = self._model.pods.with_uid(pod.uid)
        added = None if known is None else known.added
        return added is None or added.ts_ns <= previous.ts_ns

    def _complete(self, pod: PodName, ts_ns: int) -> PodName:
        uid, namespace, name = pod.uid, pod.namespace, pod.name
        if uid is None and namespace and name:
            uid = self._model.context.uid_of(namespace, name, ts_ns)
        if namespace is None or name is None:
            namespace, name = self._model.name_of(uid)
        return PodName(namespace, name, uid)

    def _open(
        self,
        ts_ns: int,
        evidence: Evidence,
        pod: PodName,
        error: DeviceError | None,
        told_by: _ToldBy,
    ) -> Waiting | None:
        key = pod.uid or f"{pod.namespace}/{pod.name}"
        shortage = self._take_shortage(ts_ns, pod, error)
        if error is None:
            if shortage is None:
                return None
            error = shortage.error
        hints = _other_counts(shortage, error)
        called = self._grants.call_failed(key) if error.undoes_call else None
        asking = called or self._model.asking.get(key)
        if asking is not None and error.resource not in (None, asking[2]):
            asking = None
        body = AllocationFailed(
            namespace=pod.namespace,
            pod=pod.name,
            pod_uid=pod.uid,
            container=error.container or (asking[1] if asking else self._container_of(shortage)),
            resource=error.resource or (asking[2] if asking else None),
            requested=error.requested,
            available=error.available,
            hints_requested=hints[0],
            hints_available=hints[1],
            error=error.error,
            told_by=told_by,
        )
        seen = (shortage.evidence,) if shortage is not None else ()
        cause = self._model.requests.pop(asking, None) if asking else None
        fact = Fact(ts_ns, body, (*seen, evidence, *self._event(pod, error, ts_ns)), cause)
        from_event = told_by != "log"
        waiting = self._model.queue.hold(fact, _EVENT_WAIT_NS if from_event else NS_PER_S)
        self._refusals[key] = _Refusal(ts_ns, error.error, waiting, from_event)
        return waiting

    def _take_shortage(
        self, ts_ns: int, pod: PodName, error: DeviceError | None
    ) -> _Shortage | None:
        """The oldest shortage that can have led here, best one with the same counts."""
        fitting = [
            shortage
            for shortage in self._shortages
            if ts_ns - shortage.ts_ns <= _SHORTAGE_LIFE_NS
            and shortage.pod in ((None, None), (pod.namespace, pod.name))
            and (error is None or error.resource == shortage.error.resource)
        ]
        if not fitting:
            return None
        same = [
            shortage
            for shortage in fitting
            if error is not None
            and (error.requested, error.available)
            == (shortage.error.requested, shortage.error.available)
        ]
        chosen = (same or fitting)[0]
        self._shortages.remove(chosen)
        return chosen

    def _container_of(self, shortage: _Shortage | None) -> str | None:
        return shortage.error.container if shortage is not None else None

    def _event(self, pod: PodName, error: DeviceError, ts_ns: int) -> tuple[Evidence, ...]:
        """The API server's event about this refusal, when the bundle has it."""
        message = f"Allocate failed due to {error.error}, which is unexpected"
        key = ("Pod", pod.namespace or "", pod.name or "", "UnexpectedAdmissionError", message)
        event = self._model.context.events.get(key)
        if event is None or not (
            event.first_ts_ns - _SAME_REFUSAL_NS <= ts_ns <= event.last_ts_ns + _SAME_REFUSAL_NS
        ):
            return ()
        return event.evidence


def _other_counts(shortage: _Shortage | None, error: DeviceError) -> tuple[int | None, int | None]:
    """Counts of the line about hints, where the message has others."""
    if shortage is None or None in (error.requested, error.available):
        return None, None
    hints = (shortage.error.requested, shortage.error.available)
    return (None, None) if hints == (error.requested, error.available) else hints
