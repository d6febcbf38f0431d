"""Where a node's ledger begins once its first records were dropped, and what stands for them.

``nodes/<node>/base.json`` is written before a drop is recorded and before any segment goes, so
it is an intent until the first segment is gone. Segments go one by one from the beginning,
each removal on disk before the next: the first one that is there shows which base holds.
``base.json`` keeps the base before, for that question, and for a drop that was never recorded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import msgspec
import zstandard

from kubeledger.ledger.sealing import decompress, load_sealed, save_sealed
from kubeledger.ledger.segments import Segment, blocks_of, lines_of
from kubeledger.ledger.storage import NotRegularError, open_regular
from kubeledger.model.bodies.ledger import RecordsDropped, Source
from kubeledger.model.errors import DamagedLedgerError, RecordsDroppedError
from kubeledger.model.record import Record
from kubeledger.model.units import format_ts, whole_number
from kubeledger.model.wire.codec import GENESIS, BadLineError, check_crc, decode_line, kind_of

BASE = "base.json"
_BYTES_MAX = 64 << 20


class Base(msgspec.Struct, frozen=True, kw_only=True):
    """What stands in place of a node's first records.

    Attributes:
        record_seq: number of the drop's record.
        dropped: what the record says.
        previous: the base before this one; its own ``previous`` is None.
    """

    format: int = 1
    node: str
    record_seq: int
    dropped: RecordsDropped
    previous: Base | None = None

    @property
    def first_seq(self) -> int:
        """The first record that is kept."""
        return self.dropped.last_seq + 1

    @property
    def phrase(self) -> str:
        """What was dropped, when and why, as a clause."""
        dropped = self.dropped
        return (
            f"records 1 to {dropped.last_seq} of {self.node} (up to "
            f"{format_ts(dropped.latest_ts_ns)}) were dropped at "
            f"{format_ts(dropped.dropped_ts_ns)} (record {self.record_seq}: {dropped.policy})"
        )

    def refusal(self, asked: str) -> RecordsDroppedError:
        """The error for a question about what was dropped."""
        return RecordsDroppedError(
            f"{asked}: {self.phrase}",
            advice=f"ask for record {self.dropped.last_seq + 1} or later, or read a copy of the "
            "ledger from before",
        )


class Begin(NamedTuple):
    """Where reading begins.

    Attributes:
        base: None where the node's first record is there.
    """

    base: Base | None = None

    @property
    def seq(self) -> int:
        """The record before the first one; 0 without a base."""
        return self.base.dropped.last_seq if self.base else 0

    @property
    def chain(self) -> bytes:
        """Its chain digest, 32 raw bytes."""
        return bytes.fromhex(self.base.dropped.chain) if self.base else GENESIS


def save_base(directory: Path, base: Base) -> None:
    """Write a node's ``base.json`` atomically.

    Raises:
        OSError: as the operating system says.
    """
    save_sealed(directory / BASE, base)


def load_base(directory: Path) -> Base | None:
    """Read a node's ``base.json``; None when there is none, or a damaged one.

    Raises:
        OSError: it is there and cannot be read.
    """
    base = load_sealed(directory / BASE, Base, _BYTES_MAX)
    try:
        bytes.fromhex(base.dropped.chain if base else "")
    except ValueError:
        return None
    return base


def begin_of(node: str, directory: Path, segments: Sequence[Segment]) -> Begin:
    """Where a node's records begin.

    Args:
        segments: its files, listed before this is called.

    Raises:
        DamagedLedgerError: segments are gone, and no drop says why.
        OSError: as the operating system says.
    """
    first_seq = segments[0].first_seq if segments else 0
    if first_seq == 1:
        return Begin()
    base = load_base(directory)
    if not segments:
        if base is not None:
            raise DamagedLedgerError("no segment is left of those kept", file=str(directory))
        return Begin()
    found = _first_that_holds(first_seq, [base.previous, base] if base else [])
    found = found or _first_that_holds(first_seq, list(recorded_bases(node, segments)))
    if found is None:
        raise DamagedLedgerError(
            f"records 1 to {first_seq - 1} should stand before this segment and are missing, "
            "and no record says that they were dropped",
            advice="restore the file from a copy; `kubeledger audit` lists all damage",
            file=str(segments[0].path),
            offset=0,
        )
    return Begin(found)


def _first_that_holds(first_seq: int, bases: Sequence[Base | None]) -> Base | None:
    """The base up to which segments were removed: the smallest that reaches to the first one."""
    reaching = [base for base in bases if base is not None and base.first_seq >= first_seq]
    return min(reaching, key=lambda base: base.first_seq, default=None)


def recorded_bases(node: str, segments: Sequence[Segment]) -> Iterator[Base]:
    """Bases that the records of drops name, in the order of seq.

    All lines are looked at; a bad one is passed over here, and found by who reads them.
    """
    previous: Base | None = None
    for segment in segments:
        try:
            for piece in lines_of(blocks_of(segment)):
                for line in piece.lines:
                    found = base_of_line(line)
                    if found is not None and found.node == node:
                        base = msgspec.structs.replace(found, previous=previous)
                        yield base
                        previous = found
        except (DamagedLedgerError, NotRegularError):
            continue


def base_of_line(line: bytes) -> Base | None:
    """The base that a line names; None when it is no sound record of a drop."""
    if kind_of(line) != RecordsDropped.kind:
        return None
    try:
        check_crc(line)
        record = decode_line(line)
    except BadLineError:
        return None
    assert isinstance(record.body, RecordsDropped)
    return Base(node=record.node, record_seq=record.seq, dropped=record.body)


# What is kept in place of dropped records: ``nodes/<node>/base/<seq>.zst``.
#
# A zstd file of lines: a header, the state after record ``seq`` as JSON, and the lines of some
# of the dropped records as they stood. It is no cache: it cannot be made again. The record of the
# drop holds the BLAKE2b-256 of its lines.

BASES = "base"
_SUFFIX = ".zst"
_LEVEL = 10
_CONTENT_BYTES_MAX = 1 << 30
_RESTORE = "restore the file from a copy: it cannot be made again"


class DroppedImport(msgspec.Struct, frozen=True, kw_only=True):
    """An import that begins among dropped records: by this it is known again.

    Attributes:
        digest, sources, year: as in ``ImportStarted``.
        complete: its ``ImportCompleted`` is among the dropped records, too.
    """

    digest: str
    sources: tuple[Source, ...]
    year: int | None = None
    complete: bool = False


class BaseContent(msgspec.Struct, frozen=True, kw_only=True):
    """All that is kept of dropped records.

    Attributes:
        seq: the last record dropped.
        ts_ns: the latest time of all that were.
        version: of the state's form.
        imports: (n,) in the order of seq.
        imports_forgotten: how many older ones are not among them.
        state: after record ``seq``, the owner's bytes, without a newline.
        lines: (n,) records as they stood, in the order of seq.
    """

    seq: int
    ts_ns: int
    version: str
    imports: tuple[DroppedImport, ...] = ()
    imports_forgotten: int = 0
    state: bytes = b"{}"
    lines: tuple[bytes, ...] = ()

    @property
    def records(self) -> list[Record]:
        """The records of ``lines``."""
        return [decode_line(line) for line in self.lines]


class _Header(msgspec.Struct, frozen=True, kw_only=True):
    """First line of the file."""

    format: int = 1
    node: str
    seq: int
    ts_ns: int
    version: str
    imports: tuple[DroppedImport, ...]
    imports_forgotten: int


_OF_CONTENT = ("seq", "ts_ns", "version", "imports", "imports_forgotten")


def encode_content(node: str, content: BaseContent) -> tuple[bytes, str]:
    """The file's bytes, and the digest of its lines (64 hex digits)."""
    header = _Header(node=node, **{name: getattr(content, name) for name in _OF_CONTENT})
    head = msgspec.json.encode(header, order="deterministic")
    lines = b"".join((head, b"\n", content.state, b"\n", *content.lines))
    packed = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compress(lines)
    return packed, hashlib.blake2b(lines, digest_size=32).hexdigest()


def load_content(directory: Path, base: Base) -> BaseContent:
    """Read what a base kept, each byte proved by the base's digest.

    Raises:
        DamagedLedgerError: it is gone, or not what was kept.
        OSError: it cannot be read.
    """
    path = content_path(directory, base.dropped.last_seq)
    try:
        lines = _unpacked(path)
        if hashlib.blake2b(lines, digest_size=32).hexdigest() != base.dropped.base_digest:
            raise DamagedLedgerError(
                "what was kept in place of dropped records was changed",
                advice=_RESTORE,
                file=str(path),
            )
        return _decoded(base, lines)
    except FileNotFoundError:
        problem = "what was kept in place of dropped records is gone"
    except (zstandard.ZstdError, EOFError, msgspec.MsgspecError, BadLineError, ValueError) as error:
        problem = f"what was kept in place of dropped records is damaged: {error}"
    raise DamagedLedgerError(problem, advice=_RESTORE, file=str(path))


def _unpacked(path: Path) -> bytes:
    blocks: list[bytes] = []
    size = 0
    with open_regular(path) as file:
        for block in decompress(file):
            size += len(block)
            if size > _CONTENT_BYTES_MAX:
                raise ValueError("it is too large")
            blocks.append(block)
    return b"".join(blocks)


def _decoded(base: Base, data: bytes) -> BaseContent:
    head, state, *lines = BytesIO(data).readlines()
    header = msgspec.json.decode(head, type=_Header)
    if (header.format, header.node, header.seq) != (1, base.node, base.dropped.last_seq):
        raise ValueError("it belongs elsewhere")
    for line in lines:
        check_crc(line)
    known = {name: getattr(header, name) for name in _OF_CONTENT}
    return BaseContent(**known, state=state.removesuffix(b"\n"), lines=tuple(lines))


def content_path(directory: Path, seq: int) -> Path:
    """Where a node keeps what stands in place of the records up to ``seq``."""
    return directory / BASES / f"{seq:020d}{_SUFFIX}"


def content_seqs(directory: Path) -> Sequence[int]:
    """Last dropped records that there are files of, ascending.

    Raises:
        OSError: as the operating system says.
    """
    bases = directory / BASES
    names = [path.name for path in bases.iterdir()] if bases.is_dir() else []
    stems = [name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX)]
    return sorted(seq for stem in stems if (seq := whole_number(stem) or 0) > 0)
