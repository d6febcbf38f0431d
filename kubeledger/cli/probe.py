"""``kubeledger probe``: a pod's probes, made as its kubelet makes them."""

from __future__ import annotations

import os
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
    output_option,
    reports_errors,
)

if TYPE_CHECKING:
    from kubeledger.probe.run import ProbedTick
    from kubeledger.probe.target import ProbePlan

_REPEAT_MAX = 1000
_LIST_BYTES_MAX = 256 << 20
_SILENCE_S = 10


@click.command(epilog="Example: kubeledger probe default/web --kubelet https://10.0.0.4:10250")
@click.argument("target", metavar="NS/POD[/CONTAINER]", shell_complete=complete_probed)
@click.option("--pods", metavar="FILE|URL", help="Pod list that has the pod; - is standard input.")
@kubelet_options
@ledger_option
@node_option
@click.option("--kubelet-version", metavar="V", help="Default: that of the ledger or --kubelet.")
@click.option("--address", metavar="IP", help="Probe this instead of the pod's IP.")
@click.option(
    "--probe",
    "probe_types",
    multiple=True,
    type=click.Choice(("startup", "readiness", "liveness")),
    help="Only this; may be repeated. Default: all.",
)
@click.option(
    "--repeat",
    type=click.IntRange(1, _REPEAT_MAX),
    default=1,
    show_default=True,
    metavar="N",
    help="How often to make each probe.",
)
@click.option(
    "--period",
    "period_s",
    type=Seconds(min=0),
    metavar="SECONDS",
    help="Time between executions. Default: the probe's period.",
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
    from kubeledger.cli.probe_output import write_json, write_table
    from kubeledger.kubelet.profile.resolve import resolve
    from kubeledger.model.errors import BadQuestionError
    from kubeledger.model.units import NS_PER_S
    from kubeledger.probe.pods import pod_in_ledger, pod_in_list, pod_of_kubelet
    from kubeledger.probe.series import run_series
    from kubeledger.probe.target import pod_target, probe_plans
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
    from kubeledger.model.errors import BadQuestionError

    parts = target.removeprefix("pod/").split("/")
    if not 2 <= len(parts) <= 3 or not all(parts):
        raise BadQuestionError(f"{target!r} is not NS/POD or NS/POD/CONTAINER")
    return parts[0], parts[1], parts[2] if len(parts) == 3 else None


def _read_list(source: str) -> bytes:
    """A file, standard input, or what a URL gives that needs no token."""
    from kubeledger.cli.files import read_input
    from kubeledger.model.errors import BadInputError

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
    from kubeledger.cli.output import printable

    line = f"{plan.container.name} {plan.probe_type}: {tick.outcome}"
    click.echo(printable(f"{line}: {tick.text}" if tick.text else line)[:200], err=True)
