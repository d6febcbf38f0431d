"""Temporary files: the directory that archives are unpacked into, contents without a name."""

from __future__ import annotations

import mmap
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO

from kubeledger.model.errors import BadInputError


@contextmanager
def spool_directory() -> Iterator[Path]:
    """An empty directory that is gone afterwards, also when SIGTERM ends the process.

    Raises:
        BadInputError: there is no place for it.
    """
    try:
        directory = tempfile.TemporaryDirectory(prefix="kubeledger-import-")
    except OSError as error:
        raise BadInputError(
            f"no temporary directory can be made: {error.strerror or error}",
            advice="TMPDIR names the directory for it; it needs room",
        ) from None
    with directory, _terminated_by_exit():
        yield Path(directory.name)


def mapped(file: IO[bytes]) -> mmap.mmap | bytes:
    """The bytes of a temporary file, which stay when it is closed and has no name any more."""
    file.flush()
    size = os.fstat(file.fileno()).st_size
    return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""


def forget_pages(data: mmap.mmap | bytes) -> None:
    """Give back the memory in which pages of a mapped file were read."""
    if isinstance(data, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        data.madvise(mmap.MADV_DONTNEED)


@contextmanager
def _terminated_by_exit() -> Iterator[None]:
    """Let SIGTERM unwind the stack, unless the program around has its own handler."""
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    ):
        yield
        return
    signal.signal(signal.SIGTERM, _exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _exit(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)
