"""Archives (tar, zip) taken apart: members become numbered files; their names can do no harm.

What a member is called matters to records only; on this machine it never names a file. An
archive that ends early or is damaged still gives the members before the damage.
"""

from __future__ import annotations

import lzma
import os
import stat
import tarfile
import zipfile
import zlib
from calendar import timegm
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import IO, Any

from kubeledger.ingest.sources.packing import CHUNK
from kubeledger.ingest.sources.spooling import (
    FILES_MAX,
    SPOOL_MAX,
    Unpacked,
    is_zip,
    spool_errors,
)
from kubeledger.ingest.sources.streams import SourceFile
from kubeledger.model.errors import BadInputError

RATIO_MAX = 200
"""What an archive may unpack to, as a multiple of its size; logs shrink to a thirtieth."""

RATIO_FLOOR = 1 << 30
"""Bytes up to which any ratio is believed."""

_ENCRYPTED = 1
_DAMAGED_MEMBER = (zipfile.BadZipFile, zlib.error, EOFError, lzma.LZMAError, RuntimeError)


def unpack(source: SourceFile, spool: Path, label: str) -> Unpacked:
    """Unpack an archive's regular files into ``spool``, which is made.

    Raises:
        BadInputError: a member's name leads out of the archive, it unpacks to too much,
            there is no room for it, or no member is whole.
    """
    limit = min(SPOOL_MAX, max(RATIO_FLOOR, RATIO_MAX * source.path.stat().st_size))
    unpacker = _Unpacker(spool, label, limit)
    with spool_errors(label):
        spool.mkdir(parents=True)
        if is_zip(source):
            unpacker.read_zip(source.path)
        else:
            unpacker.read(source)
    files = [unpacker.files[name] for name in sorted(unpacker.files)]
    unpacked = Unpacked(files, unpacker.skipped, unpacker.cut)
    if source.truncated or unpacker.damage:
        unpacked.damage = unpacker.damage or "it ends early"
        if not unpacked.files:
            raise BadInputError(f"is a damaged archive: {unpacked.damage}", file=label)
    return unpacked


class _ChunkReader:
    """A readable over chunks, as ``tarfile`` wants one."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes."""
        while len(self._rest) < size:
            chunk = next(self._chunks, b"")
            if not chunk:
                break
            self._rest += chunk
        data, self._rest = self._rest[:size], self._rest[size:]
        return data


class _Header(tarfile.TarInfo):
    """Records how an archive ended: ``tarfile`` does not report damage after its start."""

    @classmethod
    def fromtarfile(cls, archive: Any) -> _Header:  # noqa: ANN401 - as in the base
        """The next member's header.

        Raises:
            HeaderError: there is none.
            ReadError: in place of other errors, which ``tarfile`` lets out.
        """
        try:
            return super().fromtarfile(archive)
        except tarfile.HeaderError as error:
            archive.end = type(error).__name__
            raise
        except (ValueError, OverflowError) as error:  # numbers and texts of extended headers
            raise tarfile.ReadError("bad extended header") from error


class _Archive(tarfile.TarFile):
    tarinfo = _Header
    end = ""


class _Unpacker:
    def __init__(self, spool: Path, label: str, limit: int) -> None:
        self.files: dict[str, SourceFile] = {}
        self.skipped: dict[str, str] = {}
        self.cut: set[str] = set()
        self.damage = ""
        self._spool = spool
        self._label = label
        self._limit = limit
        self._total = 0
        self._count = 0

    def read(self, source: SourceFile) -> None:
        """All members, up to the end or the first damage."""
        name = ""
        try:
            with _Archive.open(fileobj=_ChunkReader(source.chunks()), mode="r|") as archive:  # type: ignore[call-overload]  # any object with read() will do for a stream
                for member in archive:
                    name = self._name(member)
                    if name:
                        self._member(archive, member, name)
                    name = ""
                if archive.end != "EOFHeaderError":
                    self.damage = "it ends early or is damaged"
        except (tarfile.TarError, EOFError) as error:
            self.damage = f"it ends early or is damaged ({error})"
            if name:
                self.files.pop(name, None)
                self._cut_off(name, "the archive ends in it")

    def read_zip(self, path: Path) -> None:
        """All members of a zip archive that are whole."""
        try:
            archive = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, ValueError, OSError) as error:
            raise BadInputError(f"is a damaged archive: {error}", file=self._label) from None
        with archive:
            for member in archive.infolist():
                name = self._safe_name(member.filename)
                mode = member.external_attr >> 16
                if member.is_dir():
                    continue
                if member.flag_bits & _ENCRYPTED:
                    self.skipped[name] = "encrypted"
                elif stat.S_IFMT(mode) not in (0, stat.S_IFREG):
                    self.skipped[name] = "no regular file"
                else:
                    self._zipped(archive, member, name)

    def _zipped(self, archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str) -> None:
        self._admit(member.file_size)
        try:
            with archive.open(member) as stream:
                self._write(stream, name, member.file_size, _zip_time_s(member))
        except _DAMAGED_MEMBER as error:
            self._cut_off(name, error)
            self.damage = self.damage or f"{name} is damaged"

    def _cut_off(self, name: str, why: object) -> None:
        self.skipped[name] = f"cut off: {why}"
        self.cut.add(name)

    def _name(self, member: tarfile.TarInfo) -> str:
        """What records will call a member; empty for what is not taken."""
        name = self._safe_name(member.name)
        if member.isdir():
            return ""
        reason = _refusal(member, name)
        if reason:
            self.skipped[name] = reason
        return "" if reason else name

    def _safe_name(self, name: str) -> str:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts:
            raise BadInputError(f"holds a member that leads out of it: {name}", file=self._label)
        return str(path).encode("utf-8", "surrogateescape").decode("utf-8", "replace")

    def _member(self, archive: tarfile.TarFile, member: tarfile.TarInfo, name: str) -> None:
        self._admit(member.size)
        stream = archive.extractfile(member)
        assert stream is not None, "only regular members come here"
        self._write(stream, name, member.size, member.mtime)

    def _admit(self, size_bytes: int) -> None:
        """Count a member."""
        self._count += 1
        self._total += size_bytes
        if self._count > FILES_MAX or self._total > self._limit:
            raise BadInputError(
                f"unpacks to more than {FILES_MAX} files or {self._limit} bytes",
                file=self._label,
                advice="unpack it by hand if that is right",
            )

    def _write(self, stream: IO[bytes], name: str, size_bytes: int, written_s: float) -> None:
        target = self._spool / str(self._count)
        with target.open("wb") as out:
            # Never more than the archive states: that is what was counted.
            while (left := size_bytes - out.tell()) > 0 and (
                chunk := stream.read(min(CHUNK, left))
            ):
                out.write(chunk)
        os.utime(target, (0, 0))  # the time of unpacking is nobody's, and another each time
        with suppress(ValueError, OverflowError, OSError, TypeError):  # an invalid time
            os.utime(target, (written_s, written_s))
        self.skipped.pop(name, None)
        self.cut.discard(name)
        if name in self.files:
            self.skipped[f"{name} (an earlier one)"] = "the archive holds a later one of this name"
        self.files[name] = SourceFile(name, target)


def _zip_time_s(member: zipfile.ZipInfo) -> int:
    """Seconds since the epoch; a zip has no zone, so it is good for the year only."""
    try:
        return timegm((*member.date_time, 0, 0, 0))
    except ValueError:
        return 0


def _refusal(member: tarfile.TarInfo, name: str) -> str:
    if member.issparse():
        return "a sparse file: it may unpack to any size"
    if member.issym() or member.islnk():
        return "a link in an archive"
    if not member.isreg():
        return "no regular file"
    return "a file without a name" if name in ("", ".") else ""
