"""Which devices a plugin offered, and which of them were healthy, at any instant.

A span of a resource begins when its plugin sends a list, its stream ends, or the kubelet
starts. In a span nothing changes. The log tells of spans (and newer ones, counts), the
checkpoint, read some time in a span, the IDs of healthy devices. So what is certain is a
set of devices that were healthy, and a wider one of those that may have been.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection
from typing import Literal, NamedTuple

import msgspec

from kubeledger.devicemanager.records import DevicesReported
from kubeledger.units import NS_PER_S

__all__ = ["Clash", "DeviceLists", "Listed"]

When = tuple[int, int]

_SNAPSHOT_NS = 2 * NS_PER_S
"""A snapshot is named by a whole second and takes a moment to be made."""

_GRACE_NS = 5 * 60 * NS_PER_S
_READS_MAX = 4096
_HOLE_NS = 25 * NS_PER_S
_BEGIN: When = (-(1 << 62), 0)

Cause = Literal["unseen", "start", "sent", "stopped"]


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the devices of one resource at an instant.

    Attributes:
        healthy: certainly healthy.
        maybe: perhaps healthy; holds ``healthy``.
        known: every device that any checkpoint names.
        count, total: healthy devices and all, as the kubelet counted; None when not told.
        registered: the kubelet knows the resource; None when that is not certain.
        complete: ``healthy`` are all; then it equals ``maybe``.
        fades: no plugin serves it: the resource is dropped after five minutes of grace.
        firm: sources tell of this very instant; else a line that was lost may have told of
            a change since, or until, they do.
        seqs: (n,) records it rests on.
        read: first and last checkpoint that shows it; None without one.
        counted: the plugin's message itself told it.
    """

    healthy: frozenset[str] = frozenset()
    maybe: frozenset[str] = frozenset()
    known: frozenset[str] = frozenset()
    count: int | None = None
    total: int | None = None
    registered: bool | None = None
    complete: bool = False
    fades: bool = False
    firm: bool = False
    seqs: tuple[int, ...] = ()
    read: tuple[When, When] | None = None
    counted: bool = False

    @property
    def all_healthy(self) -> bool:
        """The kubelet counted no unhealthy device."""
        return self.count is not None and self.count == self.total

    def opened(self) -> Listed:
        """What is certain of it whatever lines were lost."""
        if self.firm:
            return self
        # Where the plugin's end is told, its grace lasts: nothing earlier drops the resource.
        registered = True if self.registered and self.fades else None
        maybe = self.known | self.maybe
        return Listed(known=self.known, maybe=maybe, registered=registered, seqs=self.seqs)


class Clash(NamedTuple):
    """Two sources tell different lists of healthy devices in one span."""

    resource: str
    one: tuple[int, str]
    other: tuple[int, str]


class _Reading(NamedTuple):
    when: When
    ids: frozenset[str]


class _Span(msgspec.Struct):
    begin: When
    cause: Cause
    count: int | None = None
    total: int | None = None
    ids: frozenset[str] | None = None
    readings: list[_Reading] = []


class DeviceLists:
    """Device lists of all resources over time: filled, settled, then asked.

    Attributes:
        clashes: seq of the later record -> what it disagrees with.
        holes: (n,) begin and end of times of which the log tells nothing.
    """

    def __init__(self) -> None:
        self.clashes: dict[int, Clash] = {}
        self.holes: list[tuple[int, int]] = []
        self._beat: int | None = None
        self._spans: dict[str, list[_Span]] = {}
        self._readings: dict[str, list[_Reading]] = {}
        self._read_at: set[int] = set()
        self._reads: list[When] = []
        self._known: dict[str, set[str]] = {}
        self._starts: list[When] = []
        self._cut: set[When] = set()
        self._logged = (1 << 62, -(1 << 62))
        self._asked: list[When] = []
        self._asked_of = 0
        self._settled: dict[str, tuple[list[When], list[Listed]]] = {}
        self._told: list[bool] = []
        self._sent: list[bool] = []

    def started(self, when: When, *, from_start: bool) -> None:
        """A kubelet process began, or (not ``from_start``) the log begins within one."""
        self._starts.append(when)
        if not from_start:
            self._cut.add(when)
        self.logged(when[0])

    def logged(self, ts_ns: int) -> None:
        """A line of the log: what plugins sent is told between the first and the last one."""
        first, last = self._logged
        self._logged = (min(first, ts_ns), max(last, ts_ns))

    def beat(self, ts_ns: int) -> None:
        """The eviction manager's signals, which come every ten seconds where they are logged."""
        self.logged(ts_ns)
        last = self._beat
        if last is not None and ts_ns - last > _HOLE_NS:
            self.holes.append((last, ts_ns))
        self._beat = ts_ns if last is None else max(last, ts_ns)

    def asked(self, when: When) -> None:
        """A line of verbosity 3 shows that such lines are in the log of its process."""
        self.logged(when[0])
        if not self._asked or self._asked_of != len(self._starts):
            self._asked_of = len(self._starts)
            self._asked.append(when)

    def stopped(self, when: When, resource: str) -> None:
        """A plugin's stream ended."""
        self._spans.setdefault(resource, []).append(_Span(when, "stopped"))
        self.logged(when[0])

    def reported(self, when: When, body: DevicesReported) -> None:
        """A plugin sent its list, or a checkpoint showed one."""
        ids = None if body.device_ids is None else frozenset(body.device_ids)
        if ids is not None:
            self.exists(body.resource, ids)
            if body.healthy is not None and body.healthy != len(ids):
                ids = None
        span = _Span(when, "sent", body.healthy, body.total, ids)
        self._spans.setdefault(body.resource, []).append(span)

    def listed(self, when: When, registered: dict[str, tuple[str, ...]]) -> None:
        """A sound checkpoint was read."""
        self._read_at.add(when[0])
        self._first_reading(when)
        for resource, ids in registered.items():
            self.exists(resource, ids)
            readings = self._readings.setdefault(resource, [])
            readings.append(_Reading(when, frozenset(ids)))

    def _first_reading(self, when: When) -> None:
        """Keep the first reading of each process, once starts are known."""
        self._reads.append(when)
        if len(self._reads) > _READS_MAX:
            self._thin()

    def _thin(self) -> None:
        first: dict[int, When] = {}
        starts = sorted(self._starts)
        for read in sorted(self._reads):
            first.setdefault(bisect_right(starts, read), read)
        self._reads = sorted(first.values())

    def next_reading(self, when: When) -> When | None:
        """The first checkpoint that was read behind the first line of a log, in its process."""
        process = bisect_right(self._starts, when)
        within = (read for read in self._reads if read > when and read[0] <= self._logged[1])
        return next((r for r in within if bisect_right(self._starts, r) == process), None)

    def exists(self, resource: str, ids: Collection[str]) -> None:
        """A source that is no decision names devices."""
        self._known.setdefault(resource, set()).update(ids)

    def settle(self) -> None:
        """All is noted: find what holds in each span."""
        self._starts.sort()
        self._reads.sort()
        # A kubelet that starts pauses, too.
        self.holes = sorted(h for h in self.holes if not self.restarted((h[0], 0), (h[1], 0)))
        self._told = self._processes(self._asked)
        sent = [
            span.begin
            for spans in self._spans.values()
            for span in spans
            if span.cause == "sent" and span.begin[0] not in self._read_at
        ]
        self._sent = [
            sent_one or told
            for sent_one, told in zip(self._processes(sent), self._told, strict=True)
        ]
        for resource in sorted(self._spans.keys() | self._readings.keys()):
            self._settle(resource)
        self._spans.clear()
        self._readings.clear()
        self._asked.clear()

    def _processes(self, seen: Collection[When]) -> list[bool]:
        """Whether anything was seen in each kubelet process, first the one before any start."""
        flags = [False] * (len(self._starts) + 1)
        for when in seen:
            flags[bisect_right(self._starts, when)] = True
        return flags

    def restarted(self, when: When, until: When) -> bool:
        """Whether a kubelet process began in between."""
        return bisect_right(self._starts, when) != bisect_right(self._starts, until)

    def tells_requests(self, when: When) -> bool:
        """The process that runs logs requests and releases (verbosity 3)."""
        return self._told[bisect_right(self._starts, when)]

    def tells_lists(self, when: When) -> bool:
        """The process that runs logs what plugins send (verbosity 2)."""
        return self._sent[bisect_right(self._starts, when)]

    def at(self, resource: str, when: When) -> Listed:
        """What is known of a resource just before a record."""
        settled = self._settled.get(resource)
        if settled is None:
            return Listed()
        begins, values = settled
        index = bisect_right(begins, when) - 1
        listed = values[index]
        read = listed.read
        if listed.counted or (read is not None and read[0] <= when <= read[1]):
            listed = msgspec.structs.replace(listed, firm=True)
        if listed.fades and listed.registered and begins[index][0] < when[0] - _GRACE_NS:
            # The grace of the stopped endpoint ran out; when that was looked at is not told.
            return msgspec.structs.replace(listed, registered=None)
        return listed

    @property
    def resources(self) -> Collection[str]:
        """All resources that any list names."""
        return self._settled.keys()

    def _settle(self, resource: str) -> None:
        first_ns, last_ns = self._logged
        readings = sorted(self._readings.get(resource, ()))
        spans = self._spans_of(resource, bool(readings))
        ends = [span.begin for span in spans[1:]]
        for reading in readings:
            # Outside of the log, a message of the plugin may have come unseen.
            if first_ns <= reading.when[0] <= last_ns and not self._in_hole(reading.when[0]):
                self._place(reading, spans, ends)
        known = frozenset(self._known.get(resource, ()))
        begins: list[When] = []
        values: list[Listed] = []
        was_known: bool | None = None
        for span in spans:
            listed = self._listed(resource, span, known, was_known)
            was_known = True if span.readings or listed.registered else was_known
            if not values or not _same(listed, values[-1]):
                begins.append(span.begin)
                values.append(listed)
            elif listed.read is not None:
                first = values[-1].read or listed.read
                values[-1] = msgspec.structs.replace(values[-1], read=(first[0], listed.read[1]))
        self._settled[resource] = (begins, values)

    def _spans_of(self, resource: str, read: bool) -> list[_Span]:
        """In order, without what a checkpoint told: that is no message of a plugin."""
        told = [
            span
            for span in self._spans.get(resource, ())
            if not (read and span.cause == "sent" and span.begin[0] in self._read_at)
        ]
        starts = [
            _Span(start, "unseen" if start in self._cut else "start") for start in self._starts
        ]
        holes = [_Span((end, 0), "unseen") for _, end in self.holes]
        return sorted(
            [_Span(_BEGIN, "unseen"), *told, *starts, *holes], key=lambda span: span.begin
        )

    def _in_hole(self, ts_ns: int) -> bool:
        return any(begin < ts_ns < end for begin, end in self.holes)

    def _place(self, reading: _Reading, spans: list[_Span], ends: list[When]) -> None:
        """The span whose list a reading shows, where that is certain."""
        slack = _SNAPSHOT_NS if reading.when[0] % NS_PER_S == 0 else 0
        first = bisect_right(ends, reading.when)
        last = bisect_right(ends, (reading.when[0] + slack, reading.when[1]))
        if first == last:
            spans[first].readings.append(reading)

    def _listed(
        self, resource: str, span: _Span, known: frozenset[str], was_known: bool | None
    ) -> Listed:
        seqs = (span.begin[1],) if span.begin[1] else ()
        if span.cause in ("start", "stopped"):
            # Endpoints are gone: no device is healthy until a plugin sends a list.
            verbose = span.cause == "stopped" or self.tells_lists(span.begin)
            return Listed(
                maybe=frozenset() if verbose else known,
                known=known,
                registered=True if span.cause == "stopped" else was_known,
                complete=verbose,
                fades=True,
                seqs=seqs,
            )
        ids = self._agreed(resource, span)
        told = self.tells_lists(span.begin)
        listed = Listed(
            known=known,
            maybe=known,
            count=span.count,
            total=span.total,
            registered=True if span.cause == "sent" or span.readings else None,
            seqs=(*seqs, *(reading.when[1] for reading in span.readings[:1])),
            read=(span.readings[0].when, span.readings[-1].when) if span.readings else None,
            counted=span.count is not None,
        )
        if ids is not None and told:
            return msgspec.structs.replace(listed, healthy=ids, maybe=ids, complete=True)
        if ids is None and span.count is not None and not self._clashes(span):
            if span.count == 0:
                return msgspec.structs.replace(listed, maybe=frozenset(), complete=True)
            if span.count == len(known) == span.total:
                return msgspec.structs.replace(listed, healthy=known, complete=True)
        return listed

    def _clashes(self, span: _Span) -> bool:
        return any(reading.when[1] in self.clashes for reading in span.readings)

    def _agreed(self, resource: str, span: _Span) -> frozenset[str] | None:
        """Healthy devices as all sources of a span tell; None without one, or if they clash."""
        sources = [(reading.when[1], reading.ids) for reading in span.readings]
        if span.ids is not None:
            sources.insert(0, (span.begin[1], span.ids))
        if not sources:
            return None
        seq, ids = sources[0]
        for index, (other_seq, other) in enumerate(sources):
            if other == ids:
                continue
            # A change that stays may have been told in a line that was lost.
            if any(later == ids for _, later in sources[index:]):
                one, two = _says(ids, resource), _says(other, resource)
                self.clashes[other_seq] = Clash(resource, (seq, one), (other_seq, two))
            return None
        if span.count is not None and span.count != len(ids):
            counted = f"the plugin's list of {resource} has {span.count} healthy devices"
            latest = max(seq, span.begin[1])
            self.clashes[latest] = Clash(
                resource, (span.begin[1], counted), (seq, _says(ids, resource))
            )
            return None
        return ids


def _same(one: Listed, other: Listed) -> bool:
    """Nothing changed but the records that tell it."""
    return msgspec.structs.replace(one, seqs=other.seqs, read=other.read) == other


def _says(ids: Collection[str], resource: str) -> str:
    return f"the healthy devices of {resource} are {', '.join(sorted(ids)) or 'none'}"
