"""Entries of journald as lines of a log, in the form of ``journalctl -o short-iso-precise``."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

import msgspec

_US_PER_S = 1_000_000


class JournalEntry(msgspec.Struct):
    """What of an entry matters here.

    Attributes:
        realtime_us: as the sender shows it, else when journald got it.
        host: ``_HOSTNAME``; empty where there is none.
        identifier: ``SYSLOG_IDENTIFIER``, else the name of the process; empty for none.
        pid: decimal text; empty for the kernel.
        message: as it was written; may hold newlines, and bytes that are no text.
        message_id: 32 hex digits; empty unless journald itself wrote the entry.
        about_unit: of such an entry, the unit of the process that it is about.
    """

    realtime_us: int
    host: bytes
    identifier: bytes
    pid: bytes
    message: bytes
    message_id: bytes = b""
    about_unit: bytes = b""


def journal_lines(entry: JournalEntry) -> bytes:
    """The lines of an entry, each with journald's own time (UTC), host, program and process.

    Of a message of several lines each gets all of it, as each line that a kubelet writes does.
    """
    second, micros = divmod(entry.realtime_us, _US_PER_S)
    process = b"[%b]" % entry.pid if entry.pid else b""
    name = b"_".join(entry.identifier.split()) or b"unknown"
    prefix = b"%b.%06d+0000 %b %b%b: " % (
        _second(second),
        micros,
        entry.host or b"localhost",
        name,
        process,
    )
    return b"".join(b"%b%b\n" % (prefix, line) for line in entry.message.rstrip(b"\n").split(b"\n"))


@lru_cache(64)
def _second(second: int) -> bytes:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S").encode()
