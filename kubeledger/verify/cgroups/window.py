"""A snapshot that waits until all that it can have shown is told."""

from __future__ import annotations

from typing import Final

import msgspec

from kubeledger.machine import Record
from kubeledger.units import NS_PER_S
from kubeledger.verify.cgroups.pods import Rules

__all__ = ["READ_NS", "Snapshot"]

READ_NS: Final = 5 * NS_PER_S
"""A snapshot is named after the second in which its reading began; it is over by this time."""


class Snapshot(msgspec.Struct):
    """Decisions of one snapshot that are judged later.

    Attributes:
        levels: records of QoS levels, and the rules then.
        removed: records of cgroups that went.
    """

    ts_ns: int
    deadline_ns: int
    levels: list[tuple[Record, Rules]] = []
    removed: list[Record] = []
