"""Cases of one probe worker (a pod, a container, a probe type, its ticks), of UpdatePodStatus.

A worker's steps are deterministic: what they depend on is in the case, so that the one
admissible outcome is the decided one. The recorder of a case keeps no events: an event needs a
reference to the pod by its kind, which only a whole kubelet knows. So ``events`` is empty in what
is decided, and a claim with an event is impossible.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from kubeledger.kubelet.cases.fields import (
    Subsystem,
    check_pod_times,
    check_status_times,
)
from kubeledger.kubelet.kube.gotexts import ZERO_TIME_NS, instant_ns
from kubeledger.kubelet.prober.objects import (
    Container,
    Pod,
    PodStatus,
    Result,
    Results,
    Update,
    parse_container_id,
)
from kubeledger.kubelet.prober.prober import MissingAttemptError
from kubeledger.kubelet.prober.prober_manager import PodReadiness, update_pod_status
from kubeledger.kubelet.prober.worker import ProbeWorker, do_probe, new_worker
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.model.bodies.prober import ProbeType, TickResult
from kubeledger.model.errors import BadInputError


class Tick(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """What a worker meets in one step.

    Attributes:
        at: the kubelet's clock, RFC 3339.
        pod_status: what the status manager has; None for nothing.
        attempts: what up to three executions of the probe would return.
    """

    at: str
    pod_status: PodStatus | None
    attempts: list[TickResult]


class TickOutcome(msgspec.Struct, rename="camel", gc=False):
    """The worker after one step; ``result`` is cached for its container, or empty."""

    keep_going: bool = msgspec.field(name="continue")
    attempts: int
    on_hold: bool
    result_run: int
    result: Result | Literal[""]
    updates: Sequence[Update]
    events: Sequence[str]


class ProberCase(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """One case.

    Attributes:
        container: name of the container; an app container before an init container.
        kubelet_started_at: RFC 3339; None where the version does not ask.
    """

    pod: Pod
    container: str
    probe_type: ProbeType
    ticks: list[Tick]
    kubelet_started_at: str | None = None


def decide(case_input: ProberCase, profile: KubeletProfile) -> dict[str, object]:
    """Step the worker through all ticks, also after it said that it ends."""
    check_pod_times(case_input.pod)
    for tick in case_input.ticks:
        check_status_times(tick.pod_status)
    worker = _worker(case_input, profile)
    results, outcomes = worker.results, []
    cache = results.cache
    for index, tick in enumerate(case_input.ticks):
        try:
            step = do_probe(worker, tick.pod_status, instant_ns(tick.at), tick.attempts)
        except MissingAttemptError as error:
            path = f"input.ticks[{index}].attempts"
            raise BadInputError(f"{path}: {error.message}", advice=error.advice) from None
        skipped = step.skipped
        outcomes.append(
            TickOutcome(
                skipped is None or skipped.keep_going,
                step.attempts,
                worker.on_hold,
                worker.result_run,
                cache.get(worker.container_id, ""),
                results.take_updates(),
                events=(),
            )
        )
    return {"ticks": outcomes}


def _worker(case: ProberCase, profile: KubeletProfile) -> ProbeWorker:
    spec = case.pod.spec
    container = _named(spec.containers, case.container) or _named(
        spec.init_containers or [], case.container
    )
    if container is None:
        raise BadInputError(f"input.container: the pod has no container {case.container!r}")
    worker = new_worker(
        case.pod,
        container,
        case.probe_type,
        Results(),
        profile.prober,
        _began_ns(case.kubelet_started_at),
    )
    if worker is None:
        raise BadInputError(
            f"input.probeType: container {case.container!r} has no {case.probe_type}Probe"
        )
    return worker


def _named(containers: list[Container], name: str) -> Container | None:
    return next((container for container in containers if container.name == name), None)


PROBER = Subsystem(ProberCase, object, decide)


# Cases of the probe manager's UpdatePodStatus: started and ready of a pod's containers.


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


def decide_podstatus(case_input: PodStatusCase, profile: KubeletProfile) -> PodReadiness:
    """Update the status."""
    check_pod_times(case_input.pod)
    check_status_times(case_input.pod_status)
    caches: dict[ProbeType, dict[str, Result]] = {"liveness": {}, "readiness": {}, "startup": {}}
    for cached in case_input.results:
        caches[cached.probe_type][parse_container_id(cached.container_id)] = cached.result
    return update_pod_status(
        case_input.pod,
        case_input.pod_status,
        {(worker.container, worker.probe_type) for worker in case_input.workers},
        caches,
        _began_ns(case_input.kubelet_started_at),
        profile.prober,
    )


def _began_ns(started_at: str | None) -> int:
    return ZERO_TIME_NS if started_at is None else instant_ns(started_at)


PODSTATUS = Subsystem(PodStatusCase, object, decide_podstatus)
