"""Commands that go on until they are asked to stop."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Waits", "until_stopped"]


@contextmanager
def until_stopped() -> Iterator[Waits]:
    """SIGTERM and SIGINT end the command at the next wait, not before."""
    waits = Waits()
    former = {each: signal.signal(each, waits.stop) for each in (signal.SIGTERM, signal.SIGINT)}
    former_fd = signal.set_wakeup_fd(waits.write_fd, warn_on_full_buffer=False)
    try:
        yield waits
    finally:
        signal.set_wakeup_fd(former_fd)
        for each, handler in former.items():
            signal.signal(each, handler)
        waits.close()


class Waits:
    """Waits, unless it is asked to stop.

    Attributes:
        write_fd: wakes it up.
    """

    def __init__(self) -> None:
        self._read_fd, self.write_fd = os.pipe()
        os.set_blocking(self.write_fd, False)
        self._stopped = False

    def __call__(self, seconds: float) -> bool:
        """Wait so long, or until a signal comes; whether to go on."""
        if not self._stopped:
            select.select([self._read_fd], [], [], seconds)
        return not self._stopped

    def stop(self, *_: object) -> None:
        """A signal came."""
        self._stopped = True

    def close(self) -> None:
        """Close the pipe."""
        os.close(self._read_fd)
        os.close(self.write_fd)
