"""Allocation against the recorded kubelet, and against every outcome of a second account."""

import itertools
import json
import random
from typing import Any

import pytest

from tests.kubelet.cases.conformance import canonical
from tests.kubelet.cases.every_allocation import every_outcome
from tests.kubelet.cases.lines import Lines, container, pod

LINES = Lines("devices")
GPU, NIC = "example.com/gpu", "vendor.io/nic"


def resource(*nodes: list[int] | None, **more: object) -> dict[str, Any]:
    """A resource whose devices d0, d1, ... have these NUMA nodes; all healthy."""
    devices = [
        {"ID": f"d{i}", "health": "Healthy", **({} if on is None else {"numaNodes": on})}
        for i, on in enumerate(nodes)
    ]
    base = {"devices": devices, "preferredOrder": None, "allocateError": "", "noEndpoint": False}
    return base | more


def step(in_pod: dict[str, Any], name: str, affinity: list[int] | None = None) -> dict[str, Any]:
    return {"pod": in_pod, "container": name, "affinity": affinity}


def case(
    resources: dict[str, Any], *steps: dict[str, Any], allocated: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    """An input on a machine with four nodes."""
    return {
        "numaNodes": [0, 1, 2, 3],
        "resources": resources,
        "allocated": allocated or [],
        "activePods": [],
        "steps": list(steps),
    }


def one(resources: dict[str, Any], count: int, affinity: list[int] | None) -> dict[str, Any]:
    """One container that asks for ``count`` GPUs."""
    return case(resources, step(pod(container("c0", limits={GPU: str(count)})), "c0", affinity))


def random_case(rng: random.Random) -> dict[str, Any]:
    """A small case with everything in it that matters, errors more often than not."""

    def random_resource() -> dict[str, Any]:
        nodes = [rng.choice([None, [], [0], [1], [0, 1], [1, 2]]) for _ in range(rng.randint(1, 4))]
        made = resource(*nodes)
        for device in made["devices"]:
            device["health"] = rng.choice(["Healthy"] * 5 + ["Unhealthy"])
        ids = [d["ID"] for d in made["devices"]]
        made["preferredOrder"] = rng.choice([None, rng.sample(ids, rng.randint(0, len(ids)))])
        made["noEndpoint"] = rng.random() < 0.1
        made["allocateError"] = rng.choice(["", "", "", "", "no"])
        return made

    def limits() -> dict[str, str]:
        asked = rng.sample([GPU, NIC, "unknown.io/x"], rng.randint(1, 2))
        return {name: str(rng.randint(0, 2)) for name in asked}

    resources = {GPU: random_resource(), NIC: random_resource()}
    policy: dict[str, Any] = rng.choice([{}, {"restartPolicy": "Always"}])
    inits = [container("i0", limits=limits(), **policy)]
    first = pod(container("c0", limits=limits()), uid="u-1", initContainers=inits)
    second = pod(container("c0", limits=limits()), uid="u-2")
    names = [(first, "i0"), (first, "c0"), (second, "c0")]
    steps = [step(p, n, rng.choice([None, [0], [1], [0, 1]])) for p, n in names]
    held = {
        "podUID": "gone",
        "containerName": "c0",
        "resourceName": GPU,
        "deviceIDs": {"0": ["d0"]},
    }
    return case(resources, *steps[: rng.randint(1, 3)], allocated=rng.choice([[], [held]]))


@pytest.mark.parametrize("version", ["1.20.2", "1.28.0", "1.36.2"])
def test_exactly_the_outcomes_of_a_second_account_are_possible(version: str) -> None:
    """All of them are, and of all other grants of the last step none is."""
    for seed in range(40):
        made = random_case(random.Random(seed))
        outcomes = every_outcome(made, fixed=version != "1.20.2", sidecars=version == "1.36.2")
        assert canonical(LINES.decided(version, made)) in outcomes, seed
        for text in sorted(outcomes)[:60]:
            verdict, why = LINES.judged(version, made, json.loads(text))
            assert verdict in {"match", "admissible"}, (seed, why)
        for wrong in other_grants(json.loads(min(outcomes)), made):
            possible = canonical(wrong) in outcomes
            verdict, why = LINES.judged(version, made, wrong)
            assert (verdict != "impossible") == possible, (seed, wrong, why)


def other_grants(outcome: dict[str, Any], made: dict[str, Any]) -> list[dict[str, Any]]:
    """The outcome with every other set of devices for one resource of the last step."""
    variants = []
    last = outcome["steps"][-1]
    for name in (GPU, NIC):
        devices = made["resources"][name]["devices"]
        for size in range(len(devices) + 1):
            for chosen in itertools.combinations(devices, size):
                record: dict[str, list[str]] = {}
                for device in chosen:
                    for node in device.get("numaNodes") or [-1]:
                        record.setdefault(str(node), []).append(device["ID"])
                held = {k: v for k, v in last["devices"].items() if k != name}
                changed = last | {"devices": held | ({name: record} if record else {})}
                variants.append({"steps": [*outcome["steps"][:-1], changed]})
    return variants


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("1.21.14", {"0": ["d0"]}),
        ("1.22.17", {"0": ["d0"]}),
        ("1.23.0", {"-1": ["d0"]}),
        ("1.36.0", {"-1": ["d0"]}),
    ],
)
def test_where_a_device_without_topology_is_recorded(
    version: str, expected: dict[str, list[str]]
) -> None:
    """Node 0, and -1 since 1.23."""
    outcome = LINES.decided(version, one({GPU: resource(None)}, 1, None))
    assert outcome["steps"][0]["devices"] == {GPU: expected}


@pytest.mark.parametrize(
    ("version", "error"),
    [
        ("1.25.9", ""),
        ("1.25.10", "no healthy devices present; cannot allocate unhealthy devices " + GPU),
        ("1.26.4", ""),
        ("1.26.5", "no healthy devices present; cannot allocate unhealthy devices " + GPU),
        ("1.27.1", ""),
        ("1.27.2", "no healthy devices present; cannot allocate unhealthy devices " + GPU),
        ("1.28.0", "no healthy devices present; cannot allocate unhealthy devices " + GPU),
    ],
)
def test_a_limit_of_zero_can_fail(version: str, error: str) -> None:
    """Since health is checked before the number of devices that are needed."""
    assert LINES.decided(version, one({GPU: resource()}, 0, None))["steps"][0]["error"] == error


@pytest.mark.parametrize(("version", "shared"), [("1.28.15", True), ("1.29.0", False)])
def test_a_sidecar_keeps_its_devices(version: str, shared: bool) -> None:
    """Since 1.29 the app container cannot have them."""
    gpu = {GPU: "1"}
    both = pod(
        container("c0", limits=gpu),
        initContainers=[container("i0", limits=gpu, restartPolicy="Always")],
    )
    outcome = LINES.decided(
        version, case({GPU: resource(None)}, step(both, "i0"), step(both, "c0"))
    )
    assert (outcome["steps"][1]["error"] == "") == shared


@pytest.mark.parametrize(
    ("version", "device", "verdict"),
    [
        ("1.21.14", "d1", "match"),
        ("1.21.14", "d0", "admissible"),
        ("1.22.0", "d1", "match"),
        ("1.22.0", "d0", "impossible"),
    ],
)
def test_a_device_on_several_nodes(version: str, device: str, verdict: str) -> None:
    """Up to 1.21 an arbitrary one of its nodes could say where it belongs."""
    devices = resource([1], [1, 2])
    chosen = next(d for d in devices["devices"] if d["ID"] == device)
    record = {str(node): [device] for node in chosen["numaNodes"]}
    outcome = {"steps": [{"error": "", "devices": {GPU: record}}]}
    assert LINES.judged(version, one({GPU: devices}, 1, [2]), outcome)[0] == verdict


@pytest.mark.parametrize(("version", "skipped"), [("1.35.9", False), ("1.36.0", True)])
def test_resources_that_a_claim_stands_for(version: str, skipped: bool) -> None:
    """Of the container that the mapping names alone; in 1.35 the gate is off."""
    limits = {GPU: "1", NIC: "1"}
    of = pod(container("c0", limits=limits), container("c1", limits=limits))
    mapping = {"containerName": "c0", "resourceName": GPU, "requestName": "r"}
    claim = {"resourceClaimName": "rc", "requestMappings": [mapping]}
    of["status"] = {"extendedResourceClaimStatus": claim, "phase": "Pending"}
    resources = {GPU: resource([0], [0]), NIC: resource([0], [0])}
    made = case(resources, step(of, "c0"), step(of, "c1"))
    outcome = LINES.decided(version, made)
    first, second = (set(one["devices"]) for one in outcome["steps"])
    assert (first, second) == ({NIC} if skipped else {GPU, NIC}, {GPU, NIC})
    assert LINES.judged(version, made, outcome)[0] == "match"
    other = case(resources, step(of, "c0"))
    claimed = {"steps": [{"error": "", "devices": {NIC: {"0": ["d1"]}}}]}
    assert (LINES.judged(version, other, claimed)[0] == "admissible") is skipped
