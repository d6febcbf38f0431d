"""The kubelet's API events (reasons), from its log and from the API server's event list.

Every event the kubelet sends passes its log, at verbosity 3 and above; the recorder then
counts repetitions, merges similar ones and drops what exceeds its budget, so the list is
lossy where the log is not. A log line that the list knows too becomes one fact with the
evidence of both. What the list counts beyond the log (a log that begins late, or is less
verbose) becomes a fact of its own, which says how many it stands for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from kubeledger.ingest.correlate.assembler import Assembler, Method, nothing
from kubeledger.ingest.correlate.context import BundleContext, IndexedEvent
from kubeledger.ingest.correlate.entry import Entry
from kubeledger.ingest.correlate.holdback import Waiting
from kubeledger.ingest.correlate.sandbox_images import removed_sandbox_image
from kubeledger.ingest.klog.sent_events import OCCURRED, SENT
from kubeledger.ingest.messages.heartbeat import HEARTBEAT
from kubeledger.ingest.sources.api_events import (
    COMBINED,
    ApiReason,
    EventKey,
    container_named,
    container_of,
    is_controllers,
    truncated,
)
from kubeledger.ingest.sources.facts import Fact, Facts
from kubeledger.ingest.sources.items import (
    ApiEvent,
    CgroupFiles,
    Item,
    PodList,
    ProbeCounters,
    StatsSummary,
)
from kubeledger.model.bodies.lifecycle import KubernetesEvent
from kubeledger.model.record import Evidence
from kubeledger.model.units import NS_PER_S

__all__ = ["ReasonAssembler"]

SETTLE_NS = 2 * NS_PER_S
"""How long a count waits for the log lines that it stands for."""
COVER_NS = NS_PER_S + NS_PER_S // 5
"""The log follows an event's time by less: that is cut to whole seconds, and the line is
written by another goroutine."""

_CONTAINER_LISTS = ("containers", "initContainers", "ephemeralContainers")


class _Occurrence(msgspec.Struct, frozen=True):
    """One time that the API server counted an event."""

    ts_ns: int
    api: ApiReason
    evidence: Evidence


class _Tally(msgspec.Struct):
    """How log lines and API counts of the same words stand against each other.

    Attributes:
        spare: log lines that no count has covered yet.
        last_line_ns: time of the newest log line.
        waiting: facts for counts that no log line has covered yet, oldest first.
        recent: what the API server counted and no log line has been matched with, of the
            newest second only.
    """

    spare: int = 0
    last_line_ns: int = 0
    waiting: list[Waiting] = []
    recent: list[_Occurrence] = []


class _Logged(msgspec.Struct, frozen=True, kw_only=True):
    """What a log line says."""

    kind: str
    namespace: str
    name: str
    type: str
    reason: str
    message: str
    field_path: object


class ReasonAssembler(Assembler):
    """One fact for each event in the log, and for what only the API server counted."""

    def __init__(self, context: BundleContext, removed_images: Sequence[Fact]) -> None:
        super().__init__(context)
        self._removed_images = removed_images
        self._tallies: dict[EventKey, _Tally] = {}
        self._counted: dict[str, int] = {}
        self._combined: dict[EventKey, IndexedEvent] = {}
        for key, event in context.events.items():
            if key[-1].startswith(COMBINED):
                self._combined[_similar(key)] = event

    def messages(self) -> Mapping[str, Method]:
        """Message -> method for structured lines."""
        # The reader makes an event of what was sent, if it shows one (``sent_events``).
        return {**dict.fromkeys((*HEARTBEAT, *SENT), nothing), OCCURRED: self._structured_event}

    def takes(self) -> Mapping[type, Callable[[Any], None]]:
        """Events; the others only show that time has passed: no fact waits for the next event."""
        return {
            **dict.fromkeys((CgroupFiles, PodList, ProbeCounters, StatsSummary), _time_passes),
            ApiEvent: self._api_event,
        }

    # The log ----------------------------------------------------------------------------

    def _structured_event(self, entry: Entry) -> Facts:
        values = entry.values
        namespace, name = _object_of(values.get("object"))
        logged = _Logged(
            kind=str(values.get("kind", "")),
            namespace=namespace,
            name=name,
            type=str(values.get("type", "")),
            reason=str(values.get("reason", "")),
            message=str(values.get("message", "")),
            field_path=values.get("fieldPath"),
        )
        return self._log_event_of(entry, logged, str(values.get("podUID") or ""))

    def _log_event_of(self, entry: Entry, logged: _Logged, uid: str) -> Facts:
        if logged.kind == "Pod" and uid:
            self.context.learn_uid(logged.namespace, logged.name, uid, entry.ts_ns, entry.evidence)
            return self._log_event(entry, logged, uid)
        return self._log_event(entry, logged)

    def _log_event(self, entry: Entry, logged: _Logged, uid: str | None = None) -> Facts:
        if is_controllers(logged.kind, logged.reason):
            return ()
        key, event = self._find(logged, entry.ts_ns)
        evidence = [entry.evidence]
        container = container_of(logged.field_path) or container_named(logged.message)
        count = None
        if event is not None:
            event.matched += 1
            count = event.count
            api, seen = self._match(key, event, entry.ts_ns)
            evidence += [*seen, *event.evidence[-1:]]
            if logged.kind == "Pod" and uid is None:
                uid = self.context.uid_of(logged.namespace, logged.name, entry.ts_ns) or api.pod_uid
            if container is None and (seen or self._is_only_container(uid, api, logged)):
                container = api.container
        elif logged.kind == "Pod" and uid is None:
            uid = self.context.uid_of(logged.namespace, logged.name, entry.ts_ns)
        body = KubernetesEvent(
            object_kind=logged.kind,
            namespace=logged.namespace,
            pod=logged.name,
            pod_uid=uid,
            container=container,
            type=logged.type,
            reason=logged.reason,
            message=logged.message,
            api_count=count,
        )
        # Not held back for the API's: those are few, and most of them never leave.
        cause = removed_sandbox_image(
            self.context, self._removed_images, logged.reason, logged.message, entry.ts_ns
        )
        return [Fact(entry.ts_ns, body, tuple(dict.fromkeys(evidence)), cause)]

    def _is_only_container(self, uid: str | None, api: ApiReason, logged: _Logged) -> bool:
        """The line can only be about the container of the API event.

        Old kubelets do not log which container an event is about, and what the API says of
        one container may have been said of another with the same words.
        """
        if api.container is None:
            return True
        spec = self.context.spec_of(uid)
        return sum(len(spec.get(kind) or ()) for kind in _CONTAINER_LISTS) == 1

    def _find(self, logged: _Logged, ts_ns: int) -> tuple[EventKey, IndexedEvent | None]:
        """The API event that says the same, if it got that far by then.

        A count covers all occurrences from its first to its last time, those included that
        the recorder dropped on the way; what is outside never got there.
        """
        if not self.context.events:
            return (logged.kind, logged.namespace, logged.name, logged.reason, logged.message), None
        for message in (logged.message, truncated(logged.message)):
            key = (logged.kind, logged.namespace, logged.name, logged.reason, message)
            event = self.context.events.get(key)
            if event is not None and _covers(event, ts_ns):
                return key, event
        key = _similar(key)
        event = self._combined.get(key)
        return key, event if event is not None and _covers(event, ts_ns) else None

    def _match(
        self, key: EventKey, event: IndexedEvent, ts_ns: int
    ) -> tuple[ApiReason, tuple[Evidence, ...]]:
        """Set the line against the counts; the very occurrence it reports, if it was seen."""
        tally = self._tallies.setdefault(key, _Tally())
        tally.last_line_ns = max(tally.last_line_ns, ts_ns)
        while tally.waiting and tally.waiting[0].fact is None:
            tally.waiting.pop(0)
        if tally.waiting:
            _take_one(tally.waiting[0])
        else:
            tally.spare += 1
        while tally.recent:
            seen = tally.recent.pop(0)
            if 0 <= ts_ns - seen.ts_ns < COVER_NS:
                return seen.api, (seen.evidence,)
        return ApiReason.read(event.event), ()

    # The API server ---------------------------------------------------------------------

    def _api_event(self, item: ApiEvent) -> None:
        api = ApiReason.read(item.event)
        message = api.key[-1]
        key = _similar(api.key) if message.startswith(COMBINED) else api.key
        tally = self._tallies.setdefault(key, _Tally())
        before = self._counted.get(api.object_id, 0)
        if api.count <= before:
            return
        if tally.recent and tally.recent[-1].ts_ns != item.ts_ns:
            tally.recent.clear()
        tally.recent.append(_Occurrence(item.ts_ns, api, item.evidence))
        self._counted[api.object_id] = api.count
        if not before and api.count == 1 and tally.last_line_ns < item.ts_ns:
            # A new series: lines before it belong to none, or to one that is over.
            tally.spare = 0
        new = api.count - before
        covered = min(new, tally.spare)
        tally.spare -= covered
        if new > covered:
            cause = removed_sandbox_image(
                self.context, self._removed_images, api.key[-2], message, item.ts_ns
            )
            body = self._body(api, new - covered, item.ts_ns)
            fact = Fact(item.ts_ns, body, (item.evidence,), cause)
            tally.waiting.append(self.queue.hold(fact, SETTLE_NS))

    def _body(self, api: ApiReason, count: int, ts_ns: int) -> KubernetesEvent:
        kind, namespace, name, reason, message = api.key
        uid = api.pod_uid
        if uid is None and kind == "Pod":
            uid = self.context.uid_of(namespace, name, ts_ns)
        return KubernetesEvent(
            object_kind=kind,
            namespace=namespace,
            pod=name,
            pod_uid=uid,
            container=api.container,
            type=api.type,
            reason=reason,
            message=message,
            count=count,
            api_count=api.count,
        )


def _time_passes(item: Item) -> None:
    """What waited long enough leaves."""


def _take_one(waiting: Waiting) -> None:
    """One occurrence less that only the API server reports."""
    assert waiting.fact is not None
    body = waiting.fact.body
    assert isinstance(body, KubernetesEvent)
    if body.count == 1:
        waiting.drop()
    else:
        waiting.learn(count=body.count - 1)


def _similar(key: EventKey) -> EventKey:
    """Key of the events that the recorder merges: the same but for the message."""
    return (*key[:-1], COMBINED)


def _covers(event: IndexedEvent, ts_ns: int) -> bool:
    return event.first_ts_ns <= ts_ns < event.last_ts_ns + COVER_NS


def _object_of(value: object) -> tuple[str, str]:
    """Namespace and name: ``ns/name``, ``name``, or klog's JSON form of the same."""
    if isinstance(value, dict):
        return str(value.get("namespace") or ""), str(value.get("name") or "")
    namespace, _, name = str(value or "").rpartition("/")
    return namespace, name
