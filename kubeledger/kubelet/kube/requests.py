"""What is asked for of a resource.

A resource list is taken as it is in the API object, quantities as text. Amounts in
between are *nanos*, exact integers: no quantity has a finer fraction, so that sums are
exact and are rounded once, at the end, as the kubelet's are.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from kubeledger.kubelet.kube.quantity import Quantity

Amount = str | int | float | None
"""A quantity in a decoded object; null is zero, but it is there."""

ResourceList = dict[str, Amount]
"""Resource name -> quantity."""

_NANO: Final = -9
_UNIT: Final = 10**9
_MILLI: Final = 10**6
_INT64_MAX: Final = 2**63 - 1


@lru_cache(maxsize=1 << 16)
def nanos_of(amount: Amount) -> int:
    """An amount in billionths of its unit, exact.

    Raises:
        QuantityError: it is not a quantity.

    Beyond a thousand digits the exponent does not matter: any such power of ten has
    only zeros in its low 64 bits, which is all the kubelet has of it.
    """
    return Quantity.from_api(amount).nanos()


def units_of(nanos: int) -> int:
    """Whole units, such as bytes, a fraction rounded away from zero.

    Source: v1.20.2 staging/src/k8s.io/apimachinery/pkg/api/resource/quantity.go Value
    Differs: beyond 64 bits always the low 64 bits, as for a sum that grew too large; the
        kubelet has 0 for a few single quantities. Nothing asks for less than nothing: a
        negative amount is rounded like a positive one.
    """
    if nanos < 0:
        return -units_of(-nanos)
    units = -(-nanos // _UNIT)
    return units if units <= _INT64_MAX else _wide(nanos, 0)


def milli_of(nanos: int) -> int:
    """Thousandths, such as millicores, a fraction rounded away from zero.

    Source: v1.20.2 staging/src/k8s.io/apimachinery/pkg/api/resource/quantity.go MilliValue
    Differs: beyond 64 bits and below 0 as ``units_of``.
    """
    if nanos < 0:
        return -milli_of(-nanos)
    milli = -(-nanos // _MILLI)
    return milli if milli <= _INT64_MAX else _wide(nanos, -3)


def _wide(nanos: int, exponent: int) -> int:
    return Quantity(nanos, _NANO, wide=True).scaled_value(exponent)
