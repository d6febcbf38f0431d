"""Logs with the lines of several nodes: who wrote which line, and one node's lines alone.

A must-gather interleaves the journals of all masters, a log store gives what a query found. What
tells the nodes apart is what the carrier says (``prefix``): the host of journald and syslog,
the address before a line. Where no carrier names a host, process IDs do, if the lines of several
kubelets alternate: a kubelet that has ended does not come back.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from kubeledger.ingest.sources.envelope.lines import EnvelopeLines
from kubeledger.ingest.sources.other_programs import KUBELET_CALLER, is_other_program
from kubeledger.ingest.sources.prefix import HEADER, JSON_START, Unwrapper
from kubeledger.ingest.sources.streams import SourceFile, SourceView

__all__ = ["OTHER_NODE", "LogWriters", "NodeLines", "Writers", "same_machine", "whole_lines"]

OTHER_NODE = b"\x1a"
"""What a line of another node is filled with: lines keep their numbers and offsets."""

_PREFIX_MAX = 256
_LINE_MAX = 1 << 20
_WRITERS_MAX = 10_000
_BACK = 8192
_STAMP = re.compile(rb"[IWEF](\d{4} \d\d:\d\d:\d\d\.\d{6}) ")
_RETURNS_MIN = 3
"""So often must processes take turns: the last lines of one may come late once or twice."""
_LOCAL = re.compile(r"localhost(?:\d|\.local.*)?|\(none\)", re.IGNORECASE)


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
            return _Line(_Writer(None, pid), True, _is_kubelets(line), line[21 : header.start(4)])
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
        return _Line(_Writer(name, pid), True, _is_kubelets(body), mark)


def _is_kubelets(body: bytes) -> bool:
    return KUBELET_CALLER.search(body, 0, _PREFIX_MAX) is not None


def _of_host(host: bytes) -> _Line:
    return _Line(_Writer(host.decode("utf-8", "replace"), None), False, False, b"")


def _others_than(line: _Line) -> re.Pattern[bytes]:
    """Finds the lines that another one wrote, from the end of the line above them."""
    mark = re.escape(line.mark)
    if line.writer.host is None:
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
            self._see(lines[start:end], lines[max(0, start - _BACK) : start] or self._before)
        self._before = lines[-_BACK:]

    def _see(self, line: bytes, before: bytes) -> None:
        if line.startswith(JSON_START):
            return
        parsed = self._reader.read(line)
        if parsed is not None and parsed.is_entry:
            self._note_name(parsed.writer, line, before)
            self._take(parsed, line)
            if parsed.writer != self._marked:
                self._marked = parsed.writer
                self._others = _others_than(parsed) if parsed.mark else None

    def _note_name(self, writer: _Writer, line: bytes, before: bytes) -> None:
        """A process that continues under another host's name is still on the same machine.

        Another machine's process with the same ID would have begun earlier, or come back.
        """
        last, host = self._marked, writer.host
        if last is None or host is None or last.host in (None, host):
            return
        known = host in self._renamed or any(seen.host == host for seen in self._seen)
        stamps = _STAMP.findall(before)[-1:] + _STAMP.findall(line)[:1]
        if known:
            self._renamed.pop(host, None)
            self._renamed.pop(last.host, None)
        elif last.pid == writer.pid is not None and stamps == sorted(stamps):
            self._renamed[host] = last.host

    def _take(self, parsed: _Line, line: bytes) -> None:
        writer = parsed.writer
        known = self._seen.get(writer)
        if known is not None or len(self._seen) < _WRITERS_MAX:
            self._seen[writer] = known or parsed.is_kubelets
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
        return list(dict.fromkeys(writer.host for writer in self._seen if writer.host is not None))

    def parts(self) -> list[Writers]:
        """Whose lines to tell apart; a log of one node has one part at most."""
        hosts = self.hosts
        machines: list[list[str]] = []
        for host in sorted(hosts, key=is_local):
            same = [
                each
                for each in machines
                if self._renamed.get(host) in each
                or any(self._renamed.get(known) == host for known in each)
                or same_machine(each[0], host)
            ]
            if is_local(host) and len(machines) == 1:
                same = machines
            if same:
                same[0].append(host)
            else:
                machines.append([host])
        if len(machines) > 1:
            machines.sort(key=lambda machine: min(map(hosts.index, machine)))
            return [Writers(hosts=tuple(machine)) for machine in machines]
        if self._is_split:
            kubelets = (writer.pid for writer, is_kubelets in self._seen.items() if is_kubelets)
            pids = list(dict.fromkeys(pid for pid in kubelets if pid is not None))
            return [Writers(pids=(pid,)) for pid in pids]
        return []


class NodeLines(SourceView):
    """The lines of one node in a file of several; the others' are filled with ``OTHER_NODE``.

    A line that names no writer belongs to the line above it.
    """

    def __init__(self, source: SourceFile, writers: Writers) -> None:
        super().__init__(source)
        self.writers = writers
        self._hosts = frozenset(writers.hosts)
        self._pids = frozenset(writers.pids)

    def chunks(self) -> Iterator[bytes]:
        """The content, with lines of the same lengths.

        Raises:
            BadInputError: as ``SourceFile.chunks``.
        """
        reader, is_ours = _LineReader(), True
        for piece in whole_lines(self._source.chunks()):
            lines = piece.split(b"\n")
            for index, line in enumerate(lines):
                parsed = reader.read(line) if line else None
                if parsed is not None:
                    is_ours = self._is_ours(parsed.writer, is_ours)
                if not is_ours:
                    lines[index] = OTHER_NODE * len(line)
            yield b"\n".join(lines)

    def stored_chunks(self) -> Iterator[bytes]:
        """As ``SourceFile.stored_chunks``: of rows, the file with those of other nodes blanked."""
        if isinstance(self._source, EnvelopeLines):
            return self._source.stored_without(list(self._others()))
        return self.chunks()

    def _others(self) -> Iterator[int]:
        """Where lines of other nodes begin."""
        offset = 0
        for chunk in self.chunks():
            for line in chunk.split(b"\n"):
                if line.startswith(OTHER_NODE):
                    yield offset
                offset += len(line) + 1
            offset -= 1

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
        return NodeLines(self._source, writers)

    def _is_ours(self, writer: _Writer, otherwise: bool) -> bool:
        if self._hosts:
            return otherwise if writer.host is None else writer.host in self._hosts
        return otherwise if writer.pid is None else writer.pid in self._pids


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
