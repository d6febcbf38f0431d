"""Beats: what a kubelet does again and again while it runs, and the gaps between."""

from __future__ import annotations

import statistics
from itertools import pairwise

import msgspec

from kubeledger.model.units import NS_PER_S

__all__ = ["Beat", "Gap", "Silence", "gaps_between"]

_SLACK_NS = 15 * NS_PER_S
"""Work that takes long puts a beat off; what comes later than this does not follow from it."""


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """A time in which beats are missing.

    Attributes:
        beat: what should have been there.
        period_ns: its period.
        missing: beats that are not there.
    """

    beat: str
    period_ns: int
    from_ts_ns: int
    to_ts_ns: int
    missing: int


class Silence(msgspec.Struct, frozen=True, kw_only=True):
    """A time in which no record rests on the log.

    Attributes:
        file, line: of the last record before; ``file_after``, ``line_after`` of the next.
    """

    from_ts_ns: int
    to_ts_ns: int
    file: str
    line: int
    file_after: str
    line_after: int


class Beat(msgspec.Struct, kw_only=True):
    """One regular act of one kubelet process.

    Attributes:
        times: when it was seen, in order.
        begin_ns, end_ns: when its kubelet process began and ended, as its log shows it.
    """

    name: str
    period_ns: int
    begin_ns: int
    end_ns: int = 0
    times: list[int] = []

    def add(self, ts_ns: int) -> None:
        """It was seen; what is said of it within a second belongs together."""
        if not self.times or ts_ns - self.times[-1] >= NS_PER_S:
            self.times.append(ts_ns)


def gaps_between(beat: Beat) -> list[Gap]:
    """Gaps in a beat, from its process's begin to its end.

    A beat that is not regular in the records is none: then nothing can be said.
    """
    steps = [b - a for a, b in pairwise(beat.times)]
    if not steps or statistics.median_low(steps) > beat.period_ns * 3 // 2:
        return []
    bounds = [beat.begin_ns, *beat.times, max(beat.end_ns, beat.times[-1])]
    return [
        Gap(
            beat=beat.name,
            period_ns=beat.period_ns,
            from_ts_ns=before,
            to_ts_ns=after,
            missing=max(1, round((after - before) / beat.period_ns) - 1),
        )
        for before, after in pairwise(bounds)
        if after - before > max(beat.period_ns * 3 // 2, beat.period_ns + _SLACK_NS)
    ]
