"""``kubeledger fleet repair``: what is damaged in a lake, made again."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from kubeledger.cli.fleet_options import (
    Running,
    engine_options,
    lake_option,
    node_settings,
    watched_run,
)
from kubeledger.cli.options import output_option, reports_errors
from kubeledger.cli.output import counted, write_rows
from kubeledger.cli.screen import terminal_width
from kubeledger.model.errors import BadQuestionError

if TYPE_CHECKING:
    from kubeledger.fleet.types import Failure, NodeResult

_FAILED = 1
"""Exit code: something could not be repaired."""

_COLUMNS = ("what", "outcome", "reason", "advice")


@click.command(epilog="Example: kubeledger fleet repair --lake /data/lake")
@click.argument("nodes", nargs=-1, metavar="[NODE...]")
@lake_option
@click.option("--partly", is_flag=True, help="Do without sources that are gone or changed by now.")
@click.option("--check", is_flag=True, help="Only list what is damaged or gone; change nothing.")
@engine_options
@output_option("table", "json", "jsonl", "csv")
@reports_errors
def repair(
    nodes: tuple[str, ...],
    lake: str,
    partly: bool,
    check: bool,
    running: Running,
    output: str,
) -> None:
    """Read each file of a lake, or of some NODEs of it, and make again what is damaged or gone.

    Tables are made from the node's ledger, and a damaged ledger from the node's sources, which
    must lie where they were. Imports may continue meanwhile. Exits with 1 if something cannot be
    repaired.

    Lists what was damaged. With --check it only lists that, all of it, and exits with 1 if there
    is any.
    """
    from kubeledger.cli.fleet_summary import print_failures
    from kubeledger.fleet.lake import Lake
    from kubeledger.fleet.repair import flaws, lost_nodes, mend_small_files
    from kubeledger.fleet.run import plan_repair
    from kubeledger.remote.store import absolute_url

    if check:
        if nodes or partly:
            raise BadQuestionError("--check looks at all of the lake", advice="name no NODE")
        found = [(path, "damaged", problem, None) for path, problem in flaws(absolute_url(lake))]
        if found or output != "table":
            write_rows(_COLUMNS, found, output, width_max=terminal_width())
        if found:
            sys.exit(_FAILED)
        if output == "table":
            click.echo("sound")
        return
    chosen = running.chosen()
    files = mend_small_files(absolute_url(lake))
    place = Lake.open(lake)
    lost = lost_nodes(place, files, time.time_ns())
    with node_settings(chosen, place.store.url) as settings:
        plan = plan_repair(place, settings, nodes, partly=partly)
        with watched_run(place, plan, chosen, running, "repairing") as (tally, results):
            changed = [result for result in results if result.failure or result.changed]
    rows = _rows(files, changed, lost)
    if output != "table":
        write_rows(_COLUMNS, rows, output)
    else:
        listed = [row for row in rows if row[1] != "failed"]
        if listed:
            write_rows(_COLUMNS, listed, output, width_max=terminal_width())
        click.echo(
            f"{counted(tally.done, 'node')} read, {len(changed) - len(tally.failures)} repaired"
        )
        print_failures([*tally.failures, *lost])
    if tally.failures or lost:
        sys.exit(_FAILED)


def _rows(
    files: list[str], results: list[NodeResult], lost: list[Failure]
) -> list[tuple[str | None, ...]]:
    """A row for each small file and each node that was damaged, and each that is lost."""
    rows: list[tuple[str | None, ...]] = [(path, "repaired", None, None) for path in files]
    failures = [each.failure for each in results if each.failure]
    rows += [(each.spec.subject, "repaired", None, None) for each in results if not each.failure]
    rows += [(each.source, "failed", each.reason, each.advice) for each in (*failures, *lost)]
    return rows
