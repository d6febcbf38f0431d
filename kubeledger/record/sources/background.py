"""Work in a thread of its own, so that what hangs blocks no other source."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

__all__ = ["Background"]

T = TypeVar("T")


class Background(Generic[T]):
    """Runs one iterator at a time in a thread, and hands over what it gives as it comes."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: threading.Thread | None = None
        self._results: SimpleQueue[T] = SimpleQueue()
        self._error: Exception | None = None

    @property
    def is_busy(self) -> bool:
        """Whether the last iterator has not ended yet."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, work: Iterator[T]) -> None:
        """Run through an iterator; only when none is running."""
        assert not self.is_busy
        self._thread = threading.Thread(
            target=self._run, args=(work,), name=self._name, daemon=True
        )
        self._thread.start()

    def _run(self, work: Iterator[T]) -> None:
        try:
            for result in work:
                self._results.put(result)
        except Exception as error:  # raised where the results are taken
            self._error = error

    def results(self) -> Iterator[T]:
        """What has come since the last time.

        Raises:
            Exception: the iterator's own.
        """
        while True:
            try:
                yield self._results.get_nowait()
            except Empty:
                break
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def wait(self, timeout_s: float) -> None:
        """Wait until it has ended, but not longer."""
        if self._thread is not None:
            self._thread.join(timeout_s)
