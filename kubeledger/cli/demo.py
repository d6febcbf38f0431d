"""``kubeledger demo``: the main job end to end on a real node that comes with the package."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kubeledger.cli.options import reports_errors
from kubeledger.cli.output import write_rows
from kubeledger.cli.screen import screen_width
from kubeledger.model.errors import BadInputError, BadQuestionError

if TYPE_CHECKING:
    from kubeledger.analyze.sql.api import Queryable

_RECORDING = "node-a.tar.zst"
_PAGE = "kubeledger-demo.html"
_INCIDENT = "2026-11-21T03:00:33Z"
"""One second after a critical pod had preempted another on the recorded node."""

_TARGETS = ("pod/default/gpu-a", "pod/default/gpu-c", "container/default/live-fail/app")

_QUESTIONS: tuple[tuple[str, str], ...] = (
    (
        "Who was preempted, and for whom?",
        "SELECT ts, victim_pod, preemptor_pod, insufficient, evicted FROM preemptions",
    ),
    (
        "Which pods were refused, and why?",
        "SELECT ts, pod, reason, message FROM admissions WHERE NOT admitted",
    ),
    (
        "Which containers were restarted, and why?",
        "SELECT pod, container, reason, count(*) AS restarts, max(ts) AS last"
        " FROM container_restarts GROUP BY ALL ORDER BY restarts DESC",
    ),
    (
        "What did image garbage collection do?",
        "SELECT ts, usage_percent AS usage, high_threshold_percent AS high, bytes_to_free,"
        " bytes_freed, images_removed AS removed, outcome FROM image_gc_runs",
    ),
    (
        "Who got which device, until when?",
        "SELECT pod, container, resource, device_ids, released_ts FROM device_allocations",
    ),
)


@click.command(epilog="Example: kubeledger demo --keep ./demo-ledger")
@click.option(
    "--keep",
    type=click.Path(path_type=Path, readable=False),
    metavar="DIR",
    help="Keep the ledger there instead of throwing it away.",
)
@click.option(
    "--page",
    type=click.Path(path_type=Path, readable=False, dir_okay=False),
    default=_PAGE,
    show_default=True,
    metavar="FILE",
    help="The timeline page to write.",
)
@reports_errors
def demo(keep: Path | None, page: Path) -> None:
    """Import a bundled recording of a real kubelet, draw it, decide again, ask questions."""
    with _ledger_directory(keep) as ledger:
        _import(ledger)
        _timeline(ledger, page)
        _state(ledger)
        _verify(ledger)
        _why(ledger)
        _questions(ledger)
        _next_steps(ledger, page, kept=keep is not None)


@contextmanager
def _ledger_directory(keep: Path | None) -> Iterator[Path]:
    """Where the demo's ledger is to be.

    Raises:
        BadQuestionError: there is one already.
    """
    from kubeledger.analyze.histories.sources import is_ledger

    if keep is not None:
        if is_ledger(keep):
            raise BadQuestionError(
                f"{keep} is already a ledger, and the demo's records do not belong there",
                advice="name a directory that does not exist",
            )
        yield keep
        return
    with tempfile.TemporaryDirectory(prefix="kubeledger-demo-") as scratch:
        yield Path(scratch) / "ledger"


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


def _title(text: str) -> None:
    click.secho(f"\n{text}", bold=True)


def _import(ledger: Path) -> None:
    from kubeledger.cli.import_ import import_into, report_import
    from kubeledger.ledger.ledger import Ledger

    _title("1. Import a node's files: log, checkpoints, pod lists, events, stats, cgroups")
    import_into(ledger, [_recording()], brief=True)
    report_import(ledger, Ledger.open(ledger).nodes(), advise=False)


def _timeline(ledger: Path, page: Path) -> None:
    from kubeledger.cli.progress import progress
    from kubeledger.cli.timeline import write_timeline

    _title("2. See it")
    with progress("drawing") as bar:
        write_timeline(ledger, page, report=bar.report)
    click.echo(f"The timeline page is {page.resolve().as_uri()}: open it in a browser.")


def _state(ledger: Path) -> None:
    from kubeledger import open as open_ledger
    from kubeledger.cli.state_tables import write_tables

    _title(f"3. The node as it was at {_INCIDENT}")
    with open_ledger(ledger) as opened:
        state = opened.state(_INCIDENT)
    write_tables(state, ("pods", "devices", "probes"), screen_width())


def _verify(ledger: Path) -> None:
    from kubeledger import open as open_ledger
    from kubeledger.cli.verify_output import writer_of
    from kubeledger.verify.tally import Tally

    _title("4. Decide every decision again, by the rules of that kubelet version")
    click.echo("match: the same decision; admissible: another that the kubelet was free to take")
    tally = Tally()
    with open_ledger(ledger) as opened, writer_of("table", all_=False) as writer:
        writer.begin(opened.nodes[0])
        for outcome in opened.verify():
            tally.add(outcome)
            writer.write(outcome)
        writer.end(tally)


def _why(ledger: Path) -> None:
    from kubeledger.analyze.histories.history import histories_of_ledger
    from kubeledger.analyze.why import explain, parse_target
    from kubeledger.cli.why_output import screen_size, short_text
    from kubeledger.ledger.ledger import Ledger

    _title("5. Why?")
    (history,) = histories_of_ledger(Ledger.open(ledger))
    for target in _TARGETS:
        answer = explain(history, parse_target(target))
        assert answer is not None  # the recording holds it
        click.secho(f"\nkubeledger why {target}", fg="cyan")
        click.echo("\n".join(short_text(answer, *screen_size())))


def _questions(ledger: Path) -> None:
    from kubeledger.analyze.sql.api import connect

    _title("6. Answers in SQL")
    with connect(ledger) as queryable:
        for question, query in _QUESTIONS:
            _answer(queryable, question, query)


def _answer(queryable: Queryable, question: str, query: str) -> None:
    click.secho(f"\n{question}", fg="cyan")
    click.echo(query)
    rows = queryable.sql(query)
    write_rows(rows.columns, rows, "table", width_max=screen_width(), wrapped=True)


def _next_steps(ledger: Path, page: Path, *, kept: bool) -> None:
    _title("What to try next")
    where = str(ledger) if kept else "./demo-ledger"
    if not kept:
        click.echo("First keep the ledger: kubeledger demo --keep ./demo-ledger; then:")
    for command, meaning in (
        ("sql --list", "the questions that come with kubeledger"),
        ("sql --run probe_kills", "each kill by a probe, and when it ran again"),
        ("ls --pod gpu-a", "all records about one pod"),
        ("state --at 2026-11-21T03:02:00Z", "the node a minute and a half later"),
        ("why container/default/live-fail/app", "what happened, and the lines it rests on"),
        ("whatif --set imageGCHighThresholdPercent=80", "what would not have been deleted"),
        ("completeness", "what evidence there is, and what is missing"),
        ("audit", "prove that nothing was changed"),
    ):
        click.echo(f"kubeledger {command:<43} --ledger {where}   {meaning}")
    click.echo("kubeledger import DIRECTORY                 your own node's files")
    click.echo(f"\nAnd look at the page: {page.resolve().as_uri()}")
