"""``kubeledger timeline`` and ``ui``: a node's history as one HTML file, or served."""

from __future__ import annotations

import io
import traceback
from collections.abc import Callable
from contextlib import suppress
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
    option,
    output_file,
    redact_options,
    reports_errors,
    time_option,
    timeout_option,
)
from kubeledger.model.errors import BadQuestionError

if TYPE_CHECKING:
    from kubeledger.timeline import Scope


@click.command(epilog="Example: kubeledger ui /var/tmp/node-a --port 8080")
@click.argument("sources", nargs=-1, metavar="[PATH]...")
@ledger_option
@option(
    "--port PORT",
    "Port on 127.0.0.1. Default: a free one.",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=False,
)
@option("--open opens", "Open the page in the browser.")
@timeout_option
@option(
    "--memory SIZE",
    "Memory for data and a query from the page; the rest goes to a temporary directory.",
    default="1GB",
)
@reports_errors
def ui(
    sources: tuple[str, ...], ledger: Path, port: int, opens: bool, timeout_s: float, memory: str
) -> None:
    """Look at a node's timeline in a browser, and ask it questions there.

    The page of `kubeledger timeline`, served on 127.0.0.1 to whoever has the URL that is printed:
    with SQL, why, the state at the cursor, and what-if drawn over what happened. A ledger that
    grows is followed. A query that takes longer than --timeout is stopped, and one that needs more
    than --memory is refused. A query that cannot be stopped is left to run; while two of those are
    running, no other is started. PATH is a ledger, a *.ledger.jsonl file, or a node's files, which
    are imported temporarily; without one the ledger is shown. Ctrl-C ends it.
    """
    from kubeledger.analyze.sql.api import connect, lingering
    from kubeledger.cli.files import ledger_for, warn_of_losses
    from kubeledger.cli.progress import progress
    from kubeledger.cli.service import SharedBound, size_of_memory
    from kubeledger.cli.ui_answers import Answers
    from kubeledger.ledger.ledger import Ledger
    from kubeledger.timeline.server import Server

    bound = SharedBound(size_of_memory(memory), lingering)
    # Whoever looks at a node has other work on the machine.
    opened = partial(connect, timeout_s=timeout_s, memory_limit=memory, is_fixed=True)
    with (
        progress("reading") as bar,
        ledger_for(sources, ledger) as directory,
        Answers(directory, opened, bound) as answers,
        Server(port, answers.routes(), _tell) as server,
    ):
        bar.end()
        warn_of_losses(Ledger.open(directory))
        click.echo(f"{', '.join(answers.nodes())}: open this in a browser; Ctrl-C ends it")
        click.echo(server.url)
        if opens:
            import webbrowser

            webbrowser.open(server.url)
        with suppress(KeyboardInterrupt):
            server.serve_forever()


def _tell(error: Exception) -> None:
    """The browser hears that there was a bug, the terminal which."""
    click.echo("bug in kubeledger:", err=True)
    click.echo("".join(traceback.format_exception(error)).rstrip(), err=True)


_OUT = "timeline.html"


@click.command(epilog="Example: kubeledger timeline /var/tmp/node-a --out node-a.html")
@click.argument("sources", nargs=-1, metavar="[SOURCE]...")
@ledger_option
@node_option
@option("--out FILE", "The page; - is standard output.", type=output_file, default=_OUT)
@time_option("--from from_", "Only what happened since")
@option("--to TIME", "Only what happened up to then.")
@option(
    "--pod pods [NS/]NAME",
    "Only this pod; may be repeated.",
    multiple=True,
    shell_complete=complete_pods,
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
    from kubeledger.cli.files import is_standard, ledger_for, redacted_ledger
    from kubeledger.cli.progress import progress
    from kubeledger.ledger.ledger import Ledger
    from kubeledger.timeline import Scope

    with progress("reading") as bar, ledger_for(sources, ledger) as directory:
        opened = Ledger.open(directory)
        span = partial(opened.span, node)
        scope = Scope(pods=pods, from_ns=instant(from_, span), to_ns=instant(to, span))
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
        out: the file, or ``-``.
        node: only this one; None: all.

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
