"""``kubeledger demo``: the main job end to end on a real node that comes with the package."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from shlex import quote
from typing import Final

import click

from kubeledger.cli.options import option, reports_errors
from kubeledger.cli.output import write_rows
from kubeledger.cli.screen import screen_width
from kubeledger.model.errors import BadInputError, BadQuestionError

_RECORDING: Final = "node-a.tar.zst"
_NODE: Final = "node-a"
_LEDGER: Final = "kubeledger-demo"
_PAGE: Final = "kubeledger-demo.html"
_TARGET: Final = "gpu-a"
_LINES_OF_WHY: Final = 13
_STEPS_OF_WHY: Final = 2

_QUESTION: Final = "What did image garbage collection do?"
_QUERY: Final = "SELECT ts, usage_percent, bytes_freed FROM image_gc_runs WHERE bytes_freed > 0"

_NEXT: Final = (
    ("why live-fail", "what happened to a pod, with the lines that prove it"),
    ("sql --list", "all questions that come with kubeledger"),
    ("state --at 2026-11-21T03:00:33Z", "the node as it was at any instant"),
    ("whatif --set imageGCHighThresholdPercent=80", "what would not have been deleted"),
    ("ui --open", "the page, with SQL and why in it"),
    ("import DIRECTORY --ledger mine", "your own node's files"),
)


@click.command(epilog="Example: kubeledger demo --ledger ./demo")
@option(
    "--ledger --keep DIR",
    "Where its ledger goes, and stays.",
    type=click.Path(path_type=Path, readable=False),
    default=_LEDGER,
)
@option(
    "--page FILE",
    "The timeline page to write.",
    type=click.Path(path_type=Path, readable=False, dir_okay=False),
    default=_PAGE,
)
@reports_errors
def demo(ledger: Path, page: Path) -> None:
    """Import a bundled recording of a real kubelet, decide again, ask questions, draw it.

    Its ledger stays, to be asked further; another run finds it and adds nothing.
    """
    _refuse_others(ledger)
    _import(ledger)
    _verify(ledger)
    _why(ledger)
    _question(ledger)
    _timeline(ledger, page)
    _next_steps(ledger)


def _refuse_others(ledger: Path) -> None:
    """The demo's records are no evidence of anybody's."""
    from kubeledger.analyze.histories.sources import is_ledger
    from kubeledger.ledger.ledger import Ledger

    if is_ledger(ledger) and {*Ledger.open(ledger).nodes()} - {_NODE}:
        raise BadQuestionError(
            f"{ledger} is already a ledger, and the demo's records do not belong there",
            advice="name a directory that does not exist: --ledger DIR",
        )


def _recording() -> Path:
    """The bundled recording: inside an installed package, or beside it in a checkout."""
    package = Path(__file__).parent.parent
    for directory in (package / "_recordings", package.parent / "recordings"):
        if (directory / _RECORDING).exists():
            return directory / _RECORDING
    raise BadInputError(
        f"the bundled recording {_RECORDING} is not there",
        advice="install the package again, or run from a checkout",
    )


def _title(text: str, command: str) -> None:
    click.secho(f"\n{text}", bold=True, nl=False)
    click.secho(f"  kubeledger {command}", fg="cyan")


def _import(ledger: Path) -> None:
    from kubeledger.cli.import_ import import_into, report_import

    _title("1. Take in what a node has", "import DIRECTORY")
    import_into(ledger, [_recording()], brief=True)
    report_import(ledger, [_NODE], advise=False)


def _verify(ledger: Path) -> None:
    from kubeledger import open as open_ledger

    _title("2. Could the kubelet have decided so?", "verify")
    with open_ledger(ledger) as opened:
        tally = opened.verify(node=_NODE).tally
    click.echo(
        f"{tally.decisions} decisions: {tally.count('match')} as that version decides, "
        f"{tally.count('admissible')} as it was free to,\n"
        f"{tally.count('impossible')} impossible, {tally.count('unverifiable')} lack an input "
        f"({tally.inferred.total()} more are the import's own, and prove nothing)"
    )


def _why(ledger: Path) -> None:
    from kubeledger.analyze.histories.history import histories_of_ledger
    from kubeledger.analyze.why import answers_to
    from kubeledger.cli.why import screen_size, short_text
    from kubeledger.ledger.ledger import Ledger

    _title("3. Why?", f"why {_TARGET}")
    histories = histories_of_ledger(Ledger.open(ledger), _NODE)
    width, _ = screen_size()
    for answer in answers_to(_TARGET, histories):
        click.echo("\n".join(short_text(answer, width, _LINES_OF_WHY, _STEPS_OF_WHY)))


def _question(ledger: Path) -> None:
    from kubeledger.analyze.sql.api import connect

    _title(f"4. {_QUESTION}", "sql ...")
    click.echo(_QUERY)
    with connect(ledger) as queryable:
        rows = queryable.sql(_QUERY)
        write_rows(rows.columns, rows, "table", width_max=screen_width(), wrapped=True)


def _timeline(ledger: Path, page: Path) -> None:
    from kubeledger.cli.progress import progress
    from kubeledger.cli.timeline import write_timeline

    _title("5. All of it on one page", f"timeline --out {page}")
    with progress("drawing") as bar:
        write_timeline(ledger, page, report=bar.report)
    click.echo(f"Open it in a browser: {page.resolve().as_uri()}")


def _next_steps(ledger: Path) -> None:
    click.secho("\nWhat to try next, after ", bold=True, nl=False)
    click.secho(f"export KUBELEDGER={quote(str(ledger))}", fg="cyan")
    program = quote(_program())
    for command, meaning in _NEXT:
        click.echo(f"{program} {command:<43}  {meaning}")


def _program() -> str:
    """How this program is called from where the user is."""
    called = Path(sys.argv[0])
    found = shutil.which("kubeledger")
    if called.name != "kubeledger" or (found and Path(found).resolve() == called.resolve()):
        return "kubeledger"
    return min(str(called), os.path.relpath(called), key=len)
