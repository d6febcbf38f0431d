"""What was observed, durable before anything is made of it.

``nodes/<node>/capture/`` in the ledger holds one open chapter (``chapters``), named by the time at
which it was begun, and for a while those that were ended and not imported yet. A batch is appended
with one write and one ``fsync``; when that fails, nothing of it counts, and its cursors neither.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from kubeledger.ledger.captures import CAPTURE, ENDED, OPEN
from kubeledger.ledger.names import NODES, node_directory
from kubeledger.ledger.storage import (
    OWN_FILE,
    SHARED_DIRECTORY,
    WRITE_OWN,
    make_directory,
    remove,
    storage_errors,
    sync_directory,
    write_all,
)
from kubeledger.model.errors import DamagedLedgerError
from kubeledger.record.chapters import Batch, Chapter, packed
from kubeledger.record.observations import Observation, size_of

__all__ = ["Capture"]


class Capture:
    """The capture of one node, for its only writer.

    Attributes:
        chapter: the open one, as it was when it was opened or begun.
        size_bytes: of the observations in it, unpacked.
        cut_bytes: what was cut off its end when it was opened: a batch that a crash had cut.
    """

    def __init__(self, ledger: Path, node: str, now_ns: int) -> None:
        """Open the node's capture, or begin one.

        Raises:
            LedgerUnavailableError: the operating system refused.
        """
        self._directory = ledger / NODES / node_directory(node) / CAPTURE
        self._descriptor: int | None = None
        self._cursors: dict[str, str] = {}
        self.cut_bytes = 0
        with storage_errors("open the capture", self._directory):
            make_directory(self._directory.parent, SHARED_DIRECTORY)
            make_directory(self._directory)
            chapter = self._open_chapter()
            if chapter is None:
                self._begin(now_ns, {}, ())
            else:
                self._resume(chapter)

    def _open_chapter(self) -> Chapter | None:
        """The chapter that goes on; one that a crash kept from being marked as ended now is."""
        paths = sorted(self._directory.glob(f"*{OPEN}"))
        if not paths:
            return None
        chapter = Chapter(paths[-1])
        if len(paths) > 1 and chapter.begun_ns is None:  # its begin was cut off
            remove(paths.pop())
            chapter = Chapter(paths[-1])
        for former in paths[:-1]:
            self._mark_ended(former)
        return chapter

    @property
    def cursors(self) -> dict[str, str]:
        """Source -> from where it goes on, by what is durable."""
        return dict(self._cursors)

    def append(self, now_ns: int, cursors: dict[str, str], seen: Sequence[Observation]) -> int:
        """Make a batch durable; how many bytes were written.

        Args:
            now_ns: the present.
            cursors: source -> from where it goes on after what was seen.
            seen: what was observed.

        Raises:
            LedgerUnavailableError: disk full and the like; nothing of the batch counts.
            DamagedLedgerError: something else changed the file.
        """
        frame = packed(Batch(now_ns, cursors, tuple(seen)))
        with storage_errors("append to the capture", self.chapter.path):
            self._write(frame)
        self._cursors |= cursors
        self.size_bytes += size_of(seen)
        return len(frame)

    def end_chapter(self, now_ns: int) -> None:
        """End the open chapter and begin the next, with the last documents of the former.

        Raises:
            LedgerUnavailableError: as :meth:`append`.
        """
        with storage_errors("end a chapter of the capture", self._directory):
            former = Chapter(self.chapter.path)
            documents = former.newest_documents()
            self.close()
            self._begin(max(now_ns, (former.begun_ns or 0) + 1), self._cursors, documents)
            self._mark_ended(former.path)

    def ended(self) -> list[Chapter]:
        """Chapters that were ended and are still there, the oldest first.

        Raises:
            LedgerUnavailableError: they cannot be read.
        """
        with storage_errors("read the capture", self._directory):
            return [Chapter(path) for path in sorted(self._directory.glob(f"*{ENDED}"))]

    def put_aside(self, chapter: Chapter) -> None:
        """Keep an ended chapter that cannot be imported; it is not tried again.

        Raises:
            LedgerUnavailableError: the operating system refused.
        """
        with storage_errors("put a chapter of the capture aside", chapter.path):
            os.replace(chapter.path, chapter.path.with_suffix(".unread"))  # noqa: PTH105 - see storage
            sync_directory(self._directory)

    def drop(self, chapter: Chapter) -> None:
        """Remove an ended chapter, all of which is in the ledger.

        Raises:
            LedgerUnavailableError: the operating system refused.
        """
        with storage_errors("remove a chapter of the capture", chapter.path):
            remove(chapter.path)

    def close(self) -> None:
        """Close the file; all that was appended is on disk."""
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            os.close(descriptor)

    def _begin(
        self, now_ns: int, cursors: dict[str, str], documents: Sequence[Observation]
    ) -> None:
        path = self._directory / f"{now_ns:020d}{OPEN}"
        self._descriptor = os.open(path, os.O_CREAT | os.O_APPEND | WRITE_OWN, OWN_FILE)
        sync_directory(self._directory)
        self.chapter, self.size_bytes, self._written = Chapter(path), 0, 0
        self.append(now_ns, cursors, documents)
        self.chapter = Chapter(path)

    def _resume(self, chapter: Chapter) -> None:
        self.chapter = chapter
        self._descriptor = os.open(chapter.path, os.O_APPEND | WRITE_OWN)
        self._written = self.chapter.sound_bytes
        self.cut_bytes = os.fstat(self._descriptor).st_size - self._written
        if self.cut_bytes:
            os.ftruncate(self._descriptor, self._written)
            os.fsync(self._descriptor)
        self.size_bytes = self.chapter.size_bytes
        self._cursors = dict(self.chapter.cursors)

    def _write(self, frame: bytes) -> None:
        assert self._descriptor is not None
        if os.fstat(self._descriptor).st_size != self._written:
            raise DamagedLedgerError(
                "the capture was changed while it was written",
                advice="start the recorder again: it goes on after what is whole",
                file=str(self.chapter.path),
            )
        try:
            write_all(self._descriptor, frame)
            os.fsync(self._descriptor)
        except BaseException:  # an interrupt too must not leave half a batch
            with suppress(OSError):
                os.ftruncate(self._descriptor, self._written)
                os.fsync(self._descriptor)
            raise
        self._written += len(frame)

    def _mark_ended(self, path: Path) -> None:
        os.replace(path, path.with_suffix(ENDED))  # noqa: PTH105 - named as the system call it is
        sync_directory(self._directory)
