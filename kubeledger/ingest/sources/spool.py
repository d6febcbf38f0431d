"""The temporary directory that archives are unpacked into."""

from __future__ import annotations

import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from kubeledger.model.errors import BadInputError

__all__ = ["spool_directory"]


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
