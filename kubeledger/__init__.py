"""Flight recorder, replay engine and SQL forensics lab for the kubelet's decisions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubeledger.api import OpenLedger

__all__ = ["__version__", "open"]

__version__ = "0.1.0"


def open(path: str | Path) -> OpenLedger:
    """Open the ledger at ``path``, or make one if nothing is there (see ``kubeledger.api``)."""
    from kubeledger.api import open_ledger

    return open_ledger(path)
