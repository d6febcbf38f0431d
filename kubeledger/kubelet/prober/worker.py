"""A probe worker and its step: one call of the kubelet's ``doProbe``.

The step runs through guards about the pod, notices a new container, runs through guards
about the container, executes the probe, and compares the streak with the thresholds. Each
way out is a ``SkipReason``; it says whether the worker continues and, in words, why nothing
more happened. Two things survive a new container that one might not expect: the streak
(two failures of the old container and one of the new make three) and the last result.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kubeledger.kubelet.prober.attempts import COUNTS_AS, run_probe_with_retries
from kubeledger.kubelet.prober.instants import ZERO_TIME_NS, instant_ns, whole_seconds_since
from kubeledger.kubelet.prober.objects import (
    Container,
    ContainerStatus,
    Pod,
    PodStatus,
    Probe,
    status_named,
)
from kubeledger.kubelet.prober.restarts import is_sidecar, may_run_again
from kubeledger.kubelet.prober.results import (
    FAILURE,
    INITIAL,
    NO_CONTAINER,
    SUCCESS,
    Result,
    Results,
    parse_container_id,
)
from kubeledger.kubelet.profile.prober import ProberFacts
from kubeledger.model.bodies.prober import ProbeType, TickResult
from kubeledger.model.units import NS_PER_S

RESTART_GRACE_NS = 10 * NS_PER_S
"""A container older than the kubelet by more than this was there before the kubelet."""


class SkipReason(msgspec.Struct, frozen=True):
    """Why a step ended before a result was stored.

    Attributes:
        text: the clause that follows "because".
        keep_going: False when the worker ends here.
    """

    text: str
    keep_going: bool = True


NO_STATUS = SkipReason("the status manager has no status of the pod")
POD_TERMINATED = SkipReason("the pod is terminated", keep_going=False)
CONTAINER_NOT_FOUND = SkipReason("the pod's status has no ID of the container")
ON_HOLD = SkipReason("the worker is on hold until there is a new container")
NOT_RUNNING = SkipReason("the container does not run, which is cached as a failure")
NOT_RESTARTED = SkipReason(
    "the container ended and will not be restarted, which is cached as a failure",
    keep_going=False,
)
POD_DELETED = SkipReason(
    "the pod was being deleted when the worker began, which is cached as a success",
    keep_going=False,
)
INITIAL_DELAY = SkipReason("the initial delay is not over")
STARTED = SkipReason("the container has started, so its startup probe rests")
STARTED_ENDS = SkipReason(
    "the container has started, which ends the startup worker in this version",
    keep_going=False,
)
NOT_STARTED = SkipReason("the container has not started, so only its startup probe runs")
ERRORED = SkipReason("the probe errored, which is thrown away")
BELOW_THRESHOLD = SkipReason("the streak is below the threshold")


class ProbeWorker(msgspec.Struct, kw_only=True):
    """One worker: a container and a probe type.

    Attributes:
        pod: as it was when the worker began; never refreshed.
        spec: the probe.
        results: the cache of this probe type.
        kubelet_started_ns: when the probe manager was made.
        container_id: the container last seen, as the kubelet writes it.
        last_result: of the last execution that counted (a new worker's is Success).
        result_run: executions in a row with ``last_result``.
        on_hold: no probing until there is a new container.
        attempts_used: executions in the last step.
        skipped: how the last step ended; None when it stored a result.
        stopping: a stop was asked for; seen only between two steps.
    """

    pod: Pod
    container: Container
    probe_type: ProbeType
    spec: Probe
    facts: ProberFacts
    results: Results
    kubelet_started_ns: int = ZERO_TIME_NS
    container_id: str = NO_CONTAINER
    last_result: Result = SUCCESS
    result_run: int = 0
    on_hold: bool = False
    attempts_used: int = 0
    skipped: SkipReason | None = None
    stopping: bool = False


def new_worker(
    pod: Pod,
    container: Container,
    probe_type: ProbeType,
    results: Results,
    facts: ProberFacts,
    kubelet_started_ns: int = ZERO_TIME_NS,
) -> ProbeWorker | None:
    """A worker that has seen nothing yet; None when the container has no such probe.

    Source: v1.20.2 pkg/kubelet/prober/worker.go newWorker
    Differs: no metric labels.
    """
    spec = {
        "liveness": container.liveness_probe,
        "readiness": container.readiness_probe,
        "startup": container.startup_probe,
    }[probe_type]
    if spec is None:
        return None
    return ProbeWorker(
        pod=pod,
        container=container,
        probe_type=probe_type,
        spec=spec,
        facts=facts,
        results=results,
        kubelet_started_ns=kubelet_started_ns,
    )


def do_probe(
    worker: ProbeWorker,
    status: PodStatus | None,
    now_ns: int,
    attempts: Sequence[TickResult],
) -> bool:
    """Take one step.

    Args:
        worker: updated in place, ``skipped`` and ``attempts_used`` included.
        status: what the status manager has; None for nothing.
        now_ns: the kubelet's clock.
        attempts: what executions would return, should it come to that.

    Returns:
        Whether the worker continues.

    Raises:
        BadInputError: an execution is needed that is not given.

    Source: v1.36.2 pkg/kubelet/prober/worker.go doProbe
    Differs: split in guards, container change, attempts and thresholds; no metrics.
    """
    worker.attempts_used = 0
    found = _find_container(worker, status)
    if status is None or isinstance(found, SkipReason):
        skipped: SkipReason | None = found if isinstance(found, SkipReason) else NO_STATUS
    else:
        if found.container_id != worker.container_id:
            _follow_container(worker, found)
        skipped = _skip_reason(worker, found, status, now_ns)
        if skipped is None:
            skipped = _execute(worker, attempts)
    worker.skipped = skipped
    return skipped is None or skipped.keep_going


def _find_container(worker: ProbeWorker, status: PodStatus | None) -> ContainerStatus | SkipReason:
    """Guards about the pod, then the status of the worker's container."""
    if status is None:
        return NO_STATUS
    if status.phase in ("Failed", "Succeeded"):
        return POD_TERMINATED
    name = worker.container.name
    found = status_named(status.container_statuses, name)
    if found is None or not found.container_id:
        if not worker.facts.restartable_init_containers:
            return CONTAINER_NOT_FOUND
        found = status_named(status.init_container_statuses, name)
        if found is None or not found.container_id:
            return CONTAINER_NOT_FOUND
    return found


def _follow_container(worker: ProbeWorker, found: ContainerStatus) -> None:
    """Turn to a container not seen before: drop the old result, set the initial one.

    A container from before the kubelet's own start keeps having no result in versions that
    do not change what was published; a started sidecar is known to have started.
    """
    results, facts = worker.results, worker.facts
    if worker.container_id != NO_CONTAINER:
        results.remove(worker.container_id)
    worker.container_id = parse_container_id(found.container_id)
    before_kubelet = False
    if facts.kubelet_restart_keeps_results:
        if (
            facts.started_sidecar_seeds_success
            and worker.probe_type == "startup"
            and found.started
            and is_sidecar(worker.pod, worker.container)
        ):
            results.set(worker.container_id, SUCCESS)
        before_kubelet = ran_before_kubelet(found, worker.kubelet_started_ns)
    if not before_kubelet:
        results.set(worker.container_id, INITIAL[worker.probe_type])
    worker.on_hold = False


def ran_before_kubelet(status: ContainerStatus, kubelet_started_ns: int) -> bool:
    """Whether a running container is older than this kubelet process.

    Source: v1.36.2 pkg/kubelet/prober/prober_manager.go kubeletRestartGracePeriod
    Differs: the comparison is here as well.
    """
    running = status.state.running
    if running is None or running.started_at is None:
        return False
    started_ns = instant_ns(running.started_at)
    return started_ns != ZERO_TIME_NS and started_ns < kubelet_started_ns - RESTART_GRACE_NS


def _skip_reason(
    worker: ProbeWorker, found: ContainerStatus, status: PodStatus, now_ns: int
) -> SkipReason | None:
    """Guards about the container; None when the probe is to be executed."""
    if worker.on_hold:
        return ON_HOLD
    running = found.state.running
    if running is None:
        if worker.container_id != NO_CONTAINER:
            worker.results.set(worker.container_id, FAILURE)
        again = may_run_again(worker.pod, worker.container, found, status, worker.facts)
        return NOT_RUNNING if again else NOT_RESTARTED
    is_startup = worker.probe_type == "startup"
    if (
        worker.pod.metadata.deletion_timestamp is not None
        and worker.probe_type != "readiness"
        and worker.facts.deletion_ends_liveness_and_startup
    ):
        worker.results.set(worker.container_id, SUCCESS)
        return POD_DELETED
    started_ns = ZERO_TIME_NS if running.started_at is None else instant_ns(running.started_at)
    if whole_seconds_since(started_ns, now_ns) < worker.spec.initial_delay_seconds:
        return INITIAL_DELAY
    if not found.started:
        return None if is_startup else NOT_STARTED
    if not is_startup:
        return None
    facts = worker.facts
    ends = facts.start_ends_startup_worker and not facts.startup_worker_stays_for_restarts
    return STARTED_ENDS if ends else STARTED


def _execute(worker: ProbeWorker, attempts: Sequence[TickResult]) -> SkipReason | None:
    """Execute the probe, count its result, and store it once the threshold is reached."""
    worker.attempts_used = used = run_probe_with_retries(attempts)
    result = COUNTS_AS.get(attempts[used - 1])
    if result is None:
        return ERRORED
    if not count_result(worker, result):
        return BELOW_THRESHOLD
    worker.results.set(worker.container_id, result)
    return None


def count_result(worker: ProbeWorker, result: Result) -> bool:
    """Count the result of an execution; True when its threshold is reached, so it is stored."""
    if worker.last_result == result:
        worker.result_run += 1
    else:
        worker.last_result = result
        worker.result_run = 1
    spec = worker.spec
    failed = result == FAILURE
    if worker.result_run < (spec.failure_threshold if failed else spec.success_threshold):
        return False
    if _holds(worker, failed=failed):
        worker.on_hold = True
        worker.result_run = 0
    return True


def _holds(worker: ProbeWorker, *, failed: bool) -> bool:
    """Whether a stored result ends the probing of this container.

    A failed liveness or startup probe gets the container killed, and executing in a dying
    container harms runtimes; a successful startup probe has done its work.
    """
    if worker.probe_type == "startup":
        return failed or worker.facts.startup_success_holds
    return failed and worker.probe_type == "liveness"
