"""``kubeledger fleet import``, ``verify``, ``compact``, ``repair``: what writes to a lake."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from kubeledger.cli.fleet_options import (
    Running,
    decisions,
    engine_options,
    lake_option,
    node_settings,
    print_failures,
    print_summary,
    watched_run,
)
from kubeledger.cli.options import option, output_option, reports_errors
from kubeledger.cli.output import counted, write_rows
from kubeledger.cli.screen import terminal_width
from kubeledger.model.errors import BadQuestionError
from kubeledger.model.units import NS_PER_S, parse_go_duration

if TYPE_CHECKING:
    from kubeledger.fleet.run import Plan
    from kubeledger.fleet.types import Failure, NodeResult, NodeSummary

_DIFFERENCE = 1
"""Exit code: a decision that a kubelet could not have taken, or a node that cannot be verified."""

_SHOWN_MAX = 15

_VERIFY_COLUMNS = (
    *("node", "pool", "versions", "decisions", "impossible", "unverifiable", "admissible"),
    *("match", "inferred", "contradictions"),
)
_ALWAYS = {"node", "decisions", "impossible"}
_NEVER = {"admissible", "match", "inferred"}
"""Columns of the table; it has the others where a node has something in them."""


@click.command(epilog="Example: kubeledger fleet verify --lake /data/lake")
@lake_option
@option("--all all_", "Also nodes that these rules have verified.")
@engine_options
@output_option("table", "json", "jsonl", "csv")
@reports_errors
def verify(lake: str, all_: bool, running: Running, output: str) -> None:
    """Verify again what another version's rules have verified, and list the nodes.

    The rules change with each version of kubeledger. Nodes come worst first: those with decisions
    that no kubelet of their version could have taken, and then with those that could not be
    verified. Exits with 1 where a decision is impossible, or a node could not be verified.

    The table has the worst nodes, and no column without a number; the other forms of output
    have all nodes and columns.
    """
    from kubeledger.fleet.lake import Lake
    from kubeledger.fleet.run import plan_verify

    chosen = running.chosen()
    place = Lake.open(lake)
    with node_settings(chosen, place.store.url) as settings:
        plan = plan_verify(place, settings, all_=all_)
        with watched_run(place, plan, chosen, running, "verifying") as (tally, results):
            for _ in results:
                pass
    nodes = sorted(
        tally.nodes.values(), key=lambda each: (-each.impossible, -each.unverifiable, each.node)
    )
    shown = nodes[:_SHOWN_MAX] if output == "table" else nodes
    rows = [_row(node) for node in shown]
    empty = {name for at, name in enumerate(_VERIFY_COLUMNS) if not any(row[at] for row in rows)}
    left_out = (empty | _NEVER) - _ALWAYS
    write_rows(_VERIFY_COLUMNS, rows, output, wide_only=left_out, width_max=terminal_width())
    if output == "table":
        if len(shown) < len(nodes):
            click.echo(f"and {len(nodes) - len(shown):,} nodes more; -o csv has all")
        again = tally.done - len(tally.failures)
        click.echo(f"\n{counted(len(nodes), 'node')}, {again:,} of them verified again")
        click.echo(f"decisions  {decisions(nodes)}")
        print_failures(tally.failures)
    if tally.failures or any(node.impossible for node in nodes):
        sys.exit(_DIFFERENCE)


def _row(node: NodeSummary) -> tuple[Any, ...]:
    return (
        *(node.node, node.pool, ", ".join(node.kubelet_versions), node.decisions),
        *(node.impossible, node.unverifiable, node.admissible, node.match, node.inferred),
        node.contradictions,
    )


_FAILED = 1
"""Exit code: a source is not in the lake."""

_SOURCES_BYTES_MAX = 256 << 20

_COLUMNS = (
    *("source", "outcome", "nodes", "records", "decisions", "impossible", "attempts"),
    *("wall_ms", "kind", "reason", "advice"),
)


@click.command(
    name="import",
    epilog="Example: kubeledger fleet import '/data/bundles/*' --lake s3://bucket/lake --pool gpu",
)
@click.argument("sources", nargs=-1, metavar="SOURCE...")
@lake_option
@option("--from from_ FILE", "Read more sources from a file, one a line; -.")
@option("--cluster NAME", "Cluster of the nodes.")
@option("--pool NAME", "Pool of the nodes, where they do not name it.")
@option("--node name NAME", "Node of all sources; its key if there is one.")
@option("--kubelet-version VERSION", "Version of their kubelets.")
@option("--year", "Year of the first log line; klog writes none.", type=int)
@option(
    "--shard I/N",
    "Take in only the I-th of N parts of the sources, 0/4 to 3/4: for jobs that share them.",
)
@engine_options
@output_option("table", "json", "jsonl", "csv")
@reports_errors
def import_(
    sources: tuple[str, ...],
    lake: str,
    from_: str | None,
    shard: str | None,
    running: Running,
    output: str,
    **known: Any,  # noqa: ANN401 # fields of NodeSpec
) -> None:
    """Import and verify each SOURCE, a node's bundle, archive, recording or ledger, into a lake.

    A source is a path or a URL (s3://, gs://, az://), and * stands for any part of a name in it.
    What the lake has already is left out, so that the same command again takes up where it was
    stopped. A source that fails is a row of `failures`, and the others continue; then the exit code
    is 1.

    The other forms of output have a row a source.
    """
    from kubeledger.fleet.lake import Lake
    from kubeledger.fleet.run import parse_shard, plan_import
    from kubeledger.fleet.sources import expand, stamp_of
    from kubeledger.ingest.planning.bundle import ImportOptions
    from kubeledger.remote.store import absolute_url

    _split_key(known)
    ImportOptions(node=known["name"], kubelet_version=known["kubelet_version"], year=known["year"])
    part = None if shard is None else parse_shard(shard)
    chosen = running.chosen()
    named = [*sources, *([] if from_ is None else _listed(from_))]
    if not named:
        raise BadQuestionError("no source is named", advice="name some, or --from FILE")
    urls = expand(named)
    with node_settings(chosen, absolute_url(lake), **known) as settings:
        place = Lake.open_or_create(lake)
        plan = plan_import(place, urls, settings, stamp_of, part)
        with watched_run(place, plan, chosen, running, "importing") as (tally, results):
            if output == "table":
                for _ in results:
                    pass
                seconds = (time.time_ns() - settings.started_ns) // NS_PER_S
                print_summary(tally, chosen, lake, seconds)
            else:
                write_rows(_COLUMNS, _rows(plan, results), output)
    if tally.failures:
        sys.exit(_FAILED)


def _split_key(known: dict[str, Any]) -> None:
    """A key ``CLUSTER/NAME`` of ``--node`` names the cluster, too."""
    cluster, separator, name = (known["name"] or "").partition("/")
    if not separator:
        return
    if known["cluster"] not in (None, cluster):
        raise BadQuestionError(
            f"--node {known['name']} is of the cluster {cluster}, and not of {known['cluster']}",
            advice="leave --cluster out",
        )
    known |= {"cluster": cluster, "name": name}


def _listed(name: str) -> list[str]:
    """Sources of a file, one a line; empty lines and those that begin with # are none."""
    from kubeledger.cli.files import read_input

    text = read_input(name, _SOURCES_BYTES_MAX).decode("utf-8", "surrogateescape")
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _rows(plan: Plan, results: Iterable[NodeResult]) -> Iterator[tuple[Any, ...]]:
    """A row a task; first the sources with which nothing is to be done."""
    for source in plan.unchanged:
        yield (source, "unchanged", *(None,) * (len(_COLUMNS) - 2))
    for result in results:
        summaries = [head.summary for head in result.heads]
        failure = result.failure
        done = "verified" if result.spec.source is None else "imported"
        outcome = "failed" if failure else done if result.changed else "unchanged"
        yield (
            *(result.spec.subject, outcome, ", ".join(each.node for each in summaries)),
            sum(each.records for each in summaries),
            sum(each.decisions for each in summaries),
            sum(each.impossible for each in summaries),
            failure.attempts if failure else None,
            result.wall_ms,
            *((failure.kind, failure.reason, failure.advice) if failure else (None,) * 3),
        )


_COMPACT_COLUMNS = ("what", "files", "bytes")


@click.command(epilog="Example: kubeledger fleet compact --lake s3://bucket/lake")
@lake_option
@option(
    "--older-than D",
    "Remove what killed imports left, once it is older than this; no import may take longer.",
    default="24h",
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

_UNREPAIRED = 1
"""Exit code: something could not be repaired."""

_REPAIR_COLUMNS = ("what", "outcome", "reason", "advice")


@click.command(epilog="Example: kubeledger fleet repair --lake /data/lake")
@click.argument("nodes", nargs=-1, metavar="[NODE...]")
@lake_option
@option("--partly", "Do without sources that are gone or changed by now.")
@option("--check", "Only list what is damaged or gone; change nothing.")
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
            sys.exit(_UNREPAIRED)
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
    rows = _repair_rows(files, changed, lost)
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
        sys.exit(_UNREPAIRED)


def _repair_rows(
    files: list[str], results: list[NodeResult], lost: list[Failure]
) -> list[tuple[str | None, ...]]:
    """A row for each small file and each node that was damaged, and each that is lost."""
    rows: list[tuple[str | None, ...]] = [(path, "repaired", None, None) for path in files]
    failures = [each.failure for each in results if each.failure]
    rows += [(each.spec.subject, "repaired", None, None) for each in results if not each.failure]
    rows += [(each.source, "failed", each.reason, each.advice) for each in (*failures, *lost)]
    return rows
