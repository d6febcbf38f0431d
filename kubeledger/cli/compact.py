"""``kubeledger compact``: everything sealed and compressed."""

from __future__ import annotations

from pathlib import Path

import click

from kubeledger.cli.options import ledger_option, reports_errors

__all__ = ["compact"]


@click.command(epilog="Example: kubeledger compact --ledger /var/lib/kubeledger")
@ledger_option
@click.option(
    "--level",
    type=click.IntRange(1, 19),
    default=10,
    show_default=True,
    help="Of zstd; higher is smaller and slower.",
)
@reports_errors
def compact(ledger: Path, level: int) -> None:
    """Seal the segments that are still open, and compress them.

    Nothing is lost: each compressed file is read back and compared before the plain one is
    removed, and the chain covers the same lines as before. Later records begin a new segment.
    """
    from kubeledger.cli.output import printable
    from kubeledger.ledger.ledger import Ledger
    from kubeledger.ledger.writer import WriterOptions

    opened = Ledger.open(ledger, WriterOptions(level=level))
    with opened.writer() as writer:
        for report in writer.recovery:
            click.echo(f"recovered: {printable(report.message)}", err=True)
        count = writer.seal_open()
    click.echo(f"{count} segments sealed")
    for node, info in sorted(opened.manifest().nodes.items()):
        size_bytes = sum(segment.size_bytes for segment in info.segments)
        stored_bytes = sum(segment.stored_bytes for segment in info.segments)
        share = f", {100 * stored_bytes / size_bytes:.1f} %" if size_bytes else ""
        click.echo(
            f"{printable(node)}: {info.last_seq:,} records, {size_bytes:,} bytes of lines in "
            f"{stored_bytes:,} on disk{share}"
        )
