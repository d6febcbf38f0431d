"""Reading a node's lines in the order of seq, each one checked before it is handed out.

A reader takes no lock. It sees a prefix of what the writer wrote: a last line without its
newline is one that is being written. Anything else that is not as it was written (a
CRC, the chain, a gap, a file that is gone, fewer records than the manifest acknowledged)
is :class:`DamagedLedgerError` with file and offset.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from kubeledger.ledger.base import Begin
from kubeledger.ledger.segments import Lines, Segment, blocks_of, lines_of, locate
from kubeledger.model.errors import DamagedLedgerError
from kubeledger.model.record import Record
from kubeledger.model.wire.codec import (
    BadLineError,
    chain_of,
    check_crc,
    check_line,
    count_chained,
    decode_line,
    is_complete_except_newline,
    of_kinds,
)

Verify = Literal["chain", "crc"]
"""What a reader proves of each line: ``chain``: that it and all before it (from where the
reading began) are the ones written; ``crc``: that the bytes of what is handed out are undamaged
(quicker)."""

_RESTORE = "restore the file from a copy; `kubeledger audit` lists all damage"


_PASSED_OVER = 4000
"""So many records between two that are wanted are read: to look for the second costs more."""


Pick = Callable[[Iterable[tuple[int, bytes]]], list[tuple[int, bytes]]]
"""Of numbered lines those that are wanted."""


def picking(kinds: Collection[str] | None, holding: Collection[str] = ()) -> Pick | None:
    """A pick of lines; None: all of them.

    Args:
        kinds: of which kinds; None: all.
        holding: texts of which a record's fields hold one at least; empty: whatever they hold.
            A line is picked where it has the text, so that it may stand elsewhere in it.
    """
    if not holding:
        return None if kinds is None else partial(of_kinds, kinds=kinds)
    needles = tuple(msgspec.json.encode(text)[1:-1] for text in holding)

    def pick(lines: Iterable[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
        wanted = lines if kinds is None else of_kinds(lines, kinds)
        if len(needles) == 1:
            (needle,) = needles
            return [each for each in wanted if needle in each[1]]
        return [each for each in wanted if any(needle in each[1] for needle in needles)]

    return pick


def _numbered(lines: Iterable[tuple[int, bytes]], seqs: Collection[int]) -> list[tuple[int, bytes]]:
    return [each for each in lines if each[0] in seqs]


class RawLine(NamedTuple):
    """A line as it stands on disk.

    Attributes:
        file: path of its segment.
        offset: where it begins, in the segment's (decompressed) lines.
        line: with its newline.
    """

    seq: int
    file: str
    offset: int
    line: bytes


class _Checked(NamedTuple):
    """Lines that were proved.

    Attributes:
        first_seq: of the first line.
        offset: where that begins.
        lines: (n,) whole and one after the other.
        picked: (m,) those that were asked for, each with its seq.
    """

    first_seq: int
    offset: int
    lines: list[bytes]
    picked: list[tuple[int, bytes]]


class NodeReader:
    """One pass over the lines of one node.

    Attributes:
        acknowledged_seq: the manifest counts records up to here, so they must be there.
        begin: where the node's records begin.
        verify: what is proved of each line.
        last_seq, digest: the last line read, and its chain digest.
    """

    def __init__(
        self,
        node: str,
        segments: list[Segment],
        acknowledged_seq: int,
        verify: Verify,
        begin: Begin,
    ) -> None:
        self.node = node
        self.segments = segments
        self.acknowledged_seq = acknowledged_seq
        self.verify: Verify = verify
        self.begin = begin
        self.last_seq = self.begin.seq
        self.digest = self.begin.chain
        self._prefix = b'{"node":%b,"seq":' % msgspec.json.encode(node)

    def records(self, after_seq: int = 0, pick: Pick | None = None) -> Iterator[Record]:
        """Records after ``after_seq``, all or those picked by their lines; each line is checked.

        Behind 0 is the first that is there.

        Raises:
            RecordsDroppedError: some records after ``after_seq`` were dropped.
            DamagedLedgerError: see the module.
        """
        for segment, piece in self._pieces(after_seq, pick):
            for seq, line in piece.picked:
                yield self._record(segment, piece, seq, line)

    def picked(self, seqs: Sequence[int]) -> Iterator[Record]:
        """Some records, each proved by its CRC and as the one that follows on the line before it.

        What lies between two of them is passed over where it is much.

        Args:
            seqs: (n,) ascending; those that are not there are left out.

        Raises:
            KubeledgerError: as :meth:`records`.
        """
        rest = deque(seq for seq in seqs if seq > self.begin.seq)
        while rest:
            together = [rest.popleft()]
            while rest and rest[0] - together[-1] <= _PASSED_OVER:
                together.append(rest.popleft())
            yield from self._picked_near(frozenset(together))

    def _picked_near(self, wanted: frozenset[int]) -> Iterator[Record]:
        first_seq, last_seq = min(wanted), max(wanted)
        needed = wanted | {seq - 1 for seq in wanted}
        digest: bytes | None = None
        for segment, piece in self._pieces(first_seq - 1, partial(_numbered, seqs=needed)):
            digest = self.digest if digest is None else digest
            for seq, line in piece.picked:
                if seq in wanted:
                    try:
                        check_line(line, digest)
                    except BadLineError as error:
                        raise self._damaged(segment, piece, seq, error) from error
                    yield self._record(segment, piece, seq, line)
                digest = chain_of(line)
            if self.last_seq >= last_seq:
                return

    def _record(self, segment: Segment, piece: _Checked, seq: int, line: bytes) -> Record:
        try:
            record = decode_line(line)
            if record.seq != seq or record.node != self.node:
                raise BadLineError(self._misplaced(seq))
        except BadLineError as error:
            raise self._damaged(segment, piece, seq, error) from error
        return record

    def raw_lines(self, after_seq: int = 0) -> Iterator[RawLine]:
        """Lines after ``after_seq``, checked but not parsed.

        Raises:
            KubeledgerError: as :meth:`records`.
        """
        for segment, piece in self._pieces(after_seq):
            file, position = str(segment.path), piece.offset
            for seq, line in piece.picked:
                if not line.startswith(self._prefix + b"%d," % seq):
                    raise damaged(segment.path, position, f"record {seq}: {self._misplaced(seq)}")
                yield RawLine(seq, file, position, line)
                position += len(line)

    def _pieces(
        self, after_seq: int, pick: Pick | None = None
    ) -> Iterator[tuple[Segment, _Checked]]:
        segments = self._position(after_seq)
        for index, (segment, offset) in enumerate(segments):
            if offset == 0 and segment.first_seq != self.last_seq + 1:
                raise _gone(segment, self.last_seq + 1, segment.first_seq - 1)
            for piece in lines_of(blocks_of(segment, offset), offset):
                good, error = self._check(segment, piece, pick)
                if good.lines:
                    yield segment, good
                if error is not None:
                    raise error
                if piece.rest and not (segment.open and index == len(segments) - 1):
                    raise damaged(segment.path, piece.offset, "the segment ends inside a line")
                if piece.rest and is_complete_except_newline(piece.rest):
                    raise damaged(segment.path, piece.offset, "the newline of a record was changed")
        if max(after_seq, self.last_seq) < self.acknowledged_seq:
            raise self._too_short()

    def _position(self, after_seq: int) -> list[tuple[Segment, int]]:
        """Segments to read, each with the offset to begin at; sets ``last_seq`` and ``digest``."""
        self.last_seq, self.digest = self.begin.seq, self.begin.chain
        following = [(segment, 0) for segment in self.segments]
        if after_seq <= 0 or after_seq == self.begin.seq:
            return following
        if self.begin.base is not None and after_seq < self.begin.seq:
            raise self.begin.base.refusal(f"record {after_seq + 1} is missing")
        at = sum(segment.first_seq <= after_seq for segment in self.segments) - 1
        if at < 0:
            return following
        segment = self.segments[at]
        offset, seq = locate(segment, after_seq)
        found = self._anchor(segment, offset, after_seq, seq)
        if found is None and offset:  # what `locate` read there was not true
            found = self._anchor(segment, 0, after_seq, segment.first_seq)
        if found is not None:
            return [(segment, found), *following[at + 1 :]]
        if at + 1 < len(self.segments):
            raise _gone(self.segments[at + 1], after_seq, self.segments[at + 1].first_seq - 1)
        if after_seq <= self.acknowledged_seq:
            raise self._too_short()
        return []  # the record is not written yet

    def _anchor(self, segment: Segment, offset: int, seq: int, at_seq: int) -> int | None:
        """Find record ``seq`` by counting lines from ``offset``, where ``at_seq`` begins.

        Takes its chain digest as the point to continue from. Returns the offset after it, or
        None when the lines end before it, or do not count up from ``at_seq`` as recorded (that
        is damage when they are counted from the segment's start).
        """
        for piece in lines_of(blocks_of(segment, offset), offset):
            if at_seq + len(piece.lines) <= seq:
                at_seq += len(piece.lines)
                continue
            index = seq - at_seq
            line = piece.lines[index]
            start = piece.offset + sum(map(len, piece.lines[:index]))
            try:
                if not line.startswith(self._prefix + b"%d," % seq):
                    if offset:
                        return None
                    raise BadLineError(self._misplaced(seq))
                check_crc(line)
                self.digest = chain_of(line)
            except BadLineError as error:
                raise damaged(segment.path, start, f"record {seq}: {error}") from error
            self.last_seq = seq
            return start + len(line)
        return None

    def _check(
        self, segment: Segment, piece: Lines, pick: Pick | None
    ) -> tuple[_Checked, DamagedLedgerError | None]:
        """Check lines; the good ones before the first bad one, and what is wrong with that."""
        first_seq, lines, error = self.last_seq + 1, piece.lines, None
        numbered = enumerate(lines, first_seq)
        picked = list(numbered) if pick is None else pick(numbered)
        checked, count = _Checked(first_seq, piece.offset, lines, picked), len(lines)
        try:
            if self.verify == "chain":
                count, self.digest = count_chained(lines, self.digest)
                if count < len(lines):
                    check_line(lines[count], self.digest)
            else:
                for seq, line in picked:
                    count = seq - first_seq
                    check_crc(line)
                count = len(lines)
        except BadLineError as flaw:
            bad_seq = first_seq + count
            error = self._damaged(segment, checked, bad_seq, flaw)
            picked = [(seq, line) for seq, line in picked if seq < bad_seq]
            checked = checked._replace(lines=lines[:count], picked=picked)
        self.last_seq += count
        return checked, error

    def _damaged(
        self, segment: Segment, piece: _Checked, seq: int, error: BadLineError
    ) -> DamagedLedgerError:
        place = piece.offset + sum(map(len, piece.lines[: seq - piece.first_seq]))
        return damaged(segment.path, place, f"record {seq}: {error}")

    def _misplaced(self, seq: int) -> str:
        return f"it is not record {seq} of {self.node}"

    def _too_short(self) -> DamagedLedgerError:
        return DamagedLedgerError(
            f"records of {self.node} up to {self.acknowledged_seq} were acknowledged, "
            "and the last of them are not there",
            advice="restore the last segment from a copy; the next writer goes on without them "
            "and `kubeledger audit` keeps reporting it",
            file=str(self.segments[-1].path) if self.segments else None,
        )


def damaged(file: Path | str, offset: int, reason: str) -> DamagedLedgerError:
    """What shows that a line of a segment, which begins at ``offset``, is not what was written."""
    return DamagedLedgerError(reason, advice=_RESTORE, file=str(file), offset=offset)


def _gone(segment: Segment, first: int, last: int) -> DamagedLedgerError:
    return DamagedLedgerError(
        f"records {first} to {last} should stand before this segment and are missing",
        advice=_RESTORE,
        file=str(segment.path),
        offset=0,
    )
