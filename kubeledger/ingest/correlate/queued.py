"""Assemblers whose facts leave through one queue, before and after each line they get."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kubeledger.ingest.correlate.assembler import (
    Assembler,
    StructuredHandler,
)
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.holdback import Holdback
from kubeledger.ingest.sources.facts import Facts
from kubeledger.ingest.sources.items import LogLine

__all__ = ["LineMethod", "QueuedAssembler", "nothing"]

LineMethod = Callable[[LogLine], None]


class QueuedAssembler(Assembler):
    """Base of assemblers whose methods return nothing and put their facts into a queue.

    Attributes:
        queue: what is due in it leaves with every line.
    """

    def __init__(self, context: BundleContext, queue: Holdback) -> None:
        super().__init__(context)
        self.queue = queue

    def before(self, line: LogLine) -> None:
        """Called with each line before what is due leaves; for what runs out with time."""

    def waiting_since(self) -> int | None:
        """Time of the oldest fact that is held back; None when nothing is."""
        return self.queue.waiting_since()

    def then_release(self, methods: Mapping[str, LineMethod]) -> dict[str, StructuredHandler]:
        """Handlers that call a method and hand out what is due around it."""
        return {message: self._structured(method) for message, method in methods.items()}

    def _structured(self, method: LineMethod) -> StructuredHandler:
        def handle(line: LogLine) -> Facts:
            self.before(line)
            due = self.queue.release(line.ts_ns)
            method(line)
            return [*due, *self.queue.release(line.ts_ns)]

        return handle


def nothing(line: LogLine) -> None:
    """A line that only moves the time on."""
