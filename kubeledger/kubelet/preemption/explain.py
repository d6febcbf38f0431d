"""Why these victims, or why not: sentences about the turns of a preemption, and its amounts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from kubeledger.kubelet.kube.pod import Pod
from kubeledger.kubelet.preemption.preemption import (
    KILL_ORDER,
    Candidate,
    Requirements,
    Turn,
    candidates_of,
    distances,
    nearest,
    pods_to_preempt,
    subtract,
    to_string,
)
from kubeledger.kubelet.profile.admission import AdmissionFacts
from kubeledger.model.units import sizes_text


def plains(resource: str, *quantities: int) -> tuple[str, ...]:
    """``450m``, ``64Mi``, ``3``; several so that they can be compared."""
    if resource == "cpu":
        return tuple(f"{quantity}m" for quantity in quantities)
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        return sizes_text(*quantities)
    return tuple(map(str, quantities))


def amount(resource: str, quantity: int) -> str:
    """``450m of cpu``, ``64Mi of memory``, ``3 pods``, ``2 of example.com/gpu``."""
    if resource == "pods":
        return f"{quantity} pod{'s' if quantity != 1 else ''}"
    return f"{plains(resource, quantity)[0]} of {resource}"


def amounts(requirements: Requirements) -> str:
    """What is missing, in words."""
    return listing(amount(r.resource, r.quantity) for r in requirements)


def listing(parts: Iterable[str]) -> str:
    """``a, b and c``."""
    *others, last = list(parts) or [""]
    return f"{', '.join(others)} and {last}" if others else last


def priority_of(pod: Pod) -> str:
    """The pod's priority, as in its spec."""
    return "no priority" if pod.spec.priority is None else f"priority {pod.spec.priority}"


# -- why these cannot be the victims ----------------------------------------------------------


def _by_uid(uid: str) -> str:
    return f"pod {uid}"


def admissible(
    preemptor: Pod,
    pods: Sequence[Pod],
    facts: AdmissionFacts,
    insufficient: Requirements,
    victims: Sequence[str],
    name: Callable[[str], str] = _by_uid,
) -> str:
    """Whether some order of the active pods leads to these victims.

    The kubelet lists active pods in random order, which decides between equals: each victim must
    be one that the kubelet could take at its turn.

    Args:
        preemptor: the critical pod.
        pods: (n,) active pods, in any order.
        facts: the kubelet's version.
        insufficient: (r,) what was missing.
        victims: (k,) UIDs in the order they were killed.
        name: what to call the pod of a UID.

    Returns:
        Why it could not have been; empty if it could.
    """
    candidates = candidates_of(preemptor, pods, facts)
    at = {candidate.uid: candidate for candidate in candidates}
    for position, uid in enumerate(victims):
        if uid not in at:
            if any((pod.metadata.uid or "") == uid for pod in pods):
                return (
                    f"{name(uid)} is critical, and not of lower priority: it may not be preempted"
                )
            return f"{name(uid)} is not among the active pods"
        if uid in victims[:position]:
            return f"{name(uid)} was killed already"
    if unmet := subtract(insufficient, candidates):
        return f"no set of pods frees what is missing: {to_string(unmet)} would be left"
    claimed = [at[uid] for uid in victims]
    ranks = [KILL_ORDER.index(victim.qos) for victim in claimed]
    if ranks != sorted(ranks):
        return "BestEffort pods are killed before Burstable ones, these before Guaranteed ones"
    turns = pods_to_preempt(candidates, insufficient, claimed)
    return next(filter(None, (_refuted(turn, claimed, name) for turn in turns)), "")


def _refuted(turn: Turn, claimed: Sequence[Candidate], name: Callable[[str], str]) -> str:
    """Why the kubelet cannot have taken this victim at its turn; empty if it can."""
    victim, before = turn.victim, _with_gone(turn, name)
    if victim is None:
        if not turn.missing:
            return ""
        killed = f" after {' and '.join(name(each.uid) for each in turn.killed)}"
        return (
            f"{to_string(turn.missing)} is missing{before}{killed if turn.killed else ''}, so "
            f"{'another' if turn.killed else 'a'} {turn.qos} pod is killed"
        )
    who = name(victim.uid)
    if not turn.missing:
        return f"{who} was killed although nothing was missing any more{before}"
    best = nearest(turn.missing, turn.pods)
    if victim in best:
        return ""
    rival = min(best, key=lambda each: each.place)
    own, least = distances(turn.missing, (victim, rival))
    order = "as near to what is missing, but smaller" if own == least else "nearer to it"
    where = f"with {to_string(turn.missing)} missing{before}"
    if rival in claimed:
        return f"{who} was killed {where} before {name(rival.uid)}, {order}"
    return f"{who} was killed {where} while {name(rival.uid)}, {order}, was left"


def _with_gone(turn: Turn, name: Callable[[str], str]) -> str:
    """Which pods are taken as gone when victims of a class are chosen: `` with ... gone``."""
    if not turn.gone:
        return ""
    if turn.qos == "Guaranteed":
        return " with all BestEffort and Burstable pods gone"
    gone = [name(each.uid) for each in turn.gone if each.qos != "BestEffort"]
    if len(gone) < len(turn.gone):
        gone.insert(0, "all BestEffort pods")
    return f" with {' and '.join(gone)} gone"


# -- why each of them was chosen --------------------------------------------------------------


class Choice(NamedTuple):
    """One victim.

    Attributes:
        who: name, QoS class, priority and what its death frees.
        because: why it was its turn.
    """

    who: str
    because: str


def choices(
    preemptor: Pod,
    pods: Sequence[Pod],
    facts: AdmissionFacts,
    insufficient: Requirements,
    victims: Sequence[str],
    names: Mapping[str, str],
) -> dict[str, Choice]:
    """UID of each victim -> why it was chosen; for victims that are :func:`admissible`.

    They are chosen class by class, Guaranteed pods first, and killed in the reverse order.

    Args:
        preemptor: the critical pod.
        pods: (n,) active pods, in any order.
        facts: the kubelet's version.
        insufficient: (r,) what was missing.
        victims: (k,) UIDs in the order they were killed.
        names: UID -> name of each pod.
    """
    candidates = candidates_of(preemptor, pods, facts)
    at = {candidate.uid: candidate for candidate in candidates}
    turns = pods_to_preempt(candidates, insufficient, [at[uid] for uid in victims if uid in at])
    found = {}
    for turn in turns:
        if (victim := turn.victim) is not None:
            frees = _frees(victim, turn.missing)
            who = f"{names[victim.uid]} ({victim.qos}, {priority_of(victim.pod)}, {frees})"
            because = f"{_although(turn, names, insufficient)} {_because(turn, victim, names)}"
            found[victim.uid] = Choice(who, because.strip())
    return found


def _although(turn: Turn, names: Mapping[str, str], insufficient: Requirements) -> str:
    """What is taken as gone when it is this one's turn."""
    if turn.killed:
        return f"with {names[turn.killed[-1].uid]} gone"
    if turn.qos == "Guaranteed":
        return "even with all BestEffort and Burstable pods gone"
    best_effort = [each for each in turn.gone if each.qos == "BestEffort"]
    if not best_effort:
        return ""
    if any(each.frees[r.resource] for each in best_effort for r in insufficient):
        return "with all BestEffort pods gone"
    return "BestEffort pods free none of it, and"


def _because(turn: Turn, victim: Candidate, names: Mapping[str, str]) -> str:
    """Why this one, against the best of the other pods of its class."""
    left, missing = turn.missing, amounts(turn.missing)
    others = sorted((each for each in turn.pods if each is not victim), key=lambda o: o.place)
    if not others:
        return f"it is the only {turn.qos} pod that may be preempted, with {missing} missing"
    second = nearest(left, others)[0]
    rival = f"{names[second.uid]} ({_frees(second, left)})"
    own, distance = distances(left, (victim, second))
    if own < distance:
        return f"it is nearer to the missing {missing} than {rival}"
    alike, less = f"it is as near to the missing {missing} as {rival}", " and asks"
    if not (own or distance):
        alike = f"this pod and {rival} both free enough for the missing {missing}"
        less = ", but this one asks"
    if victim.size >= second.size:
        return f"{alike}, and one of them is taken"
    resource = next(r for r in ("memory", "cpu") if victim.frees[r] != second.frees[r])
    ours, theirs = (plains(resource, each.frees[resource])[0] for each in (victim, second))
    return f"{alike}{less} for less {resource} ({ours} against {theirs})"


def _frees(candidate: Candidate, missing: Requirements) -> str:
    return listing(amount(r.resource, candidate.frees[r.resource]) for r in missing)
