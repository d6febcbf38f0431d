"""The Python door, as the contract has it."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

import kubeledger
from kubeledger.errors import BadInputError, BadQuestionError
from kubeledger.ledger.batch import Draft
from kubeledger.ledger.ledger import Ledger
from kubeledger.units import NS_PER_S, format_ts
from tests.ledger.making import NODE, batch, deleted, draft


def test_records_of_one_ledger_go_into_another(tmp_path: Path) -> None:
    """Of several nodes, with their numbers, causes and evidence; the same bytes in the end."""
    with kubeledger.open(tmp_path / "a") as ledger:
        assert ledger.append(batch(0, 1500), node=NODE) == list(range(1, 1501))
        assert ledger.append([draft(7, cause=1500)], node=NODE) == [1501]
        assert ledger.append(batch(0, 2), node="node-b") == [1, 2]
        records = list(ledger.records())
        with kubeledger.open(tmp_path / "b") as other:
            assert other.append(iter(records[:10])) == list(range(1, 11))
            assert other.append(records[10:]) == [record.seq for record in records[10:]]
            assert list(other.records()) == records
            assert other.nodes == [NODE, "node-b"]
            for node in other.nodes:
                last = other.ledger.info(node).last_seq
                assert other.ledger.digest_at(node, last) == ledger.ledger.digest_at(node, last)


def test_a_record_with_another_number_than_the_next(tmp_path: Path) -> None:
    """Its causes would mean others; what stands before its batch stays."""
    ledger = kubeledger.open(tmp_path / "a")
    ledger.append(batch(0, 3), node=NODE)
    records = list(ledger.records())
    other = kubeledger.open(tmp_path / "b")
    with pytest.raises(BadInputError, match="record 2 of node-a: the next one is 1"):
        other.append(records[1:])
    assert other.append(records) == [1, 2, 3]
    with pytest.raises(BadInputError, match="record 3 of node-a: the next one is 4"):
        other.append(records[2:])


def test_drafts_need_a_node(tmp_path: Path) -> None:
    """It is said how to name it, and no ledger is made."""
    ledger = kubeledger.open(tmp_path / "a")
    with pytest.raises(BadQuestionError) as caught:
        ledger.append(batch(0, 1))
    assert "node=NAME" in caught.value.advice


def test_opening_makes_nothing(tmp_path: Path) -> None:
    """A mistyped path leaves no ledger behind; an empty directory is as good as none."""
    ledger = kubeledger.open(tmp_path / "typo")
    for ask in (ledger.records, ledger.state, ledger.verify, lambda: ledger.sql("SELECT 1")):
        with pytest.raises(BadQuestionError):
            ask()
    assert not (tmp_path / "typo").exists()
    (tmp_path / "empty").mkdir()
    assert kubeledger.open(tmp_path / "empty").append(batch(0, 1), node=NODE) == [1]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(BadQuestionError):
        kubeledger.open(tmp_path / "other")


def test_state_and_sql(tmp_path: Path) -> None:
    """Times as on the command line, or nanoseconds."""
    now_ns = time.time_ns()
    with kubeledger.open(tmp_path / "a") as ledger:
        times = [now_ns - span * NS_PER_S for span in (7200, 3600, 60)]
        ledger.append([Draft(ts_ns, deleted(1)) for ts_ns in times], node=NODE)
        assert [ledger.state(at).seq for at in ("-90m", "-30m", "now", None)] == [1, 2, 3, 3]
        assert ledger.state(format_ts(now_ns - 3600 * NS_PER_S)).seq == 2
        assert ledger.state(now_ns - 7200 * NS_PER_S, node=NODE).seq == 1
        assert ledger.state(seq=2).seq == 2
        with pytest.raises(BadQuestionError, match="is no time"):
            ledger.state("yesterday")
        assert ledger.sql("SELECT count(*) FROM events").fetchall() == [(3,)]
        assert ledger.sql("SELECT seq FROM events WHERE seq = $n", {"n": 2}).dicts() == [{"seq": 2}]
    assert Ledger.open(tmp_path / "a").nodes() == [NODE]


def test_the_example_of_the_docs(tmp_path: Path) -> None:
    """It runs as it stands, and answers."""
    root = Path(__file__).parent.parent
    (tmp_path / "recordings").symlink_to(root / "recordings")
    page = (root / "docs" / "python.md").read_text(encoding="utf-8")
    code = page.split("```python\n")[1].split("```")[0]
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    first, *_, pods, preemptions = ran.stdout.splitlines()
    assert first.split()[0].isdigit()
    assert int(pods) > 0
    assert "victim_pod" in preemptions
