"""The Python door to a ledger: ``kubeledger.open(path)``.

Comes in: a path. Goes out: records, state, verdicts and answers as Python objects. Imports the
rooms before it.
"""

from __future__ import annotations

from kubeledger.api.opened import OpenLedger, open_ledger
from kubeledger.api.results import Imported, NodeOutlook, Outlooks, Reasons, Verification

__all__ = [
    "Imported",
    "NodeOutlook",
    "OpenLedger",
    "Outlooks",
    "Reasons",
    "Verification",
    "open_ledger",
]
