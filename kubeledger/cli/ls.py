"""``kubeledger ls``: records, filtered."""

from __future__ import annotations

import sys
from itertools import chain, islice
from pathlib import Path

import click

from kubeledger.cli.options import (
    ledger_option,
    node_option,
    output_option,
    parse_time,
    reports_errors,
)

__all__ = ["ls"]

_COLUMNS = ("node", "seq", "ts", "role", "kind", "subject", "summary")


@click.command(
    epilog="Example: kubeledger ls --pod default/web --kind 'prober.*' --since 2026-11-21T03:00:00Z"
)
@ledger_option
@node_option
@click.option("--pod", metavar="POD", help="NAMESPACE/NAME, NAME or UID of a pod.")
@click.option("--container", metavar="NAME", help="Name of a container.")
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    metavar="GLOB",
    help="Kind of record, e.g. 'images.*' or 'Pod*'. May be given several times.",
)
@click.option("--since", metavar="TIME", help="First time: RFC 3339, now, or -2h.")
@click.option("--until", metavar="TIME", help="Last time.")
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="No more than N records.")
@output_option("table", "json", "jsonl", "csv")
@reports_errors
def ls(
    ledger: Path,
    node: str | None,
    pod: str | None,
    container: str | None,
    kinds: tuple[str, ...],
    since: str | None,
    until: str | None,
    limit: int | None,
    output: str,
) -> None:
    """List records."""
    from kubeledger.cli.output import write_rows
    from kubeledger.ledger.ledger import Ledger
    from kubeledger.query.listing import Filter, body_of, list_records
    from kubeledger.query.summaries import subject_of, summary_of
    from kubeledger.units import format_ts

    wanted = Filter(
        node=node,
        pod=pod,
        container=container,
        kinds=kinds,
        since_ns=parse_time(since) if since is not None else None,
        until_ns=parse_time(until) if until is not None else None,
    )
    rows = (
        (
            record.node,
            record.seq,
            format_ts(record.ts_ns),
            record.role,
            record.kind,
            subject_of(body := body_of(record)),
            summary_of(record.kind, body),
        )
        for record in islice(list_records(Ledger.open(ledger), wanted), limit)
    )
    first = next(rows, None)
    write_rows(_COLUMNS, () if first is None else chain((first,), rows), output, sys.stdout)
    if first is None:
        click.echo("no record is like that; `kubeledger ls` lists them all", err=True)
