"""The kubelet's writes of the QoS level: when they were due, and what explains each.

A write is due once a minute from the start of the QoS container manager on, when a pod is
first synced (before its cgroup is made), and after a pod was killed.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Literal

import msgspec

from kubeledger.cgroups.records import QOSCgroupsUpdated
from kubeledger.machine import Record
from kubeledger.units import NS_PER_S
from kubeledger.verify.cgroups.life import Life
from kubeledger.verify.cgroups.lives import Lives
from kubeledger.verify.cgroups.pods import Rules

__all__ = ["PERIOD_NS", "Cause", "Timer", "Write", "Writes"]

PERIOD_NS: Final = 60 * NS_PER_S
_EARLY_NS: Final = 20_000_000
_LATE_NS: Final = NS_PER_S
_STRAIGHT_NS: Final = 50_000_000
"""A beat that is later than this may be a slow one, or one that was moved."""
_SAME_NS: Final = 1000
_KEPT_NS: Final = 150 * NS_PER_S
_RETRIES_NS: Final = 300 * NS_PER_S

Cause = Literal["timer", "first sync", "kill"]


class Write(msgspec.Struct):
    """One write of the QoS level.

    Attributes:
        record: the decision.
        rules: under which it was made; None where they are not known.
        reserves: QoS class -> (seq, bytes, percent) as logged right before it.
        run: number of the kubelet process in the records.
        requests: memory requests (Guaranteed, Burstable) it reckoned with, once they are
            known to be so.
        cause: what explains it; None while nothing does.
        explained: words for the cause.
        inputs: records that the cause rests on.
    """

    record: Record
    rules: Rules | None
    reserves: dict[str, tuple[int, int, int]]
    run: int
    requests: tuple[int, int] | None = None
    cause: Cause | None = None
    explained: str = ""
    inputs: tuple[int, ...] = ()

    @property
    def ts_ns(self) -> int:
        """Its time."""
        return self.record.ts_ns

    @property
    def failed(self) -> bool:
        """Whether the kernel refused some of it."""
        assert isinstance(self.record.body, QOSCgroupsUpdated)
        return self.record.body.failed


class Timer:
    """The minute timer of one kubelet process.

    Attributes:
        beats: (<= 2,) times from which the next beat may count; the regular one first.
        first: it was seen from its first beat on.
    """

    def __init__(self, *, first: bool) -> None:
        self.first = first
        self.beats: list[int] = []

    def due(self, ts_ns: int) -> int | None:
        """How many minutes after the last beat a write comes; None when it is not on a beat."""
        for beat in self.beats:
            minutes = round((ts_ns - beat) / PERIOD_NS)
            late = ts_ns - beat - minutes * PERIOD_NS
            if minutes >= 1 and -_EARLY_NS <= late <= minutes * _LATE_NS:
                return minutes
        return None

    def beat(self, ts_ns: int) -> None:
        """A write is one."""
        regular: list[int] = []
        for beat in self.beats[:1]:
            minutes = round((ts_ns - beat) / PERIOD_NS)
            if ts_ns - beat - minutes * PERIOD_NS > _STRAIGHT_NS:
                regular.append(beat + minutes * PERIOD_NS)
        self.beats = [*regular, ts_ns]


class Writes:
    """The writes of the last minutes, and the timer of the process that runs.

    Attributes:
        recent: writes, oldest first.
    """

    def __init__(self) -> None:
        self.recent: deque[Write] = deque()
        self.timer = Timer(first=False)
        self.run = 0

    def kubelet_started(self) -> None:
        """The log of a process begins."""
        self.run += 1
        self.timer = Timer(first=False)

    def start_seen(self) -> None:
        """It begins with the start, so that the first write is the first beat."""
        self.timer = Timer(first=True)

    def add(self, write: Write) -> None:
        """Take in one."""
        self.recent.append(write)
        self.forget(write.ts_ns - _KEPT_NS)

    def forget(self, before_ns: int) -> None:
        """Drop writes that no snapshot can show any more, except for the last one before."""
        while len(self.recent) > 1 and self.recent[1].ts_ns < before_ns:
            self.recent.popleft()

    def explain(self, write: Write, lives: Lives) -> None:
        """Find what a write was due for, in the order of certainty."""
        timer, ts_ns = self.timer, write.ts_ns
        if not timer.beats and timer.first:
            timer.beat(ts_ns)
            write.cause = "timer"
            write.explained = "it is the first one, at the start of the QoS container manager"
            return
        minutes = timer.due(ts_ns)
        if minutes is not None:
            since = timer.beats[0] if timer.beats else ts_ns
            write.cause = "timer"
            write.explained = (
                f"the timer of this process was due {minutes * 60} s after its last beat, and it "
                f"came after {(ts_ns - since) / NS_PER_S:.3f} s"
            )
            timer.beat(ts_ns)
            return
        twin = self._at(ts_ns)
        if twin is not None and twin.cause is not None:
            write.cause, write.inputs = twin.cause, (twin.record.seq,)
            write.explained = f"the log tells of it twice, and {twin.explained}"
            return
        self.explain_by_pods(write, lives)

    def _at(self, ts_ns: int) -> Write | None:
        """A write of the same instant."""
        for write in reversed(self.recent):
            at_ns = write.record.ts_ns
            if at_ns < ts_ns - _SAME_NS:
                return None
            if at_ns < ts_ns + _SAME_NS:
                return write
        return None

    def explain_by_pods(self, write: Write, lives: Lives) -> None:
        """Find the pod that it was for; what is told later may show another one."""
        ts_ns = write.ts_ns
        if (life := _first_synced(lives, ts_ns)) is not None:
            life.written += 1
            write.cause = "first sync"
            write.explained = (
                f"pod {life.namespace}/{life.name} was new and had no cgroup yet when it was "
                "first synced"
            )
            write.inputs = (life.seq,)
        elif (life := _killed(lives, ts_ns)) is not None:
            write.cause = "kill"
            write.explained = f"pod {life.namespace}/{life.name} was being taken down"
            write.inputs = (life.seq,)


def _first_synced(lives: Lives, ts_ns: int) -> Life | None:
    """The oldest pod whose own write is still to come."""
    waiting = [
        life
        for life in lives.all()
        if not (life.written or life.rejected)
        and life.since <= ts_ns <= life.told + _RETRIES_NS
        and (life.synced is None or ts_ns <= life.synced)
        and (life.ended is None or life.ended >= ts_ns)
    ]
    return min(waiting, key=_order, default=None)


def _order(life: Life) -> tuple[bool, int, int]:
    """Pods whose coming was told come first, in that order: the kubelet syncs them so."""
    return (life.since != life.told, life.since, life.seq)


def _killed(lives: Lives, ts_ns: int) -> Life | None:
    """A pod whose end had begun and was not long over."""
    ending = [life for life in lives.all() if life.goes_down(ts_ns) and not life.rejected]
    return max(ending, key=lambda life: (life.ending or 0, life.seq), default=None)
