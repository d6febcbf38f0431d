"""Hints of the device manager against the recorded kubelet, and by version."""

from typing import Any

import pytest

from tests.kubelet.cases.lines import Lines, container, pod

LINES = Lines("topologyhints")
GPU = "example.com/gpu"


def case(
    *nodes: list[int] | None,
    of_pod: dict[str, Any] | None = None,
    machine: tuple[int, ...] = (0, 1),
    **more: object,
) -> dict[str, Any]:
    """One GPU is asked for; devices d0, d1, ... have these nodes."""
    devices = [
        {"ID": f"d{i}", "health": "Healthy", **({} if on is None else {"numaNodes": on})}
        for i, on in enumerate(nodes)
    ]
    step = {"pod": of_pod or pod(container("c0", limits={GPU: "1"})), "container": "c0"}
    return {
        "numaNodes": list(machine),
        "resources": {GPU: {"devices": devices}},
        "allocated": [],
        "activePods": [],
        "scope": "container",
        "steps": [step | {"affinity": None}],
    } | more


def hints(version: str, made: dict[str, Any]) -> Any:  # noqa: ANN401  # JSON
    """Hints for GPUs: nodes, and a mark where they are preferred."""
    reported = LINES.decided(version, made)["steps"][0]["hints"][GPU]
    return reported and [(h["numaNodes"], h["preferred"]) for h in reported]


@pytest.mark.parametrize(("version", "expected"), [("1.25.16", []), ("1.26.0", None)])
def test_a_topology_without_nodes(version: str, expected: list[object] | None) -> None:
    """It counted as one up to 1.25, with which no node fits."""
    assert hints(version, case([], [])) == expected


@pytest.mark.parametrize(
    ("version", "expected"), [("1.35.5", [([1], True), ([0, 1], False)]), ("1.35.6", [([1], True)])]
)
def test_nodes_without_devices(version: str, expected: list[object]) -> None:
    """They are left out since 1.35.6."""
    assert hints(version, case([1])) == expected


@pytest.mark.parametrize(
    ("version", "fits"), [("1.26.15", True), ("1.27.0", True), ("1.28.0", False), ("1.36.2", False)]
)
def test_a_pod_with_a_sidecar_needs_more_since_1_28(version: str, fits: bool) -> None:
    gpu = {GPU: "1"}
    sidecar = container("i0", limits=gpu, restartPolicy="Always")
    made = case([0], of_pod=pod(container("c0", limits=gpu), initContainers=[sidecar]), scope="pod")
    assert bool(hints(version, made)) == fits


@pytest.mark.parametrize(("version", "fits"), [("1.26.15", False), ("1.27.0", True)])
def test_fractions_are_rounded_up_one_by_one_up_to_1_26(version: str, fits: bool) -> None:
    half = {GPU: "500m"}
    of_pod = pod(container("c0", limits=half), container("c1", limits=half))
    assert bool(hints(version, case([0], of_pod=of_pod, scope="pod"))) == fits


def test_1_19_takes_nodes_in_any_order() -> None:
    made = case([0], [1])
    mine = LINES.decided("1.19.16", made)
    first, second, both = mine["steps"][0]["hints"][GPU]
    other = {"steps": [{"hints": {GPU: [second, first, both]}}]}
    wrong = {"steps": [{"hints": {GPU: [both, first, second]}}]}
    assert LINES.judged("1.19.16", made, other)[0] == "admissible"
    assert LINES.judged("1.20.0", made, other)[0] == "impossible"
    assert LINES.judged("1.19.16", made, wrong)[0] == "impossible"
