"""What commands share that go on until they are asked to stop: their signals and their numbers."""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
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

    Attributes:
        write_fd: wakes it up.
        stopped: whether it was asked to.
        interrupted: whether by SIGINT: somebody waits for the end.
    """

    def __init__(self, end_s: float | None = None) -> None:
        self._end_s = end_s
        self._read_fd, self.write_fd = os.pipe()
        os.set_blocking(self.write_fd, False)
        self.stopped = self.interrupted = False

    def __call__(self, seconds: float) -> bool:
        """Wait, at most until a signal comes; whether to go on."""
        if not self.stopped:
            select.select([self._read_fd], [], [], seconds)
        return not self.stopped

    def stop(self, signum: int, _frame: object) -> None:
        """A signal came."""
        if not self.stopped and signum == signal.SIGTERM and self._end_s is not None:
            end = threading.Timer(self._end_s, os._exit, (0,))
            end.daemon = True
            end.start()
        self.stopped = True
        if signum == signal.SIGINT:
            if self.interrupted:
                raise KeyboardInterrupt
            self.interrupted = True

    def close(self) -> None:
        os.close(self._read_fd)
        os.close(self.write_fd)
