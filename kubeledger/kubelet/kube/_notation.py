"""The written form of quantities: suffixes, and the kubelet's lenient scanner."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final, NamedTuple

from kubeledger.kubelet.kube._int64 import (
    INT64_MAX,
    INT64_MIN,
    NARROW_DIGITS_MAX,
    QuantityError,
    int32,
)

NANO: Final = -9
"""Exponent of the smallest part of a unit that a parsed text can have."""

FORMAT_WRONG = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
NUMERIC_WRONG = "unable to parse numeric part of quantity"
_SUFFIX_WRONG = "unable to parse quantity's suffix"

# Not the expression of the message: the kubelet's scanner accepts one point at most,
# and a missing number as zero. Possessive, so that no text takes more than one pass.
_SCAN = re.compile(
    r"(?P<value>(?P<sign>[+-]?+)0*+(?P<num>[0-9]*+)(?:\.(?P<denom>[0-9]*+))?+)"
    r"(?P<suffix>[eEinumkKMGTP]*+[-+]?+[0-9]*+)"
)
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)")
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
        negative: whether there is a minus sign.
        num: digits before the point without leading zeros, ``0`` if none are left.
        denom: digits after the point.
        places: power of ten of the last digit.
        bits: power of two of the suffix.
        format: notation.
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
