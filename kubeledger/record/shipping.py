"""Shipping that goes on while a ledger is written: storage that fails is put off, and said.

It reads the ledger like any reader and never waits for its writer, nor the writer for it.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack

from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.lock import shipper_lock
from kubeledger.model.errors import KubeledgerError
from kubeledger.record.metrics import Metrics
from kubeledger.remote.shipping import Shipment, Shipper
from kubeledger.remote.store import Store, absolute_url

__all__ = ["ShippingThread", "abandoned", "follow"]

LOOK_S = 30.0
"""So often the ledger is looked at for what was sealed, unless somebody says that something was."""

RETRY_S = 10.0
"""Storage that fails is asked again for so long at once; then the rest is put off."""

_PAUSES_S = (2.0, 240.0)

_abandoned: list[threading.Thread] = []


def follow(
    ledger: Ledger,
    url: str,
    metrics: Metrics,
    *,
    on_shipped: Callable[[Shipment], None],
    on_trouble: Callable[[str], None],
    stop: threading.Event,
    wake: threading.Event,
    look_s: float = LOOK_S,
    on_round: Callable[[], None] = lambda: None,
) -> None:
    """Ship what is sealed, again and again, until ``stop``; then once more.

    The caller holds the shipper's lock.

    Args:
        ledger: whose segments.
        url: where to.
        metrics: to be kept up to date.
        on_shipped: called with each segment that is stored.
        on_trouble: called with one sentence, when what fails is not what failed before.
        stop: set by others, and ``wake`` after it, to end.
        wake: set by others to look at once.
        look_s: see ``LOOK_S``.
        on_round: called each time that the ledger was looked at, whatever came of it.
    """
    metrics.shipping_started()
    pause_s, trouble, shipper = _PAUSES_S[0], "", None
    while True:
        wake.clear()
        is_last = stop.is_set()
        try:
            shipper = shipper or Shipper(ledger, Store(url, make=True, retry_s=RETRY_S))
            _round(shipper, metrics, on_shipped)
            pause_s, trouble = _PAUSES_S[0], ""
            wait_s = look_s
        except KubeledgerError as error:
            metrics.ship_failed()
            shipper = None
            if str(error) != trouble:
                trouble = str(error)
                on_trouble(trouble)
            wait_s = pause_s * random.uniform(0.5, 1.0)  # many nodes must not come at once
            pause_s = min(2 * pause_s, _PAUSES_S[1])
        on_round()
        if is_last:
            return
        if not trouble:
            wake.wait(wait_s)
        else:
            stop.wait(wait_s)


def _round(shipper: Shipper, metrics: Metrics, on_shipped: Callable[[Shipment], None]) -> None:
    metrics.ship_backlog(*shipper.backlog())
    for shipment in shipper.ship():
        metrics.segment_shipped(shipment.size_bytes)
        metrics.ship_backlog(*shipper.backlog())
        on_shipped(shipment)
    metrics.ship_succeeded(time.time_ns())


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
        self._stop, self._wake = threading.Event(), threading.Event()
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
                stop=self._stop,
                wake=self._wake,
            )
        except Exception as error:  # the recorder goes on; the age of the last success shows it
            metrics.ship_failed()
            on_trouble(f"bug in kubeledger, nothing is shipped any more: {error!r}")

    def sealed(self) -> None:
        """A segment was sealed: it is shipped at once."""
        self._wake.set()

    def close(self, timeout_s: float = 15.0) -> bool:
        """Ship what is sealed once more, and end.

        Returns:
            whether it has ended; storage that does not answer is left alone after ``timeout_s``,
            and what is not stored is shipped by the next one.
        """
        self._stop.set()
        self._wake.set()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            _abandoned.append(self._thread)
        self._resources.close()
        return not self._thread.is_alive()


def abandoned() -> bool:
    """Whether a call to storage still goes on, that nobody waits for: end the process at once."""
    return any(thread.is_alive() for thread in _abandoned)
