"""A log file that is rotated: by renaming, or by copying and truncating; packed or not.

What was read is known again by its first bytes and its inode, not by its name: after a rotation it
is one of the files that are called like it (``kubelet.log.1``, ``kubelet-20261123.log.gz``). The
rest of it is read first, then the files that were written after it, then the log itself. Where what
was read is gone, so may be its rest, and that is a gap.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import stat
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

import msgspec

from kubeledger.model.errors import BadInputError
from kubeledger.record.observations import POLL_BYTES, Gap, Lines, Observation

__all__ = ["LogFile"]

_HEAD = 1000
_LOOKS_MAX = 4
_GZIP = b"\x1f\x8b"


class _Cursor(msgspec.Struct, frozen=True):
    """Where reading goes on.

    Attributes:
        inode: of the file; 0 where the log is to be read from its begin.
        head_bytes, head: how many of its first bytes were there, and their digest.
        offset: bytes read.
        read_ns: when.
    """

    inode: int = 0
    head_bytes: int = 0
    head: str = ""
    offset: int = 0
    read_ns: int = 0

    def is_of(self, file: BinaryIO, inode: int) -> bool:
        """Whether a file holds what was read."""
        if not self.head_bytes:
            return inode == self.inode
        return _digest(file, self.head_bytes) == (self.head_bytes, self.head)

    @property
    def text(self) -> str:
        """As a source gives it."""
        return msgspec.json.encode(self).decode()


class _Part(NamedTuple):
    """A file to be read: the log, or what it was before a rotation."""

    path: Path
    inode: int
    offset: int


class LogFile:
    """The lines of one log file, as it grows and is rotated.

    Attributes:
        name: that of its lines in the capture.
    """

    def __init__(
        self, name: str, path: Path, cursor: str | None = None, *, is_whole: bool = False
    ) -> None:
        """Nothing is opened yet.

        Args:
            name: of its lines in the capture.
            path: the log; it need not be there yet.
            cursor: where it was left.
            is_whole: nothing more will be written: a last line that has no end is one, too.

        Raises:
            BadInputError: the cursor is not one of a log file.
        """
        self.name = name
        self._path = path
        self._is_whole = is_whole
        self._file: BinaryIO | None = None
        self._parts: deque[_Part] = deque()
        try:
            self._at = msgspec.json.decode(cursor, type=_Cursor) if cursor else _Cursor()
        except msgspec.MsgspecError as error:
            raise BadInputError(f"not the cursor of a log file: {error}") from None
        stem, suffix = map(re.escape, (path.stem, path.suffix))
        self._rotated = re.compile(
            rf"{re.escape(path.name)}[.-]\d[\w.:-]*|{stem}-\d[\w:-]*{suffix}(?:\.gz)?"
        )

    def poll(self, now_ns: int) -> Iterator[Observation]:
        """As ``Source.poll``."""
        given = 0
        if self._file is not None and not self._parts and self._is_rotated():
            self.close()  # the same file may hold other lines by now
        while given < POLL_BYTES:
            if self._file is None:
                if not self._parts:
                    yield from self._find(now_ns)
                if not self._open(now_ns):
                    return
            data = self._rest()
            lines = data[: data.rfind(b"\n") + 1]
            if not lines and (len(data) == POLL_BYTES or (self._is_whole and not self._parts)):
                lines = data  # part of a line: one that is longer than any, or the last one
            if lines:
                given += len(lines)
                yield self._lines(lines, len(lines), now_ns)
            elif self._parts:  # it was rotated: its last line has no end, and never gets one
                if data:
                    yield self._lines(data + b"\n", len(data), now_ns)
                self.close()
            elif self._is_rotated():
                self.close()
            else:
                return

    def close(self) -> None:
        """As ``Source.close``."""
        if self._file is not None:
            self._file.close()
            self._file = None

    # --- the file that is read -------------------------------------------------------------

    def _open(self, now_ns: int) -> bool:
        """Open the next part; whether there is one. After a rotation all are found again."""
        while self._parts:
            path, inode, offset = self._parts.popleft()
            with suppress(OSError):
                file = _opened(path)
                if os.fstat(file.fileno()).st_ino != inode:
                    file.close()
                    self._parts.clear()
                    return False
                self._file = file
                if offset:
                    self._at = msgspec.structs.replace(self._at, inode=inode)
                else:
                    self._at = _Cursor(inode, read_ns=now_ns)
                return True
        return False

    def _rest(self) -> bytes:
        assert self._file is not None
        with suppress(OSError, EOFError, zlib.error):  # a packed one that is not whole has no more
            self._file.seek(self._at.offset)
            return self._file.read(POLL_BYTES)
        return b""

    def _lines(self, data: bytes, read: int, now_ns: int) -> Lines:
        assert self._file is not None
        inode, head_bytes, head, offset, _ = msgspec.structs.astuple(self._at)
        if head_bytes < _HEAD:
            head_bytes, head = _digest(self._file, min(_HEAD, offset + read))
        self._at = _Cursor(inode, head_bytes, head, offset + read, now_ns)
        return Lines(self.name, data, self._at.text)

    # --- rotation ---------------------------------------------------------------------------

    def _is_rotated(self) -> bool:
        """Whether the file holds something else by now, or the log is another one."""
        file, at = self._file, self._at
        assert file is not None
        with suppress(OSError, EOFError, zlib.error):
            if not (at.is_of(file, os.fstat(file.fileno()).st_ino) and _holds(file, at.offset)):
                return True
            status = self._path.stat()
            return status.st_ino != at.inode and status.st_size > 0
        return False

    def _find(self, now_ns: int) -> Iterator[Gap]:
        """Which files are to be read: what was read last, from there on, and all after it."""
        at, files = self._at, self._files()
        found = self._found(files)
        if found is not None:
            self._parts.append(_Part(found, files[found].st_ino, at.offset))
        elif at.offset:
            reason = f"what {self._path.name} held was rotated away before it was read to its end"
            self._at = _Cursor(read_ns=at.read_ns)
            yield Gap(self.name, reason, at.read_ns, now_ns, self._at.text)
        if found == self._path:
            return
        log = files.pop(self._path, None)
        after_ns = files.pop(found).st_mtime_ns if found is not None else at.read_ns or now_ns
        later = sorted((file.st_mtime_ns, path) for path, file in files.items())
        self._parts += [
            _Part(path, files[path].st_ino, 0) for mtime_ns, path in later if mtime_ns > after_ns
        ]
        if log is not None and log.st_size > 0:  # an empty one could not be known again
            self._parts.append(_Part(self._path, log.st_ino, 0))

    def _found(self, files: Iterable[Path]) -> Path | None:
        """The file that holds what was read; one with its inode rather than a copy."""
        matching: list[tuple[bool, Path]] = []
        for path in files if self._at.inode else ():
            with suppress(OSError, EOFError, zlib.error), _opened(path) as file:
                inode = os.fstat(file.fileno()).st_ino
                if self._at.is_of(file, inode) and _holds(file, self._at.offset):
                    matching.append((inode != self._at.inode, path))
        return min(matching, default=(False, None))[1]

    def _files(self) -> dict[Path, os.stat_result]:
        """The log and the files that it may have been, as two looks in a row show them."""
        files = self._listed()
        for _ in range(_LOOKS_MAX):
            before, files = files, self._listed()
            if [(p, s.st_ino) for p, s in before.items()] == [
                (p, s.st_ino) for p, s in files.items()
            ]:
                break
        return files

    def _listed(self) -> dict[Path, os.stat_result]:
        """One look, during which the log may be rotated; sorted.

        The log is there also where its directory may be entered and not listed.
        """
        paths = {self._path}
        with suppress(OSError):
            near = self._path.parent.iterdir()
            paths.update(path for path in near if self._rotated.fullmatch(path.name))
        found: dict[Path, os.stat_result] = {}
        for path in sorted(paths):
            with suppress(OSError):  # gone by now, or a link to nothing
                status = path.stat()
                if stat.S_ISREG(status.st_mode):
                    found[path] = status
        return found


def _opened(path: Path) -> BinaryIO:
    file = path.open("rb")
    if file.read(2) == _GZIP:
        file.close()
        return cast("BinaryIO", gzip.open(path))
    file.seek(0)
    return file


def _digest(file: BinaryIO, size: int) -> tuple[int, str]:
    """How many first bytes there are, up to ``size``, and their digest."""
    file.seek(0)
    head = file.read(size)
    return len(head), hashlib.blake2b(head, digest_size=16).hexdigest()


def _holds(file: BinaryIO, offset: int) -> bool:
    """Whether a file is that long."""
    file.seek(max(0, offset - 1))
    return not offset or len(file.read(1)) == 1
