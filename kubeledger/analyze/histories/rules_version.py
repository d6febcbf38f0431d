"""Which rules gave an answer that is kept: another version of them may give another."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import kubeledger

_ROOMS = ("model", "kubelet", "ledger", "replay", "verify", "analyze")


@cache
def rules_version() -> str:
    """Digest of the version and of the modules that answers rest on, by their sizes and times.

    A change of any of them gives another; so may a copy of the program elsewhere.
    """
    root = Path(kubeledger.__file__).parent
    known = hashlib.blake2b(kubeledger.__version__.encode(), digest_size=12)
    for room in _ROOMS:
        for name, size_bytes, mtime_ns in sorted(_modules(root / room)):
            known.update(f"{room} {name} {size_bytes} {mtime_ns}\n".encode())
    return known.hexdigest()


def _modules(directory: Path) -> Iterator[tuple[str, int, int]]:
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir() and entry.name != "__pycache__":
                yield from _modules(Path(entry.path))
            elif entry.name.endswith(".py"):
                status = entry.stat()
                yield entry.path, status.st_size, status.st_mtime_ns
