"""What a command asks of its process: signals, its numbers served, a bound for its memory."""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeVar

import click

from kubeledger.model.errors import BadQuestionError
from kubeledger.model.units import parse_size

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


_BYTES_MAX: Final = 1 << 50
"""More than any machine has."""

_BESIDE_BYTES: Final = 512 << 20
"""For the interpreter's, the libraries' and the threads' own."""
_LEAST_BYTES: Final = 128 << 20
"""Of that, what a query must find in any case: stacks of DuckDB's threads."""


_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
_LARGE_BYTES: Final = 256 << 10


def give_back_freed() -> None:
    """Large blocks go back to the system when they are freed, as long as the process runs.

    glibc raises both of these thresholds by itself as it sees large blocks freed, and then keeps
    up to 64 MiB: a process that runs for weeks would stay as large as it was once. And it gives
    each thread a heap of its own, which keeps what the thread has freed.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have none
    if mallopt is not None:
        for threshold in (_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD):
            mallopt(threshold, _LARGE_BYTES)
        mallopt(_M_ARENA_MAX, 1)


def size_of_memory(text: str) -> int:
    """Bytes of ``--memory``.

    Raises:
        BadQuestionError: it is not a size, none at all, or more than there can be.
    """
    try:
        size = parse_size(text)
    except ValueError:
        size = 0
    if not 0 < size <= _BYTES_MAX:
        raise BadQuestionError(
            f"{text!r} is not a size of memory", advice="write --memory as 500MB or 2GiB"
        )
    return size


@contextmanager
def bounded(memory_bytes: int | None, base_bytes: int | None = None) -> Iterator[None]:
    """Let the process grow by twice that memory and a bit meanwhile, and by no more.

    A single call of a function inside a query may take memory that DuckDB does not count; it
    ends with DuckDB's error for a lack of memory then.

    Args:
        memory_bytes: positive; None is no bound.
        base_bytes: what it grows from; None: all that it has now.
    """
    before = resource.getrlimit(resource.RLIMIT_DATA)
    if memory_bytes is not None:
        base = _data_bytes() if base_bytes is None else base_bytes
        limits = [limit for limit in before if limit != resource.RLIM_INFINITY]
        _limit(min([base + 2 * memory_bytes + _BESIDE_BYTES, *limits]), before[1])
    try:
        yield
    finally:
        _limit(*before)


class SharedBound:
    """A bound for queries of several threads: it holds while one of them is at work.

    What queries have freed, allocators keep for the next ones: as addresses without memory, which
    the system counts as the process's data all the same. So the process grows from what it had at
    first, or has in memory, and not by as much again after each query; yet each query finds its
    memory, for what is kept may not be in pieces that it can use.
    """

    def __init__(self, memory_bytes: int, lingering: Callable[[], int]) -> None:
        """Nothing is bounded yet.

        Args:
            memory_bytes: as of :func:`bounded`, for all of them together.
            lingering: how many queries continue that were given up.
        """
        self._memory_bytes = memory_bytes
        self._first_bytes = 0
        self._lingering = lingering
        self._lock = Lock()
        self._under_way = 0
        self._bound = ExitStack()
        self._is_bound = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """Bound the process for the while; the last query that really ends lifts it."""
        with self._lock:
            self._under_way += 1
            if not self._is_bound:
                self._bound.enter_context(bounded(self._memory_bytes, self._base_bytes()))
                self._is_bound = True
        try:
            yield
        finally:
            with self._lock:
                self._under_way -= 1
                if not self._under_way and not self._lingering():
                    self._bound.close()
                    self._is_bound = False

    def _base_bytes(self) -> int:
        data = _data_bytes()
        self._first_bytes = self._first_bytes or data
        least = data - self._memory_bytes - _BESIDE_BYTES + _LEAST_BYTES
        return max(self._first_bytes, _resident_bytes(), least)


def _limit(soft: int, hard: int) -> None:
    with suppress(ValueError, OSError):  # the system knows no such limit
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _data_bytes() -> int:
    """What the process has of its own, where the system reports it: stacks, heaps, mappings."""
    return _pages()[5] * resource.getpagesize()


def _resident_bytes() -> int:
    """What of that is in memory."""
    _, resident, shared, *_ = _pages()
    return (resident - shared) * resource.getpagesize()


def _pages() -> list[int]:
    with suppress(OSError):
        return [int(each) for each in Path("/proc/self/statm").read_text().split()]
    return [0] * 7
