"""Claims on both sides of what versions changed, in orders left to chance; reasons."""

from typing import Any

import pytest

from kubeledger.model.errors import BadInputError
from tests.kubelet.cases.lines import Lines

LINES = Lines("dra")
GPU, NET = "gpu.example.com", "net.example.com"
Step = dict[str, Any]


def pod(uid: str, *claims: str) -> dict[str, Any]:
    """A pod whose one container uses claims by name."""
    return {
        "metadata": {"name": uid, "namespace": "ns", "uid": uid},
        "spec": {
            "containers": [{"name": "c", "resources": {"claims": [{"name": c} for c in claims]}}],
            "resourceClaims": [{"name": c, "resourceClaimName": c} for c in claims],
        },
    }


def claim(
    name: str, *drivers: str, users: tuple[str, ...] = ("a", "b"), uid: str = ""
) -> dict[str, Any]:
    """A claim with a device of each driver, reserved for pods; not allocated without any."""
    results = [{"driver": driver, "device": "d"} for driver in drivers]
    allocation = {"allocation": {"devices": {"results": results}}} if drivers else {}
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": uid or f"uid-{name}"},
        "status": {**allocation, "reservedFor": [{"uid": user} for user in users]},
    }


def says(*claims: str, error: str = "") -> dict[str, Any]:
    """A driver's answer about claims: a device of each, or an error of each."""
    said: dict[str, Any] = {
        "devices": [{"poolName": "n", "deviceName": "d", "cdiDeviceIDs": ["x"]}]
    }
    return {"claims": {f"uid-{name}": {"error": error} if error else said for name in claims}}


def prepare(uid: str, *claims: dict[str, Any], **answers: Any) -> Step:  # noqa: ANN401
    """A pod that starts; drivers by their first word."""
    names = [each["metadata"]["name"] for each in claims]
    return {"op": "prepare", "pod": pod(uid, *names), "claims": list(claims), **told(answers)}


def unprepare(uid: str, *claims: str, **answers: Any) -> Step:  # noqa: ANN401
    return {"op": "unprepare", "pod": pod(uid, *claims), **told(answers)}


def told(answers: dict[str, Any]) -> dict[str, Any]:
    return {"answers": {f"{driver}.example.com": said for driver, said in answers.items()}}


def steps(version: str, *given: Step, drivers: tuple[str, ...] = (GPU, NET)) -> list[Step]:
    found: list[Step] = LINES.decided(version, {"drivers": drivers, "steps": given})["steps"]
    return found


def held(step: Step) -> dict[str, list[str]]:
    """Claims of the checkpoint and their pods."""
    return {each["ClaimName"]: each["PodUIDs"] for each in step["checkpoint"]}


@pytest.mark.parametrize(("version", "noted"), [("1.33.13", {"x": ["a"]}), ("1.34.9", {})])
def test_a_claim_is_noted_though_a_later_one_fails(version: str, noted: dict[str, Any]) -> None:
    """Up to 1.33."""
    found = steps(version, prepare("a", claim("x", GPU), claim("y"), gpu=says("x")))
    assert held(found[0]) == noted
    assert "not allocated" in found[0]["error"]
    assert found[0]["calls"] == {}


@pytest.mark.parametrize(("version", "blocked"), [("1.33.13", True), ("1.35.6", False)])
def test_a_driver_that_never_was_blocks_the_end(version: str, blocked: bool) -> None:
    """Up to 1.33, until it comes."""
    found = steps(version, prepare("a", claim("x", GPU)), unprepare("a", "x"), drivers=())
    assert bool(found[1]["error"]) is blocked
    assert bool(held(found[1])) is blocked


@pytest.mark.parametrize(("version", "refused"), [("1.33.13", False), ("1.36.2", True)])
def test_another_claim_of_the_same_name(version: str, refused: bool) -> None:
    """Not noticed up to 1.33: the driver is asked for the old one again."""
    new = claim("x", GPU, uid="uid-new")
    found = steps(version, prepare("a", claim("x", GPU), gpu=says("x")), prepare("b", new))
    assert ("previous pod force-deleted" in found[1]["error"]) is refused
    assert held(found[1]) == {"x": ["a"] if refused else ["a", "b"]}


ERRORS = {
    "1.33.13": (
        'failed to fetch ResourceClaim x referenced by pod a: resourceclaims.resource.k8s.io "x" '
        "not found",
        "pod a(a) is not allowed to use resource claim x(uid-x)",
        "NodePrepareResources failed: rpc error: code = Internal desc = down",
        "NodePrepareResources failed for claim ns/x: gone",
        "NodePrepareResources left out 1 claims",
    ),
    "1.34.9": (
        'fetch ResourceClaim x: resourceclaims.resource.k8s.io "x" not found',
        "pod a (a) is not allowed to use ResourceClaim x (uid-x)",
        "NodePrepareResources: rpc error: code = Internal desc = down",
        "NodePrepareResources failed for ResourceClaim x: gone",
        "NodePrepareResources skipped 1 ResourceClaims",
    ),
}


@pytest.mark.parametrize("version", ERRORS)
def test_errors_of_a_version(version: str) -> None:
    lacking = prepare("a", claim("x", GPU)) | {"claims": []}
    given = [
        lacking,
        prepare("a", claim("x", GPU, users=("b",))),
        prepare("a", claim("x", GPU), gpu={"error": "down"}),
        prepare("a", claim("x", GPU), gpu=says("x", error="gone")),
        prepare("a", claim("x", GPU)),
    ]
    prefix = "" if version == "1.33.13" else "prepare dynamic resources: "
    found = [steps(version, each)[0]["error"] for each in given]
    assert found == [prefix + text for text in ERRORS[version]]


def test_a_shared_claim_is_unprepared_under_a_running_pod() -> None:
    """By the end of one that may not use it; not while two refer to it."""
    mine = claim("x", GPU, users=("a", "c"))
    start, also = prepare("a", mine, gpu=says("x")), prepare("c", mine, gpu=says("x"))
    stranger = unprepare("b", "x", gpu=says("x"))
    assert held(steps("1.36.2", start, prepare("b", mine), stranger)[2]) == {}
    assert held(steps("1.36.2", start, also, stranger)[2]) == {"x": ["a", "c"]}


def test_devices_stand_twice_after_a_restart() -> None:
    """The checkpoint keeps them; that they are prepared it does not."""
    start = prepare("a", claim("x", GPU), gpu=says("x"))
    found = steps("1.36.2", start, start, {"op": "restart"}, start)
    assert [step.get("cdiDevices", {}).get("c") for step in found] == [
        ["x"],
        ["x"],
        None,
        ["x", "x"],
    ]
    assert found[1]["calls"] == {}


def test_orders_of_drivers_are_admissible_and_others_are_not() -> None:
    """One of two drivers fails: the other was asked before, or not at all."""
    case = {
        "drivers": [GPU, NET],
        "steps": [prepare("a", claim("x", GPU, NET), gpu=says("x"), net={"error": "down"})],
    }
    decided = LINES.decided("1.36.2", case)
    assert decided["steps"][0]["calls"].keys() == {GPU, NET}
    step = decided["steps"][0] | {"calls": {NET: [["prepare", ["uid-x"]]]}, "memory": None}
    other = step | {"cdiDevices": {"c": []}}
    assert LINES.judged("1.36.2", case, decided)[0] == "match"
    assert LINES.judged("1.36.2", case, {"steps": [other]})[0] == "admissible"
    verdict, why = LINES.judged("1.36.2", case, {"steps": [other | {"error": ""}]})
    assert verdict == "impossible"
    assert why.startswith('steps[0].error: the claim has "", ')


def test_the_last_of_several_inactive_pods_may_be_any() -> None:
    """Its end is the one that asks the driver; which it is shows where the driver fails."""
    both = [prepare(uid, claim("x", GPU), gpu=says("x")) for uid in "ab"]
    gone = {"op": "reconcile", "activePods": [], **told({"gpu": {"error": "down"}})}
    case = {"drivers": [GPU], "steps": [*both, gone]}
    decided = LINES.decided("1.34.9", case)
    last = decided["steps"][2]
    assert held(last) == {"x": ["b"]}
    other = last | {"checkpoint": [last["checkpoint"][0] | {"PodUIDs": ["a"]}]}
    claimed = {"steps": [*decided["steps"][:2], other]}
    assert LINES.judged("1.34.9", case, claimed)[0] == "admissible"


def test_where_a_kubelet_crashes_is_no_case() -> None:
    """The claim's allocation no longer has a driver that the kubelet holds it with."""
    failing = prepare("a", claim("x", GPU), gpu={"error": "down"})
    with pytest.raises(BadInputError, match="a kubelet crashes over ResourceClaim x"):
        steps("1.34.9", failing, prepare("a", claim("x", NET)))
