"""The kubelet's writes of the QoS level: when each was due, and what explains it.

A write is due once a minute from the start of the QoS container manager on, when a pod is
first synced (before its cgroup is made), and after a pod was killed. All of them are known from
the first reading, so that each is explained by what is told before and behind it.

Source: v1.36.2 pkg/kubelet/cm/qos_container_manager_linux.go Start, pkg/kubelet/kubelet.go SyncPod
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import groupby
from typing import Final

import msgspec

from kubeledger.cgroups.records import QOSCgroupsUpdated, QOSReserveComputed
from kubeledger.machine import Record
from kubeledger.units import NS_PER_S
from kubeledger.verify.bench import Bench
from kubeledger.verify.evidence.coverage import SILENCE_NS
from kubeledger.verify.evidence.podlife import PodLife
from kubeledger.verify.evidence.processes import Process
from kubeledger.verify.rules.cgroups.lists import Sightings

__all__ = ["PERIOD_NS", "READ_NS", "WHOLE_LOG", "Write", "Writes"]

WHOLE_LOG: Final = "the whole log, of which a piece with a beat of the minute timer is not there"

PERIOD_NS: Final = 60 * NS_PER_S
READ_NS: Final = 5 * NS_PER_S
"""A snapshot is named after the second in which its reading began; it is over by this time."""
_EARLY_NS: Final = 20_000_000
_LATE_NS: Final = NS_PER_S
_STRAIGHT_NS: Final = 50_000_000
"""A beat that is later than this may be a slow one, or one that was moved."""
_SAME_NS: Final = 1000
_LOGGED_NS: Final = NS_PER_S
"""A write is logged so soon after what it reckons with."""
_RETRIES_NS: Final = 300 * NS_PER_S
_KILLED_NS: Final = 10 * NS_PER_S
"""So long after the last sign of an end the QoS level is written for it."""
_GRACE_NS: Final = 60 * NS_PER_S
"""The same where nothing tells that its containers have ended."""
_TRIED: Final = 8


class Write(msgspec.Struct):
    """One write of the QoS level.

    Attributes:
        failed: the kernel refused some of it.
        reserves: QoS class -> (seq, bytes, percent) as logged right before it.
        explained: what it was due for; empty where nothing explains it.
        inputs: records that this rests on.
        beat: of the timer.
    """

    seq: int
    ts_ns: int
    failed: bool
    reserves: dict[str, tuple[int, int, int]] = {}
    explained: str = ""
    inputs: tuple[int, ...] = ()
    beat: bool = False


class Writes:
    """All writes of a node.

    Attributes:
        all: in the order of time, once the first reading is over (``settle``).
    """

    def __init__(self, bench: Bench, seen: Sightings) -> None:
        self._bench = bench
        self._seen = seen
        self.all: list[Write] = []
        self._reserves: list[tuple[int, int, QOSReserveComputed]] = []
        self._times: list[int] = []
        self._by_seq: dict[int, Write] = {}
        self._runs: list[list[int]] = []
        self._settled = False
        self._lines: set[int] = set()

    def alive(self, record: Record) -> None:
        """First reading: a line of the log."""
        self._lines.add(record.ts_ns // NS_PER_S)

    def foresee(self, record: Record) -> None:
        """Take in a record of the first reading."""
        if isinstance(record.body, QOSReserveComputed):
            self._reserves.append((record.ts_ns, record.seq, record.body))
        elif isinstance(record.body, QOSCgroupsUpdated):
            self.all.append(Write(record.seq, record.ts_ns, record.body.failed))

    def settle(self) -> None:
        """The first reading is over."""
        if self._settled:
            return
        self._settled = True
        self.all.sort(key=lambda write: (write.ts_ns, write.seq))
        self._times = [write.ts_ns for write in self.all]
        self._by_seq = {write.seq: write for write in self.all}
        self._give_reserves()
        timeline = self._bench.timeline
        lives: dict[int, list[PodLife]] = {}
        for pod in timeline.pods.values():
            for life in pod.lives:
                lives.setdefault(life.process, []).append(life)
        for process, group in groupby(self.all, key=lambda write: timeline.process(write.ts_ns)):
            writes = list(group)
            if process is not None:
                self._explain_beats(process, writes)
                self._explain_by_pods(writes, lives.get(process.number, []))

    def of(self, seq: int) -> Write:
        """The write that a record tells of."""
        return self._by_seq[seq]

    def before(self, ts_ns: int) -> list[Write]:
        """The last write by a time, and those of the same instant before it in the log."""
        index = bisect_right(self._times, ts_ns)
        return self.all[max(index - 1, 0) : index]

    def within(self, start_ns: int, end_ns: int) -> list[Write]:
        """Writes behind a time, up to another."""
        return self.all[bisect_right(self._times, start_ns) : bisect_right(self._times, end_ns)]

    def around(self, ts_ns: int) -> tuple[int | None, int | None]:
        """The beats of the timer before and behind a time, as far as one run of it has them."""
        for beats in self._runs:
            if beats[0] <= ts_ns <= beats[-1]:
                index = bisect_right(beats, ts_ns)
                return beats[index - 1], beats[min(index, len(beats) - 1)]
        before = [beats[-1] for beats in self._runs if beats[-1] < ts_ns]
        return max(before, default=None), None

    def minutes_lost(self, ts_ns: int) -> bool:
        """Whether a beat is missing around a time, so that a piece of the log is."""
        last_ns, next_ns = self.around(ts_ns)
        return (
            last_ns is not None and next_ns is not None and next_ns - last_ns > 3 * PERIOD_NS // 2
        )

    def ends_early(self, ts_ns: int) -> bool:
        """Whether the log of a process may have ended before a time, and another began later.

        A process that stood still writes nothing, nor does one whose lines are lost.
        """
        process = self._bench.timeline.process(ts_ns)
        following = self._bench.timeline.processes.all[process.number + 1 :] if process else []
        if process is None or not following:
            return False
        start_ns = following[0].started_ns
        lines = sorted(line for line in self._lines if line * NS_PER_S < start_ns)
        last_ns = (lines[-1] + 1) * NS_PER_S if lines else process.started_ns
        lost = not following[0].from_start or start_ns - last_ns > SILENCE_NS
        return lost and ts_ns >= last_ns

    def _give_reserves(self) -> None:
        self._reserves.sort(key=lambda told: told[:2])
        index = 0
        for write in self.all:
            while index < len(self._reserves) and self._reserves[index][1] < write.seq:
                ts_ns, seq, body = self._reserves[index]
                if 0 <= write.ts_ns - ts_ns <= _LOGGED_NS:
                    told = (seq, body.requested_bytes, body.reserve_percent)
                    write.reserves = {**write.reserves, body.qos_class: told}
                index += 1

    # The timer ----------------------------------------------------------------------------

    def _explain_beats(self, process: Process, writes: Sequence[Write]) -> None:
        """Find the writes whole minutes apart; a clock that is set begins another run of them."""
        first_seen = process.from_start and writes[0].ts_ns <= process.started_ns + PERIOD_NS
        moved = False
        while writes:
            times = [write.ts_ns for write in writes]
            runs = [_beats(times, index) for index in range(min(len(times), _TRIED))]
            beats = max(runs, key=len)
            if len(beats) < 2 and not (first_seen and not moved):
                return
            self._name_beats(writes, beats, first=first_seen and not moved, moved=moved)
            self._runs.append(beats)
            writes = writes[bisect_right(times, beats[-1]) :]
            moved = True

    def _name_beats(
        self, writes: Sequence[Write], beats: Sequence[int], *, first: bool, moved: bool
    ) -> None:
        last_ns: int | None = None
        at = {write.ts_ns: write for write in reversed(writes)}
        for ts_ns in beats:
            write = at[ts_ns]
            write.beat = True
            if last_ns is not None:
                minutes = round((ts_ns - last_ns) / PERIOD_NS)
                write.explained = (
                    f"the timer of this process was due {minutes * 60} s after its last beat, and "
                    f"it came after {(ts_ns - last_ns) / NS_PER_S:.3f} s"
                )
            elif first and write is writes[0]:
                write.explained = "it is the first one, at the start of the QoS container manager"
            else:
                write.explained = (
                    "it and the writes whole minutes from it are beats of the minute timer"
                    + (", whose beat the node's clock moved" if moved else "")
                )
            last_ns = ts_ns

    # Pods ---------------------------------------------------------------------------------

    def _explain_by_pods(self, writes: Sequence[Write], lives: Sequence[PodLife]) -> None:
        """Give each other write to a pod: each has one of its own for its first sync."""
        synced = sorted(
            ((*window, life) for life in lives if (window := self._first_sync(life)) is not None),
            key=lambda each: (each[0], each[1], each[2].seq),
        )
        killed = [(*window, life) for life in lives if (window := self._killed(life)) is not None]
        waiting: list[tuple[int, int, PodLife]] = []
        index = 0
        twin: Write | None = None
        for write in writes:
            ts_ns = write.ts_ns
            while index < len(synced) and synced[index][0] <= ts_ns:
                waiting.append(synced[index])
                index += 1
            waiting = [each for each in waiting if each[1] >= ts_ns]
            same = twin if twin is not None and ts_ns - twin.ts_ns < _SAME_NS else None
            twin = write
            if write.explained:
                continue
            if same is not None and same.explained:
                write.explained = f"the log tells of it twice, and {same.explained}"
                write.inputs = (same.seq,)
            elif waiting:
                # Whose line tells when it came goes first; then whose time is over first.
                chosen = min(waiting, key=lambda each: (each[2].vague, each[1], each[2].seq))
                waiting.remove(chosen)
                life = chosen[2]
                write.explained = (
                    f"pod {life.full_name} was new and had no cgroup yet when it was first synced"
                )
                write.inputs = (life.seq,)
            else:
                down = [each for each in killed if each[0] <= ts_ns <= each[1]]
                if down:
                    life = max(down, key=lambda each: (each[0], each[2].seq))[2]
                    write.explained = f"pod {life.full_name} was being taken down"
                    write.inputs = (life.seq,)

    def _first_sync(self, life: PodLife) -> tuple[int, int] | None:
        """When the pod's own write can have been; None where its cgroup was there before."""
        made_ns = self._seen.made_ns.get(life.uid or "")
        if made_ns is not None and life.since_ns - made_ns > READ_NS and not life.vague:
            return None
        pod = self._bench.timeline.pods[life.key]
        if life.admitted is False and not pod.runs:
            return None  # refused, so that nothing is made
        told_ns = life.since_ns if life.add_seq is not None else max(life.since_ns, life.seen_ns)
        ran = [run.started_ns for run in pod.runs if run.started_ns is not None]
        until_ns = min((t for t in ran if t >= life.since_ns), default=told_ns + _RETRIES_NS)
        if made_ns is not None and made_ns >= life.since_ns:
            until_ns = min(until_ns, made_ns + READ_NS)
        if life.ended_ns is not None:
            until_ns = min(until_ns, life.ended_ns)
        return life.since_ns, until_ns

    def _killed(self, life: PodLife) -> tuple[int, int] | None:
        """When the pod can have been taken down; None where nothing tells that it was."""
        pod, start_ns = self._bench.timeline.pods[life.key], life.ending_ns
        if life.admitted is False and not pod.runs:
            # Since 1.22 a worker may take down what was refused and is deleted (UpdatePod).
            start_ns = life.deleted_ns or life.removed_ns
        if start_ns is None:
            return None
        signs = [start_ns, life.deleted_ns, life.removed_ns, life.terminated_ns]
        signs += [life.doomed_ns, life.ended_ns]
        runs = [run for run in pod.runs if (run.died_ns or start_ns) >= life.since_ns]
        for run in runs:
            signs += [run.killed_ns, run.died_ns]
        up = any(run.died_ns is None for run in runs)
        last_ns = max(ts_ns for ts_ns in signs if ts_ns is not None)
        return start_ns, last_ns + (_GRACE_NS if up else _KILLED_NS)


def _beats(times: Sequence[int], index: int) -> list[int]:
    """The longest run of writes whole minutes apart that begins with one of them."""
    beats, bases = [times[index]], [times[index]]
    while True:
        found: tuple[int, int, int, int] | None = None
        for base in bases:
            for minutes in range(1, (times[-1] - base + PERIOD_NS) // PERIOD_NS + 1):
                due = base + minutes * PERIOD_NS
                first = max(bisect_left(times, due - _EARLY_NS), 0)
                last = bisect_right(times, due + minutes * _LATE_NS)
                near = [t for t in times[first:last] if t > beats[-1]]
                if near:
                    nearest = min(near, key=lambda t: abs(t - due))
                    key = (minutes, abs(nearest - due), nearest, due)
                    found = key if found is None else min(found, key)
                    break
        if found is None:
            return beats
        _, late, ts_ns, due = found
        beats.append(ts_ns)
        bases = [due, ts_ns] if late > _STRAIGHT_NS else [ts_ns]
