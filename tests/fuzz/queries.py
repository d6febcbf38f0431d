"""Target: SQL, put together from what does harm elsewhere."""

import atexit
import os
import tempfile
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random

from kubeledger.analyze.sql.api import Queryable, connect, lingering
from kubeledger.analyze.sql.views import load_views
from kubeledger.ingest.api import import_sources
from kubeledger.ingest.planning.bundle import ImportOptions
from kubeledger.ledger.ledger import Ledger
from tests.fuzz.mutators import mutate_text
from tests.fuzz.target import Target, holds
from tests.ingest.node_files import log_text

_SECRET = "kubeledger-fuzz-secret"
_TIMEOUT_S = 2.0

_TABLES = (
    "records", "events", "admissions", "probe_ticks", "evidence", "stored.rows", "stored.tail",
    "'{dir}/secret.csv'", '"{dir}/secret.csv"', "'secret.csv'", "'/etc/passwd'", "range(9)",
    "read_text('{dir}/secret.csv')", "read_csv('{dir}/secret.csv')", "glob('{dir}/*')",
    "read_blob('{dir}/*')", "read_json_auto('{dir}/secret.csv')", "read_parquet('{dir}/x')",
    "parquet_metadata('{dir}/x')", "sniff_csv('{dir}/secret.csv')", "duckdb_settings()",
    "duckdb_secrets()", "duckdb_extensions()", "duckdb_logs()", "pragma_database_size()",
    "query('SELECT 1')", "query_table('records')", "sqlite_scan('{dir}/x','t')",
    "which_secret('a','b')", "arrow_scan(1,2,3)", "pandas_scan(1)", "python_map_function(1)",
    "information_schema.tables", "pg_catalog.pg_settings", "sqlite_master",
    "repeat_row(1,num_rows=3)", "summary((FROM records))", "test_all_types()", "checkpoint()",
    "force_checkpoint()", "pragma_storage_info('records')", "(VALUES (1))", "unnest([1,2])",
    "json_each('[1]')", "enable_logging()", "seq_scan('records')", "generate_series(1,3)",
    "main.records", "memory.main.events", "system.main.duckdb_tables",
)  # fmt: skip
_SCALARS = (
    "1", "NULL", "seq", "count(*)", "body", "getenv('HOME')", "current_setting('threads')",
    "current_setting('secret_directory')", "version()", "nextval('s')", "write_log('x')", "now()",
    "getvariable('x')", "error('x')", "repeat('x', 100)", "range(5)", "'x'::JSON", "random()",
    "read_text('{dir}/secret.csv')", "(SELECT content FROM read_text('{dir}/secret.csv'))",
    "(SELECT count(*) FROM events)", "regexp_matches('aaaa', '(a*)*b')",
    "list_transform([1], x -> x)", "json_serialize_sql('SELECT 1')",
    "json_execute_serialized_sql('x')", "unicode('x')", "txid_current()", "parse_path('{dir}')",
    "encode('x')", "hash(1)", "$1", "$name", "?", "columns(*)", "setseed(0.5)",
    "in_search_path('a','b')", "sum(seq) OVER ()", "CASE WHEN 1 THEN 2 END", "cast(x AS BLOB)",
    "query('SELECT 1')", "current_query()", "current_schemas(true)", "9223372036854775808",
)  # fmt: skip
_STATEMENTS = (
    "SELECT {scalar} FROM {table}", "FROM {table}", "FROM {table} SELECT {scalar}", "TABLE records",
    "SELECT {scalar}, {scalar} FROM {table} WHERE {scalar} = {scalar} LIMIT 3", "DESCRIBE {table}",
    "WITH x AS ({query}) SELECT * FROM x", "SELECT * FROM ({query}) JOIN {table} USING (seq)",
    "({query}) UNION ALL ({query})", "EXPLAIN {query}", "EXPLAIN ANALYZE {query}",
    "SUMMARIZE {table}",
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT * FROM t",
    "SELECT ({query})", "SELECT EXISTS ({query})", "PIVOT {table} ON kind USING count(*)",
    "COPY ({query}) TO '{dir}/out.csv'", "COPY records FROM '{dir}/secret.csv'",
    "ATTACH '{dir}/db' AS d", "EXPORT DATABASE '{dir}/e'", "IMPORT DATABASE '{dir}'",
    "INSTALL httpfs", "LOAD 'x.duckdb_extension'", "SET threads = 1", "SET VARIABLE x = 1",
    "RESET ALL", "PRAGMA enable_profiling", "PRAGMA version", "CALL pragma_version()",
    "CREATE TABLE t AS {query}", "CREATE MACRO m() AS 1", "DROP VIEW events",
    "INSERT INTO records {query}", "DELETE FROM stored.tail", "UPDATE records SET seq = 1",
    "VACUUM", "WITH d AS (DELETE FROM stored.tail RETURNING *) FROM d", "USE system",
    "DETACH memory", "CHECKPOINT", "BEGIN", "COMMIT", "ROLLBACK", "PREPARE p AS {query}",
    "EXECUTE p", "CREATE SECRET s (TYPE http)", "COMMENT ON VIEW events IS 'x'",
    "ALTER VIEW events RENAME TO e", "{query}; {query}", "SHOW ALL TABLES",
    "CREATE TYPE t AS ENUM ('a')",
    "MERGE INTO records USING ({query}) s ON true WHEN MATCHED THEN DELETE",
    "EXECUTE IMMEDIATE 'SELECT 1'", "SHOW DATABASES", "-- {query}", "/* {query} */ {query}",
)  # fmt: skip


def query_text(random: Random, depth: int = 0) -> str:
    """A statement, as often as not one that must be refused."""
    text = random.choice(_STATEMENTS[:16] if depth else _STATEMENTS)
    while "{query}" in text:
        inner = query_text(random, depth + 1) if depth < 3 else "SELECT 1"
        text = text.replace("{query}", inner, 1)
    while "{table}" in text:
        text = text.replace("{table}", random.choice(_TABLES), 1)
    while "{scalar}" in text:
        text = text.replace("{scalar}", random.choice(_SCALARS), 1)
    return text


def _mutated_query(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    if random.randrange(4):
        data = query_text(random).encode()
    return mutate_text(random, data, others)[:4000] if random.randrange(3) == 0 else data


class _Place:
    """A ledger that is asked, and a directory with a secret beside it."""

    def __init__(self) -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix="fuzz-sql-")
        atexit.register(self._scratch.cleanup)
        root = Path(self._scratch.name)
        self.directory = root / "d"
        self.directory.mkdir()
        (self.directory / "secret.csv").write_text(f"a\n{_SECRET}\n")
        (root / "kubelet.log").write_text(log_text(seconds=3))
        self.ledger = Ledger.create(root / "ledger")
        import_sources(
            [str(root / "kubelet.log")], self.ledger, ImportOptions(node="node-x", year=2026)
        )
        self.database: Queryable = connect(self.ledger.path, timeout_s=_TIMEOUT_S)
        atexit.register(self._close)
        # A view is made when a query first names it, which is no change by that query; all are
        # for a name that is none of them, on what the widest question before read.
        self._load()
        self.before = self.look()

    def _load(self) -> None:
        while lingering():
            time.sleep(0.1)
        for view in load_views():
            self.database.sql(f"SELECT count(*) FROM {view}").fetchall()
        self.database.sql("WITH none_of_them AS (SELECT 1) FROM none_of_them").fetchall()

    def _close(self) -> None:
        self.database.close()
        _place.cache_clear()

    def look(self) -> object:
        """All that no query may change."""
        if self.database._database is None:  # it was left to a query that does not stop
            self._load()
        connection = self.database._database
        assert connection is not None
        cursor = connection.cursor()
        settings = cursor.execute(
            "SELECT bit_xor(hash(name, value)), (SELECT count(*) FROM pg_catalog.pg_class) "
            "FROM duckdb_settings()"
        ).fetchall()
        databases = cursor.execute("SELECT database_name FROM duckdb_databases()").fetchall()
        root = Path(self._scratch.name)
        files = {
            path.relative_to(root).as_posix(): (path.stat().st_size, path.stat().st_mtime_ns)
            for path in root.rglob("*")
            if path.is_file() and "history" not in path.parts
        }
        return settings, databases, files


@cache
def _place() -> _Place:
    return _Place()


def _asked(data: bytes) -> None:
    place = _place()
    query = data.decode("utf-8", "replace").replace("{dir}", str(place.directory))
    here = Path.cwd()
    os.chdir(place.directory)
    try:
        for count, row in enumerate(place.database.sql(query)):
            holds(_SECRET not in str(row), "a file was read")
            if count > 2000:
                break
    finally:
        os.chdir(here)
        holds(place.look() == place.before, "a query changed something")


TARGETS: tuple[Target, ...] = (
    Target("sql", lambda: tuple(s.encode() for s in _STATEMENTS), _mutated_query, _asked, 4),
)
