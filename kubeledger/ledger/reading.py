"""One look at a node: its files as they were when it began, held open, and the order of replay.

A drop may take the node's first segments meanwhile. What is held stays readable to its end, so
a reading gives all records from where it began, never some with a hole between.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from heapq import heappop, heappush
from itertools import groupby, islice, pairwise
from pathlib import Path

from msgspec.structs import replace

from kubeledger.ledger.base import BaseContent, Begin, begin_of, load_content
from kubeledger.ledger.manifest import (
    INDEXED_KINDS,
    NodeInfo,
    Run,
    Span,
    begin_segment,
    is_superseded,
    load_manifest,
    note_records,
    without_dropped,
)
from kubeledger.ledger.reader import NodeReader, RawLine, Verify, damaged, picking
from kubeledger.ledger.segments import Segment, SegmentGoneError, hold, list_segments
from kubeledger.ledger.storage import NODES, SEGMENTS, node_directory
from kubeledger.model.errors import DamagedLedgerError, LedgerUnavailableError
from kubeledger.model.record import Body, Record
from kubeledger.model.wire.codec import BadLineError, chain_of, decode_envelope, decode_line

# The order in which a node's records are replayed, when its imports overlap in time.
#
# Inside one run (see :class:`kubeledger.ledger.manifest.Run`) the order of the source counts:
# a clock that steps back does not move a record. So a record's key is the latest time seen
# in its run so far, then its seq. A run is opened when the replay comes to its first key and
# closed after its last record: where runs do not overlap, one stream is open at a time, and
# where they do, one for each that is under way. Memory is flat.

_Keyed = tuple[int, int, Record]  # latest time in the run so far, seq, record


def replays_in_seq_order(runs: Sequence[Run], upto_seq: int, upto_ts_ns: int) -> bool:
    """Whether a replay begins with records 1 to ``upto_seq``, in this order.

    Args:
        runs: all runs of the node, in the order of seq.
        upto_seq: last record of the beginning that is asked about.
        upto_ts_ns: latest time among these records.
    """
    before = [run for run in runs if run.first_seq <= upto_seq]
    after = [run for run in runs if run.first_seq > upto_seq]
    in_order = all(earlier.max_ts_ns <= later.first_ts_ns for earlier, later in pairwise(before))
    return in_order and all(run.first_ts_ns >= upto_ts_ns for run in after)


def replay_runs(
    runs: Sequence[Run],
    records_after: Callable[[int], Iterator[Record]],
    upto_ts_ns: int | None = None,
    superseded: Sequence[Span] = (),
) -> Iterator[Record]:
    """Records of all runs in the order of replay.

    Args:
        records_after: opens a stream of the records after a seq.
        upto_ts_ns: stop after the last record whose key is not later; None: all.
        superseded: spans of records that are left out; they count for the order.
    """
    for _, record in keyed_replay(runs, records_after, upto_ts_ns, superseded):
        yield record


def keyed_replay(
    runs: Sequence[Run],
    records_after: Callable[[int], Iterator[Record]],
    upto_ts_ns: int | None = None,
    superseded: Sequence[Span] = (),
) -> Iterator[tuple[int, Record]]:
    """As :func:`replay_runs`, each record with the latest time in its run so far."""
    waiting = deque(sorted(runs, key=_first_key))
    under_way: list[tuple[int, int, Record, Iterator[_Keyed]]] = []  # a heap; seqs are unique
    while waiting or under_way:
        while waiting and (not under_way or _first_key(waiting[0]) < under_way[0][:2]):
            run = waiting.popleft()
            stream = _keyed(run, records_after(run.first_seq - 1))
            first = next(stream, None)
            if first is not None:
                heappush(under_way, (*first, stream))
        latest, seq, record, stream = heappop(under_way)
        # Up to where another run has its say, this one is simply streamed.
        others = [under_way[0][:2]] if under_way else []
        until = min([*others, *([_first_key(waiting[0])] if waiting else [])], default=None)
        item: _Keyed | None = (latest, seq, record)
        while item is not None and (until is None or item[:2] < until):
            if upto_ts_ns is not None and item[0] > upto_ts_ns:
                return
            if not is_superseded(item[1], superseded):
                yield item[0], item[2]
            item = next(stream, None)
        if item is not None:
            heappush(under_way, (*item, stream))


def _first_key(run: Run) -> tuple[int, int]:
    return run.first_ts_ns, run.first_seq


def _keyed(run: Run, records: Iterator[Record]) -> Iterator[_Keyed]:
    latest = run.first_ts_ns
    for record in islice(records, max(run.last_seq - run.first_seq + 1, 0)):
        latest = max(latest, record.ts_ns)
        yield latest, record.seq, record


_ATTEMPTS = 10  # each is taken back only by a drop that came between two system calls
_COUNTED_AT_ONCE = 1000


class DroppedMeanwhileError(LedgerUnavailableError):
    """A drop took what was being read; what is read from now on begins after it."""


class Reading:
    """What a node held when it was opened, and what was appended to its last segment since.

    Attributes:
        begin: where its records begin.
    """

    def __init__(
        self, node: str, directory: Path, segments: list[Segment], begin: Begin, counted: NodeInfo
    ) -> None:
        self.node = node
        self.directory = directory
        self.segments = segments
        self.begin = begin
        self._counted = counted
        self._acknowledged_seq = counted.last_seq

    def records(
        self,
        after_seq: int = 0,
        *,
        verify: Verify = "chain",
        kinds: Collection[str] | None = None,
        holding: Collection[str] = (),
    ) -> Iterator[Record]:
        """As ``NodeReader.records``, of what :func:`picking` picks."""
        try:
            yield from self._reader(verify).records(after_seq, picking(kinds, holding))
        except SegmentGoneError as error:  # one of those that were too many to be held
            self._refuse_if_dropped(error)
            raise

    def raw_lines(self, after_seq: int = 0, *, verify: Verify = "chain") -> Iterator[RawLine]:
        """As ``NodeReader.raw_lines``."""
        try:
            yield from self._reader(verify).raw_lines(after_seq)
        except SegmentGoneError as error:
            self._refuse_if_dropped(error)
            raise

    def prove(self, after_seq: int) -> None:
        """Check the chain and the bytes of all lines after a record.

        Raises:
            DamagedLedgerError: a line is not as it was written.
        """
        deque(self._reader("chain").records(after_seq, lambda _: []), 0)

    def record(self, seq: int) -> Record | None:
        """One record; None when there is no such one, or no more."""
        return next(self.records(seq - 1), None) if seq > self.begin.seq else None

    def picked(self, seqs: Iterable[int]) -> Iterator[Record]:
        """As ``NodeReader.picked``, of numbers in any order; those superseded, too."""
        try:
            yield from self._reader("crc").picked(sorted(set(seqs)))
        except SegmentGoneError as error:
            self._refuse_if_dropped(error)
            raise

    def digest_at(self, seq: int) -> bytes | None:
        """Chain digest of a record, or of the last one dropped; None when it is not known."""
        if seq == self.begin.seq and seq > 0:
            return self.begin.chain
        line = next(self.raw_lines(seq - 1), None) if seq > self.begin.seq else None
        return chain_of(line.line) if line else None

    def info(self) -> NodeInfo:
        """Counts as of now: the manifest's, and what was written since."""
        known = self._counted
        if known.dropped_seq > self.begin.seq:  # its dropped segments were put back
            known = NodeInfo(losses=known.losses)
        info = without_dropped(known, self.begin)
        first_seqs = {segment.first_seq for segment in info.segments}
        lines = self.raw_lines(info.last_seq)
        for _, group in groupby(lines, key=lambda raw: raw.file):
            count_lines(info, group, first_seqs)
        return info

    @property
    def superseded(self) -> list[Span]:
        """Spans of records that hold no more; damage is reported by what is read."""
        return self._info_in_spite_of_damage().superseded

    @property
    def is_in_order(self) -> bool:
        """Whether the order of seq is that of time, as :meth:`replay` has it."""
        return _are_in_order(self._info_in_spite_of_damage())

    def _info_in_spite_of_damage(self) -> NodeInfo:
        try:
            return self.info()
        except DamagedLedgerError:
            return self._counted

    def replay(
        self, *, upto_ts_ns: int | None = None, verify: Verify = "chain"
    ) -> Iterator[Record]:
        """Records in the order of time, as a fold wants them (:mod:`kubeledger.ledger.reading`)."""
        info = self.info()
        if upto_ts_ns is None and not info.superseded and _are_in_order(info):
            count = info.last_seq - self.begin.seq  # a writer may have added others meanwhile
            yield from islice(self.records(verify=verify), count)
            return
        yield from replay_runs(
            info.runs, lambda seq: self.records(seq, verify=verify), upto_ts_ns, info.superseded
        )

    def replay_from(
        self, seq: int, latest_ns: int, *, verify: Verify = "chain"
    ) -> Iterator[Record]:
        """The rest of a replay, from a record on before which come all those of lower numbers.

        Args:
            latest_ns: the latest time of those.
        """
        info = self.info()
        rest = [
            replace(run, first_seq=seq, first_ts_ns=latest_ns) if run.first_seq < seq else run
            for run in info.runs
            if run.last_seq >= seq
        ]
        yield from replay_runs(
            rest, lambda after: self.records(after, verify=verify), None, info.superseded
        )

    def content(self) -> BaseContent | None:
        """What is kept in place of dropped records; None when nothing was dropped.

        Raises:
            DamagedLedgerError: it is not what was kept, or the drop's record does not say so.
        """
        base = self.begin.base
        if base is None:
            return None
        record = self.record(base.record_seq)
        if record is None or record.body != base.dropped:
            raise DamagedLedgerError(
                f"record {base.record_seq} does not say that records up to "
                f"{base.dropped.last_seq} were dropped",
                advice="restore the ledger from a copy; `kubeledger audit` lists all damage",
                file=str(self.directory),
            )
        try:
            return load_content(self.directory, base)
        except DamagedLedgerError as error:
            self._refuse_if_dropped(error)
            raise

    def _refuse_if_dropped(self, error: DamagedLedgerError) -> None:
        """What seems to be damage may be a drop that came since."""
        begin = begin_of(self.node, self.directory, list_segments(self.directory / SEGMENTS))
        if begin.seq > self.begin.seq:
            raise DroppedMeanwhileError(
                f"records up to {begin.seq} of {self.node} were dropped while they were read",
                advice="run it again",
                file=error.file,
            ) from error

    def _reader(self, verify: Verify) -> NodeReader:
        return NodeReader(self.node, self.segments, self._acknowledged_seq, verify, self.begin)


@contextmanager
def reading(
    ledger: Path, node: str, after_seq: int = 0, held_max: int | None = None
) -> Iterator[Reading]:
    """Look at a node.

    Args:
        after_seq: no record before the one after this will be asked for, but one by one.
        held_max: how many files to hold at most; 1 is enough to look at one record.

    Raises:
        DamagedLedgerError: segments are gone.
        OSError: as the operating system says.
    """
    directory = ledger / NODES / node_directory(node)
    for attempt in range(_ATTEMPTS):
        # The manifest first: what it counts is on disk, so it must be in the listing. The base
        # last: it is written before any segment goes.
        manifest = load_manifest(ledger)
        counted = manifest.nodes.get(node, NodeInfo()) if manifest else NodeInfo()
        segments = list_segments(directory / SEGMENTS)
        begin = begin_of(node, directory, segments)
        segments = [segment for segment in segments if segment.first_seq > begin.seq]
        at = max(sum(segment.first_seq <= after_seq for segment in segments) - 1, 0)
        with ExitStack() as stack:
            held_from = [] if held_max is None else [held_max]
            try:
                held = stack.enter_context(hold(segments[at:], *held_from))
            except SegmentGoneError:
                if attempt + 1 == _ATTEMPTS:
                    raise
                continue
            yield Reading(node, directory, [*segments[:at], *held], begin, counted)
            return


def _are_in_order(info: NodeInfo) -> bool:
    return replays_in_seq_order(info.runs, info.last_seq, 0)


def count_lines(info: NodeInfo, lines: Iterator[RawLine], first_seqs: Collection[int] = ()) -> None:
    """Count checked lines of one segment that were not counted yet; memory is flat.

    Args:
        info: changed in place.
        lines: continue where ``info`` ends.
        first_seqs: segments that ``info`` has already, though their first lines come now.

    Raises:
        DamagedLedgerError: one of them is not a record.
    """
    while piece := list(islice(lines, _COUNTED_AT_ONCE)):
        if piece[0].offset == 0 and piece[0].seq not in first_seqs:
            begin_segment(info, piece[0].seq, info.head)
        facts = [_fact(raw) for raw in piece]
        size_bytes = sum(len(raw.line) for raw in piece)
        note_records(info, facts, size_bytes, chain_of(piece[-1].line))


def _fact(raw: RawLine) -> tuple[int, Body | None]:
    """A record's time, and its body if the counts need it."""
    try:
        envelope = decode_envelope(raw.line)
        body = decode_line(raw.line).body if envelope.kind in INDEXED_KINDS else None
    except BadLineError as error:  # its CRC and chain were made to fit
        raise damaged(raw.file, raw.offset, f"record {raw.seq}: {error}") from error
    return envelope.ts_ns, body
