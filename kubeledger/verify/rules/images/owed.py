"""A run of image GC that had to come and of which nothing is heard."""

from __future__ import annotations

from typing import Final

from kubeledger.images.loop import GC_PERIOD_S
from kubeledger.images.records import GarbageCollectionStarted
from kubeledger.machine import Record
from kubeledger.units import NS_PER_S
from kubeledger.verify.bench import Bench
from kubeledger.verify.rules.images.disk import Sample
from kubeledger.verify.rules.images.policy import Policy

__all__ = ["Owed"]

_GAP_NS: Final = 60 * NS_PER_S
"""Nothing is heard of the disk for longer: the log may have a gap."""
_TWO_RUNS_NS: Final = (2 * GC_PERIOD_S + 60) * NS_PER_S
"""Of one run both lines may be lost; not of two in a row."""


class Owed:
    """Watches a disk over the high threshold, in a process whose runs the log has told of."""

    def __init__(self, bench: Bench, rule: str) -> None:
        self._bench = bench
        self._rule = rule
        self.restart()

    def restart(self) -> None:
        """Another process, or another clock."""
        self._heard = False
        self._since: Record | None = None
        self._last_ns = 0

    def heard(self) -> None:
        """The log tells of a run."""
        self._heard, self._since = True, None

    def see(self, record: Record, sample: Sample | None, policy: Policy) -> None:
        """A signal of the disk: how long was it over the threshold?"""
        if sample is None or sample.seq != record.seq:
            return
        gap_ns, self._last_ns = record.ts_ns - self._last_ns, record.ts_ns
        high, percent = policy.high, sample.usage.percent
        if high is None or policy.disabled or not self._heard or percent <= high:
            self._since = None
            return
        if self._since is None or gap_ns > _GAP_NS:
            self._since = record
        if record.ts_ns - self._since.ts_ns <= _TWO_RUNS_NS:
            return
        self._bench.absent(
            record,
            GarbageCollectionStarted.kind,
            subject="node",
            expected={"high_threshold_percent": high},
            why=(
                f"the image filesystem was more than {high} % used for "
                f"{(record.ts_ns - self._since.ts_ns) // NS_PER_S} s, last {percent} %, and the "
                f"loop collects every {GC_PERIOD_S} s, but nothing is recorded of a space pass"
            ),
            rule=self._rule,
            inputs=(self._since.seq, record.seq),
        )
        self.restart()
