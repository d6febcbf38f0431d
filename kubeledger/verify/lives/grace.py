"""How many seconds a killed container could have got."""

from __future__ import annotations

import msgspec

from kubeledger.eviction.decisions import eviction_override_s
from kubeledger.lifecycle.graceperiod import (
    MINIMUM_GRACE_S,
    container_grace_s,
    overridden_grace_s,
)
from kubeledger.lifecycle.records import ContainerKilled
from kubeledger.profile.lifecycle import LifecycleFacts
from kubeledger.verify.bench import Bench
from kubeledger.verify.lives.specs import PodAsk

__all__ = ["Grace", "graces"]


_OF_POD = frozenset({"preempted", "pod_deleted", "pod_ended", "deadline_exceeded", "node_shutdown"})
"""Reasons for which a pod is stopped as a whole, its evictions apart."""
_ORPHAN_S = 1
"""Given by HandlePodCleanups to what runs and no config source has."""


class Grace(msgspec.Struct, frozen=True):
    """What a kill could have given.

    Attributes:
        exact: what the rule gives; None when it is not determined.
        others: further values that something not recorded may lead to.
        least: anything from here to the others may be, because a hook or an order of ends
            takes time off; None when nothing does.
        why: where ``exact`` comes from.
        missing: what is missing when the recorded value is another; None for nothing.
    """

    exact: int | None
    why: str
    others: tuple[int, ...] = ()
    least: int | None = None
    missing: str | None = None

    def allows(self, grace_s: int) -> bool:
        """Whether the kubelet could have given that many."""
        if grace_s == self.exact or grace_s in self.others:
            return True
        return (
            self.least is not None
            and self.exact is not None
            and (self.least <= grace_s <= max(self.exact, *self.others, 0))
        )


def graces(
    bench: Bench,
    ask: PodAsk,
    body: ContainerKilled,
    *,
    is_deleted: bool,
    is_known: bool,
    given_s: int | None = None,
    is_soft: bool | None = None,
) -> Grace:
    """Seconds for a kill of which the reason is known.

    Args:
        bench: profile and settings.
        ask: the pod.
        body: the kill.
        is_deleted: its deletion has begun.
        is_known: a config source gave the pod to this kubelet process; one that is only found
            running is stopped more quickly.
        given_s: seconds that the pod's worker says it gives; None when no line tells.
        is_soft: the pod was evicted for a soft threshold; None when that is not known.
    """
    assert bench.profile is not None
    facts = bench.profile.lifecycle
    least = MINIMUM_GRACE_S if _takes_time(facts, ask, body) else None
    if body.reason == "evicted":
        return _evicted(bench, facts, ask, least, is_soft=is_soft)
    if given_s is not None and body.reason in _OF_POD:
        exact = overridden_grace_s(facts, given_s, ask.grace_s)
        why = f"the pod is given {given_s} s, and a container at least {MINIMUM_GRACE_S}"
        return Grace(exact=exact, why=why, least=least)
    if body.reason == "orphaned":
        exact = overridden_grace_s(facts, _ORPHAN_S, ask.grace_s)
        own_s = container_grace_s(facts, ask.grace_s, None)
        why = f"a pod that no source has gets {_ORPHAN_S} s, and a container {exact}"
        return Grace(exact=exact, why=why, others=(own_s,), least=least)
    exact, why = _of_spec(bench, facts, ask, body)
    missing = None
    if is_deleted and not ask.is_static:
        missing = "the grace period that the pod was deleted with"
    if not is_known:
        missing = "how the present kubelet process came to know the pod"
    others = (container_grace_s(facts, ask.grace_s, None),) if _stops_pod(body) else ()
    return Grace(exact=exact, why=why, others=others, least=least, missing=missing)


def _stops_pod(body: ContainerKilled) -> bool:
    """A failed probe of the last container of a pod that is not restarted stops the pod."""
    return body.message is not None and "will be restarted" not in body.message


def _of_spec(
    bench: Bench, facts: LifecycleFacts, ask: PodAsk, body: ContainerKilled
) -> tuple[int, str]:
    entry = ask.container(body.container or "")
    probe = None
    if entry is not None and body.reason == "liveness_probe":
        probe = entry.liveness_probe
    elif entry is not None and body.reason == "startup_probe":
        probe = entry.startup_probe
    own = None if probe is None else probe.termination_grace_period_seconds
    gates = bench.settings.get("featureGates")
    gate_is_on = isinstance(gates, dict) and gates.get("ProbeTerminationGracePeriod") is True
    if body.reason in ("preempted", "pod_deleted") and facts.pod_worker_gives_grace:
        return overridden_grace_s(facts, None, ask.grace_s), _says(ask.grace_s)
    exact = container_grace_s(facts, ask.grace_s, own, gate_is_on=gate_is_on)
    used_own = own is not None and exact != container_grace_s(facts, ask.grace_s, None)
    why = f"terminationGracePeriodSeconds {own} of the probe" if used_own else _says(ask.grace_s)
    return exact, why


def _says(grace_s: int | None) -> str:
    if grace_s is None:
        return "the pod's spec gives no terminationGracePeriodSeconds"
    return f"terminationGracePeriodSeconds {grace_s}, and at least {MINIMUM_GRACE_S}"


def _takes_time(facts: LifecycleFacts, ask: PodAsk, body: ContainerKilled) -> bool:
    """Whether something runs, or is waited for, before the container is told to end."""
    entry = ask.container(body.container or "")
    if entry is not None and entry.has_pre_stop:
        return True
    stops_pod = body.reason in ("preempted", "pod_deleted", "evicted")
    return stops_pod and facts.sidecars_end_in_order and ask.has_sidecars


def _evicted(
    bench: Bench, facts: LifecycleFacts, ask: PodAsk, least: int | None, *, is_soft: bool | None
) -> Grace:
    def given(*, hard: bool, maximum_s: int) -> int:
        assert bench.profile is not None
        asked_s = eviction_override_s(
            bench.profile.eviction, hard=hard, maximum_s=maximum_s, pod_grace_s=ask.grace_s
        )
        return overridden_grace_s(facts, asked_s, ask.grace_s)

    hard_s = given(hard=True, maximum_s=0)
    if is_soft is False:
        return Grace(exact=hard_s, least=least, why="a hard eviction")
    maximum_s = bench.settings.get("evictionMaxPodGracePeriod")
    if not isinstance(maximum_s, int):
        missing = "evictionMaxPodGracePeriod"
        return Grace(exact=hard_s, least=least, why="a hard eviction", missing=missing)
    soft_s = given(hard=False, maximum_s=maximum_s)
    why = f"a soft eviction within evictionMaxPodGracePeriod {maximum_s}"
    if is_soft:
        return Grace(exact=soft_s, least=least, why=why)
    why = f"a hard eviction, or {why}"
    return Grace(exact=hard_s, others=(soft_s,), least=least, why=why)
