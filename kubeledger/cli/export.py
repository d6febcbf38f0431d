"""``kubeledger export``: records for other programs, and for tests."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from kubeledger.cli.options import (
    instant,
    kinds_option,
    ledger_option,
    node_option,
    output_file,
    pod_option,
    reports_errors,
    time_option,
)
from kubeledger.cli.output import counted, printable
from kubeledger.model.errors import BadQuestionError

if TYPE_CHECKING:
    from kubeledger.analyze.sql.listing import Filter
    from kubeledger.ledger.ledger import Ledger

__all__ = ["export"]


@click.command(epilog="Example: kubeledger export --pod default/web --out web.ledger.jsonl")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["jsonl", "cloudevents", "perfetto"]),
    default="jsonl",
    show_default=True,
    help="jsonl: the ledger's own lines, as `verify`, `diff` and pytest read them. "
    "cloudevents: CloudEvents 1.0 as JSON lines. perfetto: a trace for ui.perfetto.dev.",
)
@click.option(
    "--out",
    type=output_file,
    default="-",
    metavar="FILE",
    help="Write this file, all of it or nothing; compressed if it ends with .zst. "
    "Default: -, standard output.",
)
@ledger_option
@node_option
@pod_option
@kinds_option
@time_option("--since", "First time")
@click.option("--until", metavar="TIME", help="Last time.")
@click.option(
    "--redact",
    is_flag=True,
    help="Put pseudonyms for names, IDs and addresses; leave log lines and outputs out.",
)
@click.option(
    "--redact-key",
    envvar="KUBELEDGER_REDACT_KEY",
    metavar="SECRET",
    help="Same secret, same pseudonyms (better as $KUBELEDGER_REDACT_KEY). Default: a random one.",
)
@click.pass_context
@reports_errors
def export(
    context: click.Context,
    format_: str,
    out: Path,
    ledger: Path,
    node: str | None,
    pod: str | None,
    kinds: tuple[str, ...],
    since: str | None,
    until: str | None,
    redact: bool,
    redact_key: str | None,
) -> None:
    """Write records of the ledger to stdout, or to a file, for other programs.

    Without a filter these are the ledger's own lines. With one, records are numbered again, and
    what every reader needs is kept: starts of the kubelet, its settings, the node, and the
    lists of pods. With --pod also what the pod's decisions rest on, so that `verify` says the
    same of them. An excerpt by time or kind alone is less evidence: what `verify` misses in it
    may be in the rest of the ledger. What is left of a ledger whose first records were
    dropped is an excerpt, too.

    As cloudevents, each record that passes the filter is an event (CloudEvents 1.0, JSON, one a
    line). As perfetto, what `timeline` draws is a trace for ui.perfetto.dev.

    With --redact the records can be shared: they verify as before, but only the owner of the key
    can show whose they are. Resources, numbers and times stay.
    """
    from kubeledger.analyze.sql.listing import Filter
    from kubeledger.ledger.ledger import Ledger

    if not redact and context.get_parameter_source("redact_key") is ParameterSource.COMMANDLINE:
        raise BadQuestionError(
            "--redact-key is given, without --redact", advice="give --redact, too"
        )
    opened = Ledger.open(ledger)
    span = partial(opened.span, node)
    wanted = Filter(
        node=node,
        pod=pod,
        kinds=kinds,
        since_ns=instant(since, span),
        until_ns=instant(until, span),
    )
    if format_ == "perfetto":
        if kinds or redact:
            raise BadQuestionError(
                f"{'--redact' if redact else '--kind'} is for records, not for a trace",
                advice="use --pod, --since and --until",
            )
        _write_trace(opened, wanted, out)
        return
    _write_records(opened, wanted, out, format_, _key(redact_key) if redact else None)


def _write_records(
    ledger: Ledger, wanted: Filter, out: Path, format_: str, key: bytes | None
) -> None:
    """Write them line by line; without a key as they are."""
    from kubeledger.analyze.sql.excerpt import lines_of_excerpt, records_of_excerpt
    from kubeledger.analyze.sql.listing import list_records
    from kubeledger.analyze.sql.redaction import redacted
    from kubeledger.cli.files import is_standard, write_lines_to
    from kubeledger.cli.progress import progress
    from kubeledger.cli.sources import warn_of_losses

    is_recording = format_ == "jsonl"
    lines = lines_of_excerpt(ledger, wanted)
    _report_drops(ledger, wanted.node)
    warn_of_losses(ledger, wanted.node)
    if key is not None:
        read = records_of_excerpt if is_recording else list_records
        lines = redacted(lambda: read(ledger, wanted), key)
    if not is_recording:
        from kubeledger.analyze.sql.cloudevents import event_lines
        from kubeledger.model.wire.codec import decode_line

        lines = event_lines(
            list_records(ledger, wanted) if key is None else map(decode_line, lines)
        )
    is_verified = is_recording and wanted.pod is not None and not is_standard(out)
    words = "verifying, for what the pod's decisions rest on"
    with progress(words) if is_verified else nullcontext():
        count = write_lines_to(out, lines)
    if not is_standard(out):
        click.echo(f"{counted(count, 'record')} in {out}", err=True)
    kept = " (what was written is what every reader needs)" if is_recording else ""
    _warn_of_none(ledger, wanted, kept)


def _warn_of_none(ledger: Ledger, wanted: Filter, kept: str = "") -> None:
    """Say that no record passes a filter; ``kept`` is what was written all the same."""
    from kubeledger.analyze.sql.listing import Filter, list_records
    from kubeledger.cli.ls import no_record_words

    if wanted != Filter(node=wanted.node) and next(list_records(ledger, wanted), None) is None:
        words = f"{no_record_words(ledger, wanted)}{kept}"
        click.echo(printable(f"warning: {words}"), err=True)


def _write_trace(ledger: Ledger, wanted: Filter, out: Path) -> None:
    """Write what the timeline shows of the nodes."""
    import sys

    from kubeledger.analyze.histories.history import histories_of_ledger
    from kubeledger.analyze.sql.api import connect
    from kubeledger.cli.files import is_standard, new_output, output_errors
    from kubeledger.cli.progress import progress
    from kubeledger.timeline import NodeView, Scope, build_drawing, write_trace

    if is_standard(out) and sys.stdout.isatty():
        raise BadQuestionError("a trace is binary", advice="name a file: --out node.pftrace")
    histories = histories_of_ledger(ledger, wanted.node)
    scope = Scope(
        pods=[wanted.pod] if wanted.pod else (), from_ns=wanted.since_ns, to_ns=wanted.until_ns
    )
    with (
        progress("reading and verifying the records") as bar,
        connect(ledger.path) as queryable,
    ):
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


def _key(secret: str | None) -> bytes:
    """The key that the user's secret gives, or one that nobody will ever know."""
    import secrets

    from kubeledger.analyze.sql.pseudonyms import key_of_passphrase

    return key_of_passphrase(secret) if secret else secrets.token_bytes(32)
