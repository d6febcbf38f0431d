"""Who gets memory of NUMA nodes, how much, and what later containers use again."""

from typing import Any

import msgspec
import pytest

from kubeledger.kubelet.kube.pod import Pod
from kubeledger.kubelet.memorymanager.hints import RequestedMemory
from kubeledger.kubelet.profile.resolve import resolve, with_gates

OLD, SIDECARS, NEW = (
    RequestedMemory(resolve(version)) for version in ("1.21.0", "1.28.0", "1.36.0")
)


def container(name: str, memory: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON value
    amounts = {"cpu": "100m", "memory": memory, "hugepages-2Mi": "4Mi"}
    return {"name": name, "resources": {"requests": amounts, "limits": amounts}, **more}


def pod(*init: dict[str, Any], app: tuple[dict[str, Any], ...]) -> Pod:
    """A pod as the API server shows it."""
    return msgspec.convert({"spec": {"containers": app, "initContainers": init}}, Pod)


def test_guaranteed_pods_get_what_they_request() -> None:
    """Memory and huge pages, and nothing for other classes."""
    made = pod(app=(container("a", "100"),))
    assert made.spec.containers is not None
    assert NEW.gets(made)
    asked = NEW.of_container(made, made.spec.containers[0])
    assert asked == {"memory": 100, "hugepages-2Mi": 4 << 20}
    burstable = msgspec.convert({"spec": {"containers": [{"name": "a"}]}}, Pod)
    assert not NEW.gets(burstable)
    said = msgspec.convert({"spec": {"containers": []}, "status": {"qosClass": "Guaranteed"}}, Pod)
    assert NEW.gets(said)


WITH_PODS = {"PodLevelResources": True, "PodLevelResourceManagers": True}


@pytest.mark.parametrize(
    ("version", "gates", "gets"),
    [
        ("1.33.0", {"PodLevelResources": True}, True),
        ("1.33.0", {}, False),
        ("1.34.0", {}, False),
        ("1.36.0", {}, False),
        ("1.36.0", WITH_PODS, True),
        ("1.37.0", {}, True),
    ],
)
def test_pods_with_resources_of_their_own(version: str, gates: dict[str, bool], gets: bool) -> None:
    """They are skipped since 1.34, but for the gate with which they get memory as a whole.

    By its record it is on in 1.37.
    """
    amounts = {"cpu": "1", "memory": "1Gi"}
    whole = {"containers": [{"name": "a"}], "resources": {"requests": amounts, "limits": amounts}}
    made = msgspec.convert({"spec": whole}, Pod)
    assert RequestedMemory(with_gates(resolve(version), gates)).gets(made) is gets


@pytest.mark.parametrize(
    ("name", "by", "sizes"),
    [
        ("init", NEW, {100, 40, 10}),
        ("side", NEW, {50}),
        ("side", SIDECARS, {50, 0}),
        ("a", NEW, {60}),
        ("b", NEW, {30}),
        ("init", OLD, {100}),
    ],
)
def test_init_containers_shrink(name: str, by: RequestedMemory, sizes: set[int]) -> None:
    """By what each later one takes; sidecars keep theirs since 1.29; none shrank in 1.21."""
    side = container("side", "50", restartPolicy="Always")
    made = pod(side, container("init", "100"), app=(container("a", "60"), container("b", "30")))
    assert by.sizes_after_reuse(made, name, "memory") == sizes
