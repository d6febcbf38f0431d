"""Which devices a plugin offered, and which of them were healthy, at any instant.

A span of a resource begins when its plugin sends a list, its stream ends, or the kubelet
starts. In a span nothing changes. The log shows spans (and newer ones, counts), the
checkpoint, read some time in a span, the IDs of healthy devices. So what is certain is a
set of devices that were healthy, and a wider one of those that may have been.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping
from typing import Literal

import msgspec
from msgspec.structs import replace

from kubeledger.model.bodies.devicemanager import DevicesReported
from kubeledger.model.units import NS_PER_S
from kubeledger.verify.context import VerifyContext

When = tuple[int, int]
"""Time and seq of a record: the order of replay."""

SNAPSHOT_NS = 2 * NS_PER_S
"""A snapshot is named by a whole second and takes a moment to be made."""
_GRACE_NS = 5 * 60 * NS_PER_S
_BEGIN: When = (-(1 << 62), 0)
_END_NS = 1 << 62


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the devices of one resource at an instant.

    Attributes:
        maybe: perhaps healthy; holds ``healthy``.
        known: every device that any source names.
        count, total: healthy devices and all, as the kubelet counted; None when not known.
        registered: the kubelet knows the resource; None when that is not certain.
        complete: ``healthy`` are all; then it equals ``maybe``.
        endpoint_grace_period: no plugin serves it: the resource is dropped when the five minutes
            are over.
        observed_at_instant: sources show this very instant; else a line that was lost may have
            shown a change since, or until, they do.
    """

    healthy: frozenset[str] = frozenset()
    maybe: frozenset[str] = frozenset()
    known: frozenset[str] = frozenset()
    count: int | None = None
    total: int | None = None
    registered: bool | None = None
    complete: bool = False
    endpoint_grace_period: bool = False
    observed_at_instant: bool = False
    seqs: tuple[int, ...] = ()

    def opened(self) -> Listed:
        """What is certain of it whatever lines were lost."""
        if self.observed_at_instant:
            return self
        # Where the plugin's end is logged, its grace period lasts: nothing earlier drops the
        # resource.
        registered = True if self.registered and self.endpoint_grace_period else None
        maybe = self.known | self.maybe
        return Listed(known=self.known, maybe=maybe, registered=registered, seqs=self.seqs)


class _Span(msgspec.Struct):
    begin: When
    cause: Literal["unseen", "start", "sent", "stopped"]
    count: int | None = None
    total: int | None = None
    ids: frozenset[str] | None = None
    readings: list[tuple[When, frozenset[str]]] = []
    is_left_out: bool = False


class DeviceLists:
    """Device lists of all resources over time: noted, settled, and asked then.

    Attributes:
        clashes: seq of the later record -> resource and two sides, where counts and IDs differ.
        reads: (n,) when sound checkpoints were read.
        asked: (n,) lines of verbosity 3: such lines are in the log of their process.
    """

    def __init__(self, context: VerifyContext) -> None:
        self.clashes: dict[int, tuple[str, tuple[int, str], tuple[int, str]]] = {}
        self.reads: list[When] = []
        self._context = context
        self._spans: dict[str, list[_Span]] = {}
        self._readings: dict[str, list[tuple[When, frozenset[str]]]] = {}
        self._known: dict[str, set[str]] = {}
        self._starts: list[_Span] = []
        self.asked: list[When] = []
        self._settled: dict[str, list[tuple[_Span, Listed]]] = {}
        self._logs_requests: frozenset[int] = frozenset()
        self._logs_lists: frozenset[int] = frozenset()

    def started(self, when: When, *, from_start: bool) -> None:
        """A kubelet process began, or (not ``from_start``) the log begins within one."""
        self._starts.append(_Span(when, "start" if from_start else "unseen"))

    def stopped(self, when: When, resource: str) -> None:
        self._spans.setdefault(resource, []).append(_Span(when, "stopped"))

    def reported(self, when: When, body: DevicesReported) -> None:
        """A plugin sent its list, or a checkpoint showed one."""
        ids = None if body.device_ids is None else frozenset(body.device_ids)
        self.exists(body.resource, ids or ())
        span = _Span(when, "sent", body.healthy, body.total, ids)
        self._spans.setdefault(body.resource, []).append(span)

    def listed(self, when: When, registered: Mapping[str, Collection[str]]) -> None:
        self.reads.append(when)
        for resource, ids in registered.items():
            self.exists(resource, ids)
            self._readings.setdefault(resource, []).append((when, frozenset(ids)))

    def exists(self, resource: str, ids: Collection[str]) -> None:
        """A source that is no decision names devices."""
        self._known.setdefault(resource, set()).update(ids)

    def settle(self) -> None:
        self.clashes, self._settled = {}, {}
        self.reads.sort()
        read_at = {ts_ns for ts_ns, _ in self.reads}
        told: dict[str, list[_Span]] = {}
        for resource, spans in self._spans.items():
            # What a checkpoint showed is no message of a plugin.
            shown = read_at if resource in self._readings else ()
            own = (span for span in spans if span.cause != "sent" or span.begin[0] not in shown)
            told[resource] = [replace(span, readings=[]) for span in own]
        sent = [s.begin for spans in told.values() for s in spans if s.cause == "sent"]
        self._logs_requests = frozenset(map(self._process, self.asked))
        self._logs_lists = self._logs_requests.union(map(self._process, sent))
        holes = [_Span((end_ns, 0), "unseen") for end_ns in self._holes()]
        for resource in sorted(told.keys() | self._readings.keys()):
            self._settled[resource] = self._settle(resource, told.get(resource, []), holes)

    def _holes(self) -> Iterator[int]:
        """Ends of times of which the log shows nothing."""
        hole = self._context.coverage.hole(-_END_NS, _END_NS)
        while hole is not None:
            yield hole[1]
            hole = self._context.coverage.hole(hole[1], _END_NS)

    def _process(self, when: When) -> int:
        process = self._context.timeline.process(when[0])
        return -1 if process is None else process.number

    def restarted(self, when: When, until: When) -> bool:
        return self._process(when) != self._process(until)

    def logs_requests(self, when: When) -> bool:
        """The process that runs logs requests and releases (verbosity 3)."""
        return self._process(when) in self._logs_requests

    def logs_lists(self, when: When) -> bool:
        """The process that runs logs what plugins send (verbosity 2)."""
        return self._process(when) in self._logs_lists

    def read_logged(self) -> Iterator[When]:
        """When sound checkpoints were read while the log was there."""
        return (read for read in self.reads if not self._unlogged(read))

    def _unlogged(self, when: When) -> bool:
        """Whether a message of a plugin may have come unseen: the log is not there."""
        return self._context.coverage.silent(when[0], when[0]) is not None

    def at(self, resource: str, when: When) -> Listed:
        """What is known of a resource just before a record."""
        spans = self._settled.get(resource)
        if spans is None:
            return Listed()
        span, listed = spans[bisect_right(spans, when, key=lambda each: each[0].begin) - 1]
        # A reading after a restart or a stop shows a message that was lost, not of no device.
        readings = [] if listed.endpoint_grace_period else [at for at, _ in span.readings]
        if span.count is not None or (readings and min(readings) <= when <= max(readings)):
            listed = replace(listed, observed_at_instant=True)
        is_leaving = listed.endpoint_grace_period and listed.registered
        if is_leaving and span.begin[0] < when[0] - _GRACE_NS:
            # The grace of the stopped endpoint ran out; when that was looked at is not known.
            return replace(listed, registered=None)
        return listed

    @property
    def resources(self) -> Collection[str]:
        return self._settled.keys()

    def _settle(
        self, resource: str, told: list[_Span], holes: list[_Span]
    ) -> list[tuple[_Span, Listed]]:
        common = [_Span(each.begin, each.cause) for each in (*self._starts, *holes)]
        spans = [_Span(_BEGIN, "unseen"), *told, *common]
        spans.sort(key=lambda span: span.begin)
        ends, named = [span.begin for span in spans[1:]], dict(self._readings.get(resource, ()))
        for when in self.reads:
            slack = SNAPSHOT_NS if when[0] % NS_PER_S == 0 else 0
            first = bisect_right(ends, when)
            certain = first == bisect_right(ends, (when[0] + slack, when[1]))
            if certain and not self._unlogged(when):
                spans[first].is_left_out = when not in named
                if when in named:
                    spans[first].readings.append((when, named[when]))
        settled: list[tuple[_Span, Listed]] = []
        was_known: bool | None = None
        for span in spans:
            settled.append((span, self._listed(resource, span, was_known)))
            was_known = True if span.readings or settled[-1][1].registered else was_known
            was_known = False if span.is_left_out else was_known  # so the next process reads it
        return settled

    def _listed(self, resource: str, span: _Span, was_known: bool | None) -> Listed:
        known = frozenset(self._known.get(resource, ()))
        seqs = (span.begin[1],) if span.begin[1] else ()
        if span.cause in ("start", "stopped"):
            # Endpoints are gone: no device is healthy until a plugin sends a list.
            verbose = span.cause == "stopped" or self.logs_lists(span.begin)
            return Listed(
                maybe=frozenset() if verbose else known,
                known=known,
                registered=True if span.cause == "stopped" else was_known,
                complete=verbose,
                endpoint_grace_period=True,
                seqs=seqs,
            )
        ids, clashes = self._agreed(resource, span)
        if ids is None and not clashes and span.count == 0:
            ids = frozenset()
        if ids is None and not clashes and span.count == len(known) == span.total:
            ids = known
        exact = ids is not None and (span.count is not None or self.logs_lists(span.begin))
        return Listed(
            healthy=ids if ids is not None and exact else frozenset(),
            maybe=ids if ids is not None and exact else known,
            known=known,
            count=span.count,
            total=span.total,
            registered=True if span.cause == "sent" or span.readings else None,
            complete=exact,
            seqs=(*seqs, *(when[1] for when, _ in span.readings[:1])),
        )

    def _agreed(self, resource: str, span: _Span) -> tuple[frozenset[str] | None, bool]:
        """Healthy devices as all sources of a span show, if they do; whether they clash."""
        sources = [(when[1], ids) for when, ids in span.readings]
        if span.ids is not None:
            sources.insert(0, (span.begin[1], span.ids))
        if len({ids for _, ids in sources}) != 1:
            return None, bool(sources)  # a change may have been in a line that was lost
        seq, ids = sources[0]
        if span.count in (None, len(ids)):
            return ids, False
        counted = f"the plugin's list of {resource} has {span.count} healthy devices"
        named = f"the healthy devices of {resource} are {', '.join(sorted(ids)) or 'none'}"
        sides = (span.begin[1], counted), (seq, named)
        self.clashes[max(seq, span.begin[1])] = (resource, *sides)
        return None, True
