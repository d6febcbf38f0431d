"""Ticks that a simulation wrote as one record, taken one by one where that matters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from kubeledger.machine import Record
from kubeledger.prober.records import (
    ProbeCountersRead,
    ProbeExecuted,
    ProbeTicksFolded,
    ProbeTransitioned,
)
from kubeledger.units import NS_PER_S
from kubeledger.verify.lives.steps import counts_as
from kubeledger.verify.lives.worker import RebuiltWorker

__all__ = ["Folded", "ticks_of"]

_SPAN_NS: Final = 60 * NS_PER_S
_LAST: Final = 24
"""So many of the last ticks are taken one by one: kubelet's counts are read among them."""


class Folded:
    """Spans of time in which ticks happened that only a later record tells of; and whose."""

    def __init__(self) -> None:
        self._spans: set[int] = set()
        self._workers: set[tuple[str, str, str]] = set()

    def foresee(self, record: Record) -> None:
        """Take in one record."""
        body = record.body
        assert isinstance(body, ProbeTicksFolded)
        self._spans.update(range(body.first_ts_ns // _SPAN_NS, body.last_ts_ns // _SPAN_NS + 1))
        self._workers.add(_whose(body))

    def later(self, body: ProbeExecuted | ProbeTransitioned | ProbeCountersRead) -> bool:
        """Whether ticks of that worker may be told behind others that came later."""
        return _whose(body) in self._workers

    def covers(self, from_ns: int, to_ns: int) -> bool:
        """Whether there were ticks all through a span, its ends aside."""
        inside = range(from_ns // _SPAN_NS + 1, to_ns // _SPAN_NS)
        return bool(inside) and self._spans.issuperset(inside)


def _whose(
    body: ProbeExecuted | ProbeTicksFolded | ProbeTransitioned | ProbeCountersRead,
) -> tuple[str, str, str]:
    return body.pod_uid or f"{body.namespace}/{body.pod}", body.container, body.probe_type


def ticks_of(
    record: Record, body: ProbeTicksFolded, worker: RebuiltWorker
) -> Iterator[tuple[Record, int]]:
    """The ticks of a record, in order.

    Args:
        record: that stands for them.
        body: of it.
        worker: is asked between two ticks whether those that follow change nothing.

    Yields:
        the record of a tick and 0; or that of the last of several, and how many.
    """
    tick, at = body.tick(), 0
    while at < body.count:
        skipped = body.count - at - _LAST
        if skipped > 1 and at and worker.repeats(counts_as(body.result)):
            at += skipped
            yield _tick(record, body, tick, at - 1), skipped
        else:
            at += 1
            yield _tick(record, body, tick, at - 1), 0


def _tick(record: Record, body: ProbeTicksFolded, tick: ProbeExecuted, number: int) -> Record:
    ts_ns = body.first_ts_ns + number * body.period_ns
    return msgspec.structs.replace(record, ts_ns=ts_ns, kind=tick.kind, v=tick.v, body=tick)
