"""Ends of containers and pods in a simulated node, each with its reason and fully verified."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

import msgspec
import pytest

from kubeledger.lifecycle.records import ContainerKilled, PodListed, PodTerminating
from kubeledger.machine import Record
from kubeledger.node.records import KubeletExited, KubeletStarted
from kubeledger.scenario.load import load_scenario
from kubeledger.scenario.plan import to_plan
from kubeledger.verify.finding import Finding
from kubeledger.verify.variant import Variant
from kubeledger.whatif import Outlook, outlook
from tests.simulate.scenes import bad, outcomes, records

SCENARIO = Path(__file__).parents[2] / "recordings" / "scenarios" / "ends.yaml"
VERSIONS = ("1.25.12", "1.29.0", "1.30.14", "1.32.0", "1.36.2")


def run(version: str) -> list[Record]:
    """The scenario by the rules of a version."""
    made = to_plan(load_scenario(SCENARIO))
    return records(msgspec.structs.replace(made, kubelet_version=version))


@pytest.mark.parametrize("version", VERSIONS)
def test_each_end_has_its_reason(version: str) -> None:
    """Kills, the pod worker's words, and the kubelet's own end."""
    minor = int(version.split(".")[1])
    found = run(version)
    kills = [r.body for r in found if isinstance(r.body, ContainerKilled)]
    orphan_s = 2 if minor >= 28 else 1
    told = {(k.pod, k.container, k.reason, k.grace_period_s) for k in kills}
    expected = {
        ("hook", "web", "post_start_hook", 4),
        ("late", "work", "deadline_exceeded", 5),
        ("gone", "web", "pod_deleted", 30),
        ("manifest-node-1", "web", "orphaned", orphan_s),
    }
    if minor >= 29:  # before, sidecars are behind a gate
        expected.add(("job", "proxy", "pod_ended", 30))
    assert told == expected
    stopped = {(r.body.pod, r.body.reason) for r in found if isinstance(r.body, PodTerminating)}
    assert {("late", "ended"), ("gone", "deleted"), ("manifest-node-1", "orphaned")} <= stopped
    statuses = [r.body.status for r in found if isinstance(r.body, PodListed)]
    reasons = {(status or {}).get("reason") for status in statuses}
    assert "DeadlineExceeded" in reasons
    exits = {r.seq: r.body for r in found if isinstance(r.body, KubeletExited)}
    starts = [r for r in found if isinstance(r.body, KubeletStarted)]
    assert [start.cause in exits for start in starts] == [False, True]


@pytest.mark.parametrize("version", VERSIONS)
def test_all_of_it_is_verified(version: str) -> None:
    """Nothing is impossible, and nothing is left open."""
    found = run(version)
    assert not bad(found)
    open_ = {o.why for o in outcomes(found) if isinstance(o, Finding) and o.verdict != "match"}
    assert not {why for why in open_ if "cannot be decided again" in why}


def test_another_shutdown_is_undecided() -> None:
    """What the shutdown manager would give to a pod is not decided again, and named."""

    def shut_down(record: Record) -> Record:
        body = record.body
        if isinstance(body, ContainerKilled) and body.pod == "gone":
            body = msgspec.structs.replace(body, reason="node_shutdown")
        elif isinstance(body, PodTerminating) and body.pod == "gone":
            body = msgspec.structs.replace(body, reason="shutdown")
        return msgspec.structs.replace(record, body=body)

    found = [shut_down(record) for record in run("1.36.2")]

    def read(kinds: Collection[str] | None) -> Iterator[Record]:
        return iter([r for r in found if kinds is None or r.kind in kinds])

    missing = "the time that the shutdown manager would have given"
    for setting, count in (("shutdownGracePeriod", 1), ("syncFrequency", 0)):
        result = Outlook(variant=setting)
        list(outlook(read, Variant(settings={setting: "90s"}), result))
        assert result.missing.get(missing, 0) == count
