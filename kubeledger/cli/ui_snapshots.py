"""A ledger that grows, as it was when it was last verified, while the next state is made ready."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from threading import Lock, Thread

from kubeledger.analyze.histories.history import histories_of_ledger
from kubeledger.analyze.sql.api import connect
from kubeledger.analyze.sql.segments import fingerprint
from kubeledger.ledger.ledger import Ledger
from kubeledger.timeline import NodeView, build_drawing
from kubeledger.timeline.page import payload_of
from kubeledger.timeline.server import json_reply

__all__ = ["Snapshot", "Snapshots"]


class Snapshot:
    """The ledger at one time.

    Attributes:
        etag: changes when the ledger grows.
        queryable: answers SQL; later records are not seen.
        drawing: the payload of all nodes, as JSON.
    """

    def __init__(self, ledger: Path, timeout_s: float) -> None:
        self.etag = etag_of(ledger)
        self.queryable = connect(ledger, timeout_s=timeout_s, is_fixed=True)
        self.drawing = b""
        self.users = 0
        self._ledger = ledger

    def draw(self) -> None:
        """Verify and draw, which of a long ledger takes long.

        Raises:
            KubeledgerError: the ledger cannot be read, or was closed.
        """
        histories = histories_of_ledger(Ledger.open(self._ledger))
        views = [NodeView(self.queryable, each.node, history=each) for each in histories]
        self.drawing = json_reply(payload_of([build_drawing(view) for view in views])).content


class Snapshots:
    """The newest snapshot that is ready; several threads may ask.

    The first one is waited for. When the ledger has grown, another is made in a thread of its
    own, and until it is ready the one before answers. While a ledger grows all the time, at
    least as long passes between two of them as one takes.
    """

    def __init__(self, ledger: Path, timeout_s: float) -> None:
        self._ledger = ledger
        self._timeout_s = timeout_s
        self._lock = Lock()
        self._first = Lock()
        self._now: Snapshot | None = None
        self._next: Snapshot | None = None
        self._failure: Exception | None = None
        self._rest_until_s = 0.0
        self._is_closed = False

    def close(self) -> None:
        """Let go of all; what others ask is stopped."""
        with self._lock:
            self._is_closed = True
            open_ones = [each for each in (self._now, self._next) if each is not None]
        for each in open_ones:
            each.queryable.close()

    @contextmanager
    def newest(self) -> Iterator[Snapshot]:
        """The newest snapshot; it stays usable meanwhile.

        Raises:
            KubeledgerError: the first one cannot be made.
        """
        with self._first:
            if self._now is None:
                self._make()
        with self._lock:
            snapshot = self._now
            assert snapshot is not None
            snapshot.users += 1
        try:
            yield snapshot
        finally:
            with self._lock:
                snapshot.users -= 1
                self._close_unused(snapshot)

    def follow(self) -> None:
        """Begin with another snapshot if the ledger has grown.

        Raises:
            Exception: what the last attempt failed with.
        """
        with self._lock:
            failure, self._failure = self._failure, None
            if (
                failure is None
                and self._next is None
                and self._now is not None
                and self._now.etag != etag_of(self._ledger)
                and time.monotonic() > self._rest_until_s
            ):
                self._next = Snapshot(self._ledger, self._timeout_s)
                Thread(target=self._follow, args=(self._next,), daemon=True).start()
        if failure is not None:
            raise failure

    def _follow(self, made: Snapshot) -> None:
        try:
            self._ready(made)
        except Exception as error:  # the next request reports it
            made.queryable.close()
            with self._lock:
                self._next = None
                self._failure = None if self._is_closed else error

    def _make(self) -> None:
        """The first snapshot."""
        made = Snapshot(self._ledger, self._timeout_s)
        with self._lock:
            self._next = made
        try:
            self._ready(made)
        except BaseException:
            made.queryable.close()
            with self._lock:
                self._next = None
            raise

    def _ready(self, made: Snapshot) -> None:
        began_s = time.monotonic()
        made.draw()
        with self._lock:
            before, self._now, self._next = self._now, made, None
            self._rest_until_s = 2 * time.monotonic() - began_s
            if before is not None:
                self._close_unused(before)

    def _close_unused(self, snapshot: Snapshot) -> None:
        if snapshot is not self._now and not snapshot.users:
            snapshot.queryable.close()


def etag_of(ledger: Path) -> str:
    """What changes when the ledger grows."""
    return sha256(repr(fingerprint(ledger)).encode()).hexdigest()[:20]
