"""Whether a body can be read back: the check before anything is written.

Types are hints to Python: a body made from foreign JSON may hold anything. The sure way to
know is to decode what was encoded. For bodies of plain fields only (texts, numbers, words
of a fixed choice) the types of the values tell as much, so what was decoded once with the
same types is not decoded again.
"""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from kubeledger.machine import Body
from kubeledger.wire.catalogue import BODY_TYPES
from kubeledger.wire.instants import YEARS, is_storable

__all__ = ["NOT_JSON", "body_flaw", "flaw_of_encoded"]

NOT_JSON = (UnicodeEncodeError, TypeError, OverflowError, RecursionError, msgspec.MsgspecError)
"""What encoding a value that JSON cannot hold raises."""

_INT_MIN, _INT_MAX = -(1 << 63), (1 << 63) - 1
_values_of = msgspec.structs.astuple
_encode = msgspec.json.Encoder(order="deterministic").encode


class _Check:
    """What is checked of one kind; fields are named by their place in the body.

    Attributes:
        names: of all fields.
        times: fields that hold nanoseconds since the epoch.
        numbers: fields that hold integers, at any depth; free-form JSON is not among them.
        choices: fields and their words; None: the types do not tell enough.
        sound: types of all fields, as they were decoded before.
    """

    __slots__ = ("choices", "decode", "names", "numbers", "sound", "times")

    def __init__(self, body: type[Body]) -> None:
        hints = get_type_hints(body)
        names = self.names = body.__struct_fields__
        self.decode = msgspec.json.Decoder(body).decode
        self.times = tuple(n for n, name in enumerate(names) if name.endswith("ts_ns"))
        self.numbers = tuple(n for n, name in enumerate(names) if _holds_numbers(hints[name]))
        self.choices = _choices([hints[name] for name in names])
        self.sound: set[tuple[type, ...]] = set()


def _holds_numbers(hint: Any) -> bool:  # noqa: ANN401 - any type hint
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return any(_holds_numbers(inner) for inner in get_type_hints(hint).values())
    return hint is int or any(_holds_numbers(part) for part in get_args(hint))


def _fits(value: object) -> bool:
    """Integers as wide as the ledger's readers have them."""
    if type(value) is int:
        return _INT_MIN <= value <= _INT_MAX
    if isinstance(value, tuple):
        return all(map(_fits, value))
    if isinstance(value, dict):
        return all(map(_fits, value.values()))
    return not isinstance(value, msgspec.Struct) or _fits(msgspec.structs.astuple(value))


def _choices(hints: list[Any]) -> tuple[tuple[int, frozenset[object]], ...] | None:
    choices: list[tuple[int, frozenset[object]]] = []
    for place, hint in enumerate(hints):
        parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        words = [part for part in parts if get_origin(part) is Literal]
        if not {part for part in parts if part not in words} <= {str, int, bool, NoneType}:
            return None
        if words:
            known = {word for part in words for word in get_args(part)}
            choices.append((place, frozenset(known | ({None} if NoneType in parts else set()))))
    return tuple(choices)


_CHECKS = {kind: _Check(body) for kind, body in BODY_TYPES.items()}


def body_flaw(body: Body) -> str | None:
    """Why a body could not be read back from a ledger; None when it could."""
    try:
        return flaw_of_encoded(body, _encode(body))
    except NOT_JSON as error:
        return f"{body.kind} cannot be written as JSON: {error}"


def flaw_of_encoded(body: Body, encoded: bytes) -> str | None:
    """The same of a body whose JSON this is."""
    check = _CHECKS.get(body.kind)
    if check is None:
        return f"unknown kind {body.kind!r}"
    values = _values_of(body)
    types = tuple(map(type, values))
    if not _is_known(check, types, values):
        try:
            check.decode(encoded)
        except (msgspec.MsgspecError, RecursionError) as error:
            return f"{body.kind} could not be read back: {error}"
        if check.choices is not None:
            check.sound.add(types)
    for place in check.numbers:
        value = values[place]
        if not (_INT_MIN <= value <= _INT_MAX if type(value) is int else _fits(value)):
            name = check.names[place]
            return f"{body.kind} could not be shown: {name} does not fit into 64 bits"
    for place in check.times:
        ts_ns = values[place]
        if ts_ns is not None and not is_storable(ts_ns):
            name = check.names[place]
            return f"{body.kind} could not be shown: {name} is not in the years {YEARS}"
    return None


def _is_known(check: _Check, types: tuple[type, ...], values: tuple[Any, ...]) -> bool:
    # Types first: where they are known, a word is a text or None, so it can be looked up.
    if check.choices is None or types not in check.sound:
        return False
    for place, words in check.choices:  # noqa: SIM110 - a generator would cost more than the rest
        if values[place] not in words:
            return False
    return True
