"""The probe workers of all pods of the present kubelet process, and what they probe."""

from __future__ import annotations

from typing import Any, NamedTuple

from kubeledger.ingest.correlate.holdback import Waiting
from kubeledger.ingest.correlate.registers import Container, Pod, Registers
from kubeledger.ingest.derive.probe_worker import (
    INITIAL,
    ProbeWorker,
    ResultAttribution,
    probe_spec,
    probed_containers,
    worker_result,
)
from kubeledger.ingest.sources.items import Fact
from kubeledger.kubelet.prober.worker import RESTART_GRACE_NS
from kubeledger.model.bodies.prober import ProbeExecuted, ProbeResult, ProbeTransitioned, ProbeType
from kubeledger.model.units import NS_PER_S

_LINE_WAIT_NS = 15 * NS_PER_S
_AT_ONCE_NS = NS_PER_S // 20
_NOT_RUNNING_NS = 5 * NS_PER_S


class Meant(NamedTuple):
    """A worker that a line may mean.

    Attributes:
        tick: that led to the change; None when it is not in the log, or there was none.
        run: of ticks with that result; None when not all are in the log.
        ticked: the change came from a tick, in the log or not.
    """

    worker: ProbeWorker
    tick: Fact | None
    run: int | None
    ticked: bool


class PodWorkers:
    """The workers of one pod.

    Attributes:
        awaited: changes shown by ticks whose line has not come.
        ticks: last tick of each worker, as a cause.
        not_running: container -> when a worker found it not running.
        attributions: what lines that name no container show, by probe type.
    """

    def __init__(self) -> None:
        self.workers: dict[tuple[str, ProbeType], ProbeWorker] = {}
        self.awaited: list[tuple[ProbeType, ProbeResult, Waiting[ProbeTransitioned]]] = []
        self.ticks: dict[tuple[str, ProbeType], Fact] = {}
        self.not_running: dict[str, int] = {}
        self.attributions: dict[ProbeType, ResultAttribution] = {}
        self.added: Fact | None = None

    def take_awaited(
        self, probe_type: ProbeType, result: ProbeResult, line_ns: int
    ) -> Waiting[ProbeTransitioned] | None:
        """The change that a line reports: one of just now, else the oldest still waiting.

        What has left without its line is not meant any more: that line is lost, and each
        later one would be taken for the one before it.
        """
        self.awaited = [entry for entry in self.awaited if entry[2].is_open]
        fitting = [entry for entry in self.awaited if entry[:2] == (probe_type, result)]
        just_now = [e for e in fitting[1:] if line_ns - e[2].fact.ts_ns <= _AT_ONCE_NS]
        found = next(iter([*just_now[-1:], *fitting]), None)
        if found is None:
            return None
        self.awaited.remove(found)
        return found[2]

    def awaited_of(self, worker: ProbeWorker) -> Waiting[ProbeTransitioned] | None:
        """The change of a worker whose line has not come."""
        of = worker.container, worker.probe_type
        open_ = (waiting for *_, waiting in self.awaited if waiting.is_open)
        return next((w for w in open_ if (w.body.container, w.body.probe_type) == of), None)

    def denied(
        self, probe_type: ProbeType, result: ProbeResult, line_ns: int
    ) -> Waiting[ProbeTransitioned] | None:
        """The change of just now that a line tells with the other result than its ticks give."""
        alone = sum(worker.probe_type == probe_type for worker in self.workers.values()) == 1
        just_now = (
            waiting
            for kind, after, waiting in reversed(self.awaited)
            if kind == probe_type and after != result and waiting.is_open
            if 0 <= line_ns - waiting.fact.ts_ns <= _AT_ONCE_NS
        )
        return next(just_now, None) if alone else None

    def has_success(self, probe_type: ProbeType, since_ns: int) -> bool:
        """Whether the last tick of a worker of that type was a success, not before that."""
        return any(
            kind == probe_type and fact.ts_ns >= since_ns and _is(fact, "success")
            for (_, kind), fact in self.ticks.items()
        )

    def meant(self, probe_type: ProbeType, result: ProbeResult, line_ns: int) -> list[Meant]:
        """Workers that a line may mean which no change shown by ticks explains, best first.

        The last tick is taken for the one that decided if it is at most half a period old;
        else that one's line is lost, and only a single worker that was on its way can be meant.
        """
        near: list[Meant] = []
        stopped: list[Meant] = []
        lost: list[Meant] = []
        # These are never an initial value, so a line of them is a change.
        sure = result == "success" or probe_type == "liveness"
        for worker in self.workers.values():
            if worker.probe_type != probe_type:
                continue
            stopped_ns = self.not_running.get(worker.container)
            just_stopped = stopped_ns is not None and line_ns - stopped_ns <= _NOT_RUNNING_NS
            tick = self.ticks.get((worker.container, probe_type))
            doubtful = worker.uncertain or not worker.knows_thresholds
            on_its_way = worker.run > 0 and worker.result == result and (doubtful or sure)
            age_ns = line_ns - tick.ts_ns if tick is not None and on_its_way else None
            if age_ns is not None and age_ns <= worker.period_ns // 2 and _is(tick, result):
                near.append(Meant(worker, tick, worker.run_to(result), True))
            elif just_stopped and result == "failure":
                stopped.append(Meant(worker, None, None, False))
            elif age_ns is not None and age_ns <= max(_LINE_WAIT_NS, 2 * worker.period_ns):
                lost.append(Meant(worker, None, None, True))
        return [*near, *stopped, *(lost if len(lost) == 1 else ())]


def _is(tick: Fact | None, result: ProbeResult) -> bool:
    """Whether the worker counted that result."""
    if tick is None:
        return False
    return isinstance(tick.body, ProbeExecuted) and worker_result(tick.body.result) == result


class ProbeWorkers:
    """Finds and makes workers; the pods' ADD and the kubelet's restart make them new.

    Attributes:
        successes_logged: the present kubelet logs successful ticks, so that all changes can
            be reported from ticks; False until one was seen.
    """

    def __init__(self, registers: Registers) -> None:
        self._context = registers.context
        self._sync_loop = registers.sync_loop
        self._containers = registers.containers
        profile = self._context.profile
        self._facts = None if profile is None else profile.prober
        self._process = 0
        self._pods: dict[Pod, PodWorkers] = {}
        self.successes_logged = False

    def of_pod(self, pod: Pod) -> PodWorkers:
        """A kubelet restart, and a pod added again, make all its workers new."""
        if self._process != self._sync_loop.process:
            self._process = self._sync_loop.process
            self._pods.clear()
            self.successes_logged = False
        workers = self._pods.get(pod)
        if workers is None or workers.added is not pod.added:
            workers = self._pods[pod] = PodWorkers()
            workers.added = pod.added
        return workers

    def worker(
        self, pod: Pod, workers: PodWorkers, container: str, probe_type: ProbeType
    ) -> ProbeWorker:
        """The worker of that container and type, made when it is new."""
        worker = workers.workers.get((container, probe_type))
        if worker is None:
            spec = self.spec(pod, container, probe_type)
            worker = ProbeWorker(container, probe_type, spec, self._facts)
            workers.workers[container, probe_type] = worker
            worker.uncertain = self._is_uncertain(pod, worker)
            worker.pushes = probe_type != "liveness" and not self._began_before(pod, worker)
            container_id = self._running_id(pod, container, None)
            if container_id is not None:
                self._probes(pod, worker, container_id)
        return worker

    def all_of(self, pod: Pod, probe_type: ProbeType, ts_ns: int) -> list[ProbeWorker]:
        """All workers of a type, in the pod spec's order; empty without a spec at hand."""
        names = probed_containers(self._context.spec_of(pod.uid), probe_type)
        workers = [self.worker(pod, self.of_pod(pod), name, probe_type) for name in names]
        for worker in workers:
            self._notice_id(pod, worker, ts_ns)
            worker.perhaps_new = self._is_perhaps_new(pod, worker)
        return workers

    def spec(self, pod: Pod, container: str, probe_type: ProbeType) -> dict[str, Any] | None:
        """The API's JSON of a probe; None when no pod spec is at hand."""
        return probe_spec(self._context.spec_of(pod.uid), container, probe_type)

    def notice_container(
        self, pod: Pod, worker: ProbeWorker, ts_ns: int
    ) -> Waiting[ProbeTransitioned] | None:
        """Notice a new container: by its ID, or because a worker on hold probes again.

        Returns the change that put it on hold, where no line has told of that and the container is
        still the same: ticks before it were of another container, or are missing.
        """
        if self._notice_id(pod, worker, ts_ns) or not worker.on_hold:
            return None
        running = self._running_id(pod, worker.container, ts_ns)
        denied = None if running is None else self.of_pod(pod).awaited_of(worker)
        kept = None if denied is None else worker.container_id
        worker.probes(kept, cached=INITIAL[worker.probe_type], uncertain=kept is not None)
        return denied

    def _notice_id(self, pod: Pod, worker: ProbeWorker, ts_ns: int) -> bool:
        container_id = self._running_id(pod, worker.container, ts_ns)
        if container_id is None or container_id == worker.container_id:
            return False
        kills = self._containers.of(pod).probe_kills
        killed_id = kills.get((worker.container, worker.probe_type))
        was_killed = killed_id is not None and killed_id != container_id
        if was_killed and self._ends_with(worker, killed_id):
            del kills[worker.container, worker.probe_type]
            worker.ends()
            self._probes(pod, worker, container_id)
        elif (
            worker.container_id is None and not worker.on_hold and (worker.run or worker.is_logged)
        ):
            worker.container_id = container_id  # the same container, only now known by its ID
            if not worker.is_logged:
                worker.uncertain = self._is_uncertain(pod, worker)
        else:
            self._probes(pod, worker, container_id)
            worker.uncertain = self._is_uncertain(pod, worker)
        return True

    def _ends_with(self, worker: ProbeWorker, killed_id: str | None) -> bool:
        """Whether the kill was of what the worker probed, if under an ID that was not logged."""
        killed = self._containers.get(killed_id)
        kill, ticked_ns = None if killed is None else killed.kill, worker.ticked_ns
        is_since = kill is not None and ticked_ns is not None and kill.ts_ns >= ticked_ns
        return worker.container_id in (None, killed_id) or is_since

    def _probes(self, pod: Pod, worker: ProbeWorker, container_id: str) -> None:
        cached = self._initial(container_id, worker.probe_type)
        pushes = cached is not None and worker.probe_type != "liveness"
        pushes = pushes and not self._began_before(pod, worker)
        worker.probes(container_id, cached=cached, pushes=pushes)

    def _is_uncertain(self, pod: Pod, worker: ProbeWorker) -> bool:
        """Readiness, in a log that begins inside a process, of what started before the log."""
        return worker.probe_type == "readiness" and self._began_before(pod, worker)

    def _began_before(self, pod: Pod, worker: ProbeWorker) -> bool:
        current = self._containers.of(pod).current
        return (
            self._sync_loop.process == 0 and pod.added is None and worker.container not in current
        )

    def _is_perhaps_new(self, pod: Pod, worker: ProbeWorker) -> bool:
        """Whether the worker may probe a container that the log did not show.

        With the PLEG in the log that is one whose ID came without a name. Without it, what
        follows a failed liveness or startup probe, or what began at a time not known.
        """
        if self._containers.any_seen:
            return self._is_followed(pod, self._containers.get(worker.container_id))
        return worker.uncertain or any(
            other.container == worker.container
            and other.probe_type != "readiness"
            and other.cached == "failure"
            for other in self.of_pod(pod).workers.values()
        )

    def _is_followed(self, pod: Pod, container: Container | None) -> bool:
        """Whether it died, and an ID of the pod that has no name was seen since."""
        if container is None or container.died is None:
            return False
        others = (self._containers[other] for other in self._containers.of(pod).unnamed)
        seen = (other.seen_ts_ns for other in others)
        return any(ts_ns is not None and ts_ns >= container.ended_ns for ts_ns in seen)

    def _running_id(self, pod: Pod, container: str, ts_ns: int | None) -> str | None:
        """ID of the running container: the PLEG's last, else the only one a status shows.

        The PLEG's line may be late: one that it shows last may have died, and the next one, which
        it has not shown yet, may be probed. Statuses show the second in which it started.
        """
        current = self._containers.of(pod).current.get(container)
        if ts_ns is None:
            return current
        known = self._containers.get(current)
        died = known is not None and known.died is not None
        if current is not None and not died and not self._is_followed(pod, known):
            return current
        running = [
            (instance.started_ts_ns or 0, container_id)
            for container_id, instance in self._context.instances.items()
            if (instance.pod_uid, instance.container) == (pod.uid, container)
            and (instance.started_ts_ns or ts_ns) + NS_PER_S <= ts_ns
            and (instance.finished_ts_ns is None or ts_ns <= instance.finished_ts_ns + NS_PER_S)
            and not (died and container_id == current)
        ]
        # The others had ended when the last one began.
        return max(running)[1] if running else None

    def _initial(self, container_id: str, probe_type: ProbeType) -> ProbeResult | None:
        """The result a worker starts with; None where the kubelet sets none."""
        instance, known = (
            self._context.instances.get(container_id),
            self._containers.get(container_id),
        )
        started_ns = None if instance is None else instance.started_ts_ns
        if started_ns is None and known is not None:
            started_ns = known.seen_ts_ns
        since_ns = self._sync_loop.started_ns
        if started_ns is None or since_ns is None or started_ns >= since_ns - RESTART_GRACE_NS:
            return INITIAL[probe_type]
        keeps = self._facts is not None and self._facts.kubelet_restart_keeps_results
        return None if keeps else INITIAL[probe_type]
