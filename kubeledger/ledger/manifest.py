"""``ledger.json``: what is in a ledger, kept up to date, so that nobody has to read it all.

The manifest is advice. It may be behind the segments (it is written when a segment
begins or ends, at both ends of an import and every few MiB, not with each batch), and a
lost or damaged one is made again from them. But it is written only after the records it
counts are on disk: what it counts was acknowledged and must be there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from kubeledger.ledger.base import Begin
from kubeledger.ledger.sealing import save_sealed, unsealed
from kubeledger.ledger.storage import MANIFEST, NODES, read_regular
from kubeledger.model.bodies.ledger import (
    ImportCompleted,
    ImportStarted,
    RecordsLost,
    RecordsSuperseded,
)
from kubeledger.model.errors import BadQuestionError, DamagedLedgerError
from kubeledger.model.record import Body
from kubeledger.model.wire.codec import GENESIS

Span = tuple[int, int]
"""First and last of consecutive record numbers."""


def spans_of(seqs: Iterable[int]) -> list[Span]:
    """Numbers as the fewest spans, sorted."""
    return merged_spans((seq, seq) for seq in seqs)


def merged_spans(spans: Iterable[Span]) -> list[Span]:
    """The same numbers as the fewest spans, sorted."""
    merged: list[Span] = []
    for first, last in sorted(spans):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return merged


def is_superseded(seq: int, spans: Sequence[Span]) -> bool:
    """Whether a record is in one of the spans.

    Args:
        spans: sorted, without overlaps.
    """
    if not spans:
        return False
    at = bisect_right(spans, seq, key=lambda span: span[0]) - 1
    return at >= 0 and seq <= spans[at][1]


FORMAT = "kubeledger"
FORMAT_VERSION = 1
_BYTES_MAX = 256 << 20


class SegmentInfo(msgspec.Struct, kw_only=True):
    """One segment, as far as it is acknowledged.

    Attributes:
        first_seq, last_seq: its records; ``last_seq`` is ``first_seq - 1`` for an empty one.
        min_ts_ns, max_ts_ns: span of their times; None for an empty one.
        size_bytes: of its lines, uncompressed.
        stored_bytes: of its file.
        head: chain digest of its last record (of the one before, if empty): 64 hex digits.
        sealed: compressed and closed for good.
        stored_crc: CRC-32 of the sealed file's bytes, 8 hex digits; empty until it is sealed.
            The chain proves the lines, and this the bytes around them.
    """

    first_seq: int
    last_seq: int
    min_ts_ns: int | None = None
    max_ts_ns: int | None = None
    size_bytes: int = 0
    stored_bytes: int = 0
    head: str
    sealed: bool = False
    stored_crc: str = ""


class Run(msgspec.Struct, kw_only=True):
    """Records that were written in the order of one source's time: one import.

    It goes from an ``ImportStarted`` to the record before the next one. Records before the
    first import (a live recording) are a run too.

    Attributes:
        first_ts_ns: time of its first record.
        max_ts_ns: the latest time in it.
        digest: the import's identity; None when it is no import.
        complete: its ``ImportCompleted`` is there; ``end_seq`` is its number, 0 without one.
        reopened_seq: its last record when a writer opened the ledger and the import was not
            complete: those after it may be anybody's. Its first one when that is not known;
            0 when there was none; None as it was not noted.
    """

    first_seq: int
    last_seq: int
    first_ts_ns: int
    max_ts_ns: int
    digest: str | None = None
    complete: bool = False
    end_seq: int = 0
    reopened_seq: int | None = None


class Loss(msgspec.Struct, kw_only=True, rename={"chain": "head"}):
    """Acknowledged records that recovery did not find.

    It stands here before the record of it can be written, and then as its index.

    Attributes:
        seq: number of that record; 0 while there is none.

    The others are as in ``ledger.RecordsLost``.
    """

    first_seq: int
    last_seq: int
    chain: str
    first_ts_ns: int | None = None
    last_ts_ns: int | None = None
    imports: tuple[str, ...] = ()
    others: bool = True
    found_ts_ns: int = 0
    seq: int = 0

    @classmethod
    def of(cls, lost: RecordsLost, seq: int) -> Loss:
        """What record ``seq`` says."""
        return cls(**msgspec.structs.asdict(lost), seq=seq)

    @property
    def lost(self) -> RecordsLost:
        """What its record says, or will say."""
        fields = msgspec.structs.asdict(self)
        del fields["seq"]
        return RecordsLost(**fields)


class NodeInfo(msgspec.Struct, kw_only=True):
    """One node of the ledger; lists are in the order of seq.

    Attributes:
        losses: what recoveries did not find, but for losses that dropped records named.
        superseded: spans of records that hold no more (``ledger.RecordsSuperseded``), sorted.
        dropped_seq: the records up to here were dropped and are not counted; mostly 0.
        dropped_head: chain digest of that record, 64 hex digits; empty when it is 0.
        keeps: sources of imports were kept here (``kept``), as they are not in a restored copy.
    """

    segments: list[SegmentInfo] = []
    runs: list[Run] = []
    losses: list[Loss] = []
    superseded: list[tuple[int, int]] = []
    dropped_seq: int = 0
    dropped_head: str = ""
    keeps: bool = False

    @property
    def last_seq(self) -> int:
        """Its last record; 0 when there is none."""
        return self.segments[-1].last_seq if self.segments else self.dropped_seq

    @property
    def head(self) -> bytes:
        """Chain digest of its last record, 32 raw bytes."""
        last = self.segments[-1].head if self.segments else self.dropped_head
        return bytes.fromhex(last) if last else GENESIS

    @property
    def missing(self) -> list[Loss]:
        """Losses of records that were not all imported again since."""
        completed = {run.digest for run in self.runs if run.digest is not None and run.complete}
        return [loss for loss in self.losses if not loss.lost.is_healed_by(completed)]


class Manifest(msgspec.Struct, kw_only=True):
    """The whole of ``ledger.json`` but its CRC."""

    format: str = FORMAT
    version: int = FORMAT_VERSION
    nodes: dict[str, NodeInfo] = {}


class _Header(msgspec.Struct):
    """What must be readable of any version's manifest."""

    format: str
    version: int


def save_manifest(directory: Path, manifest: Manifest) -> None:
    """Write ``ledger.json`` atomically.

    Raises:
        OSError: as the operating system says.
    """
    save_sealed(directory / MANIFEST, manifest)


def load_manifest(directory: Path) -> Manifest | None:
    """Read ``ledger.json``; None when it is lost or damaged but the segments are there.

    Raises:
        BadQuestionError: the directory is not a ledger.
        DamagedLedgerError: written by a newer version; nothing was touched.
    """
    path = directory / MANIFEST
    try:
        data = read_regular(path, _BYTES_MAX)
    except (FileNotFoundError, NotADirectoryError):
        data = b""
    _refuse_newer(data, path)
    manifest = unsealed(data, Manifest)
    if manifest is None and not (directory / NODES).is_dir():
        advice = "name the ledger with --ledger DIR, or make one with `kubeledger import`"
        if directory.is_file():
            words = "a ledger is a directory; a file of records is an argument"
            advice = f"{words}: `kubeledger why node {directory}`"
        raise BadQuestionError(
            f"{directory} is not a ledger" if directory.exists() else f"there is no {directory}",
            advice=advice,
        )
    return manifest


def _refuse_newer(data: bytes, path: Path) -> None:
    """Look at the version before all else: a newer format may not even have our CRC."""
    try:
        header = msgspec.json.decode(data, type=_Header)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return
    if header.format == FORMAT and header.version > FORMAT_VERSION:
        raise DamagedLedgerError(
            f"written by a newer version of kubeledger (ledger format {header.version}, "
            f"this one knows {FORMAT_VERSION})",
            advice="upgrade kubeledger; nothing was changed",
            file=str(path),
        )


# Keeping the counts of a node up to date, one record or one batch at a time.

IMPORT_KINDS = frozenset({ImportStarted.kind, ImportCompleted.kind})
INDEXED_KINDS = IMPORT_KINDS | {RecordsLost.kind, RecordsSuperseded.kind}
"""Kinds whose bodies the counts need."""


def begin_segment(info: NodeInfo, first_seq: int, head: bytes) -> SegmentInfo:
    """Add an empty segment."""
    segment = SegmentInfo(first_seq=first_seq, last_seq=first_seq - 1, head=head.hex())
    info.segments.append(segment)
    return segment


def note_records(
    info: NodeInfo,
    records: Sequence[tuple[int, Body | None]],
    size_bytes: int,
    head: bytes,
    counted_seq: int = 0,
) -> None:
    """Count records at the end of the last segment.

    Args:
        info: changed in place.
        records: (n,) time of each new record, and its body if that is of one of the indexed
            kinds (any other body may be given or left out).
        head: chain digest of the last one, or of the one before when n == 0.
        counted_seq: the runs count the records up to here already.
    """
    segment = info.segments[-1]
    first_seq = segment.last_seq + 1
    segment.last_seq += len(records)
    times = [ts_ns for ts_ns, _ in records]
    _note_runs(info, records[max(0, counted_seq + 1 - first_seq) :], segment.last_seq)
    for seq, (_, body) in enumerate(records, first_seq):
        if isinstance(body, RecordsLost):
            _note_loss(info, seq, body)
        elif isinstance(body, RecordsSuperseded):
            spans = [(span.first_seq, span.last_seq) for span in body.spans]
            info.superseded = merged_spans([*info.superseded, *spans])
    known = [ts_ns for ts_ns in (segment.min_ts_ns, segment.max_ts_ns) if ts_ns is not None]
    segment.min_ts_ns = min(times + known, default=None)
    segment.max_ts_ns = max(times + known, default=None)
    segment.size_bytes += size_bytes
    segment.stored_bytes = segment.size_bytes
    segment.head = head.hex()


def without_dropped(info: NodeInfo, begin: Begin) -> NodeInfo:
    """Counts of what is there after a base; ``info`` itself where it knows of no other records.

    Args:
        info: as a manifest has it, maybe from before the drop.
    """
    if begin.base is None or info.dropped_seq >= begin.seq:
        return info
    dropped = begin.base.dropped
    runs = [run for run in info.runs if run.first_seq > begin.seq]
    if dropped.open_run:
        across = [run for run in info.runs if run.first_seq <= begin.seq < run.last_seq]
        # Its place in the replay goes by the latest time so far, which was that of the base.
        going_on = Run(
            first_seq=begin.seq + 1,
            last_seq=across[0].last_seq if across else begin.seq,
            first_ts_ns=dropped.latest_ts_ns,
            max_ts_ns=max([dropped.latest_ts_ns, *(run.max_ts_ns for run in across)]),
            digest=dropped.open_import,
            complete=dropped.open_import_complete or any(run.complete for run in across),
            end_seq=max([run.end_seq for run in across if run.end_seq > begin.seq], default=0),
            reopened_seq=across[0].reopened_seq if across else None,
        )
        runs.insert(0, going_on)
    return NodeInfo(
        segments=[segment for segment in info.segments if segment.first_seq > begin.seq],
        runs=runs,
        losses=[loss for loss in info.losses if not 0 < loss.seq <= begin.seq],
        superseded=[span for span in info.superseded if span[1] > begin.seq],
        dropped_seq=begin.seq,
        dropped_head=dropped.chain,
        keeps=info.keeps,
    )


def _note_runs(info: NodeInfo, records: Sequence[tuple[int, Body | None]], last_seq: int) -> None:
    """Count records, the last of which is ``last_seq``, into the runs."""
    run = info.runs[-1] if info.runs else None
    for seq, (ts_ns, body) in enumerate(records, last_seq - len(records) + 1):
        if run is None or isinstance(body, ImportStarted):
            run = _run(seq, ts_ns, body.digest if isinstance(body, ImportStarted) else None)
            info.runs.append(run)
        run.last_seq = seq
        if ts_ns > run.max_ts_ns:
            run.max_ts_ns = ts_ns
        if isinstance(body, ImportCompleted) and run.digest == body.digest:
            run.complete, run.end_seq = True, seq
            run.reopened_seq = run.reopened_seq or 0


def _note_loss(info: NodeInfo, seq: int, body: RecordsLost) -> None:
    """Count a record of a loss, which may be known already."""
    noted = Loss.of(body, seq)
    for index, loss in enumerate(info.losses):
        if loss.lost == body:
            info.losses[index] = noted
            return
    info.losses.append(noted)


def _run(first_seq: int, ts_ns: int, digest: str | None) -> Run:
    return Run(
        first_seq=first_seq,
        last_seq=first_seq,
        first_ts_ns=ts_ns,
        max_ts_ns=ts_ns,
        digest=digest,
        reopened_seq=0,
    )
