"""Victims stay until their pod is gone."""

import pytest

from kubeledger.kubelet.preemption.reducer import (
    HANDLERS,
    PreemptionFailureState,
    PreemptionState,
    VictimState,
    pod_ended,
)
from kubeledger.model.bodies.eviction import InsufficientResource, PodPreempted, PreemptionFailed
from tests.kubelet.reducing import evolver
from tests.replay.strategies import record

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
