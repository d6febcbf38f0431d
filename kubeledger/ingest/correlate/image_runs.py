"""Image GC runs: a start over the threshold, deletions, an end.

The manager logs a removal before it asks the runtime, and the end of a run that succeeds
only at a high verbosity. So a deletion waits for the next sign that it went well, and a run
that freed what it wanted is over when no end follows for a while. A run that freed less
always ends with an error line; without one the log was cut and the run stays open.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.entry import Entry
from kubeledger.ingest.correlate.holdback import Holdback, Waiting
from kubeledger.ingest.sources.facts import Fact
from kubeledger.model.bodies.images import GarbageCollected, GarbageCollectionStarted, ImageDeleted
from kubeledger.model.record import Evidence
from kubeledger.model.units import NS_PER_S

__all__ = ["EVENT_REASONS", "GcRuns"]

EVENT_REASONS = ("FreeDiskSpaceFailed", "ImageGCFailed", "InvalidDiskCapacity")

_REMOVAL_NS = 60 * NS_PER_S
_EVENT_NS = NS_PER_S // 2
_MAX_EVENTS = 16
_FREED = re.compile(
    r"but freed (\d+) bytes|\(freed (\d+) bytes\)|but only found (\d+) bytes eligible"
)
_USAGE = re.compile(r"image filesystem \((\d+)% of ")
_WANTED = re.compile(r"[Ww]anted to free (\d+) bytes|Attempted to free (\d+) bytes")
_OF_START = ("usage_percent", "high_threshold_percent", "low_threshold_percent", "bytes_to_free")
"""What the end of a run repeats of its start."""
_BEFORE_A_RUN = ("invalid capacity", "failed to get image", "imageFs information")

_Pass = Literal["space", "age", "all"]
_Outcome = Literal["below_threshold", "freed", "failed"]


class _Removal(msgspec.Struct):
    """A removal that the manager logged."""

    image_id: str
    size_bytes: int | None
    of_pass: _Pass | None
    waiting: Waiting
    text: str


class GcRuns:
    """Handlers of the lines of garbage collections and of unused image deletions.

    Attributes:
        removed: removals of images so far.
    """

    def __init__(self, context: BundleContext, queue: Holdback) -> None:
        self.removed: list[Fact] = []
        self._context = context
        self._queue = queue
        self._start: Fact | None = None
        self._removals: list[_Removal] = []
        self._unused = False
        self._aged: str | None = None
        self._ended_before = False
        self._evaluates = False
        self._presumed: Waiting | None = None
        self._last_end: Waiting | None = None
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

    def started(self, entry: Entry, body: GarbageCollectionStarted) -> None:
        """The disk is over the high threshold."""
        self._settle_removals()
        if self._start is not None:
            # The run before ended unheard; its deletions are not of this one.
            self._forget()
        self._unused = False
        self._start = self._queue.add(Fact(entry.ts_ns, body, (entry.evidence,)))

    def threshold_met(self, resource: str, signal: str) -> None:
        """The eviction manager finds a signal of a resource under its threshold."""
        self._signals.setdefault(resource, set()).add(signal)

    def reclaiming(self, entry: Entry) -> None:
        """The eviction manager begins to reclaim a resource, on the node first."""
        self.deleted_unused()
        self._reclaimed = entry.get("resourceName")

    def round_begins(self) -> None:
        """The eviction manager reads all signals again."""
        self._reclaimed = None
        self._signals.clear()

    def deleting_unused(self, entry: Entry) -> None:
        """The eviction manager has all unused images deleted."""
        self._settle_removals()
        self._unused = True

    def deleted_unused(self) -> None:
        """The eviction manager continues."""
        if self._unused:
            self._settle_removals()
            self._removals = self._of_run()
            self._unused = False

    def evaluating(self, image_id: str, *, by_age: bool) -> None:
        """An image is considered, so the removal before it is over."""
        self._settle_removals()
        self._evaluates = True
        self._aged = image_id if by_age else None

    def removing(self, entry: Entry, image_id: str, size_bytes: int | None) -> None:
        """The manager asks the runtime to remove an image."""
        self._settle_removals()
        if any(r.image_id == image_id and r.text == entry.line.text for r in self._removals):
            return  # one line, twice in the log
        of_pass = self._pass_of(image_id)
        self._aged = None
        reclaimed = self._reclaimed if of_pass == "all" else None
        body = ImageDeleted(
            image_id=image_id,
            size_bytes=size_bytes,
            pass_=of_pass,
            reclaimed=reclaimed,
            signals=tuple(sorted(self._signals.get(reclaimed or "", ()))),
        )
        cause = self._start if of_pass == "space" else None
        fact = Fact(entry.ts_ns, body, (entry.evidence,), cause)
        waiting = self._queue.hold(fact, _REMOVAL_NS)
        self.removed.append(fact)
        self._removals.append(_Removal(image_id, size_bytes, of_pass, waiting, entry.line.text))
        if of_pass == "space":
            self._presume(entry.ts_ns)

    def removal_failed(self, entry: Entry) -> None:
        """The runtime did not remove it."""
        image_id = entry.get("imageID")
        for removal in reversed(self._removals):
            if removal.image_id.split(",", 1)[0] == image_id and removal.waiting.fact is not None:
                removal.waiting.drop()
                self._removals.remove(removal)
                self._drop_presumed()
                return

    def succeeded(self, entry: Entry) -> None:
        """The run is over, without an error."""
        freed = self._start is not None or self._of_run()
        self._end(entry, "freed" if freed else "below_threshold", "")

    def failed(self, entry: Entry) -> None:
        """The run is over, with an error."""
        self._end(entry, "failed", entry.text("err"))

    def event(self, entry: Entry) -> None:
        """An API event about a run: it may be logged before or after the run's own end."""
        message = entry.text("message")
        end = self._last_end.fact if self._last_end is not None else None
        if end is not None and self._last_end is not None and _same(end, message):
            self._last_end.join(entry.evidence)
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
        return [removal for removal in self._removals if removal.of_pass != "all"]

    def _settle_removals(self) -> None:
        for removal in self._removals:
            removal.waiting.settle()

    def _freed(self) -> int | None:
        """The sum of the run's deletions; None when a size is not known."""
        sizes = [removal.size_bytes for removal in self._of_run()]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    def _presume(self, ts_ns: int) -> None:
        """A run that has freed what it wanted ends by itself."""
        self._drop_presumed()
        if self._start is None or not isinstance(self._start.body, GarbageCollectionStarted):
            return
        space = [r.size_bytes or 0 for r in self._removals if r.of_pass == "space"]
        if space and sum(space) >= self._start.body.bytes_to_free:
            evidence = (*self._start.evidence, *self._last_evidence())
            fact = Fact(ts_ns, self._body("freed", ""), evidence, self._start)
            self._presumed = self._queue.hold(fact, _REMOVAL_NS)

    def _last_evidence(self) -> tuple[Evidence, ...]:
        fact = self._removals[-1].waiting.fact
        return fact.evidence if fact is not None else ()

    def _drop_presumed(self) -> None:
        if self._presumed is not None:
            self._presumed.drop()
            self._presumed = None

    def _end(self, entry: Entry, outcome: _Outcome, error: str) -> None:
        self._settle_removals()
        presumed = self._presumed is not None and self._presumed.fact is None
        if presumed and outcome != "failed":
            # The end of a run that had been assumed to be over.
            self._forget()
            return
        if presumed or (self._start is not None and not self._is_of_run(entry, error)):
            # The run that had begun ended unheard; this is the end of another.
            self._forget()
        self._drop_presumed()
        seen = self._start.evidence if self._start is not None else ()
        evidence = (entry.evidence, *seen)
        fact = Fact(entry.ts_ns, self._body(outcome, error), evidence, self._start)
        self._last_end = self._queue.hold(fact, _EVENT_NS)
        self._last_end.join(*self._events_about(entry.ts_ns, fact, error))
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
        removed = [r.waiting.due_ns - _REMOVAL_NS for r in self._removals if r.waiting.due_ns]
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

    def _events_about(self, ts_ns: int, end: Fact, error: str) -> list[Evidence]:
        if not error:
            return []
        early = [
            evidence
            for event_ns, message, evidence in self._events
            if ts_ns - event_ns <= _EVENT_NS and _same(end, message)
        ]
        self._events = []
        return early + self._api_events(ts_ns, error)

    def _api_events(self, ts_ns: int, error: str) -> list[Evidence]:
        """What the API server kept about this run."""
        found: list[Evidence] = []
        for reason in EVENT_REASONS:
            for namespace in ("default", ""):
                key = ("Node", namespace, self._context.node, reason, error)
                event = self._context.events.get(key)
                if event is not None and (
                    event.first_ts_ns - _EVENT_NS <= ts_ns <= event.last_ts_ns + _EVENT_NS
                ):
                    found.extend(event.evidence)
        return found

    def _forget(self) -> None:
        """Nothing is left of the run."""
        self._start = None
        self._presumed = None
        self._aged = None
        self._removals = [r for r in self._removals if r.of_pass == "all" and self._unused]


def _same(end: Fact, message: str) -> bool:
    """The event shows the run's error; some versions mangle what follows a percent sign."""
    body = end.body
    if not isinstance(body, GarbageCollected) or not body.error:
        return False
    return body.error == message or message.startswith(body.error.split("%", 1)[0] + "%")


def _number(pattern: re.Pattern[str], text: str) -> int | None:
    match = pattern.search(text)
    return None if match is None else int(next(group for group in match.groups() if group))
