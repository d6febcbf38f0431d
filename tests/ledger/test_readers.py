"""One writer and several readers, each a process of its own, at any time."""

import subprocess
import sys
from pathlib import Path

import pytest

from kubeledger.ledger.audit import audit
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.writer import WriterOptions
from tests.ledger.making import NODE, batch, ledger_of, segment_paths, seqs
from tests.ledger.test_crash import start_writer, started
from tests.waiting import PATIENCE_S

READER = """
import sys
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.audit import audit
from tests.ledger.making import NODE
path, way, enough = sys.argv[1], sys.argv[2], int(sys.argv[3])
ledger = Ledger.open(path)
passes, last = 0, 0
while last < enough or passes < 3:
    counted = ledger.manifest().nodes[NODE].last_seq
    if way == "records":
        read = [(r.seq, r.body.size_bytes) for r in ledger.records(NODE)]
        assert read == [(n + 1, n) for n in range(len(read))], read[-3:]
        seen = len(read)
    elif way == "tail":
        start = max(0, last - 20)
        read = [raw.seq for raw in ledger.raw_lines(NODE, start)]
        assert read == list(range(start + 1, start + 1 + len(read)))
        seen = start + len(read)
    elif way == "replay":
        read = [r.seq for r in ledger.replay(NODE)]
        assert read == list(range(1, len(read) + 1))
        seen = len(read)
    elif way == "one":
        seen = ledger.info(NODE).last_seq
        record = ledger.record(NODE, seen)
        assert record is not None and record.body.size_bytes == seen - 1
    else:
        report = audit(ledger)
        assert report.findings == (), report.findings
        seen = report.nodes[0].last_seq
    assert seen >= counted and seen >= last, (seen, counted, last)
    passes, last = passes + 1, seen
print(last)
"""
WAYS = ("records", "tail", "replay", "one", "audit")


def watch(ledger: Ledger, ways: tuple[str, ...], enough: int) -> list[int]:
    """Readers beside a writer that never stops; the last seq that each saw, when it is enough."""
    writer = start_writer(ledger)
    assert writer.stdout is not None
    writer.stdout.readline()
    readers = [started(READER, str(ledger.path), way, str(enough)) for way in ways]
    lasts: list[int] = []
    try:
        for way, reader in zip(ways, readers, strict=True):
            out, _ = reader.communicate()
            assert reader.returncode == 0, way
            lasts.append(int(out))
        assert writer.poll() is None  # no reader got in its way
    finally:
        writer.kill()
        writer.communicate()
    return lasts


@pytest.mark.parametrize("records", [3000, pytest.param(30_000, marks=pytest.mark.nightly)])
def test_readers_see_a_prefix_at_any_time(tmp_path: Path, records: int) -> None:
    """By every way of reading, while segments are left, sealed and removed under them.

    What a reader saw once it sees for ever: the writer is killed at the end, and all is there.
    """
    ledger = ledger_of(tmp_path / "l", batch(0, 1))
    lasts = watch(ledger, WAYS, records)
    with ledger.writer() as recovering:
        assert recovering.next_seq(NODE) > max(lasts)
    assert len(segment_paths(ledger)) > 2
    assert audit(ledger).findings == ()


def test_a_reader_that_holds_still_does_not_hold_the_writer(tmp_path: Path) -> None:
    """Stopped in the middle of a read; the writer leaves, seals and removes what it reads."""
    ledger = Ledger.create(tmp_path / "l", WriterOptions(segment_bytes=4000, level=1))
    with ledger.writer() as writer:
        writer.append(NODE, batch(0, 5))
        reading = ledger.records(NODE)
        assert next(reading).seq == 1
        for start in range(5, 200, 5):
            writer.append(NODE, batch(start, 5))
    read = [record.seq for record in reading]
    assert read == list(range(2, 2 + len(read)))
    assert seqs(ledger) == list(range(1, 201))


def test_many_at_once_from_the_command_line(tmp_path: Path) -> None:
    """Commands that read go through while another process writes."""
    ledger = ledger_of(tmp_path / "l", batch(0, 50))
    writer = start_writer(ledger)
    try:
        assert writer.stdout is not None
        writer.stdout.readline()
        asked = [
            subprocess.Popen(
                [sys.executable, "-m", "kubeledger", *command, "--ledger", str(ledger.path)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                cwd=Path(__file__).parents[2],
            )
            for command in (
                ["ls", "--kind", "images.*"],
                ["sql", "SELECT count(*) FROM events"],
                ["audit", "--chain-only"],
                ["export", "--out", str(tmp_path / "out.ledger.jsonl")],
            )
        ]
        for process in asked:
            _, said = process.communicate(timeout=PATIENCE_S)
            assert process.returncode == 0, said
    finally:
        writer.kill()
        writer.communicate()
