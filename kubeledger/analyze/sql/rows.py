"""A result of SQL: rows in Python, a frame of pandas, polars or Arrow, or a table for notebooks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from kubeledger.ledger.engine import duckdb
from kubeledger.model.errors import BadQuestionError

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


_CELL_MAX = 200


def html_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, more: str = "") -> str:
    """A table, and below it what it leaves out.

    Args:
        columns: (n,) headings.
        rows: each of n values; None is an empty cell, long texts are cut.
        more: how many rows are not shown, as text; empty: none.
    """
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    below = f"<p>{escape(more)} more</p>" if more else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}"


def _cell(value: object) -> str:
    if isinstance(value, datetime):
        text = value.isoformat(sep=" ", timespec="microseconds").replace("+00:00", "Z")
    else:
        text = "" if value is None else str(value)
    if len(text) > _CELL_MAX:
        text = f"{text[: _CELL_MAX - 1]}…"
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    align = "right" if is_number else "left"
    return f'<td style="text-align:{align}">{escape(text)}</td>'


_FETCH_ROWS = 2048
_SHOWN_ROWS = 20
_COUNTED_ROWS = 100_000
"""How many rows a notebook counts to say how many it does not show."""
_INSTALL = "pip install 'kubeledger[analysis]'"


class Pass(Protocol):
    """One run of a query."""

    cursor: duckdb.DuckDBPyConnection

    def relation(self) -> duckdb.DuckDBPyRelation:
        """The query again, for what DuckDB makes of a relation only."""

    def run(self, work: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever the work returns
        """Do a part of it; a refusal and the end of its time are a BadQuestionError."""

    def spend(self, seconds: float) -> None:
        """Count work that was done elsewhere."""


class Rows:
    """A result: iterate over its rows (tuples), or take all of them in one of many forms.

    Rows are made as they are taken and not kept, so that a result may be larger than memory.
    Each use after the first runs the query again over the same records: a ledger that has
    grown since needs a new ``sql``. Without ORDER BY the rows may come in another order.

    Times are aware, in UTC. A fact that no source holds is None, and in a frame whatever the
    library has for that.

    Attributes:
        columns: (n,) names, in order; a name may occur twice.
        types: (n,) DuckDB types as text, e.g. ``VARCHAR[]``.
    """

    def __init__(self, start: Callable[[], Pass]) -> None:
        self._start = start
        self._unused: Pass | None = start()
        description = self._unused.cursor.description or []
        self.columns: tuple[str, ...] = tuple(str(item[0]) for item in description)
        self.types: tuple[str, ...] = tuple(str(item[1]) for item in description)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Fetch batch after batch.

        Raises:
            BadQuestionError: the query failed or took too long, or its ledger was closed.
        """
        this = self._pass()
        timed = [i for i, type_ in enumerate(self.types) if "TIMESTAMP" in type_]
        is_more = True
        while is_more:
            batch = this.run(lambda: this.cursor.fetchmany(_FETCH_ROWS))
            is_more = len(batch) == _FETCH_ROWS
            began_s = time.thread_time()
            yield from (_aware_row(row, timed) for row in batch) if timed else batch
            # What is made of the rows is work, too; waiting for a reader of the output is none.
            this.spend(time.thread_time() - began_s)
        this.cursor.close()

    def fetchall(self) -> list[tuple[Any, ...]]:
        return list(self)

    def dicts(self) -> list[dict[str, Any]]:
        """All rows, by column name."""
        return [dict(zip(self.columns, row, strict=True)) for row in self]

    def df(self) -> pandas.DataFrame:
        """All rows as a pandas frame; times inside of lists stay naive.

        Raises:
            BadQuestionError: as of iteration, or pandas is missing.
        """
        _needs("pandas", "numpy")
        import_module("duckdb")
        this = self._pass()
        frame = this.run(this.cursor.df)
        for place, type_ in enumerate(self.types):
            if type_.startswith("TIMESTAMP") and not type_.endswith("]"):
                times = frame.iloc[:, place].dt
                aware = times.tz_localize if times.tz is None else times.tz_convert
                frame.isetitem(place, aware("UTC"))
        return frame

    def arrow(self) -> pyarrow.Table:
        """All rows as an Arrow table.

        Raises:
            BadQuestionError: as of iteration, or pyarrow is missing.
        """
        _needs("pyarrow")
        import pyarrow

        this = self._pass()
        # As a relation DuckDB makes the table without a copy of the rows in between.
        table = this.run(lambda: this.relation().to_arrow_table())
        fields = [field.with_type(_utc_type(field.type)) for field in table.schema]
        return table.cast(pyarrow.schema(fields))

    def pl(self) -> polars.DataFrame:
        """All rows as a polars frame; a name that occurs twice gets a number.

        Raises:
            BadQuestionError: as of iteration, or polars or pyarrow is missing.
        """
        _needs("polars", "pyarrow")
        import polars

        table = self.arrow()
        return polars.from_arrow(table.rename_columns(_distinct(table.column_names)))

    def __repr__(self) -> str:
        """The columns; nothing is run."""
        columns = zip(self.columns, self.types, strict=True)
        return f"<Rows: {', '.join(f'{name} {type_}' for name, type_ in columns)}>"

    def _repr_html_(self) -> str:
        """The first rows as a table, and how many more there are."""
        shown: list[tuple[Any, ...]] = []
        more = 0
        for row in self:
            if len(shown) < _SHOWN_ROWS:
                shown.append(row)
            elif more == _COUNTED_ROWS:
                return html_table(self.columns, shown, more=f"more than {more:,}")
            else:
                more += 1
        return html_table(self.columns, shown, more=f"{more:,}" if more else "")

    def _pass(self) -> Pass:
        this, self._unused = self._unused or self._start(), None
        return this


def in_utc(value: object) -> object:
    """An aware datetime as the naive one in UTC that the views hold; anything else as it is.

    Raises:
        BadQuestionError: it is a text that is not UTF-8.
    """
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    if isinstance(value, str):
        check_text(value, "a parameter")
    return value


def check_text(text: str, what: str) -> None:
    """Refuse what DuckDB cannot take.

    Raises:
        BadQuestionError: half a character (a lone surrogate) is in it.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadQuestionError(f"{what} is not UTF-8 at character {error.start + 1}") from None


def _aware_row(row: tuple[Any, ...], timed: list[int]) -> tuple[Any, ...]:
    values = list(row)
    for place in timed:
        values[place] = _aware(values[place])
    return tuple(values)


def _aware(value: Any) -> Any:  # noqa: ANN401 - any value that DuckDB returns
    """The same with every naive time in it, also in lists and structs, as one in UTC."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    if isinstance(value, list | tuple):
        return type(value)(_aware(item) for item in value)
    if isinstance(value, dict):
        return {_aware(key): _aware(item) for key, item in value.items()}
    return value


def _utc_type(type_: pyarrow.DataType) -> pyarrow.DataType:
    import pyarrow

    if pyarrow.types.is_timestamp(type_):
        return pyarrow.timestamp(type_.unit, "UTC")
    if pyarrow.types.is_list(type_):
        return pyarrow.list_(type_.value_field.with_type(_utc_type(type_.value_type)))
    if pyarrow.types.is_struct(type_):
        return pyarrow.struct([field.with_type(_utc_type(field.type)) for field in type_])
    return type_


def _distinct(names: list[str]) -> list[str]:
    found: dict[str, None] = {}
    for name in names:
        number, distinct = 0, name
        while distinct in found:
            number += 1
            distinct = f"{name}_{number}"
        found[distinct] = None
    return list(found)


def _needs(*libraries: str) -> None:
    """Refuse in words where a library is not installed.

    Raises:
        BadQuestionError: one is missing.
    """
    from importlib.util import find_spec

    for library in libraries:
        if find_spec(library) is None:
            raise BadQuestionError(f"{library} is not installed", advice=_INSTALL)
