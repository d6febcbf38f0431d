"""Parts of the kubelet's checkpoint files: decoded JSON checked for its types."""

from __future__ import annotations

from typing import Any


class MalformedCheckpointError(ValueError):
    """The decoded JSON is no checkpoint of a form that any kubelet wrote."""


def checksum_of(value: object) -> int:
    """A stored checksum.

    Raises:
        MalformedCheckpointError: as all functions here, where the value has another type.
    """
    return unsigned_of(value, "the checksum")


def unsigned_of(value: object, what: str) -> int:
    """An unsigned integer of 64 bits."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**64:
        raise MalformedCheckpointError(f"{what} is not an unsigned integer")
    return value


def object_of(value: object, what: str) -> dict[str, Any]:
    """A JSON object."""
    if not isinstance(value, dict):
        raise MalformedCheckpointError(f"{what} is not a JSON object")
    return value


def optional_object(value: object, what: str) -> dict[str, Any] | None:
    """A JSON object or null."""
    return None if value is None else object_of(value, what)


def optional_list(value: object, what: str) -> list[Any] | None:
    """A list or null."""
    if value is not None and not isinstance(value, list):
        raise MalformedCheckpointError(f"{what} is not a list")
    return value


def strings_of(value: object, what: str) -> list[str] | None:
    """A list of strings, or null."""
    items = optional_list(value, what)
    return None if items is None else [string_of(item, what) for item in items]


def string_of(value: object, what: str) -> str:
    """A string."""
    if not isinstance(value, str):
        raise MalformedCheckpointError(f"{what} is not a string")
    return value
