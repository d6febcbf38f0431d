"""Eviction thresholds as they are written: ``100Mi`` or ``10%``.

The eviction manager acts on them, and a node reserves what the hard ones keep free.
"""

from __future__ import annotations

from functools import lru_cache

from kubeledger.kubelet.kube.gotexts import parse_float32
from kubeledger.kubelet.kube.quantity import Quantity, QuantityError, parse


class EvictionThresholdError(ValueError):
    """A setting of the eviction manager that the kubelet refuses; its words."""


@lru_cache(maxsize=1 << 10)
def parse_threshold(signal: str, text: str, percentage_max: float) -> Quantity | float | None:
    """A quantity, or a fraction of the capacity; None for the two that mean no threshold.

    Args:
        signal: named in the error.
        text: as configured.
        percentage_max: largest fraction that this version takes.

    Raises:
        EvictionThresholdError: it is refused.

    Source: v1.36.2 pkg/kubelet/eviction/helpers.go parseThresholdStatement; v1.20.2
    """
    if text in ("0%", "100%"):
        return None
    if text.endswith("%"):
        fraction = _fraction(text)
        if fraction < 0:
            raise EvictionThresholdError(
                f"eviction percentage threshold {signal} must be >= 0%: {text}"
            )
        if fraction > percentage_max:
            raise EvictionThresholdError(
                f"eviction percentage threshold {signal} must be <= 100%: {text}"
            )
        return fraction
    quantity = _quantity(text)
    if quantity.sign <= 0:
        raise EvictionThresholdError(f"eviction threshold {signal} must be positive: {quantity}")
    return quantity


@lru_cache(maxsize=1 << 10)
def parse_minimum_reclaim(signal: str, text: str) -> Quantity | float:
    """A quantity, or a fraction of the capacity.

    Raises:
        EvictionThresholdError: it is refused.

    Source: v1.36.2 pkg/kubelet/eviction/helpers.go parseMinimumReclaims
    """
    if text.endswith("%"):
        fraction = _fraction(text)
        if fraction <= 0:
            raise EvictionThresholdError(
                f"eviction percentage minimum reclaim {signal} must be positive: {text}"
            )
        return fraction
    quantity = _quantity(text)
    if quantity.sign < 0:
        raise EvictionThresholdError(f"negative eviction minimum reclaim specified for {signal}")
    return quantity


def _fraction(text: str) -> float:
    """A percentage in single precision, as the kubelet keeps it."""
    try:
        return parse_float32(repr(parse_float32(text.rstrip("%")) / 100))
    except ValueError as error:
        raise EvictionThresholdError(str(error)) from None


def _quantity(text: str) -> Quantity:
    try:
        return parse(text)
    except QuantityError as error:
        raise EvictionThresholdError(error.args[0]) from None
