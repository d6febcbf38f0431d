"""What commands judge: ledgers, recordings, or a node's files, imported temporarily."""

from __future__ import annotations

import io
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import msgspec
import zstandard

from kubeledger.analyze.histories.history import (
    History,
    histories_of_ledger,
    histories_of_recording,
)
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.storage import MANIFEST, NODES, open_regular, storage_errors
from kubeledger.model.errors import BadInputError, BadQuestionError

if TYPE_CHECKING:
    from kubeledger.ingest.planning.bundle import ImportOptions

RECORDING_SUFFIXES = (".ledger.jsonl", ".ledger.jsonl.zst")

STDIN = "standard input"
"""What people call ``-``."""

_HEAD_BYTES = 4096
_PACKED_HEAD_BYTES = 256 << 10
"""More than the first block of zstd takes, before which nothing is unpacked."""
_RECORD = re.compile(rb'\{"node":"(?:[^"\\]|\\.)*","seq":\d+,"ts_ns":-?\d+,"role":')
"""How a line of a ledger begins."""


def is_ledger(path: Path) -> bool:
    """Whether a directory is a ledger's."""
    return (path / MANIFEST).exists() or (path / NODES).is_dir()


def is_recording(path: Path) -> bool:
    """Whether a file holds records: its name says so, or it begins with one."""
    if path.name.endswith(RECORDING_SUFFIXES):
        return True
    try:
        with open_regular(path, links=True) as file:
            return _begins_with_record(file.read(_PACKED_HEAD_BYTES))
    except (OSError, ValueError):  # ValueError: a name with a NUL byte
        return False


def _begins_with_record(head: bytes) -> bool:
    if head.startswith(zstandard.FRAME_HEADER):
        unpacker = zstandard.ZstdDecompressor(max_window_size=1 << 27)
        try:
            head = unpacker.stream_reader(io.BytesIO(head)).read(_HEAD_BYTES)
        except zstandard.ZstdError:
            return False
    return _RECORD.match(head) is not None


@contextmanager
def recording_on_stdin(sources: Sequence[str]) -> Iterator[Path | None]:
    """A copy of standard input, where a source is ``-`` and a recording comes there.

    Else None, and nothing was read. The copy goes with the context.

    Raises:
        BadInputError: as of the caller, about standard input instead of the copy.
    """
    asked = "-" in sources and sys.stdin is not None
    if not asked or not _begins_with_record(_peek(sys.stdin.buffer)):
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="kubeledger-") as scratch:
        copy = Path(scratch) / "stdin.ledger.jsonl"
        with storage_errors("copy standard input", copy), copy.open("wb") as out:
            shutil.copyfileobj(sys.stdin.buffer, out)
        try:
            yield copy
        except BadInputError as error:
            if error.file == str(copy):
                error.file = STDIN
            raise


def _peek(stream: BinaryIO) -> bytes:
    """The first bytes, which are there to be read afterwards."""
    if isinstance(stream, io.BufferedReader):
        return stream.peek(_HEAD_BYTES)[:_HEAD_BYTES]
    if not stream.seekable():
        return b""
    head = stream.read(_HEAD_BYTES)
    stream.seek(-len(head), io.SEEK_CUR)
    return head


@contextmanager
def open_histories(
    sources: Sequence[str], *, node: str | None = None, options: ImportOptions | None = None
) -> Iterator[list[History]]:
    """Histories of all sources, in their order.

    Args:
        sources: ledger directories, recordings, or whatever an import takes; these are
            imported together into a ledger that is thrown away at the end. ``-`` is standard
            input, of a recording or of a file to import.

    Raises:
        BadQuestionError: a source has no name.
        KubeledgerError: as the ledger, ``read_recording`` and ``import_sources``.
    """
    if "" in sources:
        raise BadQuestionError(
            "a source has no name", advice="name a ledger, a file or a directory"
        )
    histories: list[History] = []
    files: list[str] = []
    with (
        tempfile.TemporaryDirectory(prefix="kubeledger-") as scratch,
        recording_on_stdin(sources) as on_stdin,
    ):
        for source in sources:
            path = Path(source)
            if source == "-" and on_stdin is not None:
                histories += [
                    msgspec.structs.replace(history, label=STDIN)
                    for history in histories_of_recording(on_stdin)
                ]
            elif source != "-" and is_ledger(path):
                histories += histories_of_ledger(Ledger.open(path))
            elif source != "-" and is_recording(path):
                histories += histories_of_recording(path)
            else:
                files.append(source)
        if files:
            from kubeledger.ingest.api import import_sources

            ledger = Ledger.create(Path(scratch) / "ledger")
            import_sources(files, ledger, options, keep=False)
            histories += [
                msgspec.structs.replace(history, label=", ".join(files), alongside=None)
                for history in histories_of_ledger(ledger)
            ]
        yield [history for history in histories if node is None or history.node == node]
