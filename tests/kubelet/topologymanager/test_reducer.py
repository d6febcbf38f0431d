"""Affinities by pod and container."""

from kubeledger.kubelet.topologymanager.reducer import (
    HANDLERS,
    POD_SCOPE,
    TopologyManagerState,
)
from kubeledger.model.bodies.resourcemanagers import AffinityDecided, Hint
from kubeledger.model.record import Record
from tests.replay.strategies import record


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
