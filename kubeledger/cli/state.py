"""``kubeledger state``: the node's state at any instant."""

from __future__ import annotations

from pathlib import Path

import click

from kubeledger.cli.complete import complete_parts
from kubeledger.cli.options import (
    instant,
    ledger_option,
    node_option,
    output_option,
    reports_errors,
    time_option,
)
from kubeledger.cli.screen import paged, screen_width
from kubeledger.model.errors import BadQuestionError


@click.command(epilog="Example: kubeledger state --at +5m --only pods,devices -o json")
@ledger_option
@node_option
@time_option("--at", "Instant", default="Default: the last record.")
@click.option("--seq", metavar="N", type=int, help="State after record N, in place of --at.")
@click.option(
    "--only",
    metavar="PART,...",
    shell_complete=complete_parts,
    help="Parts to show: kubelet, machine, settings, pods, devices, claims, resources, cpus, "
    "memory, topology, probes, images, pulls, cgroups, preemptions, counts.",
)
@output_option("table", "wide", "json")
@reports_errors
def state(
    ledger: Path, node: str | None, at: str | None, seq: int | None, only: str | None, output: str
) -> None:
    """Rebuild the node's state at any instant.

    Pods with their containers, devices by holder, probe workers, images, cgroups and settings, as
    the records up to that instant show them. Tables fit the screen;
    `-o wide` has all columns. With `-o json` the same records give the same bytes.
    """
    import sys
    from functools import partial

    from kubeledger.cli.sources import warn_of_losses
    from kubeledger.cli.state_tables import write_tables
    from kubeledger.ledger.ledger import Ledger
    from kubeledger.replay import state_at
    from kubeledger.replay.node.document import canonical_json

    parts = _parts(only)
    opened = Ledger.open(ledger)
    ts_ns = instant(at, partial(opened.span, node))
    warn_of_losses(opened, node)
    rebuilt = state_at(opened, node, ts_ns=ts_ns, seq=seq)
    if rebuilt.seq == 0:
        when = f"record {seq}" if at is None else at
        click.echo(
            f"{rebuilt.node} has no record at {when} or before; the state is empty", err=True
        )
    if output == "json":
        sys.stdout.buffer.write(canonical_json(rebuilt, parts))
    else:
        with paged():
            write_tables(rebuilt, parts, screen_width() if output == "table" else None)


def _parts(only: str | None) -> list[str]:
    """Names given with ``--only``, each known; all when it is not given."""
    from kubeledger.replay.node.document import PARTS

    if only is None:
        return list(PARTS)
    names = [name.strip() for name in only.split(",") if name.strip()]
    unknown = [name for name in names if name not in PARTS]
    if unknown or not names:
        asked = ", ".join(unknown) or repr(only)
        raise BadQuestionError(
            f"no such part of the state: {asked}",
            advice=f"the parts are {', '.join(PARTS)}",
        )
    return names
