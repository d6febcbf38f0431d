"""What a recorder says of itself: numbers that its parts update, and their text for Prometheus.

Sources, recorder and shipper call :class:`Metrics` where something happened; any thread may. The
text is written by hand: the client library takes 5 MiB of a recorder's 64
(docs/dependencies.md).
"""

from __future__ import annotations

import os
import platform
import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from kubeledger import __version__

__all__ = ["FAMILIES", "Family", "Metrics"]

PREFIX = "kubeledger_"
NS_PER_S = 1_000_000_000

_SERIES_MAX = 200
"""Of one family; what comes later is counted under ``other``, so that memory is bounded."""
_OTHER = "other"

_NUMBER = re.compile(r"\d+")
_LABEL_LENGTH_MAX = 120


class Family(NamedTuple):
    """One metric.

    Attributes:
        name: as Prometheus knows it.
        type: ``counter`` or ``gauge``.
        labels: (n,) their names.
        help: one sentence.
    """

    name: str
    type: Literal["counter", "gauge"]
    labels: tuple[str, ...]
    help: str


def _counter(name: str, help_: str, *labels: str) -> Family:
    return Family(PREFIX + name, "counter", labels, help_)


def _gauge(name: str, help_: str, *labels: str) -> Family:
    return Family(PREFIX + name, "gauge", labels, help_)


BUILD = _gauge("build_info", "Version of kubeledger and of Python; always 1.", "version", "python")
READY = _gauge("ready", "1 once what was captured before is read, and the recorder follows live.")
OBSERVED = _gauge("newest_observed_timestamp_seconds", "When a source gave something last.")
SETTLED = _gauge(
    "newest_settled_timestamp_seconds",
    "When all that sources had was read last; some seconds later what follows from it is recorded.",
)
NEWEST = _gauge("newest_record_timestamp_seconds", "Time of the newest record.")
LAG = _gauge("lag_seconds", "How long sources have had more than was read, as of what they gave.")
BYTES_READ = _counter("read_bytes_total", "Bytes that a source observed.", "source")
BYTES_WRITTEN = _counter("written_bytes_total", "Bytes written: raw capture, records.", "to")
RECORDS = _counter("records_total", "Records appended to the ledger.", "kind")
GAPS = _counter(
    "gaps_total", "Times that a source could not observe; numbers are N.", "source", "reason"
)
UP = _gauge("source_up", "0 while a source, or a part of one, cannot be read.", "source")
SUCCESS = _gauge(
    "source_last_success_timestamp_seconds", "When the source was polled last.", "source"
)
FINDINGS = _gauge("findings", "What `verify -f` said of the ledger and did not withdraw.", "what")
SEALED = _counter("segments_sealed_total", "Segments of the ledger that were sealed.")
SHIPPED = _counter("segments_shipped_total", "Sealed segments stored, and proved to be there.")
BYTES_SHIPPED = _counter("shipped_bytes_total", "Bytes of the segments shipped.")
BACKLOG = _gauge("ship_backlog_segments", "Sealed segments that are not shipped yet.")
BACKLOG_BYTES = _gauge("ship_backlog_bytes", "Bytes of the segments that are not shipped yet.")
SHIP_FAILURES = _counter("ship_failures_total", "Times that shipping failed and was put off.")
SHIP_SUCCESS = _gauge(
    "ship_last_success_timestamp_seconds", "When nothing was left to ship the last time."
)

MEMORY = Family("process_resident_memory_bytes", "gauge", (), "Resident memory.")
CPU = Family("process_cpu_seconds_total", "counter", (), "Processor time, user and system.")
START = Family("process_start_time_seconds", "gauge", (), "When the recorder started.")

FAMILIES = (
    BUILD,
    READY,
    OBSERVED,
    SETTLED,
    NEWEST,
    LAG,
    BYTES_READ,
    BYTES_WRITTEN,
    RECORDS,
    GAPS,
    UP,
    SUCCESS,
    FINDINGS,
    SEALED,
    SHIPPED,
    BYTES_SHIPPED,
    BACKLOG,
    BACKLOG_BYTES,
    SHIP_FAILURES,
    SHIP_SUCCESS,
    MEMORY,
    CPU,
    START,
)
"""All metrics, in the order of the page."""


class Metrics:
    """The numbers of one recorder, all in memory; a method takes a microsecond or two."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turned_s = time.monotonic()
        self._values: dict[Family, dict[tuple[str, ...], float]] = {f: {} for f in FAMILIES}
        self._set(BUILD, 1, __version__, platform.python_version())
        self._set(START, time.time())
        self._set(READY, 0)

    def loop_turned(self) -> None:
        """The recorder's loop has come round once more, whether there was something or not."""
        self._turned_s = time.monotonic()

    @property
    def stalled_s(self) -> float:
        """How long ago the recorder's loop came round, in seconds."""
        return time.monotonic() - self._turned_s

    def source_read(self, source: str, now_ns: int, size_bytes: int = 0) -> None:
        """A source could be read at ``now_ns``, and gave so many bytes, maybe none."""
        self._set(UP, 1, source)
        self._set(SUCCESS, now_ns / NS_PER_S, source)
        self._add(BYTES_READ, size_bytes, source)

    def source_failed(self, source: str) -> None:
        """A source, or a part of one, cannot be read."""
        self._set(UP, 0, source)

    def outage_over(self, source: str) -> None:
        """It can be read again; a part of a source has no number of its own while all is well."""
        with self._lock:
            self._values[UP].pop((source,), None)

    def gap(self, source: str, reason: str) -> None:
        """A source missed something; a gap that lasts counts once.

        Args:
            source: which.
            reason: as in ``observations.Gap``; numbers in it make no series of their own.
        """
        self._add(GAPS, 1, source, _NUMBER.sub("N", reason))

    def observed(self, now_ns: int) -> None:
        """A source gave something at ``now_ns``."""
        self._raise_to(OBSERVED, now_ns / NS_PER_S)

    def settled(self, now_ns: int) -> None:
        """All that sources had at ``now_ns`` was read."""
        self._raise_to(SETTLED, now_ns / NS_PER_S)

    def captured(self, size_bytes: int) -> None:
        """So many bytes were appended to the raw capture."""
        self._add(BYTES_WRITTEN, size_bytes, "capture")

    def appended(
        self, kinds: Mapping[str, int], size_bytes: int, newest_ts_ns: int | None = None
    ) -> None:
        """Records were appended to the ledger.

        Args:
            kinds: kind -> how many.
            size_bytes: of their lines.
            newest_ts_ns: the latest of their times; None where they are of times recorded before.
        """
        if newest_ts_ns is not None:
            self._raise_to(NEWEST, newest_ts_ns / NS_PER_S)
        for kind, count in kinds.items():
            self._add(RECORDS, count, kind)
        self._add(BYTES_WRITTEN, size_bytes, "ledger")

    def findings(self, counts: Iterable[tuple[str, int]]) -> None:
        """What stands by now: impossible or missed decisions, contradictions; how many of each."""
        for what, count in counts:
            self._set(FINDINGS, count, what)

    def segments_sealed(self, count: int = 1) -> None:
        """Segments were sealed."""
        self._add(SEALED, count)

    def shipping_started(self) -> None:
        """Segments are shipped from now on: the numbers of it begin with 0."""
        for family in (SHIPPED, BYTES_SHIPPED, SHIP_FAILURES):
            self._add(family, 0)

    def segment_shipped(self, size_bytes: int) -> None:
        """A segment was stored, and proved to be there."""
        self._add(SHIPPED, 1)
        self._add(BYTES_SHIPPED, size_bytes)

    def ship_backlog(self, segments: int, size_bytes: int) -> None:
        """So much is sealed and not shipped."""
        self._set(BACKLOG, segments)
        self._set(BACKLOG_BYTES, size_bytes)

    def ship_succeeded(self, now_ns: int) -> None:
        """Nothing is left to ship."""
        self._set(SHIP_SUCCESS, now_ns / NS_PER_S)

    def ship_failed(self) -> None:
        """Shipping failed, and is put off."""
        self._add(SHIP_FAILURES, 1)

    def ready(self) -> None:
        """What was captured before is read, and the recorder follows live."""
        self._set(READY, 1)

    @property
    def is_ready(self) -> bool:
        """See :meth:`ready`."""
        with self._lock:
            return self._values[READY][()] == 1

    def sources_down(self) -> list[str]:
        """Sources that could not be read when they were last polled, sorted."""
        with self._lock:
            return sorted(source for (source,), up in self._values[UP].items() if not up)

    def text(self) -> str:
        """All that is known, in Prometheus' text format (version 0.0.4)."""
        with self._lock:
            values = {family: dict(series) for family, series in self._values.items()}
        observed, settled = values[OBSERVED].get(()), values[SETTLED].get(())
        if observed is not None and settled is not None:
            values[LAG][()] = max(0.0, observed - settled)
        values[MEMORY][()] = _resident_bytes()
        values[CPU][()] = time.process_time()
        return "".join(line for family in FAMILIES for line in _lines(family, values[family]))

    def _add(self, family: Family, amount: float, *labels: str) -> None:
        with self._lock:
            series = self._values[family]
            key = _key(series, labels)
            series[key] = series.get(key, 0) + amount

    def _set(self, family: Family, value: float, *labels: str) -> None:
        with self._lock:
            series = self._values[family]
            series[_key(series, labels)] = value

    def _raise_to(self, family: Family, value: float) -> None:
        with self._lock:
            series = self._values[family]
            series[()] = max(value, series.get((), value))


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_bytes().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _key(series: Mapping[tuple[str, ...], float], labels: tuple[str, ...]) -> tuple[str, ...]:
    """The series that is meant, or the one of all that are too many."""
    key = tuple(label[:_LABEL_LENGTH_MAX] for label in labels)
    return key if key in series or len(series) < _SERIES_MAX else (_OTHER,) * len(labels)


def _lines(family: Family, series: Mapping[tuple[str, ...], float]) -> Iterator[str]:
    if not series:
        return
    yield f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.type}\n"
    for labels, value in sorted(series.items()):
        pairs = zip(family.labels, labels, strict=True)
        inside = ",".join(f'{name}="{_escaped(label)}"' for name, label in pairs)
        number = str(int(value)) if value == int(value) else repr(value)
        yield f"{family.name}{{{inside}}} {number}\n" if inside else f"{family.name} {number}\n"


def _escaped(label: str) -> str:
    return label.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
