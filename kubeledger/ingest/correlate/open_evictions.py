"""The evictions whose end is open, by pod."""

from __future__ import annotations

from kubeledger.ingest.correlate.entry import Entry
from kubeledger.ingest.correlate.eviction_facts import OpenEviction, Reclaim, chosen
from kubeledger.ingest.correlate.eviction_statuses import EvictionStatus
from kubeledger.ingest.correlate.holdback import Holdback
from kubeledger.ingest.correlate.pods import Pod
from kubeledger.ingest.messages.eviction_rounds import EvictionRounds
from kubeledger.ingest.sources.facts import Fact
from kubeledger.model.record import Evidence
from kubeledger.model.units import NS_PER_S

__all__ = ["KILL_WAIT_NS", "OpenEvictions"]

KILL_WAIT_NS = 30 * NS_PER_S
"""The kill is awaited before its success is logged."""
_EVENT_NS = NS_PER_S
"""An event of the API and the lines about the same thing are not further apart."""


class OpenEvictions:
    """Those of one bundle, of each pod the newest first.

    Of a pod several may be open: the manager's loop and the notifiers of memory thresholds each
    wait for the pod that they chose.

    Attributes:
        facts: pod -> the last eviction for which it was chosen since it was added.
    """

    def __init__(self, queue: Holdback) -> None:
        self.facts: dict[Pod, Fact] = {}
        self._queue = queue
        self._open: dict[Pod, list[OpenEviction]] = {}

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
            every,
            key=lambda each: abs(ts_ns - each.fact.ts_ns - each.patience_ns),
            default=None,
        )

    def open(
        self, pod: Pod, ts_ns: int, evidence: tuple[Evidence, ...], reclaim: Reclaim | None
    ) -> OpenEviction:
        """A pod is chosen; nothing says yet that it was evicted."""
        body = chosen(pod, reclaim)
        fact = Fact(ts_ns, body, evidence, reclaim.fact if reclaim is not None else None)
        waiting = self._queue.hold(fact, KILL_WAIT_NS)
        waiting.tentative = True
        eviction = OpenEviction(waiting, fact, reclaim)
        self._open[pod] = [eviction, *self._open.get(pod, ())]
        self.facts[pod] = fact
        return eviction

    def choose(
        self,
        pod: Pod,
        ts_ns: int,
        evidence: tuple[Evidence, ...],
        reclaim: Reclaim,
        rounds: EvictionRounds,
    ) -> None:
        """It is a pod's turn; an event about it may say that it was evicted, and for what."""
        reported = self.take_back(pod, ts_ns)
        eviction = self.open(pod, ts_ns, evidence, reclaim)
        if reported is not None:
            eviction.waiting.tentative = False
            eviction.explain(reported, rounds)

    def show(
        self, status: EvictionStatus, evidence: Evidence, rounds: EvictionRounds
    ) -> OpenEviction:
        """The API server shows an eviction."""
        eviction = self.open(status.pod, status.ts_ns, (evidence,), None)
        eviction.waiting.tentative = False
        eviction.explain(status.message, rounds)
        if status.ended_pod:
            eviction.learn(evicted=True)
        return eviction

    def is_recorded(self, pod: Pod, ts_ns: int) -> bool:
        """Whether lines of the log reported an eviction at that time."""
        newest, fact = self.of(pod), self.facts.get(pod)
        reported = fact is not None and abs(fact.ts_ns - ts_ns) <= _EVENT_NS
        return reported and not (newest is not None and newest.lineless)

    def close(self, pod: Pod, eviction: OpenEviction) -> None:
        """No more evidence of it will come."""
        left = [each for each in self._open.pop(pod, ()) if each is not eviction]
        if left:
            self._open[pod] = left

    def withdraw(self, pod: Pod, eviction: OpenEviction) -> None:
        """It was none."""
        self.close(pod, eviction)
        eviction.waiting.drop()
        self.facts.pop(pod, None)

    def drop_unexplained(self, now_ns: int) -> None:
        """A candidate of which nothing more was said was perhaps not evicted."""
        for pod, (eviction, *earlier) in list(self._open.items()):
            waiting = eviction.waiting
            if waiting.due_ns <= now_ns or waiting.fact is None:
                self.close(pod, eviction)
                if not earlier and waiting.tentative:
                    self.facts.pop(pod, None)

    def take_back(self, pod: Pod, ts_ns: int) -> str | None:
        """The message of the event that a line shows now, which is the fact's first."""
        events = [each for each in self._open.get(pod, ()) if each.lineless]
        event = min(events, key=lambda each: abs(each.fact.ts_ns - ts_ns), default=None)
        if event is None or abs(event.fact.ts_ns - ts_ns) > _EVENT_NS:
            return None
        self.withdraw(pod, event)
        return event.body.message

    def meant_by(self, pod: Pod, entry: Entry, message: str | None) -> OpenEviction | None:
        """Which of a pod's open evictions a line is about; it dates one that had no line yet."""
        newest = self.of(pod)
        if newest is None or not newest.lineless:
            return newest
        apart = {each: abs(each.fact.ts_ns - entry.ts_ns) for each in self._open[pod]}
        near = [each for each, ns in apart.items() if each.lineless and ns <= _EVENT_NS]
        if not near:
            return newest
        # The API server cuts a long message short, and up to 1.35 the event mangles one.
        meant = min(near, key=lambda each: (message not in (None, each.body.message), apart[each]))
        meant.fact.ts_ns, meant.lineless = min(meant.fact.ts_ns, entry.ts_ns), False
        return meant
