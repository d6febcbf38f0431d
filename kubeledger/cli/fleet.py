"""``kubeledger fleet``: the group; its commands are in files of their own."""

from __future__ import annotations

import click

from kubeledger.cli.fleet_waits import reporting_waits
from kubeledger.cli.lazy import LazyGroup

__all__ = ["SUBCOMMANDS", "fleet"]

SUBCOMMANDS: dict[str, tuple[str, str]] = {
    "import": (
        "kubeledger.cli.fleet_import:import_",
        "Take in many nodes' files, verify them, write them to a lake.",
    ),
    "verify": (
        "kubeledger.cli.fleet_verify:verify",
        "Verify again what other rules verified, and list the nodes.",
    ),
    "sql": (
        "kubeledger.cli.fleet_sql:fleet_sql",
        "Ask read-only SQL over all nodes, or run a shipped query.",
    ),
    "compact": (
        "kubeledger.cli.fleet_compact:compact",
        "Copy many small files of a lake into few large ones.",
    ),
    "repair": (
        "kubeledger.cli.fleet_repair:repair",
        "Rebuild what is damaged in a lake.",
    ),
    "report": (
        "kubeledger.cli.fleet_report:report",
        "Draw the whole fleet as one HTML page, worst nodes first.",
    ),
    "whatif": (
        "kubeledger.cli.fleet_whatif:whatif",
        "List what other settings would have spared or cost each node.",
    ),
}
"""name -> (module:attribute, one-line help), in the order of use."""


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
