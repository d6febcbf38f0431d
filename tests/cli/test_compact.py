"""``kubeledger compact``."""

import re
from contextlib import suppress
from pathlib import Path

from kubeledger.ledger.audit import audit
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.tail import Draft
from kubeledger.model.errors import LedgerUnavailableError
from tests.analyze.sql.fixture_ledger import RECORDS, whole_story
from tests.cli.nodes import run
from tests.faults import Fault, FaultyDisk, PowerCut
from tests.ledger.making import append, batch, ledger_of, segment_paths, seqs


def test_all_is_compressed_and_nothing_changes(tmp_path: Path) -> None:
    """The same records, the same digests, a fraction of the bytes; a second run does nothing."""
    ledger = ledger_of(tmp_path / "l", batch(0, 500))
    append(ledger, batch(0, 300), node="other")
    before, heads = list(ledger.records()), audit(ledger).nodes
    result = run("compact", "--ledger", ledger.path, exits=0)
    assert result.stdout.startswith("2 segments sealed\n")
    share = re.search(r"node-a: 500 records, ([\d,]+) bytes of lines in ([\d,]+)", result.stdout)
    assert share is not None
    lines, stored = (int(group.replace(",", "")) for group in share.groups())
    assert stored < lines / 2
    assert stored == sum(path.stat().st_size for path in segment_paths(ledger))
    assert {path.suffix for path in segment_paths(ledger)} == {".zst"}
    assert list(ledger.records()) == before
    assert audit(ledger).findings == ()
    assert audit(ledger).nodes == heads
    assert run("compact", "--ledger", ledger.path).stdout.startswith("0 segments sealed\n")
    assert append(ledger, batch(500, 2)) == [[501, 502]]
    assert seqs(ledger, after_seq=498) == [499, 500, 501, 502]


def test_the_level_counts(tmp_path: Path) -> None:
    sizes = []
    for level in (1, 19):
        ledger = ledger_of(tmp_path / f"{level}", batch(0, 3000))
        assert run("compact", "--ledger", ledger.path, "--level", str(level)).exit_code == 0
        sizes.append(segment_paths(ledger)[0].stat().st_size)
    assert sizes[1] < sizes[0]


def test_a_failure_or_a_crash_at_every_call(tmp_path: Path) -> None:
    """The records are there in one form or the other, always, and the next run finishes."""
    for at in range(1, 200):
        root = tmp_path / f"{at}"
        root.mkdir()
        with FaultyDisk(root):  # one without a fault, and quick
            ledger = ledger_of(root / "l", batch(0, 20), segment_bytes=2000)
            append(Ledger.open(ledger.path), batch(20, 3))
        fault = Fault(at=at, crash=at % 2 == 0)
        with (
            suppress(LedgerUnavailableError, PowerCut),
            FaultyDisk(root, fault) as disk,
            ledger.writer() as writer,
        ):
            writer.seal_open()
        disk.lose_power("strict" if fault.crash else "nothing")
        assert seqs(ledger) == list(range(1, 24))
        with FaultyDisk(root):
            assert run("compact", "--ledger", ledger.path).exit_code == 0
        assert seqs(ledger) == list(range(1, 24))
        assert audit(ledger).findings == ()
        assert {path.suffix for path in segment_paths(ledger)} == {".zst"}
        if not disk.struck:
            break
    assert at > 15


# ``kubeledger index``.


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
