"""``kubeledger index``."""

from __future__ import annotations

from pathlib import Path

from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.tail import Draft
from tests.analyze.sql.fixture_ledger import RECORDS, whole_story
from tests.cli.nodes import run


def test_index_writes_parquet_and_sql_reads_it(tmp_path: Path) -> None:
    """It says what is covered; made again, it is the same; without a place, it is an error."""
    ledger = Ledger.create(tmp_path / "ledger")
    with ledger.writer() as writer:
        writer.append("node-a", [Draft(r.ts_ns, r.body, r.evidence) for r in whole_story()])
    place = ["--ledger", str(ledger.path)]
    done = run("index", *place, exits=0)
    assert f"node-a: records 1 to {RECORDS}\n1 Parquet files" in done.output
    (file,) = ledger.path.glob("history/node=node-a/date=*/*.parquet")
    stamp = file.stat().st_mtime_ns
    assert run("index", *place).exit_code == 0
    assert file.stat().st_mtime_ns == stamp
    assert run("index", "--rebuild", *place).exit_code == 0
    assert file.stat().st_mtime_ns > stamp
    asked = run("sql", "SELECT count(*) AS n FROM events", *place, "-o", "csv")
    assert asked.output.split() == ["n", str(RECORDS)]


def test_index_says_when_it_cannot_be_kept(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "ledger")
    with ledger.writer() as writer:
        writer.append("node-a", [Draft(r.ts_ns, r.body, r.evidence) for r in whole_story()])
    (ledger.path / "history").write_text("in the way")
    failed = run("index", "--ledger", ledger.path)
    assert failed.exit_code != 0
    assert "cannot write the history" in failed.output


def test_a_history_that_is_a_link(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "ledger").path
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "mine").write_text("x")
    (ledger / "history").symlink_to(tmp_path / "elsewhere")
    for more in ([], ["--rebuild"]):
        result = run("index", "--ledger", ledger, *more, exits=4)
        assert "is a link" in result.stderr
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["mine"]
