"""Evictions: what the eviction manager did about a shortage, from all the lines about it.

A reclaim begins with ``attempting to reclaim``; then either what is unused suffices, or ``pods
ranked for eviction`` names the candidates, and the first that is not critical is killed at
once. Nothing else before its end is known at low verbosity, so it counts as evicted only when
something says so: its message, its event, a kill, the result. Evictions for local storage have
no reclaim. Whichever line comes first opens the fact, so it stands before the kills.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from kubeledger.ingest.correlate.assembler import Method
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.entry import Entry
from kubeledger.ingest.correlate.eviction_facts import OpenEviction, Reclaim
from kubeledger.ingest.correlate.eviction_messages import PressureConditions, message_in_statuses
from kubeledger.ingest.correlate.eviction_statuses import EvictionStatuses
from kubeledger.ingest.correlate.open_evictions import KILL_WAIT_NS, OpenEvictions
from kubeledger.ingest.correlate.pod_assembler import PodAssembler, Registers
from kubeledger.ingest.correlate.pods import Pod
from kubeledger.ingest.correlate.rejections import is_refusal
from kubeledger.ingest.messages.eviction_rounds import EvictionRounds
from kubeledger.ingest.sources.facts import Fact
from kubeledger.ingest.sources.items import ApiEvent, PodList
from kubeledger.model.bodies.eviction import (
    PodSpared,
    RankedPod,
    ReclaimAttempted,
)
from kubeledger.model.bodies.lifecycle import PodEvicted
from kubeledger.model.units import NS_PER_S, whole_number

__all__ = ["EvictionsAssembler"]

_THRESHOLD_KEYS = (("log",), ("signal",), ("quantity",), ("available", "resource"))
"""Up to 1.24 the available amount stands under ``resource``."""
_RECLAIM_WAIT_NS = 120 * NS_PER_S
"""Deleting what is unused takes its time."""


class EvictionsAssembler(PodAssembler):
    """Reclaims, pods evicted by the eviction manager, and the conditions that it reports."""

    def __init__(self, context: BundleContext, registers: Registers) -> None:
        super().__init__(context, registers)
        self._process = self._sync_loop.process
        self._rounds = EvictionRounds()
        self._conditions = PressureConditions()
        self._reclaim: Reclaim | None = None
        self._open = OpenEvictions(self.queue)
        self._statuses = EvictionStatuses(context, self._pods)

    def of(self, pod: Pod) -> Fact | None:
        """The eviction for which a pod was chosen since it was added."""
        return self._open.facts.get(pod)

    def forget(self, pod: Pod) -> None:
        """The pod is added again: what was decided about it before is over."""
        self._open.facts.pop(pod, None)

    # -- lines ------------------------------------------------------------------------------

    def messages(self) -> Mapping[str, Method]:
        """Messages since 1.21, and the event of 1.20."""
        manager: dict[str, Method] = {
            "synchronize housekeeping": self._begin,
            "threshold observed resource": self._met,
            "node conditions - observed": self._conditions.see_observed,
            "node conditions - transition period not met": self._conditions.see_reported,
            "no resources are starved": self._conclude_conditions,
            "attempting to reclaim": self._attempt,
            "able to reduce resource pressure without evicting pods.": self._relieved,
            "must evict pod(s) to reclaim": self._must,
            "eviction thresholds have been met, but no pods are active to evict": self._found_none,
            "pods ranked for eviction": self._rank,
            "cannot evict a critical pod": self._spare,
            "pod is evicted successfully": partial(self._done, True),
            "pod failed to evict": partial(self._done, False),
        }
        return {
            **{f"Eviction manager: {message}": method for message, method in manager.items()},
            "Evicting pod": self._evicting,
            "Event occurred": self._event,
            "Pod terminating with grace period": self._grace,
            "Killing container with a grace period override": self._grace,
            "Killing container with a grace period": self._grace,
        }

    def takes(self) -> Mapping[type, Callable[[Any], None]]:
        """What the API server shows."""
        return {ApiEvent: self._api_event, PodList: self._pod_list}

    def before(self, ts_ns: int, pid: int | None = None) -> None:
        """What ends with a kubelet process, and what waited too long."""
        if self._process != self._sync_loop.process:
            self._process = self._sync_loop.process
            self._rounds.restart(from_start=True)
            self._conditions.restart()
            self._reclaim = None
            self._open.drop_unexplained(ts_ns + KILL_WAIT_NS)
        self._open.drop_unexplained(ts_ns)

    # -- rounds and conditions ----------------------------------------------------------------

    def _begin(self, entry: Entry) -> None:
        self._add(self._conditions.begin(entry))
        self._rounds.begin(entry.ts_ns)
        self._reclaim = None

    def _conclude_conditions(self, entry: Entry) -> None:
        self._add(self._conditions.conclude(entry))

    def _met(self, entry: Entry) -> None:
        fields = (entry.text(*keys) for keys in _THRESHOLD_KEYS)
        self._rounds.note_threshold(entry.ts_ns, *fields)

    def _add(self, fact: Fact | None) -> None:
        if fact is not None:
            self.queue.add(fact)

    # -- the reclaim --------------------------------------------------------------------------

    def _attempt(self, entry: Entry) -> None:
        self._conclude_conditions(entry)
        resource = entry.text("resourceName")
        driver = self._rounds.driver(resource)
        body = ReclaimAttempted(
            resource=resource,
            signal=driver.signal,
            threshold=driver.threshold,
            threshold_kind=driver.kind,
            since_ts_ns=driver.since_ts_ns,
            observed=driver.observed,
        )
        self._open_reclaim(entry, body)

    def _open_reclaim(self, entry: Entry, body: ReclaimAttempted) -> Reclaim:
        if self._reclaim is not None:
            self._reclaim.waiting.settle()
        fact = Fact(entry.ts_ns, body, (entry.evidence,))
        waiting = self.queue.hold(fact, _RECLAIM_WAIT_NS)
        self._reclaim = Reclaim(waiting, fact)
        return self._reclaim

    def _must(self, entry: Entry) -> None:
        if self._reclaim is None:
            self._attempt(entry)
        elif self._reclaim.body.resource in (None, entry.text("resourceName")):
            self._reclaim.waiting.join(entry.evidence)

    def _relieved(self, entry: Entry) -> None:
        self._end(entry, "node_level")

    def _found_none(self, entry: Entry) -> None:
        self._end(entry, "nothing")

    def _end(self, entry: Entry, outcome: str) -> None:
        reclaim = self._reclaim or self._open_reclaim(entry, ReclaimAttempted(resource=None))
        reclaim.waiting.join(entry.evidence)
        reclaim.learn(outcome=outcome)
        reclaim.waiting.settle()
        self._reclaim = None

    def _rank(self, entry: Entry) -> None:
        reclaim, ranked = self._reclaim, entry.pods
        if reclaim is None or reclaim.ranked:
            reclaim = self._open_reclaim(entry, ReclaimAttempted(resource=None))
        reclaim.waiting.join(entry.evidence)
        reclaim.ranked, reclaim.ranked_ts_ns = ranked, entry.ts_ns
        pods = (self._pods.named(ref, entry) for ref in ranked)
        reclaim.learn(ranked=tuple(RankedPod(**pod.names) for pod in pods))
        self._next(entry, reclaim)

    def _next(self, entry: Entry, reclaim: Reclaim) -> None:
        if reclaim.tried < len(reclaim.ranked):
            pod = self._pods.named(reclaim.ranked[reclaim.tried], entry)
            reclaim.tried += 1
            evidence = reclaim.fact.evidence if reclaim.tried == 1 else (entry.evidence,)
            self._open.choose(pod, entry.ts_ns, evidence, reclaim, self._rounds)

    def _out_of_turn(self, pod: Pod, entry: Entry) -> None:
        """The pod that goes right after a ranking is the one evicted of it."""
        reclaim = self._reclaim
        if not (reclaim and reclaim.acts(entry.ts_ns)):
            return
        ranked = [self._pods.named(ref, entry) for ref in reclaim.ranked]
        tried = ranked[reclaim.tried - 1]
        first = self._open.of(tried)
        if pod in ranked and first is not None and first.waiting.tentative:
            self._open.withdraw(tried, first)
            reclaim.tried = ranked.index(pod) + 1
            self._open.choose(pod, entry.ts_ns, (entry.evidence,), reclaim, self._rounds)

    def _spare(self, entry: Entry) -> None:
        """A critical pod is left alone, and the next one is chosen."""
        pod, reclaim = self._pods.of(entry), self._reclaim
        if pod is None:
            return
        eviction = self._open.of(pod)
        if eviction is not None:
            self._open.withdraw(pod, eviction)
        cause = reclaim.fact if reclaim and reclaim.ranked else None
        self.queue.add(Fact(entry.ts_ns, PodSpared(**pod.names), (entry.evidence,), cause))
        if eviction is not None and reclaim is not None:
            self._next(entry, reclaim)

    # -- what became of it --------------------------------------------------------------------

    def _done(self, done: bool, entry: Entry) -> None:
        pod = self._pods.of(entry)
        if pod is None:
            return
        ended = self._open.ended(pod, entry.ts_ns, done=done)
        message = message_in_statuses(self.context.status_of(pod.uid))
        self._record(pod, entry, of=ended, evicted=done, message=message)
        ended = ended or self._open.of(pod)
        if ended is not None:
            ended.waiting.settle()
            self._open.close(pod, ended)

    def _evicting(self, entry: Entry) -> None:
        pod = self._pods.of(entry)
        if pod is None:
            return
        self._conclude_conditions(entry)
        newest = self._open.of(pod)
        if newest is None:
            self.forget(pod)
        if newest is None or newest.lineless:
            self._out_of_turn(pod, entry)
        self._record(pod, entry, message=entry.text("message") or None)

    def _event(self, entry: Entry) -> None:
        event = entry.event("Evicted")
        if event is not None:
            pod, admissions = self._pods.named(event.pod, entry), self._admissions
            is_refused = pod in admissions.undecided or pod in admissions.rejected
            if not is_refused or not is_refusal(event.reason, event.message):
                self._record(pod, entry, message=event.message)

    def _api_event(self, item: ApiEvent) -> None:
        status = self._statuses.of_event(item)
        if status is not None and not self._open.is_recorded(status.pod, status.ts_ns):
            self._open.show(status, item.evidence, self._rounds).lineless = True

    def _pod_list(self, item: PodList) -> None:
        for status in self._statuses.of_list(item):
            if self.of(status.pod) is None:
                self._open.show(status, item.evidence, self._rounds).waiting.settle()

    def _grace(self, entry: Entry) -> None:
        """The period that the first line about it shows; later ones are less what has passed."""
        pod = self._pods.of(entry)
        if pod is None:
            container = self._containers.get(entry.container_id)
            pod = None if container is None else container.pod
        eviction = self._open.of(pod) if pod is not None else None
        seconds = whole_number(entry.text("gracePeriod"))
        if eviction is None or seconds is None or eviction.waiting.fact is None:
            return
        if eviction.body.grace_period_s is None:
            eviction.learn(grace_period_s=seconds)
            eviction.waiting.tentative = False

    # -- the fact -----------------------------------------------------------------------------

    def _record(
        self,
        pod: Pod,
        entry: Entry,
        *,
        of: OpenEviction | None = None,
        message: str | None = None,
        evicted: bool | None = None,
    ) -> None:
        """Note what a line shows of an eviction; its first line opens the fact."""
        eviction = of or self._open.meant_by(pod, entry, message)
        if eviction is None and self.of(pod) is not None:
            return  # all of it was reported
        eviction = eviction or self._open.open(pod, entry.ts_ns, (entry.evidence,), None)
        eviction.waiting.tentative = False
        if eviction.reclaim is not None:
            eviction.reclaim.learn(outcome="evicting")
        fact = eviction.waiting.fact
        if fact is None or not isinstance(fact.body, PodEvicted):
            return
        eviction.waiting.join(entry.evidence)
        words = not (eviction.worded or of) or fact.body.message is None
        if words and message is not None:
            eviction.waiting.lead(entry.evidence)
            eviction.explain(message, self._rounds)
            eviction.worded = True
        if evicted is not None:
            eviction.learn(evicted=evicted)
        if eviction.reclaim is not None:
            eviction.reclaim.waiting.settle()
