"""Whether ticks of one worker can be missing between those that the ledger holds.

A worker ticks with its period, so between two ticks that are one period apart there is none.
Where there is room for one more, the log may have lost its line: that no line tells of it
proves nothing. Newer kubelets also run a readiness probe out of turn while it fails; then
there is always room, and only the kubelet's own counts tell.
"""

from __future__ import annotations

__all__ = ["Grid"]

_OUT_OF_TURN = 3
"""So many runs out of turn are thinkable between two ticks; each needs a sync of the pod."""


class Grid:
    """The times of one worker's ticks.

    Attributes:
        newest_ns: time of the newest tick; None before the first, and when times mean nothing.
        open_ns: the newest tick in front of which one may be missing; None for none.
        room: ticks that may be missing since the counts were last compared.
    """

    def __init__(self) -> None:
        self.newest_ns: int | None = None
        self.open_ns: int | None = None
        self.room = 0
        self._was_late = False

    def forget(self) -> None:
        """Ticks are missing, or the clock was set."""
        self.newest_ns = self.open_ns = None
        self._was_late = False

    def is_old(self, ts_ns: int) -> bool:
        """Whether it is a tick that was taken in already, from a line that stands twice."""
        return self.newest_ns is not None and ts_ns <= self.newest_ns

    def tick(
        self,
        ts_ns: int,
        period_ns: int,
        timeout_ns: int,
        *,
        gap_ns: int | None,
        on_time: bool,
        is_first: bool = False,
    ) -> None:
        """Take in a tick.

        Args:
            ts_ns: when it was logged, which is when the probe returned.
            period_ns: of the probe's spec.
            timeout_ns: how long the probe may take.
            gap_ns: since the tick before; for the first one of a container, the longest time
                in which the worker could probe that, or the one before, and no tick is told;
                None when not known.
            on_time: no tick comes out of turn.
            is_first: of a container.
        """
        late = gap_ns is None or gap_ns > (period_ns if is_first else period_ns * 7 // 5)
        # A probe that may take nearly a period may return late once, and at once the next time.
        vague = timeout_ns * 5 > period_ns * 3 and self._was_late
        if late or vague or not on_time:
            self.open_ns = ts_ns
            slots = 1 if gap_ns is None else max(round(gap_ns / period_ns) - 1, 1)
            self.room += slots if on_time else slots + _OUT_OF_TURN
        self._was_late = late
        self.newest_ns = ts_ns

    def room_at(self, now_ns: int, period_ns: int) -> int:
        """Ticks that may be missing since the counts were last compared, and until now."""
        since_ns = 0 if self.newest_ns is None else now_ns - self.newest_ns
        return self.room + max(round(since_ns / period_ns), 0)

    def is_whole(self, from_ns: int) -> bool:
        """Whether no tick can be missing in front of any from that one on."""
        if self.newest_ns is None:
            return False
        return self.open_ns is None or self.open_ns < from_ns
