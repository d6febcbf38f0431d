"""Go's integer arithmetic where Python's differs."""

from __future__ import annotations

from typing import Final

_INT64_MIN: Final = -(2**63)


def quotient(dividend: int, divisor: int) -> int:
    """``dividend / divisor`` of int64, rounded towards zero; ``divisor`` is positive."""
    wrapped = dividend
    if not _INT64_MIN <= dividend < -_INT64_MIN:
        wrapped = (dividend - _INT64_MIN) % 2**64 + _INT64_MIN
    return wrapped // divisor if wrapped >= 0 else -(-wrapped // divisor)
