"""Image pulls in a simulated node: tried, held back, refused, shared; and lies about them."""

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubeledger.kubelet.kube.flowcontrol import BackOffPolicy
from kubeledger.model.bodies.images import PullDecided, PullEnded
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from kubeledger.simulate.engine import images
from kubeledger.simulate.engine.plan import Plan
from kubeledger.simulate.engine.sim import Sim
from kubeledger.simulate.scenario.load import load_scenario
from kubeledger.simulate.scenario.plan import to_plan
from kubeledger.verify import Finding, Variant
from tests.simulate.engine.scenes import records
from tests.verify.histories import changed, outcomes

SCENARIO = Path(__file__).parents[3] / "recordings" / "scenarios" / "pulls.yaml"
VERSIONS = ("1.19.16", "1.28.0", "1.30.1", "1.33.13", "1.34.9", "1.36.2")
KINDS = (PullDecided.kind, PullEnded.kind)


def plan(version: str = "1.36.2") -> Plan:
    return msgspec.structs.replace(to_plan(load_scenario(SCENARIO)), kubelet_version=version)


def told(found: list[Record], pod: str) -> list[str]:
    said: list[str] = []
    for record in found:
        body: Any = record.body
        if record.kind in KINDS and body.pod == pod:
            word = body.decision if isinstance(body, PullDecided) else body.outcome
            said += [word] if said[-1:] != [word] else []
    return said


def judged(found: list[Record], variant: Variant | None = None) -> list[Finding]:
    """What is said of decisions about pulls; of others nothing is wrong."""
    heard = outcomes(found) if variant is None else outcomes(found, variant)
    findings = [each for each in heard if isinstance(each, Finding)]
    assert len(findings) == len(heard)
    return [each for each in findings if each.kind in KINDS]


@pytest.mark.parametrize("version", VERSIONS)
def test_each_version_pulls_as_it_should(version: str) -> None:
    """Credentials are verified since 1.35: a pod without the secret has its image pulled again."""
    found = records(plan(version))
    verdicts = Counter(finding.verdict for finding in judged(found))
    assert set(verdicts) == {"match"}
    assert verdicts.total() > 50
    assert told(found, "web") == ["pull", "pulled"]
    assert told(found, "shop") == ["pull", "failed", "back_off"] * 5 + ["pull", "pulled"]
    assert told(found, "pinned") == ["never"]
    verifies = version >= "1.35"
    assert told(found, "sharer") == (["present"] if verifies else [])
    assert told(found, "stranger") == (["pull", "pulled"] if verifies else [])


# -- lies ----------------------------------------------------------------------------------


def says(decision: str, pod: str, instead: str) -> Callable[[list[Record]], list[list[Record]]]:
    """Histories in each of which one decision about a pod's image is another."""

    def lies(found: list[Record]) -> list[list[Record]]:
        return [
            changed(found, record.seq, decision=instead)
            for record in found[1:]
            if isinstance(body := record.body, PullDecided)
            if (body.decision, body.pod) == (decision, pod)
        ]

    return lies


def again(found: list[Record]) -> list[list[Record]]:
    return says("pull", "shop", "back_off")(found)[1:]


LIES: Mapping[str, tuple[Callable[[list[Record]], list[list[Record]]], int]] = {
    "tried though in back-off": (says("back_off", "shop", "pull"), 22),
    "not tried though due": (again, 5),
    "IfNotPresent not pulled though absent": (says("pull", "shop", "never"), 6),
    "IfNotPresent pulled though present": (says("present", "sharer", "pull"), 1),
    "Always not pulled": (says("pull", "web", "present"), 1),
    "Never pulled": (says("never", "pinned", "pull"), 15),
    "credentials not verified": (says("pull", "stranger", "present"), 1),
}
"""What a kubelet does wrong -> the histories, and how many of them are known to be impossible."""


@pytest.mark.parametrize("kind", LIES)
def test_lies_are_caught(kind: str) -> None:
    lies, least = LIES[kind]
    told = lies(records(plan()))
    caught = 0
    for lie in told:
        caught += any(each.verdict == "impossible" for each in judged(lie))
    assert (caught, len(told)) == (least, least)


@pytest.mark.parametrize(
    ("initial_s", "max_s", "word"),
    [(5, 300, "pull"), (20, 300, "back_off"), (10, 40, "pull"), (10, 20, "pull")],
)
def test_another_back_off(
    monkeypatch: pytest.MonkeyPatch, initial_s: int, max_s: int, word: str
) -> None:
    policy = BackOffPolicy(initial_s * NS_PER_S, max_s * NS_PER_S)
    monkeypatch.setattr(images, "BACK_OFF", policy)
    wrong = [each for each in judged(list(Sim(plan()).run())) if each.verdict == "impossible"]
    assert wrong
    decided = [each.recorded for each in wrong if each.kind == PullDecided.kind]
    assert {fields["decision"] for fields in decided if fields is not None} == {word}


# -- what if -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "differs"),
    [
        ({"serializeImagePulls": True}, 2),
        ({"maxParallelImagePulls": 1}, 2),
        ({"maxParallelImagePulls": 8}, 0),
        ({"registryBurst": 1}, 1),
        ({"registryPullQPS": 0, "registryBurst": 1}, 0),
        ({"imagePullCredentialsVerificationPolicy": "NeverVerify"}, 1),
        ({"imagePullCredentialsVerificationPolicy": "AlwaysVerify"}, 0),
    ],
)
def test_other_settings(settings: dict[str, Any], differs: int) -> None:
    found = judged(records(plan()), Variant(settings=settings))
    assert sum(each.verdict == "impossible" for each in found) == differs
