"""When a line of a kernel log was written, in each form in which such logs are kept.

The kernel stamps lines with the time since the boot. ``dmesg`` and the loggers turn that into
a time of day, each in its own form; some of them leave out the year or the zone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from kubeledger.model.units import NS_PER_S

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
_ISO = rf"(?P<iso>\d{{4}}-\d\d-\d\d[T ]{_CLOCK}(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d))"
_FORMS = tuple(
    re.compile(pattern)
    for pattern in (
        # journalctl -o short-iso(-precise), rsyslog's own
        rf"{_ISO} {_TAG}",
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
