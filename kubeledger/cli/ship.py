"""``kubeledger ship``: sealed segments stored elsewhere, and ``kubeledger restore``: back again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kubeledger.cli.options import Seconds, ledger_option, reports_errors
from kubeledger.cli.service import metrics_option, served, until_stopped

if TYPE_CHECKING:
    from kubeledger.ledger.ledger import Ledger
    from kubeledger.remote.shipping import Shipment

_LEFT_OUT = 1
"""Exit code: the copies are restored, and odd objects stand beside them."""


@click.command(
    epilog="Example: kubeledger ship --ledger /var/lib/kubeledger --to s3://bucket/nodes"
)
@ledger_option
@click.option(
    "--to", "url", required=True, metavar="URL", help="A directory, s3://, gs:// or az://."
)
@click.option("--once", is_flag=True, help="Store what is sealed now, and end.")
@click.option(
    "--every",
    "look_s",
    type=Seconds(min=0.1, max=240),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How often to check for sealed segments.",
)
@metrics_option()
@reports_errors
def ship(ledger: Path, url: str, once: bool, look_s: float, metrics_address: str | None) -> None:
    """Store a ledger's sealed segments below a URL, each once, and read them back.

    A copy of each node's ledger grows there (URL/NODE/ID), which `restore` or any tool that
    copies objects brings back. It continues until it is stopped, beside a recorder or any other
    writer; storage that fails is tried again later. What is stored nowhere yet is not dropped by
    `compact`. Credentials come from the environment.
    """
    from kubeledger.ledger.ledger import Ledger
    from kubeledger.ledger.storage import shipper_lock
    from kubeledger.remote.shipping import refuse_inside

    opened = Ledger.open(ledger)
    refuse_inside(opened.path, url)
    with shipper_lock(opened.path):
        if once:
            _ship_once(opened, url)
        else:
            _follow(opened, url, look_s, metrics_address)


def _ship_once(opened: Ledger, url: str) -> None:
    from kubeledger.cli.output import counted, printable
    from kubeledger.remote.shipping import Shipper
    from kubeledger.remote.store import Store

    count = 0
    for shipment in Shipper(opened, Store(url, make=True)).ship():
        _print(shipment)
        count += 1
    click.echo(f"{counted(count, 'segment')} shipped")
    for node, info in sorted(opened.manifest().nodes.items()):
        last = info.segments[-1] if info.segments else None
        if last is not None and not last.sealed and last.last_seq >= last.first_seq:
            click.echo(
                f"{printable(node)}: records from {last.first_seq} on are in a segment that is "
                "not sealed yet; `kubeledger compact` seals it",
                err=True,
            )


def _follow(opened: Ledger, url: str, look_s: float, metrics_address: str | None) -> None:
    from kubeledger.cli.output import printable
    from kubeledger.record.metrics import READY
    from kubeledger.record.shipping import follow

    with served(metrics_address) as metrics, until_stopped() as waits:
        metrics.set(READY, 1)

        def wait(seconds: float) -> bool:
            metrics.loop_turned()
            return waits(seconds)

        follow(
            opened,
            url,
            metrics,
            on_shipped=_print,
            on_trouble=lambda words: click.echo(f"put off: {printable(words)}", err=True),
            wait=wait,
            hurried=lambda: waits.interrupted,
            look_s=look_s,
        )


def _print(shipment: Shipment) -> None:
    from kubeledger.cli.output import printable

    done = "was there" if shipment.was_there else "stored"
    click.echo(
        f"{printable(shipment.node)}: records {shipment.first_seq} to {shipment.last_seq} {done}, "
        f"{shipment.size_bytes:,} bytes: {printable(shipment.address)}"
    )


@click.command(epilog="Example: kubeledger restore --from s3://bucket/nodes/node-a --ledger back")
@ledger_option
@click.option(
    "--from",
    "url",
    required=True,
    metavar="URL",
    help="What was shipped to, or what is below it: URL/NODE, URL/NODE/ID.",
)
@click.option("--node", metavar="NAME", help="Only the ledger of this node.")
@reports_errors
def restore(ledger: Path, url: str, node: str | None) -> None:
    """Make a new ledger of what `ship` stored, and prove every byte of it.

    What was downloaded before it was interrupted is not downloaded again. The ledger is there
    once it is proved, and not before. Objects that are not of a copy are left out, and so is a
    node whose copy is damaged; each is named. Exits with 1 if objects were left out that stand
    where a copy's do, with 4 if a node is not restored.
    """
    from kubeledger.cli.output import printable
    from kubeledger.remote.restore import find_copies
    from kubeledger.remote.restore import restore as restored_from
    from kubeledger.remote.store import Store

    store = Store(url)
    outcome = restored_from(store, find_copies(store, node), ledger)
    for node_found in outcome.nodes:
        name = printable(node_found.node)
        records = node_found.last_seq - node_found.first_seq + 1
        click.echo(
            f"{name}: {records:,} records, seq {node_found.first_seq} to {node_found.last_seq}\n"
            f"  digest {name}={node_found.head}"
        )
    for odd in outcome.left_out:
        place = printable(store.address(odd.path))
        click.echo(f"left out: {place}: {printable(odd.reason)}", err=True)
    for directory, error in outcome.failed:
        click.echo(f"not restored: {printable(directory)}: {printable(str(error))}", err=True)
    if outcome.failed:
        sys.exit(outcome.failed[0][1].exit_code)
    if outcome.left_out:
        sys.exit(_LEFT_OUT)
