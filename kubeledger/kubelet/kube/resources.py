"""Resources: their names, and what is asked for of them, as integers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import chain
from typing import Final, TypeVar

from kubeledger.kubelet.kube.quantity import Quantity, QuantityError
from kubeledger.model.errors import BadInputError

HUGE_PAGES: Final = "hugepages-"
ATTACHABLE_VOLUMES: Final = "attachable-volumes-"
NATIVE_DOMAIN: Final = "kubernetes.io/"
QUOTA_REQUESTS: Final = "requests."
UID: Final = r"(?:[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})"
"""Of a pod, in a text: the API server's, also as systemd's units have it; a static pod's hash."""

V = TypeVar("V")

_NAME = re.compile(r"(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", re.ASCII)
_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL})*", re.ASCII)


def is_label_value(text: str) -> bool:
    """Whether a label may have this value (apimachinery ``IsValidLabelValue``)."""
    return not text or (len(text.encode()) <= 63 and _NAME.fullmatch(text) is not None)


@lru_cache(maxsize=1024)
def is_qualified_name(text: str) -> bool:
    """Whether the text is ``name`` or ``domain/name`` (apimachinery ``IsQualifiedName``)."""
    *prefix, name = text.split("/")
    if len(prefix) > 1 or len(name) > 63 or _NAME.fullmatch(name) is None:
        return False
    return all(len(p) <= 253 and _SUBDOMAIN.fullmatch(p) is not None for p in prefix)


@lru_cache(maxsize=1024)
def is_extended_resource(name: str) -> bool:
    """Whether a resource is of some domain outside of Kubernetes, as devices are.

    Source: v1.20.2 pkg/apis/core/v1/helper/helpers.go IsExtendedResourceName
    """
    if "/" not in name or NATIVE_DOMAIN in name or name.startswith(QUOTA_REQUESTS):
        return False
    return is_qualified_name(QUOTA_REQUESTS + name)


@lru_cache(maxsize=1024)
def is_scalar_resource(name: str) -> bool:
    """Whether a resource is counted besides cpu, memory, storage and pods.

    Source: v1.20.2 pkg/scheduler/util/utils.go IsScalarResourceName
    """
    return (
        is_extended_resource(name)
        or name.startswith((HUGE_PAGES, ATTACHABLE_VOLUMES))
        or NATIVE_DOMAIN in name
    )


def is_pod_level_resource(name: str) -> bool:
    """Whether a pod as a whole can ask for this resource.

    Source: v1.36.2 staging/src/k8s.io/component-helpers/resource/helpers.go
        IsSupportedPodLevelResource
    """
    return name in ("cpu", "memory") or name.startswith(HUGE_PAGES)


# The name under which the state keeps a pod: its UID, or what there is without one.


def name_key(namespace: str, name: str) -> str:
    """``namespace/name``; a UID never holds a slash, so the two cannot be confused."""
    return f"{namespace}/{name}"


def pod_key(uid: str | None, namespace: str | None, name: str | None) -> str | None:
    """The UID, else ``namespace/name``, else None: then nothing can be kept about the pod."""
    if uid:
        return uid
    return name_key(namespace, name) if namespace and name else None


# What is asked for of a resource.
#
# A resource list is taken as it is in the API object, quantities as text. Amounts in
# between are *nanos*, exact integers: no quantity has a finer fraction, so that sums are
# exact and are rounded once, at the end, as the kubelet's are.

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


# Amounts of resources as integers: millicores for cpu, whole units for all else.
#
# Aggregating a pod's requests takes thousands of quantities a second, nearly all of them plain:
# whole units, or whole millicores. For these integers are exact, and the tables here give them
# at the price of a dictionary look-up. For any other (``100u`` of cpu, ``1500m`` of memory, a
# number near 64 bits) they raise :class:`NotPlainError`, and the caller goes the long way over
# :mod:`kubeledger.kubelet.kube.resources`.

CPU: Final = "cpu"

_REMEMBERED_MAX: Final = 1 << 14
_PLAIN_MAX: Final = 1 << 50
"""Below this a few thousand amounts cannot overflow, in millicores or bytes."""


class NotPlainError(Exception):
    """An amount is no integer in its unit, or a very large one."""


class Remembered(dict[Amount, V]):
    """Quantity as written -> what is made of it; made when first asked for.

    Too many are forgotten.
    """

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[Amount], V]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, written: Amount) -> V:
        """Make it.

        Raises:
            BadInputError: the text is not a quantity; and what its maker raises.
        """
        made = self._make(written)
        if len(self) >= _REMEMBERED_MAX:
            self.clear()
        self[written] = made
        return made


AmountTable = Remembered[int]
"""What the totals of a pod are worked out with."""


def _asked_nanos(written: Amount) -> int:
    _asked(written)
    return nanos_of(written)


def _milli(written: Amount) -> int:
    return _quantity_of(written).milli_value()


def _units(written: Amount) -> int:
    return _quantity_of(written).value()


def _whole(amount: Callable[[Amount], int], back: Callable[[int], Quantity]) -> AmountTable:
    """Amounts that need no rounding; others raise ``NotPlainError``."""

    def whole(written: Amount) -> int:
        found = amount(written)
        if abs(found) > _PLAIN_MAX or back(found) != _quantity_of(written):
            raise NotPlainError
        return found

    return Remembered(whole)


NANOS: Final[AmountTable] = Remembered(_asked_nanos)
"""What is asked for as written -> billionths, exact for all of it."""


def nanos_in(amounts: ResourceList | None, resource: str) -> int:
    """What is asked for of a resource; 0 where nothing is."""
    return NANOS[amounts[resource]] if amounts and resource in amounts else 0


_WHOLE_MILLI: Final = _whole(_milli, Quantity.of_milli)
_WHOLE_UNITS: Final = _whole(_units, Quantity.of)
_ROUNDED_MILLI: Final = Remembered(_milli)
_ROUNDED_UNITS: Final = Remembered(_units)

_valid: Final[set[Amount]] = set()


def whole_amounts(resource: str) -> AmountTable:
    """Exact amounts of a resource; what is not plain raises ``NotPlainError``."""
    return _WHOLE_MILLI if resource == CPU else _WHOLE_UNITS


def rounded_amounts(resource: str) -> AmountTable:
    """Amounts of a resource, each rounded up by itself."""
    return _ROUNDED_MILLI if resource == CPU else _ROUNDED_UNITS


def from_nanos(resource: str, nanos: int) -> int:
    """A sum in the unit of the resource, rounded up once."""
    return milli_of(nanos) if resource == CPU else units_of(nanos)


def _quantity_of(written: object) -> Quantity:
    """The exact quantity."""
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
