"""How assemblers are written and what they may know.

An assembler covers one subsystem. It is fed the items it asks for in the order of
their time, keeps what it needs between them, and emits facts whose times never go back
(except where the log's own clock does). It lists the messages that it wants, in the words of
the newest kubelets: ``ingest/messages`` says which other lines tell the same.

A method may return None or no facts: the line still counts as understood.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.klog.router import LineHandler as StructuredHandler
from kubeledger.ingest.sources.facts import Facts
from kubeledger.ingest.sources.items import Item, LogLine

__all__ = ["Assembler", "ItemHandler", "StructuredHandler"]

ItemHandler = Callable[[Item], Facts | None]


class Assembler:
    """Base of all assemblers; one instance a bundle.

    Attributes:
        context: what a first look over the whole bundle found.
    """

    def __init__(self, context: BundleContext) -> None:
        self.context = context

    def structured(self) -> Mapping[str, StructuredHandler]:
        """Message -> method."""
        return {}

    def items(self) -> Mapping[type, ItemHandler]:
        """Item type (not LogLine) -> method."""
        return {}

    def goes_on(self, line: LogLine) -> Facts:
        """Another kubelet process, whose begin no log holds, is running by this line."""
        return ()

    def waiting_since(self) -> int | None:
        """Time of the oldest fact that is held back; None when nothing is."""
        return None

    def finish(self, ts_ns: int) -> Facts:
        """Facts that only the end of the bundle settles; ``ts_ns`` is its last time."""
        return ()
