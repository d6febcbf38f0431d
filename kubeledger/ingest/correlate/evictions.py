"""Evictions: what the eviction manager did about a shortage, from all the lines about it.

A reclaim begins with ``attempting to reclaim``; then either what is unused suffices, or ``pods
ranked for eviction`` names the candidates, and the first that is not critical is killed at
once. Nothing else before its end is known at low verbosity, so it counts as evicted only when
something says so: its message, its event, a kill, the result. Evictions for local storage have
no reclaim. Whichever line comes first opens the fact, so it stands before the kills.
"""

from __future__ import annotations

from kubeledger.ingest.correlate.assembler import (
    PodAssembler,
    about_pod,
    reads,
    reads_events,
    takes,
)
from kubeledger.ingest.correlate.entry import Entry
from kubeledger.ingest.correlate.holdback import shown
from kubeledger.ingest.correlate.open_evictions import (
    KILL_WAIT_NS,
    OpenEviction,
    OpenEvictions,
    PressureConditions,
    Reclaim,
    is_eviction,
    message_ended_by,
    messages_in_statuses,
)
from kubeledger.ingest.correlate.registers import Pod, Registers
from kubeledger.ingest.correlate.rejections import is_refusal
from kubeledger.ingest.messages.evictions import EvictionRounds
from kubeledger.ingest.messages.podref import PodRef
from kubeledger.ingest.sources.items import ApiEvent, PodList
from kubeledger.model.bodies.eviction import PodSpared, RankedPod, ReclaimAttempted
from kubeledger.model.units import NS_PER_S, whole_number

_THRESHOLD_KEYS = (("log",), ("signal",), ("quantity",), ("available", "resource"))
"""Up to 1.24 the available amount stands under ``resource``."""
_OUTCOMES = {
    "Eviction manager: able to reduce resource pressure without evicting pods.": "node_level",
    "Eviction manager: eviction thresholds have been met, but no pods are active to evict": (
        "nothing"
    ),
}


class EvictionsAssembler(PodAssembler):
    """Reclaims, pods evicted by the eviction manager, and the conditions that it reports."""

    part_kinds = (PressureConditions,)

    def __init__(self, registers: Registers) -> None:
        super().__init__(registers)
        self._process = 0
        self._rounds = EvictionRounds()
        self._conditions = PressureConditions(self.queue)
        self.parts = (self._conditions,)
        self._reclaim: Reclaim | None = None
        self._open = OpenEvictions(self.queue, self._rounds)
        self._events: set[str] = set()
        self._living: set[Pod] = set()

    def before(self, ts_ns: int, pid: int | None = None) -> None:
        """What ends with a kubelet process, and what waited too long."""
        if self._process != self._sync_loop.process:
            self._process = self._sync_loop.process
            self._rounds.restart(self._sync_loop.started_ns or ts_ns)
            self._conditions.restart()
            self._reclaim = None
            self._open.drop_unexplained(ts_ns + KILL_WAIT_NS)
        self._open.drop_unexplained(ts_ns)

    # -- rounds and conditions ----------------------------------------------------------------

    @reads("Eviction manager: synchronize housekeeping")
    def _begin(self, entry: Entry) -> None:
        self._conditions.begin(entry)
        self._rounds.begin(entry.ts_ns)
        self._reclaim = None

    @reads("Eviction manager: threshold observed resource")
    def _met(self, entry: Entry) -> None:
        fields = (entry.text(*keys) for keys in _THRESHOLD_KEYS)
        self._rounds.note_threshold(entry.ts_ns, *fields)

    # -- the reclaim --------------------------------------------------------------------------

    @reads("Eviction manager: attempting to reclaim")
    def _attempt(self, entry: Entry) -> None:
        self._conditions.conclude(entry)
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
            self._reclaim.settle()
        self._reclaim = self.queue.put(Reclaim(shown(entry, body)))
        return self._reclaim

    @reads("Eviction manager: must evict pod(s) to reclaim")
    def _must(self, entry: Entry) -> None:
        if self._reclaim is None or self._reclaim.ranked:
            self._attempt(entry)
        else:
            self._reclaim.join(entry.evidence)

    @reads(*_OUTCOMES)
    def _end(self, entry: Entry) -> None:
        reclaim = self._reclaim or self._open_reclaim(entry, ReclaimAttempted(resource=None))
        reclaim.join(entry.evidence)
        reclaim.learn(outcome=_OUTCOMES[entry.message])
        reclaim.settle()
        self._reclaim = None

    @reads("Eviction manager: pods ranked for eviction")
    def _rank(self, entry: Entry) -> None:
        reclaim, ranked = self._reclaim, entry.pods
        if reclaim is not None and reclaim.ranked and reclaim.ranked_ts_ns == entry.ts_ns:
            return  # the same line, pasted again
        if reclaim is None or reclaim.ranked:
            reclaim = self._open_reclaim(entry, ReclaimAttempted(resource=None))
        reclaim.join(entry.evidence)
        reclaim.ranked, reclaim.ranked_ts_ns = ranked, entry.ts_ns
        pods = (self._pods.named(ref, entry) for ref in ranked)
        reclaim.learn(ranked=tuple(RankedPod(**pod.names) for pod in pods))
        self._next(entry, reclaim)

    def _next(self, entry: Entry, reclaim: Reclaim) -> None:
        if reclaim.tried < len(reclaim.ranked):
            pod = self._pods.named(reclaim.ranked[reclaim.tried], entry)
            reclaim.tried += 1
            evidence = reclaim.fact.evidence if reclaim.tried == 1 else (entry.evidence,)
            self._open.choose(pod, entry.ts_ns, evidence, reclaim)

    def _out_of_turn(self, pod: Pod, entry: Entry) -> None:
        """The pod that goes right after a ranking is the one evicted of it."""
        reclaim = self._reclaim
        if not (reclaim and reclaim.acts(entry.ts_ns)):
            return
        ranked = [self._pods.named(ref, entry) for ref in reclaim.ranked]
        tried = ranked[reclaim.tried - 1]
        first = self._open.of(tried)
        if pod in ranked and first is not None and first.tentative:
            self._open.withdraw(tried, first)
            reclaim.tried = ranked.index(pod) + 1
            self._open.choose(pod, entry.ts_ns, (entry.evidence,), reclaim)

    @about_pod("Eviction manager: cannot evict a critical pod")
    def _spare(self, entry: Entry, pod: Pod) -> None:
        """A critical pod is left alone, and the next one is chosen."""
        eviction, reclaim = self._open.of(pod), self._reclaim
        if eviction is not None:
            self._open.withdraw(pod, eviction)
        cause = reclaim.fact if reclaim and reclaim.ranked else None
        self.queue.add(shown(entry, PodSpared(**pod.names), cause=cause))
        if eviction is not None and reclaim is not None:
            self._next(entry, reclaim)

    # -- what became of it --------------------------------------------------------------------

    @about_pod(
        "Eviction manager: pod is evicted successfully", "Eviction manager: pod failed to evict"
    )
    def _done(self, entry: Entry, pod: Pod) -> None:
        done = entry.message.endswith("successfully")
        ended = self._open.ended(pod, entry.ts_ns, done=done)
        messages = messages_in_statuses(self.context.status_of(pod.uid))
        message = self._open.shown_of(pod, ended, messages)
        if ended and message and not done and not ended.body.message:
            ended.unsaid = None if ended.is_shown_by(message) else ended.body
        self._record(pod, entry, of=ended, evicted=done, message=message)
        ended = ended or self._open.of(pod)
        if ended is not None:
            if ended.unsaid is None:
                ended.settle()  # else the pod may be evicted once more
            self._open.close(pod, ended)

    @about_pod("Evicting pod")
    def _evicting(self, entry: Entry, pod: Pod) -> None:
        self._conditions.conclude(entry)
        newest = self._open.of(pod)
        if newest is None:
            pod.evicted = None
        if newest is None or newest.lineless:
            self._out_of_turn(pod, entry)
        self._record(pod, entry, message=entry.text("message") or None)

    @reads_events("Evicted")
    def _event(self, entry: Entry) -> None:
        event = entry.event()
        if event is not None:
            pod, admissions = self._pods.named(event.pod, entry), self._admissions
            is_refused = pod in admissions.undecided or pod.rejected is not None
            if not is_refused or not is_refusal(event.reason, event.message):
                self._record(pod, entry, message=event.message)

    @takes(ApiEvent)
    def _api_event(self, item: ApiEvent) -> None:
        api = item.event
        kind, namespace, name, reason, message = api.key
        if (kind, reason) != ("Pod", "Evicted") or not is_eviction(message):
            return
        if api.object_id in self._events:
            return
        self._events.add(api.object_id)
        pod = self._pods.named(PodRef(namespace, name, api.pod_uid), item)
        ts_ns = item.ts_ns
        if api.named_ns is not None and 0 <= api.named_ns - ts_ns < NS_PER_S:
            ts_ns = api.named_ns
        if not self._open.is_recorded(pod, ts_ns):
            event = self._open.show(pod, ts_ns, item.evidence, message)
            event.lineless = True

    @takes(PodList)
    def _pod_list(self, item: PodList) -> None:
        """The pods that were evicted since the list before; of earlier ones no time is known."""
        for listed in item.pods:
            pod = self._pods.with_uid(str((listed.get("metadata") or {}).get("uid") or ""))
            message = message_ended_by(listed.get("status") or {})
            if pod is not None and message is None:
                self._living.add(pod)
            elif pod is not None and message is not None and pod in self._living:
                self._living.discard(pod)
                if pod.evicted is None:
                    self._open.show(pod, item.ts_ns, item.evidence, message).settle()

    @reads(
        "Pod terminating with grace period",
        "Killing container with a grace period override",
        "Killing container with a grace period",
    )
    def _grace(self, entry: Entry) -> None:
        """The period that the first line about it shows; later ones are less what has passed."""
        pod = self._pods.of(entry)
        if pod is None:
            container = self._containers.get(entry.container_id)
            pod = None if container is None else container.pod
        eviction = self._open.of(pod) if pod is not None else None
        seconds = whole_number(entry.text("gracePeriod"))
        if eviction is None or seconds is None or not eviction.is_open:
            return
        if eviction.body.grace_period_s is None:
            eviction.learn(grace_period_s=seconds)
            eviction.tentative = False

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
        if eviction is None and pod.evicted is not None:
            return  # all of it was reported
        eviction = eviction or self._open.open(pod, entry.ts_ns, (entry.evidence,), None)
        eviction.tentative = False
        if eviction.reclaim is not None:
            eviction.reclaim.learn(outcome="evicting")
        if not eviction.is_open:
            return
        eviction.join(entry.evidence)
        words = not (eviction.worded or of) or eviction.body.message is None
        if words and message is not None:
            eviction.lead(entry.evidence)
            eviction.explain(message, self._rounds)
            eviction.worded = True
        if evicted is not None:
            eviction.learn(evicted=evicted)
        if eviction.reclaim is not None:
            eviction.reclaim.settle()
