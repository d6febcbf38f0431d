"""Cases of the probe manager's UpdatePodStatus: started and ready of a pod's containers."""

from __future__ import annotations

import msgspec

from kubeledger.kubelet.cases.fields import (
    check_pod_times,
    check_status_times,
)
from kubeledger.kubelet.kube.gotexts import ZERO_TIME_NS, instant_ns
from kubeledger.kubelet.prober.objects import Pod, PodStatus, Result, parse_container_id
from kubeledger.kubelet.prober.prober_manager import (
    ContainerReadiness,
    PodReadiness,
    update_pod_status,
)
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.model.bodies.prober import ProbeType


class WorkerName(msgspec.Struct, rename="camel", forbid_unknown_fields=True, gc=False):
    """A probe worker of the pod that exists."""

    container: str
    probe_type: ProbeType


class CachedResult(msgspec.Struct, rename="camel", forbid_unknown_fields=True, gc=False):
    """A result in the cache of its probe type."""

    probe_type: ProbeType
    container_id: str = msgspec.field(name="containerID")
    result: Result


class PodStatusCase(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """One case; the status is as read from the runtime, before the probe manager."""

    pod: Pod
    pod_status: PodStatus
    workers: list[WorkerName]
    results: list[CachedResult]
    kubelet_started_at: str | None = None


class Published(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """What is published of a container; ``started`` is None where it stays unset."""

    started: bool | None
    ready: bool


class Outcome(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Containers by name, and those whose readiness worker was asked to probe at once."""

    containers: dict[str, Published]
    init_containers: dict[str, Published]
    triggered: list[str]


INPUT = PodStatusCase
OUTCOME = Outcome


def decide(case_input: PodStatusCase, profile: KubeletProfile) -> Outcome:
    """Update the status."""
    return _outcome(_readiness(case_input, profile))


def _readiness(case: PodStatusCase, profile: KubeletProfile) -> PodReadiness:
    check_pod_times(case.pod)
    check_status_times(case.pod_status)
    caches: dict[ProbeType, dict[str, Result]] = {"liveness": {}, "readiness": {}, "startup": {}}
    for cached in case.results:
        caches[cached.probe_type][parse_container_id(cached.container_id)] = cached.result
    started_at = case.kubelet_started_at
    return update_pod_status(
        case.pod,
        case.pod_status,
        {(worker.container, worker.probe_type) for worker in case.workers},
        caches,
        ZERO_TIME_NS if started_at is None else instant_ns(started_at),
        profile.prober,
    )


def _outcome(readiness: PodReadiness) -> Outcome:
    def published(found: dict[str, ContainerReadiness]) -> dict[str, Published]:
        return {name: Published(one.started, one.ready) for name, one in found.items()}

    return Outcome(
        published(readiness.containers), published(readiness.init_containers), readiness.triggered
    )
