"""``kubeledger fleet verify``: a lake's nodes by today's rules, worst first."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from kubeledger.fleet.types import NodeSummary

_DIFFERENCE = 1
"""Exit code: a decision that a kubelet could not have taken, or a node that cannot be verified."""

_SHOWN_MAX = 15

_COLUMNS = (
    *("node", "pool", "versions", "decisions", "impossible", "unverifiable", "admissible"),
    *("match", "inferred", "contradictions"),
)
_ALWAYS = {"node", "decisions", "impossible"}
_NEVER = {"admissible", "match", "inferred"}
"""Columns of the table; it has the others where a node has something in them."""


@click.command(epilog="Example: kubeledger fleet verify --lake /data/lake")
@lake_option
@click.option("--all", "all_", is_flag=True, help="Also nodes that these rules have verified.")
@engine_options
@output_option("table", "json", "jsonl", "csv")
@reports_errors
def verify(
    lake: str,
    all_: bool,
    running: Running,
    output: str,
) -> None:
    """Decide again what other rules than this program's have verified, and list the nodes.

    The rules change with each version of kubeledger. Nodes come worst first: those with decisions
    that no kubelet of their version could have taken, and then with those that could not be
    verified. Exits with 1 where a decision is impossible, or a node could not be verified.

    The table has the worst nodes, and no column without a number; the other forms of output
    have all nodes and columns.
    """
    from kubeledger.cli.fleet_summary import decisions, print_failures
    from kubeledger.fleet.lake import Lake
    from kubeledger.fleet.run import plan_verify

    chosen = running.chosen()
    place = Lake.open(lake)
    with node_settings(chosen, place.store.url) as settings:
        plan = plan_verify(place, settings, all_=all_)
        with watched_run(place, plan, chosen, running, "verifying") as (tally, results):
            for _ in results:
                pass
    nodes = sorted(tally.nodes.values(), key=_badness)
    shown = nodes[:_SHOWN_MAX] if output == "table" else nodes
    rows = [_row(node) for node in shown]
    empty = {name for at, name in enumerate(_COLUMNS) if not any(row[at] for row in rows)}
    left_out = (empty | _NEVER) - _ALWAYS
    write_rows(_COLUMNS, rows, output, wide_only=left_out, width_max=terminal_width())
    if output == "table":
        if len(shown) < len(nodes):
            click.echo(f"and {len(nodes) - len(shown):,} nodes more; -o csv has all")
        again = tally.done - len(tally.failures)
        click.echo(f"\n{counted(len(nodes), 'node')}, {again:,} of them verified again")
        click.echo(f"decisions  {decisions(nodes)}")
        print_failures(tally.failures)
    if tally.failures or any(node.impossible for node in nodes):
        sys.exit(_DIFFERENCE)


def _badness(node: NodeSummary) -> tuple[Any, ...]:
    return (-node.impossible, -node.unverifiable, node.node)


def _row(node: NodeSummary) -> tuple[Any, ...]:
    return (
        *(node.node, node.pool, ", ".join(node.kubelet_versions), node.decisions),
        *(node.impossible, node.unverifiable, node.admissible, node.match, node.inferred),
        node.contradictions,
    )
