"""Lines of the kubelet, and of the kernel, from journald: by its library, or by its command.

What journald itself says that it left out is a gap, and so is a cursor whose entry is gone. A
journal in which the unit never shows is one, too: it may lie elsewhere, or be in a form that a
library older than the node's journald does not know.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from kubeledger.ingest.sources.journal_entries import JournalEntry, journal_lines
from kubeledger.ingest.sources.libsystemd import Matches, place_of_journals
from kubeledger.model.bodies.ledger import KUBELET_LOG
from kubeledger.model.errors import BadInputError
from kubeledger.model.units import NS_PER_S
from kubeledger.record.observations import POLL_BYTES, Gap, Lines
from kubeledger.record.sources.state_files import Every, Outage

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


KUBELET_UNITS = (
    *("kubelet.service", "snap.kubelet.daemon.service", "snap.kubelet-eks.daemon.service"),
    *("k3s.service", "k3s-agent.service", "rke2-server.service", "rke2-agent.service"),
    *("k0scontroller.service", "k0sworker.service", "microshift.service"),
    "snap.microk8s.daemon-kubelite.service",
)
"""Units in which a kubelet runs."""
_IDENTIFIERS = ("kubelet", "kubenswrapper", "hyperkube")
"""What a kubelet is called that runs in another unit."""
_SUPPRESSED = "a596d6fe7bfa4994828e72309e95d61e"
_MISSED = "e9bf28e6e834481bb6f48f548ad13606"
"""Message IDs: journald left out lines of a unit that wrote too many, or did not get the kernel's
in time."""
_SUPPRESSED_TEXT = re.compile(rb"Suppressed (?P<count>\d+) messages from (?P<unit>\S+)")
_CURSOR_TIME = re.compile(r"(?:^|;)t=([0-9a-f]+)")

_PATIENCE_NS = 60 * NS_PER_S
_REOPEN_NS = 15 * NS_PER_S
_MAPPED_BYTES_MAX = 2 << 20
"""After this much the journal is opened again: what was read of it stays mapped."""
_OPEN_NS_MAX = 300 * NS_PER_S
"""How long it stays open: journald may write elsewhere by then."""
_IDLE_NS_MAX = 5 * NS_PER_S
"""After a longer pause it is opened again, which proves that the last line is still there."""


class JournalStream(NamedTuple):
    """Which entries become which lines.

    Attributes:
        stream: as in ``Lines``.
        units: of which units lines may be suppressed; empty for the kernel.
        what: how the entries are called in messages.
    """

    stream: str
    matches: Matches
    units: tuple[str, ...]
    what: str


def kubelet_stream(units: tuple[str, ...] = KUBELET_UNITS) -> JournalStream:
    """What a kubelet writes in one of these units, and systemd of them."""
    matches = (
        [f"_SYSTEMD_UNIT={unit}" for unit in units],
        [f"SYSLOG_IDENTIFIER={name}" for name in _IDENTIFIERS],
        [*(f"UNIT={unit}" for unit in units), "_PID=1"],
        [f"MESSAGE_ID={_SUPPRESSED}"],
    )
    named = units[0] if len(units) == 1 else "a kubelet's unit"
    return JournalStream(KUBELET_LOG, matches, units, named)


KERNEL = JournalStream(
    "kernel.log", (["_TRANSPORT=kernel"], [f"MESSAGE_ID={_MISSED}"]), (), "the kernel"
)


class Entries(Protocol):
    """What reads a journal: ``Journal``, or ``JournalCommand``."""

    cursor_is_lost: bool

    def seek_time(self, ts_ns: int) -> None:
        """Go on with the first entry of this time or later."""

    def seek_after(self, cursor: str) -> None:
        """Go on after the entry of a cursor; if it is gone, with the next one that is there."""

    def has_changed(self) -> bool:
        """Whether files were added or removed since this was asked last."""

    def entries(self) -> Iterator[JournalEntry]:
        """The next ones, until there are no more for now."""

    def cursor(self) -> str:
        """Of the entry that was given last."""

    def close(self) -> None:
        """Close what is open."""


class JournalSource:
    """One stream of the journal.

    Args:
        opened: opens the journal for the stream's matches.
        stream: which entries.
        cursor: of the last entry before; None to begin at ``since_ns``.
        since_ns: time of the first entry wanted, UTC.

    Raises:
        BadInputError: it cannot be opened.
    """

    def __init__(
        self,
        opened: Callable[[Matches], Entries],
        stream: JournalStream,
        cursor: str | None,
        since_ns: int,
    ) -> None:
        self.name = self.name_of(stream)
        self._opened = opened
        self._stream = stream
        self._cursor, self._since_ns = cursor, since_ns
        self._last_ns = _time_of(cursor)
        self._read_bytes = 0
        self._opened_ns = self._polled_ns = 0
        self._left_out: list[str] = []
        self._journal: Entries | None = self._open()
        self._reopens = Every(_REOPEN_NS)
        self._broken, self._unseen = Outage(stream.stream), Outage(stream.stream)
        self._waits_since_ns: int | None = None
        self._seen = False

    @staticmethod
    def name_of(stream: JournalStream) -> str:
        return f"journal {stream.stream}"

    def _open(self) -> Entries:
        journal = self._opened(self._stream.matches)
        self._read_bytes, self._opened_ns = 0, self._polled_ns
        self._seek(journal)
        return journal

    def _seek(self, journal: Entries) -> None:
        """Go on after the last line, if that is still there; what came after it is read again."""
        self._left_out.clear()
        if self._cursor is None:
            journal.seek_time(self._since_ns)
        else:
            journal.seek_after(self._cursor)

    def _in_place(self, journal: Entries, now_ns: int) -> Entries:
        """The journal at the place where it is read on, which is proved where it may be gone."""
        idle_ns, self._polled_ns = now_ns - self._polled_ns, now_ns
        is_old = not 0 <= now_ns - self._opened_ns <= _OPEN_NS_MAX
        if is_old or not 0 <= idle_ns <= _IDLE_NS_MAX or self._read_bytes > _MAPPED_BYTES_MAX:
            journal.close()
            return self._open()
        if journal.has_changed():
            self._seek(journal)
        return journal

    def poll(self, now_ns: int) -> Iterable[Lines | Gap]:
        """The lines that have come, with what was left out before or between them."""
        if self._journal is None:
            if not self._reopens.due(now_ns):
                return
            try:
                self._journal = self._open()
            except BadInputError as error:
                yield from self._broken.failed(error.message)
                return
        try:
            self._journal = self._in_place(self._journal, now_ns)
            yield from self._read(self._journal)
        except BadInputError as error:
            self._journal.close()
            self._journal = None
            self._reopens.due(now_ns)
            yield from self._broken.failed(error.message)
            return
        yield from self._never_seen(now_ns)

    def _read(self, journal: Entries) -> Iterator[Lines | Gap]:
        """A batch; gaps are given with the lines after them, whose cursor covers both."""
        pieces: list[bytes] = []
        size = 0
        ends: list[tuple[str, int | None, int]] = []
        for entry in journal.entries():
            ts_ns = entry.realtime_us * 1000
            if journal.cursor_is_lost:
                journal.cursor_is_lost = False
                self._left_out.append("the last line read before is no longer in the journal")
            left_out = self._is_left_out(entry)
            if left_out is not None:
                self._left_out += [left_out] if left_out else []
                continue
            ends += [(reason, self._last_ns, ts_ns) for reason in self._left_out]
            self._left_out.clear()
            pieces.append(journal_lines(entry))
            size += len(pieces[-1])
            self._last_ns = ts_ns
            if size >= POLL_BYTES:
                break
        if not pieces:
            return
        assert self._last_ns is not None
        ends += [(reason, self._last_ns, self._last_ns) for reason in self._left_out]
        self._left_out.clear()
        yield from self._broken.worked(self._last_ns)
        yield from self._unseen.worked(self._last_ns)
        for reason, since_ns, until_ns in ends:
            yield Gap(self._stream.stream, reason, since_ns, until_ns)
        self._seen = True
        self._cursor = journal.cursor()
        self._read_bytes += size
        yield Lines(self._stream.stream, b"".join(pieces), self._cursor)

    def _is_left_out(self, entry: JournalEntry) -> str | None:
        """What an entry of journald says was left out; empty of others' lines, None for a line."""
        message_id = entry.message_id.decode("ascii", "replace")
        if message_id == _MISSED and not self._stream.units:
            return entry.message.decode("utf-8", "replace")
        if message_id not in (_SUPPRESSED, _MISSED):
            return None
        match = _SUPPRESSED_TEXT.match(entry.message)
        unit = entry.about_unit or (match["unit"].rpartition(b"/")[2] if match else b"")
        if unit.decode("utf-8", "replace") not in self._stream.units:
            return ""
        count = match["count"].decode() if match else "some"
        return f"journald suppressed {count} messages, which were too many"

    def _never_seen(self, now_ns: int) -> Iterator[Gap]:
        if self._seen or not self._stream.units:
            return  # the kernel may be silent
        if self._waits_since_ns is None or now_ns < self._waits_since_ns:
            self._waits_since_ns = now_ns
        if now_ns - self._waits_since_ns >= _PATIENCE_NS:
            reason = (
                f"no entry of {self._stream.what} for 60 seconds: none is written, the journal is"
                " kept elsewhere, or libsystemd is older than this journal's form"
            )
            yield from self._unseen.failed(reason)

    def close(self) -> None:
        if self._journal is not None:
            self._journal.close()


def _time_of(cursor: str | None) -> int | None:
    """Time of the entry of a cursor, UTC; None where it does not show."""
    match = _CURSOR_TIME.search(cursor or "")
    return None if match is None else int(match[1], 16) * 1000
