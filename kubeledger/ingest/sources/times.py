"""Times that files hold: those a record can hold, and when a line of a kernel log was written."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from typing import Literal, NamedTuple

from kubeledger.model.patterns import regex
from kubeledger.model.units import NS_PER_S, parse_go_time, parse_ts
from kubeledger.model.wire.catalogue import YEARS, is_storable

_ZERO = "0001-01-01T00:00:00"
_DATE = regex(
    r"time\.Date\((\d{4}), time\.(\w+), (\d+), (\d+), (\d+), (\d+), (\d+), time\.(?:Local|UTC)\)"
)
_ISO = regex(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")
_GO = regex(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? [+-]\d{4}")
_DATE_OUTPUT = regex(rb"([A-Z][a-z]{2}) +(\d+) (\d\d:\d\d:\d\d)(?: [AP]M)? (?:UTC|GMT) (\d{4})")
_CARRIERS = (
    regex(
        r"(?:\S+ )?(?P<date>\d{4}([-/])\d\d\2\d\d)[T ](?P<clock>\d\d:\d\d:\d\d)"
        r"(?:[.,](?P<fraction>\d+))? ?(?P<zone>Z|[+-]\d\d(?::?\d\d)?|[A-Z]\w+)?\Z"
    ),
    regex(
        r"(?P<year>\d{4}) (?P<month>\w{3}) +(?P<day>\d+) (?P<clock>\d\d:\d\d:\d\d)"
        r"(?:\.(?P<fraction>\d+))?(?: (?P<zone>[A-Z]{3,5}|[+-]\d\d(?::?\d\d)?))?\Z"
    ),
    regex(
        r"(?P<day>\d\d)/(?P<month>\w{3})/(?P<year>\d{4}):(?P<clock>\d\d:\d\d:\d\d)"
        r"(?:[.,](?P<fraction>\d+))?(?: ?(?P<zone>Z|[+-]\d\d(?::?\d\d)?))?\Z"
    ),
    regex(
        r"\w{3},? (?P<month>\w{3}) +(?P<day>\d+) (?P<clock>\d\d:\d\d:\d\d)"
        r"(?:\.(?P<fraction>\d+))? (?:(?P<zone>[A-Z]{3,4}) )?(?P<year>\d{4})\Z"
    ),
    regex(r"(?P<unix>\d{9,10})\.(?P<fraction>\d+)\Z"),
)
_FRACTION = regex(rb":\d\d[.,](\d+)(?=[^:]*(?::\d\d)?\Z)")
"""Of a second; what follows on it holds a zone or a year."""
_ZONES = {
    **dict.fromkeys(("Z", "UTC", "GMT", "WET"), 0),
    **{"CET": 60, "WEST": 60, "CEST": 120, "EET": 120, "SAST": 120, "EEST": 180, "MSK": 180},
    **{"HKT": 480, "SGT": 480, "JST": 540, "KST": 540, "AEST": 600, "AEDT": 660, "NZST": 720},
    **{"NZDT": 780, "EDT": -240, "EST": -300, "CDT": -300, "MDT": -360, "PDT": -420, "PST": -480},
}
"""Minutes ahead of UTC; names that mean several zones (CST, IST, BST) are none."""
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)


def is_zero_time(text: str) -> bool:
    """Go's zero time, which API objects hold where a time is not known."""
    return text.startswith(_ZERO)


def api_time(text: object) -> int | None:
    """Nanoseconds of an RFC 3339 time; None where there is none, or the zero time.

    Raises:
        ValueError: the text is not a valid time, or one that no record can hold.
    """
    if text is None or text == "" or (isinstance(text, str) and is_zero_time(text)):
        return None
    if not isinstance(text, str):
        raise ValueError(f"not a time: {text!r:.60}")
    return _parsed(text)


def first_time(*texts: object) -> int | None:
    """The first of these fields that holds a time; None when none does."""
    for text in texts:
        if isinstance(text, str) and text:
            try:
                ts_ns = api_time(text)
            except ValueError:
                continue
            if ts_ns is not None:
                return ts_ns
    return None


@lru_cache(1 << 14)
def _parsed(text: str) -> int:
    """Lists of pods, taken every few seconds, hold the same times."""
    return _storable(parse_ts(text), text)


def go_time(text: str) -> int:
    """Nanoseconds of Go's ``time.Time.String()``.

    Raises:
        ValueError: as :func:`api_time`.
    """
    return _storable(parse_go_time(text), text)


def go_date(text: str) -> tuple[int, int] | None:
    """Year and nanoseconds of a time in Go's ``%#v``, ``time.Date(2023, time.April, …)``.

    Its zone is not reported (``time.Local``): the nanoseconds are those of its clock read as UTC.
    None where the text holds no such time.
    """
    date = _DATE.search(text)
    if date is None or date[2] not in _MONTHS:
        return None
    year, _, day, hour, minute, second, nanos = date.groups()
    month = _MONTHS.index(date[2]) + 1
    try:
        read = datetime(int(year), month, int(day), int(hour), int(minute), int(second), tzinfo=UTC)
    except ValueError:
        return None
    return int(year), int(read.timestamp()) * NS_PER_S + int(nanos)


class CarrierTime(NamedTuple):
    """What the stamp of a carrier says.

    Attributes:
        ts_ns: nanoseconds since the epoch; of a clock on the wall where the zone is not known.
        has_zone: it is.
    """

    ts_ns: int
    has_zone: bool


def carrier_time(stamp: bytes) -> CarrierTime | None:
    """The time in any stamp with a year that carriers put before lines; None for no time."""
    fraction = _FRACTION.search(stamp)
    if fraction is None:
        return _carrier_time(stamp)
    begin, end = fraction.span(1)
    second = _carrier_time(b"%b0%b" % (stamp[:begin], stamp[end:]))
    if second is None:
        return None
    return CarrierTime(second.ts_ns + int(fraction[1][:9].ljust(9, b"0")), second.has_zone)


@lru_cache(1 << 8)
def _carrier_time(stamp: bytes) -> CarrierTime | None:
    """Lines that follow on each other are often of one second."""
    text = stamp.decode("utf-8", "replace")
    for pattern in _CARRIERS:
        match = pattern.match(text)
        if match is None:
            continue
        found = match.groupdict()
        fraction_ns = int((found["fraction"] or "0")[:9].ljust(9, "0"))
        if "unix" in found:
            return CarrierTime(int(found["unix"]) * NS_PER_S + fraction_ns, True)
        minutes = _minutes(found.get("zone") or "")
        date = found.get("date") or _date(found["year"], found["month"], found["day"])
        date = date.replace("/", "-")
        with suppress(ValueError):
            ts_ns = api_time(f"{date}T{found['clock']}Z") or 0
            return CarrierTime(
                ts_ns + fraction_ns - (minutes or 0) * 60 * NS_PER_S, minutes is not None
            )
    return None


def without_year(stamp: bytes, year: int) -> int | None:
    """What the clock on the wall showed in nanoseconds, by syslog's stamp; None for no time."""
    found = carrier_time(b"%d %s" % (year, stamp))
    return None if found is None else found.ts_ns


def _date(year: str, month: str, day: str) -> str:
    number = next((n for n, name in enumerate(_MONTHS, 1) if name.startswith(month)), 0)
    return f"{year}-{number:02}-{int(day):02}"


def _minutes(zone: str) -> int | None:
    """What a zone is ahead of UTC; None where that is not known."""
    if zone[:1] not in ("+", "-") or zone == "-":
        return _ZONES.get(zone)
    minutes = int(zone[1:3]) * 60 + int(zone[3:].lstrip(":") or 0)
    return minutes if zone[0] == "+" else -minutes


def date_in(line: bytes) -> int | None:
    """Nanoseconds of the full time in a line: RFC 3339, Go's, or what ``date`` prints in UTC.

    None where there is none: the names of other zones do not show how far they are from UTC.
    """
    iso, go, date = (pattern.search(line) for pattern in (_ISO, _GO, _DATE_OUTPUT))
    try:
        if iso is not None:
            return api_time(iso[0].decode())
        if go is not None:
            return go_time(go[0].decode())
        if date is not None and b" PM " not in date[0] and b" AM " not in date[0]:
            month, day, time, year = (part.decode() for part in date.groups())
            number = [name[:3] for name in _MONTHS].index(month) + 1
            return api_time(f"{year}-{number:02d}-{int(day):02d}T{time}Z")
    except ValueError:
        return None
    return None


def _storable(ts_ns: int, text: str) -> int:
    if not is_storable(ts_ns):
        raise ValueError(f"{text} is not in the years {YEARS}")
    return ts_ns


# When a line of a kernel log was written, in each form in which such logs are kept.
#
# The kernel stamps lines with the time since the boot. ``dmesg`` and the loggers turn that into
# a time of day, each in its own form; some of them leave out the year or the zone.

StampForm = Literal["utc", "local", "yearless", "boot"]
"""``utc``: nanoseconds since the epoch. ``local``: the same, but of the node's clock on the
wall. ``yearless``: that, in the year 2000. ``boot``: nanoseconds since the boot."""

_LEAP_YEAR = 2000
"""Any month and day fits into it."""


class Stamp(NamedTuple):
    """A line's time; what ``value_ns`` counts from, its form shows."""

    form: StampForm
    value_ns: int


class KernelLine(NamedTuple):
    """A line of the kernel.

    Attributes:
        host: None where the form has none.
        text: what the kernel wrote.
    """

    stamp: Stamp
    host: str | None
    text: str


_LEVEL = r"(?:<\d{1,3}>|[a-z]+ *:[a-z]+ *: ?)?"
"""``dmesg --raw`` and ``dmesg --decode``."""
_BOOT = r"\[ *(?P<boot>\d+\.\d{6})\](?:\[ *[TC]\d+\])?"
_TAG = rf"(?P<host>\S+) kernel(?:\[\d+\])?: (?:{_BOOT} ?)?"
_CLOCK = r"\d\d:\d\d:\d\d"
_KERNEL_ISO = rf"(?P<iso>\d{{4}}-\d\d-\d\d[T ]{_CLOCK}(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d))"
_FORMS = tuple(
    regex(pattern)
    for pattern in (
        # journalctl -o short-iso(-precise), rsyslog's own
        rf"{_KERNEL_ISO} {_TAG}",
        # dmesg --time-format=iso
        rf"{_LEVEL}(?P<iso>\d{{4}}-\d\d-\d\dT{_CLOCK},\d+[+-]\d\d:?\d\d) ",
        # dmesg, dmesg --raw; journalctl -o short-monotonic
        rf"{_LEVEL}{_BOOT} (?:(?P<host>\S+) kernel: )?",
        # dmesg -T
        rf"{_LEVEL}\[\w{{3}} (?P<day>\w{{3}} +\d+ {_CLOCK}) (?P<year>\d{{4}})\] ",
        # syslog, journalctl -o short(-precise)
        rf"(?:<\d{{1,3}}>)?(?P<day>\w{{3}} +\d+ {_CLOCK}(?:\.\d+)?) {_TAG}",
        # journalctl -o short-unix
        rf"(?P<unix>\d{{9,11}}\.\d{{6}}) {_TAG}",
        # journalctl -o short-full, of a node whose zone is UTC
        rf"\w{{3}} (?P<iso>\d{{4}}-\d\d-\d\d {_CLOCK}) UTC {_TAG}",
        # /dev/kmsg
        r"\d+,\d+,(?P<micros>\d+),[^;]*;",
    )
)


def kernel_line(line: str) -> KernelLine | None:
    """Read a line; None when it is none of the kernel, or its time cannot be read."""
    for pattern in _FORMS:
        match = pattern.match(line)
        if match is None:
            continue
        fields = match.groupdict()
        for name, read in _READERS.items():
            if fields.get(name) is not None:
                with suppress(ValueError):
                    return KernelLine(read(fields), fields.get("host"), line[match.end() :])
                return None
    return None


def with_year(value_ns: int, year: int) -> int:
    """A ``yearless`` value in a year.

    Raises:
        ValueError: 29 February, in a year that has none.
    """
    moment = datetime.fromtimestamp(value_ns // NS_PER_S, UTC).replace(year=year)
    return int(moment.timestamp()) * NS_PER_S + value_ns % NS_PER_S


def _iso(fields: dict[str, str]) -> Stamp:
    moment = datetime.fromisoformat(fields["iso"].replace(",", "."))
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    whole = int(moment.replace(microsecond=0).timestamp()) * NS_PER_S
    return Stamp("utc", whole + moment.microsecond * 1000)


def _day(fields: dict[str, str]) -> Stamp:
    year = fields.get("year")
    day, _, fraction = fields["day"].partition(".")
    text = f"{year or _LEAP_YEAR} {' '.join(day.split())}"
    whole = datetime.strptime(text, "%Y %b %d %H:%M:%S").replace(tzinfo=UTC)
    value_ns = int(whole.timestamp()) * NS_PER_S + int(fraction[:9].ljust(9, "0"))
    return Stamp("local" if year else "yearless", value_ns)


def _decimal(text: str) -> int:
    seconds, _, micros = text.partition(".")
    return int(seconds) * NS_PER_S + int(micros) * 1000


_READERS: dict[str, Callable[[dict[str, str]], Stamp]] = {
    "iso": _iso,
    "day": _day,
    "unix": lambda fields: Stamp("utc", _decimal(fields["unix"])),
    "boot": lambda fields: Stamp("boot", _decimal(fields["boot"])),
    "micros": lambda fields: Stamp("boot", int(fields["micros"]) * 1000),
}
"""What a form's pattern holds -> how to read it; a time of day goes before the boot's."""
