"""The kubelet's API events (reasons), from its log and from the API server's event list.

Every event the kubelet sends passes its log, at verbosity 3 and above; the recorder then
counts repetitions, merges similar ones and drops what exceeds its budget, so the list is
lossy where the log is not. A log line that the list knows too becomes one fact with the
evidence of both. What the list counts beyond the log (a log that begins late, or is less
verbose) becomes a fact of its own, which says how many it stands for.
"""

from __future__ import annotations

import msgspec

from kubeledger.ingest.correlate.assembler import Assembler, reads, takes
from kubeledger.ingest.correlate.context import IndexedEvent
from kubeledger.ingest.correlate.entry import Entry
from kubeledger.ingest.correlate.holdback import Waiting, shown
from kubeledger.ingest.correlate.registers import Registers
from kubeledger.ingest.klog.sent_events import OCCURRED, SENT
from kubeledger.ingest.messages.noise import HEARTBEAT
from kubeledger.ingest.sources.items import (
    ApiEvent,
    CgroupFiles,
    Fact,
    Facts,
    FirstEvent,
    Item,
    PodList,
    ProbeCounters,
    StatsSummary,
)
from kubeledger.ingest.sources.shapes import (
    COMBINED,
    ApiReason,
    EventKey,
    container_named,
    container_of,
    is_controllers,
    truncated,
)
from kubeledger.kubelet.lifecycle.disputes import Dispute
from kubeledger.model.bodies.images import ImageDeleted
from kubeledger.model.bodies.lifecycle import KubernetesEvent
from kubeledger.model.patterns import regex
from kubeledger.model.record import Evidence
from kubeledger.model.units import NS_PER_S

SETTLE_NS = 2 * NS_PER_S
"""How long a count waits for the log lines that it stands for."""
COVER_NS = NS_PER_S + NS_PER_S // 5
"""The log follows an event's time by less: that is cut to whole seconds, and the line is
written by another goroutine."""

_NAMED_NS = NS_PER_S // 20
"""The name of an event has the time at which it was made; its line follows at once."""
_IN_POD = regex(r" in pod \S+_\S+\((?P<uid>[0-9a-f-]{32,36})\)$")
_SANDBOX_FAILED = "FailedCreatePodSandBox"
_SANDBOX_IMAGE = regex(
    r"(?:failed to get sandbox image|failed pulling image|unable to pull image) "
    r"\\?\"(?P<image>[^\"\\]+)"
    r"|initializing source docker://(?P<source>[^\s:]+:[^\s:]+)"
)


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
    waiting: list[Waiting[KubernetesEvent]] = []
    recent: list[_Occurrence] = []


class ReasonAssembler(Assembler):
    """One fact for each event in the log, and for what only the API server counted.

    Items of other kinds only show that time has passed: no fact waits for the next event.
    """

    # The reader makes an event of what was sent, if it shows one (``sent_events``).
    time_passes = (*HEARTBEAT, *SENT)

    def __init__(self, registers: Registers) -> None:
        super().__init__(registers)
        self._tallies: dict[EventKey, _Tally] = {}
        self._counted: dict[str, int] = {}
        self._combined: dict[EventKey, IndexedEvent] = {}
        # By what the object says but for type and reason.
        self._made: dict[tuple[str, ...], list[tuple[ApiReason, Evidence]]] = {}
        for key, event in self.context.events.items():
            told = event.event, event.evidence[-1]
            self._made.setdefault((*key[:3], key[-1]), []).append(told)
            if key[-1].startswith(COMBINED):
                self._combined[_similar(key)] = event

    @takes(CgroupFiles, PodList, ProbeCounters, StatsSummary)
    def _time_passes(self, item: Item) -> None:
        """What waited long enough leaves."""

    # The log ----------------------------------------------------------------------------

    @reads(OCCURRED)
    def _logged(self, entry: Entry) -> Facts:
        values = entry.values
        kind, type_, reason, message = (
            str(values.get(key) or "") for key in ("kind", "type", "reason", "message")
        )
        namespace, name = _object_of(values.get("object"))
        uid = (str(values.get("podUID") or "") if kind == "Pod" else "") or None
        if uid is not None:
            self.context.learn_uid(namespace, name, uid, entry.ts_ns, entry.evidence)
        if is_controllers(kind, reason):
            return ()
        key, event = self._find((kind, namespace, name, reason, message), entry.ts_ns)
        evidence: tuple[Evidence, ...] = ()
        container = container_of(values.get("fieldPath")) or container_named(message)
        if uid is None and kind == "Pod":
            uid = self.context.uid_of(namespace, name, entry.ts_ns)
        if event is not None:
            api, seen = self._match(key, event, entry.ts_ns)
            evidence = (*seen, *event.evidence[-1:])
            uid = uid or (api.pod_uid if kind == "Pod" else None)
            if container is None and (seen or self._is_only_container(uid, api)):
                container = api.container
        body = KubernetesEvent(
            object_kind=kind,
            namespace=namespace,
            pod=name,
            pod_uid=uid,
            container=container,
            type=type_,
            reason=reason,
            message=message,
            api_count=None if event is None else event.count,
        )
        # Not held back for the API's: those are few, and most of them never leave.
        cause = self._removed_sandbox_image(reason, message, entry.ts_ns)
        every = dict.fromkeys((entry.evidence, *evidence))
        return [Fact(entry.ts_ns, body, tuple(every), cause), *self._disputed(entry, body)]

    def _disputed(self, entry: Entry, body: KubernetesEvent) -> Facts:
        """Where the line denies itself, or the event object that was made at its very time."""
        named = body.namespace, body.pod
        about = f"pod/{body.namespace}/{body.pod}"
        found, own = _IN_POD.search(body.message), self.context.uids_by_name.get(named, ())
        other = self.context.name_of(None if found is None else found["uid"])
        if found is not None and own and found["uid"] not in own and None not in other:
            why, of = f"an event {body.reason} is of another pod than its words", "/".join(named)
            dispute = Dispute(about, why, "/".join(map(str, other)), of)
            yield shown(entry, dispute.in_file(entry.evidence.file))
        said = (body.object_kind, *named, truncated(body.message))
        for api, evidence in self._made.get(said, ()):
            is_then = 0 <= entry.ts_ns - (api.named_ns or 0) < _NAMED_NS
            here, elsewhere = (body.type, body.reason), (api.type, api.key[-2])
            if body.object_kind == "Pod" and is_then and here != elsewhere:
                why = "an event object and the line with its words, of its time, differ"
                dispute = Dispute(about, why, " ".join(here), " ".join(elsewhere))
                yield shown(entry, dispute.in_file(entry.evidence.file), evidence)

    def _is_only_container(self, uid: str | None, api: ApiReason) -> bool:
        """The line can only be about the container of the API event.

        Old kubelets do not log which container an event is about, and what the API says of
        one container may have been said of another with the same words.
        """
        if api.container is None:
            return True
        return len(self.context.containers_of(uid)) == 1

    def _find(self, said: EventKey, ts_ns: int) -> tuple[EventKey, IndexedEvent | None]:
        """The API event that says the same, if it got that far by then.

        A count covers all occurrences from its first to its last time, those included that
        the recorder dropped on the way; what is outside never got there.
        """
        if not self.context.events:
            return said, None
        for message in (said[-1], truncated(said[-1])):
            key = (*said[:-1], message)
            event = self.context.events.get(key)
            if event is not None and _covers(event, ts_ns):
                return key, event
        key = _similar(said)
        event = self._combined.get(key)
        return key, event if event is not None and _covers(event, ts_ns) else None

    def _match(
        self, key: EventKey, event: IndexedEvent, ts_ns: int
    ) -> tuple[ApiReason, tuple[Evidence, ...]]:
        """Set the line against the counts; the very occurrence it reports, if it was seen."""
        tally = self._tallies.setdefault(key, _Tally())
        tally.last_line_ns = max(tally.last_line_ns, ts_ns)
        while tally.waiting and not tally.waiting[0].is_open:
            tally.waiting.pop(0)
        if tally.waiting:
            _take_one(tally.waiting[0])
        else:
            tally.spare += 1
        while tally.recent:
            seen = tally.recent.pop(0)
            if 0 <= ts_ns - seen.ts_ns < COVER_NS:
                return seen.api, (seen.evidence,)
        return event.event, ()

    # The API server ---------------------------------------------------------------------

    @takes(FirstEvent)
    def _first(self, item: FirstEvent) -> None:
        """A list without a log shows since when, too: the log's lines show more than that."""
        api = item.event
        is_told = self.context.logged_until_ns is not None or self._counted.get(api.object_id)
        if api.count > 1 and not is_told:
            self._counted[api.object_id] = 1
            body = self._body(msgspec.structs.replace(api, count=1), 1, item.ts_ns)
            self.queue.add(shown(item, body))

    @takes(ApiEvent)
    def _api_event(self, item: ApiEvent) -> None:
        api = item.event
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
            cause = self._removed_sandbox_image(api.key[-2], message, item.ts_ns)
            body = self._body(api, new - covered, item.ts_ns)
            tally.waiting.append(self.queue.hold(shown(item, body, cause=cause), SETTLE_NS))

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

    # The sandbox's image ----------------------------------------------------------------

    def _removed_sandbox_image(self, reason: str, message: str, ts_ns: int) -> Fact | None:
        """The removal that a failed sandbox goes back to; None where there is no such one.

        The kubelet counts images of containers as used, and the sandbox's only where the runtime
        pins it. So a collection may remove it, and then no pod starts until somebody pulls it. The
        failure names the image, the removal its ID: the node object shows the size that both have.
        """
        found = _SANDBOX_IMAGE.search(message) if reason == _SANDBOX_FAILED else None
        sizes = self.context.image_sizes
        size = None if found is None else sizes.get(found["image"] or found["source"])
        if size is None or list(sizes.values()).count(size) > 1:
            return None
        for fact in reversed(self.registers.removed_images):
            body = fact.body
            if fact.ts_ns <= ts_ns and isinstance(body, ImageDeleted) and body.size_bytes == size:
                return fact
        return None


def _take_one(waiting: Waiting[KubernetesEvent]) -> None:
    """One occurrence less that only the API server reports."""
    if waiting.body.count == 1:
        waiting.drop()
    else:
        waiting.learn(count=waiting.body.count - 1)


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
