"""All rebuilt probe workers of the present kubelet process, and what speaks for their ticks."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable

from kubeledger.lifecycle.records import ReasonReported
from kubeledger.machine import Record
from kubeledger.node.state import NodeState
from kubeledger.prober.records import (
    ProbeCountersRead,
    ProbeExecuted,
    ProbeResult,
    ProbeTransitioned,
    ProbeType,
)
from kubeledger.units import NS_PER_S, whole_number
from kubeledger.verify.bench import Bench
from kubeledger.verify.lives.age import SEEN_LATE_NS, Age
from kubeledger.verify.lives.common import key_for
from kubeledger.verify.lives.folded import Folded
from kubeledger.verify.lives.life import Lives
from kubeledger.verify.lives.specs import PodAsk, SpecBook
from kubeledger.verify.lives.steps import counts_as
from kubeledger.verify.lives.worker import RebuiltWorker

__all__ = ["KILLING_PROBES", "Workers"]

About = ProbeExecuted | ProbeTransitioned | ProbeCountersRead
WorkerKey = tuple[str, ProbeType]

KILLING_PROBES: dict[str, ProbeType] = {"liveness_probe": "liveness", "startup_probe": "startup"}
"""Reason of a kill -> the probe that failed."""
_SUCCESS_LEVEL = 3
"""Verbosity at which a probe's success has its line."""
_TOLD_ENOUGH = 3
_BLOCKED_NS = 120 * NS_PER_S
_BLOCKED_EARLY_NS = 2 * NS_PER_S
_BLOCKS_MAX = 16
_UNSEEN_NS = 30 * NS_PER_S
"""A container that was not seen to start may have been probed for longer than this."""


class Workers:
    """Finds and makes workers, and gives them their ticks.

    Attributes:
        successes_logged: the process logs successful ticks; until one is seen, it may not.
        events_matched: failing ticks of the process that had their event beside them.
        changes_told: changes of which the sync loop told.
    """

    def __init__(self, bench: Bench, book: SpecBook, lives: Lives, folded: Folded) -> None:
        self._bench = bench
        self._book = book
        self._lives = lives
        self._folded = folded
        self._pods: dict[str, dict[WorkerKey, RebuiltWorker]] = {}
        self._added: set[str] = set()
        self._with_thresholds: set[str] = set()
        self._kubelet_started_ns = 0
        self._age = Age()
        self._on_gap: Callable[[], None] = lambda: None
        self.successes_logged = False
        self.events_matched = 0
        self.changes_told = 0
        self._told: Counter[tuple[str, str, str, str]] = Counter()
        self._untold: Counter[tuple[str, str, str, str]] = Counter()
        self._blocked: deque[int] = deque(maxlen=_BLOCKS_MAX)

    # -- who is there ----------------------------------------------------------------------

    def on_gap(self, tell: Callable[[], None]) -> None:
        """Have this called when a tick is missing: other records may be, too."""
        self._on_gap = tell

    def foresee(self, record: Record) -> None:
        """Take down for which pods the importer knew the thresholds."""
        body = record.body
        if not isinstance(body, ProbeTransitioned):
            return
        pod = body.pod_uid or f"{body.namespace}/{body.pod}"
        if body.threshold is not None:
            self._with_thresholds.add(pod)
        change = (pod, body.container, body.probe_type, body.to_result)
        (self._untold if body.inferred else self._told)[change] += 1

    def kubelet_started(self, ts_ns: int) -> None:
        """All workers are gone."""
        self._kubelet_started_ns = ts_ns
        self._age = Age(ts_ns)
        self._pods.clear()
        self._added.clear()
        self.successes_logged = False
        self.events_matched = self.changes_told = 0
        self._blocked.clear()

    def pod_added(self, key: str) -> None:
        """The kubelet makes the pod's workers."""
        self._pods.pop(key, None)
        self._added.add(key)

    def pod_gone(self, key: str) -> None:
        """The pod's workers have ended."""
        self._pods.pop(key, None)
        self._added.discard(key)

    def container_started(self, record: Record, key: str, container: str | None) -> None:
        """Workers take up the container at their next tick."""
        self._age.told(record.ts_ns)
        for (name, _), worker in self._pods.get(key, {}).items():
            if name == container:
                worker.container_seq = record.seq

    def find(self, body: About, state: NodeState, ts_ns: int) -> RebuiltWorker:
        """The worker that a record is about, made when it is the first."""
        key = key_for(state, body)
        pod = self._pods.setdefault(key, {})
        worker = pod.get((body.container, body.probe_type))
        if worker is None:
            ask = self._book.find(body.pod_uid, body.namespace, body.pod)
            worker = RebuiltWorker(key, body.container, body.probe_type, ask)
            pod[body.container, body.probe_type] = worker
            worker.told_later = self._folded.later(body)
            profile = self._bench.profile
            if profile is not None:
                # Where successes are left out, a first tick that comes late is no wonder.
                late = self._logs_all() and self._begins_late(worker, ts_ns)
                fresh = key in self._added and not late
                worker.begin(profile.prober, self._kubelet_started_ns, fresh=fresh)
                self._follow(worker, None, ts_ns)
                if fresh:
                    worker.counters.begin(self._kubelet_started_ns)
        return worker

    def known(self, key: str, container: str, probe_type: ProbeType) -> RebuiltWorker | None:
        """A worker of which a record told."""
        return self._pods.get(key, {}).get((container, probe_type))

    def killed(self, key: str, container: str | None, reason: str | None) -> None:
        """A kill for a failed probe tells that the failure is cached, whatever was reckoned."""
        probe_type = KILLING_PROBES.get(reason or "")
        worker = None
        if container is not None and probe_type is not None:
            worker = self.known(key, container, probe_type)
        if worker is None:
            return
        missed = worker.unanswered
        if worker.doubted and missed is not None and missed.after == "failure":
            worker.unanswered = None  # its tick was told wrongly, and the kill tells of it
        if worker.cached != "failure" or not worker.on_hold:
            worker.believe("failure", None)
            worker.doubted = True

    # -- ticks -----------------------------------------------------------------------------

    def tick(self, worker: RebuiltWorker, record: Record, body: ProbeExecuted) -> bool:
        """Give a worker its tick; False when it was on hold and cannot have probed."""
        result = counts_as(body.result)
        if result == "success":
            self.successes_logged = True
        rested = worker.rests
        followed = self._follow(worker, body.container_id, record.ts_ns)
        if worker.on_hold and not followed and self._may_have_followed(worker, record.ts_ns):
            # Its successor was not seen to start.
            worker.follow(None, record.ts_ns, older_than_kubelet=False, sure=True)
            worker.id_is_sure = False
            followed = True
        last = worker.last
        gap_ns = self._gap_ns(worker, record.ts_ns, is_new=followed, rested=rested)
        if worker.probe is not None and last is None:
            if self._logs_all() and self._begins_late(worker, record.ts_ns):
                self._on_gap()
        elif worker.probe is not None and last is not None:
            missed = record.ts_ns - self._free_from_ns(worker, last) > worker.break_ns
            if missed and not self.successes_logged:
                self._skip(worker, gap_ns)
            elif missed and (
                self._begins_late(worker, record.ts_ns) if followed else not worker.on_hold
            ):
                self._on_gap()
            elif (
                followed
                and not worker.id_is_sure
                and (record.ts_ns - last.ts_ns > worker.break_ns + _UNSEEN_NS)
            ):
                worker.breaks()
        self._note_on_grid(worker, record.ts_ns, gap_ns, is_new=followed)
        stepped = worker.tick(record, body)
        if result is not None:
            worker.counters.tick(record.ts_ns, result)
        return stepped

    def _gap_ns(
        self, worker: RebuiltWorker, ts_ns: int, *, is_new: bool, rested: bool
    ) -> int | None:
        """For how long a worker may have ticked untold before a tick, at most; None: not known.

        Args:
            worker: has taken up the container of the tick.
            ts_ns: of the tick.
            is_new: it is another container than that of the tick before.
            rested: the worker did not probe that one any more.
        """
        last = worker.last
        if not is_new and last is not None:
            newest_ns = worker.grid.newest_ns
            return None if newest_ns is None else ts_ns - newest_ns
        sees_ns = self._sees_from_ns(worker)
        if sees_ns is None or last is None or rested:
            return None if sees_ns is None else ts_ns - sees_ns
        life = self._lives.find(worker.key, worker.container)
        before = None if life is None else life.before
        if before is None or before.died_ns is None:
            return None
        return max(ts_ns - sees_ns, before.died_ns - last.ts_ns)

    def _free_from_ns(self, worker: RebuiltWorker, last: Record) -> int:
        """When it ticked last, or a startup probe that each process finds out anew let it go."""
        startup = self.known(worker.key, worker.container, "startup")
        if not worker.waits_for_startup or startup is None or startup.last is None:
            return last.ts_ns
        return max(last.ts_ns, startup.last.ts_ns)

    def _skip(self, worker: RebuiltWorker, gap_ns: int | None) -> None:
        """Where successes are not logged there was one in a pause, if there was time for it."""
        if gap_ns is None or gap_ns > worker.break_ns + SEEN_LATE_NS:
            worker.skips_successes()
        elif gap_ns > worker.period_ns:
            worker.may_skip_successes()

    def _note_on_grid(
        self, worker: RebuiltWorker, ts_ns: int, gap_ns: int | None, *, is_new: bool
    ) -> None:
        profile, probe = self._bench.profile, worker.probe
        if profile is None or probe is None:
            return
        triggered = worker.is_readiness and profile.prober.unready_triggers_probe
        worker.grid.tick(
            ts_ns,
            worker.period_ns,
            probe.timeout_s * NS_PER_S,
            gap_ns=gap_ns,
            is_first=is_new or worker.last is None,
            on_time=not triggered or (worker.cache_is_sure and worker.cached == "success"),
        )

    def _sees_from_ns(self, worker: RebuiltWorker) -> int | None:
        """When a worker could first probe the container that it has taken up, or earlier."""
        running = self._lives.running(worker.key, worker.container)
        if running is None or running.started_ns is None or worker.probe is None:
            return None
        if worker.waits_for_startup:
            startup = self.known(worker.key, worker.container, "startup")
            has_started = startup is not None and startup.cached == "success"
            return startup.grid.newest_ns if startup is not None and has_started else None
        delay_ns = worker.probe.initial_delay_seconds * NS_PER_S - SEEN_LATE_NS
        return max(running.started_ns, self._kubelet_started_ns) + max(delay_ns, 0)

    def is_overdue(self, now_ns: int) -> bool:
        """Whether any worker must have ticked by now and did not, as far as the ledger goes."""
        if not self.successes_logged:
            return False
        for pod in self._pods.values():
            for worker in pod.values():
                running = self._lives.running(worker.key, worker.container)
                if running is not None and running.has_ended:
                    continue
                if worker.is_overdue(now_ns, None if running is None else running.started_ns):
                    return True
        return False

    def _logs_all(self) -> bool:
        """Whether successful ticks are logged: one was seen, or the verbosity says so."""
        if self.successes_logged:
            return True
        level = whole_number(self._bench.settings.get("--v"))
        return level is not None and level >= _SUCCESS_LEVEL

    def _begins_late(self, worker: RebuiltWorker, ts_ns: int) -> bool:
        """Whether the container was not seen to start, or ticks since then must be missing."""
        running = self._lives.running(worker.key, worker.container)
        if running is None or running.started_ns is None:
            return worker.last is None and worker.key in self._added
        began_ns = max(running.started_ns, self._kubelet_started_ns)
        return ts_ns - began_ns > worker.begins_within_ns + _UNSEEN_NS

    def take_up(self, worker: RebuiltWorker, container_id: str, ts_ns: int) -> None:
        """A worker looks at that container, without a tick."""
        self._follow(worker, container_id, ts_ns)

    def _may_have_followed(self, worker: RebuiltWorker, ts_ns: int) -> bool:
        """Whether a worker on hold may have got its new container unseen."""
        last = worker.last
        paused = last is not None and ts_ns - last.ts_ns > worker.break_ns
        return paused or self._was_killed(worker)

    def _was_killed(self, worker: RebuiltWorker) -> bool:
        life = self._lives.running(worker.key, worker.container)
        last = worker.last
        killed_ns = None if life is None else life.killed_ns
        return killed_ns is not None and last is not None and killed_ns >= last.ts_ns

    def _follow(self, worker: RebuiltWorker, told_id: str | None, ts_ns: int) -> bool:
        """Let a worker take up the container that runs now; True when it is another one."""
        running = self._lives.running(worker.key, worker.container)
        running_id = None if running is None else running.container_id
        container_id = told_id or running_id
        seen = running is not None and running.started_ns is not None
        if told_id is not None and seen and told_id != running_id:
            # A worker lags behind the PLEG, but it never probes what never ran.
            known = told_id == worker.container_id or self._may_be(worker, told_id, ts_ns)
            container_id = told_id if known else running_id
        worker.id_is_sure = seen and container_id == running_id
        unnamed = container_id is None and worker.on_hold
        if container_id == worker.container_id and worker.is_following and not unnamed:
            return False
        if worker.container_id is None and worker.is_following and not worker.on_hold:
            worker.container_id = container_id  # the same one, only now known by its ID
            return False
        sure = worker.is_following or worker.key in self._added
        listed_ns = self._book.started_ns(worker.ask, container_id)
        life = self._lives.find(worker.key, worker.container)
        older = self._age.is_older(life, container_id, listed_ns)
        worker.follow(container_id, ts_ns, older_than_kubelet=older, sure=sure)
        return True

    def _may_be(self, worker: RebuiltWorker, told_id: str, ts_ns: int) -> bool:
        """Whether another container than the newest one may be probed.

        It is the one before, for a moment, or the start of the next one has not been told.
        """
        life = self._lives.find(worker.key, worker.container)
        if life is None or life.newest is None or life.newest.died_ns is not None:
            return True
        started_ns, before = life.newest.started_ns, life.before
        lags = started_ns is not None and ts_ns <= started_ns + SEEN_LATE_NS
        return lags and before is not None and before.container_id == told_id

    def lose(self) -> None:
        """Records are missing: ticks may have been among them."""
        for pod in self._pods.values():
            for worker in pod.values():
                worker.breaks()

    # -- what is known of them ---------------------------------------------------------------

    def tells_changes(self, worker: RebuiltWorker, result: ProbeResult) -> bool:
        """Whether the importer would have recorded every change of that worker."""
        known = worker.key in self._with_thresholds
        return known and (result == "failure" or self.successes_logged)

    def is_disputed(self, ask: PodAsk) -> bool:
        """Whether lists of the pod disagree about its probes."""
        return self._book.is_disputed(ask)

    def must_be_told(self, body: ProbeTransitioned) -> bool:
        """Whether the sync loop had to tell of a change that only ticks tell of.

        It did when it told of enough others before; or of all others of the same worker.
        """
        profile = self._bench.profile
        if profile is None or not body.inferred:
            return False
        pod = body.pod_uid or f"{body.namespace}/{body.pod}"
        change = (pod, body.container, body.probe_type, body.to_result)
        alone = self._untold[change] == 1 and self._told[change] >= _TOLD_ENOUGH
        if not alone and self.changes_told < _TOLD_ENOUGH:
            return False
        if body.probe_type == "liveness":
            return body.to_result == "failure"
        return profile.prober.results_wake_sync_loop

    def blocks(self, ts_ns: int) -> None:
        """A preemption holds up the sync loop until its victims have ended."""
        self._blocked.append(ts_ns)

    def was_blocked(self, ts_ns: int) -> bool:
        """Whether the sync loop may have been too busy to tell of a change of then."""
        return any(-_BLOCKED_EARLY_NS <= ts_ns - ns <= _BLOCKED_NS for ns in self._blocked)

    def is_gapless(self, worker: RebuiltWorker) -> bool:
        """Whether all ticks of the present run are recorded."""
        return worker.has_begun and worker.run_is_sure and worker.cache_is_sure

    # -- events ------------------------------------------------------------------------------

    def told_by(self, body: ReasonReported, state: NodeState) -> list[RebuiltWorker]:
        """Workers that an ``Unhealthy`` event may be about; old ones name no container."""
        word, _, rest = body.message.partition(" probe ")
        if not rest.startswith(("failed", "errored")) or body.count != 1:
            return []
        pod = self._pods.get(key_for(state, body), {})
        return [
            worker
            for (container, kind), worker in pod.items()
            if kind == word.lower() and body.container in (None, container)
        ]
