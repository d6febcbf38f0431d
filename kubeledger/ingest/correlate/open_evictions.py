"""Reclaims and evictions while their outcome is open, and what an evicted pod's message shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from kubeledger.ingest.correlate.assembler import reads
from kubeledger.ingest.correlate.entry import Entry
from kubeledger.ingest.correlate.holdback import Holdback, Waiting
from kubeledger.ingest.correlate.registers import Pod
from kubeledger.ingest.messages.evictions import Driver, EvictionRounds, amount_of, amounts_in
from kubeledger.ingest.messages.podref import PodRef
from kubeledger.ingest.sources.items import Fact
from kubeledger.model.bodies.eviction import NodeCondition, NodeConditionsChanged, ReclaimAttempted
from kubeledger.model.bodies.lifecycle import PodEvicted
from kubeledger.model.patterns import regex
from kubeledger.model.record import Evidence
from kubeledger.model.units import NS_PER_S

_CONDITION = regex(r"DiskPressure|MemoryPressure|PIDPressure")
_LOW = regex(r"The node was low on resource: ([^. ]+)\. ")
_LOCAL = (
    ("emptydirfs.limit", regex(r'Usage of EmptyDir volume ".*" exceeds the limit "(.*)"\. ')),
    (
        "ephemeralpodfs.limit",
        regex(r"Pod ephemeral local storage usage exceeds the total limit of \S+ (\S+)\. "),
    ),
    (
        "ephemeralcontainerfs.limit",
        regex(r'Container \S+ exceeded its local ephemeral storage limit "(.*)"\. '),
    ),
)
"""Signal of local storage -> the message, with the limit."""


def short_resource(message: str) -> str | None:
    """The resource that was short; None where the message does not say so."""
    match = _LOW.match(message)
    return match[1] if match else None


def exceeded_limit(message: str) -> tuple[str, int | None] | None:
    """Signal and limit of a pod that used too much local storage."""
    for signal, pattern in _LOCAL:
        if match := pattern.match(message):
            return signal, amount_of(match[1])
    return None


def messages_in_statuses(statuses: Sequence[dict[str, Any]]) -> list[str]:
    """The messages that pod lists show for a pod's evictions, each once."""
    reported: list[Any] = []
    for status in statuses:
        reported += [status] if status.get("reason") == "Evicted" else []
        reported += [each for each in status.get("conditions") or () if _is_disruption(each)]
    messages = (each.get("message") for each in reported)
    return list(dict.fromkeys(m for m in messages if isinstance(m, str) and is_eviction(m)))


def is_eviction(message: str) -> bool:
    """Whether these are the words of an eviction, not of a refusal for the same reason."""
    return bool(short_resource(message) or exceeded_limit(message))


def message_ended_by(status: dict[str, Any]) -> str | None:
    """The message of the eviction that ended a pod with this status.

    The kubelet reports a pod as evicted once its containers have stopped.
    """
    message = status.get("message")
    reported = (
        status.get("reason") == "Evicted" and isinstance(message, str) and is_eviction(message)
    )
    return message if reported else None


def _is_disruption(condition: Any) -> bool:  # noqa: ANN401 # decoded JSON
    return isinstance(condition, dict) and condition.get("type") == "DisruptionTarget"


class PressureConditions:
    """The conditions that each round shows, from verbosity 3; without a line there are none."""

    def __init__(self, queue: Holdback) -> None:
        self._queue = queue
        self.restart()

    def restart(self) -> None:
        """Another process: it has reported none yet."""
        self._observed: Entry | None = None
        self._reported: Entry | None = None
        self._conditions: tuple[NodeCondition, ...] = ()
        self._lasts_ns = 0
        self._concluded = True

    def begin(self, entry: Entry) -> None:
        """A round begins; what the one before reported counts, if it ended early."""
        if self._reported is not None:
            self.conclude(entry)
        self._concluded = False

    @reads("Eviction manager: node conditions - observed")
    def _see_observed(self, entry: Entry) -> None:
        self._observed = entry

    @reads("Eviction manager: node conditions - transition period not met")
    def _see_reported(self, entry: Entry) -> None:
        self._reported = entry

    @reads("Eviction manager: no resources are starved")
    def conclude(self, entry: Entry) -> None:
        """All of the round's conditions were reported: a fact, if they are others than before."""
        observed, self._observed = self._observed, None
        reported, self._reported = self._reported, None
        # What is observed is reported, and lasts; a store may keep one of equal lines of a second.
        is_lost = reported is None and (observed is not None or entry.ts_ns < self._lasts_ns)
        self._lasts_ns = self._lasts_ns if reported is None else reported.ts_ns + NS_PER_S
        conditions = self._conditions if is_lost else _conditions_in(reported)
        concluded, self._concluded = self._concluded, True
        if concluded or conditions == self._conditions:
            return
        self._conditions = conditions
        body = NodeConditionsChanged(conditions=conditions, observed=_conditions_in(observed))
        lines = [each for each in (reported, observed) if each is not None] or [entry]
        self._queue.add(Fact(entry.ts_ns, body, tuple(each.evidence for each in lines)))


def _conditions_in(entry: Entry | None) -> tuple[NodeCondition, ...]:
    if entry is None:
        return ()
    found = _CONDITION.findall(entry.get("nodeCondition") or entry.line.message)
    return tuple(cast(NodeCondition, name) for name in sorted(set(found)))


_RECLAIM_WAIT_NS = 120 * NS_PER_S
"""Deleting what is unused takes its time."""
KILL_WAIT_NS = 30 * NS_PER_S
"""The kill is awaited before its success is logged."""
_EVENT_NS = NS_PER_S
"""An event of the API and the lines about the same thing are not further apart."""
_AT_ONCE_NS = NS_PER_S // 10
_FROM_RECLAIM = ("resource", "signal", "threshold", "threshold_kind", "since_ts_ns", "observed")
"""What a reclaim shows of the evictions that it leads to."""


class Reclaim(Waiting[ReclaimAttempted]):
    """A reclaim whose outcome is open.

    Attributes:
        ranked: the candidates, logged at ``ranked_ts_ns``; the first ``tried`` had their turn.
    """

    def __init__(self, fact: Fact) -> None:
        super().__init__(fact, _RECLAIM_WAIT_NS)
        self.ranked: list[PodRef] = []
        self.ranked_ts_ns = self.tried = 0

    def acts(self, ts_ns: int) -> bool:
        """Whether it was ranked just before: the pod that is chosen is evicted at once."""
        return bool(self.ranked) and ts_ns - self.ranked_ts_ns <= _AT_ONCE_NS


class OpenEviction(Waiting[PodEvicted]):
    """An eviction whose end is open; tentative while only the ranking shows it.

    Attributes:
        lineless: only the API's event shows it so far.
        worded: a line of the log held the message.
        unsaid: the body without the message, where that may be another eviction's.
    """

    def __init__(self, fact: Fact, reclaim: Reclaim | None) -> None:
        super().__init__(fact, KILL_WAIT_NS)
        self.reclaim = reclaim
        self.tentative = True
        self.lineless = self.worded = False
        self.unsaid: PodEvicted | None = None

    @property
    def patience_ns(self) -> int:
        """How long killPodNow waits: 10 s, or half as long again as a grace period it was given."""
        body = self.body
        grace_s = body.grace_period_s if body.threshold_kind == "soft" else 0
        return max(10 * NS_PER_S, (grace_s or 0) * NS_PER_S * 3 // 2)

    def is_shown_by(self, message: str) -> bool | None:
        """Whether a message has the amounts that this eviction is known to rest on."""
        pairs = zip(amounts_in(message), (self.body.threshold, self.body.observed), strict=True)
        known = [one == other for one, other in pairs if None not in (one, other)]
        return all(known) if known else None

    def unsay(self) -> None:
        """Another eviction of the pod may be the one whose message its statuses show."""
        if self.unsaid is not None and self.is_open:
            self.fact.body = msgspec.structs.replace(self.unsaid, evicted=self.body.evicted)
            self.unsaid = None

    def explain(self, message: str, rounds: EvictionRounds) -> None:
        """Note the message, and what it shows of the threshold."""
        body = self.body
        limit = exceeded_limit(message)
        if limit is not None:
            signal, threshold = limit
            self.learn(
                message=message, signal=signal, threshold=threshold, threshold_kind="local_storage"
            )
            return
        low = short_resource(message)
        resource = body.resource or low
        driver = rounds.driver(resource, message) if low else Driver()
        fields = {
            "resource": resource,
            "signal": body.signal or driver.signal,
            "threshold": body.threshold if driver.threshold is None else driver.threshold,
            "threshold_kind": body.threshold_kind or driver.kind,
            "since_ts_ns": driver.since_ts_ns or body.since_ts_ns,
            "observed": body.observed if driver.observed is None else driver.observed,
        }
        self.learn(message=message, **fields)
        if self.reclaim is not None and self.unsaid is None:
            # What its own lines show of it counts for the reclaim.
            known = self.reclaim.body
            self.reclaim.learn(**{n: v for n, v in fields.items() if getattr(known, n) is None})


def _chosen(pod: Pod, reclaim: Reclaim | None) -> PodEvicted:
    """A pod that is to go, with what the reclaim shows of it."""
    body = PodEvicted(**pod.names, resource=None, message=None, evicted=None)
    if reclaim is None:
        return body
    fields = {field: getattr(reclaim.body, field) for field in _FROM_RECLAIM}
    return msgspec.structs.replace(body, **fields, rank=reclaim.tried)


class OpenEvictions:
    """Those of one bundle, of each pod the newest first.

    Of a pod several may be open: the manager's loop and the notifiers of memory thresholds each
    wait for the pod that they chose.
    """

    def __init__(self, queue: Holdback, rounds: EvictionRounds) -> None:
        self._queue = queue
        self._rounds = rounds
        self._open: dict[Pod, list[OpenEviction]] = {}
        self._every: dict[Pod, list[OpenEviction]] = {}

    def of(self, pod: Pod) -> OpenEviction | None:
        """The newest open eviction of a pod."""
        return next(iter(self._open.get(pod, ())), None)

    def ended(self, pod: Pod, ts_ns: int, *, done: bool) -> OpenEviction | None:
        """Which of a pod's open evictions a line about an end is of.

        All that wait for the pod get its end, the first one first. The wait that is
        given up is the one that lasted as long as its patience.
        """
        every = self._open.get(pod, [])
        # Of one second's events some are of what is still to come.
        every = [each for each in every if each.fact.ts_ns <= ts_ns] or every
        if done:
            return min(every, key=lambda each: each.fact.ts_ns, default=None)
        return min(
            every, key=lambda each: abs(ts_ns - each.fact.ts_ns - each.patience_ns), default=None
        )

    def open(
        self, pod: Pod, ts_ns: int, evidence: tuple[Evidence, ...], reclaim: Reclaim | None
    ) -> OpenEviction:
        """A pod is chosen; nothing says yet that it was evicted."""
        cause = reclaim.fact if reclaim is not None else None
        fact = Fact(ts_ns, _chosen(pod, reclaim), evidence, cause)
        eviction = self._queue.put(OpenEviction(fact, reclaim))
        self._open[pod] = [eviction, *self._open.get(pod, ())]
        for earlier in self._every.get(pod, ()):
            earlier.unsay()
        self._every.setdefault(pod, []).append(eviction)
        pod.evicted = fact
        return eviction

    def shown_of(self, pod: Pod, eviction: OpenEviction | None, messages: list[str]) -> str | None:
        """Which message of a pod's statuses is this eviction's; None where that is not known.

        A status has that of the eviction which came last before the pod's worker began to stop
        it, most often the first: of several only the amounts of their rounds tell which.
        Source: v1.30.1 pkg/kubelet/pod_workers.go acknowledgeTerminating
        """
        # One that only a ranking showed, and that left so, was none.
        every = [e for e in self._every.get(pod, ()) if e.is_open or not e.tentative]
        others = [each for each in every if each is not eviction]
        left = [each for each in messages if each not in {o.body.message for o in others}]
        if eviction is None:
            return next(iter(left), None)
        if fitting := [each for each in left if eviction.is_shown_by(each)]:
            return fitting[0]
        left = [each for each in left if eviction.is_shown_by(each) is None]
        is_only = len(left) == 1 and all(each.body.message for each in others)
        return left[0] if is_only else None

    def choose(
        self, pod: Pod, ts_ns: int, evidence: tuple[Evidence, ...], reclaim: Reclaim
    ) -> None:
        """It is a pod's turn; an event about it may say that it was evicted, and for what."""
        events = [each for each in self._open.get(pod, ()) if each.lineless]
        near = [each for each in events if abs(each.fact.ts_ns - ts_ns) <= _EVENT_NS]
        eviction = self.open(pod, ts_ns, evidence, reclaim)
        if near:
            # The event that a line shows now, which is the fact's first; of those of one second
            # the one with the round's amounts, else the first.
            apart = {each: abs(each.fact.ts_ns - ts_ns) for each in reversed(near)}
            shown = {each: eviction.is_shown_by(each.body.message or "") for each in near}
            event = min(apart, key=lambda each: (not shown[each], apart[each]))
            self.withdraw(pod, event)
            pod.evicted, eviction.tentative = eviction.fact, False
            eviction.explain(event.body.message or "", self._rounds)

    def show(self, pod: Pod, ts_ns: int, evidence: Evidence, message: str) -> OpenEviction:
        """The API server shows an eviction, but not whether the manager gave up waiting before."""
        eviction = self.open(pod, ts_ns, (evidence,), None)
        eviction.tentative = False
        eviction.explain(message, self._rounds)
        return eviction

    def is_recorded(self, pod: Pod, ts_ns: int) -> bool:
        """Whether lines of the log reported an eviction at that time."""
        newest, fact = self.of(pod), pod.evicted
        reported = fact is not None and abs(fact.ts_ns - ts_ns) <= _EVENT_NS
        return reported and not (newest is not None and newest.lineless)

    def close(self, pod: Pod, eviction: OpenEviction) -> None:
        """No more evidence of it will come."""
        left = [each for each in self._open.pop(pod, ()) if each is not eviction]
        if left:
            self._open[pod] = left

    def withdraw(self, pod: Pod, eviction: OpenEviction) -> None:
        self.close(pod, eviction)
        self._every[pod].remove(eviction)
        eviction.drop()
        pod.evicted = None

    def drop_unexplained(self, now_ns: int) -> None:
        """A candidate of which nothing more was said was perhaps not evicted."""
        for pod, (eviction, *earlier) in list(self._open.items()):
            if eviction.due_ns <= now_ns or not eviction.is_open:
                self.close(pod, eviction)
                if not earlier and eviction.tentative:
                    pod.evicted = None

    def meant_by(self, pod: Pod, entry: Entry, message: str | None) -> OpenEviction | None:
        """Which of a pod's open evictions a line is about; it dates one that had no line yet."""
        every = self._open.get(pod)
        if every is None:
            return None
        apart = {each: abs(each.fact.ts_ns - entry.ts_ns) for each in every}
        near = [each for each in every if each.lineless and apart[each] <= _EVENT_NS]
        shown, newest = {each: each.is_shown_by(message or "") for each in every}, every[0]
        fitting = [each for each in every if shown[each]]
        meant = next(iter(fitting), newest)
        if near and newest.lineless and not fitting:
            # The API server cuts a long message short, and up to 1.35 the event mangles one.
            meant = min(near, key=lambda e: (message not in (None, e.body.message), apart[e]))
        elif newest.worded and shown[meant] is False and apart[newest] > _EVENT_NS:
            pod.evicted = None  # the line is of another one, whose first lines are lost
            return None
        if meant in near:
            meant.fact.ts_ns, meant.lineless = min(meant.fact.ts_ns, entry.ts_ns), False
        return meant
