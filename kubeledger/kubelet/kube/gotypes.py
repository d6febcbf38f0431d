"""Go types: values read from JSON as Go reads them, and printed as the kubelet hashes them.

A value of a struct is a dict by the Go names of its fields, a map a dict, a slice a list, a nil
pointer, map or slice None.

Source: Go 1.26 src/encoding/json/decode.go; v1.20.2 pkg/util/hash/hash.go:28 DeepHashObject
Differs: the first fault ends the reading, where Go goes on and fills in the rest; of a key that
    stands twice in an object only the last value is read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, NoReturn, Protocol

from kubeledger.kubelet.kube.gotexts import syntax_error

# Go values as the text that the kubelet hashes, and the hash.
#
# The kubelet's checksums are FNV-1a over what the spew library prints for a struct with
# ``%#v``, sorted map keys and methods disabled. Types stand in parentheses before the
# value of a struct's field and nowhere deeper; a nil list or map is ``<nil>``. A value is
# given here as its finished text, so a caller writes down the struct as Go declares it.
#
# Source: v1.20.2 pkg/util/hash/hash.go:28 DeepHashObject

NIL = "<nil>"

_FNV_OFFSET = 0x811C9DC5
_FNV_PRIME = 0x01000193
_UINT32 = 0xFFFFFFFF


@lru_cache(maxsize=256)
def fnv1a32(text: str) -> int:
    """FNV-1a, 32 bits, of the UTF-8 bytes; what is not valid text hashes as U+FFFD, as in Go."""
    data = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace").encode()
    digest, prime = _FNV_OFFSET, _FNV_PRIME
    by_four = len(data) & ~3
    # An exclusive or changes the low byte alone, so that four bytes are cut to 32 bits at once.
    for a, b, c, d in zip(*(data[at:by_four:4] for at in range(4)), strict=True):
        digest = ((((((((digest ^ a) * prime) ^ b) * prime) ^ c) * prime) ^ d) * prime) & _UINT32
    for byte in data[by_four:]:
        digest = ((digest ^ byte) * prime) & _UINT32
    return digest


def typed(type_name: str, value: str) -> str:
    """A value that shows its type: the outermost one, or the field of a struct."""
    return f"({type_name}){value}"


def struct(fields: Mapping[str, str]) -> str:
    """The fields of a struct in the order of its declaration."""
    return "{" + " ".join(f"{name}:{value}" for name, value in fields.items()) + "}"


def plain_list(items: Iterable[str] | None) -> str:
    """A slice in its own order; None is a nil slice."""
    return NIL if items is None else f"[{' '.join(items)}]"


def byte_list(data: bytes | None) -> str:
    """A ``[]byte``: decimal numbers; None is a nil slice."""
    return plain_list(None if data is None else map(str, data))


def plain_map(entries: Mapping[str, str] | Mapping[int, str] | None) -> str:
    """A map with its keys sorted, numbers by value and strings by bytes; None is a nil map."""
    if entries is None:
        return NIL
    ordered = sorted(entries.items(), key=_key_order)
    return "map[" + " ".join(f"{key}:{value}" for key, value in ordered) + "]"


def _key_order(entry: tuple[str | int, str]) -> tuple[int, bytes]:
    key = entry[0]
    if isinstance(key, int):
        return key, b""
    return 0, key.encode("utf-8", "surrogatepass")


_INT64: Final = (-(2**63), 2**63 - 1)
_UINT64: Final = (0, 2**64 - 1)


class UnmarshalError(ValueError):
    """A text that Go's ``json.Unmarshal`` does not read into a type; the text is Go's."""


class _TypeError(Exception):
    """A value of another type; fields are added from the inmost outwards."""

    def __init__(self, value: str, go_type: str) -> None:
        super().__init__()
        self.value = value
        self.go_type = go_type
        self.struct = ""
        self.fields: list[str] = []


class _Number(str):
    """A number with a fraction or an exponent, as written."""

    __slots__ = ()


class GoType(Protocol):
    """A type.

    Attributes:
        zero: its value before anything is read.
        is_nilable: whether ``null`` sets it to nil; of other types it leaves the value.
    """

    name: str
    zero: Any
    is_nilable: bool

    def read(self, data: Any) -> Any:  # noqa: ANN401  # decoded JSON, a value of the type
        """The value of decoded JSON that is not null."""

    def text(self, value: Any) -> str:  # noqa: ANN401  # a value of the type
        """The value as spew prints it inside of another."""


class Integer:
    """An integer of a width; ``name`` as ``uint64``."""

    is_nilable = False
    zero = 0

    def __init__(self, name: str, bounds: tuple[int, int]) -> None:
        self.name = name
        self._low, self._high = bounds

    def read(self, data: Any) -> int:  # noqa: ANN401
        """An integer within the bounds."""
        if type(data) is int and self._low <= data <= self._high:
            return data
        return _refuse(data, self.name, f" {data}" if type(data) in (int, float, _Number) else "")

    def text(self, value: int) -> str:
        return str(value)


class String:
    """A string, or a type made of it."""

    is_nilable = False
    zero = ""

    def __init__(self, name: str = "string") -> None:
        self.name = name

    def read(self, data: Any) -> str:  # noqa: ANN401
        if type(data) is str:
            return data
        return _refuse(data, self.name)

    def text(self, value: str) -> str:
        return value


class Slice:
    """A slice; nil until it is read."""

    is_nilable = True
    zero = None

    def __init__(self, of: GoType) -> None:
        self.name = f"[]{of.name}"
        self._of = of

    def read(self, data: Any) -> list[Any]:  # noqa: ANN401
        if type(data) is not list:
            _refuse(data, self.name)
        of = self._of
        return [of.zero if item is None else of.read(item) for item in data]

    def text(self, value: list[Any] | None) -> str:
        """In its order."""
        return plain_list(None if value is None else map(self._of.text, value))


class Map:
    """A map by strings or integers; nil until it is read."""

    is_nilable = True
    zero = None

    def __init__(self, key: GoType, of: GoType, name: str = "") -> None:
        self.name = name or f"map[{key.name}]{of.name}"
        self._key, self._of = key, of

    def read(self, data: Any) -> dict[Any, Any]:  # noqa: ANN401
        """Values by key."""
        if type(data) is not dict:
            _refuse(data, self.name)
        key, of = self._key, self._of
        return {
            _key_of(name, key): of.zero if value is None else of.read(value)
            for name, value in data.items()
        }

    def text(self, value: dict[Any, Any] | None) -> str:
        if value is None:
            return plain_map(None)
        text = self._of.text
        return plain_map({key: text(item) for key, item in value.items()})


class Pointer:
    """A pointer; nil until it is read."""

    is_nilable = True
    zero = None

    def __init__(self, to: GoType) -> None:
        self.name = f"*{to.name}"
        self._to = to

    def read(self, data: Any) -> Any:  # noqa: ANN401
        return self._to.read(data)

    def text(self, value: Any) -> str:  # noqa: ANN401
        """What it points to, marked."""
        return "<nil>" if value is None else f"<*>{self._to.text(value)}"


class Struct:
    """A struct.

    Args:
        name: with its package.
        fields: Go name -> key in JSON, type; in the order of the declaration.
        made: fields that a new value has besides zero: empty maps.
    """

    is_nilable = False

    def __init__(
        self,
        name: str,
        fields: Mapping[str, tuple[str, GoType]],
        made: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self._fields = {field: of for field, (_, of) in fields.items()}
        self._by_key = {key: (field, of) for field, (key, of) in fields.items()}
        self.zero = {field: of.zero for field, of in self._fields.items()} | dict(made or {})

    def read(self, data: Any) -> dict[str, Any]:  # noqa: ANN401
        """Values by field; keys that no field has are passed over."""
        if type(data) is not dict:
            _refuse(data, self.name)
        value = self.zero.copy()
        by_key = self._by_key
        key = ""
        try:
            for key, item in data.items():
                found = by_key.get(key) or self._folded(key)
                if found is None:
                    continue
                field, of = found
                if item is not None:
                    value[field] = of.read(item)
                elif of.is_nilable:
                    value[field] = None
        except _TypeError as error:
            error.struct = error.struct or self.name.rpartition(".")[2]
            error.fields.insert(0, key if key in by_key else self._json_key(key))
            raise
        return value

    def text(self, value: dict[str, Any]) -> str:
        """Its fields with their types."""
        return struct(
            {field: typed(of.name, of.text(value[field])) for field, of in self._fields.items()}
        )

    def _folded(self, key: str) -> tuple[str, GoType] | None:
        return self._by_key.get(self._json_key(key))

    def _json_key(self, key: str) -> str:
        folded = key.casefold()
        return next((known for known in self._by_key if known.casefold() == folded), key)


INT: Final = Integer("int", _INT64)
UINT64: Final = Integer("uint64", _UINT64)
STRING: Final = String()
CHECKSUM: Final = Integer("checksum.Checksum", _UINT64)


def unmarshal(text: str | bytes, into: Struct | Map) -> dict[str, Any]:
    """``json.Unmarshal`` of a text into a new value of a struct, or a map.

    Raises:
        UnmarshalError: the text is not JSON, or a part of it is of another type.
    """
    return decoded(decode(text), into)


def decode(text: str | bytes) -> Any:  # noqa: ANN401  # decoded JSON
    """Values of any type, to be read into one or several by :func:`decoded`.

    Bytes that are no UTF-8 are replaced, as Go does.

    Raises:
        UnmarshalError: the text is not JSON.
    """
    readable = text.decode(errors="replace") if isinstance(text, bytes) else text
    try:
        return json.loads(readable, parse_float=_Number, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise UnmarshalError(syntax_error(text) or "the text is nested too deeply") from None


def decoded(data: Any, into: Struct | Map) -> dict[str, Any]:  # noqa: ANN401  # decoded JSON
    """A new value of a struct, or a map, from JSON that is decoded already.

    Raises:
        UnmarshalError: a part of it is of another type.
    """
    try:
        return dict(into.zero or ()) if data is None else into.read(data)
    except _TypeError as error:
        where = f"value of type {error.go_type}"
        if error.fields:
            path = ".".join((error.struct, *error.fields))
            where = f"struct field {path} of type {error.go_type}"
        raise UnmarshalError(f"json: cannot unmarshal {error.value} into Go {where}") from None


def checksum(value: dict[str, Any], of: Struct, name: str = "") -> int:
    """``checksum.New`` of a pointer to a struct, its own checksum left out.

    Args:
        name: what it is called instead, where an older kubelet's name is hashed.
    """
    cleared = value | {"Checksum": 0}
    return fnv1a32(typed(f"*{name or of.name}", of.text(cleared)))


def _key_of(name: str, key: GoType) -> Any:  # noqa: ANN401  # a string or an integer
    if key.zero == "":
        return name
    digits = name[1:] if name[:1] in ("+", "-") else name
    if not (digits.isascii() and digits.isdecimal()):
        raise _TypeError(f"number {name}", key.name)
    try:
        return key.read(int(name))
    except _TypeError:
        raise _TypeError(f"number {name}", key.name) from None


def _refuse(data: Any, name: str, number: str = "") -> NoReturn:  # noqa: ANN401
    kinds = {dict: "object", list: "array", str: "string", bool: "bool"}
    raise _TypeError(kinds.get(type(data), f"number{number}"), name)


def _refuse_constant(_: str) -> NoReturn:
    raise ValueError
