"""A ledger as one file, the same bytes for the same ledger; and the directory to make it in."""

from __future__ import annotations

import fcntl
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import zstandard

from kubeledger.ledger.history.history import LOCK
from kubeledger.ledger.history.parts import HISTORY
from kubeledger.ledger.kept import KEPT, SHIPPED
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.manifest import Manifest, save_manifest
from kubeledger.ledger.storage import (
    LOCK_FILES,
    MANIFEST,
    NODES,
    SNAPSHOTS,
    TEMPORARY_SUFFIX,
    locked_file,
    node_directory,
)
from kubeledger.model.errors import DamagedLedgerError

_PREFIX = "kubeledger-task-"
_LOCK = ".lock"


@contextmanager
def scratch_directory(parent: str | None) -> Iterator[Path]:
    """An empty directory.

    The operating system drops the lock beside it when the process dies, however that happens.

    Args:
        parent: where to make it; None: the default for temporary files.

    Raises:
        OSError: it cannot be made.
    """
    above = Path(parent or tempfile.gettempdir())
    above.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(above)
    descriptor, lock = tempfile.mkstemp(_LOCK, _PREFIX, above)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        directory = Path(lock.removesuffix(_LOCK))
        directory.mkdir(0o700)
        try:
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)
    finally:
        Path(lock).unlink(missing_ok=True)
        os.close(descriptor)


def _remove_abandoned(above: Path) -> None:
    for lock in above.glob(f"{_PREFIX}*{_LOCK}"):
        with suppress(OSError), locked_file(lock):  # another user's, or another process was faster
            shutil.rmtree(lock.with_name(lock.name.removesuffix(_LOCK)), ignore_errors=True)
            lock.unlink(missing_ok=True)


_LEVEL = 9
_WINDOW_LOG_MIN, _WINDOW_LOG_MAX = 20, 27
_SPREAD_LOG = 6
"""Records hold lines of the log that is kept beside them: far apart, and found in a window that
is so many times as large as they are. A larger one costs time also where little is packed."""

_PACKED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")
_BLOCK_BYTES = 1 << 20
_LEFT_OUT = LOCK_FILES | {HISTORY, LOCK}
_LEFT_OUT_OF_NODES = frozenset({SNAPSHOTS, SHIPPED})
"""What is made again of the rest, locks, and what was shipped elsewhere."""


def seal_ledger(directory: Path, file: Path) -> None:
    """Write a ledger that nobody writes to into a new file.

    The sources that it keeps are packed again, all together: that takes a third less. Who reads
    them sees by their first bytes whether they are packed.

    Raises:
        OSError: it cannot be read or written.
    """
    files = _files(directory)
    size_bytes = sum(file.stat().st_size for file in files if not _is_kept(file))
    window_log = max(_WINDOW_LOG_MIN, min(size_bytes.bit_length() + _SPREAD_LOG, _WINDOW_LOG_MAX))
    parameters = zstandard.ZstdCompressionParameters.from_level(
        _LEVEL, window_log=window_log, enable_ldm=True, write_checksum=1
    )
    packer = zstandard.ZstdCompressor(compression_params=parameters)
    with (
        file.open("xb") as out,
        packer.stream_writer(out, closefd=False) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path in files:
            member = tarfile.TarInfo(path.relative_to(directory).as_posix())
            with _plain(path) as content:
                member.size = content.seek(0, os.SEEK_END)
                content.seek(0)
                archive.addfile(member, content)


def is_sealed_ledger(file: Path) -> bool:
    """Whether a file begins as one that was sealed.

    Raises:
        OSError: it cannot be read.
    """
    unpacker = zstandard.ZstdDecompressor(max_window_size=1 << _WINDOW_LOG_MAX)
    try:
        with file.open("rb") as packed, unpacker.stream_reader(packed) as plain:
            return tarfile.TarInfo.frombuf(plain.read(512), "utf-8", "strict").name == MANIFEST
    except (tarfile.TarError, zstandard.ZstdError, UnicodeDecodeError):
        return False


def unseal_ledger(file: Path, directory: Path) -> None:
    """Unpack a sealed ledger into a new directory.

    Raises:
        DamagedLedgerError: it is not what was sealed.
        OSError: it cannot be read or written.
    """
    unpacker = zstandard.ZstdDecompressor(max_window_size=1 << _WINDOW_LOG_MAX)
    try:
        with (
            file.open("rb") as packed,
            unpacker.stream_reader(packed) as plain,
            tarfile.open(fileobj=plain, mode="r|") as archive,
        ):
            archive.extractall(directory, filter="data")
            while plain.read(_BLOCK_BYTES):  # the checksum stands at the end
                pass
    except (tarfile.TarError, zstandard.ZstdError, EOFError, ValueError) as error:
        raise DamagedLedgerError(
            f"the sealed ledger cannot be unpacked: {error}",
            advice="restore it from a copy; in a lake, `kubeledger fleet repair` makes it again",
            file=str(file),
        ) from error


def copy_node(ledger: Ledger, node: str, directory: Path) -> None:
    """Make a new ledger that holds one node of another one.

    Raises:
        KubeledgerError: the ledger cannot be read.
        OSError: it cannot be read or copied.
    """
    manifest = Manifest(nodes={node: ledger.info(node)})
    place = f"{NODES}/{node_directory(node)}/"
    for path in _files(ledger.path):
        name = path.relative_to(ledger.path).as_posix()
        if name.startswith(place):
            copy = directory / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
    save_manifest(directory, manifest)


def _is_kept(path: Path) -> bool:
    return path.parent.name == KEPT and path.suffix == ".zst"


@contextmanager
def _plain(path: Path) -> Iterator[BinaryIO]:
    """The content of a file; of a kept source without its packing."""
    with path.open("rb") as file, tempfile.TemporaryFile(dir=path.parent) as plain:
        if not _is_kept(path) or file.peek(4)[:4] != _PACKED[1]:
            yield file
            return
        try:
            zstandard.ZstdDecompressor(max_window_size=1 << _WINDOW_LOG_MAX).copy_stream(
                file, plain
            )
        except zstandard.ZstdError:  # damaged; its reader will see
            file.seek(0)
            yield file
            return
        plain.seek(0)
        is_packed_twice = plain.read(4).startswith(_PACKED)
        chosen = file if is_packed_twice else plain
        chosen.seek(0)
        yield chosen


def _files(directory: Path) -> list[Path]:
    """Regular files that belong into a sealed ledger, by name."""
    found = []
    for path in sorted(directory.rglob("*")):
        parts = path.relative_to(directory).parts
        is_copy = parts[0] in _LEFT_OUT or (
            parts[0] == NODES and not _LEFT_OUT_OF_NODES.isdisjoint(parts[2:3])
        )
        if path.is_file() and not (
            is_copy or path.is_symlink() or path.name.endswith(TEMPORARY_SUFFIX)
        ):
            found.append(path)
    return found
