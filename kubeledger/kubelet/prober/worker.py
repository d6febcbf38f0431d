"""A probe worker and its step: the kubelet's worker.go, one call of ``doProbe`` at a time.

The step runs through guards about the pod, notices a new container, runs through guards
about the container, executes the probe, and compares the streak with the thresholds. It says
what it did (:class:`Step`), and where it ended early why (:class:`SkipReason`): the decision and
its explanation come from that. Two things survive a new container that one might not expect:
the streak (two failures of the old container and one of the new make three) and the last result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from kubeledger.kubelet.kube.gotexts import ZERO_TIME_NS, instant_ns, whole_seconds_since
from kubeledger.kubelet.kube.statuses import (
    NEVER,
    RESTART_ALL,
    container_should_restart,
    is_container_restartable,
    is_restartable_init_container,
    matching_restart_rule,
)
from kubeledger.kubelet.prober.objects import (
    FAILURE,
    INITIAL,
    NO_CONTAINER,
    SUCCESS,
    Container,
    ContainerStatus,
    Pod,
    PodStatus,
    Probe,
    Result,
    Results,
    condition_is_true,
    parse_container_id,
    status_named,
)
from kubeledger.kubelet.prober.prober import COUNTS_AS, run_probe_with_retries
from kubeledger.kubelet.profile.prober import ProberFacts
from kubeledger.model.bodies.prober import ProbeType, TickResult
from kubeledger.model.units import NS_PER_S

RESTART_GRACE_NS: Final = 10 * NS_PER_S
"""A container older than the kubelet by more than this was there before the kubelet."""


class SkipReason(msgspec.Struct, frozen=True):
    """Why a step ended before a result of its probe was stored.

    Attributes:
        text: the clause that follows "because".
        caches: a result that is stored all the same.
    """

    text: str
    keep_going: bool = True
    caches: Result | None = None


NO_STATUS = SkipReason("the status manager has no status of the pod")
POD_TERMINATED = SkipReason("the pod is terminated", keep_going=False)
CONTAINER_NOT_FOUND = SkipReason("the pod's status has no ID of the container")
ON_HOLD = SkipReason("the worker is on hold until there is a new container")
NOT_RUNNING = SkipReason("the container does not run, which is cached as a failure", caches=FAILURE)
NOT_RESTARTED = SkipReason(
    "the container ended and will not be restarted, which is cached as a failure",
    keep_going=False,
    caches=FAILURE,
)
POD_DELETED = SkipReason(
    "the pod was being deleted when the worker began, which is cached as a success",
    keep_going=False,
    caches=SUCCESS,
)
INITIAL_DELAY = SkipReason("the initial delay is not over")
STARTED = SkipReason("the container has started, so its startup probe rests")
STARTED_ENDS = SkipReason(
    "the container has started, which ends the startup worker in this version", keep_going=False
)
NOT_STARTED = SkipReason("the container has not started, so only its startup probe runs")
ERRORED = SkipReason("the probe errored, which is thrown away")
BELOW_THRESHOLD = SkipReason("the streak is below the threshold")


class Step(msgspec.Struct, frozen=True, gc=False):
    """What one step did.

    Attributes:
        skipped: how it ended; None when it stored a result of its probe.
    """

    skipped: SkipReason | None
    attempts: int = 0

    @property
    def keep_going(self) -> bool:
        """Whether the worker continues."""
        return self.skipped is None or self.skipped.keep_going


class Counting(msgspec.Struct, frozen=True):
    """How the results of a probe count.

    Attributes:
        start_holds: a successful startup probe has done its work.
    """

    probe_type: ProbeType
    successes: int
    failures: int
    start_holds: bool

    def count(self, last: Result, run: int, result: Result) -> tuple[int, bool, bool]:
        """Count the result of an execution after ``run`` in a row of ``last``.

        A failed liveness or startup probe gets the container killed, and executing in a dying
        container harms runtimes.

        Returns:
            the run now; whether its threshold is reached, so that the result is stored; whether
            the container is probed no more.
        """
        run = run + 1 if result == last else 1
        failed = result == FAILURE
        if run < (self.failures if failed else self.successes):
            return run, False, False
        if self.probe_type == "startup":
            holds = failed or self.start_holds
        else:
            holds = failed and self.probe_type == "liveness"
        return 0 if holds else run, True, holds


class ProbeWorker(msgspec.Struct, kw_only=True):
    """One worker: a container and a probe type.

    Attributes:
        pod: as it was when the worker began; never refreshed.
        kubelet_started_ns: when the probe manager was made.
        container_id: the container last seen, as the kubelet writes it.
        last_result: of the last execution that counted (a new worker's is Success).
        result_run: executions in a row with ``last_result``.
        on_hold: no probing until there is a new container.
        stopping: a stop was asked for; seen only between two steps.
    """

    pod: Pod
    container: Container
    probe_type: ProbeType
    spec: Probe
    counting: Counting
    facts: ProberFacts
    results: Results
    kubelet_started_ns: int = ZERO_TIME_NS
    container_id: str = NO_CONTAINER
    last_result: Result = SUCCESS
    result_run: int = 0
    on_hold: bool = False
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
        counting=Counting(
            probe_type, spec.success_threshold, spec.failure_threshold, facts.startup_success_holds
        ),
        facts=facts,
        results=results,
        kubelet_started_ns=kubelet_started_ns,
    )


def do_probe(
    worker: ProbeWorker, status: PodStatus | None, now_ns: int, attempts: Sequence[TickResult]
) -> Step:
    """Take one step.

    Args:
        worker: updated in place.
        attempts: what executions would return, should it come to that.

    Raises:
        BadInputError: an execution is needed that is not given.

    Source: v1.36.2 pkg/kubelet/prober/worker.go doProbe
    Differs: split in guards, container change, attempts and thresholds; no metrics.
    """
    if status is None:
        return Step(NO_STATUS)
    found = _find_container(worker, status)
    if isinstance(found, SkipReason):
        return Step(found)
    if found.container_id != worker.container_id:
        _follow_container(worker, found)
    skipped = _skip_reason(worker, found, status, now_ns)
    if skipped is not None:
        stored = skipped.caches
        if stored is not None and (stored != FAILURE or worker.container_id != NO_CONTAINER):
            worker.results.set(worker.container_id, stored)
        return Step(skipped)
    used = run_probe_with_retries(attempts)
    result = COUNTS_AS.get(attempts[used - 1])
    if result is None:
        return Step(ERRORED, used)
    run, is_stored, holds = worker.counting.count(worker.last_result, worker.result_run, result)
    worker.last_result, worker.result_run = result, run
    if not is_stored:
        return Step(BELOW_THRESHOLD, used)
    worker.on_hold = holds
    worker.results.set(worker.container_id, result)
    return Step(None, used)


def _find_container(worker: ProbeWorker, status: PodStatus) -> ContainerStatus | SkipReason:
    """Guards about the pod, then the status of the worker's container."""
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
    worker.on_hold = False
    if facts.kubelet_restart_keeps_results:
        is_startup = worker.probe_type == "startup"
        if (
            facts.started_sidecar_seeds_success
            and is_startup
            and found.started
            and is_sidecar(worker.pod, worker.container)
        ):
            results.set(worker.container_id, SUCCESS)
        if ran_before_kubelet(found, worker.kubelet_started_ns):
            return
    results.set(worker.container_id, INITIAL[worker.probe_type])


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
        again = may_run_again(worker.pod, worker.container, found, status, worker.facts)
        return NOT_RUNNING if again else NOT_RESTARTED
    is_startup = worker.probe_type == "startup"
    if (
        worker.pod.metadata.deletion_timestamp is not None
        and worker.probe_type != "readiness"
        and worker.facts.deletion_ends_liveness_and_startup
    ):
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


def may_run_again(
    pod: Pod,
    container: Container,
    status: ContainerStatus,
    pod_status: PodStatus,
    facts: ProberFacts,
) -> bool:
    """Whether a worker waits for the next instance of a container that does not run.

    Source: v1.36.2 pkg/kubelet/prober/worker.go doProbe; v1.34.9
    Differs: split off; the feature gates are facts.
    """
    terminated = status.state.terminated
    if facts.exited_container_keeps_worker:
        return terminated is not None or is_container_restartable(
            container, pod.spec.restart_policy
        )
    if terminated is None:
        return True
    if facts.container_restart_rules:
        restart_all = facts.restart_all_containers
        return container_should_restart(
            container, pod.spec.restart_policy, terminated.exit_code, restart_all=restart_all
        ) or (restart_all and should_all_containers_restart(pod, pod_status))
    if pod.spec.restart_policy != NEVER:
        return True
    return facts.sidecar_worker_outlives_exit and is_sidecar(pod, container)


def is_sidecar(pod: Pod, container: Container) -> bool:
    """Whether a worker's container is a restartable init container of the pod.

    Source: v1.36.2 pkg/kubelet/prober/worker.go isInitContainer
    Differs: the restart policy is asked here as well.
    """
    return is_restartable_init_container(container) and any(
        init.name == container.name for init in pod.spec.init_containers or ()
    )


def should_all_containers_restart(pod: Pod, status: PodStatus) -> bool:
    """Whether any container's exit, or one noted before, restarts the whole pod in place.

    Of two statuses with one name the app container's is taken, of several the last.

    Source: v1.36.2 pkg/kubelet/container/helpers.go ShouldAllContainersRestart
    Differs: only the API status is read, as the probe worker asks.
    """
    if condition_is_true(status, "AllContainersRestarting"):
        return True
    by_name = {
        container.name: container
        for container in (
            *(status.init_container_statuses or ()),
            *(status.container_statuses or ()),
        )
    }
    for container in (*(pod.spec.init_containers or ()), *pod.spec.containers):
        found = by_name.get(container.name)
        if found is None or found.state.terminated is None:
            continue
        rule = matching_restart_rule(container, found.state.terminated.exit_code)
        if rule is not None and rule.action == RESTART_ALL:
            return True
    return False
