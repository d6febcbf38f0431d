"""The kubelet's writes of the QoS level: when each was due, and what explains it.

A write is due once a minute from the start of the QoS container manager on, when a pod is
first synced (before its cgroup is made), and after a pod was killed. All of them are known from
the first reading, so that each is explained by the records before and after it.

Source: v1.36.2 pkg/kubelet/cm/qos_container_manager_linux.go Start, pkg/kubelet/kubelet.go SyncPod
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import Final

import msgspec

from kubeledger.model.bodies.cgroups import QOSCgroupsUpdated, QOSReserveComputed
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.evidence.pod_intervals import PodActiveInterval
from kubeledger.verify.evidence.processes import Process

PERIOD_NS: Final = 60 * NS_PER_S
_OFF_NS: Final = NS_PER_S
"""A tick may be so late, and the next on time again."""
_LOGGED_NS: Final = NS_PER_S
"""A write is logged so soon after the pods that it counts."""
_RETRIES_NS: Final = 300 * NS_PER_S
_KILLED_NS: Final = 10 * NS_PER_S
"""So long after the last sign of an end the QoS level is written for it."""
_GRACE_NS: Final = 60 * NS_PER_S
"""The same where nothing says that its containers have ended."""
_TRIED: Final = 8


class Write(msgspec.Struct):
    """One write of the QoS level.

    Attributes:
        failed: the kernel refused some of it.
        reserves: QoS class -> (seq, bytes, percent) as logged right before it.
        explained: what it was due for; empty where nothing explains it.
        inputs: records that this rests on.
    """

    seq: int
    ts_ns: int
    failed: bool
    reserves: dict[str, tuple[int, int, int]] = {}
    explained: str = ""
    inputs: tuple[int, ...] = ()

    def due(self, why: str, *inputs: int) -> None:
        """Explain it."""
        self.explained, self.inputs = why, inputs


class Writes:
    """All writes of a node.

    Attributes:
        all: in the order of time, once the first reading is over (``settle``).
    """

    def __init__(self, context: VerifyContext) -> None:
        self._context = context
        self.all: list[Write] = []
        self._reserves: list[Record] = []
        self._times: list[int] = []
        self._by_seq: dict[int, Write] = {}
        self._runs: list[list[int]] = []

    def prescan(self, record: Record, body: QOSCgroupsUpdated | QOSReserveComputed) -> None:
        """Take in a record of the first reading."""
        if isinstance(body, QOSReserveComputed):
            self._reserves.append(record)
        else:
            self.all.append(Write(record.seq, record.ts_ns, body.failed))

    def settle(self) -> None:
        """The first reading is over."""
        if len(self._by_seq) == len(self.all):
            return
        self.all.sort(key=lambda write: (write.ts_ns, write.seq))
        self._times = [write.ts_ns for write in self.all]
        self._by_seq = {write.seq: write for write in self.all}
        self._give_reserves()
        timeline = self._context.timeline
        intervals = [interval for pod in timeline.pods.values() for interval in pod.intervals]
        intervals.sort(key=lambda interval: interval.process)
        of = {
            number: list(group)
            for number, group in groupby(intervals, lambda interval: interval.process)
        }
        for process, group in groupby(self.all, key=lambda write: timeline.process(write.ts_ns)):
            writes = list(group)
            if process is not None:
                self._explain_ticks(process, writes)
                self._explain_by_pods(writes, of.get(process.number, []))

    def of(self, seq: int) -> Write:
        """The write that a record shows."""
        return self._by_seq[seq]

    def before(self, ts_ns: int) -> list[Write]:
        """The last write by a time, and those of the same instant before it in the log."""
        index = bisect_right(self._times, ts_ns)
        return self.all[max(index - 1, 0) : index]

    def within(self, start_ns: int, end_ns: int) -> list[Write]:
        """Writes after a time, up to another."""
        return self.all[bisect_right(self._times, start_ns) : bisect_right(self._times, end_ns)]

    def around(self, ts_ns: int) -> tuple[int | None, int | None]:
        """The ticks of the timer before and after a time, as far as one run of it has them."""
        for ticks in self._runs:
            if ticks[0] <= ts_ns <= ticks[-1]:
                index = bisect_right(ticks, ts_ns)
                return ticks[index - 1], ticks[min(index, len(ticks) - 1)]
        before = [ticks[-1] for ticks in self._runs if ticks[-1] < ts_ns]
        return max(before, default=None), None

    def _give_reserves(self) -> None:
        """Each write logged its reserves right before it."""
        seqs = [write.seq for write in sorted(self.all, key=lambda write: write.seq)]
        for record in sorted(self._reserves, key=lambda record: record.seq):
            index, body = bisect_right(seqs, record.seq), record.body
            assert isinstance(body, QOSReserveComputed)
            write = self._by_seq[seqs[index]] if index < len(seqs) else None
            if write is not None and 0 <= write.ts_ns - record.ts_ns <= _LOGGED_NS:
                reserve = (record.seq, body.requested_bytes, body.reserve_percent)
                write.reserves = {**write.reserves, body.qos_class: reserve}

    # The timer ----------------------------------------------------------------------------

    def _explain_ticks(self, process: Process, writes: Sequence[Write]) -> None:
        """Find the writes whole minutes apart; a clock that is set begins another run of them."""
        first = process.from_start and writes[0].ts_ns <= process.started_ns + PERIOD_NS
        while writes:
            times = [write.ts_ns for write in writes]
            ticks = max((_ticks(times, n) for n in range(min(len(times), _TRIED))), key=len)
            if len(ticks) < 2 and not first:
                return
            whys = {ticks[0]: "the minute timer fired, as it did at others minutes from it"}
            for last_ns, ts_ns in pairwise(ticks):
                earlier = f"{(ts_ns - last_ns) / NS_PER_S:.3f} s earlier"
                whys[ts_ns] = f"the timer fires once a minute, and last fired {earlier}"
            for write in writes:
                if write.ts_ns in whys:
                    write.due(whys[write.ts_ns])
            self._runs.append(ticks)
            writes, first = writes[bisect_right(times, ticks[-1]) :], False

    # Pods ---------------------------------------------------------------------------------

    def _explain_by_pods(
        self, writes: Sequence[Write], intervals: Sequence[PodActiveInterval]
    ) -> None:
        """Explain each other write by a pod that came or went."""
        coming = [(*span, interval.seq) for interval in intervals for span in self._spans(interval)]
        coming.sort(reverse=True)
        going_on: list[tuple[int, int, str, int]] = []
        for write in writes:
            while coming and coming[-1][0] <= write.ts_ns:
                going_on.append(coming.pop())
            going_on = [span for span in going_on if span[1] >= write.ts_ns]
            if going_on and not write.explained:
                _, _, why, seq = max(going_on)
                write.due(why, seq)

    def _spans(self, interval: PodActiveInterval) -> Iterator[tuple[int, int, str]]:
        """When the QoS level can have been written for a pod, and why."""
        runs, since_ns = self._context.timeline.pods[interval.key].runs, interval.since_ns
        ran = [run.started_ns for run in runs if run.started_ns is not None]
        refused = interval.admitted is False and not runs
        if not refused and (interval.start_time_unknown or min(ran, default=since_ns) >= since_ns):
            logged_ns = (
                since_ns if interval.add_seq is not None else max(since_ns, interval.seen_ns)
            )
            until_ns = min((t for t in ran if t >= since_ns), default=logged_ns + _RETRIES_NS)
            until_ns = until_ns if interval.ended_ns is None else min(until_ns, interval.ended_ns)
            why = f"pod {interval.full_name} was new and had no cgroup yet when it was first synced"
            yield since_ns, until_ns, why
        # Since 1.22 a worker may remove what was refused and is deleted (UpdatePod).
        start_ns = (interval.deleted_ns or interval.removed_ns) if refused else interval.ending_ns
        if start_ns is not None:
            ends = [interval.removed_ns, interval.terminated_ns, interval.ended_ns]
            died = [run.died_ns for run in runs if run.died_ns is not None and not run.sandbox]
            up = any(run.died_ns is None for run in runs)
            if died and not any(run.died_ns is None for run in runs if not run.sandbox):
                start_ns = min(start_ns, max(died))  # the line of its end may be lost
            last_ns = max(ts_ns for ts_ns in (start_ns, *ends, *died) if ts_ns is not None)
            last_ns += _GRACE_NS if up else _KILLED_NS
            if ends == [None, None, None]:
                last_ns = max(last_ns, self._times[-1])  # what fails is tried again
            yield start_ns, last_ns, f"pod {interval.full_name} was being taken down"


def _ticks(times: Sequence[int], index: int) -> list[int]:
    """The longest run of writes whole minutes apart that begins with one of them."""
    ticks, found = [], [times[index]]
    while found:
        ticks.append(found[0])
        for minutes in range(1, (times[-1] - ticks[-1]) // PERIOD_NS + 2):
            due = ticks[-1] + minutes * PERIOD_NS
            first = bisect_left(times, due - _OFF_NS)
            found = list(times[first : bisect_right(times, due + minutes * _OFF_NS)])
            found.sort(key=lambda ts_ns: abs(ts_ns - due))
            if found:
                break
    return ticks
