"""``history/index.json``: which records the Parquet files hold, and what proves it.

The index is a cache like the files it names. It carries a CRC over itself, a CRC of each
file, and for each part the chain digest of its last record: what does not fit is made again.
"""

from __future__ import annotations

import re
from pathlib import Path
from zlib import crc32

import msgspec

from kubeledger.ledger.history.lines import ROW_COLUMNS
from kubeledger.ledger.regular import read_regular
from kubeledger.ledger.storage import write_atomically
from kubeledger.model.wire.catalogue import BODY_TYPES

HISTORY = "history"
INDEX = "index.json"
_BYTES_MAX = 256 << 20
_VERSION = 1
_CRC_DIGITS = 8

_NAME = re.compile(r"node=(?!\.\.?/)[^/\x00]+/date=[-+\d]+/\d{20}-\d{20}\.parquet")
_SCHEMA = repr((ROW_COLUMNS, sorted((kind, body.v) for kind, body in BODY_TYPES.items())))
FORM = f"{_VERSION}.{crc32(_SCHEMA.encode()):08x}"
"""Names the form of the rows: version of this code, columns, schema version of each kind.
Rows hold bodies that are upcast already, so files of another form are made again."""


class PartFile(msgspec.Struct, frozen=True, kw_only=True):
    """One Parquet file.

    Attributes:
        name: path below the history's directory: ``node=.../date=.../FIRST-LAST.parquet``.
        size_bytes: of the file.
        crc: CRC-32 of its bytes, 8 hex digits.
    """

    name: str
    size_bytes: int
    crc: str


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Consecutive records of one node and one segment, one file for each date.

    Attributes:
        first_seq, last_seq: the records.
        chain: chain digest of the last, 64 hex digits. It stands for all records before too.
        files: (n,) by date.
    """

    first_seq: int
    last_seq: int
    chain: str
    files: tuple[PartFile, ...]


class Index(msgspec.Struct, kw_only=True):
    """The whole index: node -> its parts, in the order of seq, without a gap."""

    form: str = FORM
    nodes: dict[str, list[Part]] = {}


class BadIndexError(Exception):
    """The index is not as it was written."""


class _Form(msgspec.Struct):
    form: str


def load_index(root: Path) -> Index:
    """The index of a history's directory; empty when it is missing, damaged or of another form.

    Raises:
        OSError: it is there and cannot be read.
    """
    try:
        index = read_index(root)
    except BadIndexError:
        return Index()
    return index if index is not None and index.form == FORM else Index()


def read_index(root: Path) -> Index | None:
    """The index of a history's directory; None when there is none.

    One of another form names no parts: its files are not read.

    Raises:
        BadIndexError: it is damaged.
        OSError: it is there and cannot be read.
    """
    try:
        data = read_regular(root / INDEX, _BYTES_MAX)
    except (FileNotFoundError, NotADirectoryError):
        return None
    text, crc = data[: -_CRC_DIGITS - 1], data[-_CRC_DIGITS - 1 :]
    if crc != b"%08x\n" % crc32(text):
        raise BadIndexError
    try:
        form = msgspec.json.decode(text, type=_Form).form
        if form != FORM:
            return Index(form=form)
        index = msgspec.json.decode(text, type=Index)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadIndexError from error
    names = [file.name for parts in index.nodes.values() for part in parts for file in part.files]
    if not all(map(_NAME.fullmatch, names)):
        raise BadIndexError
    return index


def save_index(root: Path, index: Index) -> None:
    """Write the index atomically.

    Raises:
        OSError: as the operating system says.
    """
    text = msgspec.json.encode(index, order="deterministic") + b"\n"
    write_atomically(root / INDEX, text + b"%08x\n" % crc32(text))
