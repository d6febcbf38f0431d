"""What commands share that go on until they are asked to stop: their signals and their numbers."""

from __future__ import annotations

import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from kubeledger.record.metrics import Metrics

_F = TypeVar("_F", bound=Callable[..., object])


def metrics_option(words: str = "Serve /metrics, /healthz, /readyz.") -> Callable[[_F], _F]:
    """``--metrics-address``, passed as ``metrics_address: str | None``; for :func:`served`."""
    return click.option("--metrics-address", metavar="HOST:PORT", help=words)


@contextmanager
def served(address: str | None) -> Iterator[Metrics]:
    """The numbers of this process, served at an address if there is one.

    Raises:
        BadQuestionError: no such address, or it is in use.
    """
    from kubeledger.record.metrics import Metrics

    metrics = Metrics()
    if address is None:
        yield metrics
        return
    from kubeledger.record.metrics_server import MetricsServer

    with closing(MetricsServer(address, metrics)) as server:
        if server.address != address:  # port 0 is any free one
            click.echo(f"metrics are served at {server.address}", err=True)
        yield metrics


@contextmanager
def until_stopped(end_s: float | None = None) -> Iterator[Waits]:
    """SIGTERM and SIGINT end the command at the next wait, not before.

    Args:
        end_s: the process ends so long after SIGTERM, wherever it is, with exit code 0; None: it
            takes its time.

    Raises:
        KeyboardInterrupt: a second SIGINT came; at once.
    """
    waits = Waits(end_s)
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

    Python hears a signal when its main thread has time; the system writes it to the socket at once,
    from where whoever ends the process in time hears of it, also while a disk is waited for.

    Attributes:
        write_fd: wakes it up.
        stopped: whether it was asked to.
        interrupted: whether by SIGINT: somebody waits for the end.
    """

    def __init__(self, end_s: float | None = None) -> None:
        self._read, self._write = socket.socketpair()
        self._write.setblocking(False)
        self.write_fd = self._write.fileno()
        self.stopped = self.interrupted = False
        if end_s is not None:
            threading.Thread(target=self._end_after, args=(end_s,), daemon=True).start()

    def _end_after(self, end_s: float) -> None:
        """End the process so long after SIGTERM."""
        with suppress(OSError):  # closed before
            if signal.SIGTERM in self._read.recv(1, socket.MSG_PEEK):
                time.sleep(end_s)
                os._exit(0)

    def __call__(self, seconds: float) -> bool:
        """Wait, at most until a signal comes; whether to go on."""
        if not self.stopped:
            select.select([self._read], [], [], seconds)
        return not self.stopped

    def stop(self, signum: int, _frame: object) -> None:
        """A signal came."""
        self.stopped = True
        if signum == signal.SIGINT:
            if self.interrupted:
                raise KeyboardInterrupt
            self.interrupted = True

    def close(self) -> None:
        self._write.close()
        self._read.close()
