"""Which times a record can hold: those that 64 bits of nanoseconds reach, in whole years."""

from __future__ import annotations

TS_NS_MIN = -9_214_560_000_000_000_000
"""1678-01-01T00:00:00Z."""

TS_NS_MAX = 9_214_646_400_000_000_000 - 1
"""The last nanosecond of 2261."""

YEARS = "1678 to 2261"
"""The same for a user."""


def is_storable(ts_ns: int) -> bool:
    """The time can be stored, compared and shown by everything that reads a ledger."""
    return TS_NS_MIN <= ts_ns <= TS_NS_MAX
