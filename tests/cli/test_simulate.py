import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import msgspec
import pytest

from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.standalone import read_recording
from kubeledger.model.record import Record
from kubeledger.simulate.engine.sim import Sim
from tests.cli import nodes

SCENARIOS = Path(__file__).parents[2] / "recordings" / "scenarios"
FIRST = SCENARIOS / "first.yaml"
SHORT = ("--duration", "3m")


run = partial(nodes.run, "simulate")


def test_check_only_checks(tmp_path: Path) -> None:
    result = run("--check", FIRST, "--ledger", tmp_path / "l", exits=0)
    assert ": kubelet 1.36.2, 1 pod, 1 image, 0 device plugins, " in result.output
    assert not (tmp_path / "l").exists()


def test_check_as_json() -> None:
    found = json.loads(run("--check", FIRST, "-o", "json").stdout)
    assert (found["kubelet"], found["pods"], found["images"]) == ("1.36.2", 1, 1)
    assert found["duration_ns"] == 600 * 10**9


def test_all_problems_are_reported(tmp_path: Path) -> None:
    """Each with its line and what to do; exit code 3, nothing is run."""
    bad = tmp_path / "bad.yaml"
    bad.write_text("kubeletVersion: 1.2.3\nduration: 10m\nnode: {memory: -1Gi}\n")
    result = run(bad, "--ledger", tmp_path / "l", exits=3)
    assert f"error: {bad}:1:1: kubeletVersion: unknown kubelet version" in result.output
    assert f"error: {bad}:3:8: node.memory: must not be negative" in result.output
    assert "2 problems: nothing was run" in result.output
    assert not (tmp_path / "l").exists()


def test_a_run_fills_a_ledger_that_verifies(tmp_path: Path) -> None:
    ledger = tmp_path / "l"
    result = run(FIRST, *SHORT, "--ledger", ledger, exits=0)
    assert "containers killed" in result.output
    count = Ledger.open(ledger).info("node-1").last_seq
    assert f"{count:,} records added to {ledger}" in result.output
    again = run(FIRST, *SHORT, "--ledger", ledger, "-q")
    assert again.output == f"0 records added to {ledger}\n"
    verified = nodes.run("verify", "--ledger", ledger)
    assert verified.exit_code == 0, verified.output


def test_a_run_that_was_killed_is_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger is the same as that of a run in one go, and as a file's lines."""
    whole, broken, file = tmp_path / "whole", tmp_path / "broken", tmp_path / "x.ledger.jsonl"
    run(FIRST, *SHORT, "--ledger", whole, "--out", file)
    monkeypatch.setattr("kubeledger.cli.simulate._BATCH", 16)
    with monkeypatch.context() as patch:
        patch.setattr(Sim, "run", _interrupted(Sim.run))
        assert run(FIRST, *SHORT, "--ledger", broken).exit_code != 0
    assert 0 < Ledger.open(broken).info("node-1").last_seq <= 100
    assert run(FIRST, *SHORT, "--ledger", broken).exit_code == 0
    lines = [raw.line for raw in Ledger.open(whole).raw_lines("node-1")]
    assert lines == [raw.line for raw in Ledger.open(broken).raw_lines("node-1")]
    assert file.read_bytes() == b"".join(lines)


def _interrupted(method: Callable[[Sim], Iterator[Record]]) -> Callable[[Sim], Iterator[Record]]:
    def run_some(sim: Sim) -> Iterator[Record]:
        for record in method(sim):
            if record.seq > 100:
                raise KeyboardInterrupt
            yield record

    return run_some


@pytest.mark.parametrize("option", [("--seed", "7"), ("--duration", "1m")])
def test_another_history_is_refused(option: tuple[str, str], tmp_path: Path) -> None:
    """A ledger never holds a mixture; another name beside it is fine."""
    ledger = tmp_path / "l"
    run(FIRST, *SHORT, "--ledger", ledger)
    before = Ledger.open(ledger).info("node-1").head
    result = run(FIRST, *SHORT, *option, "--ledger", ledger, exits=2)
    assert "holds another history of node-1" in result.output
    assert Ledger.open(ledger).info("node-1").head == before
    assert run(FIRST, *SHORT, *option, "--ledger", ledger, "--node", "other").exit_code == 0
    assert Ledger.open(ledger).nodes() == ["node-1", "other"]


def test_out_alone_writes_no_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(FIRST, *SHORT, "--out", "x.ledger.jsonl.zst", "-o", "json", exits=0)
    summary = msgspec.json.decode(result.output)
    assert {path.name for path in tmp_path.iterdir()} == {"x.ledger.jsonl.zst"}
    records = list(read_recording("x.ledger.jsonl.zst"))
    assert summary["records"] == len(records) == sum(summary["kinds"].values())
    assert summary["happened"]["pods admitted"] == 1


def test_every_tick_is_written_when_asked_for(tmp_path: Path) -> None:
    counts = {}
    for option in ((), ("--every-tick",)):
        out = tmp_path / "x.ledger.jsonl"
        assert run(FIRST, *SHORT, "--out", out, *option).exit_code == 0
        kinds = [record.kind for record in read_recording(out)]
        counts[option] = kinds.count("prober.ProbeExecuted"), kinds.count("prober.ProbeTicksFolded")
    assert counts[()][0] < counts["--every-tick",][0]
    assert counts["--every-tick",][1] == 0


@pytest.mark.parametrize(
    "name", sorted(path.stem for path in SCENARIOS.glob("*.yaml") if path.stem != "node-day")
)
def test_a_shipped_scenario_runs_and_verifies(name: str, tmp_path: Path) -> None:
    out = tmp_path / "x.ledger.jsonl"
    assert run(SCENARIOS / f"{name}.yaml", "--out", out, "-q").exit_code == 0
    result = nodes.run("verify", out)
    assert result.exit_code == 0, result.output
