"""From what the user named to a flat list of regular files: walking, unpacking, refusing.

Symbolic links are followed only to regular files inside the tree that was named. Members
of archives with absolute paths, ``..`` or device types are refused. What comes from
standard input or an archive is spooled into a temporary directory, since a log is read
twice: once to know what it is, once to import it.
"""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import BinaryIO

import msgspec

from kubeledger.errors import BadInputError, BadQuestionError
from kubeledger.importers.snapshot_time import SNAPSHOT_NAME
from kubeledger.importers.sources import CHUNK, SourceFile

__all__ = ["Collected", "collect"]

FILES_MAX = 200_000
SPOOL_MAX = 64 << 30
_HEAD = 512


class Collected(msgspec.Struct):
    """What one argument of the user's holds.

    Attributes:
        label: how the user named it.
        is_tree: a directory or an archive, so that names of its directories mean something.
        files: sorted by name.
        skipped: name -> why it is no file that can be read.
        name: of the directory.
    """

    label: str
    is_tree: bool
    files: list[SourceFile]
    skipped: dict[str, str]
    name: str = ""


def collect(arguments: Sequence[str], spool: Path) -> list[Collected]:
    """The files behind the arguments, in their order; ``-`` is standard input.

    Args:
        arguments: paths as the user gave them.
        spool: an empty directory for what has to be unpacked; the caller removes it.

    Raises:
        BadInputError: a path does not exist or an archive is hostile or damaged.
        BadQuestionError: no argument.
    """
    if not arguments:
        raise BadQuestionError("nothing to import", advice="name a file or directory")
    return [_collect_one(text, spool / str(index)) for index, text in enumerate(arguments)]


def _collect_one(text: str, spool: Path) -> Collected:
    if text == "-":
        return _from_stdin(spool)
    path = Path(text)
    if path.is_dir():
        return _from_directory(text, path)
    if not path.exists():
        raise BadInputError("no such file or directory", file=text)
    if not path.is_file():
        raise BadInputError("is neither a regular file nor a directory", file=text)
    source = SourceFile(path.name, path)
    if _is_tar(source):
        return _from_tar(text, source, spool)
    return Collected(text, False, [source], {}, path.resolve().parent.name)


def _from_stdin(spool: Path) -> Collected:
    spool.mkdir(parents=True)
    target = spool / "stdin"
    with target.open("wb") as out:
        _copy(sys.stdin.buffer, out, SPOOL_MAX, "-")
    source = SourceFile("stdin", target)
    if _is_tar(source):
        return _from_tar("-", source, spool / "tree")
    return Collected("-", False, [source], {})


def _copy(stream: BinaryIO, out: BinaryIO, limit: int, label: str) -> int:
    total = 0
    while chunk := stream.read(CHUNK):
        total += len(chunk)
        if total > limit:
            raise BadInputError(f"is larger than {limit} bytes", file=label)
        out.write(chunk)
    return total


def _from_directory(text: str, root: Path) -> Collected:
    collected = Collected(text, True, [], {}, root.resolve().name)
    inside = root.resolve()
    for path in _walk(root):
        name = path.relative_to(root).as_posix()
        reason = _refusal(path, inside)
        if reason:
            collected.skipped[name] = reason
        else:
            collected.files.append(SourceFile(name, path))
        if len(collected.files) > FILES_MAX:
            raise BadInputError(
                f"holds more than {FILES_MAX} files",
                file=text,
                advice="name the node's own directory",
            )
    collected.files.sort(key=lambda source: source.name)
    return collected


def _walk(root: Path) -> Iterator[Path]:
    """Files below a directory; directories behind links are not entered."""
    for directory, names, files in os.walk(root, followlinks=False):
        names.sort()
        for name in sorted(files):
            yield Path(directory) / name
        for name in names:
            path = Path(directory) / name
            if path.is_symlink():
                yield path


def _refusal(path: Path, inside: Path) -> str | None:
    if path.is_symlink():
        try:
            target = path.resolve(strict=True)
        except (OSError, RuntimeError):
            return "a broken link"
        if not target.is_relative_to(inside):
            return "a link that leads out of the directory"
        if target.is_dir():
            return "a link to a directory"
    if not path.is_file():
        return "no regular file"
    return None


def _is_tar(source: SourceFile) -> bool:
    head = source.head(_HEAD)
    if len(head) < _HEAD:
        return False
    try:
        tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return head[257:262] == b"ustar"


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


def _from_tar(text: str, source: SourceFile, spool: Path) -> Collected:
    spool.mkdir(parents=True)
    total = count = 0
    try:
        with tarfile.open(fileobj=_ChunkReader(source.chunks()), mode="r|") as archive:  # type: ignore[call-overload]  # any object with read() will do for a stream
            for member in archive:
                name = _member_name(member, text)
                if name is None:
                    continue
                count += 1
                total += member.size
                if count > FILES_MAX or total > SPOOL_MAX:
                    raise BadInputError("unpacks to too much", file=text)
                _extract(archive, member, spool / name)
    except tarfile.TarError as error:
        raise BadInputError(f"is a damaged archive: {error}", file=text) from None
    if source.truncated:
        raise BadInputError("is an archive that ends early", file=text)
    collected = _from_directory(text, spool)
    name = _strip_top(collected.files) or source.plain_name.partition(".tar")[0]
    return Collected(text, True, collected.files, collected.skipped, name)


def _member_name(member: tarfile.TarInfo, text: str) -> str | None:
    """Where a member goes; None for what is not taken (directories, links, devices)."""
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts:
        raise BadInputError(f"holds a member that leads out of it: {member.name}", file=text)
    return str(path) if member.isreg() else None


def _extract(archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    stream = archive.extractfile(member)
    assert stream is not None, "only regular members come here"
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as out:
        shutil.copyfileobj(stream, out, CHUNK)
    os.utime(target, (member.mtime, member.mtime))


def _strip_top(files: list[SourceFile]) -> str:
    """Take off directories that all files share, and return the last one's name.

    An archive of a bundle's directory is that bundle.
    """
    name = ""
    while files and all("/" in source.name for source in files):
        tops = {source.name.partition("/")[0] for source in files}
        if len(tops) > 1 or SNAPSHOT_NAME.fullmatch(min(tops)):
            break
        name = tops.pop()
        for source in files:
            source.name = source.name.partition("/")[2]
    return name
