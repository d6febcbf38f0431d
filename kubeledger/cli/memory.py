"""What this process takes: a bound beside DuckDB's own, and freed memory given back at once."""

from __future__ import annotations

import ctypes
import resource
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Final

from kubeledger.model.errors import BadQuestionError
from kubeledger.model.units import parse_size

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
