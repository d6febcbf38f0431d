"""Small JSON documents with a CRC over themselves as their last key: manifest and base."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar
from zlib import crc32

import msgspec

from kubeledger.ledger.regular import read_regular
from kubeledger.ledger.storage import write_atomically

T = TypeVar("T")

_CRC_KEY = b',\n  "crc": "'
_CRC_PART = b'%08x"\n}\n'


def save_sealed(path: Path, document: msgspec.Struct) -> None:
    """Write a document atomically.

    Raises:
        OSError: as the operating system says.
    """
    write_atomically(path, sealed(document))


def load_sealed(path: Path, type_: type[T], bytes_max: int) -> T | None:
    """The document of a file; None when there is none, or a damaged one.

    Raises:
        OSError: it is there and cannot be read.
    """
    try:
        return unsealed(read_regular(path, bytes_max), type_)
    except (FileNotFoundError, NotADirectoryError):
        return None


def sealed(document: msgspec.Struct) -> bytes:
    """A document with its CRC."""
    encoded = msgspec.json.encode(document, order="deterministic")
    text = msgspec.json.format(encoded, indent=2).removesuffix(b"\n}")
    return text + _CRC_KEY + _CRC_PART % crc32(text)


def unsealed(data: bytes, type_: type[T]) -> T | None:
    """A document whose CRC fits; None where it does not, or fits to something else."""
    text, key, crc = data.rpartition(_CRC_KEY)
    if not key or crc != _CRC_PART % crc32(text):
        return None
    try:
        return msgspec.json.decode(text + b"}", type=type_)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
