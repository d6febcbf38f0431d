"""The Python interface: results, parameters, limits."""

import datetime
import gc
import tempfile
import time
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from kubeledger.analyze.sql import api
from kubeledger.analyze.sql.api import Queryable, connect
from kubeledger.model.errors import BadQuestionError
from tests.analyze.sql.fixture_ledger import RECORDS


def test_rows_know_their_columns(database: Queryable) -> None:
    rows = database.sql("SELECT seq, device_ids AS ids, ts FROM device_allocations ORDER BY seq")
    assert rows.columns == ("seq", "ids", "ts")
    assert rows.types == ("BIGINT", "VARCHAR[]", "TIMESTAMP")
    assert rows.dicts()[0] == {
        "seq": 6,
        "ids": ["gpu-0", "gpu-1"],
        "ts": datetime.datetime(2026, 11, 21, 3, 0, 6, 123456, tzinfo=datetime.UTC),
    }


def test_parameters(database: Queryable) -> None:
    query = "SELECT kind FROM events WHERE seq = $seq"
    assert database.sql(query, {"seq": 9}).fetchall() == [("lifecycle.PodTerminated",)]
    assert database.sql(query, {"seq": "9"}).fetchall() == [("lifecycle.PodTerminated",)]
    for params in ({}, {"seq": 1, "other": 2}):
        with pytest.raises(BadQuestionError, match="parameters"):
            database.sql(query, params)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELEC 1", "syntax error"),
        ("SELECT nope FROM events", "nope"),
        ("SELECT * FROM admisions", 'Did you mean "admissions"'),
        ("SELECT kind::INTEGER FROM events", "Could not convert"),
    ],
)
def test_a_bad_query_is_refused_in_one_line(database: Queryable, query: str, message: str) -> None:
    with pytest.raises(BadQuestionError) as caught:
        database.sql(query).fetchall()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_time_with_a_zone(database: Queryable) -> None:
    """An answer, or of a DuckDB that needs a package for it what to write instead."""
    assert database.sql("SELECT now()::TIMESTAMP <= now()::TIMESTAMP").fetchall() == [(True,)]
    try:
        ((now,),) = database.sql("SELECT now()").fetchall()
    except BadQuestionError as error:
        assert "column::TIMESTAMP" in str(error)  # noqa: PT017 # newer ones give an answer
    else:
        assert isinstance(now, datetime.datetime)
        assert now.tzinfo is not None


def test_a_query_ends_at_its_time_limit(ledger: Path) -> None:
    """Even one that would never end by itself."""
    endless = "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x) SELECT max(n) FROM x"
    with connect(ledger, timeout_s=0.2) as database:
        with pytest.raises(BadQuestionError, match=r"longer than 0\.2 s"):
            database.sql(endless).fetchall()
        database.timeout_s = 60.0
        assert database.sql("SELECT count(*) FROM events").fetchall() == [(RECORDS,)]


def test_only_the_work_counts_for_the_time_limit(
    ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    away_s, monotonic = [0.0], time.monotonic
    monkeypatch.setattr(api, "time", SimpleNamespace(monotonic=lambda: monotonic() + away_s[0]))
    with connect(ledger) as database:
        rows = iter(database.sql("SELECT * FROM range(10000)"))
        next(rows)
        away_s[0] = 2 * api.DEFAULT_TIMEOUT_S
        assert sum(1 for _ in rows) == 9_999


def test_a_huge_result_streams(ledger: Path) -> None:
    with connect(ledger, memory_limit="100MB") as database:
        rows = iter(database.sql("SELECT * FROM range(10000000000)"))
        assert [next(rows)[0] for _ in range(5)] == [0, 1, 2, 3, 4]


def test_memory_limit(ledger: Path) -> None:
    query = "SELECT list(range) FROM range(100000000)"
    with (
        connect(ledger, memory_limit="50MB") as database,
        pytest.raises(BadQuestionError, match="Out of Memory"),
    ):
        database.sql(query).fetchall()


def test_a_memory_limit_that_holds_no_ledger(ledger: Path) -> None:
    """Told in the same way, whenever it is found out; the next question is answered as before."""
    for limit in ("1kB", "300kB", "3MB"):
        with (
            connect(ledger, memory_limit=limit) as database,
            pytest.raises(BadQuestionError, match="Out of Memory") as reported,
        ):
            database.sql("SELECT * FROM events").fetchall()
        assert "--memory" in reported.value.advice
        assert "\n" not in reported.value.message
        assert "SET " not in reported.value.message


def test_who_forgets_to_close_leaves_no_files(
    ledger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    opened = connect(ledger)
    assert opened.sql("SELECT 1").fetchall() == [(1,)]
    assert list(tmp_path.iterdir())
    del opened
    gc.collect()
    assert not list(tmp_path.iterdir())


def test_results_live_side_by_side(database: Queryable) -> None:
    """A second query that loads more leaves the rows of the first alone."""
    first = iter(database.sql("SELECT seq FROM admissions ORDER BY seq"))
    assert next(first) == (5,)
    assert database.sql("SELECT count(*) FROM evidence").fetchall() == [(RECORDS,)]
    assert list(first) == [(12,), (37,)]


def test_a_query_that_hears_no_interruption_is_abandoned(
    database: Queryable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As inside one call of a function, where DuckDB looks for nothing; the next query runs."""
    ends, answer = Event(), api._answer

    def deaf(*arguments: Any) -> None:  # noqa: ANN401 # passed on
        ends.wait(60)
        answer(*arguments)

    monkeypatch.setattr(api, "_GRACE_S", 0)
    monkeypatch.setattr(api, "_LINGERING_MAX", 1)
    monkeypatch.setattr(api, "_answer", deaf)
    database.timeout_s = 0.01
    try:
        with pytest.raises(BadQuestionError, match="longer than"):
            database.sql("SELECT 1")
        with pytest.raises(BadQuestionError, match="still running"):
            database.sql("SELECT 1")
    finally:
        ends.set()
    for thread, _ in tuple(api._lingering):
        thread.join(60)
    assert api.lingering() == 0
    monkeypatch.undo()
    database.timeout_s = 60.0
    assert database.sql("SELECT count(*) FROM records").fetchall() == [(RECORDS,)]
