"""``kubeledger probe``: a pod's probes, made as its kubelet makes them, and what came of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kubeledger.cli.complete import complete_probed
from kubeledger.cli.options import (
    Seconds,
    kubelet_options,
    ledger_option,
    node_option,
    option,
    output_option,
    reports_errors,
)
from kubeledger.cli.output import printable, write_document
from kubeledger.model.errors import BadInputError, BadQuestionError
from kubeledger.model.units import NS_PER_S, format_go_duration, format_ts

if TYPE_CHECKING:
    from kubeledger.probe.attempt import Attempt, Exchange
    from kubeledger.probe.run import ProbedTick
    from kubeledger.probe.series import ProbeSeries
    from kubeledger.probe.target import PodTarget, ProbePlan

_REPEAT_MAX = 1000
_LIST_BYTES_MAX = 256 << 20
_SILENCE_S = 10


@click.command(epilog="Example: kubeledger probe default/web --kubelet https://10.0.0.4:10250")
@click.argument("target", metavar="NS/POD[/CONTAINER]", shell_complete=complete_probed)
@option("--pods FILE|URL", "Pod list that has the pod; - is standard input.")
@kubelet_options
@ledger_option
@node_option
@option("--kubelet-version V", "Default: that of the ledger or --kubelet.")
@option("--address IP", "Probe this instead of the pod's IP.")
@option(
    "--probe probe_types",
    "Only this; may be repeated. Default: all.",
    multiple=True,
    type=click.Choice(("startup", "readiness", "liveness")),
)
@option(
    "--repeat N", "How often to make each probe.", type=click.IntRange(1, _REPEAT_MAX), default=1
)
@option(
    "--period period_s SECONDS",
    "Time between executions. Default: the probe's period.",
    type=Seconds(min=0),
)
@output_option("table", "json")
@reports_errors
@click.pass_context
def probe(
    ctx: click.Context,
    target: str,
    pods: str | None,
    kubelet: str | None,
    token: Path | None,
    ca: Path | None,
    insecure: bool,
    ledger: Path,
    node: str | None,
    kubelet_version: str | None,
    address: str | None,
    probe_types: tuple[str, ...],
    repeat: int,
    period_s: float | None,
    output: str,
) -> None:
    """Make a pod's HTTP, TCP and gRPC probes from here, as its kubelet makes them.

    Run it on the pod's node. It says what was sent, how long each phase took, what came back,
    what the kubelet makes of it, and after how many such results, and what curl would do
    differently. Commands of exec probes are not run. Without --pods and --kubelet the last pod
    list in the ledger is taken. Exit code 1 when a probe does not succeed.
    """
    from kubeledger.kubelet.profile.resolve import resolve
    from kubeledger.probe.series import run_series
    from kubeledger.probe.target import (
        pod_in_ledger,
        pod_in_list,
        pod_of_kubelet,
        pod_target,
        probe_plans,
    )
    from kubeledger.record.sources.endpoints import KubeletClient

    namespace, name, container = _parsed(target)
    if pods is not None and kubelet is not None:
        raise BadQuestionError("--pods and --kubelet exclude each other")
    if pods is not None:
        found = pod_in_list(_read_list(pods), pods, namespace, name)
    elif kubelet is not None:
        client = KubeletClient(kubelet, token_file=token, ca_file=ca, insecure=insecure)
        with closing(client):
            found = pod_of_kubelet(client, kubelet.rstrip("/"), namespace, name)
    else:
        found = pod_in_ledger(ledger, node, namespace, name)
    version = kubelet_version or found.kubelet_version
    if version is None:
        raise BadQuestionError(
            f"{found.source} does not say which version the kubelet has",
            advice="--kubelet-version V, as `kubectl get nodes` shows it",
        )
    pod = pod_target(found.raw, address)
    plans = probe_plans(pod, resolve(version), container=container, probe_types=probe_types)
    series = run_series(
        pod,
        plans,
        version,
        os.environ,
        repeat=repeat,
        period_ns=None if period_s is None else int(period_s * NS_PER_S),
        seen=_say if repeat > 1 else lambda _plan, _tick: None,
    )
    write = write_json if output == "json" else write_table
    write(pod, series, version, found.source)
    counted = {"success", "warning"}
    if any(each.ticks and each.ticks[-1].outcome not in counted for each in series):
        ctx.exit(1)


def _parsed(target: str) -> tuple[str, str, str | None]:

    parts = target.removeprefix("pod/").split("/")
    if not 2 <= len(parts) <= 3 or not all(parts):
        raise BadQuestionError(f"{target!r} is not NS/POD or NS/POD/CONTAINER")
    return parts[0], parts[1], parts[2] if len(parts) == 3 else None


def _read_list(source: str) -> bytes:
    """A file, standard input, or what a URL gives that needs no token."""
    from kubeledger.cli.files import read_input

    if not source.startswith(("http://", "https://")):
        return read_input(source, _LIST_BYTES_MAX)
    import http.client
    import urllib.request

    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(source, timeout=_SILENCE_S) as reply:
            data: bytes = reply.read(_LIST_BYTES_MAX + 1)
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise BadInputError(f"cannot be read: {reason}", file=source) from None
    if len(data) > _LIST_BYTES_MAX:
        raise BadInputError(f"is larger than {_LIST_BYTES_MAX >> 20} MiB", file=source)
    return data


def _say(plan: ProbePlan, tick: ProbedTick) -> None:
    line = f"{plan.container.name} {plan.probe_type}: {tick.outcome}"
    click.echo(printable(f"{line}: {tick.text}" if tick.text else line)[:200], err=True)


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
    write_document(document)


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
    when = f"{ahead.ticks} like this in a row, within {_span(ahead.within_ns)}"
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


def _span(nanoseconds: int) -> str:
    return format_go_duration(round(nanoseconds, -8)) if nanoseconds >= 10**8 else _ms(nanoseconds)
