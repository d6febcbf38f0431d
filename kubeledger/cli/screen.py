"""The terminal, if there is one: how wide it is, its pager, and whether it shows colours."""

from __future__ import annotations

import io
import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    import subprocess

_WIDTH = 80
_WIDTH_MIN = 40


def screen_width() -> int:
    """Columns of the terminal, or $COLUMNS; 80 where neither is known."""
    return max(_WIDTH_MIN, shutil.get_terminal_size((_WIDTH, 24)).columns)


def terminal_width() -> int | None:
    """Columns of the terminal; None where standard output is none, so that nothing is cut."""
    return screen_width() if sys.stdout.isatty() else None


def color_wanted() -> bool | None:
    """False where $NO_COLOR forbids it; None: as the terminal has it."""
    return False if os.environ.get("NO_COLOR") else None


@contextmanager
def paged(*, wanted: bool = True) -> Iterator[None]:
    """Let what is printed on a terminal go through a pager.

    It is $PAGER, else ``less``, which ends at once where all fits the screen; none with $NO_PAGER,
    and it starts when something is printed. Whoever leaves it early wants no more: that is no
    error.
    """
    command = _pager_command() if wanted and sys.stdout.isatty() else None
    if command is None:
        yield
        return
    pager = _Pager(command, sys.stdout)
    try:
        with redirect_stdout(pager), suppress(BrokenPipeError):
            yield
    finally:
        pager.close()


def _pager_command() -> list[str] | None:
    if "NO_PAGER" in os.environ or os.environ.get("TERM") == "dumb":
        return None
    try:
        words = shlex.split(os.environ.get("PAGER", "less"))
    except ValueError:  # a quote that does not end
        return None
    return words if words and words != ["cat"] and shutil.which(words[0]) else None


class _Pager(io.TextIOBase):
    """Standard output that a pager shows."""

    def __init__(self, command: list[str], below: TextIO) -> None:
        self._command = command
        self._below = below
        self._process: subprocess.Popen[str] | None = None

    @property
    def encoding(self) -> str:  # type: ignore[override] # a plain attribute in typeshed
        return "utf-8"

    def isatty(self) -> bool:
        """In the end it is one."""
        return True

    def write(self, text: str) -> int:
        if self._process is None:
            self._below.write("")  # takes progress off the screen
            self._below.flush()
            import subprocess  # most commands need no pager

            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                encoding="utf-8",
                errors="backslashreplace",
                env={"LESS": "FRX", **os.environ},
            )
        assert self._process.stdin is not None
        return self._process.stdin.write(text)

    def flush(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.flush()

    def close(self) -> None:
        """Wait until the user has read it; Ctrl-C is the pager's business meanwhile."""
        process = self._process
        if process is None or process.stdin is None:
            return
        with suppress(BrokenPipeError):
            process.stdin.close()
        while process.poll() is None:
            with suppress(KeyboardInterrupt):
                process.wait()
