"""What an audit says about a ledger's caches: snapshots, and the Parquet history."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubeledger.ledger.audit_report import Finding
    from kubeledger.ledger.ledger import Ledger

__all__ = ["check_caches", "prove_caches"]


def check_caches(ledgers: Iterable[Ledger]) -> Iterator[Finding]:
    """Bytes and places of the history's files; those of snapshots are the ledger's audit's.

    Raises:
        KubeledgerError: they cannot be read.
    """
    from kubeledger.ledger.history.index import HISTORY

    for ledger in ledgers:
        if os.path.lexists(ledger.path / HISTORY):
            from kubeledger.ledger.history.proof import (
                check_history,  # DuckDB takes its time to load
            )

            yield from check_history(ledger)


def prove_caches(ledgers: Iterable[Ledger]) -> Iterator[Finding]:
    """What the caches hold against what the records give.

    Raises:
        KubeledgerError: the records cannot be read, or are not as they were written.
    """
    from kubeledger.ledger.history.proof import prove_history
    from kubeledger.replay.proof import prove_snapshots

    for ledger in ledgers:
        yield from prove_snapshots(ledger)
        with TemporaryDirectory(prefix="kubeledger-audit-") as scratch:
            yield from prove_history(ledger, Path(scratch))
