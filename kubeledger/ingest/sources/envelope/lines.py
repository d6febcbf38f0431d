"""The rows of a file as one log in the order of time, each once, whatever order they stand in.

Rows of a journal tell the time since the machine's boot, which goes on where its clock is set back.

A file is read once, into a temporary file without a name and an index of a few numbers a row, so
that any size can be sorted. The log is a journal's: who wrote a line stands before it, so it is
split by node, and read, as every journal is.
"""

from __future__ import annotations

import tempfile
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate, groupby, pairwise
from typing import NamedTuple

from kubeledger.ingest.sources.envelope.entries import Entries, Entry, lines_of
from kubeledger.ingest.sources.envelope.forms import Layout, cutters_of, layout_of
from kubeledger.ingest.sources.envelope.rows import RawRow
from kubeledger.ingest.sources.packing import CHUNK, forget_pages, mapped
from kubeledger.ingest.sources.prefix import is_entry
from kubeledger.ingest.sources.spooling import spool_errors
from kubeledger.ingest.sources.streams import SourceFile, SourceView
from kubeledger.model.errors import BadInputError

# Rows that a store delivered once more.
#
# A row of a store that gives each an id is there twice where the id is, and a whole entry of klog
# where its bytes are: klog writes microseconds. The lines that follow an entry, each a row of its
# own, may be equal and not one (``}``): they are there twice only together with their entry.

FOLLOWS, ENTRY, WHOLE = range(3)
"""What a row is: a line after an entry, an entry's first line, or what needs no other row."""


class Rows(NamedTuple):
    """What is known of each row.

    Attributes:
        times: ns.
        keys: equal for rows that may be one; 0 for rows that are never another.
        parts: ``FOLLOWS``, ``ENTRY`` or ``WHOLE``.
        hosts: number of the host.
    """

    times: Sequence[int]
    keys: Sequence[int]
    parts: Sequence[int]
    hosts: Sequence[int]


def read_once(order: Iterable[int], rows: Rows) -> Iterator[int]:
    """The rows without those that are there once more.

    Args:
        order: rows by time.
    """
    copies: dict[int, int] = {}  # host -> how often its last entry stands there
    for _, group in groupby(order, rows.times.__getitem__):
        yield from _once(list(group), rows, copies)


def _once(group: list[int], rows: Rows, copies: dict[int, int]) -> Iterator[int]:
    """The rows of one time.

    Lines at the time of their entry stand behind each of its copies; what the first copies
    lack is taken from a later one. Lines of later times stand there once for each of its copies.
    """
    if len(group) == 1:
        if rows.parts[group[0]] == ENTRY:
            copies[rows.hosts[group[0]]] = 1
        yield from group
        return
    there = Counter(rows.keys[row] for row in group)
    given: Counter[tuple[int, int]] = Counter()
    blocks: dict[int, tuple[int, Counter[int]]] = {}
    for row in group:
        key, part, host = rows.keys[row], rows.parts[row], rows.hosts[row]
        if part == ENTRY:
            copies[host] = there[key] if key else 1
            blocks[host] = key, Counter()
        if part != FOLLOWS:
            entry, is_new = 0, not given[0, key]
        elif host in blocks:
            entry, block = blocks[host]
            block[key] += 1
            is_new = block[key] > given[entry, key]
        else:
            entry, is_new = 0, given[0, key] * copies.get(host, 1) < there[key]
        if is_new or not key:
            given[entry, key] += 1
            yield row


HEAD = 64 << 10
_LONG_HEAD = 1 << 20
"""Bytes of a file in which a row of its form stands: mostly, and where the first one is long."""

_COARSE_NS = 1_000_000
"""Rows of stores that count milliseconds may be the same, and not one."""

_OTHERS = ("systemd", "kernel")
"""They write no entries of several rows."""

_BLANKED = bytes(each if each == 0x0A else 0x20 for each in range(256))


def layout_in(source: SourceFile, wanted: str | None = None) -> Layout | None:
    """The layout of a file of rows; None for another kind of file.

    Args:
        wanted: a format, where others do not count.
    """
    head = source.head(HEAD)
    cutters = cutters_of(head)
    found = layout_of(head, cutters, wanted)
    if found is None and cutters and len(head) == HEAD and b"\n" not in head.strip():
        found = layout_of(source.head(_LONG_HEAD), cutters, wanted)
    return found


class EnvelopeLines(SourceView):
    """The lines that the rows of a file hold, in the order of time."""

    def __init__(self, source: SourceFile, wanted: str) -> None:
        """Nothing is read yet.

        Args:
            wanted: format of its rows.

        Raises:
            BadInputError: it has no row of that format.
        """
        super().__init__(source)
        layout = layout_in(source, wanted)
        if layout is None:
            raise BadInputError(f"has no row of the format {wanted}", file=source.name)
        self._layout = layout
        self._spooled: _Spool | None = None

    @property
    def _spool(self) -> _Spool:
        if self._spooled is None:
            with spool_errors(self.name):
                self._spooled = _Spool(self._layout, self._source.chunks())
            self.truncated = self._source.truncated
        return self._spooled

    @property
    def keeps_places(self) -> bool:
        """As ``SourceFile.keeps_places``."""
        return False

    @property
    def left_out(self) -> int:
        """Rows of other programs."""
        return self._spool.others.total()

    @property
    def twice(self) -> int:
        """Rows that stand in the file once more."""
        return self._spool.twice

    def left_out_of(self, hosts: Collection[str]) -> int:
        """Rows of other programs on some hosts."""
        return sum(self._spool.others[host] for host in hosts)

    def chunks(self) -> Iterator[bytes]:
        """The lines, as a journal shows them.

        Raises:
            BadInputError: as ``SourceFile.chunks``, or there is no room for the temporary file.
        """
        return self._spool.chunks()

    def stored_without(self, spans: Iterable[tuple[int, int]]) -> Iterator[bytes]:
        """The file with rows blanked: those of these bytes, from one to another, of ``chunks()``.

        Rows of other programs are blanked, too, where all lines of their host are.
        """
        return _blanked(self._source.stored_chunks(), self._spool.spans_of(spans))

    def place(self, line: int, offset: int) -> tuple[int, int]:
        """Line and byte in the file of the row that a line of ``chunks()`` is of."""
        return self._spool.place(offset)


def _blanked(chunks: Iterator[bytes], spans: list[tuple[int, int]]) -> Iterator[bytes]:
    """A content with blanks in place of these bytes; lines keep their ends."""
    base, index = 0, 0
    for chunk in chunks:
        end = base + len(chunk)
        parts, at = [], base
        while index < len(spans) and spans[index][0] < end:
            begin, stop = max(spans[index][0], at), min(spans[index][1], end)
            parts += [chunk[at - base : begin - base]]
            parts += [chunk[begin - base : stop - base].translate(_BLANKED)]
            at = max(stop, at)
            if spans[index][1] > end:
                break
            index += 1
        yield b"".join((*parts, chunk[at - base :]))
        base = end


def _part_of(entry: Entry, ts_ns: int) -> int:
    """What a row is beside others that may be the same."""
    if entry.identity or entry.order:
        return WHOLE
    if is_entry(entry.message or b""):
        return ENTRY
    is_own = entry.tag in _OTHERS and ts_ns % _COARSE_NS
    return WHOLE if is_own else FOLLOWS


class _Spool:
    """The lines of a file's rows, and where each row stands.

    Attributes:
        others: host -> rows of other programs.
        twice: rows that are left out because another one is the same.
    """

    def __init__(self, layout: Layout, chunks: Iterator[bytes]) -> None:
        """Read all rows."""
        self.others: Counter[str] = Counter()
        self.twice = 0
        self._hosts: dict[str, int] = {}
        # Of each row: its time, boot (from 1) and time since then, key, order, part and host; its
        # bytes and line in the file, and those of its lines in the temporary file. Rows without
        # lines have none of the latter.
        self._times, self._keys, self._orders = array("q"), array("q"), array("q")
        self._boots: dict[str, int] = {"": 0}
        self._boot_of, self._since = array("l"), array("q")
        self._parts = bytearray()
        self._host_of = array("l")
        self._begins, self._ends, self._lines = array("Q"), array("Q"), array("Q")
        self._at = array("Q", [0])
        self._sequence: array[int] = array("Q")
        self._offsets: array[int] = array("Q")
        self._open: dict[tuple[str, str], tuple[RawRow, Entry, int | None]] = {}
        with tempfile.TemporaryFile(prefix="kubeledger-rows-") as file:
            self._write = file.write
            self._fill(layout, chunks)
            self._data = mapped(file)
        self._put_in_order()

    # -- filling ------------------------------------------------------------------------

    def _fill(self, layout: Layout, chunks: Iterator[bytes]) -> None:
        entries = Entries(layout.form)
        ts_ns, boot, since_boot_us = None, "", 0
        for row in layout.cutter.rows(chunks):
            entry = entries.of(row)
            if entry.ts_ns is not None:
                if ts_ns is None:
                    self._times = array("q", [entry.ts_ns]) * len(self._times)
                ts_ns, boot, since_boot_us = entry.ts_ns, entry.boot, entry.since_boot_us
            else:
                entry = entry._replace(boot=boot, since_boot_us=since_boot_us)
            self._take(row, entry, ts_ns)
        for waiting in self._open.values():
            self._add(*waiting)

    def _take(self, row: RawRow, entry: Entry, ts_ns: int | None) -> None:
        if not entry.tag and entry.host:
            self.others[entry.host] += 1
            self._note(row, entry, ts_ns, b"")
            return
        if entry.message is None:
            text = b"(a row without a message, of %b)" % entry.tag.encode("utf-8", "replace")
            self._add(row, Entry(entry.ts_ns, "", "", text), ts_ns)
            return
        who = (entry.host, entry.tag)
        begun = self._open.pop(who, None)
        if begun is not None:
            first, before, begun_ns = begun
            entry = before._replace(
                message=(before.message or b"") + entry.message, goes_on=entry.goes_on
            )
            self._note(row, entry, ts_ns, b"")
            row, ts_ns = first, begun_ns
        if entry.goes_on and len(entry.message or b"") < CHUNK:
            self._open[who] = row, entry, ts_ns
        else:
            self._add(row, entry, ts_ns)

    def _add(self, row: RawRow, entry: Entry, ts_ns: int | None) -> None:
        self._note(row, entry, ts_ns, lines_of(entry, ts_ns))

    def _note(self, row: RawRow, entry: Entry, ts_ns: int | None, lines: bytes) -> None:
        self._times.append(ts_ns or 0)
        self._keys.append(entry.identity or row.key)
        self._boot_of.append(self._boots.setdefault(entry.boot, len(self._boots)))
        self._since.append(entry.since_boot_us * 1000)
        self._parts.append(_part_of(entry, ts_ns or 0))
        self._orders.append(entry.order)
        self._host_of.append(self._hosts.setdefault(entry.host, len(self._hosts)))
        self._begins.append(row.begin)
        self._ends.append(row.end)
        self._lines.append(row.line)
        self._write(lines)
        self._at.append(self._at[-1] + len(lines))

    def _put_in_order(self) -> None:
        """The rows that have lines, by time; those that are there twice once."""
        times, orders = self._unstepped(), self._orders
        falls = sum((b < a) - (b > a) for a, b in pairwise(times))
        found: Sequence[int] = range(len(times))
        if falls > 0:
            found = found[::-1]
        if any(orders):  # pairs for each row take more memory than all the rest
            found = sorted(found, key=lambda row: (times[row], orders[row]))
        elif any(b < a for a, b in pairwise(map(times.__getitem__, found))):
            found = sorted(found, key=times.__getitem__)
        found = array("Q", (row for row in found if self._at[row] < self._at[row + 1]))
        rows = Rows(self._times, self._keys, self._parts, self._host_of)
        self._sequence = array("Q", read_once(found, rows))
        self.twice = len(found) - len(self._sequence)
        lengths = (self._at[row + 1] - self._at[row] for row in self._sequence)
        self._offsets = array("Q", accumulate(lengths, initial=0))

    def _unstepped(self) -> Sequence[int]:
        """The rows' times by clocks that were never set: of each boot as its last row has it.

        They are the rows' own where one of these tells no time since its boot, and where their
        times fall more often by it than in the file: boots have one name, as where it was masked.
        """
        boots, since = self._boot_of, self._since
        if not all(boots):
            return self._times
        last: dict[int, int] = {}
        for row, boot in enumerate(boots):
            if since[row] >= since[last.setdefault(boot, row)]:
                last[boot] = row
        begun = {boot: self._times[row] - since[row] for boot, row in last.items()}
        found = array("q", (begun[boot] + at for boot, at in zip(boots, since, strict=True)))
        if not any(b < a for a, b in pairwise(found)):
            return found
        order = sorted(range(len(found)), key=found.__getitem__)
        falls = sum(b < a for a, b in pairwise(map(self._times.__getitem__, order)))
        return self._times if falls > sum(b < a for a, b in pairwise(self._times)) else found

    # -- reading ------------------------------------------------------------------------

    def chunks(self) -> Iterator[bytes]:
        data, at = self._data, self._at
        parts: list[bytes] = []
        size = 0
        for row in self._sequence:
            parts.append(data[at[row] : at[row + 1]])
            size += len(parts[-1])
            if size >= CHUNK:
                yield b"".join(parts)
                parts, size = [], 0
                forget_pages(data)
        yield b"".join(parts)

    def _at_byte(self, offset: int) -> int:
        return bisect_right(self._offsets, offset) - 1

    def place(self, offset: int) -> tuple[int, int]:
        """Line and byte of the row that a byte of the lines is of."""
        row = self._sequence[self._at_byte(offset)]
        return self._lines[row], self._begins[row]

    def spans_of(self, spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
        """Bytes in the file of rows without some of the lines, which have these bytes."""
        blank: set[int] = set()
        for begin, end in spans:
            blank.update(self._sequence[self._at_byte(begin) : self._at_byte(end - 1) + 1])
        read = set(self._sequence)
        kept = {self._host_of[row] for row in read - blank}
        left = (row for row in range(len(self._times)) if row not in read)
        blank.update(row for row in left if self._host_of[row] not in kept)
        return sorted((self._begins[row], self._ends[row]) for row in blank)
