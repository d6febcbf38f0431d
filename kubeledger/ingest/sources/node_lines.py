"""Logs with the lines of several nodes: who wrote which line, and one node's lines alone.

A must-gather interleaves the journals of all masters, a log store gives what a query found. What
tells the nodes apart is what the carrier says (``prefix``): the host of journald and syslog,
the address before a line. Where no carrier names a host, process IDs do, if the lines of several
kubelets alternate: a kubelet that has ended does not come back.
"""

from __future__ import annotations

import re
import tempfile
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from heapq import merge
from itertools import accumulate
from typing import NamedTuple

import msgspec

from kubeledger.ingest.sources.envelope.lines import EnvelopeLines
from kubeledger.ingest.sources.packing import CHUNK, forget_pages, mapped
from kubeledger.ingest.sources.prefix import (
    HEADER,
    JSON_START,
    Unwrapper,
    is_kubelets,
    is_other_program,
)
from kubeledger.ingest.sources.spooling import spool_errors
from kubeledger.ingest.sources.streams import SourceFile, SourceView
from kubeledger.model.patterns import regex

OTHER_NODE = b"\x1a"
"""What a line of another node is filled with: lines keep their numbers and offsets."""

_FILLED = bytes(each if each == 0x0A else 0x1A for each in range(256))
_PREFIX_MAX = 256
_LINE_MAX = 1 << 20
_WRITERS_MAX = 10_000
_BACK = 8192
_STAMP = regex(rb"[IWEF](\d{4} \d\d:\d\d:\d\d\.\d{6}) ")
_RETURNS_MIN = 3
"""So often must processes take turns: the last lines of one may come late once or twice."""
_LOCAL = regex(r"localhost(?:\d|\.local.*)?|\(none\)", re.IGNORECASE)


class Writers(msgspec.Struct, frozen=True):
    """Whose lines of a log are one node's.

    Attributes:
        hosts: as the carrier names them (a machine may change its name as it boots).
        pids: of the kubelets, where no carrier names a host.
    """

    hosts: tuple[str, ...] = ()
    pids: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the node if nothing better is known."""
        if self.hosts:
            return next((host for host in self.hosts if not is_local(host)), self.hosts[0])
        return f"process-{self.pids[0]}"


def is_local(host: str) -> bool:
    """The name that every machine has."""
    return _LOCAL.fullmatch(host) is not None


def same_machine(name: str, other: str) -> bool:
    """Two names may be one machine's: ``node-a`` and ``node-a.example.com``."""
    short, long = sorted((name.lower(), other.lower()), key=len)
    return short == long or ("." not in short and long.startswith(f"{short}."))


class _Writer(NamedTuple):
    host: str | None
    pid: str | None


class _Line(NamedTuple):
    """What a line shows of its writer; ``mark``: what of it all lines of this writer hold."""

    writer: _Writer
    is_entry: bool
    is_kubelets: bool
    mark: bytes


class _LineReader:
    def __init__(self) -> None:
        self._unwrapper = Unwrapper()

    def read(self, line: bytes) -> _Line | None:
        """Who wrote a line; None for one that continues where the line above it ends."""
        header = HEADER.match(line)
        if header is not None:
            pid = header[3].decode()
            return _Line(_Writer(None, pid), True, is_kubelets(line), line[21 : header.start(4)])
        unwrapped = self._unwrapper.unwrap(line)
        if not unwrapped.wrapped or is_other_program(unwrapped.tag):
            return None if unwrapped.host is None else _of_host(unwrapped.host)
        body, host = unwrapped.body, unwrapped.host
        header = HEADER.match(body)
        if header is None and not body.startswith(JSON_START):
            return None if host is None else _of_host(host)
        pid = None if header is None else header[3].decode()
        if host is None:
            mark = b"" if header is None else body[21 : header.start(4)]
        else:
            mark = line[line.find(host) : len(line) - len(body)]
        name = None if host is None else host.decode("utf-8", "replace")
        return _Line(_Writer(name, pid), True, is_kubelets(body), mark)


def _of_host(host: bytes) -> _Line:
    return _Line(_Writer(host.decode("utf-8", "replace"), None), False, False, b"")


@lru_cache(1024)
def _others_than(mark: bytes, *, is_bare: bool) -> re.Pattern[bytes]:
    """Finds the lines that another one wrote, from the end of the line above them."""
    mark = re.escape(mark)
    if is_bare:
        return re.compile(rb"\n[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{6}(?!%s)" % mark)
    return re.compile(rb"\n(?![^\n]{0,%d}?%s)[^\n]" % (_PREFIX_MAX, mark))


class LogWriters:
    """Who wrote the klog entries of a log, taken down while it is read through.

    Lines of the writer that was seen last are passed over by a search for what they share, so a
    log that one process wrote costs one count of a byte string a chunk.
    """

    def __init__(self) -> None:
        self._reader = _LineReader()
        self._seen: dict[_Writer, bool] = {}
        self._returns: Counter[str] = Counter()
        self._spans: dict[str, tuple[bytes, bytes]] = {}
        self._last: _Writer | None = None
        self._marked: _Writer | None = None
        self._others: re.Pattern[bytes] | None = None
        self._renamed: dict[str, str | None] = {}
        self._hosts: dict[str, None] = {}
        self._before = b""

    def look(self, lines: bytes) -> None:
        """Note the writers of whole lines."""
        end = -1  # of the line looked at last; the first one is always looked at
        while end < len(lines) - 1:
            start = end + 1
            if self._others is not None and start:
                found = self._others.search(lines, end)
                if found is None:
                    break
                start = found.start() + 1
            end = lines.find(b"\n", start)
            end = len(lines) if end < 0 else end
            self._see(lines[start:end], lines, start)
        self._before = lines[-_BACK:]

    def _see(self, line: bytes, lines: bytes, start: int) -> None:
        if line.startswith(JSON_START):
            return
        parsed = self._reader.read(line)
        if parsed is not None and parsed.is_entry:
            self._note_name(parsed.writer, line, lines, start)
            is_bare = parsed.writer.host is None
            # What is copied from a screen begins inside of a line: its carrier is left behind.
            is_marked = bool(parsed.mark) and not (is_bare and not self._seen)
            self._take(parsed, line)
            if parsed.writer != self._marked or self._others is None:
                self._marked = parsed.writer
                self._others = _others_than(parsed.mark, is_bare=is_bare) if is_marked else None

    def _note_name(self, writer: _Writer, line: bytes, lines: bytes, start: int) -> None:
        """A process that continues under another host's name is still on the same machine.

        Another machine's process with the same ID would have begun earlier, or come back.
        """
        last, host = self._marked, writer.host
        if last is None or host is None or last.host in (None, host):
            return
        if host in self._hosts:
            if self._renamed:
                self._renamed.pop(host, None)
                self._renamed.pop(last.host, None)
        elif last.pid == writer.pid is not None:
            before = lines[max(0, start - _BACK) : start] or self._before
            stamps = _STAMP.findall(before)[-1:] + _STAMP.findall(line)[:1]
            if stamps == sorted(stamps):
                self._renamed[host] = last.host

    def _take(self, parsed: _Line, line: bytes) -> None:
        writer = parsed.writer
        known = self._seen.get(writer)
        if known is not None or len(self._seen) < _WRITERS_MAX:
            self._seen[writer] = known or parsed.is_kubelets
            if writer.host is not None:
                self._hosts[writer.host] = None
        if parsed.is_kubelets:
            if writer.pid is not None and not self._is_split:
                overlaps = self._note_time(writer.pid, line)
                if known and writer != self._last and overlaps:
                    self._returns[writer.pid] += 1
            self._last = writer

    def _note_time(self, pid: str, line: bytes) -> bool:
        """Whether another process wrote at the same time as this one.

        In a log of which parts stand twice, or in another order, a process comes back, too.
        """
        stamp = _STAMP.search(line)
        if stamp is None:
            return False
        first, last = self._spans.get(pid, (stamp[1], stamp[1]))
        first, last = self._spans[pid] = min(first, stamp[1]), max(last, stamp[1])
        return any(
            max(first, begin) < min(last, end)
            for other, (begin, end) in self._spans.items()
            if other != pid
        )

    @property
    def _is_split(self) -> bool:
        """Processes take turns."""
        return len(self._returns) > 1 and self._returns.total() >= _RETURNS_MIN

    @property
    def hosts(self) -> list[str]:
        """Hosts that wrote entries, in the order in which they were first seen."""
        return list(self._hosts)

    def parts(self) -> list[Writers]:
        """Whose lines to tell apart; a log of one node has one part at most."""
        machines = self._machines()
        if len(machines) > 1:
            return [Writers(hosts=tuple(machine)) for machine in machines]
        if self._is_split:
            kubelets = (writer.pid for writer, is_kubelets in self._seen.items() if is_kubelets)
            pids = list(dict.fromkeys(pid for pid in kubelets if pid is not None))
            return [Writers(pids=(pid,)) for pid in pids]
        return []

    def _machines(self) -> list[list[str]]:
        """Names of hosts, those of one machine together; in the order in which they were seen."""
        machines: list[list[str]] = []
        for host in sorted(self._hosts, key=is_local):
            if is_local(host) and len(machines) == 1:
                same = machines
            else:
                same = [machine for machine in machines if self._is_of(host, machine)]
            if same:
                same[0].append(host)
            else:
                machines.append([host])
        return sorted(machines, key=lambda machine: min(map(self.hosts.index, machine)))

    def _is_of(self, host: str, machine: list[str]) -> bool:
        """Whether a host is this machine by another name, or had the name of one of its hosts."""
        renamed = self._renamed.get(host) in machine
        return (
            renamed
            or same_machine(machine[0], host)
            or any(self._renamed.get(known) == host for known in machine)
        )


class SplitLines:
    """A log of several nodes, read once: its lines in a temporary file, and whose they are.

    Attributes:
        data: the log; ``filled``: as long, each of its lines filled.
    """

    def __init__(self, source: SourceFile, *, by_host: bool) -> None:
        """Read the log.

        Args:
            by_host: its carrier names the nodes; otherwise the processes do.

        Raises:
            BadInputError: as ``SourceFile.chunks``, or there is no room for the temporary file.
        """
        # Of each run of lines of one writer, and of the end: its first byte, and its first line.
        self._begins, self._lines = array("Q"), array("Q")
        self._runs: dict[str | None, array[int]] = {}
        with (
            spool_errors(source.name),
            tempfile.TemporaryFile(prefix="kubeledger-lines-") as file,
            tempfile.TemporaryFile(prefix="kubeledger-lines-") as filled,
        ):
            for piece in self._pieces(source, by_host=by_host):
                file.write(piece)
                filled.write(piece.translate(_FILLED))
            self.data, self.filled = mapped(file), mapped(filled)

    def _pieces(self, source: SourceFile, *, by_host: bool) -> Iterator[bytes]:
        """The log in pieces, of which each line's writer was taken down."""
        writer_of = (_host_of if by_host else _pid_of)(Unwrapper())
        size = number = 0
        last: str | None = None
        for piece in whole_lines(source.chunks()):
            yield piece
            offset, lines = size, piece.split(b"\n")
            whole = len(lines) - 1
            for index, line in enumerate(lines if lines[-1] else lines[:-1]):
                writer = writer_of(line)
                if (writer is not None and writer != last) or not self._begins:
                    self._runs.setdefault(writer, array("Q")).append(len(self._begins))
                    self._begins.append(offset)
                    self._lines.append(number + index)
                    last = writer
                offset += len(line) + 1
            size += len(piece)
            number += whole
        self._begins.append(size)
        self._lines.append(number)

    def runs_of(self, writers: Writers) -> Iterator[tuple[int, int, int, int]]:
        """Begin and end of runs of lines, their first line, and how many lines they have.

        What stands above the first entry is everybody's.
        """
        own = [self._runs.get(name, ()) for name in (None, *writers.hosts, *writers.pids)]
        for run in merge(*own):
            begin, end = self._begins[run], self._begins[run + 1]
            yield begin, end, self._lines[run], self._lines[run + 1] - self._lines[run]

    def joined(self, runs: Iterable[tuple[int, int, int, int]]) -> Iterator[bytes]:
        """The bytes of runs of lines; in large pieces, of which no memory is held."""
        parts: list[bytes] = []
        size = 0
        for first, last, _, _ in runs:
            for begin in range(first, last, CHUNK):
                parts.append(self.data[begin : min(begin + CHUNK, last)])
                size += len(parts[-1])
                if size >= CHUNK:
                    yield b"".join(parts)
                    parts, size = [], 0
                    forget_pages(self.data)
        yield b"".join(parts)

    def among_filled(self, runs: Iterable[tuple[int, int, int, int]]) -> Iterator[bytes]:
        """The whole log, all but the runs filled; in pieces, as above."""
        rest = iter(runs)
        run = next(rest, None)
        for begin in range(0, len(self.data), CHUNK):
            piece = bytearray(self.filled[begin : begin + CHUNK])
            end = begin + len(piece)
            while run is not None and run[0] < end:
                first, last = max(run[0], begin), min(run[1], end)
                piece[first - begin : last - begin] = self.data[first:last]
                if run[1] > end:
                    break
                run = next(rest, None)
            yield bytes(piece)
            forget_pages(self.data)
            forget_pages(self.filled)


def _host_of(unwrapper: Unwrapper) -> Callable[[bytes], str | None]:
    def host(line: bytes) -> str | None:
        found = None if HEADER.match(line) else unwrapper.host(line)
        return None if found is None else found.decode("utf-8", "replace")

    return host


def _pid_of(unwrapper: Unwrapper) -> Callable[[bytes], str | None]:
    def pid(line: bytes) -> str | None:
        header = HEADER.match(unwrapper.body(line))
        return None if header is None else header[3].decode()

    return pid


class NodeLines(SourceView):
    """The lines of one node in a log of several.

    A line that names no writer belongs to the line above it. What is kept of the log is all of
    it, with other nodes' lines filled: lines keep their numbers and offsets there.
    """

    def __init__(self, source: SourceFile, split: SplitLines, writers: Writers) -> None:
        super().__init__(source)
        self.writers = writers
        self._split = split
        self._runs = list(split.runs_of(writers))
        self._ends = list(accumulate(end - begin for begin, end, _, _ in self._runs))
        self._lines = list(accumulate((run[3] for run in self._runs), initial=0))

    def chunks(self) -> Iterator[bytes]:
        return self._split.joined(self._runs)

    @property
    def keeps_places(self) -> bool:
        """As ``SourceFile.keeps_places``."""
        return False

    def place(self, line: int, offset: int) -> tuple[int, int]:
        """As ``SourceFile.place``."""
        run = min(bisect_right(self._ends, offset), len(self._runs) - 1)
        begin, end, first, _ = self._runs[run]
        above = self._ends[run] - (end - begin)
        return self._source.place(line - self._lines[run] + first, offset - above + begin)

    def stored_chunks(self) -> Iterator[bytes]:
        """As ``SourceFile.stored_chunks``: of rows, the file with those of other nodes blanked."""
        if isinstance(self._source, EnvelopeLines):
            return self._source.stored_without(self._others())
        return self._split.among_filled(self._runs)

    def _others(self) -> Iterator[tuple[int, int]]:
        """Begin and end of what other nodes wrote."""
        at = 0
        for begin, end, _, _ in self._runs:
            if at < begin:
                yield at, begin
            at = end
        if at < len(self._split.data):
            yield at, len(self._split.data)

    @property
    def left_out(self) -> int:
        """As ``SourceFile.left_out``, on the node's hosts."""
        if isinstance(self._source, EnvelopeLines):
            return self._source.left_out_of(self.writers.hosts)
        return self._source.left_out

    @property
    def twice(self) -> int:
        """None: of which node the lines are is not counted."""
        return 0

    def of(self, writers: Writers) -> NodeLines:
        """Lines of others in the same file."""
        return NodeLines(self._source, self._split, writers)


def lines_of_nodes(source: SourceFile, parts: Sequence[Writers]) -> list[NodeLines]:
    """The lines of each of several nodes in a log.

    Raises:
        BadInputError: as ``SourceFile.chunks``, or there is no room for a temporary file.
    """
    if not parts:
        return []
    split = SplitLines(source, by_host=bool(parts[0].hosts))
    return [NodeLines(source, split, writers) for writers in parts]


def whole_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The content in pieces that end where lines end; a line of absurd length is cut."""
    tail = b""
    for chunk in chunks:
        piece = tail + chunk
        end = piece.rfind(b"\n") + 1
        if not end and len(piece) > _LINE_MAX:
            end = len(piece)
        tail = piece[end:]
        if end:
            yield piece[:end]
    if tail:
        yield tail
