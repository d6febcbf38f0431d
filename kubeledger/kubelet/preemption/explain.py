"""Sentences about a preemption: amounts, and why this victim and not another one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kubeledger.kubelet.kube.pod import Pod
from kubeledger.kubelet.preemption.candidates import Candidates
from kubeledger.kubelet.preemption.requirements import Requirements, distances, subtract
from kubeledger.kubelet.preemption.victims import KILL_ORDER
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


class Choice(NamedTuple):
    """One victim.

    Attributes:
        who: name, QoS class, priority and what its death frees.
        because: why it was its turn.
    """

    who: str
    because: str


def choices(
    candidates: Candidates,
    names: Mapping[str, str],
    needs: Requirements,
    victims: Sequence[str],
) -> dict[str, Choice]:
    """UID of each victim -> why it was chosen; for victims that the kubelet can have chosen.

    They are chosen class by class, Guaranteed pods first, and killed in the reverse order.

    Args:
        candidates: the pods that may be preempted.
        names: UID -> name of each.
        needs: what was missing.
        victims: UIDs, in the order they were killed.

    Source: v1.36.2 pkg/kubelet/preemption/preemption.go getPodsToPreempt; v1.20.2
    """
    chooser = _Chooser(candidates, names)
    groups = candidates.by_qos()
    at = {pod.metadata.uid or "": pick for pick, pod in enumerate(candidates.pods)}
    picks = [at[uid] for uid in victims if uid in at]
    taken = {group: [pick for pick in picks if pick in groups[group]] for group in KILL_ORDER}
    best_effort, burstable = groups["BestEffort"], groups["Burstable"]
    freed = candidates.freed(needs, best_effort) if best_effort else []
    although = "with all BestEffort pods gone" if best_effort else ""
    if best_effort and not any(any(column) for column in freed):
        although = "BestEffort pods free none of it, and"
    gone = {
        "Guaranteed": (best_effort + burstable, "even with all BestEffort and Burstable pods gone"),
        "Burstable": (best_effort + taken["Guaranteed"], although),
        "BestEffort": (taken["Burstable"] + taken["Guaranteed"], ""),
    }
    found: dict[str, Choice] = {}
    for group in reversed(KILL_ORDER):
        left_out, before = gone[group]
        left = subtract(needs, candidates.freed(needs, left_out))
        others = list(groups[group])
        for pick in taken[group]:
            if not left or pick not in others:
                continue
            others.remove(pick)
            because = f"{before} {chooser.because(pick, others, left)}".strip()
            found[candidates.pods[pick].metadata.uid or ""] = Choice(
                chooser.who(pick, left), because
            )
            before = f"with {chooser.name(pick)} gone"
            left = subtract(left, candidates.freed(left, [pick]))
    return found


class _Chooser:
    def __init__(self, candidates: Candidates, names: Mapping[str, str]) -> None:
        self.candidates, self._names = candidates, names

    def name(self, pick: int) -> str:
        return self._names[self.candidates.pods[pick].metadata.uid or ""]

    def who(self, pick: int, left: Requirements) -> str:
        pod, qos = self.candidates.pods[pick], self.candidates.qos(pick)
        return f"{self.name(pick)} ({qos}, {priority_of(pod)}, {self._freed(pick, left)})"

    def because(self, pick: int, others: Sequence[int], left: Requirements) -> str:
        """Why this one, against the best of the other pods of its class."""
        candidates, missing = self.candidates, amounts(left)
        if not others:
            only = f"it is the only {candidates.qos(pick)} pod that may be preempted"
            return f"{only}, with {missing} missing"
        sizes = candidates.sizes()
        near = distances([r.quantity for r in left], candidates.freed(left, [pick, *others]))
        ranked = sorted(zip(near[1:], [sizes[p] for p in others], others, strict=True))
        distance, size, second = ranked[0]
        rival = f"{self.name(second)} ({self._freed(second, left)})"
        if near[0] < distance:
            return f"it is nearer to the missing {missing} than {rival}"
        alike, less = f"it is as near to the missing {missing} as {rival}", " and asks"
        if not any((near[0], distance)):
            alike = f"this pod and {rival} both free enough for the missing {missing}"
            less = ", but this one asks"
        if sizes[pick] >= size:
            return f"{alike}, and one of them is taken"
        smaller = 0 if sizes[pick][0] < size[0] else 1
        resource = ("memory", "cpu")[smaller]
        own, theirs = (plains(resource, of[smaller])[0] for of in (sizes[pick], size))
        return f"{alike}{less} for less {resource} ({own} against {theirs})"

    def _freed(self, pick: int, left: Requirements) -> str:
        freed = self.candidates.freed(left, [pick])
        return listing(amount(r.resource, f[0]) for r, f in zip(left, freed, strict=True))
