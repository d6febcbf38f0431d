"""The journal by its command, ``journalctl -o json --follow``, where the library is missing."""

from __future__ import annotations

import os
import subprocess
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import msgspec

from kubeledger.ingest.sources.libsystemd import JournalEntry, Matches, place_of_journals
from kubeledger.model.errors import BadInputError
from kubeledger.model.units import NS_PER_S

_READ_BYTES = 256 << 10
_END_S = 5

_Text = str | list[int | str | list[int]] | None
"""A field: bytes that are no text are numbers; of one that an entry has twice there are several."""


class _Row(msgspec.Struct, rename="upper"):
    """A line of its output."""

    cursor: str = msgspec.field(name="__CURSOR")
    realtime_us: str = msgspec.field(name="__REALTIME_TIMESTAMP")
    sent_us: _Text = msgspec.field(name="_SOURCE_REALTIME_TIMESTAMP", default=None)
    host: _Text = msgspec.field(name="_HOSTNAME", default=None)
    pid: _Text = msgspec.field(name="_PID", default=None)
    comm: _Text = msgspec.field(name="_COMM", default=None)
    syslog_identifier: _Text = None
    syslog_pid: _Text = None
    message: _Text = None
    message_id: _Text = None
    object_systemd_unit: _Text = None


_ROW = msgspec.json.Decoder(_Row)


class JournalCommand:
    """As ``Journal``, over a process that runs until it is closed.

    Args:
        directory: as that of ``Journal``.
        matches: the same.
        program: the command.

    Attributes:
        cursor_is_lost: as that of ``Journal``; known when the first entry has come.
    """

    def __init__(
        self, directory: Path, matches: Matches = (), *, program: str = "journalctl"
    ) -> None:
        self._directory = directory
        options = ("--output=json", "--all", "--follow", "--no-tail", "--quiet", "--no-pager")
        self._arguments = [program, *options, f"--directory={place_of_journals(directory)}"]
        self._groups = [argument for group in matches for argument in ("+", *group)][1:]
        self._after: str | None = None
        self._cursor = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._rest = b""
        self._lines: deque[bytes] = deque()
        self._output = -1
        self.cursor_is_lost = False

    def seek_time(self, ts_ns: int) -> None:
        """Go on with the first entry of this time or later."""
        seconds, rest = divmod(max(0, ts_ns), NS_PER_S)
        self._arguments.append(f"--since=@{seconds}.{rest // 1000:06}")

    def seek_after(self, cursor: str) -> None:
        """Go on after the entry of a cursor; if it is gone, with the next one that is there."""
        self._after = cursor
        self._arguments.append(f"--cursor={cursor}")

    def has_changed(self) -> bool:
        """Never: the process reads on in the files that it has opened, until it has no more."""
        return False

    def entries(self) -> Iterator[JournalEntry]:
        """The next ones, until there are no more for now; it does not wait.

        Raises:
            BadInputError: the command cannot be run, or has ended.
        """
        self._start()
        while True:
            while self._lines:
                row = self._row(self._lines.popleft())
                if row is not None:
                    yield _entry(row)
            try:
                piece = os.read(self._output, _READ_BYTES)
            except BlockingIOError:
                return
            if not piece:
                raise self._ended()
            *lines, self._rest = (self._rest + piece).split(b"\n")
            self._lines.extend(lines)

    def _row(self, line: bytes) -> _Row | None:
        """An entry, unless it has no message, or is the one to go on after."""
        try:
            row = _ROW.decode(line)
        except msgspec.DecodeError as error:
            raise BadInputError(
                f"journalctl wrote what is not a journal entry: {error}", file=str(self._directory)
            ) from None
        self._cursor = row.cursor
        after, self._after = self._after, None
        self.cursor_is_lost = self.cursor_is_lost or after not in (None, row.cursor)
        return None if row.message is None or after == row.cursor else row

    def cursor(self) -> str:
        """Of the entry that was given last."""
        return self._cursor

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()

    def _start(self) -> None:
        if self._process is not None:
            return
        arguments = [*self._arguments, *self._groups]
        try:
            self._process = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
            )
        except OSError as error:
            raise BadInputError(
                f"{arguments[0]} cannot be run: {error.strerror}", file=str(self._directory)
            ) from None
        assert self._process.stdout is not None
        self._output = self._process.stdout.fileno()
        os.set_blocking(self._output, False)

    def _ended(self) -> BadInputError:
        assert self._process is not None
        assert self._process.stderr is not None
        said = " ".join(self._process.stderr.read(_READ_BYTES).decode("utf-8", "replace").split())
        why = f": {said}" if said else ""
        return BadInputError(f"journalctl has ended{why}", file=str(self._directory))


def _entry(row: _Row) -> JournalEntry:
    sent_us = _bytes(row.sent_us)
    entry = JournalEntry(
        realtime_us=int(sent_us if sent_us.isdigit() else row.realtime_us),
        host=_bytes(row.host),
        identifier=_bytes(row.syslog_identifier) or _bytes(row.comm),
        pid=_bytes(row.pid) or _bytes(row.syslog_pid),
        message=_bytes(row.message),
    )
    if entry.identifier == b"systemd-journald":
        entry.message_id = _bytes(row.message_id)
        entry.about_unit = _bytes(row.object_systemd_unit)
    return entry


def _bytes(value: _Text) -> bytes:
    """The bytes of a field; of several values those of the first."""
    if value is None or isinstance(value, str):
        return (value or "").encode("utf-8", "replace")
    first = next(iter(value), None)
    if isinstance(first, int):
        return bytes(each for each in value if isinstance(each, int))
    return bytes(first) if isinstance(first, list) else _bytes(first)
