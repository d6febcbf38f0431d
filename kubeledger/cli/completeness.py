"""``kubeledger completeness``: what evidence there is, and what is missing."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import click

from kubeledger.cli.options import (
    instant,
    ledger_option,
    node_option,
    option,
    output_option,
    reports_errors,
    time_option,
)
from kubeledger.cli.output import write_document
from kubeledger.cli.screen import paged


@click.command(epilog="Example: kubeledger completeness node-a/ --since 2026-11-21T03:00:00Z")
@click.argument("sources", nargs=-1, metavar="[SOURCE]...")
@ledger_option
@node_option
@time_option("--since", "Report from then on")
@option("--until TIME", "Report up to then.")
@option("--full", "All sections, not only a summary.")
@output_option("table", "json", "jsonl")
@reports_errors
def completeness(
    sources: tuple[str, ...],
    ledger: Path,
    node: str | None,
    since: str | None,
    until: str | None,
    full: bool,
    output: str,
) -> None:
    """Tell what evidence there is of a time, and what is not.

    The summary names the worst gaps and what to collect next time. With --full there are five
    sections: sources and their lines, the log's verbosity, gaps, decisions that never became an
    event of the API server, and what could not be verified. SOURCE is a ledger, a
    *.ledger.jsonl file, or a node's files, which are imported temporarily; without one the
    report is on the ledger. `-o jsonl` has a line a node.
    """
    from kubeledger.analyze.completeness import Span
    from kubeledger.analyze.completeness import completeness as report_on
    from kubeledger.analyze.histories.history import span_of_histories
    from kubeledger.cli.progress import progress
    from kubeledger.cli.verify import histories_for
    from kubeledger.replay.node.state import time_in_name

    with progress("reading and verifying"), histories_for(sources, ledger, node) as histories:
        recorded = partial(span_of_histories, histories)
        since_ns, until_ns = (instant(text, recorded) for text in (since, until))
        if since_ns is not None and until_ns is not None and since_ns > until_ns:
            raise click.UsageError("--since is later than --until")
        reports = [
            report_on(history, Span(since_ns, until_ns), time_in_name) for history in histories
        ]
    if output == "json":
        write_document({"nodes": reports}, order="deterministic")
        return
    if output == "jsonl":
        import msgspec

        encode = msgspec.json.Encoder(order="deterministic").encode
        sys.stdout.buffer.writelines(encode(report) + b"\n" for report in reports)
        return
    from kubeledger.cli.completeness_output import write_report, write_summary

    with paged():
        for number, report in enumerate(reports):
            if number:
                click.echo()
            if full:
                write_report(report)
            else:
                write_summary(report)
