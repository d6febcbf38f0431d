"""What ``audit`` prints."""

from __future__ import annotations

from collections.abc import Iterator

import click
import msgspec

from kubeledger.analyze.audit import Contents, SourcesAudit
from kubeledger.cli.output import counted, printable
from kubeledger.ledger.audit_report import Finding, NodeAudit
from kubeledger.ledger.base import Base
from kubeledger.model.units import format_ts

__all__ = ["print_json", "print_text"]


def print_json(report: SourcesAudit) -> None:
    """One document; what was looked at in the contents stands beside the rest."""
    document = msgspec.to_builtins(report)
    del document["contents"]
    if report.contents is not None:
        document |= msgspec.to_builtins(report.contents)
        document["drifts"] = [
            {"node": node, **msgspec.to_builtins(drift)} for node, drift in report.contents.drifts
        ]
    click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())


def print_text(report: SourcesAudit) -> None:
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
    return len(contents.bad_checkpoints) + len(contents.drifts)
