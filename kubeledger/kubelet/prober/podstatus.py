"""Started and ready of each container, from its state, the caches and the workers.

The kubelet runs this over every status it generates. "No worker" stands for "no such
probe", which is wrong for a moment after the kubelet itself started.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

import msgspec

from kubeledger.kubelet.kube.restartpolicy import is_restartable_init_container
from kubeledger.kubelet.prober.objects import (
    Container,
    ContainerStatus,
    Pod,
    PodStatus,
    condition_is_true,
)
from kubeledger.kubelet.prober.results import SUCCESS, Result, parse_container_id
from kubeledger.kubelet.prober.worker import ran_before_kubelet
from kubeledger.kubelet.profile.prober import ProberFacts
from kubeledger.model.bodies.prober import ProbeType

Caches = Mapping[ProbeType, Mapping[str, Result]]
"""probe type -> container ID -> cached result."""


class ContainerReadiness(msgspec.Struct):
    """What is published of one container.

    Attributes:
        started: None where the version leaves it unset.
        started_because, ready_because: clauses that follow "because".
    """

    started: bool | None
    ready: bool
    started_because: str
    ready_because: str


class PodReadiness(msgspec.Struct):
    """Readiness by container name, and the readiness workers asked to probe at once."""

    containers: dict[str, ContainerReadiness]
    init_containers: dict[str, ContainerReadiness]
    triggered: list[str]


class _Update(msgspec.Struct):
    """The inputs of one run, and the workers triggered so far."""

    pod: Pod
    workers: Set[tuple[str, ProbeType]]
    caches: Caches
    kubelet_started_ns: int
    facts: ProberFacts
    triggered: set[str]


def update_pod_status(
    pod: Pod,
    status: PodStatus,
    workers: Set[tuple[str, ProbeType]],
    caches: Caches,
    kubelet_started_ns: int,
    facts: ProberFacts,
) -> PodReadiness:
    """Decide started and ready of all containers.

    Args:
        pod: spec, and status as the API server last had it.
        status: as read from the runtime; not changed.
        workers: (container name, probe type) of the workers of this pod that exist.
        caches: results by probe type and container ID.
        kubelet_started_ns: when the probe manager was made.
        facts: of the kubelet version.

    Source: v1.36.2 pkg/kubelet/prober/prober_manager.go UpdatePodStatus
    Differs: what is published is returned; the status is left as it is.
    """
    update = _Update(pod, workers, caches, kubelet_started_ns, facts, set())
    specs = {container.name: container for container in reversed(pod.spec.containers)}
    containers = {
        found.name: _running_readiness(update, found, specs.get(found.name))
        for found in status.container_statuses or ()
    }
    decide_init = _init_readiness if facts.restartable_init_containers else _plain_init_readiness
    init_containers = {
        found.name: decide_init(update, found, index)
        for index, found in enumerate(status.init_container_statuses or ())
    }
    return PodReadiness(containers, init_containers, sorted(update.triggered))


def _is_started(update: _Update, found: ContainerStatus) -> tuple[bool, str]:
    """Whether a container has started, and why.

    Source: v1.36.2 pkg/kubelet/prober/prober_manager.go isContainerStarted
    Differs: says why.
    """
    if found.state.running is None:
        return False, "it does not run"
    cached = update.caches["startup"].get(parse_container_id(found.container_id))
    if cached is not None:
        return cached == SUCCESS, f"the cached startup result is {cached}"
    if update.facts.kubelet_restart_keeps_results and found.started:
        return True, "it was published as started before"
    if (found.name, "startup") in update.workers:
        return False, "its startup probe has not run yet"
    return True, "it runs and has no startup worker"


def _running_readiness(
    update: _Update, found: ContainerStatus, spec: Container | None
) -> ContainerReadiness:
    """Started and ready of an app container or a sidecar."""
    started, because = _is_started(update, found)
    if not started:
        return ContainerReadiness(False, found.ready, because, "it has not started")
    ready, ready_because = _is_ready(update, found, spec)
    return ContainerReadiness(True, ready, because, ready_because)


def _is_ready(update: _Update, found: ContainerStatus, spec: Container | None) -> tuple[bool, str]:
    """Whether a started container is ready, and why; may trigger its readiness worker."""
    cached = update.caches["readiness"].get(parse_container_id(found.container_id))
    if cached == SUCCESS:
        return True, "the cached readiness result is Success"
    if cached is not None and update.facts.cached_readiness_is_final:
        return False, f"the cached readiness result is {cached}"
    has_worker = (found.name, "readiness") in update.workers
    if has_worker and update.facts.unready_triggers_probe:
        update.triggered.add(found.name)
    ready = not has_worker
    because = (
        "its readiness probe has not succeeded" if has_worker else "it has no readiness worker"
    )
    if (
        update.facts.kubelet_restart_keeps_results
        and spec is not None
        and ran_before_kubelet(found, update.kubelet_started_ns)
    ):
        return _ready_after_kubelet_restart(update.pod, spec, ready=ready or cached is None)
    return ready, because


def _ready_after_kubelet_restart(pod: Pod, spec: Container, *, ready: bool) -> tuple[bool, str]:
    """Readiness of a container from before the kubelet's start: as the pod was published.

    Source: v1.36.2 pkg/kubelet/prober/prober_manager.go setReadyStateOnKubeletRestart
    Differs: the caller has asked for the container's age and its cached result.
    """
    if spec.readiness_probe is not None and not condition_is_true(pod.status, "Ready"):
        return False, "it ran before the kubelet started, and the pod was published as not ready"
    if ready:
        return True, "it ran before the kubelet started, and nothing says that it is not ready"
    return False, "its readiness probe has not succeeded"


def _init_readiness(update: _Update, found: ContainerStatus, index: int) -> ContainerReadiness:
    """An init container where sidecars exist: those are judged as app containers are."""
    specs = update.pod.spec.init_containers or ()
    spec = specs[index] if index < len(specs) else None
    if spec is not None and spec.name == found.name and is_restartable_init_container(spec):
        return _running_readiness(update, found, spec)
    started, because = _is_started(update, found)
    if spec is not None and spec.name == found.name and _ended_well(found):
        return ContainerReadiness(started, True, because, "it ended with exit code 0")
    return ContainerReadiness(started, found.ready, because, "it has not ended with exit code 0")


def _plain_init_readiness(
    update: _Update, found: ContainerStatus, index: int
) -> ContainerReadiness:
    """An init container where there are no sidecars: ready when it ended well."""
    del update, index
    ready = _ended_well(found)
    ended = "ended" if ready else "has not ended"
    return ContainerReadiness(
        found.started,
        ready,
        "this version leaves it alone for init containers",
        f"it {ended} with exit code 0",
    )


def _ended_well(found: ContainerStatus) -> bool:
    return found.state.terminated is not None and found.state.terminated.exit_code == 0
