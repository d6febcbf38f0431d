"""What a pod cannot ask for is refused alike by all that decide about pods, with its path."""

from typing import Any

import msgspec
import pytest

from kubeledger.kubelet.cases.registry import decider_of
from kubeledger.model.errors import BadInputError
from tests.kubelet.cases.test_bad_fields import SOUND


def inputs(pod: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """Subsystem and path of the pod -> input around it."""
    critical = {"metadata": {"uid": "c"}, "spec": {"containers": [], "priority": 2_000_000_000}}
    return {
        ("admission", "pod"): SOUND["admission"] | {"pod": pod},
        ("admission", "activePods[0]"): SOUND["admission"] | {"pod": critical, "activePods": [pod]},
        ("cgroup", "pod"): SOUND["cgroup"] | {"pod": pod},
        ("cgroupv2", "pod"): SOUND["cgroupv2"] | {"pod": pod},
        ("qos", "activePods[0]"): SOUND["qos"] | {"activePods": [pod]},
    }


def spec(place: str, resource: str, amount: object) -> dict[str, Any]:
    """A spec with the amount at the place, and the plainest amounts everywhere else."""
    amounts: dict[str, dict[str, object]] = {
        key: {"cpu": "1"}
        for key in (
            "containers[0].resources.requests",
            "containers[0].resources.limits",
            "initContainers[0].resources.requests",
            "overhead",
            "resources.limits",
        )
    }
    amounts[place] = {resource: amount}
    app = {"requests": amounts["containers[0].resources.requests"]}
    app["limits"] = amounts["containers[0].resources.limits"]
    init = {"requests": amounts["initContainers[0].resources.requests"]}
    return {
        "containers": [{"name": "c", "resources": app}],
        "initContainers": [{"name": "i", "resources": init}],
        "overhead": amounts["overhead"],
        "resources": {"limits": amounts["resources.limits"]},
    }


@pytest.mark.parametrize("version", ["1.20.2", "1.36.2"])
@pytest.mark.parametrize("amount", ["-1", "-1n", "-1e30", "1x", "", None, -0.5])
@pytest.mark.parametrize(
    ("place", "resource", "named"),
    [
        ("containers[0].resources.requests", "cpu", ".cpu"),
        ("containers[0].resources.limits", "memory", ".memory"),
        ("containers[0].resources.limits", "ephemeral-storage", '["ephemeral-storage"]'),
        ("initContainers[0].resources.requests", "example.com/gpu", '["example.com/gpu"]'),
        ("overhead", "memory", ".memory"),
        ("resources.limits", "cpu", ".cpu"),
    ],
)
def test_refused_alike(version: str, place: str, resource: str, amount: object, named: str) -> None:
    """Also where nothing depends on the amount."""
    pod = {"metadata": {"name": "p", "uid": "p"}, "spec": spec(place, resource, amount)}
    for (subsystem, path), case_input in inputs(pod).items():
        line = msgspec.json.encode({"id": "x", "kubelet": version, "input": case_input})
        with pytest.raises(BadInputError) as caught:
            decider_of(subsystem)(line)
        assert caught.value.message.startswith(f"input.{path}.spec.{place}{named}: "), subsystem


@pytest.mark.parametrize("amount", ["0", 0, "1e999", "1e2000000000", "12345678901234567890e99999"])
def test_taken_alike(amount: object) -> None:
    containers = [{"name": "c", "resources": {"requests": {"memory": amount}}}]
    pod = {"metadata": {"name": "p", "uid": "p"}, "spec": {"containers": containers}}
    for (subsystem, _), case_input in inputs(pod).items():
        line = msgspec.json.encode({"id": "x", "kubelet": "1.36.2", "input": case_input})
        assert b"outcome" in decider_of(subsystem)(line)
