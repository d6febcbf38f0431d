"""Evictions: what the eviction manager did about a shortage, from all the lines about it.

A reclaim begins with ``attempting to reclaim``; then either what is unused suffices, or ``pods
ranked for eviction`` names the candidates, and the first that is not critical is killed at
once. Nothing else before its end is known at low verbosity, so it counts as evicted only when
something says so: its message, its event, a kill, the result. Evictions for local storage have
no reclaim. Whichever line comes first opens the fact, so it stands before the kills.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kubeledger.ingest.correlate.assembler import (
    Assembler,
    ItemHandler,
    StructuredHandler,
)
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.eviction_facts import OpenEviction, Reclaim
from kubeledger.ingest.correlate.eviction_messages import (
    PressureConditions,
    message_in_statuses,
)
from kubeledger.ingest.correlate.eviction_signs import EvictionSigns
from kubeledger.ingest.correlate.links import PodLink
from kubeledger.ingest.correlate.open_evictions import KILL_WAIT_NS, OpenEvictions
from kubeledger.ingest.correlate.rejections import is_refusal
from kubeledger.ingest.messages.eviction_rounds import EvictionRounds
from kubeledger.ingest.messages.podref import (
    PodRef,
    bare_container_id,
    event_line,
    pod_in,
    structured_pods,
    text_value,
)
from kubeledger.ingest.sources.facts import Fact, Facts
from kubeledger.ingest.sources.items import ApiEvent, Item, LogLine, PodList
from kubeledger.model.bodies.eviction import (
    PodSpared,
    RankedPod,
    ReclaimAttempted,
)
from kubeledger.model.bodies.lifecycle import PodEvicted
from kubeledger.model.units import NS_PER_S, whole_number

__all__ = ["EvictionsAssembler"]

_RESOURCE = "resourceName"
_RECLAIM_WAIT_NS = 120 * NS_PER_S
"""Deleting what is unused takes its time."""


class EvictionsAssembler(Assembler):
    """Reclaims, pods evicted by the eviction manager, and the conditions that it reports."""

    def __init__(self, context: BundleContext) -> None:
        super().__init__(context)
        self._links = context.links
        self._epoch = self._links.epoch
        self._rounds = EvictionRounds()
        self._conditions = PressureConditions()
        self._reclaim: Reclaim | None = None
        self._open = OpenEvictions(self._links)
        self._signs = EvictionSigns(context)

    # -- lines ------------------------------------------------------------------------------

    def structured(self) -> Mapping[str, StructuredHandler]:
        """Messages since 1.21, and the event of 1.20."""

        def nobody(line: LogLine) -> None:
            self._end(line, "nothing")

        manager: dict[str, Callable[[LogLine], None]] = {
            "synchronize housekeeping": self._begin,
            "threshold observed resource": lambda line: self._rounds.told_by(line),
            "node conditions - observed": lambda line: self._conditions.see_observed(line),
            "node conditions - transition period not met": (
                lambda line: self._conditions.see_reported(line)
            ),
            "no resources are starved": self._conclude_conditions,
            "attempting to reclaim": lambda line: self._attempt(line, text_value(line, _RESOURCE)),
            "able to reduce resource pressure without evicting pods.": lambda line: self._end(
                line, "node_level"
            ),
            "must evict pod(s) to reclaim": lambda line: self._must(
                line, text_value(line, _RESOURCE)
            ),
            "eviction thresholds have been met, but no pods are active to evict": nobody,
            "unable to evict any pods from the node": nobody,
            "pods ranked for eviction": lambda line: self._rank(
                line, structured_pods((line.values or {}).get("pods"))
            ),
            "cannot evict a critical pod": lambda line: self._spare(line, pod_in(line)),
            "pod is evicted successfully": lambda line: self._done(line, pod_in(line), True),
            "pod failed to evict": lambda line: self._done(line, pod_in(line), False),
        }
        methods = {f"Eviction manager: {message}": method for message, method in manager.items()}
        methods |= {"Evicting pod": self._evicting, "Event occurred": self._event}
        for message in (
            "Pod terminating with grace period",
            "Killing container with a grace period override",
            "Killing container with a grace period",
        ):
            methods[message] = self._grace
        return {message: self._releasing(method) for message, method in methods.items()}

    def items(self) -> Mapping[type, ItemHandler]:
        """Item type -> method."""
        return {ApiEvent: self._api_event, PodList: self._pod_list}

    def _releasing(self, method: Callable[[LogLine], None]) -> StructuredHandler:
        def handle(line: LogLine) -> Facts:
            self._follow(line)
            method(line)
            return self._links.queue.release(line.ts_ns)

        return handle

    def _follow(self, line: LogLine) -> None:
        """What ends with a kubelet process, and what waited too long."""
        if self._epoch != self._links.epoch:
            self._epoch = self._links.epoch
            self._rounds.restart(from_start=True)
            self._conditions = PressureConditions()
            self._reclaim = None
            self._open.drop_untold(line.ts_ns + KILL_WAIT_NS)
        self._open.drop_untold(line.ts_ns)

    def finish(self, ts_ns: int) -> Facts:
        """What still waited."""
        return self._links.queue.drain()

    # -- rounds and conditions ----------------------------------------------------------------

    def _begin(self, line: LogLine) -> None:
        self._add(self._conditions.begin(line))
        self._rounds.begin(line.ts_ns)
        self._reclaim = None

    def _conclude_conditions(self, line: LogLine) -> None:
        self._add(self._conditions.conclude(line))

    def _add(self, fact: Fact | None) -> None:
        if fact is not None:
            self._links.queue.add(fact)

    # -- the reclaim --------------------------------------------------------------------------

    def _attempt(self, line: LogLine, resource: str) -> None:
        self._conclude_conditions(line)
        driver = self._rounds.driver(resource)
        body = ReclaimAttempted(
            resource=resource,
            signal=driver.signal,
            threshold=driver.threshold,
            threshold_kind=driver.kind,
            since_ts_ns=driver.since_ts_ns,
            observed=driver.observed,
        )
        self._open_reclaim(line, body)

    def _open_reclaim(self, line: LogLine, body: ReclaimAttempted) -> Reclaim:
        if self._reclaim is not None:
            self._reclaim.waiting.settle()
        fact = Fact(line.ts_ns, body, (line.evidence,))
        waiting = self._links.queue.hold(fact, _RECLAIM_WAIT_NS)
        self._reclaim = Reclaim(waiting, fact)
        return self._reclaim

    def _must(self, line: LogLine, resource: str) -> None:
        if self._reclaim is None:
            self._attempt(line, resource)
        elif self._reclaim.body.resource in (None, resource):
            self._reclaim.waiting.join(line.evidence)

    def _end(self, line: LogLine, outcome: str) -> None:
        reclaim = self._reclaim or self._open_reclaim(line, ReclaimAttempted(resource=None))
        reclaim.waiting.join(line.evidence)
        reclaim.tell(outcome=outcome)
        reclaim.waiting.settle()
        self._reclaim = None

    def _rank(self, line: LogLine, ranked: list[PodRef]) -> None:
        reclaim = self._reclaim
        if reclaim is None or reclaim.ranked:
            reclaim = self._open_reclaim(line, ReclaimAttempted(resource=None))
        reclaim.waiting.join(line.evidence)
        reclaim.ranked, reclaim.ranked_ts_ns = ranked, line.ts_ns
        pods = (self._links.pod(self.context, ref, line) for ref in ranked)
        reclaim.tell(
            ranked=tuple(
                RankedPod(namespace=pod.namespace, pod=pod.name, pod_uid=pod.uid) for pod in pods
            )
        )
        self._next(line, reclaim)

    def _next(self, line: LogLine, reclaim: Reclaim) -> None:
        if reclaim.tried < len(reclaim.ranked):
            pod = self._links.pod(self.context, reclaim.ranked[reclaim.tried], line)
            reclaim.tried += 1
            evidence = reclaim.fact.evidence if reclaim.tried == 1 else (line.evidence,)
            self._open.choose(pod, line.ts_ns, evidence, reclaim, self._rounds)

    def _out_of_turn(self, pod: PodLink, line: LogLine) -> None:
        """The pod that goes right behind a ranking is the one evicted of it."""
        reclaim = self._reclaim
        if not (reclaim and reclaim.acts(line.ts_ns)):
            return
        ranked = [self._links.pod(self.context, ref, line) for ref in reclaim.ranked]
        tried = ranked[reclaim.tried - 1]
        first = self._open.of(tried)
        if pod in ranked and first is not None and first.waiting.tentative:
            self._open.withdraw(tried, first)
            reclaim.tried = ranked.index(pod) + 1
            self._open.choose(pod, line.ts_ns, (line.evidence,), reclaim, self._rounds)

    def _spare(self, line: LogLine, ref: PodRef | None) -> None:
        """A critical pod is left alone, and the next one is chosen."""
        if ref is None:
            return
        pod, reclaim = self._links.pod(self.context, ref, line), self._reclaim
        eviction = self._open.of(pod)
        if eviction is not None:
            self._open.withdraw(pod, eviction)
        body = PodSpared(namespace=pod.namespace, pod=pod.name, pod_uid=pod.uid)
        cause = reclaim.fact if reclaim and reclaim.ranked else None
        self._links.queue.add(Fact(line.ts_ns, body, (line.evidence,), cause))
        if eviction is not None and reclaim is not None:
            self._next(line, reclaim)

    # -- what became of it --------------------------------------------------------------------

    def _done(self, line: LogLine, ref: PodRef | None, done: bool) -> None:
        if ref is None:
            return
        pod = self._links.pod(self.context, ref, line)
        newest = self._open.of(pod)
        ended = newest and newest.ended(line.ts_ns, done=done)
        message = message_in_statuses(self.context.pods.get(pod.uid or ""))
        self._tell(pod, line, of=ended, evicted=done, message=message)
        ended = ended or self._open.of(pod)
        if ended is not None:
            ended.waiting.settle()
            self._open.close(pod, ended)

    def _evicting(self, line: LogLine) -> None:
        ref = pod_in(line)
        if ref is not None:
            pod = self._links.pod(self.context, ref, line)
            self._conclude_conditions(line)
            newest = self._open.of(pod)
            if newest is None:
                pod.eviction = None
            if newest is None or newest.lineless:
                self._out_of_turn(pod, line)
            self._tell(pod, line, message=text_value(line, "message") or None)

    def _event(self, line: LogLine) -> None:
        event = event_line(line, ("Evicted",))
        if event is not None:
            pod = self._links.pod(self.context, event.pod, line)
            is_refused = pod.admitting or pod.rejected is not None
            if not is_refused or not is_refusal(event.reason, event.message):
                self._tell(pod, line, message=event.message)

    def _api_event(self, item: Item) -> Facts:
        assert isinstance(item, ApiEvent)
        sign = self._signs.of_event(item)
        if sign is not None and not self._open.is_told(sign.pod, sign.ts_ns):
            self._open.show(sign, item.evidence, self._rounds).lineless = True
        return self._links.queue.release(item.ts_ns)

    def _pod_list(self, item: Item) -> Facts:
        assert isinstance(item, PodList)
        for sign in self._signs.of_list(item):
            if sign.pod.eviction is None:
                self._open.show(sign, item.evidence, self._rounds).waiting.settle()
        return self._links.queue.release(item.ts_ns)

    def _grace(self, line: LogLine) -> None:
        """The period that the first line about it tells; later ones are less what has passed."""
        container_id = bare_container_id((line.values or {}).get("containerID"))
        if (ref := pod_in(line)) is not None:
            pod = self._links.pod(self.context, ref, line)
        elif container := self._links.containers.get(container_id or ""):
            pod = container.pod
        else:
            return
        eviction = self._open.of(pod)
        seconds = whole_number(text_value(line, "gracePeriod"))
        if eviction is None or seconds is None or eviction.waiting.fact is None:
            return
        if eviction.body.grace_period_s is None:
            eviction.tell(grace_period_s=seconds)
            eviction.waiting.tentative = False

    # -- the fact -----------------------------------------------------------------------------

    def _tell(
        self,
        pod: PodLink,
        line: LogLine,
        *,
        of: OpenEviction | None = None,
        message: str | None = None,
        evicted: bool | None = None,
    ) -> None:
        """Take down what a line tells of an eviction; its first line opens the fact."""
        eviction = of or self._open.meant_by(pod, line, message)
        if eviction is None and pod.eviction is not None:
            return  # all of it was told
        eviction = eviction or self._open.open(pod, line.ts_ns, (line.evidence,), None)
        eviction.waiting.tentative = False
        if eviction.reclaim is not None:
            eviction.reclaim.tell(outcome="evicting")
        fact = eviction.waiting.fact
        if fact is None or not isinstance(fact.body, PodEvicted):
            return
        eviction.waiting.join(line.evidence)
        words = not (eviction.worded or of) or fact.body.message is None
        if words and message is not None:
            eviction.waiting.lead(line.evidence)
            eviction.explain(message, self._rounds)
            eviction.worded = True
        if evicted is not None:
            eviction.tell(evicted=evicted)
        if eviction.reclaim is not None:
            eviction.reclaim.waiting.settle()
