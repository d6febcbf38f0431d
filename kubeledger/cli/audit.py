"""``kubeledger audit``: is the ledger what was written, and does what it holds fit together?"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kubeledger.cli.options import ledger_option, output_option, reports_errors

if TYPE_CHECKING:
    from kubeledger.cli.audit_contents import Contents
    from kubeledger.ledger.audit import AuditReport
    from kubeledger.ledger.base import Base

__all__ = ["audit"]

_DIGEST_DIGITS = 64
_BROKEN = 1
"""Exit code: something is not as it was written, or as it should be."""


def _digests(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    for text in given:
        digest = text.rpartition("=")[2]
        if len(digest) != _DIGEST_DIGITS or not set(digest.lower()) <= set("0123456789abcdef"):
            raise click.BadParameter(
                f"{text!r} is no chain digest: give the {_DIGEST_DIGITS} hex digits of an audit"
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
    help="Chain digest noted earlier; the ledger must still contain it. May be repeated.",
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
    that nothing up to then was rewritten. Exits with 1 when anything does not fit.
    """
    from kubeledger.cli.audit_caches import check_caches, prove_caches
    from kubeledger.cli.audit_contents import contents_of
    from kubeledger.cli.verify import histories_for
    from kubeledger.importers.histories import is_ledger
    from kubeledger.ledger.audit import AuditReport
    from kubeledger.ledger.audit import audit as run_audit
    from kubeledger.ledger.ledger import Ledger

    places = [Path(source) for source in sources] if sources else [ledger]
    ledgers = [Ledger.open(path) for path in places if not sources or is_ledger(path)]
    reports = [run_audit(opened) for opened in ledgers]
    findings = [finding for one in reports for finding in one.findings]
    sound = not findings
    findings += check_caches(ledgers)
    # Records that are not as they were written prove nothing: no cache, and not the kubelet.
    if not chain_only and sound:
        findings += prove_caches(ledgers)
    report = AuditReport(
        nodes=tuple(node for one in reports for node in one.nodes), findings=tuple(findings)
    )
    missing = tuple(
        text for text in expected if not any(_contains(opened, text) for opened in ledgers)
    )
    contents: Contents | None = None
    if not chain_only and sound and (sources or report.nodes):
        with histories_for(sources, ledger, None) as histories:
            contents = contents_of(histories)
    if output == "json":
        _print_json(report, missing, contents)
    else:
        _print_text(report, missing, contents, any_ledger=bool(ledgers))
    if report.findings or missing or (contents is not None and not contents.sound):
        sys.exit(_BROKEN)


def _contains(ledger: object, expected: str) -> bool:
    """Whether some record of the node (of any node, without one) has this chain digest.

    The last record of a drop counts: the drop's record holds its digest.
    """
    from kubeledger.errors import DamagedLedgerError
    from kubeledger.ledger.ledger import Ledger
    from kubeledger.wire.codec import chain_of

    assert isinstance(ledger, Ledger)
    node, _, digest = expected.rpartition("=")
    for name in ledger.nodes():
        if node and name != node:
            continue
        try:
            if digest.lower() in _ends_of_drops(ledger.begin(name).base):
                return True
            for raw in ledger.raw_lines(name, verify="crc"):
                if chain_of(raw.line).hex() == digest.lower():
                    return True
        except DamagedLedgerError:
            # What stands behind the damage proves nothing; the audit lists the damage.
            continue
    return False


def _ends_of_drops(base: Base | None) -> set[str]:
    """Chain digests of records that are gone, and that the record of the last drop holds."""
    if base is None:
        return set()
    return {base.dropped.chain, *(drop.chain for drop in base.dropped.earlier)}


def _dropped_words(base: Base | None) -> Iterator[str]:
    """Each drop that is known of, the newest first."""
    from kubeledger.units import format_ts

    if base is None:
        return
    dropped = base.dropped
    count = sum(dropped.records.values())
    yield (
        f"records {dropped.first_seq} to {dropped.last_seq} ({count:,}) were dropped at "
        f"{format_ts(dropped.dropped_ts_ns)} by record {base.record_seq}: {dropped.policy}"
    )
    for drop in reversed(dropped.earlier):
        times = f", in {drop.drops} drops" if drop.drops > 1 else ""
        yield (
            f"records {drop.first_seq} to {drop.last_seq} were dropped at "
            f"{format_ts(drop.dropped_ts_ns)} by record {drop.seq}: {drop.policy}{times}"
        )


def _missing_words(text: str, dropped: tuple[Base, ...]) -> str:
    """What it means that no record has an expected digest."""
    from kubeledger.cli.output import printable

    node = text.rpartition("=")[0]
    gone = [base.phrase for base in dropped if node in {"", base.node}]
    words = f"no record has the expected digest {printable(text)}"
    if not gone:
        return words
    return (
        f"{words}; if it is of a record that was dropped, it cannot be proved any more: "
        f"{printable('; '.join(gone))}"
    )


def _print_json(report: AuditReport, missing: tuple[str, ...], contents: Contents | None) -> None:
    import msgspec

    document = {**msgspec.to_builtins(report), "missing_digests": missing}
    if contents is not None:
        document |= msgspec.to_builtins(contents)
        document["drifts"] = [
            {"node": node, **msgspec.to_builtins(drift)} for node, drift in contents.drifts
        ]
    click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())


def _print_text(
    report: AuditReport, missing: tuple[str, ...], contents: Contents | None, *, any_ledger: bool
) -> None:
    from kubeledger.cli.output import printable

    dropped = tuple(node.dropped for node in report.nodes if node.dropped is not None)
    for node in report.nodes:
        name = printable(node.node)
        click.echo(f"{name}: {node.records:,} records, seq {node.first_seq} to {node.last_seq}")
        for line in _dropped_words(node.dropped):
            click.echo(f"  {printable(line)}")
        click.echo(f"  digest {name}={node.head}")
    if any_ledger and not report.nodes:
        click.echo("no node has records yet")
    for finding in report.findings:
        place = finding.file if finding.offset is None else f"{finding.file}@{finding.offset}"
        record = "" if finding.seq is None else f" (record {finding.seq})"
        click.echo(f"{printable(place)}{record}: {printable(finding.problem)}")
    for text in missing:
        click.echo(_missing_words(text, dropped))
    wrong = len(report.findings) + len(missing)
    if contents is not None:
        wrong += _print_contents(contents)
    click.echo("sound" if not wrong else f"{wrong} findings")


def _print_contents(contents: Contents) -> int:
    """Print what was looked at and what does not fit; how much does not."""
    from kubeledger.cli.output import printable

    told = f", {contents.unchecked} without a checksum to compute" if contents.unchecked else ""
    click.echo(f"{contents.checkpoints:,} checkpoints{told}")
    told = f", {contents.unverifiable:,} unverifiable" if contents.unverifiable else ""
    click.echo(f"{contents.cgroups:,} cgroups against what the pods ask for{told}")
    for bad in contents.bad_checkpoints:
        place = printable(f"{bad.node}: {bad.place}")
        click.echo(f"{place} (record {bad.seq}): {bad.problem}")
    for node, drift in contents.drifts:
        place = printable(f"{node}: {drift.place}")
        what = f"{drift.cgroup}: {drift.value} is {drift.found}, not {drift.expected}"
        click.echo(f"{place} (record {drift.seq}): {printable(what)}: {printable(drift.why)}")
    return len(contents.bad_checkpoints) + len(contents.drifts)
