"""The few ways in which the ledger changes a disk, each durable when it returns."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kubeledger.ledger.names import TEMPORARY_SUFFIX
from kubeledger.ledger.regular import NotRegularError
from kubeledger.model.errors import LedgerUnavailableError

__all__ = [
    "OWN_DIRECTORY",
    "OWN_FILE",
    "SHARED_DIRECTORY",
    "WRITE_OWN",
    "NewFile",
    "make_directory",
    "new_file",
    "remove",
    "storage_errors",
    "sync_directory",
    "write_all",
    "write_atomically",
]

WRITE_OWN = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK
"""Opens a ledger's own file for writing: never through a link, never waiting for a pipe."""

OWN_DIRECTORY, OWN_FILE = 0o700, 0o600
"""Whatever the umask: a ledger holds the specs of pods, and what stands in them."""

SHARED_DIRECTORY = 0o777
"""As the umask will have it: of directories above a ledger."""

_NOT_ITS_OWN = "a ledger holds regular files of its own; put a copy in its place"
_ADVICE = {
    errno.ENOSPC: "free some space and run it again",
    errno.EDQUOT: "free some space and run it again",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "give this user write access to the ledger",
    errno.EPERM: "give this user write access to the ledger",
    errno.ELOOP: _NOT_ITS_OWN,
    errno.ENXIO: _NOT_ITS_OWN,
}
_OF_ONE_FILE = frozenset({errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENXIO})
"""What another file beside it may not suffer from, so that it has to be named."""


@contextmanager
def storage_errors(doing: str, path: Path) -> Iterator[None]:
    """Turn an ``OSError`` into one sentence for the user.

    Raises:
        LedgerUnavailableError: the operating system refused.
    """
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        advice, file = _ADVICE.get(error.errno or 0, ""), str(path)
        if error.errno in _OF_ONE_FILE or isinstance(error, NotRegularError):
            file = error.filename if isinstance(error.filename, str) else file
        if isinstance(error, NotRegularError):
            advice = _NOT_ITS_OWN
        elif error.errno in (errno.EACCES, errno.EPERM) and doing.startswith(("read ", "prove ")):
            advice = "give this user read access to it"
        raise LedgerUnavailableError(
            f"cannot {doing}: {reason}", advice=advice, file=file
        ) from error


def write_all(descriptor: int, data: bytes) -> None:
    """``write`` until all is written (one call writes 2 GiB at most, or less on a full disk)."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable: a new file is lost without it."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(directory: Path, mode: int = OWN_DIRECTORY) -> None:
    """Create a directory and its parents, all of that mode, durably; one that is there is fine."""
    if directory.is_dir():
        return
    make_directory(directory.parent, mode)
    directory.mkdir(mode, exist_ok=True)
    sync_directory(directory.parent)


def remove(path: Path) -> None:
    """Remove a file durably; one that is not there is fine."""
    path.unlink(missing_ok=True)
    sync_directory(path.parent)


class NewFile:
    """A file under construction; see :func:`new_file`.

    Attributes:
        size_bytes: written so far.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.size_bytes = 0

    def write(self, data: bytes) -> int:
        """Write all of it; returns how much that is."""
        write_all(self._descriptor, data)
        self.size_bytes += len(data)
        return len(data)


@contextmanager
def new_file(path: Path, *, durable: bool = True) -> Iterator[NewFile]:
    """Make a file, or empty the one that is there; its content is on disk after the context.

    What nobody asks for after a crash need not be ``durable``: then it may be lost.
    Never one that a link leads to: who made a ledger must not choose what its reader overwrites.
    Its name is not: see :func:`sync_directory`.
    """
    descriptor = os.open(path, os.O_CREAT | os.O_TRUNC | WRITE_OWN, OWN_FILE)
    try:
        yield NewFile(descriptor)
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file: after a crash it is whole, the old one or the new one."""
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    try:
        with new_file(temporary) as file:
            file.write(data)
        os.replace(temporary, path)  # noqa: PTH105 - named as the system call it is
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise
    sync_directory(path.parent)
