"""Which rules a node was imported and verified under."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from kubeledger import __version__

ROOMS = ("ingest", "kubelet", "ledger", "model", "replay", "verify")
"""Rooms of kubeledger on which records and verdicts depend."""

_PACKAGE = Path(__file__).parent.parent
_SUFFIXES = (".py", ".txt")
_DIGEST_BYTES = 6


def rules_version() -> str:
    """Version of the rules by which this program imports and verifies.

    Returns:
        kubeledger's version and a digest of the source files that decide, ``0.1.0+1f0c93a5b2d7``:
        it changes with every change of them, also between releases, and with no other.
    """
    return f"{__version__}+{digest_of_code(ROOMS)}"


@cache
def digest_of_code(places: tuple[str, ...]) -> str:
    """Digest of packages and modules of kubeledger, ``verify`` or ``fleet/tables``: 12 digits."""
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for name in places:
        place = _PACKAGE / name
        files = place.rglob("*") if place.is_dir() else [place.with_suffix(".py")]
        for file in sorted(file for file in files if file.suffix in _SUFFIXES):
            digest.update(file.relative_to(_PACKAGE).as_posix().encode() + b"\0")
            digest.update(file.read_bytes() + b"\0")
    return digest.hexdigest()
