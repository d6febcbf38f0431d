"""Whether a container that ended is started again, by the pod's spec; and why, in words."""

from __future__ import annotations

from typing import Final

from kubeledger.kubelet.kube.restartpolicy import (
    ALWAYS,
    NEVER,
    ON_FAILURE,
    container_should_restart,
    matching_restart_rule,
    policy_restarts,
)
from kubeledger.kubelet.lifecycle.exits import how_it_ended
from kubeledger.kubelet.profile.kuberuntime import KuberuntimeFacts
from kubeledger.model.bodies.lifecycle import ContainerRestarted
from kubeledger.model.units import format_ts
from kubeledger.verify.belief import Judgement, Ruling, judge
from kubeledger.verify.evidence.container_specs import PodSpec
from kubeledger.verify.evidence.coverage import Loss
from kubeledger.verify.rules.containers import Instance

_ENDS_IT: Final = frozenset({"liveness_probe", "startup_probe", "post_start_hook"})
"""Reasons of kills after which the restart policy counts."""
_BECAUSE: Final = {
    "liveness_probe": "its liveness probe failed",
    "startup_probe": "its startup probe failed",
    "spec_changed": "its definition changed",
    "resized": "its resize asks for a restart",
    "preempted": "its pod was preempted",
    "evicted": "its pod was evicted",
    "pod_deleted": "its pod was deleted",
    "post_start_hook": "its postStart hook failed",
    "sandbox_changed": "its pod got another sandbox",
}


def judge_policy(
    facts: KuberuntimeFacts,
    specs: tuple[PodSpec, ...],
    body: ContainerRestarted,
    before: Instance,
    *,
    remade: bool,
    lost: Loss | None,
) -> Judgement:
    """Judge a restart by its container's restart policy, in every version of the spec.

    Args:
        facts: of the kubelet version.
        specs: (n,) n >= 1.
        body: the restart.
        before: the instance that ended.
        remade: the pod got another sandbox since, so that all of it runs again.
        lost: why a line about a kill may be missing: one whose definition changed is killed and
            started again whatever the policy; None where a record would show that.
    """
    rulings = []
    for spec in specs:
        final = None if remade else _ends_for_good(facts, spec, body.container, before)
        if spec.container(body.container) is None:
            final = f"the pod's spec has no container {body.container}"
        why = final or _why_restarted(body, before, spec)
        rulings.append(Ruling(allowed=final is None, why=why, assumes=spec.assumes(specs)))
        if final and lost is not None and before.killed_ns is None:
            changed = f"whether its definition had changed ({lost.phrase})"
            rulings.append(Ruling(allowed=True, why="", assumes=(*spec.assumes(specs), changed)))
    return judge(rulings)


def reason_meant(message: str | None) -> str | None:
    """The reason that the kubelet's message of a kill gives."""
    words = {
        "failed liveness probe": "liveness_probe",
        "failed startup probe": "startup_probe",
        "definition changed": "spec_changed",
        "resize requires restart": "resized",
    }
    return next((reason for text, reason in words.items() if text in (message or "")), None)


def _ends_for_good(
    facts: KuberuntimeFacts, spec: PodSpec, name: str, before: Instance
) -> str | None:
    """Why a container is not started again; None when it is, or may be.

    Init containers also run again with a pod that is made again, so only containers proper are
    judged.
    """
    entry = spec.container(name)
    if entry is None or not spec.is_app(name):
        return None
    has_own = entry.restart_policy is not None and facts.container_restart_rules
    policy = (entry.restart_policy if has_own else None) or spec.restart_policy
    if before.killed_ns is not None or before.exit_code is None:
        counts = not before.killed_ns or bool(_ENDS_IT.intersection(before.reasons[:1]))
        ends = policy == NEVER and counts and not (
            before.killed_ns is None and entry.restart_policy_rules
        )  # fmt: skip
        return f"restart policy Never does not start container {name} again" if ends else None
    code = before.exit_code
    if facts.container_restart_rules:
        again = container_should_restart(
            entry, spec.restart_policy, code, restart_all=facts.restart_all_containers
        ) or (matching_restart_rule(entry, code) is not None)
    else:
        again = policy not in (ALWAYS, ON_FAILURE, NEVER) or policy_restarts(policy, code)
    if again:
        return None
    ended = f"container {name} ended with exit code {code}"
    return f"{ended}, after which restart policy {policy} does not start it again"


def _why_restarted(body: ContainerRestarted, before: Instance, spec: PodSpec) -> str:
    """One sentence for a restart that is in order."""
    name = f"container {body.container}"
    if before.first_killed_ns is not None:
        because = _BECAUSE.get(before.reasons[0] if before.reasons else "", "of the kubelet")
        ended = f"{name} was killed at {format_ts(before.first_killed_ns)} because {because}"
    else:
        how = how_it_ended(before.exit_code)
        how = "was killed by the kernel, out of memory" if before.out_of_memory else how
        ended = f"{name} {how}"
    entry = spec.container(body.container)
    own = None if entry is None else entry.restart_policy
    count = "" if body.restart_count is None else f" for the {_nth(body.restart_count)} time"
    return f"{ended}, and restart policy {own or spec.restart_policy} starts it again{count}"


def _nth(number: int) -> str:
    last = number % 10 if number % 100 not in (11, 12, 13) else 0
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(last, 'th') }"
