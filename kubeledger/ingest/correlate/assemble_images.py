"""From lines of the image and eviction managers, and disk statistics, to image GC records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kubeledger.ingest.correlate.assembler import (
    ItemHandler,
    StructuredHandler,
)
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.holdback import Holdback
from kubeledger.ingest.correlate.image_passes import DetectPasses
from kubeledger.ingest.correlate.image_runs import EVENT_REASONS, GcRuns
from kubeledger.ingest.correlate.queued import (
    LineMethod,
    QueuedAssembler,
    nothing,
)
from kubeledger.ingest.klog.line_values import integer, text_of
from kubeledger.ingest.messages.heartbeat import HEARTBEAT
from kubeledger.ingest.sources.facts import Fact, Facts
from kubeledger.ingest.sources.items import Item, LogLine, StatsSummary
from kubeledger.kubelet.eviction.signals import RESOURCE_OF
from kubeledger.kubelet.kube.quantity import QuantityError, value_of
from kubeledger.model.bodies.images import (
    EvictionSignalObserved,
    GarbageCollectionStarted,
    ImageFsObserved,
)

__all__ = ["ImageAssembler"]

_FIRST_LOOK = "observations"
"""What a round of the eviction manager begins with."""
_ACTED_ON = "thresholds - updated stats"
"""The thresholds that are left when a round decides what to reclaim."""


class ImageAssembler(QueuedAssembler):
    """Detect passes, garbage collections, the image filesystem and eviction signals."""

    def __init__(self, context: BundleContext) -> None:
        super().__init__(context, Holdback())
        self._passes = DetectPasses(self.queue)
        self._runs = GcRuns(context, self.queue)
        self._image_fs: ImageFsObserved | None = None
        self._keyed_by_handler = False

    def structured(self) -> Mapping[str, StructuredHandler]:
        """Message -> method for structured lines."""
        methods: dict[str, LineMethod] = dict.fromkeys(HEARTBEAT, nothing)
        methods |= self._pass_methods()
        methods |= self._run_methods()
        methods |= {
            "Availability is larger than capacity": self._availability,
            "Eviction manager:": self._signal,
            "Eviction manager: attempting to reclaim": (
                lambda line: self._runs.reclaiming(text_of(line, "resourceName"))
            ),
            "Eviction manager: threshold observed resource": self._threshold,
            "Event occurred": self._event,
        }
        return self.then_release(methods)

    def _pass_methods(self) -> dict[str, LineMethod]:
        passes = self._passes
        return {
            "Adding image ID to currentImages": (
                lambda line: passes.listed(line, text_of(line, "imageID") or "")
            ),
            "Adding image ID with runtime class to currentImages": self._listed_by_handler,
            "Image ID is new": lambda line: passes.is_new(line, text_of(line, "imageID") or ""),
            "Setting Image ID lastUsed": (
                lambda line: passes.used(
                    line, text_of(line, "imageID") or "", text_of(line, "lastUsed") or ""
                )
            ),
            "Image ID has size": (
                lambda line: passes.has_size(
                    line, text_of(line, "imageID") or "", integer((line.values or {}).get("size"))
                )
            ),
            "Image ID is pinned": (
                lambda line: passes.is_pinned(
                    line, text_of(line, "imageID") or "", text_of(line, "pinned") == "true"
                )
            ),
            "Image ID is no longer present; removing from imageRecords": passes.dropped,
            "Image ID is no longer present, removing from imageRecords": passes.dropped,
        }

    def _run_methods(self) -> dict[str, LineMethod]:
        methods: dict[str, LineMethod] = {
            "Disk usage on image filesystem is over the high threshold, trying to free bytes "
            "down to the low threshold": self._started,
            "Removing image to free bytes": self._removing,
            "Image garbage collection succeeded": self._runs.succeeded,
            "Attempting to delete unused images": self._runs.deleting_unused,
            "Evaluating image ID for possible garbage collection based on image age": (
                lambda line: self._evaluating(line, by_age=True)
            ),
            "RemoveImage from image service failed": self._removal_failed,
            "Failed to remove image": self._removal_failed,
        }
        for message in (
            "Image garbage collection failed once. Stats initialization may not have completed yet",
            "Image garbage collection failed multiple times in a row",
        ):
            methods[message] = lambda line: self._runs.failed(line, text_of(line, "err") or "")
        for message in (
            "Evaluating image ID for possible garbage collection",
            "Evaluating image ID for possible garbage collection based on disk usage",
            "Image ID is being used",
            "Image ID was used too recently, not eligible for garbage collection",
            "Image ID's age is less than the policy's minAge, not eligible for garbage collection",
            "Image is pinned, skipping garbage collection",
        ):
            methods[message] = self._evaluating
        for message in (
            "Eviction manager: able to reduce resource pressure without evicting pods.",
            "Eviction manager: failed to get summary stats after resource reclaim",
            "Eviction manager: must evict pod(s) to reclaim",
            "Eviction manager: synchronize housekeeping",
            "Eviction manager: unexpected error when attempting to reduce resource pressure",
        ):
            methods[message] = lambda line: self._runs.deleted_unused()
        return methods

    def items(self) -> Mapping[type, ItemHandler]:
        """Item type -> method."""
        return {StatsSummary: self._stats}

    def before(self, line: LogLine) -> None:
        """What runs out with time, before what is due leaves."""
        self._passes.expire(line.ts_ns)
        self._runs.follow(line)

    def finish(self, ts_ns: int) -> Facts:
        """What still waits."""
        self._passes.end()
        return self.queue.drain()

    def _release(self, now_ns: int) -> list[Fact]:
        self._passes.expire(now_ns)
        return self.queue.release(now_ns)

    def _listed_by_handler(self, line: LogLine) -> None:
        self._keyed_by_handler = True
        self._passes.listed(line, text_of(line, "imageKey") or "")

    def _started(self, line: LogLine) -> None:
        values = line.values or {}
        names = ("usage", "highThreshold", "lowThreshold", "amountToFree")
        numbers = [integer(values.get(name)) for name in names]
        self._start(line, numbers)

    def _start(self, line: LogLine, numbers: Sequence[int | None]) -> None:
        self._passes.end()
        usage, high, low, amount = numbers
        if usage is None or high is None or low is None or amount is None:
            raise ValueError("an amount is no number, or one that no kubelet has")
        body = GarbageCollectionStarted(
            usage_percent=usage,
            high_threshold_percent=high,
            low_threshold_percent=low,
            bytes_to_free=amount,
        )
        self._runs.started(line, body)

    def _removing(self, line: LogLine) -> None:
        image_id, handler = text_of(line, "imageID"), text_of(line, "runtimeHandler")
        self._passes.end()
        if image_id:
            key = f"{image_id},{handler}" if handler and self._keyed_by_handler else image_id
            self._runs.removing(line, key, integer((line.values or {}).get("size")))

    def _removal_failed(self, line: LogLine) -> None:
        if image_id := text_of(line, "image", "imageID"):
            self._runs.removal_failed(image_id)

    def _evaluating(self, line: LogLine, *, by_age: bool = False) -> None:
        self._passes.end()
        self._runs.evaluating(text_of(line, "imageID") or "", by_age=by_age)

    def _event(self, line: LogLine) -> None:
        values = line.values or {}
        if values.get("kind") == "Node" and values.get("reason") in EVENT_REASONS:
            self._runs.event(line, text_of(line, "message") or "")

    def _threshold(self, line: LogLine) -> None:
        if text_of(line, "log") == _ACTED_ON:
            self._met(text_of(line, "signal") or "")

    def _met(self, signal: str) -> None:
        if resource := RESOURCE_OF.get(signal):
            self._runs.threshold_met(resource, signal)

    def _signal(self, line: LogLine) -> None:
        if text_of(line, "log") == _FIRST_LOOK:
            self._runs.round_begins()
        if "reclaim" in (text_of(line, "log") or ""):
            self._runs.deleted_unused()
        signal = text_of(line, "signal")
        # The first structured lines, of 1.21 to 1.24, hold the amount under the wrong key.
        available, capacity = text_of(line, "available", "resourceName"), text_of(line, "capacity")
        if signal and available and capacity:
            self._observe_signal(line, signal, available, capacity)

    def _observe_signal(self, line: LogLine, signal: str, available: str, capacity: str) -> None:
        try:
            amounts = value_of(available), value_of(capacity)
        except QuantityError:
            return
        body = EvictionSignalObserved(signal=signal, available=amounts[0], capacity=amounts[1])
        self.queue.add(Fact(line.ts_ns, body, (line.evidence,)))

    def _availability(self, line: LogLine) -> None:
        values = line.values or {}
        self._observe_fs(line, integer(values.get("capacity")), integer(values.get("available")))

    def _observe_fs(self, line: LogLine, capacity: int | None, available: int | None) -> None:
        body = ImageFsObserved(capacity_bytes=capacity, available_bytes=available, source="log")
        self.queue.add(Fact(line.ts_ns, body, (line.evidence,)))

    def _stats(self, item: Item) -> Facts:
        assert isinstance(item, StatsSummary)
        due = self._release(item.ts_ns)
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
            self.queue.add(Fact(item.ts_ns, body, (item.evidence,)))
        return [*due, *self.queue.release(item.ts_ns)]


def _object(value: Any) -> dict[str, Any]:  # noqa: ANN401 - any decoded value
    return value if isinstance(value, dict) else {}
