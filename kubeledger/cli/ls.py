"""``kubeledger ls`` and ``show``: records, filtered; or one with evidence, causes and effects."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubeledger.cli.complete import complete_containers
from kubeledger.cli.options import (
    instant,
    kinds_option,
    ledger_option,
    node_option,
    option,
    output_option,
    pod_option,
    reports_errors,
    time_option,
)
from kubeledger.cli.output import cell_text, csv_line, printable, write_rows
from kubeledger.cli.screen import cut, paged, screen_width
from kubeledger.cli.service import until_stopped
from kubeledger.model.errors import BadQuestionError
from kubeledger.model.units import NS_PER_S, format_ts

if TYPE_CHECKING:
    from kubeledger.analyze.sql.listing import Filter, Shown
    from kubeledger.ledger.ledger import Following, Ledger
    from kubeledger.model.record import Evidence, Record


_COLUMNS = ("node", "seq", "ts", "role", "kind", "subject", "summary")
_LOOK_S = 0.5

Row = tuple[Any, ...]
Narrow = Callable[[Row], Row]

_NS_PER_DAY = 24 * 3600 * NS_PER_S


@click.command(epilog="Example: kubeledger ls --pod default/web --kind 'prober.*' --since +5m")
@ledger_option
@node_option
@pod_option
@option("--container NAME", "Name of a container.", shell_complete=complete_containers)
@kinds_option
@time_option("--since", "First time")
@option("--until TIME", "Last time.")
@option("-f --follow", "Go on with the records that are appended.")
@option("--limit N", "No more than N records.", type=click.IntRange(min=0))
@output_option("table", "wide", "json", "jsonl", "csv")
@reports_errors
def ls(
    ledger: Path,
    node: str | None,
    pod: str | None,
    container: str | None,
    kinds: tuple[str, ...],
    since: str | None,
    until: str | None,
    follow: bool,
    limit: int | None,
    output: str,
) -> None:
    """List records.

    A table has what fits the screen, with the last part of each kind; `-o wide` has it all.

    With --follow, what a recorder or an import appends is listed as it comes, until Ctrl-C or
    --limit; also with --until, since a record of an earlier time may still be appended. A record
    that later ones supersede is not taken back: ledger.RecordsSuperseded names it.
    """
    from kubeledger.analyze.sql.listing import Filter, list_records, selection
    from kubeledger.cli.files import warn_of_losses
    from kubeledger.ledger.ledger import Following, Ledger

    if follow and output == "json":
        raise BadQuestionError("a JSON list has an end", advice="follow with -o jsonl")
    opened = Ledger.open(ledger)
    span = partial(opened.span, node)
    wanted = Filter(
        node=node,
        pod=pod,
        container=container,
        kinds=kinds,
        since_ns=instant(since, span),
        until_ns=instant(until, span),
    )
    following = Following(opened, node) if follow else None
    found = list_records(opened, wanted)
    if following is not None:  # what comes meanwhile is listed then
        there = dict(following.seen)
        found = filter(lambda record: record.seq <= there.get(record.node, 0), found)
    rows: Iterator[Row] = map(_row, islice(found, limit))
    _report_drops(opened, wanted)
    warn_of_losses(opened, node)
    first = next(rows, None)
    rows = iter(()) if first is None else chain((first,), rows)
    columns: tuple[str, ...] = _COLUMNS
    narrow: Narrow = lambda row: row  # noqa: E731 - what a table changes
    if output == "table" and first is not None:
        columns, narrow = _narrow(opened, node)
    count = _Count(map(narrow, rows))
    with paged(wanted=output in ("table", "wide") and not follow):
        write_rows(columns, count, output, width_max=screen_width())
    if following is not None:
        left = None if limit is None else limit - count.rows
        _follow(following, selection(opened, wanted), left, narrow, output)
    elif first is None:
        click.echo(printable(no_record_words(opened, wanted)), err=True)


def _row(record: Record) -> Row:
    from kubeledger.analyze.sql.listing import body_of
    from kubeledger.analyze.summaries import subject_of, summary_of

    body = body_of(record)
    ts, subject = format_ts(record.ts_ns), subject_of(body)
    summary = summary_of(record.kind, body)
    return record.node, record.seq, ts, record.role, record.kind, subject, summary


class _Count:
    """Rows, counted as they are taken."""

    def __init__(self, rows: Iterator[Row]) -> None:
        self._rows = rows
        self.rows = 0

    def __iter__(self) -> Iterator[Row]:
        for row in self._rows:
            self.rows += 1
            yield row


def _follow(
    following: Following,
    wants: Callable[[Record], bool],
    limit: int | None,
    narrow: Narrow,
    output: str,
) -> None:
    """List what is appended, a line a record, until the limit or a signal."""
    sys.stdout.flush()
    with until_stopped() as waits:
        while limit is None or limit > 0:
            for record in filter(wants, following.new()):
                row = _row(record)
                if output in ("table", "wide"):
                    cells = [printable(cell_text(cell)) for cell in narrow(row)]
                    line = "  ".join(cells)
                    click.echo(line if output == "wide" else cut(line, screen_width()))
                elif output == "csv":
                    click.echo(csv_line(row), nl=False)
                else:
                    write_rows(_COLUMNS, [row], output)
                sys.stdout.flush()
                limit = None if limit is None else limit - 1
                if limit == 0 or waits.stopped:
                    return
            if not waits(_LOOK_S):
                return


def _narrow(ledger: Ledger, node: str | None) -> tuple[tuple[str, ...], Narrow]:
    """What a screen has room for: the day only where there are several, and the node likewise."""
    first_ns, last_ns = ledger.span(node)
    one_day = first_ns // _NS_PER_DAY == last_ns // _NS_PER_DAY
    several = node is None and len(ledger.nodes()) > 1
    when = slice(11, 23) if one_day else slice(5, 23)
    day = f"{format_ts(first_ns)[:10]} UTC" if one_day else "time (UTC)"
    columns = (*(("node",) if several else ()), "seq", day, "kind", "subject", "summary")
    return columns, lambda row: (
        *((row[0],) if several else ()),
        row[1],
        row[2].removesuffix("Z")[when].replace("T", " "),
        row[4].rpartition(".")[2],
        *row[5:],
    )


def no_record_words(ledger: Ledger, wanted: Filter) -> str:
    """What to say where no record passes the filter."""
    from kubeledger.analyze.sql.listing import similar_pods

    if not ledger.nodes():
        return "the ledger has no records; `kubeledger import` adds some"
    advice = "`kubeledger ls` lists all"
    if wanted.pod is not None:
        similar = similar_pods(ledger.records(wanted.node), wanted.pod)
        advice = f"is it pod {' or '.join(similar)}?" if similar else advice
    return f"no matching records; {advice}"


def _report_drops(ledger: Ledger, wanted: Filter) -> None:
    """Where the time that is asked for reaches into what was dropped."""
    from_ns = wanted.since_ns if wanted.since_ns is not None else wanted.until_ns
    if from_ns is None:
        return
    for node in ledger.nodes() if wanted.node is None else [wanted.node]:
        base = ledger.begin(node).base
        if base is not None and from_ns <= base.dropped.latest_ts_ns:
            click.echo(printable(f"not listed: {base.phrase}"), err=True)


# ``kubeledger show``: one record with its evidence, its causes and its effects.


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
    from kubeledger.analyze.summaries import subject_of, summary_of

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
