"""One writer and several readers, each a process of its own, at any time."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kubeledger.ledger.audit import audit
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.writer import WriterOptions
from tests.ledger.making import NODE, batch, ledger_of, segment_paths, seqs
from tests.ledger.test_crash import start_writer, started

READER = """
import json, sys, time
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.audit import audit
from tests.ledger.making import NODE
path, way, deadline = sys.argv[1], sys.argv[2], time.monotonic() + float(sys.argv[3])
ledger = Ledger.open(path)
passes, last, slowest_s = 0, 0, 0.0
while time.monotonic() < deadline or passes < 3:
    began = time.monotonic()
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
    slowest_s = max(slowest_s, time.monotonic() - began)
print(json.dumps([passes, last]))
"""
WAYS = ("records", "tail", "replay", "one", "audit")


def watch(ledger: Ledger, ways: tuple[str, ...], seconds: float) -> list[int]:
    """Readers beside a writer that never stops; the last seq that each saw."""
    writer = start_writer(ledger)
    assert writer.stdout is not None
    writer.stdout.readline()
    readers = [started(READER, str(ledger.path), way, f"{seconds}") for way in ways]
    lasts: list[int] = []
    try:
        for way, reader in zip(ways, readers, strict=True):
            out, _ = reader.communicate(timeout=60 + seconds)
            assert reader.returncode == 0, way
            passes, last = json.loads(out)
            assert passes > 2, way
            lasts.append(last)
        assert writer.poll() is None  # no reader got in its way
    finally:
        writer.kill()
        writer.communicate()
    return lasts


@pytest.mark.parametrize("seconds", [1.5, pytest.param(60.0, marks=pytest.mark.nightly)])
def test_readers_see_a_prefix_at_any_time(tmp_path: Path, seconds: float) -> None:
    """By every way of reading, while segments are left, sealed and removed under them.

    What a reader saw once it sees for ever: the writer is killed at the end, and all is there.
    """
    ledger = ledger_of(tmp_path / "l", batch(0, 1))
    lasts = watch(ledger, WAYS, seconds)
    assert min(lasts) > 1
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
        began = time.monotonic()
        for start in range(5, 200, 5):
            writer.append(NODE, batch(start, 5))
        assert time.monotonic() - began < 30
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
            _, said = process.communicate(timeout=60)
            assert process.returncode == 0, said
    finally:
        writer.kill()
        writer.communicate()
