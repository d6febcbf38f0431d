"""``kubeledger sql``: read-only SQL over the views, shipped queries, an interactive shell."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kubeledger.cli.complete import Complete, complete_queries
from kubeledger.cli.options import (
    ledger_option,
    output_option,
    reports_errors,
    timeout_option,
)
from kubeledger.cli.output import write_rows
from kubeledger.cli.screen import paged, screen_width, terminal_width
from kubeledger.cli.sql_parameters import bound, named
from kubeledger.model.errors import BadInputError, BadQuestionError

if TYPE_CHECKING:
    from kubeledger.analyze.clock import Span
    from kubeledger.analyze.sql.api import Queryable
    from kubeledger.analyze.sql.library import ShippedQuery
    from kubeledger.analyze.sql.tables import Tables

__all__ = ["Asked", "answer", "asking_options", "sql"]

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
    """QUERY and all options about it, passed as ``asked: Asked``.

    Args:
        complete: names of shipped queries.
    """
    options = (
        click.argument("query", required=False),
        output_option("table", "wide", "json", "jsonl", "csv"),
        click.option("--list", "list_", is_flag=True, help="List the shipped queries."),
        click.option(
            "--run", "run_", metavar="NAME", shell_complete=complete, help="Run a shipped query."
        ),
        click.option(
            "--param",
            "params",
            multiple=True,
            metavar="NAME=VALUE",
            help="Value of a $NAME in the query. May be given several times.",
        ),
        timeout_option,
        click.option(
            "--memory",
            metavar="SIZE",
            help="Memory for data and query, e.g. 2GB; the rest goes to a temporary directory.",
        ),
    )

    def decorated(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def wrapper(**values: Any) -> None:  # noqa: ANN401 - click's values
            asked = Asked(*(values.pop(name) for name in Asked._fields))
            function(asked=asked, **values)

        command: Callable[..., None] = wrapper
        for option in reversed(options):
            command = option(command)
        return command

    return decorated


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
    from kubeledger.analyze.sql.library import load_library
    from kubeledger.cli.losses import warn_of_losses
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
        asked: the options.
        opened: gives the tables to ask, and the span of their records; called when rows are
            asked for.
        library: shipped queries over these tables.

    Raises:
        KubeledgerError: the question is none, or there is no answer.
    """
    from kubeledger.analyze.sql.api import Queryable
    from kubeledger.analyze.sql.library import find_query
    from kubeledger.cli.memory import bounded, size_of_memory

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
            from kubeledger.cli.sql_shell import Shell

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
        write_rows(rows.columns, rows, output, sys.stdout, types=rows.types, width_max=width)


def _show_library(library: Mapping[str, ShippedQuery], output: str) -> None:
    rows = [(query.name, query.title, " ".join(_signature(query))) for query in library.values()]
    columns = ("name", "question", "parameters")
    write_rows(columns, rows, output, sys.stdout, width_max=screen_width(), wrapped=True)


def _signature(query: ShippedQuery) -> list[str]:
    return [
        parameter.name if parameter.required else f"[{parameter.name}]"
        for parameter in query.parameters
    ]
