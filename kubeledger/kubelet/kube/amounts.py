"""Amounts of resources as integers: millicores for cpu, whole units for all else.

Aggregating a pod's requests takes thousands of quantities a second, nearly all of them plain:
whole units, or whole millicores. For these integers are exact, and the tables here give them
at the price of a dictionary look-up. For any other (``100u`` of cpu, ``1500m`` of memory, a
number near 64 bits) they raise :class:`NotPlainError`, and the caller goes the long way over
:mod:`kubeledger.kubelet.kube.requests`.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Final

from kubeledger.kubelet.kube.quantity import Quantity, QuantityError
from kubeledger.kubelet.kube.requests import Amount, ResourceList, milli_of, nanos_of, units_of
from kubeledger.model.errors import BadInputError

CPU: Final = "cpu"

_REMEMBERED_MAX: Final = 1 << 14
_PLAIN_MAX: Final = 1 << 50
"""Below this a few thousand amounts cannot overflow, in millicores or bytes."""


class NotPlainError(Exception):
    """An amount is no integer in its unit, or a very large one."""


class Amounts(dict[Amount, int]):
    """Quantity as written -> amount; made when first asked for, forgotten when too many."""

    __slots__ = ("_milli", "_whole_only")

    def __init__(self, *, milli: bool, whole_only: bool) -> None:
        """Millicores or units; those that must be rounded are given or refused."""
        super().__init__()
        self._milli = milli
        self._whole_only = whole_only

    def __missing__(self, written: Amount) -> int:
        """Work out an amount.

        Raises:
            NotPlainError: it is not plain and only plain ones are given.
            BadInputError: the text is not a quantity.
        """
        quantity = _quantity_of(written)
        amount = quantity.milli_value() if self._milli else quantity.value()
        if self._whole_only:
            back = Quantity.of_milli(amount) if self._milli else Quantity.of(amount)
            if abs(amount) > _PLAIN_MAX or back != quantity:
                raise NotPlainError
        if len(self) >= _REMEMBERED_MAX:
            self.clear()
        self[written] = amount
        return amount


class Nanos(dict[Amount, int]):
    """What is asked for as written -> billionths, exact for all of it."""

    __slots__ = ()

    def __missing__(self, written: Amount) -> int:
        """Work out an amount.

        Raises:
            BadInputError: it cannot be asked for.
        """
        _asked(written)
        amount = nanos_of(written)
        if len(self) >= _REMEMBERED_MAX:
            self.clear()
        self[written] = amount
        return amount


AmountTable = Amounts | Nanos
"""What the totals of a pod are worked out with."""

NANOS: Final = Nanos()

_WHOLE_MILLI: Final = Amounts(milli=True, whole_only=True)
_WHOLE_UNITS: Final = Amounts(milli=False, whole_only=True)
_ROUNDED_MILLI: Final = Amounts(milli=True, whole_only=False)
_ROUNDED_UNITS: Final = Amounts(milli=False, whole_only=False)

_valid: Final[set[Amount]] = set()


def whole_amounts(resource: str) -> Amounts:
    """Exact amounts of a resource; what is not plain raises ``NotPlainError``."""
    return _WHOLE_MILLI if resource == CPU else _WHOLE_UNITS


def rounded_amounts(resource: str) -> Amounts:
    """Amounts of a resource, each rounded up by itself."""
    return _ROUNDED_MILLI if resource == CPU else _ROUNDED_UNITS


def from_nanos(resource: str, nanos: int) -> int:
    """A sum in the unit of the resource, rounded up once."""
    return milli_of(nanos) if resource == CPU else units_of(nanos)


def _quantity_of(written: object) -> Quantity:
    """The exact quantity.

    Raises:
        BadInputError: the text is not a quantity.
    """
    try:
        return Quantity.from_api(written)
    except QuantityError as error:
        raise BadInputError(f"quantity {written!r}: {error}") from None


def check_asked(maps: Iterable[ResourceList]) -> None:
    """Make sure that all values may be asked for, also those that nothing depends on.

    The API server lets no other into a pod, and neither does the kubelet into a static one.

    Raises:
        BadInputError: naming resource and value of the first that is not a quantity, is null or
            is below zero.
    """
    maps = list(maps)
    if _valid.issuperset(chain.from_iterable(map(dict.values, maps))):
        return
    for quantities in maps:
        for resource, written in quantities.items():
            try:
                _asked(written)
            except BadInputError as error:
                raise BadInputError(f"{resource}: {error.message}") from None
            if len(_valid) >= _REMEMBERED_MAX:
                _valid.clear()
            _valid.add(written)


def _asked(written: object) -> None:
    if written is None:
        raise BadInputError("quantity null: leave out what is not requested")
    if _quantity_of(written).sign < 0:
        raise BadInputError(f"quantity {written!r}: nothing asks for less than nothing")
