"""Were these the victims? All victims of one preemption are judged together, at its end.

What a record shows to be missing is a reading of the kubelet: worlds that do not give it end.
Where no world gives the victims, as few records as explain it are wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Final

import msgspec

from kubeledger.kubelet.preemption.explain import (
    Choice,
    admissible,
    amounts,
    choices,
    listing,
    priority_of,
)
from kubeledger.model.bodies.eviction import PodPreempted
from kubeledger.verify.belief import Judgement, Ruling, judge
from kubeledger.verify.finding import Fields
from kubeledger.verify.rules.admission.case import AdmissionCase, AdmissionOutcome, CountedPod
from kubeledger.verify.rules.admission.judging import (
    ENDS,
    RULE_PREEMPTION,
    fits_because,
    freely,
    lacked_by,
)

OTHER_VICTIMS: Final = "the lines about the other victims"
_OTHERS: Final = "another pod may have been there to be killed"


class Kill(msgspec.Struct, frozen=True):
    """A recorded victim.

    Attributes:
        failed: why the kill cannot have led to what is recorded; empty if it can.
    """

    body: PodPreempted
    failed: str = ""
    inputs: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.body.victim_namespace}/{self.body.victim_pod}"

    @property
    def stand_in(self) -> str:
        """What replaces the UID of a victim that is not among the world's pods."""
        return self.body.victim_uid or self.name


def judge_victims(
    case: AdmissionCase, kills: Sequence[Kill], *, all_reported: bool
) -> list[tuple[Judgement, Fields | None]]:
    """Judge the victims of one preemption, in the order they were killed.

    ``all_reported``: no other victim can have been lost with the end of the log or of a line.

    Returns:
        (n,) judgement, and the fields of the record that it is about.

    Raises:
        BadInputError: a quantity of a pod is none.
    """
    every = list(case.outcomes())
    told = [missing for kill in kills if (missing := kill.body.insufficient)]
    given = [[w for w in worlds if all(w.requirements == m for m in told)] for worlds in every]
    worlds = [
        [_World(case, outcome, kills) for outcome in choices]
        for choices in ([each for each in given if each] or every)
    ]
    found: list[tuple[Judgement, Fields | None]] = []
    for index in range(len(kills)):
        rulings = [freely(world.ruling(index) for world in choices) for choices in worlds]
        allowed = rulings[0].allowed
        for what in case.unknown_inputs:
            rulings.append(Ruling(allowed=not allowed, why=_OTHERS, assumes=(what,)))
        if not all_reported and any(world.may_lack for choices in worlds for world in choices):
            rulings.append(Ruling(allowed=True, why=_OTHERS, assumes=(OTHER_VICTIMS,)))
        judgement = judge(rulings, cut=ENDS if case.is_cut else None)
        found.append((judgement, worlds[0][0].recorded(index)))
    return found


class _World:
    """The victims in one world, and who is to blame where they cannot be.

    Attributes:
        may_lack: nobody was killed wrongly and there are too few, of whom some may have died.
    """

    def __init__(
        self, case: AdmissionCase, outcome: AdmissionOutcome, kills: Sequence[Kill]
    ) -> None:
        self._case, self._outcome, self._kills = case, outcome, kills
        self._pods = {other.pod.metadata.uid or "": other for other in outcome.pods}
        self._names = {uid: other.name for uid, other in self._pods.items()}
        self._names |= {kill.stand_in: kill.name for kill in kills}
        self._decided = list(outcome.result.victims)
        self._uids = [next(_uids_of(outcome, kill.body), kill.stand_in) for kill in kills]
        self._unused = [uid for uid in self._decided if uid not in self._uids]
        self._blamed = self._blame(self._refuted(self._uids))
        self._choices = self._chosen(self._decided if self._blamed else self._uids)
        others = [other for uid, other in self._pods.items() if uid not in self._uids]
        too_few = set(self._uids) < set(self._decided)
        self.may_lack = too_few and not all(other.alive_later for other in others)

    def ruling(self, index: int) -> Ruling:
        """Whether the kubelet can have killed the victim at this place."""
        kill, outcome, uid = self._kills[index], self._outcome, self._uids[index]
        expected = self._expected(index)
        why = self._blamed.get(index, "") or self._wrong_fields(index, expected)
        choice, clause = self._choices.get(uid), f"lacked {lacked_by(outcome)}"
        who = self._names[uid] if choice is None else choice.who
        clause += "" if choice is None else f": {choice.because}"
        preemptor = f"{self._case.interval.full_name} ({priority_of(self._case.pod)})"
        at_its_place = self._uids[index : index + 1] == self._decided[index : index + 1]
        return Ruling(
            allowed=not why,
            chosen=uid in self._decided if self._blamed else at_its_place,
            why=why or f"{who} was killed because {preemptor} {clause}",
            clause="" if why else clause,
            expected=expected,
            assumes=outcome.assumes,
            inputs=(*self._case.inputs, *outcome.specs, *kill.inputs),
            rule=RULE_PREEMPTION,
        )

    def _refuted(self, uids: Sequence[str]) -> str:
        """Why these cannot be the victims; empty if they can."""
        case, outcome = self._case, self._outcome
        if not outcome.requirements:
            return f"no pod had to be killed: {fits_because(case, outcome)}"
        if not outcome.result.admit:
            return f"the pod is refused, and none is killed for it: {outcome.result.message}"
        if not outcome.result.victims:
            return "the pod is not critical, and none is killed for it"
        pods = [other.pod for other in outcome.pods]
        return admissible(case.pod, pods, case.facts, outcome.requirements, uids, self._name)

    def _chosen(self, uids: Sequence[str]) -> dict[str, Choice]:
        """Why each of these was chosen, if they were the victims."""
        case, pods = self._case, [other.pod for other in self._outcome.pods]
        missing = self._outcome.requirements
        return choices(case.pod, pods, case.facts, missing, uids, self._names)

    def _name(self, uid: str) -> str:
        return self._names.get(uid, f"pod {uid}")

    def _blame(self, why: str) -> dict[int, str]:
        """Index of a record that cannot be -> why; one alone where that explains it."""
        uids, everyone = self._uids, range(len(self._uids))
        if not why:
            return {}
        foreign = [index for index in everyone if uids[index] not in self._decided]
        for index, uid in product(dict.fromkeys((*foreign, *everyone)), self._unused):
            right = [*uids[:index], uid, *uids[index + 1 :]]
            if not self._refuted(right):
                choice = self._chosen(right)[uid]
                what = f"was to be killed, and not {self._kills[index].name}"
                return {index: f"{self._names[uid]} {what}: {choice.who}, {choice.because}"}
        return dict.fromkeys(foreign or everyone, why)

    # -- fields and words -----------------------------------------------------------------

    def recorded(self, index: int) -> Fields:
        """The fields of the record that are judged: those that it says."""
        kill = self._kills[index]
        given: Fields = msgspec.to_builtins(kill.body)
        given["insufficient"] = list(given["insufficient"]) or None
        names = ["victim_namespace", "victim_pod", *(["evicted"] if kill.failed else [])]
        names += ["preemptor_namespace", "preemptor_pod", "insufficient", "victim_uid"]
        names += ["preemptor_uid"] if self._case.interval.uid is not None else []
        return {name: given[name] for name in names if given[name] is not None}

    def _expected(self, index: int) -> Fields:
        """The same fields as the kubelet decides them in this world."""
        body, interval, uid = self._kills[index].body, self._case.interval, self._uids[index]
        decided: Fields = {
            "preemptor_namespace": interval.namespace,
            "preemptor_pod": interval.name,
            "preemptor_uid": interval.uid,
            "insufficient": list(msgspec.to_builtins(self._outcome.requirements)),
            "evicted": not body.evicted,
        }
        if index in self._blamed:
            uid = next(iter(self._unused), "")
        if (other := self._pods.get(uid)) is not None:
            decided["victim_namespace"], _, decided["victim_pod"] = other.name.partition("/")
            decided["victim_uid"] = _uid_of(other) or body.victim_uid
        return {name: decided.get(name) for name in self.recorded(index)}

    def _wrong_fields(self, index: int, expected: Fields) -> str:
        recorded = self.recorded(index)
        wrong = [name for name in recorded if recorded[name] != expected[name]]
        if wrong == ["evicted"]:
            return self._kills[index].failed
        if wrong == ["insufficient"]:
            given = amounts(self._kills[index].body.insufficient)
            return f"{self._case.interval.full_name} lacked {lacked_by(self._outcome)}, not {given}"
        named, right = (listing(f"{n} {of[n]!r}" for n in wrong) for of in (recorded, expected))
        return f"the record names {named} where it was {right}" if wrong else ""


def _uids_of(outcome: AdmissionOutcome, body: PodPreempted) -> Iterator[str]:
    """UIDs of a recorded victim, as the pods of a world have them."""
    name = f"{body.victim_namespace}/{body.victim_pod}"
    for other in outcome.pods:
        uid = other.pod.metadata.uid or ""
        by_name = body.victim_uid is None or not _uid_of(other)
        if uid == body.victim_uid or (by_name and other.name == name):
            yield uid


def _uid_of(other: CountedPod) -> str:
    """Its UID; empty when only its name is known, which stands for it."""
    uid = other.pod.metadata.uid or ""
    return "" if uid == other.name else uid
