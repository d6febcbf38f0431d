"""Small JSON documents with a CRC over themselves as their last key: manifest and base."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import msgspec

from kubeledger.ledger.storage import write_atomically

__all__ = ["save_sealed", "sealed", "unsealed"]

_CRC_KEY = b',\n  "crc": "'
_CRC_PART = b'%08x"\n}\n'


def save_sealed(path: Path, document: msgspec.Struct) -> None:
    """Write a document atomically.

    Raises:
        OSError: as the operating system says.
    """
    write_atomically(path, sealed(document))


def sealed(document: msgspec.Struct) -> bytes:
    """A document with its CRC."""
    encoded = msgspec.json.encode(document, order="deterministic")
    text = msgspec.json.format(encoded, indent=2).removesuffix(b"\n}")
    return text + _CRC_KEY + _CRC_PART % crc32(text)


def unsealed(data: bytes) -> bytes | None:
    """The document's JSON without its CRC; None where that does not fit."""
    text, key, crc = data.rpartition(_CRC_KEY)
    if not key or crc != _CRC_PART % crc32(text):
        return None
    return text + b"}"
