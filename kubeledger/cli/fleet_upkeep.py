"""``kubeledger fleet compact`` and ``repair``: few large files for many, damage made good."""

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
    print_failures,
    watched_run,
)
from kubeledger.cli.options import output_option, reports_errors
from kubeledger.cli.output import counted, write_rows
from kubeledger.cli.screen import terminal_width
from kubeledger.model.errors import BadQuestionError
from kubeledger.model.units import parse_go_duration

if TYPE_CHECKING:
    from kubeledger.fleet.types import Failure, NodeResult


_COMPACT_COLUMNS = ("what", "files", "bytes")


@click.command(epilog="Example: kubeledger fleet compact --lake s3://bucket/lake")
@lake_option
@click.option(
    "--older-than",
    default="24h",
    show_default=True,
    metavar="D",
    help="Remove what killed imports left, once it is older than this; no import may take longer.",
)
@output_option("table", "json", "jsonl", "csv")
@reports_errors
def compact(lake: str, older_than: str, output: str) -> None:
    """Copy many nodes' small files into large ones, and remove what killed imports left.

    Afterwards `fleet sql` and the others open few files. The nodes' own files stay, and a node
    that grows is read from them, until the next time. Run it after a large import, or daily.
    """
    from kubeledger.cli.progress import progress
    from kubeledger.fleet.compaction import compact as compact_files
    from kubeledger.fleet.lake import Lake
    from kubeledger.fleet.sealed import scratch_directory

    try:
        age_ns = parse_go_duration(older_than)
    except ValueError:
        age_ns = -1
    if age_ns < 0:
        raise BadQuestionError(f"{older_than!r} is not a duration", advice="write e.g. 24h or 90m")
    place = Lake.open(lake)
    with (
        progress("looking for what killed imports left") as bar,
        scratch_directory(None) as scratch,
    ):
        before = len(place.compacted())
        swept = place.sweep(time.time_ns() - age_ns)
        bar.report("copying small files into large ones")
        written = compact_files(place, scratch)
        bar.report("writing the index")
        markers = place.write_index()
    stay = len(place.compacted()) - len(written)
    rows = (
        ("remains of killed imports removed", swept.files, swept.size_bytes),
        ("small files copied", sum(len(each.nodes) for each in written), None),
        ("large files written", len(written), sum(each.file.size_bytes for each in written)),
        ("large files that stay", stay, None),
        ("large files removed", before - stay, None),
        ("markers in the index", markers, None),
    )
    write_rows(_COMPACT_COLUMNS, rows, output)


# ``kubeledger fleet repair``: what is damaged in a lake, made again.

_FAILED = 1
"""Exit code: something could not be repaired."""

_REPAIR_COLUMNS = ("what", "outcome", "reason", "advice")


@click.command(epilog="Example: kubeledger fleet repair --lake /data/lake")
@click.argument("nodes", nargs=-1, metavar="[NODE...]")
@lake_option
@click.option("--partly", is_flag=True, help="Do without sources that are gone or changed by now.")
@click.option("--check", is_flag=True, help="Only list what is damaged or gone; change nothing.")
@engine_options
@output_option("table", "json", "jsonl", "csv")
@reports_errors
def repair(
    nodes: tuple[str, ...], lake: str, partly: bool, check: bool, running: Running, output: str
) -> None:
    """Read each file of a lake, or of some NODEs of it, and make again what is damaged or gone.

    Tables are made from the node's ledger, and a damaged ledger from the node's sources, which
    must lie where they were. Imports may continue meanwhile. Exits with 1 if something cannot be
    repaired.

    Lists what was damaged. With --check it only lists that, all of it, and exits with 1 if there
    is any.
    """
    from kubeledger.fleet.lake import Lake
    from kubeledger.fleet.repair import flaws, lost_nodes, mend_small_files
    from kubeledger.fleet.run import plan_repair
    from kubeledger.remote.store import absolute_url

    if check:
        if nodes or partly:
            raise BadQuestionError("--check looks at all of the lake", advice="name no NODE")
        found = [(path, "damaged", problem, None) for path, problem in flaws(absolute_url(lake))]
        if found or output != "table":
            write_rows(_REPAIR_COLUMNS, found, output, width_max=terminal_width())
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
        write_rows(_REPAIR_COLUMNS, rows, output)
    else:
        listed = [row for row in rows if row[1] != "failed"]
        if listed:
            write_rows(_REPAIR_COLUMNS, listed, output, width_max=terminal_width())
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
