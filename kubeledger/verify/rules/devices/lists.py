"""Which devices a plugin offered, and which of them were healthy, at any instant.

A span of a resource begins when its plugin sends a list, its stream ends, or the kubelet
starts. In a span nothing changes. The log tells of spans (and newer ones, counts), the
checkpoint, read some time in a span, the IDs of healthy devices. So what is certain is a
set of devices that were healthy, and a wider one of those that may have been.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping
from typing import Literal, NamedTuple

import msgspec

from kubeledger.devicemanager.records import DevicesReported
from kubeledger.units import NS_PER_S

__all__ = ["Clash", "DeviceLists", "Listed", "When"]

When = tuple[int, int]
"""Time and seq of a record: the order of replay."""

_SNAPSHOT_NS = 2 * NS_PER_S
"""A snapshot is named by a whole second and takes a moment to be made."""
_GRACE_NS = 5 * 60 * NS_PER_S
_HOLE_NS = 25 * NS_PER_S
_BEGIN: When = (-(1 << 62), 0)

_Cause = Literal["unseen", "start", "sent", "stopped"]


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the devices of one resource at an instant.

    Attributes:
        healthy: certainly healthy.
        maybe: perhaps healthy; holds ``healthy``.
        known: every device that any source names.
        count, total: healthy devices and all, as the kubelet counted; None when not told.
        registered: the kubelet knows the resource; None when that is not certain.
        complete: ``healthy`` are all; then it equals ``maybe``.
        fades: no plugin serves it: the resource is dropped after five minutes of grace.
        firm: sources tell of this very instant; else a line that was lost may have told of
            a change since, or until, they do.
        seqs: (n,) records it rests on.
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


class _Span(msgspec.Struct):
    begin: When
    cause: _Cause
    count: int | None = None
    total: int | None = None
    ids: frozenset[str] | None = None
    readings: list[tuple[When, frozenset[str]]] = []


class DeviceLists:
    """Device lists of all resources over time: filled, settled, then asked.

    Attributes:
        clashes: seq of the later record -> what it disagrees with.
        holes: (n,) begin and end of times of which the log tells nothing.
        reads: (n,) when sound checkpoints were read.
    """

    def __init__(self) -> None:
        self.clashes: dict[int, Clash] = {}
        self.holes: list[tuple[int, int]] = []
        self.reads: list[When] = []
        self._beat: int | None = None
        self._spans: dict[str, list[_Span]] = {}
        self._readings: dict[str, list[tuple[When, frozenset[str]]]] = {}
        self._known: dict[str, set[str]] = {}
        self._starts: list[tuple[When, _Cause]] = []
        self._logged = (1 << 62, -(1 << 62))
        self._asked: list[When] = []
        self._settled: dict[str, list[tuple[_Span, Listed]]] = {}
        self._processes: tuple[When, ...] = ()
        self._tells_requests: list[bool] = []
        self._tells_lists: list[bool] = []

    def started(self, when: When, *, from_start: bool) -> None:
        """A kubelet process began, or (not ``from_start``) the log begins within one."""
        self._starts.append((when, "start" if from_start else "unseen"))
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

    def listed(self, when: When, registered: Mapping[str, Collection[str]]) -> None:
        """A sound checkpoint was read."""
        self.reads.append(when)
        for resource, ids in registered.items():
            self.exists(resource, ids)
            self._readings.setdefault(resource, []).append((when, frozenset(ids)))

    def exists(self, resource: str, ids: Collection[str]) -> None:
        """A source that is no decision names devices."""
        self._known.setdefault(resource, set()).update(ids)

    def settle(self) -> None:
        """All is noted: find what holds in each span."""
        self._starts.sort()
        self.reads.sort()
        self._processes = tuple(when for when, _ in self._starts)
        # A kubelet that starts pauses, too.
        self.holes = sorted(h for h in self.holes if not self.restarted((h[0], 0), (h[1], 0)))
        self._tells_requests = self._in_processes(self._asked)
        read_at = {ts_ns for ts_ns, _ in self.reads}
        for resource, readings in self._readings.items():
            if readings:  # what a checkpoint told is no message of a plugin
                spans = self._spans.get(resource, [])
                told = [s for s in spans if s.cause != "sent" or s.begin[0] not in read_at]
                self._spans[resource] = told
        sent = [s.begin for spans in self._spans.values() for s in spans if s.cause == "sent"]
        lists = self._in_processes([*sent, *self._asked])
        self._tells_lists = lists
        for resource in sorted(self._spans.keys() | self._readings.keys()):
            self._settled[resource] = self._settle(resource)
        self._asked.clear()

    def _in_processes(self, seen: Collection[When]) -> list[bool]:
        """Whether anything was seen in each kubelet process, first the one before any start."""
        flags = [False] * (len(self._processes) + 1)
        for when in seen:
            flags[bisect_right(self._processes, when)] = True
        return flags

    def restarted(self, when: When, until: When) -> bool:
        """Whether a kubelet process began in between."""
        return bisect_right(self._processes, when) != bisect_right(self._processes, until)

    def tells_requests(self, when: When) -> bool:
        """The process that runs logs requests and releases (verbosity 3)."""
        return self._tells_requests[bisect_right(self._processes, when)]

    def tells_lists(self, when: When) -> bool:
        """The process that runs logs what plugins send (verbosity 2)."""
        return self._tells_lists[bisect_right(self._processes, when)]

    def next_reading(self, when: When) -> When | None:
        """The first checkpoint that was read behind a line of the log, in its process."""
        later = (read for read in self.reads if read > when and read[0] <= self._logged[1])
        return next((read for read in later if not self.restarted(when, read)), None)

    def at(self, resource: str, when: When) -> Listed:
        """What is known of a resource just before a record."""
        spans = self._settled.get(resource)
        if spans is None:
            return Listed()
        span, listed = spans[bisect_right(spans, when, key=lambda each: each[0].begin) - 1]
        # A reading behind a restart or a stop tells of a message that was lost, not of no device.
        readings = [] if listed.fades else [at for at, _ in span.readings]
        if span.count is not None or (readings and min(readings) <= when <= max(readings)):
            listed = msgspec.structs.replace(listed, firm=True)
        if listed.fades and listed.registered and span.begin[0] < when[0] - _GRACE_NS:
            # The grace of the stopped endpoint ran out; when that was looked at is not told.
            return msgspec.structs.replace(listed, registered=None)
        return listed

    @property
    def resources(self) -> Collection[str]:
        """All resources that any list names."""
        return self._settled.keys()

    def _settle(self, resource: str) -> list[tuple[_Span, Listed]]:
        holes = [_Span((end, 0), "unseen") for _, end in self.holes]
        starts = [_Span(when, cause) for when, cause in self._starts]
        told = self._spans.get(resource, [])
        spans = [_Span(_BEGIN, "unseen"), *told, *starts, *holes]
        spans.sort(key=lambda span: span.begin)
        ends = [span.begin for span in spans[1:]]
        for when, ids in sorted(self._readings.get(resource, ())):
            # Outside of the log, a message of the plugin may have come unseen.
            first_ns, last_ns = self._logged
            hole = any(begin < when[0] < end for begin, end in self.holes)
            slack = _SNAPSHOT_NS if when[0] % NS_PER_S == 0 else 0
            first = bisect_right(ends, when)
            certain = first == bisect_right(ends, (when[0] + slack, when[1]))
            if first_ns <= when[0] <= last_ns and not hole and certain:
                spans[first].readings.append((when, ids))
        known = frozenset(self._known.get(resource, ()))
        settled = []
        was_known: bool | None = None
        for span in spans:
            listed = self._listed(resource, span, known, was_known)
            was_known = True if span.readings or listed.registered else was_known
            settled.append((span, listed))
        return settled

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
        listed = Listed(
            known=known,
            maybe=known,
            count=span.count,
            total=span.total,
            registered=True if span.cause == "sent" or span.readings else None,
            seqs=(*seqs, *(when[1] for when, _ in span.readings[:1])),
        )
        if ids is not None and self.tells_lists(span.begin):
            return msgspec.structs.replace(listed, healthy=ids, maybe=ids, complete=True)
        clashes = any(when[1] in self.clashes for when, _ in span.readings)
        if ids is None and not clashes and span.count == 0:
            return msgspec.structs.replace(listed, maybe=frozenset(), complete=True)
        if ids is None and not clashes and span.count == len(known) == span.total:
            return msgspec.structs.replace(listed, healthy=known, complete=True)
        return listed

    def _agreed(self, resource: str, span: _Span) -> frozenset[str] | None:
        """Healthy devices as all sources of a span tell; None without one, or if they clash."""
        sources = [(when[1], ids) for when, ids in span.readings]
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
            sides = (span.begin[1], counted), (seq, _says(ids, resource))
            self.clashes[max(seq, span.begin[1])] = Clash(resource, *sides)
            return None
        return ids


def _says(ids: Collection[str], resource: str) -> str:
    return f"the healthy devices of {resource} are {', '.join(sorted(ids)) or 'none'}"
