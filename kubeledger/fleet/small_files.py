"""The small files of a lake: what is in them, and how: JSON with a CRC over itself."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from kubeledger.fleet.layout import LAYOUT
from kubeledger.fleet.types import Compacted, Head
from kubeledger.ledger.sealed_json import sealed, unsealed
from kubeledger.model.errors import DamagedLedgerError

_T = TypeVar("_T")


class LakeFormat(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Content of ``lake.json``."""

    format: str = "kubeledger lake"
    layout: int = LAYOUT


class Marked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a marker says, and the tag of the object in which it was read."""

    tag: str
    head: Head


class Index(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Content of ``index/ID.json``: markers by their paths, so that not each must be read."""

    markers: dict[str, Marked] = {}


class CompactIndex(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Content of ``compact/ID.json``: the compacted files that count."""

    files: tuple[Compacted, ...]


def encoded(value: msgspec.Struct) -> bytes:
    """A value as JSON, the same bytes for the same value."""
    return sealed(value)


def decoded(content: bytes, type_: type[_T], place: str) -> _T:
    """The value of a file.

    Raises:
        DamagedLedgerError: it holds none.
    """
    found = unsealed(content, type_)
    if found is not None:
        return found
    try:
        return msgspec.json.decode(content, type=type_)  # of layout 1, which has no CRC
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        reason = "its CRC does not fit" if b'"crc"' in content else str(error)
        raise DamagedLedgerError(
            f"cannot be read: {reason}",
            advice="it was changed by something else: `kubeledger fleet repair` repairs it",
            file=place,
        ) from error
