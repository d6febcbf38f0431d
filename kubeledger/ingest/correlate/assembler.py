"""How assemblers are written and what they may know.

An assembler covers one subsystem. It is fed the entries and items it asks for in the order of
their time, keeps what it needs between them, and puts facts into a queue, from which they leave
when they are settled. It declares

* ``messages``: message -> method, in the words of the newest kubelets: ``ingest/messages`` says
  which other lines show the same;
* ``takes``: type of item -> method.

Those of pods, containers and probes share one queue, so their facts leave in one order. What an
assembler needs of another one it takes as an argument:
``ingest/assemblers.py`` makes them all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.entry import Entry
from kubeledger.ingest.correlate.holdback import Holdback
from kubeledger.ingest.klog.router import LineHandler
from kubeledger.ingest.sources.facts import Facts
from kubeledger.ingest.sources.items import Item, LogLine

__all__ = ["Assembler", "ItemHandler", "Method", "nothing"]

Method = Callable[[Entry], Facts | None]
"""Reads an entry. Facts that it returns leave at once, after those of the queue."""
ItemHandler = Callable[[Item], Facts]


def nothing(entry: Entry) -> None:
    """An entry that only moves the time on."""


class Assembler:
    """Base of all assemblers; one instance a bundle.

    Attributes:
        context: what a first look over the whole bundle found.
        queue: where facts wait until they are settled.
    """

    def __init__(self, context: BundleContext, queue: Holdback | None = None) -> None:
        self.context = context
        self.queue = Holdback() if queue is None else queue

    # -- what an assembler declares --------------------------------------------------------

    def messages(self) -> Mapping[str, Method]:
        """Message -> method."""
        return {}

    def takes(self) -> Mapping[type, Callable[[Any], None]]:
        """Item type (not LogLine) -> method."""
        return {}

    def before(self, ts_ns: int, pid: int | None = None) -> None:
        """Called before each method; for what runs out with time, or ends with a process.

        ``pid``: of the process that writes the line; None when that is not known.
        """

    def after(self, ts_ns: int) -> None:
        """Called after each method of an entry, before what is due leaves."""

    def end(self, ts_ns: int) -> None:
        """Settles what only the end of the bundle settles; ``ts_ns`` is its last time."""

    # -- what the pipeline calls -----------------------------------------------------------

    def structured(self) -> dict[str, LineHandler]:
        """Message -> handler."""
        return {message: self._of_line(method) for message, method in self.messages().items()}

    def items(self) -> dict[type, ItemHandler]:
        """Item type -> handler."""
        return {kind: self._of_item(method) for kind, method in self.takes().items()}

    def goes_on(self, line: LogLine) -> Facts:
        """Another kubelet process, whose begin no log holds, is running by this line."""
        return ()

    def waiting_since(self) -> int | None:
        """Time of the oldest fact that is held back; None when nothing is."""
        return self.queue.waiting_since()

    def pass_time(self, now_ns: int) -> Facts:
        """What is due at ``now_ns`` though nothing came."""
        self.before(now_ns)
        return self.queue.release(now_ns)

    def finish(self, ts_ns: int) -> Facts:
        """All facts that still wait; ``ts_ns`` is the bundle's last time."""
        self.end(ts_ns)
        return self.queue.drain()

    def _of_line(self, method: Method) -> LineHandler:
        def handle(line: LogLine) -> Facts:
            ts_ns = line.ts_ns
            self.before(ts_ns, line.pid)
            facts = method(Entry(line))
            self.after(ts_ns)
            due = self.queue.release(ts_ns)
            return [*due, *facts] if facts else due

        return handle

    def _of_item(self, method: Callable[[Any], None]) -> ItemHandler:
        def handle(item: Item) -> Facts:
            self.before(item.ts_ns)
            method(item)
            return self.queue.release(item.ts_ns)

        return handle
