"""Branches of an allocation that no conformance case reaches: bad answers, kubelet restarts."""

import msgspec
import pytest

from kubeledger.kubelet.devicemanager.allocate import AllocateCall, admissible, decide
from kubeledger.kubelet.devicemanager.manager import Device, ManagerImpl, NoContainers, RpcError
from kubeledger.kubelet.devicemanager.topology_hints import topology_hints
from kubeledger.kubelet.profile.resolve import resolve

GPU = "example.com/gpu"


class Answers(msgspec.Struct, frozen=True):
    """A plugin that answers so."""

    preference: frozenset[str] | RpcError | None = None
    answer: RpcError | NoContainers | None = None

    def preferred(
        self, available: frozenset[str], must_include: frozenset[str], size: int
    ) -> frozenset[str] | RpcError | None:
        return self.preference

    def allocate(self, devices: frozenset[str]) -> RpcError | NoContainers | None:
        return self.answer


def node(plugin: Answers, *nodes: int, version: str = "1.36.2") -> ManagerImpl:
    """Devices d0, d1, ... on these NUMA nodes."""
    manager = ManagerImpl([0, 1], resolve(version).devices)
    manager.report(GPU, [Device(f"d{i}", "Healthy", (on,)) for i, on in enumerate(nodes)])
    manager.register(GPU, plugin)
    return manager


def call(count: int, **more: object) -> AllocateCall:
    """A container that asks for devices."""
    made = AllocateCall(pod="u", container="c", limits={GPU: count}, active_pods=frozenset({"u"}))
    return msgspec.structs.replace(made, **more)


@pytest.mark.parametrize(
    ("affinity", "leaked"),
    [
        pytest.param(0b01, {"d0"}, id="too few aligned: those were picked before"),
        pytest.param(0b10, set[str](), id="enough aligned: nothing was picked yet"),
        pytest.param(None, set[str](), id="no affinity"),
    ],
)
def test_a_preference_that_fails(affinity: int | None, leaked: set[str]) -> None:
    """The call fails, and what was picked stays in use, held by nobody."""
    manager = node(Answers(preference=RpcError("rpc error: gone")), 0, 1, 1, 1)
    before = manager.fork()
    asked = call(2, affinity=affinity)
    error = decide(manager, asked)
    assert error == "device plugin GetPreferredAllocation rpc failed with err: rpc error: gone"
    assert manager.allocated.get(GPU, set()) == leaked
    assert not manager.pod_devices.pods()
    (after,) = admissible(before, asked, error, {})
    assert after.allocated.get(GPU, set()) == leaked


def test_a_preference_that_is_not_asked_for() -> None:
    """All aligned devices are wanted, so the plugin has nothing to choose; none is on node -1."""
    manager = node(Answers(preference=RpcError("gone")), -1, 1, 1)
    assert decide(manager, call(2, affinity=0b10)) == ""
    assert manager.allocated[GPU] == {"d1", "d2"}


def test_an_answer_without_containers() -> None:
    """The devices stay in use until something rebuilds what is in use."""
    manager = node(Answers(answer=NoContainers("&AllocateResponse{}")), 0, 0)
    before, asked = manager.fork(), call(2)
    error = decide(manager, asked)
    assert error == "no containers return in allocation response &AllocateResponse{}"
    assert manager.allocated[GPU] == {"d0", "d1"}
    assert manager.pod_devices.devices() == {}
    assert decide(manager, call(1)).endswith("Requested: 1, Available: 0")
    (after,) = admissible(before, asked, error, {})
    assert after.allocated[GPU] == {"d0", "d1"}


def test_a_negative_limit() -> None:
    """It cannot be counted down to zero: all aligned devices are picked for nothing."""
    manager = node(Answers(), 0, 1, 1)
    error = decide(manager, call(-1, affinity=0b10))
    assert error == "unexpectedly allocated less resources than required. Requested: -1, Got: 2"
    assert manager.allocated[GPU] == {"d1", "d2"}


@pytest.mark.parametrize(
    ("version", "ready", "ran", "granted"),
    [
        ("1.36.2", False, True, False),
        ("1.36.2", True, True, True),
        ("1.36.2", False, False, True),
        ("1.28.0", False, True, False),
        ("1.27.5", False, True, True),
        ("1.27.6", False, True, False),
        ("1.20.2", False, True, True),
    ],
)
def test_a_container_that_ran_before_the_kubelet(
    version: str, ready: bool, ran: bool, granted: bool
) -> None:
    """It has its devices already, whatever the plugin says by now."""
    manager = node(Answers(), 0, version=version)
    before, asked = manager.fork(), call(1, sources_ready=ready, ran_at_start=ran)
    assert decide(manager, asked) == ""
    held = {GPU: {0: ["d0"]}} if granted else {}
    assert manager.pod_devices.held_by("u", "c") == held
    assert admissible(before, asked, "", held)
    other: dict[str, dict[int, list[str]]] = {} if granted else {GPU: {0: ["d0"]}}
    assert not admissible(before, asked, "", other)


def test_a_container_that_ran_and_asks_for_another_number() -> None:
    manager = node(Answers(), 0, 0)
    manager.pod_devices.insert("u", "c", GPU, {0: ["d0"]})
    manager.restore_allocated()
    error = decide(manager, call(2, sources_ready=False, ran_at_start=True))
    assert error == f'pod "u" container "c" changed request for resource "{GPU}" from 1 to 2'


@pytest.mark.parametrize("version", ["1.20.2", "1.36.2"])
def test_nothing_is_collected_before_all_sources_are_ready(version: str) -> None:
    """Devices of pods that are not known yet are not given to others."""
    manager = node(Answers(), 0, version=version)
    manager.pod_devices.insert("gone", "c", GPU, {0: ["d0"]})
    manager.restore_allocated()
    unready = manager.fork()
    assert "Available: 0" in decide(unready, call(1, sources_ready=False))
    assert topology_hints(unready, "u", "c", {GPU: 1}, None) == {GPU: ()}
    assert topology_hints(manager.fork(), "u", "c", {GPU: 1}, {"u"})[GPU]
    assert decide(manager, call(1)) == ""
