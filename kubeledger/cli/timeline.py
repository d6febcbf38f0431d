"""``kubeledger timeline``: a node's history as one HTML file."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kubeledger.cli.complete import complete_pods
from kubeledger.cli.options import (
    Redact,
    instant,
    ledger_option,
    node_option,
    output_file,
    redact_options,
    reports_errors,
    time_option,
)
from kubeledger.model.errors import BadQuestionError

if TYPE_CHECKING:
    from kubeledger.timeline import Scope

_OUT = "timeline.html"


@click.command(epilog="Example: kubeledger timeline /var/tmp/node-a --out node-a.html")
@click.argument("sources", nargs=-1, metavar="[SOURCE]...")
@ledger_option
@node_option
@click.option(
    "--out",
    type=output_file,
    default=_OUT,
    show_default=True,
    metavar="FILE",
    help="The page; - is standard output.",
)
@time_option("--from from_", "Only what happened since")
@click.option("--to", metavar="TIME", help="Only what happened up to then.")
@click.option(
    "--pod",
    "pods",
    multiple=True,
    metavar="[NS/]NAME",
    shell_complete=complete_pods,
    help="Only this pod; may be repeated.",
)
@redact_options
@reports_errors
def timeline(
    sources: tuple[str, ...],
    ledger: Path,
    node: str | None,
    out: Path,
    from_: str | None,
    to: str | None,
    pods: tuple[str, ...],
    redact: Redact,
) -> None:
    """Draw what happened on a node as one HTML file that opens from disk.

    What went wrong stands on top; below it a row for the kubelet, for each pod and container,
    device and image, and the records of every mark with their verdict and evidence. SOURCE
    is a ledger, a *.ledger.jsonl file, or a node's files, which are imported for it;
    without one the ledger is drawn. Several nodes are one page with a switch. With --redact the
    page can be shared: it shows pseudonyms for names, and no line of a log.
    """
    from kubeledger.analyze.sql.listing import Filter
    from kubeledger.cli.files import is_standard
    from kubeledger.cli.progress import progress
    from kubeledger.cli.sources import ledger_for, redacted_ledger
    from kubeledger.ledger.ledger import Ledger
    from kubeledger.timeline import Scope

    with progress("reading") as bar, ledger_for(sources, ledger) as directory:
        opened = Ledger.open(directory)
        span = partial(opened.span, node)
        scope = Scope(
            pods=pods,
            from_ns=instant(from_, span),
            to_ns=instant(to, span),
        )
        draw = partial(write_timeline, out=out, scope=scope, report=bar.report)
        if redact.key is None:
            count = draw(directory, node=node)
        elif pods:
            raise BadQuestionError(
                "--pod and --redact do not go together: pods have other names on that page",
                advice="`export --pod POD --redact --out FILE`, then `timeline FILE`",
            )
        else:
            with redacted_ledger(opened, Filter(node=node), redact.key) as shown:
                count = draw(shown)
    if not is_standard(out):
        click.echo(f"{out}: {count:,} bytes; open it in a browser")


def write_timeline(
    ledger: Path,
    out: Path,
    *,
    node: str | None = None,
    scope: Scope | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> int:
    """Write the page of a ledger's nodes.

    Args:
        ledger: its directory.
        out: the file, or ``-``.
        node: only this one; None: all.
        scope: what part of their histories.
        report: called with what is being done.

    Returns:
        How many bytes.

    Raises:
        BadQuestionError: no such node, no record, or a pod that no record is about.
        OutputError: the file cannot be written.
    """
    from kubeledger.cli.files import new_output, output_errors
    from kubeledger.timeline import write_ledger_page

    with output_errors(out), new_output(out) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", write_through=True)
        write_ledger_page(ledger, text, node=node, scope=scope, report=report)
        count = text.tell() if file.seekable() else 0
        text.detach()
    return count
