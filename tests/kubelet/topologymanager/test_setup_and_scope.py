"""Masks, options and set-up errors, admission in both scopes."""

import msgspec
import pytest

from kubeledger.kubelet.kube.pod import Container, ObjectMeta, Pod, PodSpec, ResourceRequirements
from kubeledger.kubelet.profile.resolve import resolve, with_gates
from kubeledger.kubelet.topologymanager.policy import (
    NUMANodeError,
    Policy,
    ProviderHints,
    TopologyHint,
    bits_of,
    iterate_bit_masks,
    mask_of,
)
from kubeledger.kubelet.topologymanager.reducer import (
    HANDLERS,
    POD_SCOPE,
    TopologyManagerState,
)
from kubeledger.kubelet.topologymanager.scope import (
    ConfigurationError,
    PolicyOptions,
    Scope,
    TopologySettings,
    new_policy,
    policy_options,
)
from kubeledger.model.bodies.resourcemanagers import AffinityDecided, Hint
from kubeledger.model.record import Record
from tests.replay.strategies import record

FACTS = resolve("1.36.0").topology
PAIR = Pod(
    spec=PodSpec(containers=(Container(name="a"), Container(name="b"))),
    metadata=ObjectMeta(uid="u"),
)
CLOSEST, ALLOWABLE = "prefer-closest-numa-nodes", "max-allowable-numa-nodes"


def test_masks_go_by_size_then_by_place() -> None:
    """In the order of the machine's list of nodes."""
    assert [bits_of(mask) for mask in iterate_bit_masks([2, 0])] == [[2], [0], [0, 2]]


@pytest.mark.parametrize("node", [-1, 64])
def test_nodes_no_mask_can_hold(node: int) -> None:
    with pytest.raises(NUMANodeError, match="range 0-63"):
        mask_of([node])


ALPHA, BETA = "TopologyManagerPolicyAlphaOptions", "TopologyManagerPolicyBetaOptions"


@pytest.mark.parametrize(
    ("version", "options", "gates", "error"),
    [
        ("1.25.0", {CLOSEST: "true"}, {ALPHA: True}, "unknown Topology Manager Policy option"),
        ("1.27.0", {CLOSEST: "true"}, {}, "Policy Alpha-level Options not enabled"),
        ("1.26.0", {CLOSEST: "true"}, {ALPHA: True}, ""),
        ("1.31.0", {CLOSEST: "true"}, {BETA: False}, "Policy Beta-level Options not enabled"),
        ("1.28.0", {CLOSEST: "true"}, {}, ""),
        ("1.32.0", {CLOSEST: "true"}, {BETA: False}, ""),
        ("1.30.0", {ALLOWABLE: "9"}, {}, "unknown Topology Manager Policy option"),
        ("1.31.0", {ALLOWABLE: "9"}, {BETA: False}, "Policy Beta-level Options not enabled"),
        ("1.32.0", {ALLOWABLE: "9"}, {BETA: False}, "Policy Beta-level Options not enabled"),
        ("1.33.1", {ALLOWABLE: "9"}, {BETA: False}, "policy beta-level options not enabled"),
        ("1.34.0", {ALLOWABLE: "9"}, {BETA: False}, "policy beta-level options not enabled"),
        ("1.35.0", {ALLOWABLE: "9"}, {BETA: False}, ""),
        ("1.36.0", {ALLOWABLE: "7"}, {}, "should not be less than 8"),
        ("1.36.0", {ALLOWABLE: "x"}, {}, "unable to convert policy option to integer"),
        ("1.36.0", {CLOSEST: "yes"}, {}, "bad value for option"),
    ],
)
def test_options(version: str, options: dict[str, str], gates: dict[str, bool], error: str) -> None:
    facts = with_gates(resolve(version), gates).topology
    if not error:
        assert policy_options(options, facts) != PolicyOptions()
        return
    with pytest.raises(ConfigurationError, match=error):
        policy_options(options, facts)


@pytest.mark.parametrize(
    ("version", "policy", "scope", "nodes", "error"),
    [
        ("1.36.0", "none", "container", 64, ""),
        ("1.28.0", "none", "node", 2, ""),
        ("1.27.0", "none", "node", 2, 'unknown scope: "node"'),
        ("1.36.0", "restricted", "pod", 8, ""),
        ("1.36.0", "restricted", "pod", 9, "unsupported on machines with more than 8 NUMA Nodes"),
        ("1.36.0", "strict", "pod", 2, 'unknown policy: "strict"'),
        ("1.36.0", "restricted", "node", 2, 'unknown scope: "node"'),
        ("1.19.0", "restricted", "pod", 2, 'unknown scope: "pod"'),
    ],
)
def test_set_up(version: str, policy: str, scope: str, nodes: int, error: str) -> None:
    """What the topology manager refuses to start with; under policy none nothing since 1.28."""
    settings, facts = TopologySettings(policy=policy, scope=scope), resolve(version).topology
    distances = dict.fromkeys(range(nodes))
    if not error:
        assert new_policy(settings, distances, facts).name == policy
        return
    with pytest.raises(ConfigurationError, match=error):
        new_policy(settings, distances, facts)


def test_distances_are_needed_by_the_option_alone() -> None:
    rows = {0: [10, 20], 1: None}
    plain = TopologySettings(policy="restricted")
    assert new_policy(plain, rows, FACTS).distances is None
    with pytest.raises(ConfigurationError, match="error getting NUMA distances from cadvisor"):
        new_policy(TopologySettings(policy="restricted", options={CLOSEST: "1"}), rows, FACTS)


class Node:
    """A provider that gives out what it has, one unit a container, of node 0 and 1."""

    def __init__(self, *free: int) -> None:
        self.free = list(free)
        self.calls: list[tuple[str | None, int | None]] = []

    def get_topology_hints(self, pod: Pod, container: Container) -> ProviderHints:
        return self._hints(1)

    def get_pod_topology_hints(self, pod: Pod) -> ProviderHints:
        return self._hints(2)

    def allocate(self, pod: Pod, container: Container, affinity: TopologyHint) -> None:
        self.calls.append((container.name, affinity.affinity))
        self.free[0 if affinity.affinity in (None, 1) else 1] -= 1

    def allocate_pod(self, pod: Pod, affinity: TopologyHint) -> None:
        self.calls.append((None, affinity.affinity))

    def _hints(self, needed: int) -> ProviderHints:
        fitting = (n for n in (0, 1) if self.free[n] >= needed)
        return {"r": tuple(TopologyHint(1 << n, preferred=True) for n in fitting)}


@pytest.mark.parametrize(
    ("scope", "free", "message", "asked"),
    [
        ("pod", (2, 0), "", [(None, 1)]),
        ("pod", (1, 1), "under pod-scope topology manager", []),
        ("container", (1, 0), "with a container-level topology manager", [("a", 1)]),
    ],
)
def test_a_pod_with_resources_of_its_own(
    scope: str, free: tuple[int, int], message: str, asked: list[tuple[str | None, int]]
) -> None:
    """With the gate of the managers it is allocated as a whole in scope pod."""
    node = Node(*free)
    profile = with_gates(resolve("1.36.2"), {"PodLevelResourceManagers": True})
    policy = Policy(name="restricted", numa_nodes=(0, 1))
    whole = ResourceRequirements(requests={"cpu": "2"})
    pod = msgspec.structs.replace(PAIR, spec=msgspec.structs.replace(PAIR.spec, resources=whole))
    result = Scope(policy, scope, [node], profile).admit(pod)
    assert result.message.endswith(message)
    assert node.calls == asked


# -- Affinities by pod and container ---------------------------------------------------------------


def evolve(state: TopologyManagerState, about: Record) -> TopologyManagerState:
    """Apply one record, in place."""
    HANDLERS[type(about.body)](state, about.ts_ns, about.body)
    return state


def affinity(container: str | None, uid: str | None = "u") -> AffinityDecided:
    """Affinity for NUMA node 1."""
    hint = Hint(numa_nodes=(1,), preferred=True)
    return AffinityDecided(
        namespace="ns", pod="p", pod_uid=uid, container=container, hint=hint, policy="restricted"
    )


def test_affinity_is_kept_per_container_or_for_the_pod() -> None:
    state = evolve(TopologyManagerState(), record(1, affinity("c")))
    state = evolve(state, record(2, affinity(None)))
    assert set(state.pods["u"]) == {"c", POD_SCOPE}
    kept = state.pods["u"]["c"]
    assert (kept.numa_nodes, kept.preferred, kept.policy) == ((1,), True, "restricted")
    assert kept.since_ts_ns == 10**9


def test_the_newest_affinity_counts() -> None:
    """A kubelet restart merges hints again."""
    state = evolve(TopologyManagerState(), record(1, affinity("c")))
    again = AffinityDecided(
        namespace="ns", pod="p", pod_uid="u", container="c",
        hint=Hint(numa_nodes=None, preferred=False), admit=True,
    )  # fmt: skip
    kept = evolve(state, record(2, again)).pods["u"]["c"]
    assert (kept.numa_nodes, kept.preferred, kept.admit) == (None, False, True)


def test_what_names_no_pod_is_passed_over() -> None:
    """A record without pod cannot be kept anywhere."""
    nameless = AffinityDecided(
        namespace=None, pod=None, pod_uid=None, container="c",
        hint=Hint(numa_nodes=None, preferred=True),
    )  # fmt: skip
    assert evolve(TopologyManagerState(), record(1, nameless)) == TopologyManagerState()
