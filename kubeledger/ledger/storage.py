"""The ledger's files: their names, how they are opened, locked and changed so that it lasts."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote
from zlib import crc32

from kubeledger.model.errors import (
    BadInputError,
    LedgerBusyError,
    LedgerUnavailableError,
    reason_of,
)

MANIFEST = "ledger.json"
NODES = "nodes"
SEGMENTS = "segments"
SNAPSHOTS = "snapshots"
SUBJECTS = "subjects"
NAMES = "names"
VERDICTS = "verdicts"
CARRIED = "carried"
DERIVED = (SUBJECTS, NAMES, VERDICTS, CARRIED)
"""Directories of what is derived from records, beside their snapshots."""
SEGMENT_SUFFIX = ".jsonl"
SEALED_SUFFIX = ".jsonl.zst"
TEMPORARY_SUFFIX = ".tmp"

_DIRECTORY_LENGTH_MAX = 200  # file systems take 255 bytes
_HASHED = "%~"
_SAFE = re.compile(r"[a-z0-9_-]")
_SEGMENT = re.compile(r"(\d{20})(?:\.jsonl|\.jsonl\.zst)")


def node_directory(node: str) -> str:
    """Directory name of a node: lower-case letters, digits, ``_``, ``-`` and inner dots stay.

    All else is percent-encoded byte by byte (upper case too: some file systems do not show
    ``A`` from ``a``), so no name leaves its place in the ledger. A name too long for a file
    system keeps its start and ends in a digest.

    Raises:
        BadInputError: an empty name, or one that is not Unicode text.
    """
    if not node:
        raise BadInputError("a node needs a name", advice="give one with --node")
    try:
        escaped = "".join(_escape(character, index) for index, character in enumerate(node))
        digest = hashlib.blake2b(node.encode(), digest_size=16).hexdigest()
    except UnicodeEncodeError:
        raise BadInputError(f"not a node name: {node!r}") from None
    if len(escaped) <= _DIRECTORY_LENGTH_MAX:
        return escaped
    return f"{escaped[:120]}{_HASHED}{digest}"


def _escape(character: str, index: int) -> str:
    if _SAFE.fullmatch(character) or (character == "." and index > 0):
        return character
    return "".join(f"%{byte:02X}" for byte in character.encode())


def node_name(directory: str) -> str | None:
    """The node of a directory name; None when the name has only a digest or is not ours."""
    if _HASHED in directory:
        return None
    name = unquote(directory, errors="surrogateescape")
    try:
        return name if node_directory(name) == directory else None
    except BadInputError:
        return None


def segment_file(first_seq: int, *, sealed: bool = False) -> str:
    """File name of the segment that begins with this record."""
    return f"{first_seq:020d}{SEALED_SUFFIX if sealed else SEGMENT_SUFFIX}"


def segment_first_seq(name: str) -> int | None:
    """First record of a segment by its file name; None when it is no segment."""
    match = _SEGMENT.fullmatch(name)
    return int(match[1]) if match else None


# Opening files that someone else may have put there: regular files, and nothing else.
#
# A ledger, a recording or a scenario may come from anyone. A link would lead out of it, a pipe
# would never answer, a device would never end.

_BLOCK_BYTES = 1 << 20


class NotRegularError(OSError):
    """A link, a pipe, a device, a directory where a file should be; its name is given."""


def open_regular(path: Path, *, links: bool = False) -> BinaryIO:
    """Open a file for reading.

    Args:
        path: its last part is no link, unless these are allowed.
        links: the user named it, so it may be one.

    Raises:
        OSError: it cannot be opened, or is not a regular file.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if links else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotRegularError(errno.ELOOP, "a link, not a regular file", str(path)) from None
        raise
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotRegularError(errno.EINVAL, "no regular file", str(path))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: Path, bytes_max: int, *, links: bool = False) -> bytes:
    """The content of a file.

    Raises:
        OSError: as :func:`open_regular`; or there are more bytes than that.
    """
    with open_regular(path, links=links) as file:
        size = os.fstat(file.fileno()).st_size
        data = file.read(min(size, bytes_max) + 1)  # no more memory than it may need
    if len(data) > bytes_max:
        raise OSError(errno.EFBIG, f"larger than {bytes_max >> 20} MiB", str(path))
    return data


def file_crc(path: Path) -> str:
    """CRC-32 of a file's bytes, 8 hex digits.

    Raises:
        OSError: as :func:`open_regular`.
    """
    with open_regular(path) as file:
        return crc_of(file)


def crc_of(file: BinaryIO) -> str:
    """CRC-32 of the bytes from a file's position on, 8 hex digits."""
    crc = 0
    while block := file.read(_BLOCK_BYTES):
        crc = crc32(block, crc)
    return f"{crc:08x}"


WRITE_OWN = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK
"""Opens a ledger's own file for writing: never through a link, never waiting for a pipe."""

OWN_DIRECTORY, OWN_FILE = 0o700, 0o600
"""Whatever the umask: a ledger holds the specs of pods, and what stands in them."""

SHARED_DIRECTORY = 0o777
"""As the umask will have it: of directories above a ledger."""

_NOT_ITS_OWN = "a ledger holds regular files of its own; put a copy in its place"
_ADVICE = {
    errno.ENOSPC: "free some space and run it again",
    errno.EDQUOT: "free some space and run it again",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "give this user write access to the ledger",
    errno.EPERM: "give this user write access to the ledger",
    errno.ELOOP: _NOT_ITS_OWN,
    errno.ENXIO: _NOT_ITS_OWN,
}
_OF_ONE_FILE = frozenset({errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENXIO})
"""What another file beside it may not suffer from, so that it has to be named."""


@contextmanager
def storage_errors(doing: str, path: Path) -> Iterator[None]:
    """Turn an ``OSError`` into one sentence for the user.

    Raises:
        LedgerUnavailableError: the operating system refused.
    """
    try:
        yield
    except OSError as error:
        reason = reason_of(error).lower()
        advice, file = _ADVICE.get(error.errno or 0, ""), str(path)
        if error.errno in _OF_ONE_FILE or isinstance(error, NotRegularError):
            file = error.filename if isinstance(error.filename, str) else file
        if isinstance(error, NotRegularError):
            advice = _NOT_ITS_OWN
        elif error.errno in (errno.EACCES, errno.EPERM) and doing.startswith(("read ", "prove ")):
            advice = "give this user read access to it"
        raise LedgerUnavailableError(
            f"cannot {doing}: {reason}", advice=advice, file=file
        ) from error


def write_all(descriptor: int, data: bytes) -> None:
    """``write`` until all is written (one call writes 2 GiB at most, or less on a full disk)."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable: a new file is lost without it."""
    sync(directory, os.O_DIRECTORY)


def sync(path: Path, flags: int = os.O_NOFOLLOW) -> None:
    """Make the content of a file durable that was written before."""
    descriptor = os.open(path, os.O_RDONLY | flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(directory: Path, mode: int = OWN_DIRECTORY) -> None:
    """Create a directory and its parents, all of that mode, durably; one that is there is fine."""
    if directory.is_dir():
        return
    make_directory(directory.parent, mode)
    directory.mkdir(mode, exist_ok=True)
    sync_directory(directory.parent)


def remove(path: Path) -> None:
    """Remove a file durably; one that is not there is fine."""
    path.unlink(missing_ok=True)
    sync_directory(path.parent)


class NewFile:
    """A file under construction; see :func:`new_file`.

    Attributes:
        size_bytes: written so far.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.size_bytes = 0

    def write(self, data: bytes) -> int:
        """Write all of it; returns how much that is."""
        write_all(self._descriptor, data)
        self.size_bytes += len(data)
        return len(data)


@contextmanager
def new_file(path: Path, *, durable: bool = True) -> Iterator[NewFile]:
    """Make a file, or empty the one that is there; its content is on disk after the context.

    What nobody asks for after a crash need not be ``durable``: then it may be lost.
    Never one that a link leads to: who made a ledger must not choose what its reader overwrites.
    Its name is not: see :func:`sync_directory`.
    """
    descriptor = os.open(path, os.O_CREAT | os.O_TRUNC | WRITE_OWN, OWN_FILE)
    try:
        yield NewFile(descriptor)
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file: after a crash it is whole, the old one or the new one."""
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    try:
        with new_file(temporary) as file:
            file.write(data)
        os.replace(temporary, path)  # noqa: PTH105 - named as the system call it is
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise
    sync_directory(path.parent)


# One writer, and one shipper, at a time. The system drops the lock of a process that dies.

_WRITER, _SHIPPER = "writer", "shipper"
_HOLDER_BYTES_MAX = 64

LOCK_FILES = frozenset(f"{who}.{what}" for who in (_WRITER, _SHIPPER) for what in ("lock", "pid"))
"""Names in a ledger's directory that are no part of it. Who holds a lock is in a file apart:
on some systems a locked one cannot be read."""


def writer_lock(directory: Path) -> AbstractContextManager[None]:
    """Hold the ledger's writer lock; the files stay, only the lock on them counts.

    Raises:
        LedgerBusyError: another process, or another writer in this one, holds it.
        LedgerUnavailableError: the lock file cannot be made.
    """
    return _locked(directory, _WRITER, "wait until it is done; reading is possible meanwhile")


def shipper_lock(directory: Path) -> AbstractContextManager[None]:
    """Hold the lock of the process that ships the ledger's segments; as :func:`writer_lock`.

    Raises:
        KubeledgerError: as there.
    """
    return _locked(directory, _SHIPPER, "one is enough: stop the other one first")


@contextmanager
def _locked(directory: Path, who: str, advice: str) -> Iterator[None]:
    path, holder = directory / f"{who}.lock", directory / f"{who}.pid"
    with ExitStack() as held:  # an interrupt, too, leaves the lock to no process that continues
        with storage_errors("lock the ledger", path):
            try:
                held.enter_context(locked_file(path))
            except TimeoutError:
                raise LedgerBusyError(
                    f"another {who} is at work on this ledger ({_holder(directory, who)})",
                    advice=advice,
                    file=str(directory),
                ) from None
        try:
            with storage_errors("write the ledger", holder), new_file(holder, durable=False) as f:
                f.write(b"%d\n" % os.getpid())
            yield
        finally:
            with suppress(OSError):  # only a courtesy to the next one who finds the lock taken
                holder.unlink(missing_ok=True)


_LOCK_POLL_S = 0.05


@contextmanager
def locked_file(path: Path, wait_s: float = 0) -> Iterator[None]:
    """Hold the system's lock on a file, which is made if need be and stays; a crash frees it, too.

    Args:
        path: of the file; no link is followed.
        wait_s: for how long others may hold it meanwhile.

    Raises:
        TimeoutError: others hold it, in this process or another one.
        OSError: the file cannot be opened, or the file system knows no locks.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, OWN_FILE)
    try:
        until_s = time.monotonic() + wait_s
        while not _is_locked_now(descriptor):
            if time.monotonic() >= until_s:
                raise TimeoutError(errno.ETIMEDOUT, "others hold its lock", str(path))
            time.sleep(_LOCK_POLL_S)
        yield
    finally:
        with suppress(OSError):  # nothing was written, and the lock goes all the same
            os.close(descriptor)


def _is_locked_now(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # as some file systems say that others hold it
        return False
    return True


def _holder(directory: Path, who: str) -> str:
    try:
        return f"process {int(read_regular(directory / f'{who}.pid', _HOLDER_BYTES_MAX))}"
    except (OSError, ValueError):
        return "its process is not known"
