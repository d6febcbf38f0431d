"""One pod's worker: it syncs the pod, and in the end takes it down.

Between two syncs the runtime is listed once, so a sync always sees what the one before did.
Latencies are those of small containers on a quiet machine, and always the same: 50 ms for a
sandbox, 50 ms for a container, 50 ms to stop a sandbox, 100 ms for volumes and cgroups of a
pod that is down.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kubeledger.kubelet.kuberuntime.kuberuntime_manager import BackedOff
from kubeledger.kubelet.kuberuntime.objects import (
    LIVENESS_PROBE,
    STARTUP_PROBE,
    ContainerToKill,
    PodActions,
)
from kubeledger.kubelet.lifecycle.stages import failures_of_sync
from kubeledger.kubelet.lifecycle.termination import MINIMUM_GRACE_S, container_grace_s
from kubeledger.model.bodies.lifecycle import ContainerKilled, PodTerminated
from kubeledger.model.bodies.prober import ProbeType
from kubeledger.model.units import NS_PER_S
from kubeledger.simulate.engine.actions import RUNTIME, actions_of, probe_spec
from kubeledger.simulate.engine.ending import Ending, KillReason, ending_grace_s, written
from kubeledger.simulate.engine.kubelet import Kubelet, Loop, Resume, Steps, run
from kubeledger.simulate.engine.machine import duration_ns
from kubeledger.simulate.engine.pleg import (
    DEADLINE,
    DEADLINE_MESSAGE,
    Pleg,
    past_deadline,
    phase_of,
)
from kubeledger.simulate.engine.schedule import Timer
from kubeledger.simulate.engine.starts import RETRY_NS, Starts, Way
from kubeledger.simulate.engine.world import End, Instance, SimContainer, SimPod

SANDBOX_NS = 50_000_000
CONTAINER_NS = 50_000_000
_HOOK_NS = 3 * NS_PER_S
"""A post-start hook that fails does so after as long."""
_CLEAN_UP_NS = 100_000_000
_PERMILLE = 1000
_PROBES: Mapping[str, ProbeType] = {LIVENESS_PROBE: "liveness", STARTUP_PROBE: "startup"}


class PodWorker(Loop):
    """Syncs one pod in this kubelet process.

    Attributes:
        ending: why it is taken down; None while it is to run.
        started: IDs of containers that this process started.
        end_recorded: the pod's end is on record.
        updated: record of the newest change of its spec.
        published: its containers as its status shows them: as the last sync saw them.
    """

    def __init__(self, kubelet: Kubelet, pleg: Pleg, pod: SimPod) -> None:
        super().__init__(kubelet)
        self.pod = pod
        self.ending: Ending | None = None
        self.started: set[str] = set()
        self.end_recorded = False
        self.published: tuple[Instance, ...] = ()
        self._pleg = pleg
        self._way, self._starts = Way(kubelet, pod), Starts(kubelet, pod)
        self.busy = self._pending = False
        self.updated: int | None = None
        self._cause: int | None = None
        self._last_end_ns: int | None = None
        self._resync: Timer | None = None
        self._waiting: list[Resume] = []
        self._retry_ns: int | None = None
        self._resync_ns = duration_ns(kubelet.sim.settings, "syncFrequency", "1m")
        self._jitter = kubelet.sim.draws.stream(f"resync/{kubelet.run}/{pod.uid}")

    def wake(self, cause: int | None = None) -> None:
        """Sync the pod now, or as soon as the present sync is over."""
        self._cause = cause
        if self.busy:
            self._pending = True
        elif not self.pod.terminated:
            self._begin()

    def end(self, ending: Ending) -> None:
        """Take the pod down; what asks for it first decides how."""
        if self.ending is None:
            self.wake(self._set_ending(ending))

    def _set_ending(self, ending: Ending) -> int | None:
        """Take note, and write down why; gives the record to continue from."""
        sim = self._sim
        self._way.leave()
        self.ending = written(sim.journal, sim.profile.lifecycle, self.pod, ending)
        return self.ending.cause

    def when_ended(self, resume: Resume) -> None:
        """Call when the pod is down."""
        if self.pod.terminated:
            resume()
        else:
            self._waiting.append(resume)

    # -- the loop ------------------------------------------------------------------------

    def _begin(self) -> None:
        self.busy, self._pending = True, False
        if self._resync is not None:
            self._resync.cancel()
        run(self._kubelet, self._work(), self._finished)

    def _finished(self) -> None:
        now_ns = self._clock.now_ns
        self.busy, self._last_end_ns = False, now_ns
        if self.pod.terminated:
            waiting, self._waiting = self._waiting, []
            for resume in waiting:
                resume()
        elif self._pending:
            self._begin()
        else:
            wait_ns = self._resync_ns if self._retry_ns is None else self._retry_ns
            wait_ns += wait_ns * self._jitter.below(_PERMILLE // 2) // _PERMILLE
            self._resync = self._kubelet.after(self._to_tick(wait_ns), self.wake)

    def _to_tick(self, wait_ns: int) -> int:
        """The queue of syncs that are due is looked at once a second."""
        since_ns = self._clock.now_ns - self._kubelet.started_ns + wait_ns
        return wait_ns + -since_ns % NS_PER_S

    def _work(self) -> Steps:
        self._retry_ns = None
        if self._last_end_ns is not None:
            # Only what was listed after the last sync shows what that did.
            now_ns = self._clock.now_ns
            if self._pleg.listed_ns() <= self._last_end_ns:
                yield self._pleg.next_relist_ns() - now_ns
        sim, is_new = self._sim, self.ending is None and not self._way.has_cgroup
        waits = sim.profile.lifecycle.static_pod_waits_for_namesake
        if is_new and waits and sim.world.has_namesake(self.pod):
            self._retry_ns = RETRY_NS
            return
        if self.ending is None:
            yield from self._sync()
        if self.ending is not None:
            yield from self._take_down(self.ending)

    # -- syncs ---------------------------------------------------------------------------

    def _sync(self) -> Steps:
        """One sync of a pod that is to run.

        Source: v1.36.2 pkg/kubelet/kuberuntime/kuberuntime_manager.go SyncPod
        Differs: there are no ephemeral containers.
        """
        kubelet, pod = self._kubelet, self.pod
        view = self._pleg.view(pod.uid)
        exited = {c.name: self._pleg.exited(pod.uid, c.name) for c in pod.containers}
        self.published = self._pleg.instances(pod.uid)
        for container in pod.containers:
            container.waiting = self._starts.reasons.get(container.name)
        kubelet.probes.update_status(pod)
        facts = kubelet.sim.profile.kuberuntime
        pod.phase = phase_of(pod, view, facts)
        if pod.phase in ("Succeeded", "Failed"):
            self._set_ending(Ending(reason="pod_ended"))
            return
        if past_deadline(pod, kubelet.sim.schedule.now_ns):
            self._report(DEADLINE, DEADLINE_MESSAGE, warns=False)
            self._set_ending(
                Ending(
                    reason="deadline_exceeded",
                    status_reason=DEADLINE,
                    status_message=DEADLINE_MESSAGE,
                )
            )
            return
        self._retry_ns = yield from self._way.prepare(self._cause)
        if self._retry_ns is not None:
            return
        kubelet.resizes.synced(pod)
        results = kubelet.probes.results
        actions = actions_of(pod, self.published, results("liveness"), results("startup"), facts)
        for container_id, kill in actions.containers_to_kill.items():
            yield from self._kill(container_id, kill, whole_pod=actions.kill_pod)
        if actions.kill_pod:
            # The runtime manager stops the rest; the pod is taken down when that was seen.
            alone = not actions.create_sandbox and not actions.containers_to_kill
            reason: KillReason | None = "pod_ended" if alone else None
            yield from self._stop_sandbox_with(self.ending or Ending(reason=reason))
            if not actions.create_sandbox:
                return
            kubelet.sim.runtime.forget(pod.uid, of={c.name for c in pod.containers if c.init})
        if actions.create_sandbox:
            if not self._way.claims():
                return
            yield SANDBOX_NS
            if self.ending is not None:
                return
            if not self._way.sandbox():
                self._retry_ns = RETRY_NS
                return
            kubelet.sim.runtime.start(pod, None)
        if not self._resize(actions):
            return
        inits = len(pod.synced.spec.init_containers or ())
        starts = (
            *actions.init_containers_to_start,
            *(inits + i for i in actions.containers_to_start),
        )
        for container in (pod.containers[index] for index in starts):
            if self.ending is not None:
                return
            yield from self._start(container, exited[container.name])
            if container.init and not container.sidecar and container.state != "running":
                return

    def _resize(self, actions: PodActions) -> bool:
        """Give containers what was allocated to them; whether that is no error of the sync."""
        restarted = any(_is_for_resize(kill) for kill in actions.containers_to_kill.values())
        if not actions.containers_to_update and not restarted:
            return True
        if not self._kubelet.resizes.actuate(self.pod, actions):
            self._retry_ns = RETRY_NS
            return False
        self._pending = True  # the kubelet looks at once what came of it
        return True

    def _kill(self, container_id: str, kill: ContainerToKill, *, whole_pod: bool) -> Steps:
        """A container whose probe failed, or whose definition changed."""
        pod, kubelet = self.pod, self._kubelet
        probe_type = _PROBES.get(kill.reason)
        own_grace_s, reason, cause = None, "spec_changed", self.updated
        if probe_type is not None:
            own_grace_s = probe_spec(pod, kill.name, probe_type).get(
                "terminationGracePeriodSeconds"
            )
            reason = f"{probe_type}_probe"
            cause = kubelet.probes.transition(probe_type, container_id)
        elif _is_for_resize(kill):
            reason, cause = "resized", kubelet.resizes.cause(pod)
        if whole_pod or not isinstance(own_grace_s, int):
            own_grace_s = None
        gates = kubelet.sim.setting("featureGates") or {}
        grace_s = container_grace_s(
            kubelet.sim.profile.lifecycle,
            pod.spec.get("terminationGracePeriodSeconds"),
            own_grace_s,
            gate_is_on=gates.get("ProbeTerminationGracePeriod") is True,
        )
        for instance in kubelet.sim.runtime.instances(pod.uid):
            # One that has just ended by itself runs still for all that was listed.
            if f"{RUNTIME}{instance.container_id}" == container_id:
                ends_ns = self._stop(instance, reason, kill.message, grace_s, cause)
                yield ends_ns - kubelet.sim.schedule.now_ns
        yield 0

    def _stop(
        self, instance: Instance, reason: str | None, message: str, grace_s: int, cause: int | None
    ) -> int:
        """Record the kill and call the runtime; returns when the instance ends."""
        seq = self._journal.write(
            ContainerKilled(
                **self.pod.identity,
                container=instance.container,
                container_id=instance.container_id,
                reason=reason,
                message=message,
                grace_period_s=grace_s,
            ),
            cause=cause,
        )
        self._kubelet.recorder.spend(self.pod, 1)
        self._sim.runtime.killed[instance.container_id] = End(seq, reason or "exited")
        if not instance.running:
            return self._clock.now_ns
        return self._sim.runtime.stop(self.pod, instance, grace_s * NS_PER_S)

    def _start(self, container: SimContainer, exited: Instance | None) -> Steps:
        sim = self._sim
        held = self._kubelet.pods.back_offs.hold(self.pod, container.name, exited)
        container.backed_off = held is not None
        if held is not None:
            self._back_off(container, held)
            return
        events = yield from self._starts.prepare(container)
        if not events:
            self._retry_ns = RETRY_NS
            return
        yield CONTAINER_NS
        if self.ending is None:
            self._kubelet.recorder.spend(self.pod, events)
            self._kubelet.resizes.started(self.pod, container.name)
            instance = sim.runtime.start(self.pod, container)
            self.started.add(instance.container_id)
            words = self._starts.hook_failure(container)
            if words is not None or sim.runtime.hook_fails(self.pod, instance):
                yield from self._hook_failed(container, instance, words)

    def _hook_failed(self, container: SimContainer, instance: Instance, words: str | None) -> Steps:
        """The container is killed, and the sync has failed; ``words`` are the hook's, if known.

        Source: v1.36.2 pkg/kubelet/kuberuntime/kuberuntime_container.go startContainer
        """
        yield _HOOK_NS
        listed = self._sim.runtime.instances(self.pod.uid)  # it may have ended meanwhile
        instance = next((i for i in listed if i.container_id == instance.container_id), instance)
        shown = self._sim.profile.stages.hook_event_has_words and words
        text = shown or "PostStartHook failed"
        self._report("FailedPostStartHook", text, instance.container)
        if words is not None:
            self._starts.hook_failed(container, words)
        facts = self._sim.profile.lifecycle
        grace_s = container_grace_s(facts, self.pod.spec.get("terminationGracePeriodSeconds"), None)
        ends_ns = self._stop(instance, "post_start_hook", "FailedPostStartHook", grace_s, None)
        yield ends_ns - self._clock.now_ns
        self._retry_ns = RETRY_NS

    def _back_off(self, container: SimContainer, held: BackedOff) -> None:
        self._kubelet.pods.back_offs.write(self.pod, container, held)
        retry_ns = RETRY_NS
        if self._sim.profile.kuberuntime.retried_when_back_off_ends:
            retry_ns = min(held.until_ns - self._clock.now_ns, self._resync_ns)
        self._retry_ns = retry_ns if self._retry_ns is None else min(self._retry_ns, retry_ns)

    def _report(
        self, reason: str, message: str, container: str | None = None, *, warns: bool = True
    ) -> None:
        """An event about the pod."""
        self._kubelet.recorder.send(self.pod, reason, message, container, warns=warns)

    # -- the end -------------------------------------------------------------------------

    def _take_down(self, ending: Ending) -> Steps:
        """Source: v1.36.2 pkg/kubelet/kubelet.go SyncTerminatingPod, SyncTerminatedPod."""
        kubelet, pod = self._kubelet, self.pod
        kubelet.probes.stop_liveness_and_startup(pod)
        keeps_phase = kubelet.sim.profile.admission.terminating_pods_count
        if not keeps_phase:
            self._settle(ending)
        yield from self._stop_sandbox_with(ending)
        kubelet.cgroups.pod_killed(ending.cause)
        if error := kubelet.claims.unprepare(pod, ending.cause):
            kubelet.told.stage(pod, failures_of_sync(error)[0])
            self._retry_ns = RETRY_NS
            return
        yield _CLEAN_UP_NS
        self.published = kubelet.sim.runtime.instances(pod.uid)
        if pod.phase not in ("Succeeded", "Failed"):
            view = {each.container: each for each in self.published if each.container is not None}
            pod.phase = phase_of(pod, view, kubelet.sim.profile.kuberuntime)
        self._settle(ending)
        pod.terminated = True
        kubelet.resizes.reconciled(pod)
        kubelet.probes.remove_pod(pod)
        kubelet.cgroups.pod_gone(pod)
        if not self._pleg.instances(pod.uid) and not kubelet.sim.runtime.instances(pod.uid):
            self.report_terminated()

    def _stop_sandbox_with(self, ending: Ending) -> Steps:
        """Stop all containers, sidecars last, and the sandbox.

        Source: v1.36.2 pkg/kubelet/kuberuntime/kuberuntime_manager.go killPodWithSyncResult,
            kuberuntime_termination_order.go waitForTurn
        """
        kubelet, pod = self._kubelet, self.pod
        sidecars = {c.name for c in pod.containers if c.sidecar}
        running = [i for i in kubelet.sim.runtime.running(pod.uid) if i.container is not None]
        last = [i for i in running if i.container in sidecars]
        ordered = kubelet.sim.profile.lifecycle.sidecars_end_in_order
        first = [i for i in running if i not in last] if ordered else running
        facts, began_ns = kubelet.sim.profile.lifecycle, kubelet.sim.schedule.now_ns
        grace_s = ending_grace_s(facts, pod.spec, ending)
        yield from self._stop_all(first, ending, grace_s)
        waiting = last[::-1] if ordered else []
        while waiting:
            waited_s = (kubelet.sim.schedule.now_ns - began_ns) // NS_PER_S
            # The grace is that of the whole pod: once it is over nobody waits any more.
            turn = waiting[:1] if waited_s < grace_s else waiting
            waiting = waiting[len(turn) :]
            yield from self._stop_all(turn, ending, max(grace_s - waited_s, MINIMUM_GRACE_S))
        for instance in kubelet.sim.runtime.running(pod.uid):
            yield SANDBOX_NS
            kubelet.sim.runtime.stop(pod, instance, 0)
            yield 0

    def _stop_all(self, instances: Iterable[Instance], ending: Ending, grace_s: int) -> Steps:
        """Stop containers at the same time, and wait for all."""
        now_ns = self._clock.now_ns
        ends_ns = now_ns
        for instance in instances:
            text = f"Stopping container {instance.container}"
            end_ns = self._stop(instance, ending.reason, text, grace_s, ending.cause)
            ends_ns = max(ends_ns, end_ns)
        yield ends_ns - now_ns
        yield 0

    def _settle(self, ending: Ending) -> None:
        if ending.status_reason:
            if not ending.keeps_phase:
                self.pod.phase = "Failed"
            self.pod.reason = ending.status_reason
            self.pod.message = ending.status_message

    def report_terminated(self) -> None:
        """Write down that the kubelet let the pod go, once."""
        if self.end_recorded or not self.pod.terminated:
            return
        self.end_recorded = True
        self._journal.write(
            PodTerminated(**self.pod.identity),
            cause=None if self.ending is None else self.ending.cause,
        )


def _is_for_resize(kill: ContainerToKill) -> bool:
    return kill.message.endswith("resize requires restart")
