"""Sources that ask in a thread of their own: an answer that hangs holds up no other source."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue

from kubeledger.record.observations import Document, Gap
from kubeledger.record.sources.snapshots import READ_NS, Every


class BackgroundSource(ABC):
    """A source that asks in rounds, one at a time; what a round observes can be polled as it comes.

    Attributes:
        name: as of ``Source``.
    """

    name: str

    def __init__(self) -> None:
        self._due = Every(READ_NS)
        self._thread: threading.Thread | None = None
        self._observed: SimpleQueue[Document | Gap] = SimpleQueue()
        self._error: Exception | None = None

    @abstractmethod
    def _round(self, clock: Callable[[], int]) -> Iterator[Document | Gap]:
        """Ask one question after the other, in the thread; ``clock`` gives the present, UTC."""

    def poll(self, now_ns: int) -> Iterator[Document | Gap]:
        """What was observed; a round begins when one is due and the last one has ended.

        Raises:
            Exception: as the round did.
        """
        is_busy = self._thread is not None and self._thread.is_alive()
        if not is_busy and self._due.due(now_ns):
            ahead_ns = now_ns - time.monotonic_ns()
            self._thread = threading.Thread(
                target=self._run, args=(ahead_ns,), name=self.name, daemon=True
            )
            self._thread.start()
        while True:
            try:
                yield self._observed.get_nowait()
            except Empty:
                break
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _run(self, ahead_ns: int) -> None:
        try:
            for each in self._round(lambda: time.monotonic_ns() + ahead_ns):
                self._observed.put(each)
        except Exception as error:  # raised where the observations are taken
            self._error = error

    def wait(self, timeout_s: float) -> None:
        """Wait for the end of the round, but not longer; then all of it can be polled."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    def close(self) -> None:  # noqa: B027 # most have nothing to close
        """As ``Source.close``; a round that is under way ends by itself."""
