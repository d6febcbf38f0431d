"""Times and sizes as a scenario writes them: Go's durations, Kubernetes' quantities."""

from __future__ import annotations

from typing import Annotated, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Tag,
    ValidationInfo,
    WithJsonSchema,
)

from kubeledger.kubelet.kube.quantity import QuantityError
from kubeledger.kubelet.kube.resources import nanos_of, units_of
from kubeledger.kubelet.profile.resolve import resolve
from kubeledger.model.errors import BadQuestionError
from kubeledger.model.units import format_go_duration, parse_go_duration, parse_ts
from kubeledger.simulate.scenario.problems import refuse

T = TypeVar("T")

_INT64_MAX = 2**63 - 1
_DURATION = r"^[+]?([0-9]+(\.[0-9]*)?|\.[0-9]+|0)(ns|us|µs|ms|s|m|h)?"


def _duration(value: object) -> int:
    if value == 0 and not isinstance(value, bool):
        return 0
    if not isinstance(value, str):
        raise ValueError("must be a duration such as 90s, 5m or 1h30m")
    try:
        ns = parse_go_duration(value)
    except ValueError:
        raise ValueError("must be a duration such as 90s, 5m or 1h30m") from None
    if ns < 0:
        raise ValueError("must not be negative")
    if ns > _INT64_MAX:
        raise ValueError("must be shorter than 292 years")
    return ns


def _span(value: object) -> int:
    if (ns := _duration(value)) == 0:
        raise ValueError("must be longer than 0s")
    return ns


def _size(value: object) -> int:
    amount = _size_change(value)
    if amount < 0:
        raise ValueError("must not be negative")
    return amount


def _size_change(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError("must be a quantity such as 512Mi or 100Gi")
    try:
        nanos = nanos_of(value)
    except QuantityError:
        raise ValueError("must be a quantity such as 512Mi or 100Gi") from None
    if abs(nanos) >= _INT64_MAX * 10**9:
        raise ValueError("must be less than 8Ei")
    return units_of(nanos)


def _amount(value: object) -> str:
    is_amount = isinstance(value, str | int | float) and not isinstance(value, bool)
    try:
        is_amount = is_amount and nanos_of(value) >= 0
    except QuantityError:
        is_amount = False
    if not is_amount:
        raise ValueError("must be a quantity such as 250m or 128Mi")
    return str(value)


def _instant(value: object) -> int:
    if not isinstance(value, str):
        raise ValueError("must be a time such as 2026-01-01T00:00:00Z")
    try:
        ns = parse_ts(value)
    except (ValueError, OverflowError):
        raise ValueError("must be a time such as 2026-01-01T00:00:00Z") from None
    if not 0 <= ns < _INT64_MAX // 2:
        raise ValueError("must be between 1970 and 2116")
    return ns


def _in_time(at_ns: int, info: ValidationInfo) -> int:
    end_ns = info.context.end_ns if info.context is not None else None
    if end_ns is not None and at_ns > end_ns:
        is_at, end = format_go_duration(at_ns), format_go_duration(end_ns)
        advice = "choose an earlier time, or a longer `duration`"
        refuse([((), f"is at {is_at}, after the end at {end}", advice)], info)
    return at_ns


def _version(version: str) -> str:
    try:
        resolve(version)
    except BadQuestionError as error:
        refuse([((), error.message, error.advice)])
    return version


def room(message: str, advice: str) -> AfterValidator:
    """A size that must be more than nothing."""

    def check(size_bytes: int, info: ValidationInfo) -> int:
        refuse([] if size_bytes else [((), message, advice)], info)
        return size_bytes

    return AfterValidator(check)


_TEXT_OR_ZERO = {"type": ["string", "integer"]}

Duration = Annotated[
    int,
    BeforeValidator(_duration),
    WithJsonSchema({**_TEXT_OR_ZERO, "pattern": _DURATION, "examples": ["30s", "1h30m"]}),
]
"""Nanoseconds, written in Go's notation; not negative."""

Moment = Annotated[Duration, AfterValidator(_in_time)]
"""Nanoseconds since the start, written as a duration; not after the end of the simulation."""

Span = Annotated[
    int,
    BeforeValidator(_span),
    WithJsonSchema({"type": "string", "pattern": _DURATION, "examples": ["10m", "24h"]}),
]
"""As Duration, but longer than nothing."""

Size = Annotated[
    int, BeforeValidator(_size), WithJsonSchema({**_TEXT_OR_ZERO, "examples": ["512Mi", "100Gi"]})
]
"""Bytes, written as a Kubernetes quantity; not negative."""

Amount = Annotated[
    str,
    BeforeValidator(_amount),
    WithJsonSchema({"type": ["string", "number"], "examples": ["250m", "128Mi"]}),
]
"""A Kubernetes quantity of any resource, as it is written; not negative."""

SizeChange = Annotated[
    int,
    BeforeValidator(_size_change),
    WithJsonSchema({**_TEXT_OR_ZERO, "examples": ["10Gi", "-2Gi"]}),
]
"""Bytes, also fewer than before."""

Instant = Annotated[
    int,
    BeforeValidator(_instant),
    WithJsonSchema({"type": "string", "examples": ["2026-01-01T00:00:00Z"]}),
]
"""Nanoseconds since the epoch, written as RFC 3339."""


Version = Annotated[str, AfterValidator(_version)]
"""A kubelet version of which there is a profile."""


def _count(value: object) -> str:
    return "many" if isinstance(value, list) else "one"


OneOrMore = Annotated[
    Annotated[T, Tag("one")] | Annotated[list[T], Tag("many")], Discriminator(_count)
]
"""A value or a list of such; tagged by form, so that an error is reported once."""
