"""Probes, each repeated at its period, and their results."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from kubeledger.kubelet.prober.httpget import user_agent
from kubeledger.kubelet.profile.resolve import resolve
from kubeledger.model.errors import BadInputError
from kubeledger.model.units import NS_PER_S
from kubeledger.probe.curl import Difference, differences
from kubeledger.probe.grpc import need_h2
from kubeledger.probe.run import ProbedTick, probe_once, status_of, worker_of
from kubeledger.probe.target import PodTarget, ProbePlan


class ProbeSeries(msgspec.Struct, kw_only=True):
    """One probe and its ticks.

    Attributes:
        not_run: why it was not made, and what to do instead; empty where it was.
        ticks: in order.
        differences: of curl, as of the last tick.
    """

    plan: ProbePlan
    not_run: str = ""
    ticks: list[ProbedTick] = []
    differences: list[Difference] = []


def run_series(
    target: PodTarget,
    plans: Sequence[ProbePlan],
    version_text: str,
    environ: Mapping[str, str],
    *,
    repeat: int = 1,
    period_ns: int | None = None,
    seen: Callable[[ProbePlan, ProbedTick], None] = lambda _plan, _tick: None,
) -> list[ProbeSeries]:
    """Make all probes ``repeat`` times, one after the other.

    Args:
        environ: of the shell from which curl would be called.
        repeat: how often each.
        period_ns: from one tick of a probe to its next; None: the probe's own.

    Returns:
        (n,) series, in the order of ``plans``.

    Raises:
        BadInputError: the pod has no IP.
        BadQuestionError: a gRPC probe without h2.
    """
    facts, agent = resolve(version_text).prober, user_agent(version_text)
    if any(plan.handler == "grpc" for plan in plans):
        need_h2()
    if not target.ip and any(plan.handler in ("http", "tcp", "grpc") for plan in plans):
        raise BadInputError(
            f"pod {target.namespace}/{target.name} has no IP yet",
            advice="--address IP, or a newer pod list",
        )
    series = [ProbeSeries(plan=plan, not_run=_not_run(target, plan)) for plan in plans]
    workers = [worker_of(target, plan, facts) for plan in plans]
    due = [(0, index) for index, each in enumerate(series) if not each.not_run]
    while due:
        due_ns, index = heapq.heappop(due)
        time.sleep(max(0, due_ns - time.monotonic_ns()) / NS_PER_S)
        began_ns = time.monotonic_ns()
        each = series[index]
        tick = probe_once(target, each.plan, workers[index], facts, agent)
        each.ticks.append(tick)
        seen(each.plan, tick)
        if len(each.ticks) < repeat:
            own_ns = each.plan.spec.period_seconds * NS_PER_S
            heapq.heappush(due, (began_ns + (own_ns if period_ns is None else period_ns), index))
    for each in series:
        if each.ticks:
            each.differences = differences(target, each.plan, each.ticks[-1], facts, environ)
    return series


def _not_run(target: PodTarget, plan: ProbePlan) -> str:
    """An exec probe is a command in the container, which only the runtime can start."""
    if plan.handler != "exec":
        return ""
    import shlex

    raw = plan.handlers.exec or {}
    command = raw.get("command")
    status = status_of(target, plan)
    container_id = status.container_id.partition("://")[2] if status else ""
    words = [str(word) for word in command] if isinstance(command, list) else []
    return (
        "exec probes are not run from here; kubectl exec "
        f"-n {target.namespace} {target.name} -c {plan.container.name} -- {shlex.join(words)}; "
        f"or on the node: crictl exec --sync --timeout {plan.spec.timeout_seconds} "
        f"{container_id or 'CONTAINER'} {shlex.join(words)}"
    )
