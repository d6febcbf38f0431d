"""Excerpts of a pod keep what its decisions rest on: they verify as in the whole."""

import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner

from kubeledger.analyze.sql.exports import excerpt
from kubeledger.analyze.sql.listing import Filter, pods_of
from kubeledger.cli.main import cli
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.record import Record
from kubeledger.model.units import parse_ts
from kubeledger.replay.instants import renumbered
from kubeledger.verify import Contradiction
from tests.recordings import import_recording
from tests.verify.histories import outcomes

SOME_OF_E = (
    ("be-x", "lifecycle.PodAdmitted"),
    ("disk-limit", "lifecycle.PodEvicted"),
    ("hog-be", "lifecycle.PodEvicted"),
    ("iw-a", "preemption.PodPreempted"),
    ("late-be", "lifecycle.PodRejected"),
    ("startup-never", "lifecycle.ContainerKilled"),
)
"""Pods that something else happened to each."""

Verdicts = dict[tuple[int, str, bool], str]
"""(record, kind, whether it was taken) -> verdict."""


def judged(records: Sequence[Record]) -> tuple[Verdicts, set[str]]:
    """What verification says: verdicts, and the sentences of contradictions."""
    verdicts: Verdicts = {}
    contradictions = set()
    for reported in outcomes(records):
        if isinstance(reported, Contradiction):
            contradictions.add(reported.why)
        else:
            verdicts[reported.seq, reported.kind, reported.recorded is not None] = reported.verdict
    return verdicts, contradictions


class Recorded:
    """A recording's ledger and what verification says of all of it."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        (node,) = ledger.nodes()
        self.records = list(ledger.replay(node))
        self.verdicts, self.contradictions = judged(self.records)

    def decisions(self, pod: str) -> dict[int, str]:
        return {
            record.seq: record.kind
            for record in self.records
            if record.role == "decision" and pod in pods_of(record.body)
        }

    def pods(self) -> list[str]:
        decisions = (record for record in self.records if record.role == "decision")
        names = {name for record in decisions for name in pods_of(record.body) if "/" in name}
        return sorted(names)

    def check(self, pod: str) -> list[Record]:
        """An excerpt's records, which say of the pod's decisions what the whole says."""
        kept = list(excerpt(self.ledger, Filter(pod=pod)))
        alone = list(renumbered(kept))
        was = {new.seq: old.seq for new, old in zip(alone, kept, strict=True)}
        verdicts, contradictions = judged(alone)
        found = {(was[seq], kind, taken): each for (seq, kind, taken), each in verdicts.items()}
        for seq, kind in self.decisions(pod).items():
            assert found[seq, kind, True] == self.verdicts[seq, kind, True], (pod, seq, kind)
        for key, verdict in found.items():
            assert verdict != "impossible" or self.verdicts.get(key) == verdict, (pod, key)
        assert contradictions <= self.contradictions, pod
        return kept


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Recorded]:
    directory = tmp_path_factory.mktemp("inputs")
    return cache(lambda name: Recorded(import_recording(name, directory / name)[0]))


@pytest.mark.slow
def test_every_pod_of_a_node(recorded: Callable[[str], Recorded]) -> None:
    """Preemptor and victims, a pod refused for devices, pods killed by probes; less than all."""
    whole = recorded("node-a")
    pods = [*whole.pods()][::4]
    some = {*pods, "kube-system/critical-1", "default/burstable-1"}
    sizes = {pod: len(whole.check(pod)) for pod in sorted(some)}
    assert sizes["kube-system/critical-1"] < len(whole.records) / 2
    assert sizes["default/burstable-1"] < len(whole.records) / 20


@pytest.mark.slow
@pytest.mark.parametrize(("pod", "kind"), SOME_OF_E)
def test_pods_of_another_node(recorded: Callable[[str], Recorded], pod: str, kind: str) -> None:
    """Evictions by each kind of threshold, and what they bring about."""
    whole = recorded("node-e-evictions")
    assert kind in whole.decisions(f"default/{pod}").values()
    assert len(whole.check(f"default/{pod}")) < len(whole.records) / 2


def test_oom_kills(recorded: Callable[[str], Recorded]) -> None:
    whole = recorded("node-e-oom")
    killed = [pod for pod in whole.pods() if "oom.ProcessKilled" in whole.decisions(pod).values()]
    assert killed
    for pod in killed[:3]:
        whole.check(pod)


@pytest.mark.nightly
def test_every_pod_of_another_node(recorded: Callable[[str], Recorded]) -> None:
    whole = recorded("node-e-evictions")
    for pod in whole.pods():
        whole.check(pod)


def test_on_the_command_line(recorded: Callable[[str], Recorded], tmp_path: Path) -> None:
    """``export --pod`` and ``verify``; up to a time nothing after it is kept."""
    ledger = str(recorded("node-a").ledger.path)
    out = tmp_path / "x.ledger.jsonl"
    command = ["export", "--ledger", ledger, "--pod", "default/filler-c", "--out", str(out)]
    assert CliRunner().invoke(cli, command).exit_code == 0
    result = CliRunner().invoke(cli, ["verify", str(out), "-o", "json"])
    assert result.exit_code == 0
    verdicts = {
        item["verdict"]
        for item in json.loads(result.stdout)["items"]
        if item["kind"] == "preemption.PodPreempted"
    }
    assert verdicts == {"match"}
    until = "2026-11-21T03:00:40Z"
    assert CliRunner().invoke(cli, [*command, "--until", until]).exit_code == 0
    times = [json.loads(line)["ts_ns"] for line in out.read_text().splitlines()]
    assert max(times) <= parse_ts(until)
