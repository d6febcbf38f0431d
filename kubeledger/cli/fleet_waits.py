"""Reports storage that does not answer while it is waited for."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import click

__all__ = ["reporting_waits"]

_AFTER_S = 10.0
"""So long a call takes no one's notice."""

_LOOK_S = 1.0


@contextmanager
def reporting_waits() -> Iterator[None]:
    """While the block runs, a line on standard error for each call to storage that takes long."""
    over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(over,), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _watch(over: threading.Event) -> None:
    reported: set[object] = set()
    while not over.wait(_LOOK_S):
        store = sys.modules.get("kubeledger.remote.store")
        if store is None:  # the command has not come so far
            continue
        now_s, calls = time.monotonic(), store.calls_in_flight()
        late = {call for call, (began_s, _) in calls.items() if now_s - began_s >= _AFTER_S}
        if late and not reported & calls.keys():  # one of many is enough
            began_s, place = min(calls[call] for call in late)
            bar = "\r\x1b[2K" if sys.stderr.isatty() else ""  # takes the place of one
            click.echo(
                f"{bar}waiting for storage for {now_s - began_s:.0f} s: {place}; what fails is "
                f"retried for {store.RETRY_S:.0f} s",
                err=True,
            )
            reported = late
        reported &= calls.keys()
