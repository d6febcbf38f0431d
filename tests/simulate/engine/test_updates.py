"""Changed specs in a simulated node: kills, restarts, another static pod, verification."""

from pathlib import Path

import msgspec
import pytest

from kubeledger.analyze.histories.history import history_of_reader
from kubeledger.analyze.why import explain, parse_target
from kubeledger.model.bodies.lifecycle import (
    ContainerKilled,
    ContainerRestarted,
    ContainerStarted,
    PodConfigChanged,
    PodListed,
    PodTerminated,
    RestartBackedOff,
)
from kubeledger.model.record import Record
from kubeledger.simulate.scenario.load import load_scenario
from kubeledger.simulate.scenario.plan import to_plan
from kubeledger.verify.finding import Finding
from tests.simulate.engine.scenes import outcomes, records
from tests.verify.histories import reader

SCENARIO = Path(__file__).parents[3] / "recordings" / "scenarios" / "updates.yaml"
VERSIONS = ("1.21.3", "1.25.12", "1.30.14", "1.36.2")


def run(version: str) -> list[Record]:
    made = to_plan(load_scenario(SCENARIO))
    return records(msgspec.structs.replace(made, kubelet_version=version))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_changed_definition_kills_and_starts_anew(version: str) -> None:
    """Also with restart policy Never; images in lists are those that run; all is verified."""
    found = run(version)
    updates = {r.seq for r in found if isinstance(r.body, PodConfigChanged)}
    kills = [
        r for r in found if isinstance(r.body, ContainerKilled) and r.body.reason == "spec_changed"
    ]
    reported = [(r.body.container, r.body.message, r.body.grace_period_s) for r in kills]  # type: ignore[attr-defined]
    changed = "Container {} definition changed, will be restarted"
    expected = [
        ("server", changed.format("server"), 7),
        ("job", changed.format("job"), 30),
        ("server", changed.format("server"), 7),
    ]
    if version == "1.36.2":  # before 1.32 a running sidecar stays as it is
        expected.insert(2, ("proxy", "Init container proxy definition changed", 7))
    assert reported == expected
    assert all(r.cause in updates for r in kills)
    restarts = [
        (r.body.container, r.body.restart_count)
        for r in found
        if isinstance(r.body, ContainerRestarted) and r.body.reason == "spec_changed"
    ]
    assert [each for each in restarts if each[0] == "server"] == [("server", 1), ("server", 2)]
    assert ("job", 1) in restarts
    statuses = [
        (r.body.status or {}).get("containerStatuses", ())
        for r in found
        if isinstance(r.body, PodListed) and r.body.pod == "web"
    ]
    shown = [one["image"] for each in statuses for one in each if one["name"] == "server"]
    assert list(dict.fromkeys(shown)) == [f"example/web:{n}" for n in (1, 2, 3)]
    rest = [o for o in outcomes(found) if isinstance(o, Finding) and o.verdict != "match"]
    # That no line says what an UPDATE changed leaves the next back-off open.
    assert all(o.verdict == "unverifiable" and o.subject.endswith("crash/app") for o in rest)


def test_another_definition_begins_without_a_back_off() -> None:
    """A container that fails again and again, and whose next image is sound or not."""
    values = [r.body.back_off_s for r in run("1.36.2") if isinstance(r.body, RestartBackedOff)]
    reported = list(dict.fromkeys(values[: values.index(80) + 1]))
    assert reported == [10, 20, 40, 80]
    assert values[values.index(80) + 1] == 10


@pytest.mark.parametrize(("version", "waits"), [("1.21.3", False), ("1.36.2", True)])
def test_a_changed_manifest_is_another_pod(version: str, waits: bool) -> None:
    """It comes as the one before goes, and since 1.22 starts when that is down."""
    found = [r for r in run(version) if getattr(r.body, "pod", "") == "manifest-node-1"]
    configs = [r.body for r in found if isinstance(r.body, PodConfigChanged)]
    assert [c.operation for c in configs] == ["ADD", "REMOVE", "ADD"]
    old, new = configs[0].pod_uid, configs[2].pod_uid
    assert old == configs[1].pod_uid
    assert old != new
    gone = next(r.ts_ns for r in found if isinstance(r.body, PodTerminated))
    began = next(
        r.ts_ns for r in found if isinstance(r.body, ContainerStarted) and r.body.pod_uid == new
    )
    assert (began > gone) is waits


def test_why_tells_of_a_changed_definition() -> None:
    history = history_of_reader("node-1", "node-1", reader(run("1.36.2")))
    found = explain(history, parse_target("container/default/web/server"))
    assert found is not None
    assert "was killed because its definition changed 2 times" in found.headline
