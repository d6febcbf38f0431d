"""A recorder's own metrics: numbers that its parts update, and their text for Prometheus.

Recorder, shipper and verifier update :class:`Metrics` from any thread. The
text is written by hand: the client library takes 5 MiB of a recorder's 64
(docs/internals/dependencies.md).
"""

from __future__ import annotations

import os
import platform
import threading
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

from kubeledger import __version__

_SERIES_MAX = 200
"""Of one family; what comes later is counted under ``other``, so that memory is bounded."""
_OTHER = "other"

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


FAMILIES: list[Family] = []
"""All metrics, in the order of the page."""


def _full(name: str) -> str:
    return name if name.startswith("process_") else f"kubeledger_{name}"


def _family(type_: Literal["counter", "gauge"], name: str, help_: str, *labels: str) -> Family:
    FAMILIES.append(Family(_full(name), type_, labels, help_))
    return FAMILIES[-1]


_counter, _gauge = partial(_family, "counter"), partial(_family, "gauge")
BUILD = _gauge("build_info", "Version of kubeledger and of Python; always 1.", "version", "python")
READY = _gauge("ready", "1 once all that sources had is captured: the recorder follows live.")
OBSERVED = _gauge(
    "newest_observed_timestamp_seconds",
    "When a source last gave something, or had what cannot be read.",
)
SETTLED = _gauge(
    "newest_settled_timestamp_seconds",
    "When all that sources had was last captured, nothing of a log being unreadable.",
)
READ = _gauge(
    "newest_read_timestamp_seconds",
    "When what was captured was last read; what follows from it is recorded seconds later.",
)
NEWEST = _gauge("newest_record_timestamp_seconds", "Time of the newest record.")
LAG = _gauge("lag_seconds", "How long sources have had more than was read.")
BYTES_READ = _counter("read_bytes_total", "Bytes that a source observed.", "source")
BYTES_WRITTEN = _counter("written_bytes_total", "Bytes written: raw capture, records.", "to")
RECORDS = _counter("records_total", "Records appended to the ledger.", "kind")
GAPS = _counter(
    "gaps_total", "Times that a source could not observe; N stands for numbers.", "source", "reason"
)
UP = _gauge("source_up", "0 while a source, or a part of one, cannot be read.", "source")
SUCCESS = _gauge(
    "source_last_success_timestamp_seconds", "When the source was last polled.", "source"
)
FINDINGS = _gauge("findings", "Findings of `verify -f` that it did not withdraw.", "what")
SEALED = _counter("segments_sealed_total", "Segments of the ledger that were sealed.")
SHIPPED = _counter("segments_shipped_total", "Sealed segments stored and read back.")
BYTES_SHIPPED = _counter("shipped_bytes_total", "Bytes of the segments shipped.")
BACKLOG = _gauge("ship_backlog_segments", "Sealed segments that are not shipped yet.")
BACKLOG_BYTES = _gauge("ship_backlog_bytes", "Bytes of the segments that are not shipped yet.")
SHIP_FAILURES = _counter("ship_failures_total", "Times that shipping failed and was put off.")
SHIP_SUCCESS = _gauge("ship_last_success_timestamp_seconds", "When last nothing was left to ship.")

MEMORY = _gauge("process_resident_memory_bytes", "Resident memory.")
CPU = _counter("process_cpu_seconds_total", "Processor time, user and system.")
START = _gauge("process_start_time_seconds", "When the recorder started.")


class Metrics:
    """The numbers of one process, all in memory; a method takes a microsecond or two."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turned_s = time.monotonic()
        self._values: dict[Family, dict[tuple[str, ...], float]] = {f: {} for f in FAMILIES}
        self.set(BUILD, 1, __version__, platform.python_version())
        self.set(START, time.time())
        self.set(READY, 0)

    def add(self, family: Family, amount: float = 1, *labels: str) -> None:
        with self._lock:
            series = self._values[family]
            key = _key(series, labels)
            series[key] = series.get(key, 0) + amount

    def set(self, family: Family, value: float, *labels: str) -> None:
        with self._lock:
            series = self._values[family]
            series[_key(series, labels)] = value

    def raise_to(self, family: Family, value: float) -> None:
        """Replace a lower value."""
        with self._lock:
            series = self._values[family]
            series[()] = max(value, series.get((), value))

    def drop(self, family: Family, *labels: str) -> None:
        """Forget a series."""
        with self._lock:
            self._values[family].pop(labels, None)

    def loop_turned(self) -> None:
        """The loop has come round once more, whether there was something to do or not."""
        self._turned_s = time.monotonic()

    @property
    def stalled_s(self) -> float:
        """How long ago the loop came round, in seconds."""
        return time.monotonic() - self._turned_s

    @property
    def is_ready(self) -> bool:
        """All that sources had was captured once: the recorder follows live."""
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
