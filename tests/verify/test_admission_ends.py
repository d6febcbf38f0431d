"""Scenes of admission with pods that end by themselves, and with devices that come back."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kubeledger.devicemanager.records import (
    DevicesAllocated,
    DevicesReleased,
    DevicesReported,
)
from kubeledger.lifecycle.records import ContainerDied, ContainerStarted
from kubeledger.machine import Body
from kubeledger.node.records import KubeletStarted, NodeObserved
from kubeledger.verify import Contradiction
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


@pytest.mark.parametrize(
    ("shown", "what", "lets_in", "keeps_out"),
    [
        pytest.param(pod("Never"), [("i", 1)], True, False, id="its init container failed"),
        pytest.param(
            pod("Never", restartPolicy="Always"), [("i", 1)], False, True, id="a sidecar did"
        ),
        pytest.param(pod("Never"), [("i", 0), ("c", 3)], True, False, id="it is done"),
        pytest.param(pod("Always"), [("i", 0), ("c", 3)], False, True, id="it starts again"),
        pytest.param(pod("OnFailure"), [("i", 1)], False, True, id="it is tried again"),
    ],
)
def test_a_pod_that_no_list_has_shown_yet(
    shown: Step, what: list[tuple[str, int]], lets_in: bool, keeps_out: bool
) -> None:
    """What it is like is told by the list that comes later."""
    life = [s for n, (name, code) in enumerate(what) for s in container(name, 2 + 2 * n, code)]
    scene: list[Any] = [start(), admitted("a", 1), life, shown, listed("x", asks("600m"))]
    (found,) = findings_of(judge(*scene, admitted("x", 15)), "x")
    assert (found.verdict != "impossible") is lets_in
    (found,) = findings_of(judge(*scene, refused("x", 15, "OutOfcpu", FULL)), "x")
    assert (found.verdict != "impossible") is keeps_out


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


def test_a_failed_pod_counts_until_its_sidecar_is_down() -> None:
    """Either may be while that is being stopped."""
    steps = [*container("s", 2), *container("i", 3, 1)]
    inits = [{"name": "s", "restartPolicy": "Always"}, {"name": "i"}]
    shown = listed("a", asks("500m"), restartPolicy="Never", initContainers=inits, at=30)
    scene: list[Any] = [start(), admitted("a", 1), steps, shown, listed("x", asks("600m"))]
    for decided in (admitted("x", 15), refused("x", 15, "OutOfcpu", FULL)):
        (found,) = findings_of(judge(*scene, decided), "x")
        assert found.verdict in ("match", "admissible")


@pytest.mark.parametrize(("later", "may_be_done"), [(0.5, True), (30, False)])
def test_an_end_that_is_told_once_the_sync_loop_goes_on(later: float, may_be_done: bool) -> None:
    """Its containers were down while another pod was let in, which holds up all that is told."""
    shown = pod("Never")
    who: dict[str, Any] = {**identity("a"), "container": "c", "container_id": "id-c-2"}
    end: Step = (15 + later, ContainerDied(**who, sandbox=False, exit_code=1))
    scene: list[Any] = [start(), admitted("a", 1), container("c", 2), end, shown]
    told = judge(*scene, listed("x", asks("600m")), admitted("x", 15))
    (found,) = findings_of(told, "x")
    assert found.verdict == ("admissible" if may_be_done else "impossible")


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


@pytest.mark.parametrize(("saved", "capacity"), [(False, 2), (True, 0)])
def test_devices_of_a_stale_checkpoint_count_again(saved: bool, capacity: int) -> None:
    """The release is not written down until devices are given again, or a plugin sends a list."""
    held = DevicesAllocated(
        **identity("a"), container="c", resource=NIC, device_ids=("n0", "n1"), numa=None
    )
    sent: Step = (5, DevicesReported(resource=NIC, total=2, healthy=2, device_ids=("n0", "n1")))
    gone: Step = (8, DevicesReleased(pod_uid="uid-a"))
    node: Step = (
        100.3,
        NodeObserved(
            labels={"a": "b"}, allocatable={"cpu": "1", "memory": "1Gi", "pods": "10", NIC: "0"}
        ),
    )
    message = f"Node didn't have enough resource: {NIC}, requested: 3, used: 0, capacity: "
    write = [(9.0, sent[1])] if saved else []
    steps: list[Any] = [start(), sent, (6.0, held), gone, write, again(100), node]
    shown = listed("x", asks(ns__example_nic="3"))
    body = msgspec.to_builtins(shown[1])
    body["spec"]["containers"][0]["resources"]["requests"] = {NIC: "3"}
    shown = (shown[0], msgspec.convert(body, type(shown[1])))
    for told in (0, 1, 2):
        refusal = refused("x", 101, f"OutOf{NIC}", f"{message}{told}")
        (found,) = findings_of(judge(*steps, refusal, shown), "x")
        assert (found.verdict != "impossible") is (told in (0, capacity))


def test_the_status_of_a_refusal_by_the_process_before() -> None:
    """A list just before the kubelet starts anew tells of that one's refusal."""
    steps: list[Any] = [start()]
    for at, used in ((54, "500"), (57.8, "700")):
        message = FULL.replace("used: 500", f"used: {used}")
        status = {"phase": "Failed", "reason": "OutOfcpu", "message": f"Pod {message}"}
        shown = listed("x", asks("600m"), at=at + 2, status=status)
        steps += [refused("x", at, "OutOfcpu", message), shown]
    told = judge(*steps, again(57))
    assert [o for o in told if isinstance(o, Contradiction)] == []
