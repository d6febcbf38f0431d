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

_encode = msgspec.json.Encoder(order="deterministic").encode


class _Check:
    """What is checked of one kind.

    Attributes:
        times: fields that hold nanoseconds since the epoch.
        numbers: fields that hold integers, at any depth; free-form JSON is not among them.
        choices: field -> its words; None: the types do not tell enough.
        sound: types of all fields, as they were decoded before.
    """

    __slots__ = ("choices", "decode", "numbers", "sound", "times")

    def __init__(self, body: type[Body]) -> None:
        hints = get_type_hints(body)
        names = body.__struct_fields__
        self.decode = msgspec.json.Decoder(body).decode
        self.times = tuple(name for name in names if name.endswith("ts_ns"))
        self.numbers = tuple(name for name in names if _holds_numbers(hints[name]))
        self.choices = _choices({name: hints[name] for name in names})
        self.sound: set[tuple[type, ...]] = set()


def _holds_numbers(hint: Any) -> bool:  # noqa: ANN401 - any type hint
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return any(_holds_numbers(inner) for inner in get_type_hints(hint).values())
    return hint is int or any(_holds_numbers(part) for part in get_args(hint))


def _fits(value: object) -> bool:
    """Integers as wide as the ledger's readers have them."""
    if type(value) is int:
        return -(1 << 63) <= value < 1 << 63
    if isinstance(value, tuple):
        return all(map(_fits, value))
    if isinstance(value, dict):
        return all(map(_fits, value.values()))
    return not isinstance(value, msgspec.Struct) or _fits(msgspec.structs.astuple(value))


def _choices(hints: dict[str, Any]) -> tuple[tuple[str, frozenset[object]], ...] | None:
    choices: list[tuple[str, frozenset[object]]] = []
    for name, hint in hints.items():
        parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        words = [part for part in parts if get_origin(part) is Literal]
        if not {part for part in parts if part not in words} <= {str, int, bool, NoneType}:
            return None
        if words:
            known = {word for part in words for word in get_args(part)}
            choices.append((name, frozenset(known | ({None} if NoneType in parts else set()))))
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
    if not _is_known(body, check):
        try:
            check.decode(encoded)
        except (msgspec.MsgspecError, RecursionError) as error:
            return f"{body.kind} could not be read back: {error}"
        if check.choices is not None:
            check.sound.add(tuple(map(type, msgspec.structs.astuple(body))))
    for name in check.numbers:
        if not _fits(getattr(body, name)):
            return f"{body.kind} could not be shown: {name} does not fit into 64 bits"
    for name in check.times:
        ts_ns = getattr(body, name)
        if ts_ns is not None and not is_storable(ts_ns):
            return f"{body.kind} could not be shown: {name} is not in the years {YEARS}"
    return None


def _is_known(body: Body, check: _Check) -> bool:
    if check.choices is None:
        return False
    for name, words in check.choices:
        word = getattr(body, name)
        if type(word) not in (str, NoneType) or word not in words:
            return False
    return tuple(map(type, msgspec.structs.astuple(body))) in check.sound
