"""A directory for a task or a run, gone afterwards; what a killed one left the next removes."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PREFIX = "kubeledger-task-"
_LOCK = ".lock"


@contextmanager
def scratch_directory(parent: str | None) -> Iterator[Path]:
    """An empty directory.

    The operating system drops the lock beside it when the process dies, however that happens.

    Args:
        parent: where to make it; None: the default for temporary files.

    Raises:
        OSError: it cannot be made.
    """
    above = Path(parent or tempfile.gettempdir())
    above.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(above)
    descriptor, lock = tempfile.mkstemp(_LOCK, _PREFIX, above)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        directory = Path(lock.removesuffix(_LOCK))
        directory.mkdir(0o700)
        try:
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)
    finally:
        Path(lock).unlink(missing_ok=True)
        os.close(descriptor)


def _remove_abandoned(above: Path) -> None:
    for lock in above.glob(f"{_PREFIX}*{_LOCK}"):
        with suppress(OSError):  # another user's, or another process was faster
            descriptor = os.open(lock, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.with_name(lock.name.removesuffix(_LOCK)), ignore_errors=True)
                lock.unlink(missing_ok=True)
            finally:
                os.close(descriptor)
