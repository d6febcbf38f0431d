"""The prober of a simulated kubelet: workers that tick, and what follows from their results.

A worker that is steady (its probe finds the same again and again, and the cache holds it
already) is not stepped: its ticks are counted when something changes, and written as one record
(``ProbeTicksFolded``). Whatever may change what a worker does comes to :meth:`ProbeLoop.poke`.

Workers see a pod's status as :meth:`ProbeLoop.update_status` last published it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import msgspec

from kubeledger.kubelet.prober import objects
from kubeledger.kubelet.prober.objects import FAILURE, INITIAL, SUCCESS, UNKNOWN, Result, Update
from kubeledger.kubelet.prober.prober import event_of
from kubeledger.kubelet.prober.prober_manager import KnownOfPod, ProbeManager, reaction_to
from kubeledger.kubelet.prober.worker import (
    CONTAINER_NOT_FOUND,
    ERRORED,
    NO_STATUS,
    NOT_RUNNING,
    NOT_STARTED,
    ON_HOLD,
    STARTED,
    Step,
    do_probe,
)
from kubeledger.model.bodies.prober import ProbeCountersRead, ProbeResult, ProbeType, TickResult
from kubeledger.model.units import format_ts
from kubeledger.simulate.engine.actions import (
    RUNTIME,
    is_older,
    probe_spec,
    seen_by_workers,
    status_of,
    take_up,
)
from kubeledger.simulate.engine.journal import Ticks
from kubeledger.simulate.engine.kubelet import Kubelet, Loop
from kubeledger.simulate.engine.probe_worker import Found, SimWorker, handler_of
from kubeledger.simulate.engine.world import SimContainer, SimPod

_SAYS: dict[Result, ProbeResult] = {SUCCESS: "success", FAILURE: "failure", UNKNOWN: "unknown"}
_ABSENT: dict[ProbeType, ProbeResult] = dict.fromkeys(("readiness", "startup"), "unknown")
"""What nothing cached counts as, but for liveness: that is a success."""
_ATTEMPTS: dict[TickResult, tuple[TickResult, ...]] = {
    "success": ("success",),
    "warning": ("warning",),
    "failure": ("failure",),
    "unknown": ("unknown",),
    "error": ("error", "error", "error"),
}
_LATE_NS = 1_000_000
"""Within this time a goroutine runs; no two workers do at the same instant."""
_UNTIL_CHANGE = (CONTAINER_NOT_FOUND, NO_STATUS, NOT_RUNNING, NOT_STARTED, ON_HOLD, STARTED)
"""A step that ended so will end so again until the pod's status is another."""


class _Before(NamedTuple):
    """A worker before a step."""

    container_id: str
    last_result: Result
    run: int


class ProbeLoop(Loop):
    """All probe workers of one kubelet process."""

    def __init__(self, kubelet: Kubelet) -> None:
        super().__init__(kubelet)
        self._facts = kubelet.sim.profile.prober
        self.manager = ProbeManager(self._facts, kubelet.started_ns)
        self._draws = kubelet.sim.draws.stream(f"probes/{kubelet.run}")
        self._workers: dict[str, dict[tuple[str, ProbeType], SimWorker]] = {}
        self._status: dict[str, objects.PodStatus] = {}
        self._seqs: dict[tuple[ProbeType, str], int] = {}

    # -- which workers there are ---------------------------------------------------------------

    def add_pod(self, pod: SimPod) -> None:
        """Make a pod's workers; each waits for a random part of its period first."""
        probed = pod.probed
        if pod.deleting and probed.metadata.deletion_timestamp is None:
            deleted = msgspec.structs.replace(
                probed.metadata, deletion_timestamp=format_ts(self._clock.now_ns)
            )
            probed = msgspec.structs.replace(probed, metadata=deleted)
        script = self._sim.plan.pods[pod.index].scripts
        workers = self._workers.setdefault(pod.uid, {})
        for key in self.manager.add_pod(probed):
            _, name, probe_type = key
            scripted = script.get(name)
            worker = SimWorker(
                key,
                self.manager.workers[key],
                pod,
                pod.container(name),
                scripted.probes.get(probe_type, ()) if scripted is not None else (),
                handler_of(probe_spec(pod, name, probe_type)),
            )
            workers[name, probe_type] = worker
            worker.timer = self._kubelet.after(
                self._jitter_ns(worker), partial(self._begin, worker)
            )

    def _jitter_ns(self, worker: SimWorker) -> int:
        """How long a new worker waits.

        Source: v1.36.2 pkg/kubelet/prober/worker.go run; v1.20.2 waits always
        """
        age_ns = self._clock.now_ns - self._kubelet.started_ns
        uid, name, probe_type = worker.key
        draws = self._draws.stream(f"{uid}/{name}/{probe_type}")
        worker.late_ns = 1 + draws.below(_LATE_NS)
        if self._facts.jitter_ends_with_first_period and worker.period_ns <= age_ns:
            return worker.late_ns
        return worker.late_ns + draws.below(worker.period_ns)

    def stop_liveness_and_startup(self, pod: SimPod) -> None:
        """The pod begins to be terminated."""
        self.manager.stop_liveness_and_startup(pod.probed)
        self._see_stops(pod)

    def remove_pod(self, pod: SimPod) -> None:
        """All its containers are dead."""
        self.manager.remove_pod(pod.probed)
        self._see_stops(pod)
        self._status.pop(pod.uid, None)

    def _see_stops(self, pod: SimPod) -> None:
        # A worker that has not begun takes one step before it sees that it is to stop.
        for worker in self._of(pod):
            if worker.worker.stopping and worker.begun:
                self._exit(worker)

    def _exit(self, worker: SimWorker) -> None:
        worker.catch_up(self._clock.now_ns)
        self._unfold(worker)
        worker.cancel()
        self._seqs.pop((worker.probe_type, worker.worker.container_id), None)
        self.manager.worker_exited(worker.key)
        uid, name, probe_type = worker.key
        workers = self._workers[uid]
        del workers[name, probe_type]
        if not workers:
            del self._workers[uid]

    def _of(self, pod: SimPod) -> list[SimWorker]:
        return list(self._workers.get(pod.uid, {}).values())

    # -- what pods and containers do -----------------------------------------------------------

    def container_changed(self, pod: SimPod, container: SimContainer) -> None:
        """A container has just begun or ended; the kubelet does not know of it yet."""
        for worker in self._of(pod):
            if worker.container is container:
                self.poke(worker)

    def update_status(self, pod: SimPod) -> None:
        """Publish the pod's status: started and ready of its containers, as the prober says."""
        published = self._kubelet.pods.published(pod)
        take_up(pod, published)
        status = status_of(pod, published)
        probed = pod.probed
        if self._facts.kubelet_restart_keeps_results:
            # As the API server last had it.
            ready = all(c.ready for c in pod.containers if not c.init)
            condition = objects.Condition("Ready", "True" if ready else "False")
            probed = msgspec.structs.replace(
                probed, status=objects.PodStatus(conditions=[condition])
            )
        found = self.manager.update_pod_status(probed, status)
        for container in pod.containers:
            group = found.init_containers if container.init else found.containers
            result = group.get(container.name)
            if result is not None:
                container.started = bool(result.started)
                container.ready = result.ready
        self._publish(pod)
        for name in found.triggered:
            worker = self._workers.get(pod.uid, {}).get((name, "readiness"))
            if worker is not None and not worker.wanted:
                worker.wanted = True
                if worker.begun:
                    self.poke(worker)

    def _publish(self, pod: SimPod) -> None:
        status = status_of(pod, self._kubelet.pods.published(pod))
        before = self._status.get(pod.uid)
        self._status[pod.uid] = status
        if before is None or seen_by_workers(before) != seen_by_workers(status):
            for worker in self._of(pod):
                self.poke(worker)

    # -- what others ask for -------------------------------------------------------------------

    def results(self, probe_type: ProbeType) -> dict[str, Result]:
        """What is cached by container ID."""
        return self.manager.results[probe_type].cache

    def transition(self, probe_type: ProbeType, container_id: str) -> int | None:
        """Seq of the ``ProbeTransitioned`` to what is cached of a container ID."""
        return self._seqs.get((probe_type, container_id))

    def counters(self) -> Iterator[ProbeCountersRead]:
        """The kubelet's counts of all workers that ticked; writes down all ticks before."""
        self.flush()
        for workers in self._workers.values():
            for worker in workers.values():
                if worker.successful or worker.failed:
                    yield worker.counters()

    def flush(self) -> None:
        """Write down all ticks before this instant, e.g. because the process ends."""
        for workers in self._workers.values():
            for worker in workers.values():
                worker.catch_up(self._clock.now_ns)
                self._unfold(worker)

    # -- ticks ---------------------------------------------------------------------------------

    def poke(self, worker: SimWorker) -> None:
        """Something changed that may bear on what a worker does."""
        if not worker.begun:
            return
        now_ns = self._clock.now_ns
        if worker.folding:
            worker.catch_up(now_ns)
            self._unfold(worker)
            worker.folding = False
        worker.skip(now_ns)
        self._wait(worker)

    def _wait(self, worker: SimWorker) -> None:
        worker.cancel()
        until_ns = worker.next_ns - self._clock.now_ns
        wait_ns = worker.late_ns if worker.wanted else until_ns
        worker.timer = self._kubelet.after(wait_ns, lambda: self._tick(worker))

    def _begin(self, worker: SimWorker) -> None:
        worker.begun = True
        worker.next_ns = self._clock.now_ns
        # A run that was asked for meanwhile comes right after the first.
        wanted, worker.wanted = worker.wanted, False
        self._tick(worker)
        if wanted and worker.key in self.manager.workers:
            worker.wanted = True
            self.poke(worker)

    def _tick(self, worker: SimWorker) -> None:
        """Take one step; it is due now, or was asked for."""
        now_ns = self._clock.now_ns
        if worker.wanted:
            worker.wanted = False
            if self._facts.manual_run_resets_period:
                worker.next_ns = now_ns + worker.period_ns
        if worker.next_ns <= now_ns:
            worker.next_ns = now_ns + worker.period_ns
        step = self._step(worker, now_ns)
        if not step.keep_going or worker.worker.stopping:
            self._exit(worker)
            return
        if worker.folding:
            self._sleep(worker)
        elif (worker.worker.on_hold or step.skipped in _UNTIL_CHANGE) and not worker.wanted:
            worker.cancel()
        else:
            self._wait(worker)

    def _step(self, worker: SimWorker, now_ns: int) -> Step:
        """One ``do_probe`` with its records."""
        probing = worker.worker
        status = self._status.get(worker.key[0])
        found = worker.finds(now_ns, self._sim.plan.start_ns)
        before = _Before(probing.container_id, probing.last_result, probing.result_run)
        cached = probing.results.cache.get(before.container_id)
        step = do_probe(probing, status, now_ns, _ATTEMPTS[found[0]])
        updates = probing.results.take_updates()
        is_new = probing.container_id != before.container_id
        cached = None if is_new else cached
        keeps = self._facts.kubelet_restart_keeps_results
        started_ns = self._kubelet.started_ns
        seeded = is_new and not (keeps and is_older(status, worker.key[1], started_ns))
        changes: list[tuple[Update, Result | None]] = []
        for update in updates:
            if not (seeded and cached is None and update.result == INITIAL[worker.probe_type]):
                changes.append((update, cached))
            cached = update.result
        executed = step.attempts > 0
        steady = (step.skipped is None and not probing.on_hold) or step.skipped is ERRORED
        worker.folding = executed and steady and step.keep_going and not changes
        worker.folding &= not self._sim.plan.every_tick
        tick = self._executed(worker, now_ns, found) if executed else None
        seqs = {u: self._transitioned(worker, before, was, u, tick) for u, was in changes}
        for update in updates:
            self._react(worker, update, seqs.get(update))
        return step

    def _executed(self, worker: SimWorker, now_ns: int, found: Found) -> int | None:
        """Write a tick down, or gather it; seq of its record."""
        worker.count(found[0], 1)
        if not worker.folding or not worker.holds(now_ns, found):
            self._unfold(worker)
        if worker.folding:
            worker.gather(now_ns, found)
            return None
        seq = self._journal.write(worker.tick(found))
        self._send_event(worker, found, Ticks(now_ns))
        return seq

    def _unfold(self, worker: SimWorker) -> None:
        """Write down what was gathered."""
        body = worker.unfold()
        if body is not None:
            self._journal.write(body)
            ticks = Ticks(body.first_ts_ns, body.count, body.period_ns)
            self._send_event(worker, (body.result, body.output or ""), ticks)

    def _send_event(self, worker: SimWorker, found: Found, ticks: Ticks) -> None:
        """The events that ticks leave, if they leave any.

        Source: v1.36.2 pkg/kubelet/prober/prober.go recordContainerEvent
        Differs: ticks in one record have their events in one record, too.
        """
        event = None
        if found[0] != "success":
            event = event_of(worker.probe_type, *found, self._facts)
        if event is not None:
            _, reason, message = event.split(" ", 2)
            self._kubelet.recorder.send(worker.pod, reason, message, worker.key[1], ticks)

    def _sleep(self, worker: SimWorker) -> None:
        """Nothing is new until the probe finds something else, or somebody pokes the worker."""
        now_ns = self._clock.now_ns
        if worker.breaks_off:
            self._unfold(worker)
        last_ns = worker.folds_until(worker.changes_ns(now_ns, self._sim.plan.start_ns))

        def wake() -> None:
            if last_ns is not None:
                worker.catch_up(last_ns + 1)
            self._unfold(worker)
            worker.folding = False
            self._wait(worker)

        worker.cancel()
        if last_ns is None:
            wake()
        else:
            worker.timer = self._kubelet.after(last_ns - now_ns, wake)

    # -- results -------------------------------------------------------------------------------

    def _transitioned(
        self,
        worker: SimWorker,
        before: _Before,
        was: Result | None,
        update: Update,
        tick: int | None,
    ) -> int | None:
        """Record a change of what is cached; ``was``: None when nothing was."""
        after, probe_type = _SAYS[update.result], worker.probe_type
        from_result = _ABSENT.get(probe_type, "success") if was is None else _SAYS[was]
        if from_result == after:
            return None
        run = None
        if tick is not None:
            run = before.run + 1 if before.last_result == update.result else 1
        # The sync loop logs these, before 1.21 failed liveness probes alone.
        logged = (
            after == "failure" if probe_type == "liveness" else self._facts.results_wake_sync_loop
        )
        body = worker.transition(update.container_id, from_result, after, run, inferred=not logged)
        seq = self._journal.write(body, cause=tick)
        self._seqs[probe_type, update.container_id] = seq
        return seq

    def _react(self, worker: SimWorker, update: Update, seq: int | None) -> None:
        """What the sync loop does with an update."""
        pod, container = worker.pod, worker.container
        known = KnownOfPod(
            pod=pod.uid in self._sim.world.pods,
            status=pod.uid in self._status,
            container=update.container_id == f"{RUNTIME}{container.published_id}",
        )
        reaction = reaction_to(worker.probe_type, update.result, self._facts, known)

        def react() -> None:
            if reaction.ready is not None:
                container.ready = reaction.ready
            if reaction.started is not None:
                container.started = reaction.started
                self._publish(pod)
            if reaction.syncs_pod and pod.uid in self._sim.world.pods:
                self._kubelet.pods.sync(pod, seq)

        # Another goroutine does it, so after the step; what syncs may poke this worker.
        self._kubelet.after(0, react)
