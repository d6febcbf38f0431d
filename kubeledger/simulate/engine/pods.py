"""The kubelet's pods: config changes, admission, what the PLEG sends, and their workers.

All of it goes through the sync loop, one thing after the other; an ADD takes a millisecond.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import partial
from typing import Any, Literal

import msgspec

from kubeledger.kubelet.preemption import preemption
from kubeledger.model.bodies.eviction import PodPreempted, PreemptionFailed
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerRestarted,
    ContainerStarted,
    PodAdmitted,
    PodConfigChanged,
    PodEvicted,
    PodRejected,
)
from kubeledger.model.units import NS_PER_S
from kubeledger.simulate.engine import admission
from kubeledger.simulate.engine.admission import Answer, created_ns, predicates
from kubeledger.simulate.engine.ending import Ending
from kubeledger.simulate.engine.images import Pulls
from kubeledger.simulate.engine.kubelet import Kubelet, Loop, Steps, SyncLoop, Waiting, at_most
from kubeledger.simulate.engine.pleg import Changes, Pleg, deadline_ns
from kubeledger.simulate.engine.starts import BackOffs
from kubeledger.simulate.engine.worker import PodWorker
from kubeledger.simulate.engine.world import KILLED, Instance, SimPod

_STEP_NS = 1_000_000
_REMOVED_NS = NS_PER_S
_ORPHAN_S = 1
_HOUSEKEEPING_NS = 2 * NS_PER_S
_FINAL = ("Succeeded", "Failed")
_Preemption = Generator[int | Waiting, None, int]


class PodLoop(Loop):
    """Everything that one kubelet process does with pods.

    Attributes:
        sources_ready: every config source has sent its pods.
    """

    def __init__(self, kubelet: Kubelet) -> None:
        super().__init__(kubelet)
        self.sources_ready = False
        self.loop = SyncLoop(kubelet)
        self.pleg = Pleg(kubelet, self._deliver)
        self._workers: dict[str, PodWorker] = {}
        self._started = False
        self.back_offs = BackOffs(kubelet)
        self.pulls = Pulls(kubelet)

    # -- interface -----------------------------------------------------------------------

    def start(self) -> None:
        """Begin: the pods that are there come in one turn a source, the rest one by one."""
        self._started = True
        found = self.pleg.start()
        world = self._sim.world
        known = [pod for pod in self._sim.offered.values() if pod.uid in world.pods]
        new = [pod for pod in self._sim.offered.values() if pod.uid not in world.pods]
        for pod in known:
            if pod.phase not in _FINAL:
                pod.admitted = None  # by this process, which has not received it yet
        for source in ("file", "api"):
            pods = [pod for pod in known if pod.source == source]
            if pods:
                self.loop.put(partial(self._add, pods))
        self.loop.put(self._get_ready)
        if found:
            self._deliver(found)
        for pod in new:
            self.arrive(pod)
        for pod in known:
            if pod.deleting:
                self.delete(pod)
        orphans = [pod for pod in world.pods.values() if pod.uid not in self._sim.offered]
        for pod in orphans:
            pod.removed = True
        if orphans:
            self._kubelet.after(_HOUSEKEEPING_NS, lambda: self._kill_orphans(orphans))

    def _kill_orphans(self, orphans: list[SimPod]) -> None:
        """Pods whose files went while no kubelet ran, or the one before took them down.

        Source: v1.36.2 pkg/kubelet/kubelet_pods.go HandlePodCleanups
        """
        for pod in orphans:
            worker = self.worker(pod)
            facts = self._sim.profile.lifecycle
            grace_s = _ORPHAN_S if facts.pod_worker_gives_grace else None
            worker.end(Ending(reason="orphaned", grace_s=grace_s))
            worker.when_ended(partial(self._remove, pod))

    def arrive(self, pod: SimPod) -> None:
        """A config source has a new pod."""
        if self._started:
            self.loop.put(lambda: self._add([pod]))

    def delete(self, pod: SimPod) -> None:
        """A config source wants a pod to be deleted."""
        if self._started:
            self.loop.put(lambda: self._delete(pod))

    def update(self, pod: SimPod) -> None:
        """A config source has another spec of a pod."""
        if self._started:
            self.loop.put(lambda: self._update(pod))

    def sync(self, pod: SimPod, cause: int | None) -> None:
        """Sync a pod, because of what the record ``cause`` says."""
        worker = self._workers.get(pod.uid)
        if worker is not None:
            self.loop.put(lambda: worker.wake(cause))

    def published(self, pod: SimPod) -> tuple[Instance, ...]:
        """Containers of a pod as its status shows them, oldest first."""
        worker = self._workers.get(pod.uid)
        return () if worker is None else worker.published

    def evict(
        self, pod: SimPod, body: PodEvicted, reason: str, cause: int | None, *, grace_s: int = 0
    ) -> int:
        """Kill a pod for the eviction manager; ``grace_s`` is what that gives it.

        Source: v1.36.2 pkg/kubelet/pod_workers.go killPodNow
        """
        sim, wait_ns = self._sim, preemption.kill_wait_s(grace_s) * NS_PER_S
        takes_ns = sim.runtime.stop_times_ns(pod, (body.grace_period_s or 0) * NS_PER_S)
        if max(takes_ns, default=0) > wait_ns:
            body = msgspec.structs.replace(body, evicted=False)
        elif self.worker(pod).busy or pod.claims or sum(takes_ns) + NS_PER_S > wait_ns:
            body = msgspec.structs.replace(body, evicted=None)  # that is not known yet
        seq = sim.journal.write(body, cause=cause)
        self.worker(pod).end(
            Ending(
                reason="evicted",
                cause=seq,
                grace_s=grace_s,
                status_reason=reason,
                status_message=body.message or "",
            )
        )
        return seq

    def worker(self, pod: SimPod) -> PodWorker:
        """The worker of a pod, made when it is needed first."""
        worker = self._workers.get(pod.uid)
        if worker is None:
            worker = PodWorker(self._kubelet, self.pleg, pod)
            self._workers[pod.uid] = worker
        return worker

    # -- config --------------------------------------------------------------------------

    def _get_ready(self) -> None:
        self.sources_ready = True

    def _add(self, pods: Sequence[SimPod]) -> Steps:
        """One ADD: all are added, then each that has not ended goes through admission."""
        sim = self._sim
        seqs: dict[str, int] = {}
        for pod in pods:
            sim.world.pods[pod.uid] = pod
            pod.added_ns = sim.schedule.now_ns
            _begin_again(pod)
            seqs[pod.uid] = self._config(pod, "ADD")
        for pod in sorted(pods, key=lambda pod: (created_ns(pod) or 0, pod.name)):
            if pod.phase in _FINAL:
                self._take_up_ended(pod)
                continue
            yield _STEP_NS
            yield from self._admit(pod, seqs[pod.uid])

    def _take_up_ended(self, pod: SimPod) -> None:
        """A pod that has ended is not synced; what is left of it is stopped.

        Source: v1.20.2 pkg/kubelet/kubelet.go dispatchWork; v1.36.2 pod_workers.go UpdatePod
        """
        worker = self.worker(pod)
        worker.end_recorded = pod.terminated
        if not pod.terminated:
            at_once = self._sim.profile.admission.terminating_pods_count
            self._kubelet.after(0 if at_once else _HOUSEKEEPING_NS, partial(worker.end, Ending()))

    def _config(self, pod: SimPod, operation: Literal["ADD", "UPDATE", "DELETE", "REMOVE"]) -> int:
        sim = self._sim
        return sim.journal.write(
            PodConfigChanged(**pod.identity, operation=operation, source=pod.source),
            source=sim.plan.pods[pod.index].place,
        )

    def _update(self, pod: SimPod) -> None:
        """Source: v1.36.2 pkg/kubelet/kubelet.go HandlePodUpdates."""
        if pod.uid in self._sim.world.pods:
            worker = self.worker(pod)
            worker.updated = self._config(pod, "UPDATE")
            if pod.admitted:
                self._kubelet.resizes.updated(pod, worker.updated)
                worker.wake(worker.updated)

    def _delete(self, pod: SimPod) -> None:
        """An API pod is deleted with grace and removed in the end, a file is just gone."""
        if pod.uid not in self._sim.world.pods:
            self._sim.offered.pop(pod.uid, None)
            return
        static = pod.source == "file"
        self._kubelet.told.gone(pod)
        seq = self._config(pod, "REMOVE" if static else "DELETE")
        worker = self.worker(pod)
        if static:
            pod.removed = True
            self._sim.offered.pop(pod.uid, None)
        if pod.admitted and not pod.terminated:
            worker.end(Ending(reason="pod_deleted", cause=seq))
        else:
            pod.terminated = True
        worker.when_ended(partial(self._remove, pod))

    def _remove(self, pod: SimPod) -> None:
        """The API server learns a little later that nothing of the pod is left."""
        removed = partial(self.loop.put, partial(self._removed, pod))
        there = self._sim.api_server.when_there
        learn = removed if pod.source == "file" else partial(there, removed)
        self._kubelet.after(_REMOVED_NS, learn)

    def _removed(self, pod: SimPod) -> None:
        sim = self._sim
        if pod.uid not in sim.world.pods:
            return
        sim.agent.last_look(pod)
        if pod.source == "api":
            self._config(pod, "REMOVE")
        sim.offered.pop(pod.uid, None)
        del sim.world.pods[pod.uid]
        self._workers.pop(pod.uid, None)
        sim.runtime.forget(pod.uid)
        self._kubelet.resizes.removed(pod)
        self._kubelet.recorder.forget(pod)
        self.pleg.forget(pod.uid)

    # -- admission -----------------------------------------------------------------------

    def _admit(self, pod: SimPod, added: int) -> Steps:
        """Source: v1.36.2 pkg/kubelet/kubelet.go HandlePodAdditions, canAdmitPod."""
        kubelet = self._kubelet
        refusal = kubelet.eviction.refusal(pod) or admission.admit(kubelet, pod)
        cause = added
        if refusal is None:
            answer = predicates(kubelet, pod)
            if answer.error:
                cause = self._preemption_failed(pod, answer, added)
            if not answer.result.admit:
                refusal = answer.result.reason, answer.result.message
            elif answer.result.victims:
                cause = yield from self._preempt(pod, answer, added)
        refusal = refusal or kubelet.shutdown.refusal()
        if refusal is not None:
            self._reject(pod, refusal, cause)
            return
        pod.admitted = True
        kubelet.sim.journal.write(PodAdmitted(**pod.identity, inferred=False), cause=cause)
        kubelet.resizes.added(pod, added)
        kubelet.probes.add_pod(pod)
        deadline = deadline_ns(pod)
        if deadline is not None:
            wait_ns = max(deadline - kubelet.sim.schedule.now_ns, 0)
            kubelet.after(wait_ns, lambda: self.sync(pod, None))
        self.worker(pod).wake(added)

    def _reject(self, pod: SimPod, refusal: tuple[str, str], cause: int) -> None:
        pod.admitted, pod.phase = False, "Failed"
        pod.reason, message = refusal
        prefixed = self._sim.profile.lifecycle.status_says_rejected
        pod.message = f"Pod was rejected: {message}" if prefixed else f"Pod {message}"
        self._journal.write(
            PodRejected(**pod.identity, reason=pod.reason, message=message), cause=cause
        )
        if self._sim.runtime.running(pod.uid):
            # It ran under the kubelet before; nobody wants it any more.
            self.worker(pod).end(Ending(cause=cause))
        else:
            pod.terminated = True

    def _preemption_failed(self, pod: SimPod, answer: Answer, added: int) -> int:
        body = PreemptionFailed(
            **_preemptor(pod), insufficient=answer.insufficient, error=answer.error
        )
        return self._journal.write(body, cause=added)

    def _preempt(self, pod: SimPod, answer: Answer, added: int) -> _Preemption:
        """Kill the victims one after the other; admission stands still meanwhile.

        A victim is down within its grace, which is less than the wait; but of one whose worker is
        busy, or whose claims may not be unprepared, that is not known yet when it is named.

        Source: v1.36.2 pkg/kubelet/preemption/preemption.go evictPodsToFreeRequests
        """
        sim = self._sim
        victims = [sim.world.pods[uid] for uid in answer.result.victims]
        seqs = [
            sim.journal.write(
                PodPreempted(
                    victim_namespace=victim.namespace,
                    victim_pod=victim.name,
                    victim_uid=victim.uid,
                    **_preemptor(pod),
                    insufficient=answer.insufficient,
                    evicted=None if self.worker(victim).busy or victim.claims else True,
                ),
                cause=added,
            )
            for victim in victims
        ]
        for victim, seq in zip(victims, seqs, strict=True):
            worker = self.worker(victim)
            worker.end(
                Ending(
                    reason="preempted",
                    cause=seq,
                    status_reason="Preempting",
                    status_message=preemption.MESSAGE,
                )
            )
            wait_s = preemption.kill_wait_s(victim.spec.get("terminationGracePeriodSeconds"))
            yield at_most(self._kubelet, wait_s * NS_PER_S, worker.when_ended)
        return seqs[0]

    # -- PLEG ----------------------------------------------------------------------------

    def _deliver(self, found: list[Changes]) -> None:
        self.loop.put(lambda: self._receive(found))

    def _receive(self, found: list[Changes]) -> None:
        """What a relist found, as the sync loop gets it."""
        world = self._sim.world
        for changes in found:
            pod = world.pods.get(changes.uid)
            if pod is None:
                continue
            worker = self.worker(pod)
            write_changes(self._kubelet, pod, worker, changes)
            self._sim.runtime.forget(pod.uid, keep=2)
            if pod.terminated and not self._sim.runtime.running(pod.uid):
                worker.report_terminated()
                facts = self._sim.profile.admission
                if pod.deleting and changes.died and not facts.terminating_pods_count:
                    # Such kubelets sync it again, and kill what is dead.
                    self._kubelet.cgroups.pod_killed()
            elif pod.admitted and (worker.ending is not None or pod.phase not in _FINAL):
                worker.wake()


def _preemptor(pod: SimPod) -> dict[str, Any]:
    return {f"preemptor_{name.removeprefix('pod_')}": of for name, of in pod.identity.items()}


def _begin_again(pod: SimPod) -> None:
    """What a kubelet process knows of a pod when a source sends it.

    Of a static pod no API server remembers that it had ended.
    """
    if pod.source == "file" and (pod.phase in _FINAL or pod.admitted is False):
        pod.phase, pod.reason, pod.message, pod.terminated = "Pending", "", "", False
    if pod.phase not in _FINAL:
        pod.admitted, pod.terminated = None, False
    for container in pod.containers:
        container.backed_off = False


# What a relist found of a pod, as records.


def write_changes(kubelet: Kubelet, pod: SimPod, worker: PodWorker, changes: Changes) -> None:
    """Write down deaths and starts; a start by this process after another is a restart."""
    runtime = kubelet.sim.runtime
    for instance in changes.died:
        if instance.container_id in runtime.died:
            continue  # the process before logged it
        if instance.container_id in worker.started and instance in changes.unseen:
            # It ran for less than a second: only the event of its start shows it.
            _started(kubelet, pod, worker, instance)
        _died(kubelet, pod, instance)
    for instance in changes.started:
        _started(kubelet, pod, worker, instance)


def _which(pod: SimPod, instance: Instance) -> dict[str, Any]:
    return {**pod.identity, "container": instance.container, "container_id": instance.container_id}


def _died(kubelet: Kubelet, pod: SimPod, instance: Instance) -> None:
    runtime, sandbox = kubelet.sim.runtime, instance.container is None
    killed = runtime.killed.get(instance.container_id)
    cause = None if killed is None else killed.seq
    if cause is None and instance.oom_killed and instance.exit_code == KILLED:
        cause = kubelet.sim.memory.kills[instance.container_id]
    exit_code = None if sandbox else instance.exit_code
    runtime.died[instance.container_id] = kubelet.sim.journal.write(
        ContainerDied(**_which(pod, instance), sandbox=sandbox, exit_code=exit_code),
        cause=cause,
        source=None if cause is not None else kubelet.sim.plan.pods[pod.index].place,
    )


def _started(kubelet: Kubelet, pod: SimPod, worker: PodWorker, instance: Instance) -> None:
    journal, runtime = kubelet.sim.journal, kubelet.sim.runtime
    which, previous = _which(pod, instance), instance.previous_id
    journal.write(ContainerStarted(**which, sandbox=instance.container is None))
    if instance.container is not None and previous and instance.container_id in worker.started:
        killed = runtime.killed.get(previous)
        restarted = ContainerRestarted(
            **which,
            previous_container_id=previous,
            reason="exited" if killed is None else killed.reason,
            restart_count=instance.restarts,
        )
        cause = runtime.died.get(previous) if killed is None else killed.seq
        journal.write(restarted, cause=cause)
