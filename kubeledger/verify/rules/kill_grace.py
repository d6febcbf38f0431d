"""The seconds that a killed container gets to end by itself, and the words of its kill."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from kubeledger.kubelet.eviction.decisions import eviction_override_s
from kubeledger.kubelet.kuberuntime.helpers import app_kill, sidecar_kill
from kubeledger.kubelet.lifecycle.termination import (
    MINIMUM_GRACE_S,
    container_grace_s,
    overridden_grace_s,
)
from kubeledger.kubelet.prober.results import FAILURE, SUCCESS, Result
from kubeledger.kubelet.profile.lifecycle import LifecycleFacts
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.model.bodies.lifecycle import ContainerKilled
from kubeledger.model.bodies.prober import PROBE_OF_KILL
from kubeledger.verify.belief import Judgement, Ruling, judge
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.evidence.container_specs import PodSpec
from kubeledger.verify.rules.stops import Stops

_OF_POD: Final = frozenset(
    {"preempted", "evicted", "pod_deleted", "pod_ended", "deadline_exceeded", "node_shutdown"}
)
"""Reasons for which a pod's worker stops it as a whole, and says with how many seconds."""
_ORPHAN_S: Final = 1
"""Given by HandlePodCleanups to what runs and no config source has."""
_DELETED_WITH: Final = "the grace period that the pod was deleted with"
_TAKEN_OVER: Final = "how the present kubelet process came to know the pod"
_SOFT: Final = "whether the pod was evicted for a soft threshold"


def kill_words(profile: KubeletProfile, spec: PodSpec, container: str, reason: str) -> str:
    """The kubelet's message for a kill of that reason."""
    if reason == "post_start_hook":
        return "FailedPostStartHook"
    if reason == "resized":
        return f"Container {container} resize requires restart"
    entry = spec.container(container)
    liveness: Result | None = FAILURE if reason == "liveness_probe" else None
    startup: Result | None = FAILURE if reason == "startup_probe" else None
    changed = reason == "spec_changed"
    if container in spec.sidecars:
        kill = sidecar_kill(
            container, liveness, startup or SUCCESS, profile.kuberuntime,
            has_startup_probe=entry is not None and entry.startup_probe is not None,
            definition_changed=changed,
        )  # fmt: skip
    else:
        kill = app_kill(
            container, liveness, startup, profile.kuberuntime,
            restart_policy=spec.restart_policy,
            own_policy=None if entry is None else entry.restart_policy,
            definition_changed=changed,
        )  # fmt: skip
    return f"Stopping container {container}" if kill is None else kill.message


def judge_grace(
    context: VerifyContext,
    spec: PodSpec,
    body: ContainerKilled,
    stops: Stops,
    evicted_softly: bool | None,
) -> Judgement:
    """Judge the grace period of a kill of which the reason is known.

    Args:
        context: profile and settings.
        spec: of the pod.
        body: the kill.
        stops: what may stop the pod.
        evicted_softly: the pod was evicted for a soft threshold; None: not known.

    Source: v1.36.2 pkg/kubelet/kuberuntime/kuberuntime_container.go killContainer
    """
    assert context.profile is not None
    facts = context.profile.lifecycle
    takes_time = _takes_time(facts, spec, body)
    given_s = None if stops.ending is None else stops.ending.number
    if body.reason == "evicted" and (evicted_softly is not None or given_s is None):
        return _evicted(context, spec, body, takes_time, evicted_softly)
    own_s = container_grace_s(facts, spec.grace_s, None)
    if given_s is not None and body.reason in _OF_POD:
        exact = overridden_grace_s(facts, given_s, spec.grace_s)
        why = f"given {given_s} s to the pod; container minimum {MINIMUM_GRACE_S} s"
        return judge([_ruling(body, exact, why, takes_time)])
    if body.reason == "orphaned":
        exact = overridden_grace_s(facts, _ORPHAN_S, spec.grace_s)
        why = f"a pod without source gets {_ORPHAN_S} s, and a container {exact} s"
        return judge([_ruling(body, exact, why, takes_time, also=own_s)])
    exact, why = _by_spec(context, facts, spec, body)
    # A failed probe of the last container of a pod that is not restarted stops the pod.
    stops_pod = body.message is not None and "will be restarted" not in body.message
    rulings = [_ruling(body, exact, why, takes_time, also=own_s if stops_pod else exact)]
    missing = _DELETED_WITH if stops.deleted is not None and not spec.is_static else None
    missing = missing if stops.added else _TAKEN_OVER
    if missing is not None and not rulings[0].allowed:
        rulings.append(Ruling(allowed=True, why="", assumes=(missing,)))
    return judge(rulings)


def _ruling(
    body: ContainerKilled, exact: int, why: str, takes_time: bool, *, also: int | None = None
) -> Ruling:
    """What is given in one world: ``exact``, ``also``, or less where something takes time."""
    given = exact if body.grace_period_s is None else body.grace_period_s
    most = max(exact, also or 0)
    allowed = given in (exact, also) or (takes_time and MINIMUM_GRACE_S <= given <= most)
    ending = f" with a {given} s grace period ({why})" if body.grace_period_s is not None else ""
    denied = f"recorded is grace_period_s {given} instead of {exact} ({why})"
    return Ruling(
        allowed=allowed,
        chosen=given == exact,
        why=ending if allowed else denied,
        expected={} if body.grace_period_s is None else {"grace_period_s": exact},
    )


def _by_spec(
    context: VerifyContext, facts: LifecycleFacts, spec: PodSpec, body: ContainerKilled
) -> tuple[int, str]:
    """By the pod's grace period, or the one of the probe that failed."""
    entry, probe_type = spec.container(body.container or ""), PROBE_OF_KILL.get(body.reason)
    probe = None if entry is None or probe_type is None else entry.probe(probe_type)
    own = None if probe is None else probe.termination_grace_period_seconds
    source = f"configured {spec.grace_s} s; kubelet minimum {MINIMUM_GRACE_S} s"
    if spec.grace_s is None:
        source = "the pod's spec has no terminationGracePeriodSeconds"
    if body.reason in ("preempted", "pod_deleted") and facts.pod_worker_gives_grace:
        return overridden_grace_s(facts, None, spec.grace_s), source
    gates = context.settings.get("featureGates")
    gate_is_on = isinstance(gates, dict) and gates.get("ProbeTerminationGracePeriod") is True
    exact = container_grace_s(facts, spec.grace_s, own, gate_is_on=gate_is_on)
    if own is not None and exact != container_grace_s(facts, spec.grace_s, None):
        source = f"configured {own} s by the probe"
    return exact, source


def _takes_time(facts: LifecycleFacts, spec: PodSpec, body: ContainerKilled) -> bool:
    """Whether something runs, or is waited for, before the container is told to end."""
    entry = spec.container(body.container or "")
    if entry is not None and entry.has_pre_stop:
        return True
    stops_pod = body.reason in _OF_POD
    return stops_pod and facts.sidecars_end_in_order and bool(spec.sidecars)


def _evicted(
    context: VerifyContext,
    spec: PodSpec,
    body: ContainerKilled,
    takes_time: bool,
    is_soft: bool | None,
) -> Judgement:
    """A hard eviction gives no time of its own, a soft one up to a maximum."""
    profile, maximum_s = context.profile, context.settings.get("evictionMaxPodGracePeriod")
    assert profile is not None

    def given(maximum_s: int, why: str, *, hard: bool, assumes: tuple[str, ...] = ()) -> Ruling:
        asked_s = eviction_override_s(
            profile.eviction, hard=hard, maximum_s=maximum_s, pod_grace_s=spec.grace_s
        )
        exact = overridden_grace_s(profile.lifecycle, asked_s, spec.grace_s)
        return replace(_ruling(body, exact, why, takes_time), assumes=assumes)

    hard = given(0, "a hard eviction", hard=True)
    if is_soft is False:
        return judge([hard])
    if not isinstance(maximum_s, int):
        return judge([hard, Ruling(allowed=True, why="", assumes=("evictionMaxPodGracePeriod",))])
    why = f"a soft eviction within evictionMaxPodGracePeriod {maximum_s}"
    soft = given(maximum_s, why, hard=False, assumes=() if is_soft else (_SOFT,))
    return judge([soft] if is_soft else [hard, soft])
