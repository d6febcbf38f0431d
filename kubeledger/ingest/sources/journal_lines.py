"""Entries of journald as lines of a log, in the form of ``journalctl -o short-iso-precise``."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

from kubeledger.ingest.sources.libsystemd import JournalEntry

_US_PER_S = 1_000_000


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
