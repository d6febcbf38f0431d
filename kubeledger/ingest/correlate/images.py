"""From lines of the image and eviction managers, and disk statistics, to image GC records."""

from __future__ import annotations

from typing import Any

from kubeledger.ingest.correlate.assembler import Assembler, Entry, reads, takes
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.holdback import shown
from kubeledger.ingest.correlate.image_passes import DetectPasses
from kubeledger.ingest.correlate.image_runs import GcRuns
from kubeledger.ingest.klog.line_values import integer
from kubeledger.ingest.messages.heartbeat import HEARTBEAT
from kubeledger.ingest.sources.facts import Fact
from kubeledger.ingest.sources.items import StatsSummary
from kubeledger.model.bodies.images import ImageFsObserved


class ImageAssembler(Assembler):
    """Detect passes, garbage collections, the image filesystem and eviction signals."""

    time_passes = HEARTBEAT

    def __init__(self, context: BundleContext) -> None:
        super().__init__(context)
        self._passes = DetectPasses(self.queue)
        self._runs = GcRuns(context, self.queue, self._passes)
        self.parts = (self._passes, self._runs)
        self._image_fs: ImageFsObserved | None = None

    @property
    def removed(self) -> list[Fact]:
        """Removals of images so far."""
        return self._runs.removed

    def before(self, ts_ns: int, pid: int | None = None) -> None:
        """What runs out with time, or ends with a process."""
        self._passes.expire(ts_ns)
        self._runs.follow(pid)

    def end(self, ts_ns: int) -> None:
        """The last pass is complete."""
        self._passes.end()

    @reads("Availability is larger than capacity")
    def _availability(self, entry: Entry) -> None:
        capacity, available = entry.number("capacity"), entry.number("available")
        body = ImageFsObserved(capacity_bytes=capacity, available_bytes=available, source="log")
        self.queue.add(shown(entry, body))

    @takes(StatsSummary)
    def _stats(self, item: StatsSummary) -> None:
        node = _object(item.data.get("node"))
        stats = _object(_object(node.get("runtime")).get("imageFs"))
        body = ImageFsObserved(
            capacity_bytes=integer(stats.get("capacityBytes")),
            available_bytes=integer(stats.get("availableBytes")),
            used_bytes=integer(stats.get("usedBytes")),
        )
        known = body.capacity_bytes is not None or body.available_bytes is not None
        if known and body != self._image_fs:
            self._image_fs = body
            self.queue.add(shown(item, body))


def _object(value: Any) -> dict[str, Any]:  # noqa: ANN401 - any decoded value
    return value if isinstance(value, dict) else {}
