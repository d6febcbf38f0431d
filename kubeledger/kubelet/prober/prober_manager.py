"""The probe manager: prober_manager.go, and what the sync loop does with a changed result.

Which workers exist, and by their results what the pod's status says of its containers.

Source: v1.36.2 pkg/kubelet/prober/prober_manager.go, under the names there
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

import msgspec

from kubeledger.kubelet.kube.gotexts import ZERO_TIME_NS
from kubeledger.kubelet.kube.statuses import is_restartable_init_container
from kubeledger.kubelet.prober.objects import (
    FAILURE,
    NO_CONTAINER,
    SUCCESS,
    Container,
    ContainerStatus,
    Pod,
    PodStatus,
    Result,
    Results,
    condition_is_true,
    parse_container_id,
)
from kubeledger.kubelet.prober.worker import ProbeWorker, new_worker, ran_before_kubelet
from kubeledger.kubelet.profile.prober import ProberFacts
from kubeledger.model.bodies.prober import ProbeType

WorkerKey = tuple[str, str, ProbeType]
"""(pod UID, container name, probe type)."""

Caches = Mapping[ProbeType, Mapping[str, Result]]
"""Probe type -> container ID -> cached result."""

_ADD_ORDER: tuple[ProbeType, ...] = ("startup", "readiness", "liveness")


class ProbeManager:
    """Workers by key, and the results of the three probe types.

    A stop is only asked for: a worker sees it between two steps, and ``worker_exited`` then
    takes it out. Until then its key is taken, so that adding the pod again does nothing.

    Source: v1.36.2 pkg/kubelet/prober/prober_manager.go manager
    Differs: no goroutines; the caller that drives the workers says when one exits.
    """

    def __init__(self, facts: ProberFacts, started_ns: int = ZERO_TIME_NS) -> None:
        self.facts = facts
        self.started_ns = started_ns
        self.workers: dict[WorkerKey, ProbeWorker] = {}
        self.results: dict[ProbeType, Results] = {
            "liveness": Results(),
            "readiness": Results(),
            "startup": Results(),
        }

    def add_pod(self, pod: Pod) -> tuple[WorkerKey, ...]:
        """Make the workers of a pod; the first key that is taken ends the whole call.

        Returns:
            (k,) keys of the new workers, in the order they were made.

        Differs: the new workers are listed, not run.
        """
        added: list[WorkerKey] = []
        for container in self._probed_containers(pod):
            for probe_type in _ADD_ORDER:
                results = self.results[probe_type]
                worker = new_worker(
                    pod, container, probe_type, results, self.facts, self.started_ns
                )
                if worker is None:
                    continue
                key = (pod.metadata.uid, container.name, probe_type)
                if key in self.workers:
                    return tuple(added)
                self.workers[key] = worker
                added.append(key)
        return tuple(added)

    def stop_liveness_and_startup(self, pod: Pod) -> None:
        """Ask the liveness and startup workers of app containers to stop; sidecars continue.

        The kubelet does this when it begins to terminate a pod; readiness is probed on.
        """
        for container in pod.spec.containers:
            for probe_type in ("liveness", "startup"):
                self._stop((pod.metadata.uid, container.name, probe_type))

    def remove_pod(self, pod: Pod) -> None:
        """Ask all workers of a pod to stop, once its containers are dead."""
        for container in self._probed_containers(pod):
            for probe_type in _ADD_ORDER:
                self._stop((pod.metadata.uid, container.name, probe_type))

    def worker_exited(self, key: WorkerKey) -> None:
        """Take out a worker whose loop ended, and the result of its container.

        Source: v1.36.2 pkg/kubelet/prober/worker.go run
        Differs: the deferred clean-up only.
        """
        worker = self.workers.pop(key)
        if worker.container_id != NO_CONTAINER:
            worker.results.remove(worker.container_id)

    def update_pod_status(self, pod: Pod, status: PodStatus) -> PodReadiness:
        """Started and ready of a pod's containers, by its workers and their results."""
        uid = pod.metadata.uid
        containers = (*pod.spec.containers, *(pod.spec.init_containers or ()))
        workers = {
            (each.name, kind)
            for each in containers
            for kind in self.results
            if (uid, each.name, kind) in self.workers
        }
        caches = {kind: results.cache for kind, results in self.results.items()}
        return update_pod_status(pod, status, workers, caches, self.started_ns, self.facts)

    def _probed_containers(self, pod: Pod) -> Iterator[Container]:
        """App containers, then sidecars."""
        yield from pod.spec.containers
        if self.facts.restartable_init_containers:
            yield from filter(is_restartable_init_container, pod.spec.init_containers or ())

    def _stop(self, key: WorkerKey) -> None:
        if key in self.workers:
            self.workers[key].stopping = True


# -- started and ready ------------------------------------------------------------------------


class ContainerReadiness(msgspec.Struct):
    """What is published of one container.

    Attributes:
        started: None where the version leaves it unset.
    """

    started: bool | None
    ready: bool


class PodReadiness(msgspec.Struct, rename="camel"):
    """Readiness by container name, and the readiness workers asked to probe at once."""

    containers: dict[str, ContainerReadiness]
    init_containers: dict[str, ContainerReadiness]
    triggered: list[str]


def update_pod_status(
    pod: Pod,
    status: PodStatus,
    workers: Set[tuple[str, ProbeType]],
    caches: Caches,
    kubelet_started_ns: int,
    facts: ProberFacts,
) -> PodReadiness:
    """Decide started and ready of all containers; the kubelet does for every status it makes.

    "No worker" stands for "no such probe", which is wrong for a moment after the kubelet itself
    started.

    Args:
        pod: spec, and status as the API server last had it.
        workers: (container name, probe type) of the workers of this pod that exist.
        kubelet_started_ns: when the probe manager was made.

    Differs: what is published is returned; the status is left as it is.
    """
    update = _Update(pod, workers, caches, kubelet_started_ns, facts, set())
    specs = {container.name: container for container in reversed(pod.spec.containers)}
    containers = {
        found.name: update.of_running(found, specs.get(found.name))
        for found in status.container_statuses or ()
    }
    of_init = update.of_init if facts.restartable_init_containers else _of_plain_init
    inits = enumerate(status.init_container_statuses or ())
    init_containers = {found.name: of_init(found, index) for index, found in inits}
    return PodReadiness(containers, init_containers, sorted(update.triggered))


class _Update(msgspec.Struct):
    """The inputs of one run, and the workers triggered so far."""

    pod: Pod
    workers: Set[tuple[str, ProbeType]]
    caches: Caches
    kubelet_started_ns: int
    facts: ProberFacts
    triggered: set[str]

    def of_running(self, found: ContainerStatus, spec: Container | None) -> ContainerReadiness:
        """An app container or a sidecar."""
        started = self._started(found)
        return ContainerReadiness(started, self._ready(found, spec) if started else found.ready)

    def of_init(self, found: ContainerStatus, index: int) -> ContainerReadiness:
        """An init container where sidecars exist: those are judged as app containers are."""
        specs = self.pod.spec.init_containers or ()
        spec = specs[index] if index < len(specs) and specs[index].name == found.name else None
        if spec is not None and is_restartable_init_container(spec):
            return self.of_running(found, spec)
        ended_well = spec is not None and _ended_well(found)
        return ContainerReadiness(self._started(found), ended_well or found.ready)

    def _started(self, found: ContainerStatus) -> bool:
        """Source: v1.36.2 pkg/kubelet/prober/prober_manager.go isContainerStarted."""
        if found.state.running is None:
            return False
        cached = self.caches["startup"].get(parse_container_id(found.container_id))
        if cached is not None:
            return cached == SUCCESS
        if self.facts.kubelet_restart_keeps_results and found.started:
            return True
        return (found.name, "startup") not in self.workers

    def _ready(self, found: ContainerStatus, spec: Container | None) -> bool:
        """Whether a started container is ready; may trigger its readiness worker."""
        facts = self.facts
        cached = self.caches["readiness"].get(parse_container_id(found.container_id))
        if cached == SUCCESS:
            return True
        if cached is not None and facts.cached_readiness_is_final:
            return False
        has_worker = (found.name, "readiness") in self.workers
        if has_worker and facts.unready_triggers_probe:
            self.triggered.add(found.name)
        if (
            facts.kubelet_restart_keeps_results
            and spec is not None
            and ran_before_kubelet(found, self.kubelet_started_ns)
        ):
            return self._ready_after_kubelet_restart(spec, not has_worker or cached is None)
        return not has_worker

    def _ready_after_kubelet_restart(self, spec: Container, ready: bool) -> bool:
        """A container from before the kubelet's start: as the pod was published.

        Source: v1.36.2 pkg/kubelet/prober/prober_manager.go setReadyStateOnKubeletRestart
        Differs: the caller has asked for the container's age and its cached result.
        """
        if spec.readiness_probe is not None and not condition_is_true(self.pod.status, "Ready"):
            return False
        return ready


def _of_plain_init(found: ContainerStatus, _index: int) -> ContainerReadiness:
    """An init container where there are no sidecars: ready when it ended well."""
    return ContainerReadiness(found.started, _ended_well(found))


def _ended_well(found: ContainerStatus) -> bool:
    return found.state.terminated is not None and found.state.terminated.exit_code == 0


# -- what the sync loop does with an update ---------------------------------------------------


class KnownOfPod(msgspec.Struct, frozen=True, kw_only=True):
    """What the kubelet knows when an update arrives.

    Attributes:
        status: the status manager has a status of it.
        container: that status has the ID of the container.
    """

    pod: bool = True
    status: bool = True
    container: bool = True


class Reaction(msgspec.Struct, frozen=True, kw_only=True):
    """What follows from one update.

    Attributes:
        ready: published for the container at once; None leaves it.
        started: likewise.
        dropped: why the status manager publishes nothing of it, in the words of its log
            since 1.21; empty if it does, or if there is nothing to publish.
        syncs_pod: the pod is synced now. Without, a change takes effect at the next sync that
            something else causes.
        logged: the status in the sync loop's line about the update; None where it logs
            none. Before 1.21 it logs liveness failures alone, in other words.
    """

    ready: bool | None = None
    started: bool | None = None
    dropped: str = ""
    syncs_pod: bool
    logged: str | None = None


_ALL_KNOWN = KnownOfPod()


def reaction_to(
    probe_type: ProbeType, result: Result, facts: ProberFacts, known: KnownOfPod = _ALL_KNOWN
) -> Reaction:
    """What the sync loop does with an update.

    An update for a pod that is gone is logged as irrelevant and syncs nothing.

    Source: v1.36.2 pkg/kubelet/kubelet.go syncLoopIteration, handleProbeSync;
        pkg/kubelet/status/status_manager.go SetContainerReadiness, SetContainerStartup
    Differs: before 1.21 the readiness and startup parts are updateReadiness and
        updateStartup of the probe manager. That a value is the one published before, which
        changes nothing, is not distinguished.
    """
    if probe_type == "liveness":
        if result != FAILURE:
            return Reaction(syncs_pod=False)
        return Reaction(syncs_pod=known.pod, logged="unhealthy")
    succeeded = result == SUCCESS
    dropped = _dropped(probe_type, known)
    published = succeeded if known.pod and not dropped else None
    wakes = facts.results_wake_sync_loop
    return Reaction(
        ready=published if probe_type == "readiness" else None,
        started=published if probe_type == "startup" else None,
        dropped=dropped,
        syncs_pod=wakes and known.pod,
        logged=_logged(probe_type, facts, succeeded=succeeded) if wakes else None,
    )


def _dropped(probe_type: ProbeType, known: KnownOfPod) -> str:
    if known.pod and known.status and known.container:
        return ""
    if not known.pod:
        return f"Pod has been deleted, no need to update {probe_type}"
    why = "for unknown container" if known.status else "before pod has synced"
    return f"Container {probe_type} changed {why}"


def _logged(probe_type: ProbeType, facts: ProberFacts, *, succeeded: bool) -> str:
    if probe_type == "startup":
        return "started" if succeeded else "unhealthy"
    if succeeded:
        return "ready"
    return "not ready" if facts.unready_named else ""
