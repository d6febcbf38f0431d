"""Parts of a quantity: its suffix and digits, and the 64 bits in which the kubelet handles them."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Final, NamedTuple

from kubeledger.model.patterns import regex

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


def quotient(dividend: int, divisor: int) -> int:
    """``dividend / divisor`` of int64, rounded towards zero."""
    low = wrapped(dividend)
    whole = abs(low) // abs(divisor)
    return wrapped(whole if (low < 0) == (divisor < 0) else -whole)


def int32(value: int) -> int:
    """The low 32 bits, as a signed integer: the kubelet cuts exponents so."""
    return (value + 2**31) % 2**32 - 2**31


def int64_of_float(number: float) -> int:
    """``int64(number)``: towards zero; what does not fit is the least int64 on amd64."""
    if math.isnan(number) or not INT64_MIN <= number < -INT64_MIN:
        return INT64_MIN
    return int(number)


# The written form of quantities: suffixes, and the kubelet's lenient scanner.

NANO: Final = -9
"""Exponent of the smallest part of a unit that a parsed text can have."""

FORMAT_WRONG = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
NUMERIC_WRONG = "unable to parse numeric part of quantity"
_SUFFIX_WRONG = "unable to parse quantity's suffix"

# Not the expression of the message: the kubelet's scanner accepts one point at most,
# and a missing number as zero. Possessive, so that no text takes more than one pass.
_SCAN = regex(
    r"(?P<value>(?P<sign>[+-]?+)0*+(?P<num>[0-9]*+)(?:\.(?P<denom>[0-9]*+))?+)"
    r"(?P<suffix>[eEinumkKMGTP]*+[-+]?+[0-9]*+)"
)
_EXPONENT = regex(r"[eE]([+-]?[0-9]+)")
GO_SPACE = " \t\n\v\f\r\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)

_DECIMAL_EXPONENT_OF = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18
}  # fmt: skip
BITS_OF = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL_EXPONENT_OF.items()}
BINARY_SUFFIX = dict(enumerate(BITS_OF, start=1))


class Format(StrEnum):
    """Notation that a quantity was written in and is written in again."""

    DECIMAL_EXPONENT = "DecimalExponent"
    BINARY_SI = "BinarySI"
    DECIMAL_SI = "DecimalSI"


class Scan(NamedTuple):
    """A text taken apart: ``digits * 2**bits * 10**places``.

    Attributes:
        num: digits before the point without leading zeros, ``0`` if none are left.
        denom: digits after the point.
        places: power of ten of the last digit.
        bits: power of two of the suffix.
        has_digits: False if the number is missing, as in ``m`` or ``+``.
    """

    negative: bool
    num: str
    denom: str
    places: int
    bits: int
    format: Format
    has_digits: bool


def scan(text: str) -> Scan:
    """Take a quantity apart without judging its size.

    Raises:
        QuantityError: wrong characters, or an unknown suffix; in the kubelet's words.
    """
    match = _SCAN.fullmatch(text)
    if match is None or not text:
        raise QuantityError(FORMAT_WRONG, text)
    exponent, bits, format = _suffix(match["suffix"], text)
    num, denom = match["num"] or "0", match["denom"] or ""
    has_digits = match["value"].strip("+-.") != ""
    places = int32(exponent - len(denom))
    return Scan(match["sign"] == "-", num, denom, places, bits, format, has_digits)


def _suffix(suffix: str, text: str) -> tuple[int, int, Format]:
    """Power of ten, power of two and notation that a suffix stands for."""
    if (exponent := _DECIMAL_EXPONENT_OF.get(suffix)) is not None:
        return exponent, 0, Format.DECIMAL_SI
    if bits := BITS_OF.get(suffix):
        return 0, bits, Format.BINARY_SI
    match = _EXPONENT.fullmatch(suffix)
    power = int(match[1]) if match else INT64_MAX + 1
    if not INT64_MIN <= power <= INT64_MAX:
        raise QuantityError(_SUFFIX_WRONG, text)
    return int32(power), 0, Format.DECIMAL_EXPONENT


def fits_narrow(num: str, denom: str, bits: int) -> bool:
    """Whether the kubelet is sure, by the number of digits alone, that 64 bits hold it."""
    if bits:
        return not denom and len(num) + bits * 3 // 10 <= 14
    return len(num) + len(denom) <= NARROW_DIGITS_MAX


def is_kept(digits: str, places: int, bits: int) -> bool:
    """Whether the kubelet takes the text for canonical, and so writes it as it was read.

    Its check is lax: ``1.500``, ``+1`` and ``01`` are taken for canonical too.
    """
    if bits:
        return int(digits) % 8 != 0
    return places % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
