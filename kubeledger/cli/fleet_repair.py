"""``kubeledger fleet repair``: what is damaged in a lake, made again."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack, closing
from operator import attrgetter
from typing import TYPE_CHECKING

import click

from kubeledger.cli.fleet_options import engine_options, lake_option, watched_results
from kubeledger.cli.options import output_option, reports_errors
from kubeledger.cli.output import counted, write_rows
from kubeledger.cli.screen import terminal_width

if TYPE_CHECKING:
    from kubeledger.fleet.types import Failure, NodeResult

__all__ = ["repair"]

_FAILED = 1
"""Exit code: something could not be repaired."""

_COLUMNS = ("what", "outcome", "reason", "advice")


@click.command(epilog="Example: kubeledger fleet repair --lake /data/lake")
@click.argument("nodes", nargs=-1, metavar="[NODE...]")
@lake_option
@click.option("--partly", is_flag=True, help="Do without sources that are gone or changed by now.")
@engine_options
@output_option("table", "json", "jsonl", "csv")
@reports_errors
def repair(
    nodes: tuple[str, ...],
    lake: str,
    partly: bool,
    engine: str,
    address: str | None,
    workers: int | None,
    attempts: int,
    timeout_s: float,
    output: str,
) -> None:
    """Read each file of a lake, or of some NODEs of it, and make again what is damaged or gone.

    Tables are made from the node's ledger, and a damaged ledger from the node's sources, which
    must lie where they were. Imports may continue meanwhile. Exits with 1 if something cannot be
    repaired.

    Lists what was damaged.
    """
    from kubeledger.cli.fleet_summary import Tally, print_failures
    from kubeledger.fleet.engines.choose import engine_of
    from kubeledger.fleet.lake import Lake
    from kubeledger.fleet.repair import lost_nodes, mend_small_files
    from kubeledger.fleet.rules import rules_version
    from kubeledger.fleet.run import plan_repair, run_plan
    from kubeledger.fleet.task import node_task
    from kubeledger.fleet.types import NodeSpec
    from kubeledger.remote.store import absolute_url

    chosen = engine_of(engine, workers=workers, address=address)
    files = mend_small_files(absolute_url(lake))
    place = Lake.open(lake)
    lost = lost_nodes(place, files, time.time_ns())
    with ExitStack() as stack:
        settings = NodeSpec(
            lake=place.store.url,
            rules=rules_version(),
            started_ns=time.time_ns(),
            scratch=stack.enter_context(chosen.scratch()),
        )
        plan = plan_repair(place, settings, nodes, partly=partly)
        tally = Tally(plan)
        results = stack.enter_context(
            closing(
                run_plan(place, plan, chosen, node_task, attempts=attempts, timeout_s=timeout_s)
            )
        )
        watched = watched_results(results, "repairing", len(plan.specs), attrgetter("failure"))
        changed = [result for result in tally.counting(watched) if result.failure or result.changed]
    rows = _rows(files, changed, lost)
    if output != "table":
        write_rows(_COLUMNS, rows, output, sys.stdout)
    else:
        listed = [row for row in rows if row[1] != "failed"]
        if listed:
            write_rows(_COLUMNS, listed, output, sys.stdout, width_max=terminal_width())
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
