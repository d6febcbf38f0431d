"""klog's stamps (``1121 02:52:41.296376``) to nanoseconds: year, zone, steps of the clock.

klog stamps a line before it waits for the lock under which lines are written. In logs of real
nodes lines stand up to 23 ms after later ones, in rows of a few; of one that was overloaded up to
3.7 s, in rows of 14. Beyond a second three things are told apart by the lines around:

* the clock was set back: the lines that follow are earlier than the ones before; about as many as
  before, where single lines were late before;
* a line is late: it fits before a pause that a line above ended, or it is late by no more than
  five seconds, and time continues from there;
* a stamp is wrong: one line is ahead of, or later than, all others that are in order without it.

A clock that was set back by less shows where no line is as late as the latest ones before, and
those that follow come up to these in order.

Where something carried the log here and dated its lines (journald), that decides whether the clock
moved: a line that was carried on with the latest ones was late, if by no more than a minute. Where
the first line in order again is as late, the carrier goes by the clock of another machine, and that
of the node was set back.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

from kubeledger.ingest.sources.times import api_time, go_date
from kubeledger.model.units import NS_PER_S
from kubeledger.model.wire.catalogue import YEARS, is_storable

STEP_NS = NS_PER_S
"""A log may be this much out of order (goroutines race for the lock); more is a step."""
RACE_NS = NS_PER_S // 10
"""Far more than lines of goroutines that race are out of order."""
_LATE_NS = 5 * NS_PER_S
"""So late are lines of a node that is overloaded at most."""
_MANY = 128
"""So many lines before it are remembered, to tell how many come in that time."""
_SURE = 4
"""So many lines in a row after one that is ahead of them: they did not all wait for the lock."""
_BEHIND_NS = NS_PER_S // 2
"""Carriers of an overloaded node are up to a third of a second late themselves."""
_ROW = 24
"""Lines of a node that is overloaded stand in shorter rows out of order."""
_ALONE = 4
"""A stamp that is wrong is so many times farther off than its neighbours are apart; a pause
that the clock was set back over just so is hardly ever."""

_CARRIED_NS = 60 * NS_PER_S
"""A carrier whose stamps are farther ahead goes by another clock, or zone; no line is so late."""
_ZONE_NS = 900 * NS_PER_S
"""Zones are whole quarters of an hour apart."""
_SECONDS_LIMIT = 100_000_000_000
_JSON_STAMP_MAX = 40
"""Letters of a number that may be a time; the kubelet writes about twenty."""


def stamp_ns(stamp: bytes, year: int) -> int:
    """Nanoseconds since the epoch of a stamp read as UTC.

    Raises:
        ValueError: no such day (29 February in a common year included) or time.
    """
    return _second_ns(stamp[:13], year) + int(stamp[14:20]) * 1000


@lru_cache(1 << 8)
def _second_ns(stamp: bytes, year: int) -> int:
    month, day = int(stamp[0:2]), int(stamp[2:4])
    hour, minute, second = int(stamp[5:7]), int(stamp[8:10]), int(stamp[11:13])
    return int(datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp()) * NS_PER_S


Carried = Callable[[], int | None]
"""When the carrier of the present line dated it; None where nothing did."""


class Doubt(NamedTuple):
    """The stamp of one line is wrong.

    Attributes:
        logged_ns: what it says.
        before_ns, after_ns: the stamps above and below it; the first one counts for it, too.
    """

    logged_ns: int
    before_ns: int
    after_ns: int


class Clock:
    """Stamps of one node's logs in the order they were written, to UTC.

    Attributes:
        year: year of the stamps now; grows when December is followed by January.
        offset_ns: what the node's zone is ahead of UTC.
        last_ns: latest time seen since the clock last stepped back.
        step: (from, to) of a step back that has not been taken yet.
        doubt: a wrong stamp that has not been taken yet.
    """

    def __init__(self, year: int, offset_ns: int = 0) -> None:
        self.year = year
        self.offset_ns = offset_ns
        self.last_ns: int | None = None
        self.step: tuple[int, int] | None = None
        self.doubt: Doubt | None = None
        self._before_ns: int | None = None
        self._earlier: list[int] = []
        self._row: list[int] = []
        self._late: tuple[int, int, int] | None = None
        self._is_dated = False
        self._is_slow = False
        self._recent: deque[int] = deque(maxlen=_MANY)
        self._minute = b""
        self._minute_ns = 0
        self._month = 0

    def read(self, stamp: bytes, carried: Carried | None = None) -> int:
        """UTC nanoseconds of a stamp; notes a roll-over of the year and steps back.

        Raises:
            ValueError: the stamp is not a valid time.
        """
        minute = stamp[:10]
        if minute != self._minute:
            self._begin_minute(minute)
        second = int(stamp[11:13])
        if second > 60:
            raise ValueError(f"no time: {stamp!r}")
        ts_ns = self._minute_ns + second * NS_PER_S + int(stamp[14:20]) * 1000
        return self.observe(ts_ns, carried)

    def observe(self, ts_ns: int, carried: Carried | None = None) -> int:
        """Note a time that is known whole (klog JSON); returns it."""
        last = self.last_ns
        if last is not None and last - ts_ns > STEP_NS:
            self._row.clear()
            carried_ns = None if carried is None else carried()
            goes_on = carried_ns is not None and -STEP_NS <= carried_ns - last <= _CARRIED_NS
            if goes_on and last - ts_ns <= _CARRIED_NS:
                self._late = self._late or (ts_ns, last, (carried_ns or 0) - last)
            else:
                self._earlier.append(ts_ns)
                self._is_dated = carried_ns is not None and abs(carried_ns - ts_ns) <= STEP_NS
                self._decide()
            return ts_ns
        if self._late is not None and last is not None and ts_ns >= last - RACE_NS:
            self._come_up(ts_ns, self._late, carried)
            last = self.last_ns
        if self._earlier and self._is_dated:
            self._set_back()  # its carrier dated the line so, too
            last = self.last_ns
        elif self._earlier:
            self._goes_on(ts_ns)
        elif last is not None and (self._row or ts_ns < last - RACE_NS):
            self._follow(ts_ns, last, carried)
            last = self.last_ns
        if last is None or ts_ns >= last:
            self._before_ns, self.last_ns = last, ts_ns
            self._recent.append(ts_ns)
        return ts_ns

    def _come_up(self, ts_ns: int, late: tuple[int, int, int], carried: Carried | None) -> None:
        """Take in a line in order, after one that its carrier shows as late.

        Args:
            late: the first such line, the latest one before it, and how late that was at most.
        """
        carried_ns = None if carried is None else carried()
        self._late = late if carried_ns is None else None
        behind_ns = late[1] - late[0]
        if (
            carried_ns is not None
            and behind_ns > _BEHIND_NS
            and carried_ns - ts_ns > late[2] + behind_ns * 3 // 4
        ):
            self._earlier = [late[0]]
            self._set_back()
            self._row.clear()

    def _follow(self, ts_ns: int, last: int, carried: Carried | None) -> None:
        """Take in a line behind the latest ones by less than a step, or one that follows these."""
        row, has_come_up = self._row, ts_ns >= last - RACE_NS
        is_in_order = not row or ts_ns >= row[-1] - RACE_NS
        joins = has_come_up and not (self._is_slow and ts_ns - row[-1] > RACE_NS)
        if not has_come_up:
            if not row and carried is not None and (at_ns := carried() or 0) % NS_PER_S:
                self._late = self._late or (ts_ns, last, at_ns - last)
            row.append(ts_ns)
        if is_in_order and (len(row) == _ROW or (joins and len(row) >= 2 * _SURE)):
            carried_ns = None if carried is None else carried()
            goes_on = carried_ns is not None and carried_ns % NS_PER_S > 0
            goes_on = goes_on and last - RACE_NS <= (carried_ns or 0) <= last + _CARRIED_NS
            if row[0] < (self._before_ns or 0) - RACE_NS and not goes_on:
                self._earlier = row[:]
                self._set_back()
                row.clear()
        if has_come_up or not is_in_order:
            row.clear()

    def _decide(self) -> None:
        """A single line that came late is no step; the next lines decide."""
        earlier = self._earlier
        if len(earlier) == 1:
            return
        if not self._is_ahead():
            may_be_late = self._is_slow and self._is_late(earlier[0])
            as_many = sum(ts_ns > earlier[0] for ts_ns in self._recent) // 3
            if not may_be_late or len(earlier) >= max(2 * _SURE, as_many):
                self._set_back()
        elif len(earlier) == _SURE:
            assert self.last_ns is not None
            assert self._before_ns is not None
            self.doubt = Doubt(self.last_ns, self._before_ns, earlier[0])
            self._restart()

    def _is_ahead(self) -> bool:
        """Whether the latest line alone is out of order: those above and below it go together."""
        last, before = self.last_ns, self._before_ns
        if last is None or before is None or min(self._earlier) < before - RACE_NS:
            return False
        return last - self._earlier[0] > _ALONE * (self._earlier[0] - before)

    def _goes_on(self, ts_ns: int) -> None:
        """Time continues from the latest: a line that stood after it was late, or is wrong."""
        last, before, earlier = self.last_ns, self._before_ns, self._earlier
        self._earlier = []
        if last is None or before is None or len(earlier) > 1 or earlier[0] > before - STEP_NS:
            return
        if self._is_late(earlier[0]):
            self._is_slow = True
        elif (last - earlier[0] + STEP_NS) % _ZONE_NS > 2 * STEP_NS:  # else it is by another zone
            self.doubt = Doubt(earlier[0], last, ts_ns)

    def _is_late(self, ts_ns: int) -> bool:
        """Whether a line may be only late, on a node that is slow."""
        return self.last_ns is not None and self.last_ns - ts_ns <= _LATE_NS

    def _set_back(self) -> None:
        assert self.last_ns is not None
        self.step = (self.last_ns, self._earlier[0])
        self._restart()

    def _restart(self) -> None:
        """Time continues from the lines below the latest one."""
        *_, self._before_ns, self.last_ns = (None, *sorted(self._earlier))
        self._earlier = []

    def finish(self) -> None:
        """The log ends: a late line that is its last one counts as a step."""
        if self._earlier:
            self._set_back()

    @property
    def has_news(self) -> bool:
        """Whether something waits to be taken."""
        return self.step is not None or self.doubt is not None

    def take_step(self) -> tuple[int, int] | None:
        """The step back seen since the last call, if any."""
        step, self.step = self.step, None
        return step

    def take_doubt(self) -> Doubt | None:
        """The wrong stamp seen since the last call, if any."""
        doubt, self.doubt = self.doubt, None
        return doubt

    def _begin_minute(self, minute: bytes) -> None:
        self._roll_year(int(minute[0:2]), minute)
        self._minute_ns = stamp_ns(minute + b":00.000000", self.year) - self.offset_ns
        self._minute = minute

    def _roll_year(self, month: int, stamp: bytes) -> None:
        if month == 1 and self._month == 12:
            self.year += 1
        elif month == 12 and self._month == 1:
            # A late line of the old year, or the clock stepped back over New Year.
            self.year -= 1
        if month == 2 and stamp[2:4] == b"29" and not _is_leap(self.year):
            raise ValueError(f"no 29 February in {self.year}")
        self._month = month


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def exact_json_ns(text: bytes) -> int:
    """Nanoseconds of klog JSON's ``ts``: milliseconds since the epoch, or seconds in old ones.

    The kubelet computes it as a float, which at today's dates is 0.24 µs off at most, so
    ``….8599`` stands for ``….86``: the digits are rounded to whole microseconds, which is
    what klog's text form holds, too. No floating point number is used here.

    Raises:
        ValueError: the text is no plain decimal number, or a time that no record can hold.
    """
    if len(text) > _JSON_STAMP_MAX:
        raise ValueError(f"no time: {text[:40]!r}")
    ts_ns = _json_ns(text)
    if not is_storable(ts_ns):
        raise ValueError(f"not in the years {YEARS}: {text!r}")
    return ts_ns


def _json_ns(text: bytes) -> int:
    whole, _, fraction = text.partition(b".")
    if b"e" in text or b"E" in text:
        return _exponent_ns(text)
    number = int(whole)
    digits = 6 if abs(number) < _SECONDS_LIMIT else 3
    padded = fraction[: digits + 1].ljust(digits + 1, b"0")
    scale = 10_000_000 if digits == 6 else 10_000
    tenths_us = number * scale + int(padded)
    return (tenths_us + 5) // 10 * 1000


def _exponent_ns(text: bytes) -> int:
    """Go writes large floats as ``1.637463161296376e+12``."""
    mantissa, _, exponent = text.lower().partition(b"e")
    whole, _, fraction = mantissa.partition(b".")
    shift = int(exponent)
    if abs(shift) > _JSON_STAMP_MAX:
        raise ValueError(f"no time: {text!r}")
    digits = (whole + fraction).ljust(len(whole) + shift, b"0")
    point = len(whole) + shift
    return _json_ns(digits[:point] + b"." + digits[point:])


# Which year klog's stamps are of, by full times that lines hold near to them.

EVENT_TIME = b"LastTimestamp:"
"""Of an event that was not sent, which client-go writes out (``sent_events``)."""

_EVENT_LONG = 90
"""So long are its name and a time at most; another's time does not follow as soon."""
_PAST = re.compile(
    rb"(?:[tT]imestamp|[tT]ime|started[aA]t|finished[aA]t|seen|ts|begin at \w+|end at \w+)\W{1,6}"
    rb"(20\d\d-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)"
)
"""Full times at which something had happened when the line was written."""
_DAY_NS = 86_400 * NS_PER_S


class YearVotes:
    """A full time that is a day from a stamp at most is for its own year.

    Statuses, events that were not sent, and journald's banner hold such; which zone they are in
    does not matter.
    """

    def __init__(self) -> None:
        self._votes: dict[int, list[int]] = {}

    def take_line(self, line: bytes, stamps: Sequence[bytes]) -> None:
        """What a line shows, given the stamps it may be near to."""
        for day, clock in _PAST.findall(line):
            with suppress(ValueError):
                ts_ns = api_time(f"{day.decode()}T{clock.decode()}Z") or 0
                self._vote(int(day[:4]), ts_ns, stamps)

    def take_event(self, text: bytes, stamp: bytes) -> None:
        """What an event shows that was not sent.

        Args:
            text: from ``EVENT_TIME`` on.
            stamp: that of its line.
        """
        text = text[:_EVENT_LONG]
        self.take_line(text, (stamp,))
        if (date := go_date(text.decode("utf-8", "replace"))) is not None:
            self._vote(*date, (stamp,))

    def _vote(self, year: int, ts_ns: int, stamps: Sequence[bytes]) -> None:
        with suppress(ValueError):
            if any(abs(stamp_ns(stamp, year) - ts_ns) <= _DAY_NS for stamp in stamps):
                self._votes.setdefault(year, []).append(ts_ns)

    def reference_ns(self) -> int | None:
        """A full time of the year that most are for; None where none is."""
        return max(self._votes.values(), key=len)[0] if self._votes else None
