"""One writer at a time. The operating system drops the lock of a process that dies."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from kubeledger.ledger.regular import read_regular
from kubeledger.ledger.storage import new_file, storage_errors
from kubeledger.model.errors import LedgerBusyError

__all__ = ["writer_lock"]

_LOCK = "writer.lock"
_HOLDER_BYTES_MAX = 64
_HOLDER = "writer.pid"  # apart from the lock: on some systems a locked file cannot be read


@contextmanager
def writer_lock(directory: Path) -> Iterator[None]:
    """Hold the ledger's writer lock; the files stay, only the lock on them counts.

    Raises:
        LedgerBusyError: another process, or another writer in this one, holds it.
        LedgerUnavailableError: the lock file cannot be made.
    """
    lock = FileLock(directory / _LOCK, timeout=0, is_singleton=False)
    with storage_errors("lock the ledger", directory / _LOCK):
        try:
            lock.acquire()
        except Timeout:
            raise LedgerBusyError(
                f"another writer is at work on this ledger ({_holder(directory)})",
                advice="wait until it is done; reading is possible meanwhile",
                file=str(directory),
            ) from None
    try:
        holder = directory / _HOLDER
        with storage_errors("write the ledger", holder), new_file(holder, durable=False) as file:
            file.write(b"%d\n" % os.getpid())
        yield
    finally:
        try:
            with suppress(OSError):  # only a courtesy to the next one who finds the lock taken
                (directory / _HOLDER).unlink(missing_ok=True)
        finally:  # an interrupt, too, must not leave the lock to a process that goes on
            lock.release()


def _holder(directory: Path) -> str:
    try:
        return f"process {int(read_regular(directory / _HOLDER, _HOLDER_BYTES_MAX))}"
    except (OSError, ValueError):
        return "its process is not known"
