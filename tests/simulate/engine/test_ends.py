"""Ends of containers and pods in a simulated node, each with its reason and fully verified."""

from pathlib import Path

import msgspec
import pytest

from kubeledger.model.bodies.lifecycle import ContainerKilled, PodListed, PodTerminating
from kubeledger.model.bodies.node import KubeletExited, KubeletStarted
from kubeledger.model.record import Record
from kubeledger.simulate.scenario.load import load_scenario
from kubeledger.simulate.scenario.plan import to_plan
from kubeledger.verify.finding import Finding
from tests.simulate.engine.scenes import outcomes, records

SCENARIO = Path(__file__).parents[3] / "recordings" / "scenarios" / "ends.yaml"
VERSIONS = ("1.25.12", "1.29.0", "1.30.14", "1.32.0", "1.36.2")


def run(version: str) -> list[Record]:
    made = to_plan(load_scenario(SCENARIO))
    return records(msgspec.structs.replace(made, kubelet_version=version))


@pytest.mark.parametrize("version", VERSIONS)
def test_each_end_has_its_reason(version: str) -> None:
    """Kills, the pod worker's words, and the kubelet's own end."""
    minor = int(version.split(".")[1])
    found = run(version)
    kills = [r.body for r in found if isinstance(r.body, ContainerKilled)]
    orphan_s = 2 if minor >= 28 else 1
    reported = {(k.pod, k.container, k.reason, k.grace_period_s) for k in kills}
    expected = {
        ("hook", "web", "post_start_hook", 4),
        ("late", "work", "deadline_exceeded", 5),
        ("gone", "web", "pod_deleted", 30),
        ("manifest-node-1", "web", "orphaned", orphan_s),
    }
    if minor >= 29:  # before, sidecars are behind a gate
        expected.add(("job", "proxy", "pod_ended", 30))
    assert reported == expected
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
    """Nothing is impossible, and only how often a failed hook raised the back-off is open."""
    found = run(version)
    open_ = {o.why for o in outcomes(found) if isinstance(o, Finding) and o.verdict != "match"}
    hook = "cannot be decided again without which restarts of container web raised its back-off"
    assert {why for why in open_ if "cannot be decided again" in why} <= {hook}
