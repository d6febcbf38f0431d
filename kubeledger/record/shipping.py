"""Shipping while a ledger is written: what storage refuses is put off and reported.

It reads the ledger like any reader and never waits for its writer, nor the writer for it.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Self

from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.storage import shipper_lock
from kubeledger.model.errors import KubeledgerError
from kubeledger.record.metrics import (
    BACKLOG,
    BACKLOG_BYTES,
    BYTES_SHIPPED,
    SHIP_FAILURES,
    SHIP_SUCCESS,
    SHIPPED,
    Metrics,
)
from kubeledger.remote.shipping import Shipment, Shipper
from kubeledger.remote.store import Store, absolute_url

LOOK_S = 30.0
"""How often the ledger is checked for sealed segments, if nobody reports one."""

RETRY_S = 10.0
"""How long a failing request is repeated before the rest is put off."""

CLOSE_S = 15.0
"""How long the end waits for storage."""

_PAUSES_S = (2.0, 240.0)

_abandoned: list[threading.Thread] = []


def follow(
    ledger: Ledger,
    url: str,
    metrics: Metrics,
    *,
    on_shipped: Callable[[Shipment], None],
    on_trouble: Callable[[str], None],
    wait: Callable[[float], bool],
    hurried: Callable[[], bool] = lambda: False,
    look_s: float = LOOK_S,
) -> None:
    """Ship what is sealed, again and again, until ``wait`` says to stop; then once more.

    The caller holds the shipper's lock.

    Args:
        on_trouble: called with one sentence, when what fails is not what failed before.
        wait: waits for at most this many seconds; returns whether to go on.
        hurried: whether to stop after the segment that is being stored, not once more.
        look_s: see ``LOOK_S``.
    """
    for family in (SHIPPED, BYTES_SHIPPED, SHIP_FAILURES):
        metrics.add(family, 0)
    pause_s, trouble, shipper, goes_on = _PAUSES_S[0], "", None, True
    while True:
        try:
            shipper = shipper or Shipper(ledger, Store(url, make=True, retry_s=RETRY_S))
            _round(shipper, metrics, on_shipped, hurried)
            pause_s, trouble = _PAUSES_S[0], ""
            wait_s = look_s
        except KubeledgerError as error:
            metrics.add(SHIP_FAILURES)
            shipper = None
            if str(error) != trouble:
                trouble = str(error)
                on_trouble(trouble)
            wait_s = pause_s * random.uniform(0.5, 1.0)  # many nodes must not come at once
            pause_s = min(2 * pause_s, _PAUSES_S[1])
        if not goes_on:
            return
        next_s = time.monotonic() + wait_s
        goes_on = wait(wait_s)
        while trouble and goes_on and (left_s := next_s - time.monotonic()) > 0:
            goes_on = wait(left_s)  # what was sealed meanwhile does not bring storage back
        if hurried():
            return


def _round(
    shipper: Shipper,
    metrics: Metrics,
    on_shipped: Callable[[Shipment], None],
    hurried: Callable[[], bool],
) -> None:
    segments, size_bytes = shipper.backlog()
    metrics.set(BACKLOG, segments)
    metrics.set(BACKLOG_BYTES, size_bytes)
    for shipment in shipper.ship():
        segments, size_bytes = max(0, segments - 1), max(0, size_bytes - shipment.size_bytes)
        metrics.set(BACKLOG, segments)
        metrics.set(BACKLOG_BYTES, size_bytes)
        metrics.add(SHIPPED)
        metrics.add(BYTES_SHIPPED, shipment.size_bytes)
        on_shipped(shipment)
        if hurried():
            return
    metrics.set(SHIP_SUCCESS, time.time())


class ShippingThread:
    """Ships beside a recorder, from its making to :meth:`close`."""

    def __init__(
        self, ledger: Ledger, url: str, metrics: Metrics, on_trouble: Callable[[str], None]
    ) -> None:
        """Take the shipper's lock and begin.

        Raises:
            BadQuestionError: no URL of a kind that is known.
            LedgerBusyError: the ledger is shipped by somebody else.
        """
        self._wake, self._stopped = threading.Event(), False
        absolute_url(url)
        self._resources = ExitStack()
        self._resources.enter_context(shipper_lock(ledger.path))

        self._thread = threading.Thread(
            target=self._run,
            args=(ledger, url, metrics, on_trouble),
            name="kubeledger-ship",
            daemon=True,
        )
        self._thread.start()

    def _run(
        self, ledger: Ledger, url: str, metrics: Metrics, on_trouble: Callable[[str], None]
    ) -> None:
        try:
            follow(
                ledger,
                url,
                metrics,
                on_shipped=lambda shipment: None,
                on_trouble=on_trouble,
                wait=self._wait,
            )
        except Exception as error:  # the recorder goes on; the age of the last success shows it
            metrics.add(SHIP_FAILURES)
            on_trouble(f"bug in kubeledger, nothing is shipped any more: {error!r}")

    def _wait(self, seconds: float) -> bool:
        self._wake.wait(seconds)
        self._wake.clear()
        return not self._stopped

    def sealed(self) -> None:
        """A segment was sealed: it is shipped at once."""
        self._wake.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Close it; who interrupts the recorder does not wait for storage either."""
        self.close(0 if kind is KeyboardInterrupt else CLOSE_S)

    def close(self, timeout_s: float = CLOSE_S) -> bool:
        """Ship what is sealed once more, and end.

        Returns:
            whether it has ended; storage that does not answer is left alone after ``timeout_s``,
            and what is not stored is shipped by the next one.
        """
        self._stopped = True
        self._wake.set()
        try:
            self._thread.join(timeout_s)
        finally:  # or a signal ends the wait
            if self._thread.is_alive():
                _abandoned.append(self._thread)
            self._resources.close()
        return not self._thread.is_alive()


def abandoned() -> bool:
    """Whether a call to storage still goes on, that nobody waits for: end the process at once."""
    return any(thread.is_alive() for thread in _abandoned)
