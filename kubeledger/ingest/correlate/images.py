"""From lines of the image and eviction managers, and disk statistics, to image GC records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from kubeledger.ingest.correlate.assembler import Assembler, Method, nothing
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.entry import Entry
from kubeledger.ingest.correlate.image_passes import DetectPasses
from kubeledger.ingest.correlate.image_runs import EVENT_REASONS, GcRuns
from kubeledger.ingest.klog.line_values import integer
from kubeledger.ingest.messages.heartbeat import HEARTBEAT
from kubeledger.ingest.sources.facts import Fact
from kubeledger.ingest.sources.items import StatsSummary
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
_GOES_ON = (
    "Eviction manager: able to reduce resource pressure without evicting pods.",
    "Eviction manager: failed to get summary stats after resource reclaim",
    "Eviction manager: must evict pod(s) to reclaim",
    "Eviction manager: synchronize housekeeping",
    "Eviction manager: unexpected error when attempting to reduce resource pressure",
)
"""What follows when the eviction manager has had unused images deleted."""


class ImageAssembler(Assembler):
    """Detect passes, garbage collections, the image filesystem and eviction signals."""

    def __init__(self, context: BundleContext) -> None:
        super().__init__(context)
        self._passes = DetectPasses(self.queue)
        self._runs = GcRuns(context, self.queue)
        self._image_fs: ImageFsObserved | None = None
        self._keyed_by_handler = False

    @property
    def removed(self) -> list[Fact]:
        """Removals of images so far."""
        return self._runs.removed

    def messages(self) -> Mapping[str, Method]:
        """Message -> method for structured lines."""
        passes, runs = self._passes, self._runs
        over = "Disk usage on image filesystem is over the high threshold, trying to free bytes "
        return {
            **dict.fromkeys(HEARTBEAT, nothing),
            "Adding image ID to currentImages": passes.listed,
            "Adding image ID with runtime class to currentImages": self._listed_by_handler,
            "Image ID is new": passes.is_new,
            "Setting Image ID lastUsed": passes.used,
            "Image ID has size": passes.has_size,
            "Image ID is pinned": passes.is_pinned,
            "Image ID is no longer present, removing from imageRecords": passes.dropped,
            f"{over}down to the low threshold": self._started,
            "Removing image to free bytes": self._removing,
            "Image garbage collection succeeded": runs.succeeded,
            "Image garbage collection failed multiple times in a row": runs.failed,
            "Attempting to delete unused images": runs.deleting_unused,
            "Evaluating image ID for possible garbage collection based on image age": (
                partial(self._evaluating, by_age=True)
            ),
            "Evaluating image ID for possible garbage collection": self._evaluating,
            **dict.fromkeys(_GOES_ON, self._goes_on),
            "Failed to remove image": runs.removal_failed,
            "Availability is larger than capacity": self._availability,
            "Eviction manager:": self._signal,
            "Eviction manager: attempting to reclaim": runs.reclaiming,
            "Eviction manager: threshold observed resource": self._threshold,
            "Event occurred": self._event,
        }

    def takes(self) -> Mapping[type, Callable[[Any], None]]:
        """The summary."""
        return {StatsSummary: self._stats}

    def before(self, ts_ns: int, pid: int | None = None) -> None:
        """What runs out with time, or ends with a process."""
        self._passes.expire(ts_ns)
        self._runs.follow(pid)

    def end(self, ts_ns: int) -> None:
        """The last pass is complete."""
        self._passes.end()

    def _listed_by_handler(self, entry: Entry) -> None:
        self._keyed_by_handler = True
        self._passes.listed(entry)

    def _started(self, entry: Entry) -> None:
        self._passes.end()
        names = ("usage", "highThreshold", "lowThreshold", "amountToFree")
        usage, high, low, amount = (entry.number(name) for name in names)
        if usage is None or high is None or low is None or amount is None:
            raise ValueError("an amount is no number, or one that no kubelet has")
        body = GarbageCollectionStarted(
            usage_percent=usage,
            high_threshold_percent=high,
            low_threshold_percent=low,
            bytes_to_free=amount,
        )
        self._runs.started(entry, body)

    def _removing(self, entry: Entry) -> None:
        image_id, handler = entry.get("imageID"), entry.get("runtimeHandler")
        self._passes.end()
        if image_id:
            key = f"{image_id},{handler}" if handler and self._keyed_by_handler else image_id
            self._runs.removing(entry, key, entry.number("size"))

    def _evaluating(self, entry: Entry, *, by_age: bool = False) -> None:
        self._passes.end()
        self._runs.evaluating(entry.text("imageID"), by_age=by_age)

    def _goes_on(self, entry: Entry) -> None:
        self._runs.deleted_unused()

    def _event(self, entry: Entry) -> None:
        if entry.values.get("kind") == "Node" and entry.values.get("reason") in EVENT_REASONS:
            self._runs.event(entry)

    def _threshold(self, entry: Entry) -> None:
        resource = RESOURCE_OF.get(entry.text("signal"))
        if resource and entry.text("log") == _ACTED_ON:
            self._runs.threshold_met(resource, entry.text("signal"))

    def _signal(self, entry: Entry) -> None:
        log = entry.text("log")
        if log == _FIRST_LOOK:
            self._runs.round_begins()
        if "reclaim" in log:
            self._runs.deleted_unused()
        signal = entry.get("signal")
        # The first structured lines, of 1.21 to 1.24, hold the amount under the wrong key.
        available, capacity = entry.get("available"), entry.get("capacity")
        if not (signal and available and capacity):
            return
        try:
            amounts = value_of(available), value_of(capacity)
        except QuantityError:
            return
        body = EvictionSignalObserved(signal=signal, available=amounts[0], capacity=amounts[1])
        self.queue.add(Fact(entry.ts_ns, body, (entry.evidence,)))

    def _availability(self, entry: Entry) -> None:
        capacity, available = entry.number("capacity"), entry.number("available")
        body = ImageFsObserved(capacity_bytes=capacity, available_bytes=available, source="log")
        self.queue.add(Fact(entry.ts_ns, body, (entry.evidence,)))

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
            self.queue.add(Fact(item.ts_ns, body, (item.evidence,)))


def _object(value: Any) -> dict[str, Any]:  # noqa: ANN401 - any decoded value
    return value if isinstance(value, dict) else {}
