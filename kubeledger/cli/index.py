"""``kubeledger index``: make or renew the Parquet files that SQL reads."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from kubeledger.cli.options import ledger_option, reports_errors
from kubeledger.cli.output import printable
from kubeledger.model.errors import LedgerUnavailableError


@click.command(epilog="Example: kubeledger index --rebuild")
@ledger_option
@click.option("--rebuild", is_flag=True, help="Remove the files first and write all of them again.")
@reports_errors
def index(ledger: Path, rebuild: bool) -> None:
    """Write the records as Parquet below LEDGER/history, for SQL and for other engines.

    `kubeledger sql` does so by itself where it pays. The files hold nothing that the ledger
    does not hold, and may be removed at any time.
    """
    from kubeledger.cli.progress import progress
    from kubeledger.ledger.history.history import History
    from kubeledger.ledger.history.index import HISTORY
    from kubeledger.ledger.ledger import Ledger
    from kubeledger.ledger.storage import storage_errors

    opened = Ledger.open(ledger)
    with progress("writing Parquet"), TemporaryDirectory(prefix="kubeledger-") as scratch:
        if (ledger / HISTORY).is_symlink():
            raise LedgerUnavailableError(
                "the history is a link, and nothing is written through one",
                advice="remove the link",
                file=str(ledger / HISTORY),
            )
        if rebuild and (ledger / HISTORY).is_dir():
            with storage_errors("remove the history", ledger / HISTORY):
                shutil.rmtree(ledger / HISTORY)
        history = History(opened, Path(scratch))
        covered = history.cover(1)
        history.require_kept()
    for node, seq in covered.ends.items():
        click.echo(f"{printable(node)}: records {opened.begin(node).seq + 1} to {seq}")
    click.echo(f"{len(covered.paths)} Parquet files below {ledger / HISTORY}")
