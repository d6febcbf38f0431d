"""``kubeledger collect``: what a node left, gathered as an archive that an import reads whole."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kubeledger.cli.complete import complete_nodes
from kubeledger.cli.options import option, reports_errors

if TYPE_CHECKING:
    from kubeledger.record.collecting import Collected, Request, Via

_ABSENT_SHOWN = 20


def _checked(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """A name that no command takes for an option."""
    if value is not None and (not value.strip() or value.startswith("-")):
        raise click.BadParameter(f"{value!r} is not a machine name")
    return value


@click.command(epilog="Example: kubeledger collect worker-1 --via ssh --out worker-1.tar.gz")
@click.argument("node", callback=_checked, shell_complete=complete_nodes)
@option(
    "--via",
    "none prints the script; raw asks the API server alone; ssh and kubectl-debug run it on "
    "the node, too.",
    type=click.Choice(("none", "raw", "ssh", "kubectl-debug")),
    default="none",
)
@option(
    "--out",
    "Where the archive goes (default: NODE-TIME.tar.gz), or with --via none the script.",
    type=click.Path(path_type=Path, dir_okay=False),
)
@option("--host [USER@]HOST", "Give ssh this name in place of NODE.", callback=_checked)
@option("--since TEXT", "Oldest log, as `journalctl --since` takes it: -2h.")
@option("--image", "Of kubectl-debug's pod.", default="busybox:stable")
@option("--context NAME", "kubectl's context. Default: the current one.")
@option("--dry-run", "Print the commands and the script; run nothing.")
@reports_errors
def collect(
    node: str,
    via: Via,
    out: Path | None,
    host: str | None,
    since: str | None,
    image: str,
    context: str | None,
    dry_run: bool,
) -> None:
    """Gather what the node's kubelet left.

    That is its log, version, configuration, checkpoints and state files, pod lists, events,
    statistics, metrics, cgroup values, reports of the OOM killer, images and containers.

    Nothing is changed on the node, and nothing with secrets is read: no keys, tokens or
    kubeconfigs, nothing of the pods' volumes. What is absent is a line of manifest.txt, and no
    failure. The pod of kubectl-debug stays: delete it when you are done.
    """
    from kubeledger.cli.files import new_output, output_errors
    from kubeledger.record.collecting import Request, collect_into, parts_of, script_of

    request = Request(node, via, host or "", since or "", image, context or "")
    if via == "none":
        _print_script(script_of(request), out)
    elif dry_run:
        for part in parts_of(request):
            click.echo(f"{shlex.join(part.command)} <<'SCRIPT'\n{part.script}SCRIPT")
    else:
        target = out or _archive_name(request)
        with output_errors(target), new_output(target) as file:
            collected = collect_into(request, file)
        _print_summary(collected, target)


def _print_script(script: str, out: Path | None) -> None:
    from kubeledger.cli.files import new_output, output_errors

    if out is None:
        click.echo(script, nl=False)
        return
    with output_errors(out), new_output(out) as file:
        file.write(script.encode())
    click.echo(f"run it as root on the node: sh {shlex.quote(out.name)} > bundle.tar.gz", err=True)


def _archive_name(request: Request) -> Path:
    from datetime import UTC, datetime

    name = "".join(char if char.isalnum() or char in "-_." else "_" for char in request.node)
    return Path(f"{name}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.tar.gz")


def _print_summary(collected: Collected, out: Path) -> None:
    from kubeledger.cli.files import is_standard
    from kubeledger.cli.output import counted, printable

    size, err = sum(collected.taken.values()), is_standard(out)
    click.echo(f"{out}: {counted(len(collected.taken), 'file')}, {size:,} bytes", err=err)
    for file, why in list(collected.absent.items())[:_ABSENT_SHOWN]:
        click.echo(printable(f"absent: {file}: {why}"), err=err)
    click.echo(f"next: kubeledger import {shlex.quote(str(out))}", err=True)
