"""``kubeledger audit``: is the ledger what was written, and does what it holds fit together?"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from kubeledger.cli.options import ledger_option, output_option, reports_errors

__all__ = ["audit"]

_DIGEST_DIGITS = 64
_BROKEN = 1
"""Exit code: something is not as it was written, or as it should be."""


def _digests(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    for text in given:
        digest = text.rpartition("=")[2]
        if len(digest) != _DIGEST_DIGITS or not set(digest.lower()) <= set("0123456789abcdef"):
            raise click.BadParameter(
                f"{text!r} is not a chain digest: give the {_DIGEST_DIGITS} hex digits of an audit"
            )
    return given


@click.command(epilog="Example: kubeledger audit --expect node-a=1f0c… (from an earlier audit)")
@click.argument("sources", nargs=-1, metavar="[SOURCE]...")
@ledger_option
@click.option(
    "--expect",
    "expected",
    multiple=True,
    callback=_digests,
    metavar="[NODE=]DIGEST",
    help="Chain digest noted earlier; a record must still have it. May be repeated.",
)
@click.option(
    "--chain-only",
    is_flag=True,
    help="Leave checkpoints, cgroups and what caches hold out: much quicker.",
)
@output_option("table", "json")
@reports_errors
def audit(
    sources: tuple[str, ...],
    ledger: Path,
    expected: tuple[str, ...],
    chain_only: bool,
    output: str,
) -> None:
    """Check every CRC, the hash chain, the numbering and the manifest, then what is recorded.

    That is: the checksums of the kubelet's checkpoints, and the values in cgroup files against
    what the pods ask for. The caches (snapshots, and Parquet below LEDGER/history) are checked
    for their bytes, and made again from the records to prove what they hold.

    SOURCE is a ledger, a *.ledger.jsonl file, or a node's files, which are imported for the
    while; without one the ledger is audited.

    Prints each node's chain digest: keep it elsewhere, and a later audit with --expect proves
    that nothing up to then was rewritten; of a *.ledger.jsonl file, too. Exits with 1 when
    anything does not fit, or records are known to be lost.
    """
    from kubeledger.analyze.audit import audit_sources
    from kubeledger.cli.audit_output import print_json, print_text
    from kubeledger.cli.progress import progress

    with progress("reading every record"):
        report = audit_sources(sources, ledger, expected, chain_only=chain_only)
    if output == "json":
        print_json(report)
    else:
        print_text(report)
    if not report.sound:
        sys.exit(_BROKEN)
