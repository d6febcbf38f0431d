"""Who is preempted: tables of the algorithm, and properties over random nodes."""

import random
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeledger.kubelet.kube.pod import Container, ObjectMeta, Pod, PodSpec, ResourceRequirements
from kubeledger.kubelet.preemption.explain import admissible
from kubeledger.kubelet.preemption.preemption import Candidates, decide, kill_wait_s, to_string
from kubeledger.kubelet.preemption.reducer import (
    HANDLERS,
    PreemptionFailureState,
    PreemptionState,
    VictimState,
    pod_ended,
)
from kubeledger.kubelet.profile.resolve import resolve
from kubeledger.model.bodies.eviction import InsufficientResource, PodPreempted, PreemptionFailed
from tests.kubelet.reducing import evolver
from tests.replay.strategies import record

FACTS = resolve("1.36.2").admission
CLUSTER_CRITICAL, NODE_CRITICAL = 2_000_000_000, 2_000_001_000


def a_pod(uid: str, cpu: int = 0, mem: int = 0, *, same: bool = False, prio: int | None = 0) -> Pod:
    """A pod that asks for millicores and MiB; with ``same`` limits it is Guaranteed."""
    requests: dict[str, str | int | float | None] = {}
    if cpu or mem:
        requests = {"cpu": f"{cpu}m", "memory": f"{mem}Mi"}
    resources = ResourceRequirements(requests=requests, limits=dict(requests) if same else None)
    spec = PodSpec(containers=(Container(resources=resources),), priority=prio)
    return Pod(metadata=ObjectMeta(uid=uid), spec=spec)


def missing(cpu: int = 0, mem: int = 0, pods: int = 0) -> tuple[InsufficientResource, ...]:
    """Requirements in millicores, MiB and pods; those of 0 are left out."""
    amounts = {"pods": pods, "cpu": cpu, "memory": mem << 20}
    return tuple(InsufficientResource(resource=r, quantity=q) for r, q in amounts.items() if q)


PREEMPTOR = a_pod("critical", prio=CLUSTER_CRITICAL)
PODS = {
    "best": a_pod("best"),
    "burst": a_pod("burst", 100, 100),
    "BURST": a_pod("BURST", 300, 300),
    "guar": a_pod("guar", 100, 100, same=True),
    "GUAR": a_pod("GUAR", 300, 300, same=True),
}


@pytest.mark.parametrize(
    ("names", "requirements", "victims"),
    [
        pytest.param("best burst", missing(pods=1), "best", id="BestEffort first"),
        pytest.param("burst guar", missing(pods=1), "burst", id="Burstable before Guaranteed"),
        pytest.param("best BURST burst", missing(100, 100), "burst", id="closest fit"),
        pytest.param("best burst BURST", missing(150, 150), "BURST", id="one that is enough"),
        pytest.param("best burst BURST guar GUAR", missing(350, 350), "BURST burst", id="two"),
        pytest.param("best burst BURST guar GUAR", missing(mem=550), "BURST GUAR", id="classes"),
        pytest.param("best burst BURST", missing(400, 400, pods=3), "best BURST burst", id="all"),
        pytest.param("best burst", missing(cpu=100), "burst", id="BestEffort would not help"),
        pytest.param("guar GUAR", missing(cpu=50), "guar", id="of enough the smaller"),
        pytest.param("best", (), "", id="nothing missing"),
    ],
)
def test_victims(names: str, requirements: tuple[InsufficientResource, ...], victims: str) -> None:
    """Victims in the order they are killed, whatever the order of the list."""
    pods = [PODS[name] for name in names.split()]
    for order in permutations(pods):
        outcome = decide(PREEMPTOR, order, FACTS, requirements)
        assert outcome.victims == tuple(victims.split())
        assert outcome.error == ""
        assert admissible(PREEMPTOR, order, FACTS, requirements, outcome.victims) == ""


def test_error_names_what_is_still_missing() -> None:
    outcome = decide(PREEMPTOR, [PODS["burst"]], FACTS, missing(150, 100, pods=2))
    assert outcome.error == (
        "preemption: error finding a set of pods to preempt: no set of running pods found to "
        "reclaim resources: [(res: pods, q: 1), (res: cpu, q: 50), ]"
    )


def test_list_of_nothing() -> None:
    assert to_string(()) == "[]"


def test_last_of_equals_after_the_swap() -> None:
    """The last pod of the list moves to where a victim stood: of a, b, c, d it is d, then c."""
    pods = [a_pod(uid) for uid in "abcd"]
    assert decide(PREEMPTOR, pods, FACTS, missing(pods=3)).victims == ("d", "c", "b")
    mixed = [a_pod("b", 300), a_pod("x", 100), a_pod("y", 100), a_pod("z", 100)]
    # b goes first; z takes its place at the front, so that y is the last of the equals.
    assert decide(PREEMPTOR, mixed, FACTS, missing(cpu=500)).victims == ("b", "y", "x")


@pytest.mark.parametrize(
    ("requirements", "expected"),
    [
        pytest.param(missing(cpu=200), [1.0, 0.25, 0.0], id="one"),
        pytest.param(missing(cpu=200, pods=2), [1.25, 0.5, 0.25], id="two"),
    ],
)
def test_distance(requirements: tuple[InsufficientResource, ...], expected: list[float]) -> None:
    pods = [a_pod("none"), a_pod("half", 100), a_pod("more", 300)]
    assert Candidates(PREEMPTOR, pods, FACTS).distances(requirements, range(3)) == expected


@pytest.mark.parametrize(
    ("grace_s", "wait_s"), [(None, 10), (0, 10), (6, 10), (7, 10), (30, 45), (31, 46), (-5, 10)]
)
def test_how_long_a_kill_is_waited_for(grace_s: int | None, wait_s: int) -> None:
    """Half as long again as the grace period, at least ten seconds."""
    assert kill_wait_s(grace_s) == wait_s


small = st.integers(min_value=0, max_value=4)


@given(
    st.lists(st.tuples(small, small, st.booleans()), max_size=7),
    st.integers(0, 12),
    st.integers(0, 12),
    st.integers(0, 4),
    st.randoms(use_true_random=False),
)
def test_every_order_is_admissible(
    shapes: list[tuple[int, int, bool]], cpu: int, mem: int, pods: int, shuffling: random.Random
) -> None:
    """Victims free enough, none could be spared, and any order of the pods is explained."""
    listed = [a_pod(f"p{i}", c * 100, m * 100, same=s) for i, (c, m, s) in enumerate(shapes)]
    requirements = missing(cpu * 100, mem * 100, pods)
    outcome = decide(PREEMPTOR, listed, FACTS, requirements)
    shuffled = [*listed]
    shuffling.shuffle(shuffled)
    other = decide(PREEMPTOR, shuffled, FACTS, requirements)
    assert outcome.error == other.error
    if outcome.error:
        return
    for victims in (outcome.victims, other.victims):
        assert admissible(PREEMPTOR, listed, FACTS, requirements, victims) == ""
        if victims:
            assert admissible(PREEMPTOR, listed, FACTS, requirements, victims[:-1])
            assert admissible(PREEMPTOR, listed, FACTS, requirements, (*victims, "x"))


# -- Victims stay until their pod is gone ----------------------------------------------------------

evolve = evolver(HANDLERS)

MISSING = (InsufficientResource(resource="cpu", quantity=270),)


def preempted(uid: str | None = "u", evicted: bool | None = None) -> PodPreempted:
    """Pod ns/victim makes room for kube-system/critical."""
    return PodPreempted(
        victim_namespace="ns", victim_pod="victim", victim_uid=uid,
        preemptor_namespace="kube-system", preemptor_pod="critical", preemptor_uid="c",
        insufficient=MISSING, evicted=evicted,
    )  # fmt: skip


@pytest.mark.parametrize(("evicted", "awaiting"), [(None, True), (True, True), (False, False)])
def test_a_victim_is_awaited_until_it_is_down(evicted: bool | None, awaiting: bool) -> None:
    """A kill that failed brings nothing to wait for."""
    state = evolve(PreemptionState(), record(1, preempted(evicted=evicted)))
    victim = state.victims["u"]
    assert victim == VictimState(
        namespace="ns", pod="victim", preemptor="kube-system/critical", preemptor_uid="c",
        insufficient=MISSING, evicted=evicted, awaiting=awaiting, since_ts_ns=10**9,
    )  # fmt: skip
    pod_ended(state, "u")
    assert victim.awaiting is False
    pod_ended(state, "another")


def test_failures_are_counted_and_the_last_is_kept() -> None:
    failed = PreemptionFailed(
        preemptor_namespace="ns", preemptor_pod="big", preemptor_uid="b", insufficient=MISSING,
        error="no set of running pods found",
    )  # fmt: skip
    state = evolve(evolve(PreemptionState(), record(1, failed)), record(2, failed))
    last = PreemptionFailureState(
        ts_ns=2 * 10**9, preemptor="ns/big", preemptor_uid="b", insufficient=MISSING,
        error="no set of running pods found",
    )  # fmt: skip
    assert state == PreemptionState(last_failure=last, failed=2)
