"""What a reader of the ledger must know about a source."""

from __future__ import annotations

import msgspec


class Finding(msgspec.Struct, frozen=True):
    """Something a reader of the ledger must know; as in ``FindingReported``."""

    finding: str
    file: str | None
    message: str
