"""``kubeledger completeness`` as users call it."""

import json
from pathlib import Path

import pytest
from click.testing import Result

from tests.cli.nodes import Nodes, run


@pytest.fixture
def ledger(nodes: Nodes) -> Path:
    return Path(nodes.ledger("node-a"))


def ask(ledger: Path, *args: str, exits: int | None = None) -> Result:
    return run("completeness", "--ledger", ledger, *args, exits=exits)


def test_the_five_sections(ledger: Path) -> None:
    result = ask(ledger, "--full", exits=0)
    for title in ("1. Sources", "2. Verbosity", "3. Gaps", "4. Decisions and API events",
                  "5. What could not be verified"):  # fmt: skip
        assert f"\n{title}\n" in result.output
    assert "the verbosity is 5 by the settings" in result.output
    assert "170 never became an event: dropped by the spam filter" in result.output
    assert "decisions that never became an event: 40" in result.output
    assert "... and 30 more (-o json has all)" in result.output
    assert "snapshot of the node" in result.output


def test_the_summary_fits_a_screen(ledger: Path) -> None:
    result = ask(ledger, exits=0)
    reported = " ".join(result.output.split())
    assert len(result.output.splitlines()) < 24
    assert "2 kubelet processes, 2 logged from the start" in reported
    assert "Gaps: 1 time without a kubelet, the longest 2026-11-21T03:03:20.116816Z to" in reported
    assert "40 decisions never became an event" in reported
    assert "Verified: 2" in reported


def test_json_has_all(ledger: Path) -> None:
    result = ask(ledger, "-o", "json")
    (node,) = json.loads(result.output)["nodes"]
    assert node["node"] == "node-a"
    assert sum(one["delivery"] == "never" for one in node["events"]["decisions"]) == 40


def test_a_line_a_node(ledger: Path) -> None:
    document = json.loads(ask(ledger, "-o", "json").stdout)
    lines = ask(ledger, "-o", "jsonl").stdout.splitlines()
    assert [json.loads(line) for line in lines] == document["nodes"]


def test_a_time_span(ledger: Path) -> None:
    args = ("--since", "2026-11-21T03:03:25Z", "--until", "2026-11-21T03:04:00Z", "-o", "json")
    (node,) = json.loads(ask(ledger, *args).output)["nodes"]
    assert [p["pid"] for p in node["sources"]["processes"]] == [26468]
    assert ask(ledger, "--until", "2020-01-01T00:00:00Z").exit_code == 0
