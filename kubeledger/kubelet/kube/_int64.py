"""Integers as the kubelet's quantities handle them: 64 bits, and the ways out of them."""

from __future__ import annotations

import math
from typing import Final

INT64_MAX: Final = 2**63 - 1
INT64_MIN: Final = -(2**63)

DIGITS_MAX: Final = 1000
"""Texts and powers of ten longer than this are refused; the kubelet would take
gigabytes and minutes for some of them."""
NARROW_DIGITS_MAX: Final = 18
"""Any integer with so many digits fits 64 bits."""
_ONE_STEP: Final = frozenset({1, 2, 3, 6, 9})


class QuantityError(ValueError):
    """A text is not a quantity, in the kubelet's words, or is absurdly long.

    Attributes:
        text: what was to be parsed; empty when a calculation grew too long.
    """

    def __init__(self, message: str, text: str = "") -> None:
        super().__init__(message)
        self.text = text


def scaled_narrow(unscaled: int, drop: int) -> int:
    """``unscaled / 10**drop`` as the kubelet works it out for a narrow quantity.

    Fractions are rounded away from zero. Where 64 bits do not hold the result, it
    depends on the power of ten: the kubelet multiplies by the usual ones in one step,
    whose low 64 bits remain, and by the others step by step, giving up with 0.
    """
    if drop > 0:
        size = -(-abs(unscaled) // power10(min(drop, 20)))
        return size if unscaled >= 0 else -size
    if not unscaled or -drop > NARROW_DIGITS_MAX:
        return 0
    scaled = unscaled * power10(-drop)
    if INT64_MIN <= scaled <= INT64_MAX:
        return scaled
    return wrapped(scaled) if -drop in _ONE_STEP and unscaled != INT64_MIN else 0


def scaled_wide(unscaled: int, drop: int) -> int:
    """``unscaled / 10**drop`` as the kubelet works it out for a wide quantity.

    Positive amounts are rounded up. For negative ones the rules are odd: those that
    are far below zero wrap around first, and a fraction is cut off and 1 added.
    """
    if drop <= 0:
        factor = power10(-drop) if -drop <= NARROW_DIGITS_MAX else INT64_MIN
        return wrapped(wrapped(unscaled) * factor)
    divisor = power10(drop)
    if unscaled < INT64_MAX and drop <= NARROW_DIGITS_MAX:
        low = wrapped(unscaled)
        size, rest = divmod(abs(low), divisor)
        return (size if low >= 0 else -size) + (1 if rest else 0)
    whole, rest = divmod(unscaled, divisor)
    return wrapped(whole + (1 if rest else 0))


def stripped(digits: int, exponent: int) -> tuple[int, int]:
    """The same amount without trailing zeros; zero is ``(0, 0)``."""
    if not digits:
        return 0, 0
    while digits % 10 == 0:
        digits //= 10
        exponent += 1
    return digits, exponent


def raised(unscaled: int, exponent: int) -> int:
    """``unscaled * 10**exponent``, with the limit of :func:`power10`."""
    return unscaled * power10(exponent) if unscaled else 0


def raised_beyond(unscaled: int, gap: int, other: int) -> int:
    """``unscaled * 10**gap``, or what compares the same way with ``other`` but is small."""
    if unscaled and 3 * gap >= other.bit_length():  # 10**gap > 2**(3*gap) > abs(other)
        return abs(other) + 1 if unscaled > 0 else -abs(other) - 1
    return unscaled * 10**gap if unscaled else 0


def power10(exponent: int) -> int:
    """``10**exponent``; a :class:`QuantityError` beyond ``10**DIGITS_MAX``."""
    if exponent > DIGITS_MAX:
        raise QuantityError(f"quantity of more than {DIGITS_MAX} digits")
    power: int = 10**exponent
    return power


def checked(value: int) -> int:
    """The value itself; a :class:`QuantityError` if 64 bits do not hold it."""
    if not INT64_MIN <= value <= INT64_MAX:
        raise QuantityError(f"{value} does not fit 64 bits")
    return value


def wrapped(value: int) -> int:
    """The low 64 bits, as a signed integer."""
    return (value + 2**63) % 2**64 - 2**63


def int32(value: int) -> int:
    """The low 32 bits, as a signed integer: the kubelet cuts exponents so."""
    return (value + 2**31) % 2**32 - 2**31


def int64_of_float(number: float) -> int:
    """``int64(number)``: towards zero; what does not fit is the least int64 on amd64."""
    if math.isnan(number) or not INT64_MIN <= number < -INT64_MIN:
        return INT64_MIN
    return int(number)
