"""Kubernetes quantities (``100m``, ``1.5Gi``, ``12e6``) as exact integers.

The kubelet holds a quantity in one of two ways, and a few of its answers depend on
which: *narrow*, a 64-bit integer times a power of ten, and *wide*, a decimal of any
size at a fixed number of places. A text is narrow while it has at most 18 digits
(fewer with a binary suffix) and no fraction of a binary unit; sums turn wide when
they no longer fit. Both are modelled here: overflow gives what the kubelet on a
64-bit machine gets (the low 64 bits or 0), not an error. There are no floats and no
decimal context anywhere.

Deciders ask ``value_of``, which remembers texts it has seen.
The rules are the same in every kubelet from 1.19 to 1.36.

Source: v1.20.2 staging/src/k8s.io/apimachinery/pkg/api/resource/quantity.go, under the names there
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import msgspec

from kubeledger.kubelet.kube.int64amount import (
    BINARY_SUFFIX,
    BITS_OF,
    DECIMAL_SUFFIX,
    DIGITS_MAX,
    FORMAT_WRONG,
    GO_SPACE,
    INT64_MAX,
    INT64_MIN,
    NANO,
    NARROW_DIGITS_MAX,
    NUMERIC_WRONG,
    Format,
    QuantityError,
    checked,
    fits_narrow,
    int64_of_float,
    is_kept,
    power10,
    raised,
    raised_beyond,
    scaled_narrow,
    scaled_wide,
    scan,
    stripped,
    wrapped,
)

__all__ = [
    "ZERO",
    "Format",
    "Quantity",
    "QuantityError",
    "int64_of_float",
    "parse",
    "value_of",
    "wrapped",
]

MILLI: Final = -3


class Quantity(msgspec.Struct, frozen=True, eq=False):
    """``unscaled * 10**exponent``, compared and hashed by amount alone.

    Attributes:
        unscaled: signed; within 64 bits unless ``wide``.
        exponent: power of ten, negative for fractions.
        wide: held as a decimal of any size by the kubelet; see the module.
        text: as written, where the kubelet keeps that; otherwise empty.

    Differs: immutable. The kubelet turns the left operand of a comparison with a wide
        quantity wide as a side effect; here an operand never changes.
    """

    unscaled: int
    exponent: int = 0
    format: Format = Format.DECIMAL_SI
    wide: bool = False
    text: str = ""

    @classmethod
    def of(cls, value: int, format: Format = Format.DECIMAL_SI) -> Quantity:
        """Whole units, such as bytes (Go ``NewQuantity``); ``value`` fits 64 bits."""
        return cls(checked(value), 0, format)

    @classmethod
    def of_milli(cls, value: int, format: Format = Format.DECIMAL_SI) -> Quantity:
        """Thousandths, such as millicores (``NewMilliQuantity``); ``value`` fits 64 bits."""
        return cls(checked(value), MILLI, format)

    @classmethod
    def from_api(cls, value: object) -> Quantity:
        """A quantity as it is in a decoded JSON or YAML object.

        Args:
            value: text, possibly between blanks; a bare number; None, which is zero.

        Raises:
            QuantityError: it is none of these, or no quantity.
        """
        if value is None:
            return ZERO
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise QuantityError(FORMAT_WRONG, str(value))
        # repr gives the shortest digits of a float, which is what was written.
        return parse(value.strip(GO_SPACE) if isinstance(value, str) else repr(value))

    @property
    def sign(self) -> int:
        """-1, 0 or 1."""
        return (self.unscaled > 0) - (self.unscaled < 0)

    @property
    def is_zero(self) -> bool:
        """Whether the amount is zero."""
        return self.unscaled == 0

    def value(self) -> int:
        """Whole units, a fraction rounded away from zero; see ``scaled_value``."""
        return self.scaled_value(0)

    def milli_value(self) -> int:
        """Thousandths, a fraction of one rounded away from zero; see ``scaled_value``."""
        return self.scaled_value(MILLI)

    def scaled_value(self, exponent: int) -> int:
        """Amount in units of ``10**exponent``, within 64 bits.

        What does not fit wraps around, or is 0 for a narrow quantity that is scaled by
        a power of ten other than 1, 2, 3, 6 or 9.

        Differs: a power of ten beyond 64 bits is the amd64 kubelet's, also where the
            log came from another architecture.
        """
        if self.wide:
            return scaled_wide(self.unscaled, exponent - self.exponent)
        return scaled_narrow(self.unscaled, exponent - self.exponent)

    def as_int64(self) -> int | None:
        """Whole units; None where the kubelet does not represent the amount as an integer.

        Differs: no. A fraction is none even where its digits are zeros (``1000m``).
        """
        if self.wide or self.exponent < 0:
            return None
        whole = raised(self.unscaled, self.exponent)
        return whole if INT64_MIN <= whole <= INT64_MAX else None

    def nanos(self) -> int:
        """Billionths, exact; a power of ten beyond a thousand digits is cut."""
        return raised(self.unscaled, min(self.exponent - NANO, DIGITS_MAX))

    def cmp(self, other: Quantity) -> int:
        """-1, 0 or 1 as this amount is less than, equal to or more than ``other``."""
        gap = self.exponent - other.exponent
        left, right = self.unscaled, other.unscaled
        if gap > 0:
            left = raised_beyond(left, gap, right)
        elif gap < 0:
            right = raised_beyond(right, -gap, left)
        return (left > right) - (left < right)

    def add(self, other: Quantity) -> Quantity:
        """The sum, in this format; in the other's if this is zero.

        Raises:
            QuantityError: the sum has more than a thousand digits or so.
        """
        return self._plus(other.unscaled, other)

    def sub(self, other: Quantity) -> Quantity:
        """The difference, in this format; in the other's if this is zero."""
        return self._plus(-other.unscaled, other)

    def neg(self) -> Quantity:
        """The same amount with the other sign."""
        unscaled = -self.unscaled if self.wide else wrapped(-self.unscaled)
        return Quantity(unscaled, self.exponent, self.format, self.wide)

    def canonical(self) -> str:
        """Largest suffix without a fraction, whatever was written (``1.5`` is ``1500m``).

        Source: v1.20.2 staging/src/k8s.io/apimachinery/pkg/api/resource/quantity.go
            CanonicalizeBytes
        Differs: no. An amount beyond the last suffix loses its power of ten, as in the
            kubelet: ``1000E`` is written ``1``.
        """
        if not self.unscaled:
            return "0"
        if self.format is Format.BINARY_SI and (whole := self._binary_whole()) is not None:
            times = 0
            # In 64 bits the most negative integer has no absolute value to divide.
            while whole % 1024 == 0 and (self.wide or whole != INT64_MIN):
                whole //= 1024
                times += 1
            return f"{whole}{BINARY_SUFFIX.get(times, '')}"
        digits, exponent = stripped(self.unscaled, self.exponent)
        digits *= 10 ** (exponent % 3)
        exponent -= exponent % 3
        if self.format is Format.DECIMAL_EXPONENT:
            return f"{digits}e{exponent}" if exponent else str(digits)
        return f"{digits}{DECIMAL_SUFFIX.get(exponent, '')}"

    def __str__(self) -> str:
        """What the kubelet logs: the text as written if it was kept, else canonical."""
        return self.text or self.canonical()

    def __eq__(self, other: object) -> bool:
        return self.cmp(other) == 0 if isinstance(other, Quantity) else NotImplemented

    def __ne__(self, other: object) -> bool:
        # The base class has one of its own, which is about identity.
        return self.cmp(other) != 0 if isinstance(other, Quantity) else NotImplemented

    def __hash__(self) -> int:
        return hash(stripped(self.unscaled, self.exponent))

    def __lt__(self, other: Quantity) -> bool:
        return self.cmp(other) < 0

    def __le__(self, other: Quantity) -> bool:
        return self.cmp(other) <= 0

    def __gt__(self, other: Quantity) -> bool:
        return self.cmp(other) > 0

    def __ge__(self, other: Quantity) -> bool:
        return self.cmp(other) >= 0

    def _plus(self, unscaled: int, other: Quantity) -> Quantity:
        """The sum with ``unscaled`` of another's kind: in 64 bits if both are and that holds it."""
        format = self.format if self.unscaled else other.format
        # The most negative integer is its own negative in 64 bits, as in the kubelet.
        is_wide, low = self.wide or other.wide, wrapped(unscaled)
        if not (is_wide or low):
            return Quantity(self.unscaled, self.exponent, format)
        if not (is_wide or self.unscaled):
            return Quantity(low, other.exponent, format)
        exponent = min(self.exponent, other.exponent)
        left = raised(self.unscaled, self.exponent - exponent)
        right = raised(low, other.exponent - exponent)
        fits = all(INT64_MIN <= number <= INT64_MAX for number in (left, right, left + right))
        if fits and not is_wide:
            return Quantity(left + right, exponent, format)
        right = raised(unscaled, other.exponent - exponent)
        return Quantity(left + right, exponent, format, wide=True)

    def _binary_whole(self) -> int | None:
        """The amount if it can be written with a binary suffix: whole, 1024 or more."""
        if self.exponent >= 0:
            whole = raised(self.unscaled, self.exponent)
        else:
            whole, rest = divmod(self.unscaled, power10(-self.exponent))
            if rest:
                return None
        return whole if abs(whole) >= 1024 else None


ZERO: Final = Quantity(0)
"""An absent quantity; a sum takes the format of what is added to it."""


def parse(text: str) -> Quantity:
    """Read a quantity in any notation that the Kubernetes API accepts.

    More than nine places are rounded away from zero, so that something stays
    something. With a binary suffix the amount is capped at 2**63 - 1.

    Raises:
        QuantityError: with the kubelet's text; or the text is over a thousand long.

    Source: v1.20.2 staging/src/k8s.io/apimachinery/pkg/api/resource/quantity.go ParseQuantity
    Differs: a text that is over a thousand characters long is refused, and of an amount
        of more digits than that the power of ten is cut: the kubelet's low 64 bits are 0
        either way, but it would take gigabytes and minutes over some.
    """
    if text == "0":
        return Quantity(0, text=text)
    if len(text) > DIGITS_MAX:
        raise QuantityError(f"quantity of more than {DIGITS_MAX} characters", text)
    found = scan(text)
    digits, bits = found.num + found.denom, found.bits
    if found.places >= NANO and fits_narrow(found.num, found.denom, bits):
        unscaled = (-int(digits) if found.negative else int(digits)) << bits
        kept = text if is_kept(digits, found.places, bits) else ""
        return Quantity(unscaled, found.places, found.format, text=kept)
    # Only here does it matter to the kubelet that a number is missing.
    if not found.has_digits:
        raise QuantityError(NUMERIC_WRONG, text)
    wide = _parse_wide(int(digits) << bits, found.places, found.format)
    return wide.neg() if found.negative else wide


@lru_cache(maxsize=1 << 16)
def value_of(text: str) -> int:
    """``parse(text).value()``: whole units, such as bytes or devices. Fast.

    Raises:
        QuantityError: the text is not a quantity.
    """
    if len(text) <= NARROW_DIGITS_MAX and text.isascii():
        if text.isdigit():
            return int(text)
        number, bits = text[:-2], BITS_OF.get(text[-2:], 0)
        if bits and number.isdigit() and fits_narrow(number, "", bits):
            return int(number) << bits
        number = text[:-1]
        if text[-1:] == "m" and number.isdigit():
            return -(-int(number) // 1000)
    return parse(text).value()


def _parse_wide(unscaled: int, exponent: int, format: Format) -> Quantity:
    """The wide quantity of an amount that is not negative, rounded up and capped."""
    if not unscaled:
        within = max(-DIGITS_MAX, min(exponent, DIGITS_MAX))
        return Quantity(0, within, format, wide=True)
    if exponent >= NANO:
        nanos = raised(unscaled, min(exponent - NANO, DIGITS_MAX))
    elif NANO - exponent > DIGITS_MAX:
        nanos = 1
    else:
        nanos = -(-unscaled // power10(NANO - exponent))
    if format is Format.BINARY_SI:
        if nanos > INT64_MAX * 10**-NANO:
            return Quantity(INT64_MAX, 0, format, wide=True)
        if nanos < 10**-NANO:
            format = Format.DECIMAL_SI
    return Quantity(nanos, NANO, format, wide=True)
