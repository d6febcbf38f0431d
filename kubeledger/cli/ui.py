"""``kubeledger ui``: the timeline page, served on loopback, with SQL, why, state and what-if."""

from __future__ import annotations

import traceback
from contextlib import suppress
from functools import partial
from pathlib import Path

import click

from kubeledger.cli.options import ledger_option, reports_errors, timeout_option


@click.command(epilog="Example: kubeledger ui /var/tmp/node-a --port 8080")
@click.argument("sources", nargs=-1, metavar="[PATH]...")
@ledger_option
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="PORT",
    help="Port on 127.0.0.1. Default: a free one.",
)
@click.option("--open", "opens", is_flag=True, help="Open the page in the browser.")
@timeout_option
@click.option(
    "--memory",
    default="1GB",
    show_default=True,
    metavar="SIZE",
    help="Memory for data and a query from the page; the rest goes to a temporary directory.",
)
@reports_errors
def ui(
    sources: tuple[str, ...], ledger: Path, port: int, opens: bool, timeout_s: float, memory: str
) -> None:
    """Look at a node's timeline in a browser, and ask it questions there.

    The page of `kubeledger timeline`, served on 127.0.0.1 to whoever has the URL that is
    printed: with SQL, why, the state at the cursor, and what-if drawn over what happened. A
    ledger that grows is followed. A query that takes longer than --timeout is stopped, and one
    that needs more than --memory refused; one that does not stop is left alone, and while two of
    these go on, no more is asked. PATH is a ledger, a *.ledger.jsonl file, or a node's files,
    which are imported temporarily; without one the ledger is shown. Ctrl-C ends it.
    """
    from kubeledger.analyze.sql.api import connect, lingering
    from kubeledger.cli.memory import SharedBound, size_of_memory
    from kubeledger.cli.progress import progress
    from kubeledger.cli.sources import ledger_for, warn_of_losses
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
