"""Scenes of admission with pods that end by themselves, and with devices that come back."""

from __future__ import annotations

from typing import Any

import pytest

from kubeledger.devicemanager.records import DevicesReported
from kubeledger.lifecycle.records import ContainerDied, ContainerStarted
from kubeledger.machine import Body
from kubeledger.node.records import KubeletStarted
from tests.verify.admission_world import (
    admitted,
    asks,
    findings_of,
    identity,
    judge,
    listed,
    refused,
    settings_of,
    start,
)

Step = tuple[float, Body]
FULL = "Node didn't have enough resource: cpu, requested: 600, used: 500, capacity: 1000"
NIC = "ns.example/nic"
NICS = {"name": "c", "resources": {"requests": {NIC: "9"}}}


def container(name: str, at: float, exit_code: int | None = None) -> list[Step]:
    """A container of pod ``a`` starts, and has ended a second later if it has an exit code."""
    who: dict[str, Any] = {**identity("a"), "container": name, "container_id": f"id-{name}-{at}"}
    begin: Step = (at, ContainerStarted(**who, sandbox=False))
    if exit_code is None:
        return [begin]
    return [begin, (at + 1, ContainerDied(**who, sandbox=False, exit_code=exit_code))]


def pod(policy: str, **sidecar: str) -> Step:
    """Pod ``a`` with an init container."""
    first = {"name": "i", **sidecar}
    return listed("a", asks("500m"), restartPolicy=policy, initContainers=[first], at=30)


@pytest.mark.parametrize(("starts", "counts"), [(True, False), (False, True)])
def test_a_container_that_nobody_saw_start(starts: bool, counts: bool) -> None:
    """Its image may be missing: the pod is not done when all the others are."""
    other = {**asks(), "name": "d"}
    shown = listed("a", asks("500m"), other, restartPolicy="OnFailure", at=30)
    life = [*container("c", 2, 0), *(container("d", 2, 0) if starts else [])]
    scene: list[Any] = [start(), admitted("a", 1), life, shown, listed("x", asks("600m"))]
    (found,) = findings_of(judge(*scene, refused("x", 15, "OutOfcpu", FULL)), "x")
    assert (found.verdict != "impossible") is counts
    (found,) = findings_of(judge(*scene, admitted("x", 15)), "x")
    assert found.verdict != "impossible"


def again(at: float) -> list[Step]:
    """Another kubelet process."""
    begin = KubeletStarted(
        pid=2, kubelet_version="1.36.2", version_source="log", restart=True, from_start=True
    )
    return [(at, begin), (at + 0.1, settings_of())]


@pytest.mark.parametrize(("policy", "possible"), [("Never", True), ("Always", False)])
def test_a_static_pod_that_had_ended_is_let_in_again(policy: str, possible: bool) -> None:
    """And counts no more as soon as it is synced."""
    shown = listed("a", asks("500m"), restartPolicy=policy)
    first = [*admitted("a", 1, "file"), *container("c", 2, 1)]
    scene: list[Any] = [start(), first, again(100), admitted("a", 101, "file"), shown]
    told = judge(*scene, listed("x", asks("600m")), admitted("x", 101.5))
    (found,) = findings_of(told, "x")
    assert (found.verdict != "impossible") is possible


def test_devices_that_the_node_object_does_not_list_yet() -> None:
    """It lags behind the device manager: any number up to those that there are may stand in it."""
    sent: Step = (5, DevicesReported(resource=NIC, total=2, healthy=2, device_ids=("n0", "n1")))
    message = f"Node didn't have enough resource: {NIC}, requested: 9, used: 0, capacity: "
    for told in (0, 1, 2, 3):
        refusal = refused("x", 101, f"OutOf{NIC}", f"{message}{told}")
        (found,) = findings_of(judge(start(), sent, refusal, listed("x", NICS)), "x")
        assert (found.verdict != "impossible") is (told < 3)
