"""Sources in temporary files. What opens archives is apart: most sources are none."""

from __future__ import annotations

from typing import BinaryIO

import msgspec

from kubeledger.ingest.sources.packing import CHUNK
from kubeledger.ingest.sources.streams import SourceFile
from kubeledger.model.errors import BadInputError, reason_of

FILES_MAX = 200_000
SPOOL_MAX = 64 << 30
_HEAD = 512
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")


class Unpacked(msgspec.Struct):
    """What an archive holds.

    Attributes:
        files: regular members, sorted by name; of two with one name the last.
        skipped: name -> why it is not taken.
        cut: those of them of which the archive holds a part.
        damage: why members may be missing; empty when the archive is whole.
    """

    files: list[SourceFile]
    skipped: dict[str, str]
    cut: set[str] = set()
    damage: str = ""


def is_archive(source: SourceFile) -> bool:
    """A tar archive, compressed or not, or a zip archive."""
    return is_zip(source) or _is_tar(source)


def is_zip(source: SourceFile) -> bool:
    """The file itself begins like a zip archive, even an empty one, not what is packed in it."""
    if source.head(4) not in _ZIP:
        return False
    try:
        with source.path.open("rb") as file:
            return file.read(4) in _ZIP
    except OSError:  # reported when the content is read
        return False


def _is_tar(source: SourceFile) -> bool:
    """The content, unpacked if need be, begins like a tar archive."""
    head = source.head(_HEAD)
    if len(head) < _HEAD or head[257:262] != b"ustar":
        return False
    from tarfile import HeaderError, TarInfo

    try:
        TarInfo.frombuf(head, "utf-8", "surrogateescape")
    except HeaderError:
        return False
    return True


class spool_errors:
    """What goes wrong in the temporary directory, as an error that names the input."""

    def __init__(self, label: str) -> None:
        self._label = label

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Translate an ``OSError``.

        Raises:
            BadInputError: in its place.
        """
        if isinstance(error, OSError):
            raise BadInputError(
                f"cannot be unpacked: {reason_of(error)}",
                file=self._label,
                advice="TMPDIR names the directory that is unpacked into; it needs room",
            ) from None


def copy_stream(stream: BinaryIO, out: BinaryIO, limit: int, label: str) -> None:
    """Copy at most ``limit`` bytes.

    Raises:
        BadInputError: there are more.
    """
    total = 0
    while chunk := stream.read(CHUNK):
        total += len(chunk)
        if total > limit:
            raise BadInputError(f"is larger than {limit} bytes", file=label)
        out.write(chunk)
