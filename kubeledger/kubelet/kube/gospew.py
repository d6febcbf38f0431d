"""Go values as the text that the kubelet hashes, and the hash.

The kubelet's checksums are FNV-1a over what the spew library prints for a struct with
``%#v``, sorted map keys and methods disabled. Types stand in parentheses before the
value of a struct's field and nowhere deeper; a nil list or map is ``<nil>``. A value is
given here as its finished text, so a caller writes down the struct as Go declares it.

Source: v1.20.2 pkg/util/hash/hash.go:28 DeepHashObject
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

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
