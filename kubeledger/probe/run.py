"""One tick of a probe: up to three executions, and what a worker makes of them."""

from __future__ import annotations

import time

import msgspec

from kubeledger.kubelet.kube.urls import URLError, parse_url
from kubeledger.kubelet.prober.httpget import http_request
from kubeledger.kubelet.prober.objects import (
    FAILURE,
    INITIAL,
    SUCCESS,
    ContainerStatus,
    Result,
    Results,
    parse_container_id,
    status_named,
)
from kubeledger.kubelet.prober.prober import (
    ATTEMPTS_MAX,
    COUNTS_AS,
    Execution,
    GRPCConnection,
    event_of,
    http_execution,
    missing_handler,
    resolve_container_port,
)
from kubeledger.kubelet.prober.worker import ProbeWorker, do_probe, new_worker
from kubeledger.kubelet.profile.prober import ProberFacts
from kubeledger.model.bodies.prober import TickResult
from kubeledger.model.units import NS_PER_S
from kubeledger.probe.attempt import Attempt
from kubeledger.probe.dial import tcp_attempt
from kubeledger.probe.grpc import grpc_attempt
from kubeledger.probe.http import http_attempt
from kubeledger.probe.target import PodTarget, ProbePlan


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """When a result is cached.

    Attributes:
        result: that will be cached; None where such ticks never change it.
        ticks: like this one in a row, this one among them.
        within_ns: from the start of the first of them to the end of the last.
        kills: the container is killed then.
    """

    result: Result | None = None
    ticks: int = 0
    within_ns: int = 0
    kills: bool = False


class ProbedTick(msgspec.Struct, kw_only=True):
    """A tick as a worker of the kubelet would have had it.

    Attributes:
        at_ns: when it began, since the epoch.
        attempts: its executions; the last decides.
        event: that the kubelet would send; None for none.
        held_back: why the kubelet would not have probed now; empty where it would.
        run: ticks in a row with this result, counted from our first one.
        cached: what the worker holds of the container afterwards; empty for nothing.
        forecast: when such ticks change what is cached.
    """

    at_ns: int
    attempts: tuple[Attempt, ...]
    event: str | None
    held_back: str
    run: int
    cached: Result | str
    forecast: Forecast

    @property
    def outcome(self) -> TickResult:
        """Of the last execution."""
        return self.attempts[-1].execution.outcome

    @property
    def text(self) -> str:
        """Its output, or the error's text."""
        return self.attempts[-1].execution.text


def forecast(worker: ProbeWorker, outcome: TickResult, tick_ns: int) -> Forecast:
    """Let a worker with no streak take such ticks until one of them reaches its threshold.

    Args:
        worker: gives thresholds, period and type; left as it is.
        outcome: of each tick; an error never counts.
        tick_ns: how long one takes; the next begins a period after it began, or at its end.

    Source: v1.36.2 pkg/kubelet/prober/worker.go doProbe, run
    Differs: the first tick does not wait for jitter.
    """
    result = COUNTS_AS.get(outcome)
    if result is None:
        return Forecast()
    counting = worker.counting
    ticks = max(counting.failures if result == FAILURE else counting.successes, 1)
    period_ns = max(worker.spec.period_seconds * NS_PER_S, tick_ns)
    return Forecast(
        result=result,
        ticks=ticks,
        within_ns=(ticks - 1) * period_ns + tick_ns,
        kills=result == FAILURE and worker.probe_type != "readiness",
    )


def worker_of(target: PodTarget, plan: ProbePlan, facts: ProberFacts) -> ProbeWorker:
    """A worker that knows of the container what the pod's status says, and has no streak yet."""
    results = Results()
    worker = new_worker(target.pod, plan.container, plan.probe_type, results, facts)
    assert worker is not None, plan.probe_type
    found = status_of(target, plan)
    if found is not None and found.container_id:
        worker.container_id = parse_container_id(found.container_id)
        results.cache[worker.container_id] = _published(plan, found)
    return worker


def probe_once(
    target: PodTarget, plan: ProbePlan, worker: ProbeWorker, facts: ProberFacts, agent: str
) -> ProbedTick:
    """Execute a probe as often as one tick of the kubelet does, and let the worker count it.

    Args:
        plan: the probe, not an exec probe.
        worker: updated in place.
    """
    at_ns = time.time_ns()
    attempts: list[Attempt] = []
    while not attempts or (
        attempts[-1].execution.outcome == "error" and len(attempts) < ATTEMPTS_MAX
    ):
        attempts.append(execute(target, plan, facts, agent))
    last = attempts[-1].execution
    outcomes = [attempt.execution.outcome for attempt in attempts]
    step = do_probe(worker, target.pod.status, at_ns, outcomes)
    return ProbedTick(
        at_ns=at_ns,
        attempts=tuple(attempts),
        event=event_of(plan.probe_type, last.outcome, last.text, facts, last.state),
        held_back="" if step.attempts or step.skipped is None else step.skipped.text,
        run=worker.result_run,
        cached=worker.results.cache.get(worker.container_id, ""),
        forecast=forecast(worker, last.outcome, sum(each.total_ns for each in attempts)),
    )


def execute(target: PodTarget, plan: ProbePlan, facts: ProberFacts, agent: str) -> Attempt:
    """One execution of an HTTP, TCP or gRPC probe."""
    handlers, timeout_ns = plan.handlers, plan.spec.timeout_seconds * NS_PER_S
    if plan.handler == "http" and handlers.http_get is not None:
        get = handlers.http_get
        port = resolve_container_port(get.port, plan.ports)
        if isinstance(port, Execution):
            return Attempt(execution=port)
        request = http_request(get, get.host or target.ip, port, facts, agent)
        try:
            parse_url(str(request.url))
        except URLError as error:
            return Attempt(execution=http_execution(facts, request_error=str(error)))
        return http_attempt(request, timeout_ns, facts)
    if plan.handler == "tcp" and handlers.tcp_socket is not None:
        port = resolve_container_port(handlers.tcp_socket.port, plan.ports)
        if isinstance(port, Execution):
            return Attempt(execution=port)
        return tcp_attempt(handlers.tcp_socket.host or target.ip, port, timeout_ns, facts)
    if plan.handler == "grpc" and handlers.grpc is not None:
        to = GRPCConnection(target.ip, handlers.grpc.port, plan.spec.timeout_seconds)
        return grpc_attempt(to, handlers.grpc.service or "", timeout_ns, facts, agent)
    uid = target.pod.metadata.uid
    return Attempt(
        execution=missing_handler(target.name, target.namespace, uid, plan.container.name)
    )


def status_of(target: PodTarget, plan: ProbePlan) -> ContainerStatus | None:
    """What the pod's status says of the probe's container."""
    status = target.pod.status
    return status_named(status.container_statuses, plan.container.name) or status_named(
        status.init_container_statuses, plan.container.name
    )


def _published(plan: ProbePlan, status: ContainerStatus) -> Result:
    """What a worker had cached when the status was published, as far as that shows it."""
    if plan.probe_type == "readiness":
        return SUCCESS if status.ready else FAILURE
    if plan.probe_type == "startup" and status.started:
        return SUCCESS
    return INITIAL[plan.probe_type]
