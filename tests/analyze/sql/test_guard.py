"""A user's query reads the views and does nothing else."""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from kubeledger.analyze.sql.api import Queryable
from kubeledger.analyze.sql.loader import check_query, one_line
from kubeledger.model.errors import BadQuestionError
from tests.analyze.sql.fixture_ledger import RECORDS


@pytest.fixture
def parser() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:") as connection:
        yield connection


@pytest.mark.parametrize(
    "query",
    [
        "CREATE TABLE t (a INTEGER)",
        "CREATE TEMP VIEW v AS SELECT 1",
        "DROP VIEW events",
        "DELETE FROM records",
        "INSERT INTO records SELECT * FROM records",
        "UPDATE records SET seq = 0",
        "WITH gone AS (DELETE FROM records RETURNING *) SELECT * FROM gone",
        "COPY events TO '{file}'",
        "COPY (SELECT 1) TO '{file}' (FORMAT csv)",
        "EXPORT DATABASE '{file}'",
        "EXPLAIN ANALYZE COPY events TO '{file}'",
        "ATTACH '{file}'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET threads = 1",
        "SET GLOBAL enable_external_access = true",
        "RESET threads",
        "PRAGMA threads = 1",
        "PRAGMA database_list",
        "CALL enable_logging()",
        "CHECKPOINT",
        "BEGIN TRANSACTION",
        "COMMIT",
        "PREPARE p AS SELECT 1",
        "VACUUM",
        "SELECT 1; SELECT 2",
        "SELECT 1; DROP TABLE records",
        "SELECT * FROM read_csv('{file}')",
        "SELECT * FROM read_text('{file}')",
        "SELECT * FROM read_blob('{file}')",
        "SELECT * FROM read_json('{file}')",
        "SELECT * FROM read_parquet('{file}')",
        "SELECT * FROM sniff_csv('{file}')",
        "SELECT * FROM glob('/*')",
        "SELECT (SELECT content FROM read_text('{file}'))",
        "WITH x AS (FROM read_text('{file}')) FROM x",
        "SELECT * FROM '{file}'",
        'SELECT * FROM "{file}"',
        "SELECT * FROM query('SELECT 1')",
        "SELECT * FROM query_table('events')",
        "SELECT * FROM enable_logging(storage = 'file', storage_path = '{file}.log')",
        "SELECT * FROM duckdb_settings()",
        "SELECT * FROM duckdb_secrets()",
        "SELECT * FROM checkpoint()",
        "SELECT getenv('HOME')",
        "SELECT write_log('x')",
        "",
        " -- nothing",
        "SELECT '\udced'",
    ],
)
def test_refused(database: Queryable, tmp_path: Path, query: str) -> None:
    """Nothing but one reading statement runs, and no file is read or written."""
    file = tmp_path / "file.csv"
    file.write_text("secret\n")
    with pytest.raises(BadQuestionError):
        database.sql(query.replace("{file}", str(file))).fetchall()
    assert [path.name for path in tmp_path.iterdir()] == ["file.csv"]
    assert database.sql("SELECT count(*) FROM records").fetchall() == [(RECORDS,)]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1",
        "FROM admissions",
        "TABLE admissions",
        "VALUES (1), (2)",
        "WITH x AS (SELECT 1) SELECT * FROM x",
        "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x WHERE n < 3) FROM x",
        "SELECT * FROM range(3)",
        "SELECT unnest(device_ids) FROM device_allocations",
        "SELECT * FROM device_allocations, unnest(device_ids)",
        "SELECT 1 UNION SELECT 2",
        "DESCRIBE events",
        "SUMMARIZE admissions",
        "SHOW TABLES",
        "EXPLAIN SELECT * FROM admissions",
        "PIVOT admissions ON admitted IN (true, false) USING count(*)",
        "SELECT 1;",
        "SELECT * FROM records TABLESAMPLE 100%",
        "SELECT * FROM records USING SAMPLE 3 ROWS",
    ],
)
def test_allowed(database: Queryable, query: str) -> None:
    assert database.sql(query).fetchall()


def test_locks_hold_without_the_check(database: Queryable, tmp_path: Path) -> None:
    """The connection itself is read-only and closed, were the check ever to err."""
    database.sql("SELECT 1").fetchall()
    connection = database._database
    assert connection is not None
    cursor = connection.cursor()
    cursor.execute("BEGIN TRANSACTION READ ONLY")
    with pytest.raises(duckdb.Error, match="read-only"):
        cursor.execute("DELETE FROM stored.tail")
    for statement in (
        f"COPY (SELECT 1) TO '{tmp_path / 'x'}'",
        f"SELECT * FROM read_text('{__file__}')",
        f"ATTACH '{tmp_path / 'x.db'}'",
        "SET enable_external_access = true",
        "LOAD httpfs",
    ):
        with pytest.raises(duckdb.Error):
            connection.cursor().execute(statement)
    assert not list(tmp_path.iterdir())


def test_python_variables_are_no_tables(database: Queryable) -> None:
    secret = duckdb.sql("SELECT 1 AS a")
    with pytest.raises(BadQuestionError, match="secret does not exist"):
        database.sql("SELECT * FROM secret")
    assert secret is not None


def test_names_of_the_tables(parser: duckdb.DuckDBPyConnection) -> None:
    """Wherever a table stands in a query, it is found; a column of that name is none."""
    query = """
        WITH a AS (SELECT * FROM "Events") SELECT reasons, (SELECT max(seq) FROM pods)
        FROM a JOIN main.settings USING (seq)
        WHERE seq IN (FROM findings) AND EXISTS (SELECT 1 FROM 'evidence')
    """
    tables = check_query(parser, query)
    assert tables == {"events", "pods", "settings", "findings", "evidence"}
    assert check_query(parser, "DESCRIBE admissions") == {"admissions"}


def test_what_a_with_names_is_no_view(parser: duckdb.DuckDBPyConnection) -> None:
    """Unless there is a view of that name, which another part of the query may read."""
    query = (
        "WITH late AS (SELECT * FROM events), events AS (WITH Other AS (SELECT 1) FROM other)"
        " FROM late, events, verdicts"
    )
    assert check_query(parser, query, {"events", "verdicts"}) == {"events", "verdicts"}
    assert check_query(parser, query) == {"verdicts"}


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("Binder Error: no\n\nLINE 1: SELECT x\n               ^", "Binder Error: no"),
        ("Error: a\nDid you mean b?\n\nLINE 12: x", "Error: a; Did you mean b?"),
        ("plain", "plain"),
    ],
)
def test_one_line(message: str, line: str) -> None:
    assert one_line(message) == line
