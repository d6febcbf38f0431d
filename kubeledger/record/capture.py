"""What was observed, durable before anything is made of it.

``nodes/<node>/capture/`` in the ledger holds one open chapter (``chapters``), named by the time at
which it was begun, and for a while those that were ended and not imported yet. A batch is appended
with one write and one ``fsync``; when that fails, nothing of it counts, and its cursors neither.

One thread appends. Another may read meanwhile what is durable, and take away what was ended.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from kubeledger.ledger.kept import CAPTURE, ENDED, OPEN
from kubeledger.ledger.storage import (
    NODES,
    OWN_FILE,
    WRITE_OWN,
    make_directory,
    node_directory,
    remove,
    storage_errors,
    sync_directory,
    write_all,
)
from kubeledger.model.errors import DamagedLedgerError
from kubeledger.record.chapters import Batch, Chapter, documents_in, kind_of, packed
from kubeledger.record.observations import Document, Observation, size_of

_OPENED = WRITE_OWN & ~os.O_ACCMODE | os.O_RDWR | os.O_APPEND
"""It is read, too: a file whose name was removed is copied."""
_COPY_BYTES = 1 << 20


class Durable(NamedTuple):
    """What another thread may read of the open chapter.

    Attributes:
        end: bytes that are on disk.
        begun_ns: time of its first batch.
        polled_ns: when sources were last asked.
        settled_ns: when they had last no more than is captured; None: not since the start.
    """

    path: Path
    end: int
    begun_ns: int
    size_bytes: int
    polled_ns: int
    settled_ns: int | None


class Capture:
    """The capture of one node, for its only writer.

    Attributes:
        durable: what there is of the open chapter, once its first batch is.
        cut_bytes: what was cut off its end when it was opened: a batch that a crash had cut.
        damaged: that chapter, if some of it was damaged before.
        put_back: chapters whose files somebody else has removed; nothing was lost by that.
    """

    durable: Durable
    _open: Durable

    def __init__(self, ledger: Path, node: str, now_ns: int) -> None:
        """Open the node's capture, or begin one.

        Raises:
            LedgerUnavailableError: the operating system refused.
        """
        self._directory = ledger / NODES / node_directory(node) / CAPTURE
        self._descriptor: int | None = None
        self._cursors: dict[str, str] = {}
        self._documents: dict[str, int] = {}
        self.cut_bytes = 0
        self.put_back: list[Path] = []
        self.damaged: Chapter | None = None
        with storage_errors("open the capture", self._directory):
            make_directory(self._directory)
            chapter = self._open_chapter()
            if chapter is None:
                self._begin(now_ns, {}, ())
            else:
                self._resume(chapter, now_ns)

    def _open_chapter(self) -> Chapter | None:
        """The chapter that goes on: the last one, unless its begin was cut off."""
        paths = sorted(self._directory.glob(f"*{OPEN}"))
        if not paths:
            return None
        chapter = Chapter(paths[-1])
        if len(paths) > 1 and chapter.begun_ns is None:
            remove(paths.pop())
            chapter = Chapter(paths[-1])
        return chapter

    @property
    def cursors(self) -> dict[str, str]:
        """Source -> from where it goes on, by what is durable."""
        return dict(self._cursors)

    def append(self, now_ns: int, cursors: dict[str, str], seen: Sequence[Observation]) -> int:
        """Make a batch durable; how many bytes were written.

        Args:
            cursors: source -> from where it goes on after what was seen.

        Raises:
            LedgerUnavailableError: disk full and the like; nothing of the batch counts.
            DamagedLedgerError: something else changed the file.
        """
        frame = packed(Batch(now_ns, cursors, tuple(seen)))
        before = self._open
        with storage_errors("append to the capture", before.path):
            self._write(frame)
        self._cursors |= cursors
        self._documents |= {
            kind_of(each): before.end for each in seen if isinstance(each, Document)
        }
        self.durable = self._open = before._replace(
            end=before.end + len(frame), size_bytes=before.size_bytes + size_of(seen)
        )
        return len(frame)

    def polled(self, now_ns: int, *, is_all: bool) -> None:
        """What sources had by then is durable; whether all of it."""
        settled_ns = now_ns if is_all else self._open.settled_ns
        self.durable = self._open = self._open._replace(polled_ns=now_ns, settled_ns=settled_ns)

    def end_chapter(self, now_ns: int) -> None:
        """End the open chapter and begin the next, with the last documents of the former.

        Raises:
            LedgerUnavailableError: as :meth:`append`.
        """
        with storage_errors("end a chapter of the capture", self._directory):
            self._put_back()
            former = self._open
            documents = documents_in(former.path, self._documents)
            self.close()
            self._begin(max(now_ns, former.begun_ns + 1), self._cursors, documents)

    def ended(self) -> Iterator[Path]:
        """Files of the chapters that were ended and are still there, the oldest first.

        Raises:
            LedgerUnavailableError: they cannot be read.
        """
        with storage_errors("read the capture", self._directory):
            for path in sorted(self._directory.glob(f"*{OPEN}")):
                if path < self.durable.path:  # else it is the open one
                    os.replace(path, path.with_suffix(ENDED))  # noqa: PTH105 - as the system call
                    sync_directory(self._directory)
            yield from sorted(self._directory.glob(f"*{ENDED}"))

    def put_aside(self, path: Path) -> None:
        """Keep an ended chapter that cannot be imported; it is not tried again.

        Raises:
            LedgerUnavailableError: the operating system refused.
        """
        with storage_errors("put a chapter of the capture aside", path):
            os.replace(path, path.with_suffix(".unread"))  # noqa: PTH105 - see storage
            sync_directory(self._directory)

    def drop(self, path: Path) -> None:
        """Remove an ended chapter, all of which is in the ledger.

        Raises:
            LedgerUnavailableError: the operating system refused.
        """
        with storage_errors("remove a chapter of the capture", path):
            remove(path)

    def close(self) -> None:
        """Close the file; all that was appended is on disk."""
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            os.close(descriptor)

    def _begin(
        self, now_ns: int, cursors: dict[str, str], documents: Sequence[Observation]
    ) -> None:
        path = self._directory / f"{now_ns:020d}{OPEN}"
        self._descriptor = os.open(path, os.O_CREAT | _OPENED, OWN_FILE)
        sync_directory(self._directory)
        self._documents = {}
        self._open = Durable(path, 0, now_ns, 0, now_ns, None)
        self.append(now_ns, cursors, documents)

    def _resume(self, chapter: Chapter, now_ns: int) -> None:
        self._descriptor = os.open(chapter.path, _OPENED)
        self.cut_bytes = os.fstat(self._descriptor).st_size - chapter.sound_bytes
        if self.cut_bytes:
            os.ftruncate(self._descriptor, chapter.sound_bytes)
            os.fsync(self._descriptor)
        self.damaged = chapter if chapter.damaged else None
        self._cursors, self._documents = dict(chapter.cursors), chapter.newest
        begun_ns = chapter.begun_ns if chapter.begun_ns is not None else int(chapter.path.stem)
        self.durable = self._open = Durable(
            chapter.path, chapter.sound_bytes, begun_ns, chapter.size_bytes, now_ns, None
        )

    def _write(self, frame: bytes) -> None:
        self._put_back()
        assert self._descriptor is not None
        path, end = self._open.path, self._open.end
        if os.fstat(self._descriptor).st_size != end:
            raise DamagedLedgerError(
                "the capture was changed while it was written",
                advice="start the recorder again: it goes on after what is whole",
                file=str(path),
            )
        try:
            write_all(self._descriptor, frame)
            os.fsync(self._descriptor)
        except BaseException:  # an interrupt too must not leave half a batch
            with suppress(OSError):
                os.ftruncate(self._descriptor, end)
                os.fsync(self._descriptor)
            raise

    def _put_back(self) -> None:
        """Where somebody has removed the open chapter: what it held goes into a new file.

        As long as it is open it is there, without a name.
        """
        assert self._descriptor is not None
        if os.fstat(self._descriptor).st_nlink:
            return
        path, former = self._open.path, self._descriptor
        make_directory(self._directory)
        copy = os.open(path, os.O_CREAT | os.O_EXCL | _OPENED, OWN_FILE)
        try:
            at = 0
            while piece := os.pread(former, _COPY_BYTES, at):
                write_all(copy, piece)
                at += len(piece)
            os.fsync(copy)
            sync_directory(self._directory)
        except BaseException:
            os.close(copy)
            path.unlink(missing_ok=True)
            raise
        self._descriptor = copy
        os.close(former)
        self.put_back.append(path)
