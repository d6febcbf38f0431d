"""``kubeledger show``: one record with its evidence, its causes and its effects."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubeledger.cli.options import ledger_option, node_option, output_option, reports_errors
from kubeledger.cli.output import printable
from kubeledger.model.units import format_ts

if TYPE_CHECKING:
    from kubeledger.analyze.sql.listing import Shown
    from kubeledger.model.record import Evidence, Record


@click.command(epilog="Example: kubeledger show 4711 -o json")
@click.argument("seq", type=click.IntRange(min=1))
@ledger_option
@node_option
@output_option("table", "json", "jsonl")
@reports_errors
def show(seq: int, ledger: Path, node: str | None, output: str) -> None:
    """Show one record with its evidence, causes and effects."""
    from kubeledger.analyze.sql.listing import show_record
    from kubeledger.ledger.ledger import Ledger

    shown = show_record(Ledger.open(ledger), seq, node)
    if output == "table":
        click.echo("\n".join(_text(shown)))
        return
    indent = 2 if output == "json" else None
    click.echo(json.dumps(_document(shown), ensure_ascii=False, indent=indent))


def _document(shown: Shown) -> dict[str, Any]:
    """Everything about the record; times as RFC 3339 and as integers."""
    from kubeledger.analyze.sql.listing import body_of

    record = shown.record
    return {
        "node": record.node,
        "seq": record.seq,
        "ts": format_ts(record.ts_ns),
        "ts_ns": record.ts_ns,
        "role": record.role,
        "kind": record.kind,
        "v": record.v,
        "cause_seq": record.cause,
        "body": body_of(record),
        "evidence": [
            {
                "source_file": piece.file,
                "source_line": piece.line,
                "byte_offset": piece.offset,
                "text": piece.text,
            }
            for piece in record.evidence
        ],
        "causes": [_brief(cause) for cause in shown.causes],
        "effects": [_brief(effect) for effect in shown.effects],
    }


def _brief(record: Record) -> dict[str, Any]:
    from kubeledger.analyze.sql.listing import body_of
    from kubeledger.analyze.sql.summaries import subject_of, summary_of

    body = body_of(record)
    return {
        "seq": record.seq,
        "ts": format_ts(record.ts_ns),
        "kind": record.kind,
        "subject": subject_of(body),
        "summary": summary_of(record.kind, body),
    }


def _text(shown: Shown) -> Iterator[str]:
    from kubeledger.analyze.sql.listing import body_of

    record = shown.record
    head = _brief(record)
    what = f"{record.role} {record.kind} v{record.v}"
    yield f"record {record.seq} of {printable(record.node)}: {what}"
    yield f"at {head['ts']} ({record.ts_ns})"
    if head["summary"]:
        yield printable(f"{head['subject']}: {head['summary']}".removeprefix(": "))
    yield ""
    for line in json.dumps(body_of(record), ensure_ascii=False, indent=2).splitlines():
        yield printable(line)
    for number, piece in enumerate(record.evidence, 1):
        yield f"\nevidence {number}: {printable(_place(piece))}"
        if piece.text is not None:
            yield f"    {printable(piece.text)}"
    for title, records in (("caused by", shown.causes), ("led to", shown.effects)):
        if records:
            yield f"\n{title}"
        for other in records:
            brief = _brief(other)
            words = " ".join(str(brief[key]) for key in ("ts", "kind", "subject", "summary"))
            yield f"    {brief['seq']:>8}  {printable(words)}"


def _place(piece: Evidence) -> str:
    if piece.line is None:
        return f"{piece.file} (the whole file)"
    return f"{piece.file}, line {piece.line}, byte {piece.offset}"
