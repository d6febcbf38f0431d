"""Log entries in the order of their stamps.

klog stamps a line before it waits for the lock under which lines are written, so lines of
several goroutines stand in a log a little out of order; shippers swap more. Those of one
goroutine have stamps that never go back: ordered by their stamps, and by their place in
the log where these are equal, they are in the order in which they were logged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from kubeledger.importers.facts import Fact
from kubeledger.importers.klog_outputs import ClockStep, LogOutput
from kubeledger.importers.klog_time import STEP_NS

__all__ = ["in_order"]


def in_order(outputs: Iterable[LogOutput], first_ns: int) -> Iterator[tuple[int, LogOutput]]:
    """What a reader gives with its time, which never goes back.

    The newest is always held, so that the line behind it may come before it whatever lies
    between the two; a step of the clock is passed by nothing.

    Args:
        outputs: in the order of the log.
        first_ns: no time is before this one.
    """
    waiting: deque[tuple[int, LogOutput]] = deque()
    suspect: tuple[int, LogOutput] | None = None
    key = first_ns
    for output in outputs:
        ts_ns = output.ts_ns if isinstance(output, Fact) else output.line.ts_ns
        stepped = isinstance(output, ClockStep)
        if suspect is not None:
            # Only what follows tells whether it is late, or the clock was set back before it.
            _insert(waiting, *((waiting[-1][0], suspect[1]) if stepped else suspect))
            suspect = None
        if stepped:
            while waiting:
                at_ns, held = waiting.popleft()
                key = max(key, at_ns)
                yield key, held
        if waiting and ts_ns < waiting[-1][0] - STEP_NS:
            suspect = (ts_ns, output)
            continue
        if waiting and ts_ns < waiting[-1][0]:
            _insert(waiting, ts_ns, output)
        else:
            waiting.append((ts_ns, output))
        upto_ns = waiting[-1][0] - STEP_NS
        while waiting[0][0] <= upto_ns:
            at_ns, held = waiting.popleft()
            key = max(key, at_ns)
            yield key, held
    if suspect is not None:
        _insert(waiting, *suspect)
    for at_ns, held in waiting:
        key = max(key, at_ns)
        yield key, held


def _insert(waiting: deque[tuple[int, LogOutput]], ts_ns: int, output: LogOutput) -> None:
    later = []
    while waiting and waiting[-1][0] > ts_ns:
        later.append(waiting.pop())
    waiting.append((ts_ns, output))
    waiting.extend(reversed(later))
