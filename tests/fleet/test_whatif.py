"""What-if over a lake: each node as ``kubeledger whatif`` tells it, sums, and nodes that fail."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kubeledger.cli.fleet_whatif import Answer, write_answers
from kubeledger.cli.main import cli
from kubeledger.fleet.types import Failure, NodeSummary
from kubeledger.fleet.whatif import HARMS, HarmCount, NodeVariant, added_up

pytestmark = pytest.mark.slow

_SETTINGS = ("--set", "maxPods=5|500", "--set", "imageGCHighThresholdPercent=99")


def _whatif(lake: Path, *arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli, ["fleet", "whatif", "--lake", str(lake), *arguments])
    return result.exit_code, result.stdout, result.stderr


def _changes(ledger: Path) -> list[dict[str, Any]]:
    command = ["whatif", "--ledger", str(ledger), *_SETTINGS, "-o", "json"]
    result = CliRunner().invoke(cli, command)
    assert result.exit_code == 0, result.output
    variants: list[dict[str, Any]] = json.loads(result.stdout)["variants"]
    return variants


def test_each_node_is_as_its_own_whatif_tells_it(
    recorded_lake: Path, recorded_ledger: Path
) -> None:
    """All counts of node-a under two variants: images that stay, pods that are let in or not."""
    code, said, _ = _whatif(recorded_lake, *_SETTINGS, "-o", "json", "--workers", "1")
    assert code == 0
    rows = [row for row in json.loads(said) if row["node"] == "node-a"]
    alone = _changes(recorded_ledger)
    assert [row["variant"] for row in rows] == [each["variant"] for each in alone]
    for row, each in zip(rows, alone, strict=True):
        for total in ("decisions", "same", "changed", "untrusted", "unknown", "missing"):
            assert row[total] == each[total], total
        sure = [change for change in each["changes"] if change["untrusted_since"] is None]
        deleted = [change for change in sure if change["kind"] == "images.ImageDeleted"]
        assert row["deleted_gone"] == len(deleted) > 0
        assert row["deleted_recorded"] == 8
        refused = [c for c in sure if (c["instead"] or {}).get("admit") is False]
        assert row["refused_added"] == len(refused)
    assert rows[0]["refused_added"] == 1
    assert rows[1]["refused_added"] == 0


def test_a_node_that_cannot_be_asked_is_a_row(recorded_lake: Path) -> None:
    """A pod of one node: the other says that it has none, and the exit code is 1."""
    container = "pod/live-fail/app.livenessProbe.failureThreshold=9"
    code, said, _ = _whatif(recorded_lake, "--set", container, "-o", "jsonl")
    rows = {row["node"]: row for row in map(json.loads, said.splitlines())}
    assert code == 1
    assert rows["node-a"]["failure"] is None
    assert rows["node-a"]["probe_killed_gone"] > 0
    assert "live-fail" in rows["node-z"]["failure"]
    assert rows["node-z"]["changed"] is None


def _answer(node: str, *gone: int, pool: str | None = None) -> Answer:
    """Of so many evictions that would not have been, one number a variant."""
    answer = []
    for count in gone:
        harms = {harm: HarmCount() for harm in HARMS}
        harms["evicted"] = HarmCount(recorded=1234, gone=count)
        answer.append(NodeVariant(harms=harms, changed=count, untrusted=70, unknown=9))
    return Answer(NodeSummary(node=node, name=node, pool=pool), answer)


@pytest.mark.parametrize("nodes", [3, 300])
def test_the_table_fits_a_screen_and_hides_nothing(
    nodes: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Variants side by side, most changed first; untrusted and unknown have their columns."""
    names = ["evictionHard.memory.available=1%", "evictionHard.memory.available=2%"]
    answers = [_answer(f"ip-10-0-0-{n}.example", n, 0, pool="general") for n in range(nodes)]
    lost = Failure(source="node lost-1", kind="lost", reason="its worker died", advice="memory")
    answers.append(Answer(NodeSummary(node="lost-1", name="lost-1"), lost))
    write_answers(names, answers, "table", full=False)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 23
    assert max(map(len, lines)) <= 80
    assert lines[:2] == [f"{number}: {name}" for number, name in enumerate(names, 1)]
    first = lines.index("")
    pool = ["general"] if nodes == 3 else []  # else there is no room
    assert lines[first + 1].split() == ["node", *(["pool"] if pool else []), "evicted", *_TOTALS]
    every, worst = lines[first + 3].split(), lines[first + 4].split()
    total = nodes * (nodes - 1) // 2
    recorded = nodes * 1234
    both = [f"{recorded}→{recorded - total}|{recorded}", f"{total}|0"]
    assert every == ["all", *both, str(70 * nodes), str(9 * nodes)]
    name = f"ip-10-0-0-{nodes - 1}.example"
    assert worst[: 2 + len(pool)] == [name, *pool, f"1234→{1235 - nodes}|1234"]
    assert any("node lost-1" in line for line in lines)


_TOTALS = ("changed", "untrusted", "unknown")


def test_what_is_wrong_for_all_nodes_is_told_at_once(recorded_lake: Path, tmp_path: Path) -> None:
    """No worker starts for a setting that does not exist, or without a lake."""
    for arguments in (("--set", "maxPodz=5"), ("--set", "maxPods=-1"), ()):
        code, said, error = _whatif(recorded_lake, *arguments)
        assert (code, said) == (2, "")
        assert "hint" in error
    assert _whatif(tmp_path / "none", "--set", "maxPods=5")[0] == 2


def test_sums() -> None:
    one = NodeVariant(
        harms={harm: HarmCount(recorded=5, gone=2, added=1, untrusted=3) for harm in HARMS},
        decisions=10,
        changed=3,
        unknown=1,
        missing={"specs": 1},
    )
    total = added_up([one, one])
    assert total.harms["evicted"].under_variant == 8
    assert (total.harm_changes, total.decisions, total.changed) == (36, 20, 6)
    assert total.missing == {"specs": 2}
