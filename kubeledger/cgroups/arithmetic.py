"""Go's integer arithmetic where Python's differs."""

from __future__ import annotations

import math
from typing import Final

__all__ = ["int64_of_float", "quotient"]

_INT64_MIN: Final = -(2**63)


def quotient(dividend: int, divisor: int) -> int:
    """``dividend / divisor`` of int64, rounded towards zero; ``divisor`` is positive."""
    wrapped = dividend
    if not _INT64_MIN <= dividend < -_INT64_MIN:
        wrapped = (dividend - _INT64_MIN) % 2**64 + _INT64_MIN
    return wrapped // divisor if wrapped >= 0 else -(-wrapped // divisor)


def int64_of_float(number: float) -> int:
    """``int64(number)``: towards zero; what does not fit is the least int64 on amd64."""
    if math.isnan(number) or not _INT64_MIN <= number < -_INT64_MIN:
        return _INT64_MIN
    return int(number)
