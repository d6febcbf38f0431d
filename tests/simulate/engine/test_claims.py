"""Resource claims in a simulated node: shared, held up, given back, lost under a running pod."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubeledger.model.bodies.devicemanager import ClaimPrepared, ClaimReleased, DraManagerStateRead
from kubeledger.model.bodies.node import PodStageFailed
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from kubeledger.simulate.engine.plan import Plan
from kubeledger.simulate.engine.sim import Sim
from kubeledger.simulate.scenario.load import load_scenario
from kubeledger.simulate.scenario.plan import to_plan
from kubeledger.verify.finding import Contradiction, Finding, Violation
from tests.simulate.engine.scenes import outcomes, records
from tests.verify.histories import changed

SCENARIO = Path(__file__).parents[3] / "recordings" / "scenarios" / "claims.yaml"
VERSIONS = ("1.33.13", "1.34.9", "1.35.6", "1.36.2")
MINUTE_NS = 60 * NS_PER_S


def plan(version: str) -> Plan:
    """The scenario by the rules of a version; before 1.34 the gate has to be set."""
    gates = {"DynamicResourceAllocation": True} if version < "1.34" else {}
    made = to_plan(load_scenario(SCENARIO))
    settings = {**made.settings, "featureGates": gates}
    return msgspec.structs.replace(made, kubelet_version=version, settings=settings)


def deleted(made: Plan, pod: str, minute: int) -> Plan:
    pods = tuple(
        msgspec.structs.replace(each, deleted_ns=minute * MINUTE_NS)
        if each.manifest["metadata"]["name"] == pod
        else each
        for each in made.pods
    )
    return msgspec.structs.replace(made, pods=pods)


def told(found: list[Record], pod: str) -> list[tuple[int, Any]]:
    """What became of a pod's claims: the minute, and devices or whether it was unprepared."""
    shown: list[tuple[int, Any]] = []
    for record in found:
        minute = record.ts_ns // MINUTE_NS % 60
        if isinstance(body := record.body, ClaimPrepared) and body.pod == pod:
            names = [each.device for devices in body.drivers.values() for each in devices]
            shown.append((minute, names))
        elif isinstance(body, ClaimReleased) and body.pod == pod:
            shown.append((minute, body.unprepared))
    return shown


def verdicts(found: list[Record]) -> set[str]:
    kinds = (ClaimPrepared.kind, ClaimReleased.kind)
    return {
        each.verdict for each in outcomes(found) if isinstance(each, Finding) and each.kind in kinds
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_a_shared_claim_and_one_of_a_template(version: str) -> None:
    """Prepared once for both; the driver that is gone holds up a start and an end."""
    found = records(plan(version))
    gpus = ["gpu-0", "gpu-1"]
    assert told(found, "train") == [(0, gpus)]
    assert told(found, "tune") == [(1, gpus), (4, False)]
    assert told(found, "intruder") == []
    assert told(found, "serve") == [(10, ["nic-0"]), (23, True)]
    stages = {
        (r.body.pod, r.body.stage, r.body.about)
        for r in found
        if isinstance(r.body, PodStageFailed)
    }
    # Up to 1.33 the claim is noted before its driver is looked for.
    assert stages >= {("serve", "stop", None), ("serve", "resources", None)}
    assert any(pod == "intruder" and stage == "resources" for pod, stage, _ in stages)
    assert verdicts(found) == {"match"}
    assert not any(isinstance(each, Contradiction) for each in outcomes(found))
    last = [r.body for r in found if isinstance(r.body, DraManagerStateRead)][-1]
    assert last.checksum_ok is True
    assert [claim.name for claim in last.claims] == ["gpus"]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_end_of_a_pod_that_never_got_it_unprepares_a_claim(version: str) -> None:
    """Under the pod that runs with it: a known bug, which is a violation and no impossible one."""
    found = list(Sim(deleted(plan(version), "intruder", 6)).run())
    assert told(found, "train") == [(0, ["gpu-0", "gpu-1"]), (6, True)]
    assert verdicts(found) == {"match"}
    (violation,) = (each for each in outcomes(found) if isinstance(each, Violation))
    assert violation.why == "claim default/gpus is unprepared while pod default/train runs with it"
    assert violation.bugs == ("kubernetes#140212",)


def test_lies_are_caught() -> None:
    """Other devices for the second pod; a claim that is given back while others hold it."""
    found = records(plan("1.36.2"))
    second = next(r for r in found if isinstance(r.body, ClaimPrepared) and r.body.pod == "tune")
    back = next(r for r in found if isinstance(r.body, ClaimReleased) and r.body.pod == "tune")
    lies: list[tuple[Record, dict[str, Any]]] = [
        (second, {"drivers": {"gpu.example.com": ()}}),
        (second, {"claim": "others"}),
        (back, {"unprepared": True}),
    ]
    for record, lie in lies:
        assert "impossible" in verdicts(changed(found, record.seq, **lie)), lie
