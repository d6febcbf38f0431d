"""What is kept in place of dropped records: ``nodes/<node>/base/<seq>.zst``.

A zstd file of lines: a header, the state after record ``seq`` as JSON, and the lines of some
of the dropped records as they stood. It is no cache: it cannot be made again. The record of the
drop holds the BLAKE2b-256 of its lines.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import msgspec
import zstandard

from kubeledger.ledger.base import Base
from kubeledger.ledger.compression import decompress
from kubeledger.ledger.regular import open_regular
from kubeledger.model.bodies.ledger import Source
from kubeledger.model.errors import DamagedLedgerError
from kubeledger.model.record import Record
from kubeledger.model.units import whole_number
from kubeledger.model.wire.codec import BadLineError, check_crc, decode_line

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


def encode_content(node: str, content: BaseContent) -> tuple[bytes, str]:
    """The file's bytes, and the digest of its lines (64 hex digits)."""
    header = _Header(
        node=node,
        seq=content.seq,
        ts_ns=content.ts_ns,
        version=content.version,
        imports=content.imports,
        imports_forgotten=content.imports_forgotten,
    )
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
    return BaseContent(
        seq=header.seq,
        ts_ns=header.ts_ns,
        version=header.version,
        imports=header.imports,
        imports_forgotten=header.imports_forgotten,
        state=state.removesuffix(b"\n"),
        lines=tuple(lines),
    )


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
