"""A log whose lines are cut gives no impossible decision and no contradiction."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from kubeledger.importers.api import import_sources
from kubeledger.importers.options import ImportOptions
from kubeledger.ledger.ledger import Ledger
from kubeledger.node.records import LogThinned
from kubeledger.replay.histories import histories_of_ledger
from kubeledger.verify.finding import Contradiction, Finding
from tests.recordings import extract

Cut = Callable[[bytes], bytes]


def at(length: int) -> Cut:
    """All lines at one length."""
    return lambda line: line[:length]


def torn(percent: int) -> Cut:
    """Some lines, anywhere."""
    dice = random.Random(percent)
    return lambda line: line[: dice.randrange(len(line))] if dice.random() * 100 < percent else line


CASES: list[tuple[str, str, Cut, int]] = [
    ("node-a", "at 120", at(120), 35),
    ("node-a", "at 200", at(200), 80),
    ("node-a", "torn 5", torn(5), 80),
    ("node-b", "at 80", at(80), 20),
    ("node-b", "at 160", at(160), 70),
    ("node-b", "torn 30", torn(30), 70),
    ("node-e-oom", "at 160", at(160), 35),
    ("node-e-oom", "torn 30", torn(30), 30),
]
"""Recording, how its lines are cut, and the percentage of decisions that is decided again."""


@pytest.mark.parametrize(
    ("name", "cut", "percent"),
    [pytest.param(name, cut, percent, id=f"{name} {how}") for name, how, cut, percent in CASES],
)
def test_cut_lines_give_no_false_alarm(name: str, cut: Cut, percent: int, tmp_path: Path) -> None:
    """What is told before the cuts is judged, and what they took is what is missing."""
    node = extract(name, tmp_path)
    log = node / "kubelet.log"
    lines = log.read_bytes().splitlines()
    log.write_bytes(b"".join(cut(line) + b"\n" for line in lines))
    ledger = Ledger.create(tmp_path / "ledger")
    import_sources([str(node)], ledger, ImportOptions())
    (history,) = histories_of_ledger(ledger)
    outcomes = list(history.verify())
    findings = [outcome for outcome in outcomes if isinstance(outcome, Finding)]
    assert [each for each in findings if each.verdict == "impossible"] == []
    assert [each for each in outcomes if isinstance(each, Contradiction)] == []
    counts = Counter(finding.verdict for finding in findings)
    assert (counts["match"] + counts["admissible"]) * 100 > percent * len(findings)
    told = [record.body for record in history.read([LogThinned.kind])]
    assert any(isinstance(body, LogThinned) and body.lines_cut for body in told)
