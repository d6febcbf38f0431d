"""``kubeledger export``: records for other programs, and for tests."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kubeledger.cli.options import (
    Redact,
    instant,
    kinds_option,
    ledger_option,
    node_option,
    option,
    output_file,
    pod_option,
    redact_options,
    reports_errors,
    time_option,
)
from kubeledger.cli.output import counted, printable
from kubeledger.model.errors import BadQuestionError

if TYPE_CHECKING:
    from kubeledger.analyze.sql.listing import Filter
    from kubeledger.ledger.ledger import Ledger


@click.command(epilog="Example: kubeledger export --pod default/web --out web.ledger.jsonl")
@option(
    "--format format_",
    "jsonl: the ledger's own lines, as `verify`, `diff` and pytest read them. "
    "cloudevents: CloudEvents 1.0 as JSON lines. parquet: a row for each record. perfetto: a "
    "trace for ui.perfetto.dev.",
    type=click.Choice(["jsonl", "cloudevents", "parquet", "perfetto"]),
    default="jsonl",
)
@option(
    "--out FILE",
    "Write this file, all of it or nothing; compressed if it ends with .zst. "
    "Default: -, standard output.",
    type=output_file,
    default="-",
    show_default=False,
)
@ledger_option
@node_option
@pod_option
@kinds_option
@time_option("--since", "First time")
@option("--until TIME", "Last time.")
@redact_options
@reports_errors
def export(
    format_: str,
    out: Path,
    ledger: Path,
    node: str | None,
    pod: str | None,
    kinds: tuple[str, ...],
    since: str | None,
    until: str | None,
    redact: Redact,
) -> None:
    """Write records of the ledger to stdout, or to a file, for other programs.

    Without a filter these are the ledger's own lines. With one, records are numbered again, and
    what every reader needs is kept: starts of the kubelet, its settings, the node, and the
    lists of pods. With --pod also what the pod's decisions rest on, so that `verify` says the
    same of them. An excerpt by time or kind alone holds less evidence: what `verify` misses in it
    may be in the rest of the ledger. A ledger whose first records were dropped is an excerpt, too.

    As cloudevents, each record that passes the filter is an event (CloudEvents 1.0, JSON, one a
    line). As parquet, it is a row. As perfetto, what `timeline` draws is a trace for
    ui.perfetto.dev.

    With --redact the records can be shared: they verify as before, but only the owner of the key
    can show whose they are. Resources, amounts and the kubelet's times are kept.
    """
    from kubeledger.analyze.sql.listing import Filter
    from kubeledger.cli.files import redacted_ledger
    from kubeledger.ledger.ledger import Ledger

    opened = Ledger.open(ledger)
    span = partial(opened.span, node)
    wanted = Filter(
        node=node,
        pod=pod,
        kinds=kinds,
        since_ns=instant(since, span),
        until_ns=instant(until, span),
    )
    if format_ != "perfetto":
        _write_records(opened, wanted, out, format_, redact)
    elif kinds:
        raise BadQuestionError(
            "--kind is for records, not for a trace", advice="use --pod, --since and --until"
        )
    elif redact.key is None:
        _write_trace(opened, wanted, out)
    else:
        with redacted_ledger(opened, wanted, redact.key) as shown:
            _write_trace(Ledger.open(shown), Filter(), out)


def _write_records(ledger: Ledger, wanted: Filter, out: Path, format_: str, redact: Redact) -> None:
    """Write them line by line; without a key as they are."""
    from kubeledger.analyze.redaction import redacted
    from kubeledger.analyze.sql.exports import event_lines, lines_of_excerpt, records_of_excerpt
    from kubeledger.analyze.sql.listing import list_records
    from kubeledger.cli.files import is_standard, warn_of_losses, write_lines_to
    from kubeledger.cli.progress import progress
    from kubeledger.ledger.standalone import encode_recording

    _report_drops(ledger, wanted.node)
    warn_of_losses(ledger, wanted.node)
    is_recording = format_ == "jsonl"
    if is_recording and redact.key is None:
        lines = lines_of_excerpt(ledger, wanted)
    else:
        read = partial(records_of_excerpt if is_recording else list_records, ledger, wanted)
        records = redacted(read, redact.key) if redact.key else read()
        lines = (event_lines if format_ == "cloudevents" else encode_recording)(records)
    is_verified = is_recording and wanted.pod is not None and not is_standard(out)
    words = "verifying, for what the pod's decisions rest on"
    with progress(words) if is_verified else nullcontext():
        write = _write_parquet if format_ == "parquet" else write_lines_to
        count = write(out, lines)
    if not is_standard(out):
        click.echo(f"{counted(count, 'record')} in {out}", err=True)
    kept = " (what was written is what every reader needs)" if is_recording else ""
    _warn_of_none(ledger, wanted, kept)


def _write_parquet(out: Path, lines: Iterable[bytes]) -> int:
    """The file, all of it or nothing; how many rows."""
    import shutil
    import tempfile

    from kubeledger.analyze.sql.exports import write_parquet
    from kubeledger.cli.files import new_output, output_errors

    _refuse_a_terminal(out, "a Parquet file", "node.parquet")
    with tempfile.TemporaryDirectory(prefix="kubeledger-export-") as scratch:
        made, count = write_parquet(lines, Path(scratch))
        with output_errors(out), new_output(out) as file, made.open("rb") as content:
            shutil.copyfileobj(content, file)
    return count


def _refuse_a_terminal(out: Path, what: str, name: str) -> None:
    import sys

    from kubeledger.cli.files import is_standard

    if is_standard(out) and sys.stdout.isatty():
        raise BadQuestionError(f"{what} is binary", advice=f"name a file: --out {name}")


def _warn_of_none(ledger: Ledger, wanted: Filter, kept: str = "") -> None:
    """Say that no record passes a filter; ``kept`` is what was written all the same."""
    from kubeledger.analyze.sql.listing import Filter, list_records
    from kubeledger.cli.ls import no_record_words

    if wanted != Filter(node=wanted.node) and next(list_records(ledger, wanted), None) is None:
        words = f"{no_record_words(ledger, wanted)}{kept}"
        click.echo(printable(f"warning: {words}"), err=True)


def _write_trace(ledger: Ledger, wanted: Filter, out: Path) -> None:
    """Write what the timeline shows of the nodes."""
    from kubeledger.analyze.histories.history import histories_of_ledger
    from kubeledger.analyze.sql.api import connect
    from kubeledger.cli.files import is_standard, new_output, output_errors
    from kubeledger.cli.progress import progress
    from kubeledger.timeline import NodeView, Scope, build_drawing, write_trace

    _refuse_a_terminal(out, "a trace", "node.pftrace")
    histories = histories_of_ledger(ledger, wanted.node)
    scope = Scope(
        pods=[wanted.pod] if wanted.pod else (), from_ns=wanted.since_ns, to_ns=wanted.until_ns
    )
    with progress("reading and verifying the records") as bar, connect(ledger.path) as queryable:
        views = [NodeView(queryable, each.node, scope, each) for each in histories]
        bar.report("drawing")
        drawings = [(view, build_drawing(view, apart=True)) for view in views]
        bar.report("writing the trace")
        with output_errors(out), new_output(out) as file:
            count = write_trace(drawings, file)
    if not is_standard(out):
        click.echo(f"{out}: {counted(count, 'byte')}; open it in ui.perfetto.dev", err=True)
    _warn_of_none(ledger, wanted)


def _report_drops(ledger: Ledger, node: str | None) -> None:
    for name in ledger.nodes():
        begin = ledger.begin(name)
        if begin.base is not None and node in (None, name):
            words = (
                f"warning: records 1 to {begin.seq} of {name} were dropped before: the others are "
                "renumbered in a new chain, and verify may know less about them than in the ledger"
            )
            click.echo(printable(words), err=True)
