"""What a pod asks for: its containers' requests or limits, put together.

A resource list is taken as it is in the API object, quantities as text. Amounts in
between are *nanos*, exact integers: no quantity has a finer fraction, so that sums are
exact and are rounded once, at the end, as the kubelet's are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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


def aggregate(
    containers: Iterable[ResourceList],
    init_containers: Sequence[tuple[ResourceList, bool]],
    name: str,
) -> int | None:
    """What one pod needs of one resource at the worst moment.

    All containers run together, with all sidecars. Before that, each init container runs
    alone but for the sidecars before it.

    Args:
        containers: (n,) requests, or limits, of the containers.
        init_containers: (m,) the same of the init containers in their order, and whether
            each is a sidecar; where the version knows none, say False.
        name: resource.

    Returns:
        Nanos; None where no container names the resource.

    Raises:
        QuantityError: an amount is not a quantity.

    Source: v1.36.2 staging/src/k8s.io/component-helpers/resource/helpers.go
        AggregateContainerRequests
    Differs: one resource at a time. Without sidecars it is what PodRequestsAndLimits of
        v1.20.2 pkg/api/v1/resource/helpers.go does.
    """
    total: int | None = None
    for resources in containers:
        if name in resources:
            total = (total or 0) + nanos_of(resources[name])
    if not init_containers:
        return total
    sidecars: int | None = None
    most: int | None = None
    for resources, is_sidecar in init_containers:
        own = nanos_of(resources[name]) if name in resources else None
        at_start = _sum(own, sidecars)
        if is_sidecar:
            sidecars = at_start
            total = _sum(total, own)
        if at_start is not None and (most is None or at_start > most):
            most = at_start
    return most if total is None or (most is not None and most > total) else total


def _sum(left: int | None, right: int | None) -> int | None:
    """The sum of what is there."""
    if left is None or right is None:
        return right if left is None else left
    return left + right


def _wide(nanos: int, exponent: int) -> int:
    return Quantity(nanos, _NANO, wide=True).scaled_value(exponent)
