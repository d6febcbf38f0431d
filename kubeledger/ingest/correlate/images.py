"""From lines of the image and eviction managers, and disk statistics, to image GC records."""

from __future__ import annotations

import re
from contextlib import suppress
from itertools import product
from typing import Literal, cast

from kubeledger.ingest.correlate.assembler import Assembler, reads, reads_events, takes
from kubeledger.ingest.correlate.entry import Entry
from kubeledger.ingest.correlate.holdback import Holdback, Waiting, shown
from kubeledger.ingest.correlate.image_passes import DetectPasses
from kubeledger.ingest.correlate.registers import Registers
from kubeledger.ingest.messages.noise import HEARTBEAT
from kubeledger.ingest.sources.items import Fact, StatsSummary
from kubeledger.ingest.sources.plain import object_of
from kubeledger.kubelet.eviction.signals import RESOURCE_OF
from kubeledger.kubelet.kube.quantity import QuantityError, value_of
from kubeledger.kubelet.lifecycle.disputes import Dispute
from kubeledger.model.bodies.images import (
    EvictionSignalObserved,
    GarbageCollected,
    GarbageCollectionStarted,
    ImageDeleted,
    ImageFsObserved,
)
from kubeledger.model.patterns import regex
from kubeledger.model.record import Evidence
from kubeledger.model.units import NS_PER_S, integer

# Image GC runs: a start over the threshold, deletions, an end.
#
# The manager logs a removal before it asks the runtime, and the end of a run that succeeds
# only at a high verbosity. So a deletion waits for the next sign that it went well, and a run
# that freed what it wanted is over when no end follows for a while. A run that freed less
# always ends with an error line; without one the log was cut and the run stays open.

_FIRST_LOOK = "observations"
"""What a round of the eviction manager begins with."""
_ACTED_ON = "thresholds - updated stats"
"""The thresholds that are left when a round decides what to reclaim."""
_BY_AGE = "Evaluating image ID for possible garbage collection based on image age"

_EVENT_REASONS = ("FreeDiskSpaceFailed", "ImageGCFailed", "InvalidDiskCapacity")

_REMOVAL_NS = 60 * NS_PER_S
_EVENT_NS = NS_PER_S // 2
_MAX_EVENTS = 16
_FREED = regex(r"but freed (\d+) bytes|\(freed (\d+) bytes\)|but only found (\d+) bytes eligible")
_USAGE = regex(r"image filesystem \((\d+)% of ")
_WANTED = regex(r"[Ww]anted to free (\d+) bytes|Attempted to free (\d+) bytes")
_AMOUNT = regex(r"\d+")
_OF_START = ("usage_percent", "high_threshold_percent", "low_threshold_percent", "bytes_to_free")
"""What the end of a run repeats of its start."""
_BEFORE_A_RUN = ("invalid capacity", "failed to get image", "imageFs information")

_Pass = Literal["space", "age", "all"]
_Outcome = Literal["below_threshold", "freed", "failed"]


class _Removal(Waiting[ImageDeleted]):
    """A removal that the manager logged."""

    def __init__(self, fact: Fact, text: str) -> None:
        super().__init__(fact, _REMOVAL_NS)
        self.text = text


class GcRuns:
    """Handlers of the lines of garbage collections and of unused image deletions."""

    def __init__(self, registers: Registers, queue: Holdback, passes: DetectPasses) -> None:
        self._removed = registers.removed_images
        self._context = registers.context
        self._queue = queue
        self._passes = passes
        self._start: Fact | None = None
        self._removals: list[_Removal] = []
        self._unused = self._ended_before = self._evaluates = False
        self._aged: str | None = None
        self._presumed: Waiting[GarbageCollected] | None = None
        self._last_end: Waiting[GarbageCollected] | None = None
        self._events: list[tuple[int, str, Evidence]] = []
        self._pid: int | None = None
        self._reclaimed: str | None = None
        self._signals: dict[str, set[str]] = {}

    def follow(self, pid: int | None) -> None:
        """Another process writes: what the one before had begun has no end."""
        if pid is not None and pid != self._pid:
            if self._pid is not None:
                self._forget()
                self._ended_before = True
                self._evaluates = False
            self._pid = pid

    @reads(
        "Disk usage on image filesystem is over the high threshold, trying to free bytes down to"
        " the low threshold"
    )
    def _started(self, entry: Entry) -> None:
        self._passes.end()
        names = ("usage", "highThreshold", "lowThreshold", "amountToFree")
        amounts = dict(zip(_OF_START, map(entry.number, names), strict=True))
        if None in amounts.values():
            raise ValueError("an amount is not a number, or one that no kubelet has")
        self._settle_removals()
        if self._start is not None:
            # The run before ended unheard; its deletions are not of this one.
            self._forget()
        self._unused = False
        body = GarbageCollectionStarted(**cast(dict[str, int], amounts))
        self._start = self._queue.add(shown(entry, body))

    @reads("Eviction manager: threshold observed resource")
    def _threshold_met(self, entry: Entry) -> None:
        """The eviction manager finds a signal of a resource under its threshold."""
        resource = RESOURCE_OF.get(entry.text("signal"))
        if resource and entry.text("log") == _ACTED_ON:
            self._signals.setdefault(resource, set()).add(entry.text("signal"))

    @reads("Eviction manager: attempting to reclaim")
    def _reclaiming(self, entry: Entry) -> None:
        self._deleted_unused()
        self._reclaimed = entry.get("resourceName")

    @reads("Eviction manager:")
    def _signal(self, entry: Entry) -> None:
        """A round of the eviction manager begins with all signals; it observes them again later."""
        log = entry.text("log")
        if log == _FIRST_LOOK:
            self._reclaimed = None
            self._signals.clear()
        if "reclaim" in log:
            self._deleted_unused()
        # The first structured lines, of 1.21 to 1.24, hold the amount under the wrong key.
        signal, *amounts = (entry.text(key) for key in ("signal", "available", "capacity"))
        with suppress(QuantityError):
            available, capacity = map(value_of, amounts)
            body = EvictionSignalObserved(signal=signal, available=available, capacity=capacity)
            self._queue.add(shown(entry, body))

    @reads("Attempting to delete unused images")
    def _deleting_unused(self, entry: Entry) -> None:
        self._settle_removals()
        self._unused = True

    @reads(
        "Eviction manager: able to reduce resource pressure without evicting pods.",
        "Eviction manager: failed to get summary stats after resource reclaim",
        "Eviction manager: must evict pod(s) to reclaim",
        "Eviction manager: synchronize housekeeping",
        "Eviction manager: unexpected error when attempting to reduce resource pressure",
    )
    def _goes_on(self, entry: Entry) -> None:
        self._deleted_unused()

    def _deleted_unused(self) -> None:
        if self._unused:
            self._settle_removals()
            self._removals = self._of_run()
            self._unused = False

    @reads("Evaluating image ID for possible garbage collection", _BY_AGE)
    def _evaluating(self, entry: Entry) -> None:
        """An image is considered, so the removal before it is over."""
        self._passes.end()
        self._settle_removals()
        self._evaluates = True
        self._aged = entry.text("imageID") if entry.message == _BY_AGE else None

    @reads("Removing image to free bytes")
    def _removing(self, entry: Entry) -> None:
        image_id, handler = entry.text("imageID"), entry.get("runtimeHandler")
        if handler and self._passes.keyed_by_handler:
            image_id = f"{image_id},{handler}"
        self._passes.end()
        self._settle_removals()
        if any(r.body.image_id == image_id and r.text == entry.line.text for r in self._removals):
            return  # one line, twice in the log
        of_pass = self._pass_of(image_id)
        self._aged = None
        reclaimed = self._reclaimed if of_pass == "all" else None
        body = ImageDeleted(
            image_id=image_id,
            size_bytes=entry.number("size"),
            pass_=of_pass,
            reclaimed=reclaimed,
            signals=tuple(sorted(self._signals.get(reclaimed or "", ()))),
        )
        fact = shown(entry, body, cause=self._start if of_pass == "space" else None)
        self._removed.append(fact)
        self._removals.append(self._queue.put(_Removal(fact, entry.line.text)))
        if of_pass == "space":
            self._presume(entry.ts_ns)

    @reads("Failed to remove image")
    def _removal_failed(self, entry: Entry) -> None:
        image_id = entry.get("imageID")
        for removal in reversed(self._removals):
            if removal.body.image_id.split(",", 1)[0] == image_id and removal.is_open:
                removal.drop()
                self._removals.remove(removal)
                self._drop_presumed()
                return

    @reads("Image garbage collection succeeded")
    def _succeeded(self, entry: Entry) -> None:
        freed = self._start is not None or self._of_run()
        self._end(entry, "freed" if freed else "below_threshold", "")

    @reads("Image garbage collection failed multiple times in a row")
    def _failed(self, entry: Entry) -> None:
        self._end(entry, "failed", entry.text("err"))

    @reads_events(*_EVENT_REASONS)
    def _event(self, entry: Entry) -> None:
        """An API event about a run: it may be logged before or after the run's own end."""
        if entry.values.get("kind") != "Node":
            return
        message, end = entry.text("message"), self._last_end
        if end is not None and end.is_open and _is_about(end.body, message):
            end.join(entry.evidence)
            self._compare(end, message, entry.evidence)
        else:
            self._events = [*self._events[-_MAX_EVENTS:], (entry.ts_ns, message, entry.evidence)]

    def _pass_of(self, image_id: str) -> _Pass | None:
        if self._aged == image_id:
            return "age"
        if self._unused:
            return "all"
        if self._start is not None:
            return "space"
        profile = self._context.profile
        has_age_pass = profile is not None and profile.images.age_pass
        # Where considered images are logged, a line that shows so was lost.
        by_age = self._ended_before and has_age_pass and not self._evaluates
        return "age" if by_age else None

    def _of_run(self) -> list[_Removal]:
        return [removal for removal in self._removals if removal.body.pass_ != "all"]

    def _settle_removals(self) -> None:
        for removal in self._removals:
            removal.settle()

    def _freed(self) -> int | None:
        """The sum of the run's deletions; None when a size is not known."""
        sizes = [removal.body.size_bytes for removal in self._of_run()]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    def _presume(self, ts_ns: int) -> None:
        """A run that has freed what it wanted ends by itself."""
        self._drop_presumed()
        if self._start is None or not isinstance(self._start.body, GarbageCollectionStarted):
            return
        space = [r.body.size_bytes or 0 for r in self._removals if r.body.pass_ == "space"]
        if space and sum(space) >= self._start.body.bytes_to_free:
            evidence = (*self._start.evidence, *self._removals[-1].fact.evidence)
            fact = Fact(ts_ns, self._body("freed", ""), evidence, self._start)
            self._presumed = self._queue.hold(fact, _REMOVAL_NS)

    def _drop_presumed(self) -> None:
        if self._presumed is not None:
            self._presumed.drop()
            self._presumed = None

    def _end(self, entry: Entry, outcome: _Outcome, error: str) -> None:
        self._settle_removals()
        presumed = self._presumed is not None and not self._presumed.is_open
        if presumed and outcome != "failed":
            # The end of a run that had been assumed to be over.
            self._forget()
            return
        if presumed or (self._start is not None and not self._is_of_run(entry, error)):
            # The run that had begun ended unheard; this is the end of another.
            self._forget()
        self._drop_presumed()
        seen = self._start.evidence if self._start is not None else ()
        fact = shown(entry, self._body(outcome, error), *seen, cause=self._start)
        self._last_end = self._queue.hold(fact, _EVENT_NS)
        self._last_end.join(*self._events_about(entry.ts_ns, self._last_end))
        self._ended_before = True
        self._forget()

    def _is_of_run(self, entry: Entry, error: str) -> bool:
        """Whether an error can be the end of the run that has begun.

        What the pass over the disk's threshold returns names the bytes that were wanted, or
        the usage; a failure to read the disk comes before a run begins; anything else (the
        runtime did not list its images) follows at once.
        """
        start = self._start
        assert start is not None
        assert isinstance(start.body, GarbageCollectionStarted)
        if error.startswith(_BEFORE_A_RUN):
            return False
        wanted, usage = _number(_WANTED, error), _number(_USAGE, error)
        if wanted is not None:
            return wanted == start.body.bytes_to_free
        if usage is not None:
            return usage == start.body.usage_percent
        removed = [r.due_ns - _REMOVAL_NS for r in self._removals if r.due_ns]
        return entry.ts_ns - max([start.ts_ns, *removed]) <= _REMOVAL_NS

    def _body(self, outcome: _Outcome, error: str) -> GarbageCollected:
        begun = dict.fromkeys(_OF_START)
        begun["usage_percent"] = _number(_USAGE, error)
        if self._start is not None:
            begun = {field: getattr(self._start.body, field) for field in _OF_START}
        return GarbageCollected(
            **begun,
            bytes_freed=self._freed() if outcome == "freed" else _number(_FREED, error),
            images_removed=len(self._of_run()),
            outcome=outcome,
            error=error,
        )

    def _events_about(self, ts_ns: int, end: Waiting[GarbageCollected]) -> list[Evidence]:
        """Events of the log and of the API server about this run."""
        if not end.body.error:
            return []
        found = list[Evidence]()
        for event_ns, message, evidence in self._events:
            if ts_ns - event_ns <= _EVENT_NS and _is_about(end.body, message):
                found.append(evidence)
                self._compare(end, message, evidence)
        self._events = []
        for reason, namespace in product(_EVENT_REASONS, ("default", "")):
            key = ("Node", namespace, self._context.node, reason, end.body.error)
            event = self._context.events.get(key)
            if event is not None and (
                event.first_ts_ns - _EVENT_NS <= ts_ns <= event.last_ts_ns + _EVENT_NS
            ):
                found.extend(event.evidence)
        return found

    def _compare(self, end: Waiting[GarbageCollected], message: str, evidence: Evidence) -> None:
        """The event is sent with the error that the run returns."""
        amounts = zip(*map(_AMOUNT.findall, (end.body.error, message)), strict=False)
        if any(one != other for one, other in amounts):
            why = "an event has other amounts than the error of its image collection"
            dispute = Dispute("node", why, message, end.body.error)
            self._queue.add(Fact(end.fact.ts_ns, dispute.in_file(evidence.file), (evidence,)))

    def _forget(self) -> None:
        """Nothing is left of the run."""
        self._start = None
        self._presumed = None
        self._aged = None
        self._removals = [r for r in self._removals if r.body.pass_ == "all" and self._unused]


def _is_about(end: GarbageCollected, message: str) -> bool:
    """The event has the error's words; some versions mangle what follows a percent sign."""
    words = {_AMOUNT.sub("", text).split("%", 1)[0] for text in (end.error, message)}
    return bool(end.error) and len(words) == 1


def _number(pattern: re.Pattern[str], text: str) -> int | None:
    match = pattern.search(text)
    return None if match is None else int(next(group for group in match.groups() if group))


class ImageAssembler(Assembler):
    """Detect passes, garbage collections, the image filesystem and eviction signals."""

    part_kinds = DetectPasses, GcRuns

    def __init__(self, registers: Registers) -> None:
        super().__init__(registers)
        self._passes = DetectPasses(self.queue)
        self._runs = GcRuns(registers, self.queue, self._passes)
        self.parts = (self._passes, self._runs)
        self._image_fs: ImageFsObserved | None = None

    def before(self, ts_ns: int, pid: int | None = None) -> None:
        """What runs out with time, or ends with a process."""
        self._passes.expire(ts_ns)
        self._runs.follow(pid)

    def end(self, ts_ns: int) -> None:
        """The last pass is complete."""
        self._passes.end()

    @reads(*HEARTBEAT)
    def _beat(self, entry: Entry) -> None:
        """It shows which process writes."""

    @reads("Availability is larger than capacity")
    def _availability(self, entry: Entry) -> None:
        capacity, available = entry.number("capacity"), entry.number("available")
        body = ImageFsObserved(capacity_bytes=capacity, available_bytes=available, source="log")
        self.queue.add(shown(entry, body))

    @takes(StatsSummary)
    def _stats(self, item: StatsSummary) -> None:
        node = object_of(item.data.get("node"))
        stats = object_of(object_of(node.get("runtime")).get("imageFs"))
        body = ImageFsObserved(
            capacity_bytes=integer(stats.get("capacityBytes")),
            available_bytes=integer(stats.get("availableBytes")),
            used_bytes=integer(stats.get("usedBytes")),
        )
        known = body.capacity_bytes is not None or body.available_bytes is not None
        if known and body != self._image_fs:
            self._image_fs = body
            self.queue.add(shown(item, body))
