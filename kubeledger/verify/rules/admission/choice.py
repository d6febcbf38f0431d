"""Why this victim and not another one: the steps of getPodsToPreempt, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from kubeledger.kube.podqos import QOSClass
from kubeledger.preemption.candidates import Candidates
from kubeledger.preemption.requirements import Requirements, distances, subtract
from kubeledger.verify.rules.admission.case import AdmissionCase, AdmissionOutcome
from kubeledger.verify.rules.admission.words import amount, amounts, listing, plain, priority_of

__all__ = ["Choice", "choices"]

_ORDER: Final[tuple[QOSClass, ...]] = ("Guaranteed", "Burstable", "BestEffort")
"""Victims are chosen class by class in this order, and killed in the reverse one."""


class Choice(msgspec.Struct, frozen=True):
    """One victim.

    Attributes:
        who: name, QoS class, priority and what its death frees.
        because: why it was its turn.
        random: another pod was as good, and the order of the kubelet's list decided.
    """

    who: str
    because: str
    random: bool


def choices(
    case: AdmissionCase, outcome: AdmissionOutcome, victims: Sequence[str]
) -> dict[str, Choice]:
    """UID of each victim -> why it was chosen; for victims that the kubelet can have chosen."""
    return _Chooser(case, outcome).choose(victims)


class _Chooser:
    def __init__(self, case: AdmissionCase, outcome: AdmissionOutcome) -> None:
        pods = [other.pod for other in outcome.pods]
        self._candidates = Candidates(case.pod, pods, case.facts)
        self._requirements = outcome.requirements
        self._names = {other.pod.metadata.uid or "": other.name for other in outcome.pods}
        self._at = {pod.metadata.uid or "": pick for pick, pod in enumerate(self._candidates.pods)}

    def choose(self, victims: Sequence[str]) -> dict[str, Choice]:
        """Follow the choice through the classes."""
        candidates = self._candidates
        groups: dict[str, list[int]] = {c: [] for c in _ORDER}
        for pick in range(len(candidates.pods)):
            groups[str(candidates.qos(pick))].append(pick)
        picks = [self._at[uid] for uid in victims if uid in self._at]
        taken = {c: [p for p in picks if p in groups[c]] for c in _ORDER}
        gone: dict[QOSClass, tuple[list[int], str]] = {
            "Guaranteed": (
                groups["BestEffort"] + groups["Burstable"],
                "even with all BestEffort and Burstable pods gone",
            ),
            "Burstable": (
                groups["BestEffort"] + taken["Guaranteed"],
                self._although(groups["BestEffort"]),
            ),
            "BestEffort": (taken["Burstable"] + taken["Guaranteed"], ""),
        }
        found: dict[str, Choice] = {}
        for group in _ORDER:
            left_out, although = gone[group]
            left = subtract(self._requirements, candidates.freed(self._requirements, left_out))
            self._follow(groups[group], taken[group], left, although, found)
        return found

    def _although(self, best_effort: list[int]) -> str:
        """What becomes of the BestEffort pods, which are reckoned as gone first."""
        if not best_effort:
            return ""
        freed = self._candidates.freed(self._requirements, best_effort)
        if any(any(amounts) for amounts in freed):
            return "with all BestEffort pods gone"
        return "BestEffort pods free none of it, and"

    def _follow(
        self,
        group: list[int],
        taken: Sequence[int],
        left: Requirements,
        although: str,
        found: dict[str, Choice],
    ) -> None:
        pods = list(group)
        for place, pick in enumerate(taken):
            if not left or pick not in pods:
                continue
            pods.remove(pick)
            because, random = self._compare(pick, pods, left)
            if place:
                because = f"with {self._name(taken[place - 1])} gone {because}"
            elif although:
                because = f"{although} {because}"
            uid = self._candidates.pods[pick].metadata.uid or ""
            found[uid] = Choice(self._who(pick, left), because, random)
            left = subtract(left, self._candidates.freed(left, [pick]))

    def _compare(self, pick: int, others: Sequence[int], left: Requirements) -> tuple[str, bool]:
        """Why this one, against the best of the other pods of its class."""
        candidates = self._candidates
        missing = amounts(left)
        if not others:
            only = f"it is the only {candidates.qos(pick)} pod that may be preempted"
            return f"{only}, with {missing} missing", False
        sizes = candidates.sizes()
        near = distances([r.quantity for r in left], candidates.freed(left, [pick, *others]))
        ranked = sorted(zip(near[1:], [sizes[p] for p in others], others, strict=True))
        distance, size, second = ranked[0]
        rival = f"{self._name(second)} ({self._freed(second, left)})"
        if near[0] < distance:
            return f"it is nearer to the missing {missing} than {rival}", False
        alike, less = f"it is as near to the missing {missing} as {rival}", "and asks"
        if not any((near[0], distance)):
            alike = f"this pod and {rival} both free enough for the missing {missing},"
            less = "but this one asks"
        if sizes[pick] < size:
            memory, cpu = sizes[pick]
            smaller = "memory" if memory < size[0] else "cpu"
            own, theirs = (memory, size[0]) if smaller == "memory" else (cpu, size[1])
            return (
                f"{alike} {less} for less {smaller} ({plain(smaller, own)} against "
                f"{plain(smaller, theirs)})",
                False,
            )
        return f"{alike.rstrip(',')}, and one of them is taken", True

    def _name(self, pick: int) -> str:
        uid = self._candidates.pods[pick].metadata.uid or ""
        return self._names.get(uid, uid)

    def _freed(self, pick: int, left: Requirements) -> str:
        freed = self._candidates.freed(left, [pick])
        return listing(amount(r.resource, f[0]) for r, f in zip(left, freed, strict=True))

    def _who(self, pick: int, left: Requirements) -> str:
        pod = self._candidates.pods[pick]
        about = f"{self._candidates.qos(pick)}, {priority_of(pod)}, {self._freed(pick, left)}"
        return f"{self._name(pick)} ({about})"
