"""Verification of resource claims on small scenes: two pods that share one."""

from typing import Any

import pytest

from kubeledger.model.bodies.devicemanager import ClaimDevice, ClaimPrepared, ClaimReleased
from kubeledger.model.bodies.lifecycle import PodTerminating
from kubeledger.verify import Finding
from tests.verify.admission_world import Step, admitted, identity, listed, ran, start
from tests.verify.histories import kubelet_of, outcomes, scene

ON = {"DynamicResourceAllocation": True}
VERSIONS = ("1.33.0", "1.34.0", "1.36.2")
GPU, NET = ClaimDevice(pool="n", device="gpu-0"), ClaimDevice(pool="n", device="net-0")
USES: dict[str, Any] = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpus"}]}
PODS = [
    *admitted("a", 1),
    *admitted("b", 2),
    *admitted("c", 3),
    *(listed(name, at=0.5, **USES) for name in "abc"),
    *(ran(name, 4) for name in "abc"),
]


def prepared(pod: str, at: float, *devices: ClaimDevice, uid: str = "u-gpus") -> Step:
    drivers = {"gpu.example.com": devices}
    body = ClaimPrepared(**identity(pod), claim="gpus", claim_uid=uid, drivers=drivers)
    return at, body


def released(pod: str, at: float, *, unprepared: bool) -> Step:
    body = ClaimReleased(
        **identity(pod), claim="gpus", claim_uid="u-gpus", unprepared=unprepared, inferred=True
    )
    return at, body


def ends(pod: str, at: float) -> Step:
    return at, PodTerminating(**identity(pod), reason="deleted", grace_period_s=0)


def found(version: str, *steps: Step, gates: dict[str, bool] | None = ON) -> list[Finding]:
    world = [*start(version, featureGates=gates), *PODS, *steps]
    ordered = scene(*sorted(world, key=lambda step: step[0]))
    decided = (ClaimPrepared.kind, ClaimReleased.kind)
    return [
        each for each in outcomes(ordered) if isinstance(each, Finding) and each.kind in decided
    ]


def last(version: str, *steps: Step, **more: Any) -> tuple[str, str]:  # noqa: ANN401 # as of found
    finding = found(version, *steps, **more)[-1]
    return finding.verdict, finding.why


FIRST = prepared("a", 10, GPU)
SECOND = prepared("b", 20, GPU)


@pytest.mark.parametrize("version", VERSIONS)
def test_after_a_start_drivers_are_asked_again(version: str) -> None:
    again = kubelet_of(version, pid=2, restart=True)
    twice = prepared("a", 40, GPU, GPU)
    verdict, why = last(version, FIRST, (30, again), (30.1, start(version, featureGates=ON)[2][1]),
                        twice)  # fmt: skip
    assert (verdict, why.split(",")[0]) == ("match", "the kubelet had started again")
    assert last(version, FIRST, twice)[0] == "impossible"


def test_a_claim_of_the_same_name_but_another_uid() -> None:
    """Since 1.34 it is refused; 1.33 does not look."""
    other = prepared("b", 20, GPU, uid="u-other")
    for version in ("1.34.0", "1.36.2"):
        verdict, why = last(version, FIRST, other)
        assert verdict == "impossible"
        assert "old ResourceClaim with same name gpus and different UID" in why
    assert last("1.33.0", FIRST, other)[0] == "match"


@pytest.mark.parametrize("version", VERSIONS)
def test_the_last_pod_that_ends_unprepares_it(version: str) -> None:
    """Before, only its reference goes; whoever says otherwise lies."""
    ended = FIRST, SECOND, ends("a", 30)
    assert last(version, *ended, released("a", 31, unprepared=False))[0] == "match"
    verdict, why = last(version, *ended, released("a", 31, unprepared=True))
    assert verdict == "impossible"
    assert why == "pod ns/b refers to the claim, so only the reference goes"
    both = *ended, released("a", 31, unprepared=False), ends("b", 40)
    assert last(version, *both, released("b", 41, unprepared=True))[0] == "match"
    assert last(version, *both, released("b", 41, unprepared=False))[0] == "impossible"


@pytest.mark.parametrize("version", VERSIONS)
def test_the_end_of_a_pod_that_never_got_it_unprepares_it(version: str) -> None:
    """Under the pod that runs with it, which is a bug; without such an end it cannot be."""
    lives, gone = ran("a", 100), released("a", 31, unprepared=True)
    verdict, why = last(version, FIRST, ends("c", 30), gone, lives)
    assert verdict == "match"
    assert why.startswith("pod ns/c ended, which names the claim and was never given it")
    assert last(version, FIRST, gone, lives) == (
        "impossible",
        "the pod lives on, and no other pod that names the claim has ended",
    )


def test_what_is_not_known_is_not_judged() -> None:
    assert last("1.33.0", FIRST, gates=None)[0] == "unverifiable"
    assert last("1.33.0", FIRST, gates={}) == (
        "impossible",
        "this kubelet prepares no claims: DynamicResourceAllocation is off",
    )
    assert last("1.34.0", FIRST, gates={})[0] == "match"
    assert last("1.36.2", prepared("d", 10, GPU))[1].endswith("the pod's claims")
    assert last("1.36.2", released("a", 31, unprepared=True))[0] == "unverifiable"
    assert last("1.36.2", FIRST, released("a", 31, unprepared=True))[0] == "unverifiable"


def test_a_claim_that_the_pod_does_not_name() -> None:
    body = ClaimPrepared(**identity("a"), claim="nets", claim_uid="u", drivers={})
    assert last("1.36.2", (10, body)) == ("impossible", "the pod names gpus, not nets")


def test_what_no_container_uses_is_prepared_by_later_versions_alone() -> None:
    """Up to 1.30 a claim that a pod only names is passed over."""
    assert last("1.33.0", FIRST)[0] == "match"
    assert last("1.30.0", FIRST) == ("impossible", "the pod uses no claim, not gpus")
