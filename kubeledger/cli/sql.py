"""``kubeledger sql``: read-only SQL over the views, shipped queries, an interactive shell."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from kubeledger.analyze.clock import parse_time
from kubeledger.cli.complete import Complete, complete_queries
from kubeledger.cli.options import (
    ledger_option,
    memory_option,
    option,
    options_as,
    output_option,
    reports_errors,
    timeout_option,
)
from kubeledger.cli.output import printable, write_rows, write_wrapped
from kubeledger.cli.screen import paged, screen_width, terminal_width
from kubeledger.model.errors import BadInputError, BadQuestionError, KubeledgerError
from kubeledger.model.units import format_ts

if TYPE_CHECKING:
    from kubeledger.analyze.clock import Span
    from kubeledger.analyze.sql.api import Queryable
    from kubeledger.analyze.sql.tables import Tables
    from kubeledger.analyze.sql.views import ShippedQuery, View

_TABLES = ("table", "wide")
_QUERY_BYTES_MAX = 16 << 20


class Asked(NamedTuple):
    """What the options of a command that runs SQL ask for."""

    query: str | None
    output: str
    list_: bool
    run_: str | None
    params: tuple[str, ...]
    timeout_s: float
    memory: str | None


def asking_options(complete: Complete) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """QUERY and all options about it, passed as ``asked: Asked``."""
    options = (
        click.argument("query", required=False),
        output_option("table", "wide", "json", "jsonl", "csv"),
        option("--list list_", "List the shipped queries."),
        option("--run run_ NAME", "Run a shipped query.", shell_complete=complete),
        option(
            "--param params NAME=VALUE",
            "Value of a $NAME in the query. May be given several times.",
            multiple=True,
        ),
        timeout_option,
        memory_option,
    )
    return options_as("asked", Asked, options)


@click.command(epilog='Example: kubeledger sql "SELECT pod, reason FROM container_restarts" -o csv')
@ledger_option
@asking_options(complete_queries)
@reports_errors
def sql(ledger: Path, asked: Asked) -> None:
    """Ask read-only SQL over the ledger, or run a shipped query.

    QUERY is one SELECT over the views (`SHOW TABLES` lists them); `-` reads it from standard
    input. Without QUERY it is an interactive shell.
    """
    from kubeledger.analyze.sql.ledger_tables import LedgerTables
    from kubeledger.analyze.sql.views import load_library
    from kubeledger.cli.files import warn_of_losses
    from kubeledger.ledger.ledger import Ledger

    def opened() -> tuple[Tables, Span]:
        found = Ledger.open(ledger)
        warn_of_losses(found)
        return LedgerTables(ledger), found.span

    answer(asked, opened, load_library())


def answer(
    asked: Asked, opened: Callable[[], tuple[Tables, Span]], library: Mapping[str, ShippedQuery]
) -> None:
    """Show what is asked for, of a ledger or of a lake.

    Args:
        opened: gives the tables to ask, and the span of their records; called when rows are
            asked for.
        library: shipped queries over these tables.

    Raises:
        KubeledgerError: the question is none, or there is no answer.
    """
    from kubeledger.analyze.sql.api import Queryable
    from kubeledger.analyze.sql.views import find_query
    from kubeledger.cli.service import bounded, size_of_memory

    if sum([asked.query is not None, asked.run_ is not None, asked.list_]) > 1:
        raise BadQuestionError("give one of QUERY, --run and --list")
    if asked.list_:
        _show_library(library, asked.output)
        return
    given = named(asked.params)
    size = None if asked.memory is None else size_of_memory(asked.memory)
    limit = None if size is None else f"{size}B"
    tables, span = opened()
    with (
        bounded(size),
        Queryable(tables, timeout_s=asked.timeout_s, memory_limit=limit) as database,
    ):
        show = functools.partial(_show, database, output=asked.output)
        if asked.run_ is not None:
            shipped = find_query(asked.run_, library)
            show(shipped.sql, bound(shipped, given, span))
        elif asked.query is None and sys.stdin is not None and sys.stdin.isatty():
            Shell(show, span, tables.views, library).run()
        else:
            text = _query_on_stdin() if asked.query in {None, "-"} else asked.query
            show(text or "", dict(given))


def _query_on_stdin() -> str:
    from kubeledger.cli.files import STANDARD_INPUT, read_input

    try:
        return read_input("-", _QUERY_BYTES_MAX).decode()
    except UnicodeDecodeError as error:
        raise BadInputError("is not UTF-8", file=STANDARD_INPUT) from error


def _show(
    database: Queryable, query: str, params: dict[str, str] | dict[str, str | None], output: str
) -> None:
    from kubeledger.cli.progress import progress

    if not query.strip():
        raise BadQuestionError("the query is empty", advice="see `kubeledger sql --help`")
    with progress("reading records, running the query"), paged(wanted=output in _TABLES):
        rows = database.sql(query, params)
        width = terminal_width()
        write_rows(rows.columns, rows, output, types=rows.types, width_max=width)


def _show_library(library: Mapping[str, ShippedQuery], output: str) -> None:
    rows = [(query.name, query.title, " ".join(_signature(query))) for query in library.values()]
    columns = ("name", "question", "parameters")
    write_rows(columns, rows, output, width_max=screen_width(), wrapped=True)


def _signature(query: ShippedQuery) -> list[str]:
    return [
        parameter.name if parameter.required else f"[{parameter.name}]"
        for parameter in query.parameters
    ]


def bound(shipped: ShippedQuery, given: dict[str, str], span: Span) -> dict[str, str | None]:
    """Values of a shipped query's parameters; a TIME becomes RFC 3339.

    Args:
        given: name -> value as the user wrote it.

    Raises:
        BadQuestionError: a parameter is missing, unknown, or no time where it must be one.
    """
    values = shipped.bind(given)
    for parameter in shipped.parameters:
        text = values[parameter.name]
        if parameter.is_time and text is not None:
            values[parameter.name] = format_ts(parse_time(text, span))
    return values


def named(params: tuple[str, ...]) -> dict[str, str]:
    """Name -> value of texts ``NAME=VALUE``.

    Raises:
        BadQuestionError: one is no such text.
    """
    named = {}
    for param in params:
        name, separator, value = param.partition("=")
        if not separator or not name.isidentifier():
            raise BadQuestionError(f"{param!r} is not NAME=VALUE")
        named[name] = value
    return named


_HISTORY_LENGTH = 1000
_HELP = """\
.tables         the views
.schema VIEW    columns of a view, with what they hold
.queries        the shipped queries
.run NAME       run a shipped query; parameters as NAME=VALUE after it
.help           this
.quit           leave (or Ctrl-D)
A query may span lines and ends with a semicolon."""

Show = Callable[[str, dict[str, str] | dict[str, str | None]], None]


class Shell(NamedTuple):
    """Reads queries line by line and shows their answers.

    Attributes:
        show: runs a query with parameters and prints its rows.
        ask: prints a prompt and returns a line; raises EOFError at the end.
    """

    show: Show
    span: Span
    views: Mapping[str, View]
    library: Mapping[str, ShippedQuery]
    ask: Callable[[str], str] = input

    def run(self) -> None:
        """Until `.quit` or the end of input; errors are shown and forgotten."""
        click.echo("Views in SQL. `.help` helps, `.quit` leaves.", err=True)
        with _history():
            for statement in self._statements():
                try:
                    if statement.startswith("."):
                        self._command(statement)
                    else:
                        self.show(statement, {})
                except KubeledgerError as error:
                    click.echo(printable(f"error: {error}"), err=True)
                except KeyboardInterrupt:
                    click.echo("interrupted", err=True)

    def _statements(self) -> Iterator[str]:
        lines: list[str] = []
        while True:
            try:
                line = self.ask("   ...> " if lines else "kubeledger> ")
            except EOFError:
                click.echo()
                return
            except KeyboardInterrupt:
                click.echo()
                lines.clear()
                continue
            if not lines and line.strip() in {".quit", ".exit"}:
                return
            if not lines and (not line.strip() or line.startswith(".")):
                if line.strip():
                    yield line.strip()
                continue
            lines.append(line)
            if line.rstrip().endswith(";"):
                yield "\n".join(lines)
                lines.clear()

    def _command(self, text: str) -> None:
        command, *words = text.split()
        match command:
            case ".help":
                click.echo(_HELP)
            case ".tables":
                write_wrapped(("view", "rows"), [(v.name, v.doc) for v in self.views.values()])
            case ".schema":
                _schema(self.views, words)
            case ".queries":
                write_wrapped(
                    ("query", "question"), [(q.name, q.title) for q in self.library.values()]
                )
            case ".run":
                self._run(words)
            case _:
                raise BadQuestionError(f"unknown command {command}", advice="`.help` lists them")

    def _run(self, words: list[str]) -> None:
        from kubeledger.analyze.sql.views import find_query

        if not words:
            raise BadQuestionError("which query?", advice="`.queries` lists them")
        shipped = find_query(words[0], self.library)
        self.show(shipped.sql, bound(shipped, named(tuple(words[1:])), self.span))


def _schema(views: Mapping[str, View], words: list[str]) -> None:
    for name in words or list(views):
        view = views.get(name.lower())
        if view is None:
            raise BadQuestionError(f"there is no view {name}", advice="`.tables` lists them")
        click.echo(click.wrap_text(f"{view.name}: {view.doc}", screen_width()))
        rows = [(column.name, column.type, column.comment) for column in view.columns]
        write_wrapped(("column", "type", "what it holds"), rows)


@contextlib.contextmanager
def _history() -> Iterator[None]:
    """Line editing and a history file, where the platform has them."""
    try:
        import readline
    except ImportError:
        yield
        return
    path = Path.home() / ".kubeledger_history"
    with contextlib.suppress(OSError):
        readline.read_history_file(path)
    try:
        yield
    finally:
        readline.set_history_length(_HISTORY_LENGTH)
        with contextlib.suppress(OSError):
            readline.write_history_file(path)
