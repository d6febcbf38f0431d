"""``kubeledger fleet``: the group, which reports storage that does not answer."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import click

from kubeledger.cli.main import LazyGroup

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


SUBCOMMANDS: dict[str, tuple[str, str]] = {
    "import": (
        "cli.fleet_import:import_",
        "Take in many nodes' files, verify them, write them to a lake.",
    ),
    "verify": (
        "cli.fleet_import:verify",
        "Verify again what other rules verified, and list the nodes.",
    ),
    "sql": (
        "cli.fleet_report:fleet_sql",
        "Ask read-only SQL over all nodes, or run a shipped query.",
    ),
    "compact": ("cli.fleet_import:compact", "Copy many small files of a lake into few large ones."),
    "repair": ("cli.fleet_import:repair", "Rebuild what is damaged in a lake."),
    "report": (
        "cli.fleet_report:report",
        "Draw the whole fleet as one HTML page, worst nodes first.",
    ),
    "whatif": (
        "cli.fleet_whatif:whatif",
        "List what other settings would have spared or cost each node.",
    ),
}
"""name -> (module:attribute in this package, one-line help), in the order of use."""


@click.group(
    cls=LazyGroup,
    table=SUBCOMMANDS,
    epilog="Example: kubeledger fleet import '/data/bundles/*' --lake /data/lake",
)
@click.pass_context
def fleet(context: click.Context) -> None:
    """Do for a thousand nodes what the other commands do for one.

    Each source is a node's bundle, archive, recording or ledger, on this machine or in object
    storage (s3://, gs://, az://). All their facts lie in a lake, which is a directory
    or a place in object storage, too.
    """
    context.with_resource(reporting_waits())
