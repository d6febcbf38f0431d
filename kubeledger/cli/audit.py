"""``kubeledger audit``: is the ledger what was written?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kubeledger.cli.options import ledger_option, output_option, reports_errors

if TYPE_CHECKING:
    from kubeledger.ledger.audit import AuditReport

__all__ = ["audit"]

_BROKEN = 1
"""Exit code: the ledger is not as it was written."""


@click.command(epilog="Example: kubeledger audit --expect node-a=1f0c… (from an earlier audit)")
@ledger_option
@click.option(
    "--expect",
    "expected",
    multiple=True,
    metavar="[NODE=]DIGEST",
    help="Chain digest noted earlier; the ledger must still contain it. May be repeated.",
)
@output_option("table", "json")
@reports_errors
def audit(ledger: Path, expected: tuple[str, ...], output: str) -> None:
    """Check every CRC, the hash chain, the numbering and the manifest.

    Prints each node's chain digest: keep it elsewhere, and a later audit with --expect proves
    that nothing up to then was rewritten. Exits with 1 when something is not as it was written.
    """
    from kubeledger.ledger.audit import audit as run_audit
    from kubeledger.ledger.ledger import Ledger

    opened = Ledger.open(ledger)
    report = run_audit(opened)
    missing = tuple(text for text in expected if not _contains(opened, text))
    if output == "json":
        _print_json(report, missing)
    else:
        _print_text(report, missing)
    if report.findings or missing:
        sys.exit(_BROKEN)


def _contains(ledger: object, expected: str) -> bool:
    """Whether some record of the node (of any node, without one) has this chain digest."""
    from kubeledger.errors import DamagedLedgerError
    from kubeledger.ledger.ledger import Ledger
    from kubeledger.wire.codec import chain_of

    assert isinstance(ledger, Ledger)
    node, _, digest = expected.rpartition("=")
    for name in [node] if node else ledger.nodes():
        try:
            for raw in ledger.raw_lines(name, verify="crc"):
                if chain_of(raw.line).hex() == digest.lower():
                    return True
        except DamagedLedgerError:
            # What stands behind the damage proves nothing; the audit lists the damage.
            continue
    return False


def _print_json(report: AuditReport, missing: tuple[str, ...]) -> None:
    import msgspec

    document = {**msgspec.to_builtins(report), "missing_digests": missing}
    click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())


def _print_text(report: AuditReport, missing: tuple[str, ...]) -> None:
    from kubeledger.cli.output import printable

    for node in report.nodes:
        name = printable(node.node)
        click.echo(f"{name}: {node.records:,} records, seq 1 to {node.last_seq}")
        click.echo(f"  digest {name}={node.head}")
    if not report.nodes:
        click.echo("no node has records yet")
    for finding in report.findings:
        place = finding.file if finding.offset is None else f"{finding.file}@{finding.offset}"
        record = "" if finding.seq is None else f" (record {finding.seq})"
        click.echo(f"{printable(place)}{record}: {printable(finding.problem)}")
    for text in missing:
        click.echo(f"no record has the expected digest {printable(text)}")
    sound = not report.findings and not missing
    click.echo("sound" if sound else f"{len(report.findings) + len(missing)} findings")
