"""The files that a log is and was: which of them holds what, however they are named by now.

A file is known by what it holds, its first bytes, and, where it cannot be opened, by inode and
size: never by its times. Its name only tells which of several that are new is older.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import stat
import zlib
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from kubeledger.model.errors import reason_of

HEAD_BYTES = 1000
_LOOKS_MAX = 4
_PIECE = 64 << 10
_GZIP = b"\x1f\x8b"
_TAG = 8
_DATE = 6
"""A number of so many digits is a date, and grows; a shorter one counts the rotations since."""


class Link(NamedTuple):
    """A file as its directory shows it."""

    path: Path
    inode: int
    size: int

    @property
    def by_place(self) -> str:
        """What it is known by that cannot be opened."""
        return _tag(f"{self.inode} {self.size}".encode())


class Content:
    """What a file holds, unpacked; kept open, whatever becomes of its name.

    Attributes:
        broken: why what comes after the last byte that was read cannot be read; None if nothing
            shows that.
    """

    def __init__(self, link: Link) -> None:
        """Open it.

        Raises:
            OSError: that is refused, or there is another file by now (``FileNotFoundError``).
        """
        self.link = link
        self.broken: str | None = None
        self._begin = 0
        self._raw = link.path.open("rb", buffering=0)
        self._packed: gzip.GzipFile | None = None
        try:
            if os.fstat(self._raw.fileno()).st_ino != link.inode:
                raise FileNotFoundError(link.path)
            if os.pread(self._raw.fileno(), len(_GZIP), 0) == _GZIP:
                self._packed = gzip.GzipFile(fileobj=self._raw)
        except BaseException:
            self._raw.close()
            raise

    def read(self, at: int, size: int) -> bytes:
        """Bytes from there on: fewer at the end, and where it is ``broken``."""
        pieces: list[bytes] = []
        self.broken = None
        try:
            while size > 0 and (piece := self._piece(at, size)):
                pieces.append(piece)
                at, size = at + len(piece), size - len(piece)
        except EOFError:
            self.broken = "it is cut short"
        except (OSError, zlib.error) as error:
            self.broken = reason_of(error)
        return b"".join(pieces)

    def _piece(self, at: int, size: int) -> bytes:
        if self._packed is None:
            return os.pread(self._raw.fileno(), size, at)
        if self._packed.tell() != at and self._packed.seek(at) != at:
            return b""
        return self._packed.read1(size)

    @property
    def begin(self) -> int:
        """Where its first line is: who cuts a file whose writer goes on leaves NULs before that."""
        if not self._is_nul(0):
            return 0
        at = self._begin if self._begin and self._is_nul(self._begin - 1) else 0
        if not at and self._packed is None:
            with suppress(OSError):  # nothing else is there
                at = os.lseek(self._raw.fileno(), 0, os.SEEK_DATA)
        while data := self.read(at, _PIECE):
            at += len(data) - len(data.lstrip(b"\0"))
            if data.strip(b"\0"):
                break
        self._begin = at
        return at

    def _is_nul(self, at: int) -> bool:
        return self.read(at, 1) == b"\0"

    def head(self, size: int) -> tuple[int, str]:
        """How many first bytes there are, up to ``size``, and their digest."""
        head = self.read(self.begin, size)
        return len(head), hashlib.blake2b(head, digest_size=16).hexdigest()

    def holds(self, offset: int) -> bool:
        """Whether it is that long."""
        return not offset or len(self.read(offset - 1, 1)) == 1

    @property
    def is_packed(self) -> bool:
        """Whether it is read unpacked: then it is never written again."""
        return self._packed is not None

    @property
    def by_head(self) -> str:
        """What it is known by; empty of one that is empty, or whose begin is not there yet."""
        head = self.read(self.begin, HEAD_BYTES)
        return "" if not head or (self.broken and len(head) < HEAD_BYTES) else _tag(head)

    @property
    def by_place(self) -> str:
        """As that of its link, by what its size is now."""
        return self.link._replace(size=os.fstat(self._raw.fileno()).st_size).by_place

    def close(self) -> None:
        if self._packed is not None:
            self._packed.close()
        self._raw.close()


class Links:
    """The files of one log."""

    def __init__(self, log: Path) -> None:
        self.log = log
        stem, suffix = map(re.escape, (log.stem, log.suffix))
        self._rotated = re.compile(
            rf"{re.escape(log.name)}[.-](\d[\w.:-]*)|{stem}-(\d[\w:-]*){suffix}(?:\.gz)?"
        )

    def found(self) -> list[Link]:
        """The files that there are, the oldest first by their names; the log is the last one.

        As two looks in a row show them: it may be rotated meanwhile.
        """
        links = self._listed()
        for _ in range(_LOOKS_MAX):
            before, links = links, self._listed()
            if [each[:2] for each in before] == [each[:2] for each in links]:
                break
        return links

    def _listed(self) -> list[Link]:
        """One look. The log is there also where its directory may be entered and not listed."""
        paths = {self.log}
        with suppress(OSError):
            near = self.log.parent.iterdir()
            paths.update(path for path in near if self._rotated.fullmatch(path.name))
        found: list[Link] = []
        for path in sorted(paths, key=self._age):
            with suppress(OSError):  # gone by now, or a link to nothing
                status = path.stat()
                if stat.S_ISREG(status.st_mode):
                    found.append(Link(path, status.st_ino, status.st_size))
        return found

    def _age(self, path: Path) -> tuple[int, int, str]:
        """Dated files first, then numbered ones, of which the highest number is the oldest."""
        match = self._rotated.fullmatch(path.name)
        if match is None:
            return 2, 0, ""
        count = re.match(r"\d+", match[1] or match[2])
        assert count is not None
        if len(count[0]) < _DATE:
            return 1, -int(count[0]), path.name
        return 0, 0, (match[1] or match[2]).removesuffix(".gz")


def _tag(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=_TAG // 2).hexdigest()
