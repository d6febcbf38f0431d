"""Lines at other times: a clock that is set back, relists that stall, goroutines that log late."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from random import Random

Lines = list[bytes]

_STAMP = re.compile(rb"([IWEF])(\d{4} \d\d:\d\d:\d\d\.\d{6})")
_FORMAT = "%Y%m%d %H:%M:%S.%f"
_YEAR = b"2026"
_LATEST = timedelta(seconds=4)
"""Lines of a slow node stand so far out of order."""
_ROW = 8
"""Hardly ever do so many lines in a row, as all do where the clock is set back."""
_RELISTED = b"SyncLoop (PLEG)"


def time_of(line: bytes) -> datetime | None:
    """The stamp of a line of klog."""
    found = _STAMP.match(line)
    return None if found is None else datetime.strptime((_YEAR + found[2]).decode(), _FORMAT)


def moved_by(line: bytes, seconds: float) -> bytes:
    """A line at another time; one without a stamp stays as it is."""
    time = time_of(line)
    return line if time is None else _at(line, time + timedelta(seconds=seconds))


def _at(line: bytes, time: datetime) -> bytes:
    return line[:1] + time.strftime(_FORMAT)[4:].encode() + line[21:]


def set_back(seconds: int) -> Callable[[Lines, Random], Lines]:
    """From some line on the clock is behind what it was."""

    def change(lines: Lines, random: Random) -> Lines:
        first = random.randrange(len(lines) // 8, len(lines) * 7 // 8)
        back = timedelta(seconds=seconds)
        return [
            line if n < first or (time := time_of(line)) is None else _at(line, time - back)
            for n, line in enumerate(lines)
        ]

    return change


def relists(lines: Lines, random: Random) -> Lines:
    """On a node that is slow the sync loop comes to what relists saw up to 40 s late."""
    times = [time for line in lines if (time := time_of(line)) is not None]
    if not times:  # stamps were lost before
        return lines
    done, held = list[bytes](), list[bytes]()
    until = times[0]
    slow_from = times[random.randrange(len(times) // 2)]
    slow_to = slow_from + (times[-1] - times[0]) / 4
    for line in lines:
        time = time_of(line)
        if time is not None and time > until:
            done += [_at(each, until) for each in held]
            held = []
            if slow_from <= time <= slow_to:
                until = time + timedelta(seconds=random.uniform(5, 40))
        if time is not None and time <= until and _RELISTED in line:
            held.append(line)
        else:
            done.append(line)
    return done + [_at(each, until) for each in held]


def received(lines: Lines) -> Iterator[datetime]:
    """When a carrier took each line in: its clock is set back with that of the node alone."""
    times = [time_of(line) for line in lines]
    now = next((time for time in times if time is not None), datetime(2026, 1, 1))
    for at, time in enumerate(times):
        if time is not None:
            row = [each for each in times[at : at + _ROW] if each is not None]
            is_late = now - time <= _LATEST and (len(row) < _ROW or max(row) >= now)
            now = max(now, time) if is_late else time
        yield now


def carried(lines: Lines, random: Random) -> Lines:
    """Carried by journald: some entries stand seconds late, and it dates all as they come.

    A log whose lines show no time of klog's form stays as it is.
    """
    if all(time_of(line) is None for line in lines):
        return lines
    entries: list[Lines] = []
    for line in lines:
        if time_of(line) is None and entries:
            entries[-1].append(line)
        else:
            entries.append([line])
    done: Lines = []
    held: list[tuple[datetime, Lines]] = []
    for entry, now in zip(entries, received([entry[0] for entry in entries]), strict=True):
        due = [each for at, each in held if at <= now]
        held = [(at, each) for at, each in held if at > now]
        if random.random() < 0.001:
            held.append((now + timedelta(seconds=random.uniform(1.5, 4)), entry))
        else:
            due.append(entry)
        stamp = now.strftime("%Y-%m-%dT%H:%M:%S.%f+00:00").encode()
        done += [stamp + b" node-t kubelet[1]: " + line for each in due for line in each]
    return done


def zones(lines: Lines, random: Random) -> Lines:
    """Carried, and from some line on dated by the clock of another time zone."""
    done = carried(lines, random)
    first, hours = random.randrange(len(done)), random.choice((-7, 2, 5))
    zone = timezone(timedelta(hours=hours))
    return done if done is lines else done[:first] + [_in_zone(line, zone) for line in done[first:]]


def _in_zone(line: bytes, zone: timezone) -> bytes:
    stamp, _, rest = line.partition(b" ")
    return (
        datetime.fromisoformat(stamp.decode()).astimezone(zone).isoformat().encode() + b" " + rest
    )
