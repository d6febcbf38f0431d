"""Reading protobuf messages (proto3) by a table of their fields, as protobuf's JSON has them.

Protobuf's own library and gRPC's take 20 MiB, a third of what a recorder may use; what one kubelet
answers to two questions needs neither.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES = {_FIXED64: 8, _FIXED32: 4}
_VARINT_BITS_MAX = 64
_DEPTH_MAX = 16
_DEFAULTS = {"string": "", "int": "0"}


class Field(NamedTuple):
    """A field of a message.

    Attributes:
        name: as in JSON.
        kind: ``string``, ``int`` (a varint; decimal text in JSON, as 64 bits are), or a message.
    """

    number: int
    name: str
    kind: str
    repeated: bool = False


Messages = Mapping[str, tuple[Field, ...]]
"""By name."""


def decode(messages: Messages, message: str, data: bytes) -> dict[str, Any]:
    """A message as JSON; fields without a value have their default, messages are left out.

    Raises:
        ValueError: the bytes are not such a message.
    """
    return _decode(messages, message, memoryview(data), _DEPTH_MAX)


def _decode(messages: Messages, message: str, data: memoryview, depth: int) -> dict[str, Any]:
    if depth == 0:
        raise ValueError("messages are nested too deep")
    fields = {field.number: field for field in messages[message]}
    found: dict[str, Any] = {
        field.name: [] if field.repeated else _DEFAULTS[field.kind]
        for field in fields.values()
        if field.repeated or field.kind in _DEFAULTS
    }
    for number, value in _values(data):
        field = fields.get(number)
        if field is None:  # of a newer version
            continue
        values = _of_kind(messages, field, value, depth)
        if field.repeated:
            found[field.name] += values
        elif values:
            found[field.name] = values[-1]
    return found


def _of_kind(messages: Messages, field: Field, value: int | memoryview, depth: int) -> list[Any]:
    """The values that one entry holds: numbers may be packed."""
    if field.kind == "int":
        numbers = [value] if isinstance(value, int) else list(_packed(value))
        return [str(each - 2**64 if each >= 2**63 else each) for each in numbers]
    if isinstance(value, int):  # of another type, so of another version
        return []
    if field.kind == "string":
        return [bytes(value).decode("utf-8")]
    return [_decode(messages, field.kind, value, depth - 1)]


def _values(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Number of a field, and a number or bytes; none of ours is of fixed width."""
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        number, form = key >> 3, key & 7
        if form == _VARINT:
            value, position = _varint(data, position)
            yield number, value
        elif form == _BYTES:
            size, position = _varint(data, position)
            if size > len(data) - position:
                raise ValueError("a field ends after its message")
            yield number, data[position : position + size]
            position += size
        elif form in _FIXED_BYTES:
            position += _FIXED_BYTES[form]
        else:
            raise ValueError(f"a field of unknown form {form}")


def _packed(data: memoryview) -> Iterator[int]:
    position = 0
    while position < len(data):
        value, position = _varint(data, position)
        yield value


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, _VARINT_BITS_MAX, 7):
        if position >= len(data):
            raise ValueError("it ends in the middle of a number")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise ValueError("a number has more than 64 bits")
