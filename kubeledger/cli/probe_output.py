"""What ``kubeledger probe`` writes."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click
import msgspec

from kubeledger.cli.output import printable
from kubeledger.model.units import format_go_duration, format_ts
from kubeledger.probe.attempt import Attempt, Exchange
from kubeledger.probe.run import ProbedTick
from kubeledger.probe.series import ProbeSeries
from kubeledger.probe.target import PodTarget, ProbePlan

_TEXT_CHARS_MAX = 300


def write_json(pod: PodTarget, series: list[ProbeSeries], version: str, source: str) -> None:
    """One object, with everything."""
    document = {
        "namespace": pod.namespace,
        "pod": pod.name,
        "pod_uid": pod.pod.metadata.uid,
        "address": pod.ip,
        "kubelet_version": version,
        "source": source,
        "probes": [_probe_object(each) for each in series],
    }
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")


def write_table(pod: PodTarget, series: list[ProbeSeries], version: str, source: str) -> None:
    """For people: one part a probe."""
    head = f"pod {pod.namespace}/{pod.name} at {pod.ip}, as kubelet {version} probes it ({source})"
    click.echo(printable(head))
    for each in series:
        click.echo()
        click.secho(printable(_title(each.plan)), bold=True)
        for label, text in _lines(each):
            click.echo(f"  {label:<10}{printable(text)}")


def _probe_object(each: ProbeSeries) -> dict[str, object]:
    plan = each.plan
    return {
        "container": plan.container.name,
        "probe_type": plan.probe_type,
        "handler": plan.handler,
        "spec": plan.spec,
        "grace_period_s": plan.grace_s,
        "not_run": each.not_run or None,
        "ticks": [_tick_object(tick) for tick in each.ticks],
        "differs_from_curl": each.differences,
    }


def _tick_object(tick: ProbedTick) -> dict[str, object]:
    return {
        "ts": format_ts(tick.at_ns),
        "result": tick.outcome,
        "output": tick.text,
        "or_outputs": tick.attempts[-1].or_texts,
        "event": tick.event,
        "held_back": tick.held_back or None,
        "run": tick.run,
        "cached": tick.cached or None,
        "forecast": tick.forecast,
        "attempts": [
            {
                "result": attempt.execution.outcome,
                "output": attempt.execution.text,
                "total_ns": attempt.total_ns,
                "not_followed": attempt.not_followed or None,
                "exchanges": attempt.exchanges,
            }
            for attempt in tick.attempts
        ],
    }


def _title(plan: ProbePlan) -> str:
    spec = plan.spec
    return (
        f"{plan.container.name}: {plan.probe_type} probe ({plan.handler or 'no handler'}), every "
        f"{spec.period_seconds} s, timeout {spec.timeout_seconds} s, fails after "
        f"{spec.failure_threshold}, succeeds after {spec.success_threshold}"
    )


def _lines(each: ProbeSeries) -> Iterator[tuple[str, str]]:
    if each.not_run:
        yield "not run", each.not_run
        return
    tick = each.ticks[-1]
    if len(each.ticks) > 1:
        yield "ticks", _counted(each.ticks)
    last = tick.attempts[-1]
    for exchange in last.exchanges:
        yield from _exchange_lines(exchange)
    yield "total", f"{_ms(last.total_ns)} of {each.plan.spec.timeout_seconds} s"
    yield from _result_lines(each.plan, tick, last)
    for difference in each.differences:
        if difference.matters:
            yield "curl", f"{difference.what}: {difference.says}"


def _exchange_lines(exchange: Exchange) -> Iterator[tuple[str, str]]:
    yield (
        "to",
        f"{exchange.url or exchange.address}"
        + (f" ({exchange.local} -> {exchange.address})" if exchange.local else ""),
    )
    if exchange.sent:
        yield "sent", " | ".join(exchange.sent)
    phases = ", ".join(f"{name} {_ms(ns)}" for name, ns in exchange.phases_ns.items())
    yield "phases", phases.replace("first_byte", "first byte")
    if exchange.tls:
        yield "TLS", exchange.tls
    if exchange.received:
        body = len(exchange.body.encode())
        size = f" | {body} bytes of body{', cut' if exchange.body_cut else ''}"
        yield "came back", " | ".join(exchange.received) + (size if exchange.status else "")


def _result_lines(plan: ProbePlan, tick: ProbedTick, last: Attempt) -> Iterator[tuple[str, str]]:
    tries = f" after {len(tick.attempts)} executions" if len(tick.attempts) > 1 else ""
    text = f": {_shown(tick.text)}" if tick.text else ""
    yield "result", f"{tick.outcome}{tries}{text}"
    for other in last.or_texts:
        yield "or", other
    if tick.event:
        yield "event", _shown(tick.event)
    if tick.held_back:
        yield "but", f"the kubelet would not probe now: {tick.held_back}"
    yield "then", _forecast_text(plan, tick)


def _forecast_text(plan: ProbePlan, tick: ProbedTick) -> str:
    ahead = tick.forecast
    if ahead.result is None:
        return "errors are dropped: such ticks never change what is cached"
    if ahead.result == tick.cached:
        return f"cached now: {tick.cached}, and it stays"
    when = f"{ahead.ticks} like this in a row, within {_seconds(ahead.within_ns)}"
    now = f"cached now: {tick.cached}, " if tick.cached else ""
    if ahead.kills:
        return f"{now}{when}: killed with {plan.grace_s} s of grace ({plan.probe_type} probe)"
    if ahead.result == "Failure":
        return f"{now}{when}: not ready"
    becomes = {"readiness": "ready", "startup": "started", "liveness": "alive"}[plan.probe_type]
    return f"{now}{when}: {becomes}"


def _counted(ticks: list[ProbedTick]) -> str:
    outcomes = [tick.outcome for tick in ticks]
    counts = ", ".join(f"{outcomes.count(each)} {each}" for each in dict.fromkeys(outcomes))
    totals = sorted(tick.attempts[-1].total_ns for tick in ticks)
    return (
        f"{len(ticks)}: {counts}; {ticks[-1].run} in a row; "
        f"median {_ms(totals[len(totals) // 2])}, longest {_ms(totals[-1])}"
    )


def _shown(text: str) -> str:
    return text if len(text) <= _TEXT_CHARS_MAX else f"{text[:_TEXT_CHARS_MAX]}…"


def _ms(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e6:.1f} ms"


def _seconds(nanoseconds: int) -> str:
    return format_go_duration(round(nanoseconds, -8)) if nanoseconds >= 10**8 else _ms(nanoseconds)
