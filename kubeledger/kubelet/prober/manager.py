"""The probe manager: which workers exist, and when they are asked to stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kubeledger.kubelet.kube.restartpolicy import is_restartable_init_container
from kubeledger.kubelet.prober.instants import ZERO_TIME_NS
from kubeledger.kubelet.prober.objects import (
    Container,
    Pod,
    PodStatus,
)
from kubeledger.kubelet.prober.podstatus import PodReadiness, update_pod_status
from kubeledger.kubelet.prober.results import NO_CONTAINER, Results
from kubeledger.kubelet.prober.worker import ProbeWorker, new_worker
from kubeledger.kubelet.profile.prober import ProberFacts
from kubeledger.model.bodies.prober import ProbeType

WorkerKey = tuple[str, str, ProbeType]
"""(pod UID, container name, probe type)."""

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

        Source: v1.36.2 pkg/kubelet/prober/prober_manager.go AddPod
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

        Source: v1.36.2 pkg/kubelet/prober/prober_manager.go StopLivenessAndStartup
        Differs: nothing.
        """
        for container in pod.spec.containers:
            for probe_type in ("liveness", "startup"):
                self._stop((pod.metadata.uid, container.name, probe_type))

    def remove_pod(self, pod: Pod) -> None:
        """Ask all workers of a pod to stop, once its containers are dead.

        Source: v1.36.2 pkg/kubelet/prober/prober_manager.go RemovePod
        Differs: nothing.
        """
        for container in self._probed_containers(pod):
            for probe_type in ("readiness", "liveness", "startup"):
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
        """Started and ready of a pod's containers, as ``podstatus.update_pod_status``."""
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
            for container in pod.spec.init_containers or ():
                if is_restartable_init_container(container):
                    yield container

    def _stop(self, wanted: WorkerKey) -> None:
        self._stop_where(lambda key: key == wanted)

    def _stop_where(self, selects: Callable[[WorkerKey], bool]) -> None:
        for key, worker in self.workers.items():
            if selects(key):
                worker.stopping = True
