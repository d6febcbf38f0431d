"""The kernel's log from its ring buffer, ``/dev/kmsg``, where no journal keeps it."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from kubeledger.ingest.sources.journal_entries import JournalEntry, journal_lines
from kubeledger.model.errors import BadInputError
from kubeledger.record.observations import POLL_BYTES, Gap, Lines

_RECORD_BYTES_MAX = 8192
_RECORD = re.compile(rb"(?P<priority>\d+),(?P<seq>\d+),(?P<micros>\d+),[^;]*;(?P<text>[^\n]*)")
_CURSOR = re.compile(r"b=(?P<boot>[^;]*);s=(?P<seq>\d+);t=(?P<ts_ns>\d+)")
_ESCAPED = re.compile(rb"\\x([0-9a-f]{2})")
_FACILITY_SHIFT = 3


def open_ring(path: Path = Path("/dev/kmsg")) -> int:
    """A descriptor that gives a record a read, from the oldest on, and never waits.

    Raises:
        BadInputError: it may not be read.
    """
    try:
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise BadInputError(
            f"the kernel's log is not read: {error.strerror}",
            file=str(path),
            advice="CAP_SYSLOG is needed where kernel.dmesg_restrict is set",
        ) from None


def boot_id() -> str:
    """Another after each boot."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


class _Record(NamedTuple):
    seq: int
    ts_ns: int
    text: bytes


class KernelRing:
    """What the kernel itself writes; what programs write into its log is left out.

    Args:
        opened: a descriptor that gives a record a read.
        cursor: of the last line before; None to begin at ``since_ns``.
        since_ns: time of the first line wanted, UTC.
        uptime_ns: the clock by which the kernel stamps.
    """

    name = "kernel ring"
    stream = "kernel.log"

    def __init__(
        self,
        opened: Callable[[], int],
        host: str,
        boot: str,
        cursor: str | None,
        since_ns: int,
        uptime_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._ring = opened()
        self._host = host.encode()
        self._boot = boot
        self._uptime_ns = uptime_ns
        match = _CURSOR.fullmatch(cursor or "")
        self._last_ns = None if match is None else int(match["ts_ns"])
        self._since_ns = since_ns if self._last_ns is None else self._last_ns
        self._seq = int(match["seq"]) if match is not None and match["boot"] == boot else None
        self._lost = 0

    def poll(self, now_ns: int) -> Iterable[Lines | Gap]:
        """The lines that have come; of those that were overwritten before, how many."""
        pieces: list[bytes] = []
        gaps: list[Gap] = []
        size = 0
        for record in self._records(now_ns - self._uptime_ns()):
            if self._lost:
                gaps.append(self._overwritten(record.ts_ns))
            piece = self._lines(record)
            pieces.append(piece)
            size += len(piece)
            self._last_ns = record.ts_ns
            if size >= POLL_BYTES:
                break
        yield from gaps
        if pieces:
            cursor = f"b={self._boot};s={self._seq};t={self._last_ns}"
            yield Lines(self.stream, b"".join(pieces), cursor)

    def _records(self, boot_ns: int) -> Iterator[_Record]:
        """The kernel's own that are wanted, until there are no more for now."""
        while True:
            try:
                data = os.read(self._ring, _RECORD_BYTES_MAX)
            except BlockingIOError:
                return
            except BrokenPipeError:  # overwritten meanwhile; the numbers show how many
                continue
            if not data:
                return
            match = _RECORD.match(data)
            if match is None:
                continue
            seq, ts_ns = int(match["seq"]), boot_ns + int(match["micros"]) * 1000
            if self._seq is not None and seq <= self._seq:
                continue
            if self._seq is not None:
                self._lost += seq - self._seq - 1
            if self._seq is None and ts_ns < self._since_ns:
                continue
            self._seq = seq
            if int(match["priority"]) >> _FACILITY_SHIFT == 0:
                yield _Record(seq, ts_ns, _ESCAPED.sub(_byte, match["text"]))

    def _overwritten(self, until_ns: int) -> Gap:
        count, self._lost = self._lost, 0
        reason = f"{count} messages of the kernel were overwritten before they were read"
        return Gap(self.stream, reason, self._last_ns, until_ns)

    def _lines(self, record: _Record) -> bytes:
        return journal_lines(
            JournalEntry(record.ts_ns // 1000, self._host, b"kernel", b"", record.text)
        )

    def close(self) -> None:
        os.close(self._ring)


def _byte(match: re.Match[bytes]) -> bytes:
    return bytes((int(match[1], 16),))
