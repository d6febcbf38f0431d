"""SQL over a long ledger against DuckDB on the same Parquet files, as ratios on one machine.

    python -m tests.benchmarks.bench_sql [RECORDS [DIRECTORY]]

The ledger is the bundled recording of a real node behind itself again and again. *First* is
a question to a new connection, the proof of all files included; *next* is the same again.
DuckDB is asked the same of the files directly, without views and without any proof.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import duckdb
import msgspec

from kubeledger.analyze.sql.api import connect
from kubeledger.ingest.api import import_sources
from kubeledger.ledger.history.history import History
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.tail import Draft
from kubeledger.model.record import Body
from kubeledger.replay import refresh_snapshots, state_at

RECORDING = Path(__file__).parents[2] / "recordings" / "node-a.tar.zst"
BATCH = 1000
LINES_A_TURN = 40_000
_DIGITS = 8
REPEATS = 3

QUESTIONS = {
    "count": ("SELECT count(*) FROM events", "SELECT count(*) FROM {files}"),
    "kinds": ("SELECT kind, count(*), max(ts) FROM events GROUP BY kind ORDER BY kind",
              "SELECT kind, count(*), max(ts) FROM {files} GROUP BY kind ORDER BY kind"),
    "pod": ("SELECT seq, kind, body FROM events WHERE pod = 'too-big'",
            "SELECT seq, kind, body FROM {files} WHERE pod = 'too-big'"),
    "an hour": ("SELECT namespace, pod, count(*) FROM events WHERE ts BETWEEN $at AND "
                "$at::TIMESTAMP + INTERVAL 1 HOUR GROUP BY ALL",
                "SELECT namespace, pod, count(*) FROM {files} WHERE ts BETWEEN $at AND "
                "$at::TIMESTAMP + INTERVAL 1 HOUR GROUP BY ALL"),
    "probes": ("SELECT pod, result, count(*) FROM probe_ticks GROUP BY ALL",
               "SELECT body ->> 'pod' AS p, body ->> 'result' AS r, count(*) FROM {files} WHERE "
               "kind = 'prober.ProbeExecuted' GROUP BY ALL"),
    "rejections": ("SELECT reason, count(*) FROM admissions WHERE NOT admitted GROUP BY reason",
                   "SELECT body ->> 'reason' AS r, count(*) FROM {files} WHERE kind = "
                   "'lifecycle.PodRejected' GROUP BY r"),
}  # fmt: skip
"""name -> the question to the views, and the same to the files."""


def best(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Least time of some runs of ``work``, in seconds."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)


def drafts(source: Ledger, node: str, count: int) -> Iterator[Draft]:
    """The recording again and again, each time behind the last one."""
    records = list(source.records(node))
    span_ns = records[-1].ts_ns - records[0].ts_ns + 1
    endless = (
        Draft(
            record.ts_ns + turn * span_ns,
            _as_new(record.body, turn),
            tuple(msgspec.structs.replace(e, line=_later(e.line, turn)) for e in record.evidence),
        )
        for turn in range(count // len(records) + 1)
        for record in records
    )
    yield from islice(endless, count)


def _as_new(body: Body, turn: int) -> Body:
    """The same of other pods and containers, so that no file compresses better than in life."""
    changed = {
        name: f"{turn:08x}{value[8:]}"
        for name in ("pod_uid", "container_id")
        if isinstance(value := getattr(body, name, None), str) and len(value) > _DIGITS
    }
    return msgspec.structs.replace(body, **changed) if changed else body


def _later(line: int | None, turn: int) -> int | None:
    return None if line is None else line + turn * LINES_A_TURN


def long_ledger(path: Path, count: int) -> tuple[Ledger, str]:
    """A ledger of ``count`` records, and its node; one that is there is taken."""
    if path.exists():
        ledger = Ledger.open(path)
        return ledger, ledger.nodes()[0]
    with tempfile.TemporaryDirectory(prefix="kubeledger-bench-") as scratch:
        source = Ledger.create(Path(scratch) / "ledger")
        import_sources([str(RECORDING)], source)
        node = source.nodes()[0]
        facts = drafts(source, node, count)
        ledger = Ledger.create(path)
        with ledger.writer() as writer:
            batches = iter(lambda: list(islice(facts, BATCH)), [])
            for _ in writer.append_batches(node, batches):
                pass
    return ledger, node


def size_of(directory: Path, pattern: str) -> int:
    """Bytes of all files that fit."""
    return sum(path.stat().st_size for path in directory.rglob(pattern))


def bench_questions(ledger: Ledger, at: str) -> None:
    """Each question to a new connection, to the same again, and to DuckDB alone."""
    print(f"{'question':<12}{'first':>10}{'next':>10}{'DuckDB':>10}   next / DuckDB")
    files = f"read_parquet('{ledger.path}/history/*/*/*.parquet', hive_partitioning = false)"
    alone = duckdb.connect(":memory:")
    alone.execute("SET TimeZone = 'UTC'")
    for name, (question, direct) in QUESTIONS.items():
        params = {"at": at} if "$at" in question else None
        sql = direct.format(files=files)
        with connect(ledger.path, timeout_s=600) as database:
            first = best(lambda: database.sql(question, params).fetchall(), 1)  # noqa: B023 - called at once
            again = best(lambda: database.sql(question, params).fetchall())  # noqa: B023 - called at once
        plain = best(lambda: alone.execute(sql, params).fetchall())  # noqa: B023 - called at once
        print(f"{name:<12}{first:>8.3f} s{again:>8.3f} s{plain:>8.3f} s  {again / plain:8.2f} x")


def main(arguments: list[str]) -> int:
    """Build, index, ask."""
    count = int(arguments[0]) if arguments else 300_000
    with tempfile.TemporaryDirectory(prefix="kubeledger-bench-") as scratch:
        path = Path(arguments[1]) if len(arguments) > 1 else Path(scratch) / "ledger"
        begin = time.perf_counter()
        ledger, node = long_ledger(path, count)
        appended = time.perf_counter() - begin
        begin = time.perf_counter()
        History(ledger, Path(scratch)).cover()
        indexed = time.perf_counter() - begin
        info = ledger.info(node)
        plain = sum(segment.size_bytes for segment in info.segments)
        parquet = size_of(path / "history", "*.parquet")
        stored = size_of(path / "nodes", "*.jsonl*")
        print(
            f"{info.last_seq:,} records, {plain / 1e6:,.0f} MB of lines: {stored / 1e6:,.0f} MB in"
            f" segments, {parquet / 1e6:,.0f} MB of Parquet; appended in {appended:.1f} s,"
            f" indexed in {indexed:.1f} s ({info.last_seq / indexed:,.0f} records/s)"
        )
        middle = info.segments[len(info.segments) // 2]
        at_ns = middle.min_ts_ns or 0
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at_ns // 1_000_000_000))
        bench_questions(ledger, at)
        if os.environ.get("KUBELEDGER_BENCH_STATE"):
            begin = time.perf_counter()
            refresh_snapshots(ledger, node)
            taken = time.perf_counter() - begin
            asked = best(lambda: state_at(ledger, node, ts_ns=at_ns))
            print(f"snapshots taken in {taken:.1f} s; state in the middle {asked * 1000:.1f} ms")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
