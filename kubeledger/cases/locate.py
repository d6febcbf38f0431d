"""Where in a case the value stands that a decider could not use.

Deciders work on amounts and instants and know no paths. When one is refused, the case is
read once more, slowly, to name the field.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from kubeledger.kube.quantity import Quantity, QuantityError
from kubeledger.kube.requests import nanos_of
from kubeledger.units import parse_ts

__all__ = ["field_at_fault"]

_AMOUNTS = frozenset(
    {
        "allocatable",
        "capacity",
        "kubeReserved",
        "limits",
        "overhead",
        "requests",
        "systemReserved",
    }
)
_TIMES = frozenset({"at", "deletionTimestamp", "finishedAt", "kubeletStartedAt", "startedAt"})
_MARK = re.compile(r"quantit|RFC 3339")


def field_at_fault(line: bytes, message: str) -> str:
    """Path of the first amount or time that is none, e.g. ``input.pod.spec…requests.cpu``.

    Args:
        line: the case.
        message: the refusal; only those about quantities and times are looked into.

    Returns:
        the path, or the empty string when the message is about something else, names its
        place itself, or no such value is found.
    """
    if not _MARK.search(message) or "input" in message:
        return ""
    about_times = "RFC 3339" in message
    case = msgspec.json.decode(line)
    for path, name, parent, value in _leaves("input", "", case.get("input")):
        if about_times:
            if name in _TIMES and isinstance(value, str) and not _is_time(value):
                return path
        elif parent in _AMOUNTS and not _is_quantity(value):
            return path
    return ""


def _leaves(path: str, parent: str, node: Any) -> Iterator[tuple[str, str, str, Any]]:  # noqa: ANN401  # any JSON value
    """Path, key, key of the object around it, and value of everything in ``node``."""
    if isinstance(node, dict):
        own = path.rpartition(".")[2]
        for key, value in node.items():
            yield from _leaves(f"{path}.{key}", own, value)
            yield f"{path}.{key}", key, own, value
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from _leaves(f"{path}[{index}]", parent, value)


def _is_quantity(value: object) -> bool:
    try:
        Quantity.from_api(value).milli_value()
        if isinstance(value, str):
            nanos_of(value)  # what sums are reckoned in: an amount may be too fine for it
    except QuantityError:
        return False
    return True


def _is_time(value: str) -> bool:
    try:
        parse_ts(value)
    except ValueError:
        return False
    return True
