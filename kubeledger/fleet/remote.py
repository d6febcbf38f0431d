"""Files of object storage for DuckDB, which asks for them by a filesystem of ``fsspec``.

The markers record size and digest of each file, and a file of a lake never changes: so nothing is
asked of the storage but the bytes, and the storage is the same :class:`Store` that everything
else uses.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from fsspec import AbstractFileSystem

from kubeledger.remote.store import digest_of

if TYPE_CHECKING:
    from kubeledger.fleet.lake import Lake
    from kubeledger.fleet.types import LakeFile
    from kubeledger.remote.store import Store

PROTOCOL = "lake"
"""Of the paths by which DuckDB asks for the files: ``lake://PATH``."""

_BLOCK_BYTES = 1 << 20
"""Read at once: a request costs about what the transfer of so much costs."""


class RemoteFiles(AbstractFileSystem):  # type: ignore[misc] # fsspec has no types
    """Files that are read, by ``lake://`` and their path below the lake's URL.

    Each is read as a whole before it is answered from, and proved; small ones just once.
    """

    protocol = PROTOCOL
    cachable = False

    def __init__(self, lake: Lake, files: Iterable[LakeFile]) -> None:
        super().__init__()
        self._lake = lake
        self._files = {file.path: file for file in files}

    def info(self, path: str, **_: object) -> dict[str, Any]:
        """Name, size and type; nothing is asked of the storage."""
        name = self._strip_protocol(path)
        if name not in self._files:
            raise FileNotFoundError(path)
        return {"name": name, "size": self._files[name].size_bytes, "type": "file"}

    def ls(self, path: str, detail: bool = True, **_: object) -> list[Any]:
        """Nothing: files are named, not looked for."""
        return []

    def modified(self, path: str) -> datetime:
        """Always the same: a file never changes."""
        return datetime.fromtimestamp(0, UTC)

    def open(self, path: str, mode: str = "rb", **_: object) -> io.BufferedIOBase:
        """A file for reading.

        Raises:
            DamagedLedgerError: it is not what was written.
            StorageError: it is gone, or storage fails.
        """
        file = self._files[self._strip_protocol(path)]
        store = self._lake.store
        if file.size_bytes <= _BLOCK_BYTES:
            content = store.read_range(file.path, 0, file.size_bytes)
            if digest_of(content) != file.digest:
                raise self._lake.damaged(file)
            return io.BytesIO(content)
        if self._lake.is_as_written(file) is False:
            raise self._lake.damaged(file)
        return io.BufferedReader(_Remote(store, file.path, file.size_bytes), _BLOCK_BYTES)


class _Remote(io.RawIOBase):
    """An object's bytes, by requests for ranges."""

    def __init__(self, store: Store, path: str, size_bytes: int) -> None:
        self._store = store
        self._path = path
        self._size_bytes = size_bytes
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size_bytes}[whence]
        self._at = base + offset
        return self._at

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - whatever has the buffer protocol
        length = max(min(len(buffer), self._size_bytes - self._at), 0)
        if length:
            content = self._store.read_range(self._path, self._at, length)
            buffer[:length] = content
            self._at += length
        return length
