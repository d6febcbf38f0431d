"""``kubeledger audit``: is the ledger what was written, and does what it holds fit together?"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kubeledger.cli.options import ledger_option, option, output_option, reports_errors
from kubeledger.cli.output import counted, printable, write_document
from kubeledger.model.units import format_ts

if TYPE_CHECKING:
    from kubeledger.analyze.audit import Contents, SourcesAudit
    from kubeledger.ledger.audit_walk import Finding, NodeAudit
    from kubeledger.ledger.base import Base

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
@option(
    "--expect expected [NODE=]DIGEST",
    "Chain digest noted earlier; a record must still have it. May be repeated.",
    multiple=True,
    callback=_digests,
)
@option("--chain-only", "Leave out checkpoints, cgroups and the contents of caches: much quicker.")
@output_option("table", "json")
@reports_errors
def audit(
    sources: tuple[str, ...], ledger: Path, expected: tuple[str, ...], chain_only: bool, output: str
) -> None:
    """Check every CRC, the hash chain, the numbering and the manifest, then what is recorded.

    That is: the checksums of the kubelet's checkpoints, the values in cgroup files against what
    the pods ask for, and what can never be, one device in two pods for instance. The caches
    (snapshots, and Parquet below LEDGER/history) are checked for their bytes, and made again from
    the records to prove what they hold.

    SOURCE is a ledger, a *.ledger.jsonl file, or a node's files, which are imported
    temporarily; without one the ledger is audited.

    Prints each node's chain digest: keep it elsewhere, and a later audit with --expect proves
    that nothing up to then was rewritten; of a *.ledger.jsonl file, too. Exits with 1 when
    anything does not fit, or records are known to be lost.
    """
    from kubeledger.analyze.audit import audit_sources
    from kubeledger.cli.progress import progress

    with progress("reading every record"):
        report = audit_sources(sources, ledger, expected, chain_only=chain_only)
    if output == "json":
        _print_json(report)
    else:
        _print_text(report)
    if not report.sound:
        sys.exit(_BROKEN)


def _print_json(report: SourcesAudit) -> None:
    """One document; what was looked at in the contents stands beside the rest."""
    import msgspec

    document = msgspec.to_builtins(report)
    del document["contents"]
    if report.contents is not None:
        document |= msgspec.to_builtins(report.contents)
        document["drifts"] = [
            {"node": node, **msgspec.to_builtins(drift)} for node, drift in report.contents.drifts
        ]
        document["violations"] = [
            {"node": node, **msgspec.to_builtins(each)} for node, each in report.contents.violations
        ]
    write_document(document)


def _print_text(report: SourcesAudit) -> None:
    """For people: what was proved, then what does not fit."""
    several = len({node.source for node in report.nodes}) > 1
    for node in report.nodes:
        _print_node(node, several=several)
    if not report.nodes and report.contents is None:
        click.echo("no node has records yet")
    for finding in report.findings:
        click.echo(_words_of(finding))
    dropped = tuple(node.dropped for node in report.nodes if node.dropped is not None)
    for text in report.missing_digests:
        click.echo(_missing_words(text, dropped))
    wrong = len(report.findings) + len(report.missing_digests)
    if report.contents is not None:
        wrong += _print_contents(report.contents)
    click.echo("sound" if not wrong else counted(wrong, "finding"))


def _print_node(node: NodeAudit, *, several: bool) -> None:
    name = printable(node.node)
    place = f" in {printable(node.source)}" if several else ""
    span = f", seq {node.first_seq} to {node.last_seq}" if node.records else ""
    click.echo(f"{name}{place}: {counted(node.records, 'record')}{span}")
    for line in _dropped_words(node.dropped):
        click.echo(f"  {printable(line)}")
    for loss in node.losses:
        if loss.healed:
            click.echo(f"  {printable(loss.phrase)} (record {loss.seq})")
    if node.tail is not None:
        click.echo(f"  {printable(node.tail.phrase)}")
    click.echo(f"  digest {name}={node.head}")


def _words_of(finding: Finding) -> str:
    place = finding.file if finding.offset is None else f"{finding.file}@{finding.offset}"
    numbers = [
        f"{word} {number}"
        for word, number in (("record", finding.seq), ("line", finding.line))
        if number is not None
    ]
    where = f" ({', '.join(numbers)})" if numbers else ""
    return f"{printable(place)}{where}: {printable(finding.problem)}"


def _dropped_words(base: Base | None) -> Iterator[str]:
    """Each drop that is known of, the newest first."""
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
    node = text.rpartition("=")[0]
    gone = [base.phrase for base in dropped if node in {"", base.node}]
    words = f"no record has the expected digest {printable(text)}"
    if not gone:
        return words
    return (
        f"{words}; if its record was dropped, it can no longer be proved: "
        f"{printable('; '.join(gone))}"
    )


def _print_contents(contents: Contents) -> int:
    """Print what was checked and what does not match; returns how much does not."""
    aside = f", {contents.unchecked} without a checksum to compute" if contents.unchecked else ""
    click.echo(f"{counted(contents.checkpoints, 'checkpoint')}{aside}")
    aside = f", {contents.unverifiable:,} unverifiable" if contents.unverifiable else ""
    click.echo(f"{counted(contents.cgroups, 'cgroup')} against what the pods ask for{aside}")
    for bad in contents.bad_checkpoints:
        place = printable(f"{bad.node}: {bad.place}")
        click.echo(f"{place} (record {bad.seq}): {bad.problem}")
    for node, drift in contents.drifts:
        place = printable(f"{node}: {drift.place}")
        held = "stays as it was" if drift.found is None else f"is {drift.found}"
        what = f"{drift.cgroup}: {drift.value} {held}, not {drift.expected}"
        click.echo(f"{place} (record {drift.seq}): {printable(what)}: {printable(drift.why)}")
    for node, each in contents.violations:
        click.echo(printable(f"{node}: {each.invariant}: {each.why}"))
        for side in each.sides:
            click.echo(f"  record {side.seq}: {printable(side.says)}")
        if each.bugs:
            click.echo(f"  a known bug of this kubelet does so: {', '.join(each.bugs)}")
    return len(contents.bad_checkpoints) + len(contents.drifts) + len(contents.violations)
