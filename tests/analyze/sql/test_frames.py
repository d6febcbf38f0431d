"""Results as frames and in notebooks: types, times, names, how often one can ask."""

import datetime
import importlib.util
from pathlib import Path

import pandas
import polars
import pyarrow
import pytest

from kubeledger.analyze.sql.api import Queryable, connect
from kubeledger.analyze.sql.rows import html_table
from kubeledger.model.errors import BadQuestionError

ALLOCATIONS = (
    "SELECT seq, ts, [ts] AS times, device_ids AS ids, NULL::BIGINT AS nothing"
    " FROM device_allocations ORDER BY seq"
)
FIRST = datetime.datetime(2026, 11, 21, 3, 0, 6, 123456, tzinfo=datetime.UTC)


def test_the_same_rows_in_every_form(database: Queryable) -> None:
    """Each form runs the query anew, so none takes rows from another; times are in UTC."""
    rows = database.sql(ALLOCATIONS)
    seqs = [row["seq"] for row in rows.dicts()]
    assert rows.dicts()[0]["ts"] == rows.fetchall()[0][2][0] == FIRST
    assert rows.dicts()[0]["ts"].tzinfo is datetime.UTC

    frame, table, series = rows.df(), rows.arrow(), rows.pl()
    assert list(frame["seq"]) == table["seq"].to_pylist() == series["seq"].to_list() == seqs
    assert isinstance(frame, pandas.DataFrame)
    assert str(frame["ts"].dt.tz) == "UTC"
    assert frame["ts"][0] == FIRST
    assert frame["nothing"].isna().all()
    assert table.schema.field("ts").type == pyarrow.timestamp("us", "UTC")
    assert table.schema.field("times").type.value_type == pyarrow.timestamp("us", "UTC")
    assert series.schema["ts"] == polars.Datetime("us", "UTC")
    assert series["ids"].to_list() == [row[3] for row in rows]


def test_a_name_that_occurs_twice(database: Queryable) -> None:
    """No column is lost, whatever the library thinks of such names."""
    rows = database.sql("SELECT 1 AS a, 2 AS a, 3 AS a_1")
    assert rows.fetchall() == [(1, 2, 3)]
    assert list(rows.df().iloc[0]) == [1, 2, 3]
    assert rows.arrow().column_names == ["a", "a", "a_1"]
    assert rows.pl().row(0) == (1, 2, 3)


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # DuckDB's own, of pandas 3.1
def test_a_time_with_a_zone_in_a_frame(database: Queryable) -> None:
    rows = database.sql("SELECT TIMESTAMPTZ '2026-11-21 04:00:00+01' AS at")
    assert str(rows.df()["at"].dt.tz) == "UTC"
    assert rows.arrow()["at"].to_pylist() == [FIRST.replace(minute=0, second=0, microsecond=0)]


def test_a_time_of_a_row_is_a_parameter(database: Queryable) -> None:
    query = "SELECT seq FROM device_allocations WHERE ts = $at"
    for zone in (datetime.UTC, datetime.timezone(datetime.timedelta(hours=-7))):
        assert database.sql(query, {"at": FIRST.astimezone(zone)}).fetchall() == [(6,)]


def test_a_missing_library(database: Queryable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    rows = database.sql("SELECT 1")
    for ask, library in ((rows.df, "pandas"), (rows.arrow, "pyarrow"), (rows.pl, "polars")):
        with pytest.raises(BadQuestionError, match=f"{library} is not installed") as caught:
            ask()
        assert "kubeledger[analysis]" in caught.value.advice


def test_a_result_whose_ledger_was_closed(ledger: Path) -> None:
    with connect(ledger) as database:
        rows = database.sql("SELECT seq FROM events")
        rows.fetchall()
    for ask in (rows.fetchall, rows.df, rows.arrow):
        with pytest.raises(BadQuestionError, match="closed"):
            ask()


def test_a_time_limit_holds_for_frames(ledger: Path) -> None:
    with connect(ledger, timeout_s=0.3) as database:
        rows = database.sql("SELECT range AS n, hash(range) AS h FROM range(1000000000)")
        for ask in (rows.df, rows.arrow):
            with pytest.raises(BadQuestionError, match="longer than"):
                ask()


def test_a_notebook_shows_the_first_rows(database: Queryable) -> None:
    """And how many more there are, as far as it counts; a query that gives few, all."""
    assert database.sql("SELECT * FROM range(20)")._repr_html_().count("<tr>") == 21
    page = database.sql("SELECT * FROM range(1254)")._repr_html_()
    assert page.count("<tr>") == 21
    assert "<p>1,234 more</p>" in page
    endless = database.sql("SELECT * FROM range(10000000000)")._repr_html_()
    assert "<p>more than 100,000 more</p>" in endless


def test_html_holds_no_markup_of_others() -> None:
    """Names, values and what lists hold are text; long ones are cut, NULL is empty."""
    page = html_table(["<b>"], [["<script>"], [["</td>&"]], ["x" * 500], [None]])
    assert "&lt;script&gt;" in page
    assert "&lt;b&gt;" in page
    assert "[&#x27;&lt;/td&gt;&amp;&#x27;]" in page
    assert "x" * 199 + "…<" in page
    assert '<td style="text-align:left"></td>' in page
    assert "<script" not in page


def test_the_repr_names_the_columns(database: Queryable) -> None:
    assert repr(database.sql("SELECT 1 AS a, 'x' AS b")) == "<Rows: a INTEGER, b VARCHAR>"
