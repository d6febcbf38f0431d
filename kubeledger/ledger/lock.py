"""One writer, and one shipper, at a time. The system drops the lock of a process that dies."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from kubeledger.ledger.regular import read_regular
from kubeledger.ledger.storage import OWN_FILE, new_file, storage_errors
from kubeledger.model.errors import LedgerBusyError

_WRITER, _SHIPPER = "writer", "shipper"
_HOLDER_BYTES_MAX = 64

LOCK_FILES = frozenset(f"{who}.{what}" for who in (_WRITER, _SHIPPER) for what in ("lock", "pid"))
"""Names in a ledger's directory that are no part of it. Who holds a lock is in a file apart:
on some systems a locked one cannot be read."""


def writer_lock(directory: Path) -> AbstractContextManager[None]:
    """Hold the ledger's writer lock; the files stay, only the lock on them counts.

    Raises:
        LedgerBusyError: another process, or another writer in this one, holds it.
        LedgerUnavailableError: the lock file cannot be made.
    """
    return _locked(directory, _WRITER, "wait until it is done; reading is possible meanwhile")


def shipper_lock(directory: Path) -> AbstractContextManager[None]:
    """Hold the lock of the process that ships the ledger's segments; as :func:`writer_lock`.

    Raises:
        KubeledgerError: as there.
    """
    return _locked(directory, _SHIPPER, "one is enough: stop the other one first")


@contextmanager
def _locked(directory: Path, who: str, advice: str) -> Iterator[None]:
    from filelock import FileLock, Timeout  # brings asyncio; readers need none

    path = directory / f"{who}.lock"
    lock = FileLock(path, timeout=0, mode=OWN_FILE, is_singleton=False)
    with storage_errors("lock the ledger", path):
        try:
            lock.acquire()
        except Timeout:
            raise LedgerBusyError(
                f"another {who} is at work on this ledger ({_holder(directory, who)})",
                advice=advice,
                file=str(directory),
            ) from None
    try:
        holder = directory / f"{who}.pid"
        with storage_errors("write the ledger", holder), new_file(holder, durable=False) as file:
            file.write(b"%d\n" % os.getpid())
        yield
    finally:
        try:
            with suppress(OSError):  # only a courtesy to the next one who finds the lock taken
                (directory / f"{who}.pid").unlink(missing_ok=True)
        finally:  # an interrupt, too, must not leave the lock to a process that continues
            lock.release()


def _holder(directory: Path, who: str) -> str:
    try:
        return f"process {int(read_regular(directory / f'{who}.pid', _HOLDER_BYTES_MAX))}"
    except (OSError, ValueError):
        return "its process is not known"
