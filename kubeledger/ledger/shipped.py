"""``nodes/<node>/shipped.json``: what of a node is stored elsewhere, and may be dropped here.

The mark is written after what it counts was read back from there. One that is lost or damaged
counts as none: what is there already is then read back again, and nothing is stored twice.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from kubeledger.ledger.manifest import NodeInfo
from kubeledger.ledger.sealed_json import load_sealed, save_sealed
from kubeledger.ledger.storage import storage_errors

SHIPPED = "shipped.json"
_BYTES_MAX = 256 << 20


class ShipMark(msgspec.Struct, kw_only=True):
    """What of a node is stored at one place.

    Attributes:
        url: of the place.
        prefix: of the node's copy, below the URL.
        info: counts of the copy.
        base_digest: of the newest base that is stored, as in its record; empty for none.
    """

    format: int = 1
    url: str
    prefix: str
    info: NodeInfo
    base_digest: str = ""


def load_mark(directory: Path) -> ShipMark | None:
    """The mark of a node; None when there is none, or a damaged one.

    Raises:
        LedgerUnavailableError: it is there and cannot be read.
    """
    path = directory / SHIPPED
    with storage_errors("read what was shipped", path):
        mark = load_sealed(path, ShipMark, _BYTES_MAX)
    return mark if mark and mark.format == 1 else None


def save_mark(directory: Path, mark: ShipMark) -> None:
    """Write the mark of a node atomically.

    Raises:
        LedgerUnavailableError: the operating system refused.
    """
    path = directory / SHIPPED
    with storage_errors("note what was shipped", path):
        save_sealed(path, mark)
