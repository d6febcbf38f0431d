"""Why these victims, or why not: sentences about the turns of a preemption, and its amounts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from kubeledger.kubelet.kube.pod import Pod
from kubeledger.kubelet.preemption.preemption import (
    KILL_ORDER,
    Candidates,
    Pick,
    Requirements,
    Turn,
    pods_to_preempt,
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
        pods: (n,) active pods, in any order.
        victims: (k,) UIDs in the order they were killed.
        name: what to call the pod of a UID.

    Returns:
        Why it could not have been; empty if it could.
    """
    candidates = Candidates(preemptor, pods, facts)
    at = {candidates.uid(pick): pick for pick in range(len(candidates.pods))}
    for position, uid in enumerate(victims):
        if uid not in at:
            if any((pod.metadata.uid or "") == uid for pod in pods):
                return (
                    f"{name(uid)} is critical, and not of lower priority: it may not be preempted"
                )
            return f"{name(uid)} is not among the active pods"
        if uid in victims[:position]:
            return f"{name(uid)} was killed already"
    if unmet := candidates.subtract(insufficient):
        return f"no set of pods frees what is missing: {to_string(unmet)} would be left"
    claimed = [at[uid] for uid in victims]
    ranks = [KILL_ORDER.index(candidates.qos[victim]) for victim in claimed]
    if ranks != sorted(ranks):
        return "BestEffort pods are killed before Burstable ones, these before Guaranteed ones"
    turns = pods_to_preempt(candidates, insufficient, claimed)

    def named(pick: Pick) -> str:
        return name(candidates.uid(pick))

    return next(filter(None, (_refuted(candidates, turn, claimed, named) for turn in turns)), "")


def _refuted(
    candidates: Candidates, turn: Turn, claimed: Sequence[Pick], name: Callable[[Pick], str]
) -> str:
    """Why the kubelet cannot have taken this victim at its turn; empty if it can."""
    victim, before = turn.victim, _with_gone(candidates, turn, name)
    if victim is None:
        if not turn.missing:
            return ""
        killed = f" after {' and '.join(map(name, turn.killed))}"
        return (
            f"{to_string(turn.missing)} is missing{before}{killed if turn.killed else ''}, so "
            f"{'another' if turn.killed else 'a'} {turn.qos} pod is killed"
        )
    if not turn.missing:
        return f"{name(victim)} was killed although nothing was missing any more{before}"
    best = candidates.nearest(turn.missing, turn.pods)
    if victim in best:
        return ""
    rival = min(best)
    own, least = candidates.distances(turn.missing, (victim, rival))
    order = "as near to what is missing, but smaller" if own == least else "nearer to it"
    where = f"with {to_string(turn.missing)} missing{before}"
    if rival in claimed:
        return f"{name(victim)} was killed {where} before {name(rival)}, {order}"
    return f"{name(victim)} was killed {where} while {name(rival)}, {order}, was left"


def _with_gone(candidates: Candidates, turn: Turn, name: Callable[[Pick], str]) -> str:
    """Which pods are taken as gone when victims of a class are chosen: `` with ... gone``."""
    if not turn.gone:
        return ""
    if turn.qos == "Guaranteed":
        return " with all BestEffort and Burstable pods gone"
    gone = [name(pick) for pick in turn.gone if candidates.qos[pick] != "BestEffort"]
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
    """
    candidates = Candidates(preemptor, pods, facts)
    at = {candidates.uid(pick): pick for pick in range(len(candidates.pods))}
    why = _Why(candidates, names, insufficient)
    turns = pods_to_preempt(candidates, insufficient, [at[uid] for uid in victims if uid in at])
    return {
        candidates.uid(turn.victim): why.choice(turn, turn.victim)
        for turn in turns
        if turn.victim is not None
    }


class _Why(NamedTuple):
    candidates: Candidates
    names: Mapping[str, str]
    insufficient: Requirements

    def choice(self, turn: Turn, victim: Pick) -> Choice:
        qos, priority = self.candidates.qos[victim], priority_of(self.candidates.pods[victim])
        who = f"{self.name(victim)} ({qos}, {priority}, {self.frees(victim, turn.missing)})"
        return Choice(who, f"{self.although(turn)} {self.because(turn, victim)}".strip())

    def although(self, turn: Turn) -> str:
        """What is taken as gone when it is this one's turn."""
        if turn.killed:
            return f"with {self.name(turn.killed[-1])} gone"
        if turn.qos == "Guaranteed":
            return "even with all BestEffort and Burstable pods gone"
        candidates = self.candidates
        best_effort = [pick for pick in turn.gone if candidates.qos[pick] == "BestEffort"]
        if not best_effort:
            return ""
        if any(candidates.frees[r.resource][p] for p in best_effort for r in self.insufficient):
            return "with all BestEffort pods gone"
        return "BestEffort pods free none of it, and"

    def because(self, turn: Turn, victim: Pick) -> str:
        """Why this one, against the best of the other pods of its class."""
        candidates, left, missing = self.candidates, turn.missing, amounts(turn.missing)
        others = sorted(pick for pick in turn.pods if pick != victim)
        if not others:
            return f"it is the only {turn.qos} pod that may be preempted, with {missing} missing"
        second = candidates.nearest(left, others)[0]
        rival = f"{self.name(second)} ({self.frees(second, left)})"
        own, distance = candidates.distances(left, (victim, second))
        if own < distance:
            return f"it is nearer to the missing {missing} than {rival}"
        alike, less = f"it is as near to the missing {missing} as {rival}", " and asks"
        if not (own or distance):
            alike = f"this pod and {rival} both free enough for the missing {missing}"
            less = ", but this one asks"
        size, other = candidates.sizes((victim, second))
        if size >= other:
            return f"{alike}, and one of them is taken"
        at, resource = (0, "memory") if size[0] < other[0] else (1, "cpu")
        ours, theirs = (plains(resource, each[at])[0] for each in (size, other))
        return f"{alike}{less} for less {resource} ({ours} against {theirs})"

    def name(self, pick: Pick) -> str:
        return self.names[self.candidates.uid(pick)]

    def frees(self, pick: Pick, missing: Requirements) -> str:
        frees = self.candidates.frees
        return listing(amount(r.resource, frees[r.resource][pick]) for r in missing)
