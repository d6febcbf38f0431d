"""Victims stay until their pod is gone."""

from __future__ import annotations

import pytest

from kubeledger.kubelet.preemption.reducer import evolve, forget_pod, pod_ended, rename_pod
from kubeledger.kubelet.preemption.state import PreemptionState
from kubeledger.model.bodies.preemption import InsufficientResource, PodPreempted, PreemptionFailed
from tests.replay.strategies import record

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
    assert (victim.awaiting, victim.preemptor, victim.preemptor_uid) == (
        awaiting, "kube-system/critical", "c",
    )  # fmt: skip
    assert victim.insufficient == MISSING
    pod_ended(state, "u")
    assert not victim.awaiting
    forget_pod(state, "u")
    assert (state.victims, state.preempted) == ({}, 1)
    pod_ended(state, "u")


def test_a_uid_that_becomes_known_takes_over() -> None:
    """A victim that stood under its UID already stays."""
    state = evolve(PreemptionState(), record(1, preempted(None)))
    rename_pod(state, "ns/victim", "u")
    assert set(state.victims) == {"u"}


def test_failures_are_counted_and_the_last_is_kept() -> None:
    """No victim comes of it."""
    failed = PreemptionFailed(
        preemptor_namespace="ns", preemptor_pod="big", preemptor_uid=None, insufficient=MISSING,
        error="no set of running pods found",
    )  # fmt: skip
    state = evolve(PreemptionState(), record(1, failed))
    assert state.failed == 1
    assert state.last_failure is not None
    assert (state.last_failure.preemptor, state.last_failure.ts_ns) == ("ns/big", 10**9)
    assert state.victims == {}
