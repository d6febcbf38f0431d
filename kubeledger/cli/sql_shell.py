"""The interactive SQL shell: statements end with a semicolon, commands begin with a dot."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import click

from kubeledger.analyze.clock import Span
from kubeledger.analyze.sql.library import ShippedQuery
from kubeledger.analyze.sql.views import View
from kubeledger.cli.output import printable, write_rows
from kubeledger.cli.screen import screen_width
from kubeledger.model.errors import BadQuestionError, KubeledgerError

__all__ = ["Shell"]

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


class Shell:
    """Reads queries line by line and shows their answers.

    Args:
        show: runs a query with parameters and prints its rows.
        span: of the records that are asked about.
        views: that there are to ask.
        library: shipped queries over them.
        ask: prints a prompt and returns a line; raises EOFError at the end.
    """

    def __init__(
        self,
        show: Show,
        span: Span,
        views: Mapping[str, View],
        library: Mapping[str, ShippedQuery],
        ask: Callable[[str], str] = input,
    ) -> None:
        self._show = show
        self._span = span
        self._views = views
        self._library = library
        self._ask = ask

    def run(self) -> None:
        """Until `.quit` or the end of input; errors are shown and forgotten."""
        click.echo("Views in SQL. `.help` helps, `.quit` leaves.", err=True)
        with _history():
            for statement in self._statements():
                try:
                    if statement.startswith("."):
                        self._command(statement)
                    else:
                        self._show(statement, {})
                except KubeledgerError as error:
                    click.echo(printable(f"error: {error}"), err=True)
                except KeyboardInterrupt:
                    click.echo("interrupted", err=True)

    def _statements(self) -> Iterator[str]:
        lines: list[str] = []
        while True:
            try:
                line = self._ask("   ...> " if lines else "kubeledger> ")
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
                _table(("view", "rows"), [(v.name, v.doc) for v in self._views.values()])
            case ".schema":
                _schema(self._views, words)
            case ".queries":
                _table(("query", "question"), [(q.name, q.title) for q in self._library.values()])
            case ".run":
                self._run(words)
            case _:
                raise BadQuestionError(f"unknown command {command}", advice="`.help` lists them")

    def _run(self, words: list[str]) -> None:
        from kubeledger.analyze.sql.library import find_query
        from kubeledger.cli.sql_parameters import bound, named

        if not words:
            raise BadQuestionError("which query?", advice="`.queries` lists them")
        shipped = find_query(words[0], self._library)
        self._show(shipped.sql, bound(shipped, named(tuple(words[1:])), self._span))


def _schema(views: Mapping[str, View], words: list[str]) -> None:
    for name in words or list(views):
        view = views.get(name.lower())
        if view is None:
            raise BadQuestionError(f"there is no view {name}", advice="`.tables` lists them")
        click.echo(click.wrap_text(f"{view.name}: {view.doc}", screen_width()))
        rows = [(column.name, column.type, column.comment) for column in view.columns]
        _table(("column", "type", "what it holds"), rows)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    write_rows(columns, rows, "table", sys.stdout, width_max=screen_width(), wrapped=True)


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
