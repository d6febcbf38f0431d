"""Preemption for critical pods: what the kubelet does when one does not fit."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kubeledger.kubelet.kube.critical import is_critical_pod
from kubeledger.kubelet.kube.pod import Pod
from kubeledger.kubelet.kube.podqos import QOSClass
from kubeledger.kubelet.preemption.candidates import Candidates
from kubeledger.kubelet.preemption.requirements import (
    NoVictimsError,
    Requirements,
    subtract,
    to_string,
)
from kubeledger.kubelet.preemption.victims import KILL_ORDER, nearest, pods_to_preempt
from kubeledger.kubelet.profile.admission import AdmissionFacts


class PreemptionOutcome(msgspec.Struct, frozen=True, gc=False):
    """What preemption came to.

    Attributes:
        victims: UIDs in the order they are killed. A kill that fails is passed over: the pod
            is admitted all the same.
        error: why no pod was killed and this one is not admitted; empty if it is.
    """

    victims: tuple[str, ...] = ()
    error: str = ""


def may_preempt(pod: Pod) -> bool:
    """Whether others are killed for this pod: only for critical ones."""
    return is_critical_pod(pod)


def decide(
    preemptor: Pod, pods: Sequence[Pod], insufficient: Requirements, facts: AdmissionFacts
) -> PreemptionOutcome:
    """Choose victims for a critical pod that only lacks resources.

    Args:
        preemptor: the critical pod.
        pods: (n,) active pods in the order the kubelet lists them.
        insufficient: (r,) what is missing, in the order the fit check found it.
        facts: the kubelet's version.

    Source: v1.20.2 pkg/kubelet/preemption/preemption.go HandleAdmissionFailure,
        evictPodsToFreeRequests
    Differs: the pods are not killed.
    """
    candidates = Candidates(preemptor, pods, facts)
    try:
        picks = pods_to_preempt(candidates, insufficient)
    except NoVictimsError as error:
        return PreemptionOutcome(
            error=f"preemption: error finding a set of pods to preempt: {error}"
        )
    return PreemptionOutcome(
        victims=tuple(candidates.pods[pick].metadata.uid or "" for pick in picks)
    )


def admissible(
    preemptor: Pod,
    pods: Sequence[Pod],
    insufficient: Requirements,
    victims: Sequence[str],
    facts: AdmissionFacts,
) -> str:
    """Whether some order of the active pods leads to these victims.

    The kubelet lists active pods in random order, which decides between equals. The claim is
    followed class by class: each victim must be one that the kubelet could take at that point.

    Args:
        preemptor: the critical pod.
        pods: (n,) active pods, in any order.
        insufficient: (r,) what was missing.
        victims: (k,) UIDs in the order they were killed.
        facts: the kubelet's version.

    Returns:
        Why it could not have been; empty if it could.
    """
    candidates = Candidates(preemptor, pods, facts)
    at = {pod.metadata.uid or "": pick for pick, pod in enumerate(candidates.pods)}
    for position, uid in enumerate(victims):
        if uid not in at:
            if any((pod.metadata.uid or "") == uid for pod in pods):
                return f"pod {uid} is critical, and not of lower priority: it may not be preempted"
            return f"pod {uid} is not among the active pods"
        if uid in victims[:position]:
            return f"pod {uid} was killed already"
    missing = subtract(insufficient, candidates.freed(insufficient))
    if missing:
        return f"no set of pods frees what is missing: {to_string(missing)} would be left"

    def name(pick: int) -> str:
        return f"pod {candidates.pods[pick].metadata.uid or ''}"

    picks = [at[uid] for uid in victims]
    classes = [candidates.qos(pick) for pick in picks]
    ranks = [KILL_ORDER.index(c) for c in classes]
    if ranks != sorted(ranks):
        return "BestEffort pods are killed before Burstable ones, these before Guaranteed ones"
    groups = candidates.by_qos()
    claimed = {c: [p for p in picks if candidates.qos(p) == c] for c in KILL_ORDER}
    gone_first = {
        "Guaranteed": groups["BestEffort"] + groups["Burstable"],
        "Burstable": groups["BestEffort"] + claimed["Guaranteed"],
        "BestEffort": claimed["Burstable"] + claimed["Guaranteed"],
    }
    for group in reversed(KILL_ORDER):
        gone = gone_first[group]
        left = subtract(insufficient, candidates.freed(insufficient, gone))
        before = _before(group, [*map(name, gone)], [*map(name, claimed["Guaranteed"])])
        why = _follow(candidates, groups[group], left, claimed[group], before)
        if why:
            return why
    return ""


def _before(group: QOSClass, gone: Sequence[str], guaranteed: Sequence[str]) -> str:
    """Which pods are taken as gone when victims of a class are chosen: `` with ... gone``."""
    if not gone:
        return ""
    if group == "Guaranteed":
        return " with all BestEffort and Burstable pods gone"
    if group == "Burstable":
        first = ["all BestEffort pods"] if len(gone) > len(guaranteed) else []
        return f" with {' and '.join([*first, *guaranteed])} gone"
    return f" with {' and '.join(gone)} gone"


def _follow(
    candidates: Candidates,
    group: Sequence[int],
    left: Requirements,
    claimed: Sequence[int],
    before: str,
) -> str:
    """Whether one class's victims are each among the best at their turn."""

    def name(pick: int) -> str:
        return f"pod {candidates.pods[pick].metadata.uid or ''}"

    pods, sizes = list(group), candidates.sizes()
    for place, pick in enumerate(claimed):
        if not left:
            return f"{name(pick)} was killed although nothing was missing any more{before}"
        near = nearest([r.quantity for r in left], candidates.freed(left, pods))
        ties = [pods[index] for index in near]
        smallest = min(sizes[tie] for tie in ties)
        best = [tie for tie in ties if sizes[tie] == smallest]
        if pick not in best:
            order = "as near to what is missing, but smaller" if pick in ties else "nearer to it"
            where = f"with {to_string(left)} missing{before}"
            if best[0] in claimed[place:]:
                return f"{name(pick)} was killed {where} before {name(best[0])}, {order}"
            return f"{name(pick)} was killed {where} while {name(best[0])}, {order}, was left"
        left = subtract(left, candidates.freed(left, [pick]))
        pods.remove(pick)
    if left:
        killed = f" after {' and '.join(map(name, claimed))}" if claimed else ""
        another = "another" if claimed else "a"
        return (
            f"{to_string(left)} is missing{before}{killed}, so {another} "
            f"{candidates.qos(group[0])} pod is killed"
        )
    return ""
