"""Were these the victims? All victims of one preemption are judged together, at its end.

What a record tells to be missing is a reading of the kubelet: worlds that do not give it end.
Where no world gives the victims, as few records as explain it are wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from kubeledger.preemption.decider import admissible
from kubeledger.preemption.records import PodPreempted
from kubeledger.verify.belief import Judgement, Ruling, judge
from kubeledger.verify.finding import Fields
from kubeledger.verify.rules.admission.case import AdmissionCase, AdmissionOutcome, CountedPod
from kubeledger.verify.rules.admission.choice import choices
from kubeledger.verify.rules.admission.judging import ENDS, OTHER_PODS, RULE_PREEMPTION, freely
from kubeledger.verify.rules.admission.words import (
    amounts,
    fits_because,
    listing,
    priority_of,
    short_of,
)

__all__ = ["OTHER_VICTIMS", "Kill", "judge_victims"]

OTHER_VICTIMS: Final = "the lines that tell of the other victims"


class Kill(msgspec.Struct, frozen=True):
    """A recorded victim.

    Attributes:
        body: the decision.
        evicted: what must have come of the kill; None when nothing tells.
        evicted_why: why.
        inputs: records that tell.
    """

    body: PodPreempted
    evicted: bool | None = None
    evicted_why: str = ""
    inputs: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """``namespace/name`` of the victim."""
        return f"{self.body.victim_namespace}/{self.body.victim_pod}"

    @property
    def stand_in(self) -> str:
        """What stands for the UID of a victim that is none of the world's pods."""
        return self.body.victim_uid or self.name


def judge_victims(
    case: AdmissionCase, kills: Sequence[Kill], *, all_told: bool
) -> list[tuple[Judgement, Fields]]:
    """Judge the victims of one preemption, in the order they were killed.

    Args:
        case: the admission that they were killed for.
        kills: the victims.
        all_told: no other victim can have been lost with the end of the log or of a line.

    Returns:
        (n,) judgement, and the fields of the record that it is about.

    Raises:
        BadInputError: a quantity of a pod is none.
    """
    every = list(case.outcomes())
    told = [tuple(each for each in choices if _gives(each, kills)) for choices in every]
    worlds = [
        [_World(case, outcome, kills) for outcome in choices]
        for choices in ([choices for choices in told if choices] or every)
    ]
    unknown = [f"the spec of pod {name}" for name in case.unread]
    if not case.complete:
        unknown.append(OTHER_PODS)
    found = []
    for index in range(len(kills)):
        rulings = [freely(world.ruling(index) for world in choices) for choices in worlds]
        allowed = rulings[0].allowed
        rulings += [Ruling(allowed=not allowed, why=_OTHERS, assumes=(what,)) for what in unknown]
        if not all_told and any(world.may_lack for choices in worlds for world in choices):
            rulings.append(Ruling(allowed=True, why=_OTHERS, assumes=(OTHER_VICTIMS,)))
        judgement = judge(rulings, cut=ENDS if case.is_cut else None)
        found.append((judgement, worlds[0][0].recorded(index)))
    return found


_OTHERS: Final = "another pod may have been there to be killed"


class _World:
    """The victims in one world, and who is to blame where they cannot be.

    Attributes:
        may_lack: nobody was killed wrongly and there are too few, of whom some may have died.
    """

    def __init__(
        self, case: AdmissionCase, outcome: AdmissionOutcome, kills: Sequence[Kill]
    ) -> None:
        self._case = case
        self._outcome = outcome
        self._kills = kills
        self._uids = [next(_uids_of(outcome, kill.body), kill.stand_in) for kill in kills]
        self._why = self._refuted(self._uids)
        self._blamed = self._blame() if self._why else {}
        decided = list(outcome.result.victims)
        self._choices = choices(case, outcome, decided if self._why else self._uids)
        others = [o for o in outcome.pods if (o.pod.metadata.uid or "") not in self._uids]
        too_few = set(self._uids) < set(decided)
        self.may_lack = too_few and not all(other.lives for other in others)

    def ruling(self, index: int) -> Ruling:
        """Whether the kubelet can have killed the victim at this place."""
        kill, outcome = self._kills[index], self._outcome
        expected = self._expected(index)
        why = self._blamed.get(index, "") or self._wrong_fields(index, expected)
        return Ruling(
            allowed=not why,
            chosen=self._is_first(index),
            why=why or self._because(index),
            expected=expected,
            assumes=outcome.assumes,
            inputs=(*self._case.inputs, *outcome.specs, *kill.inputs),
            rule=RULE_PREEMPTION,
        )

    # -- which victims --------------------------------------------------------------------

    def _refuted(self, uids: Sequence[str]) -> str:
        """Why these cannot be the victims; empty if they can."""
        case, outcome = self._case, self._outcome
        if not outcome.requirements:
            return f"nobody had to be killed: {fits_because(case, outcome)}"
        if not outcome.result.admit:
            return f"the pod is refused, and nobody is killed for it: {outcome.result.message}"
        if not outcome.result.victims:
            return "the pod is not critical, and nobody is killed for it"
        pods = [other.pod for other in outcome.pods]
        return admissible(case.pod, pods, outcome.requirements, uids, case.facts)

    def _is_first(self, index: int) -> bool:
        decided = self._outcome.result.victims
        if self._blamed:
            return self._uids[index] in decided
        return self._uids[index : index + 1] == list(decided[index : index + 1])

    def _blame(self) -> dict[int, str]:
        """Index of a record that cannot be -> why; as few of them as explain it."""
        uids, decided = self._uids, self._outcome.result.victims
        everyone = dict.fromkeys(range(len(uids)), self._why)
        if not decided:
            return everyone
        unused = [uid for uid in decided if uid not in uids]
        foreign = [index for index, uid in enumerate(uids) if uid not in decided]
        suspects = [*foreign, *(i for i in range(len(uids)) if i not in foreign)]
        for index in suspects:
            for uid in unused:
                if not self._refuted([*uids[:index], uid, *uids[index + 1 :]]):
                    return {index: self._instead(index, uid)}
        for index in suspects:
            rest = [*uids[:index], *uids[index + 1 :]]
            if not self._refuted(rest):
                enough = f"the missing {amounts(self._outcome.requirements)} is free with"
                gone = f"{enough} {listing(map(self._name, rest))} gone"
                return {index: f"{self._name(uids[index])} was not to be killed: {gone}"}
        if set(uids) < set(decided):
            missing = amounts(self._outcome.requirements)
            why = f"{listing(map(self._name, uids))} cannot free the missing {missing}"
            return {len(uids) - 1: f"{why}: {listing(map(self._name, unused))} is needed, too"}
        if foreign:
            return dict.fromkeys(foreign, self._why_named())
        if set(uids) != set(decided):
            return everyone
        return {next(i for i, uid in enumerate(uids) if uid != decided[i]): self._why_named()}

    def _instead(self, index: int, uid: str) -> str:
        right = [*self._uids[:index], uid, *self._uids[index + 1 :]]
        choice = choices(self._case, self._outcome, right).get(uid)
        because = f": {choice.who}, {choice.because}" if choice is not None else ""
        return f"{self._name(uid)} was to be killed, and not {self._kills[index].name}{because}"

    def _why_named(self) -> str:
        """The decider's sentence, with names for UIDs."""
        why = self._why
        for other in self._outcome.pods:
            uid = other.pod.metadata.uid
            if uid:
                why = why.replace(f"pod {uid}", other.name).replace(uid, other.name)
        return why

    def _name(self, uid: str) -> str:
        for kill in self._kills:
            if kill.stand_in == uid:
                return kill.name
        return next((o.name for o in self._outcome.pods if o.pod.metadata.uid == uid), uid)

    # -- fields and words -----------------------------------------------------------------

    def recorded(self, index: int) -> Fields:
        """The fields of the record that are judged."""
        kill = self._kills[index]
        body = kill.body
        fields: Fields = {
            "victim_namespace": body.victim_namespace,
            "victim_pod": body.victim_pod,
            "victim_uid": body.victim_uid,
        }
        if body.preemptor_pod is not None:
            fields["preemptor_namespace"] = body.preemptor_namespace
            fields["preemptor_pod"] = body.preemptor_pod
            if body.preemptor_uid is not None and self._case.add.uid is not None:
                fields["preemptor_uid"] = body.preemptor_uid
        if body.insufficient:
            fields["insufficient"] = list(msgspec.to_builtins(body.insufficient))
        if kill.evicted is not None and body.evicted is not None:
            fields["evicted"] = body.evicted
        return fields

    def _expected(self, index: int) -> Fields:
        """The same fields as the kubelet decides them in this world."""
        body, add = self._kills[index].body, self._case.add
        decided: Fields = {
            "preemptor_namespace": add.namespace,
            "preemptor_pod": add.name,
            "preemptor_uid": add.uid,
            "insufficient": list(msgspec.to_builtins(self._outcome.requirements)),
            "evicted": self._kills[index].evicted,
        }
        other = self._victim(index)
        if other is not None:
            namespace, _, name = other.name.partition("/")
            uid = body.victim_uid and (_uid_of(other) or body.victim_uid)
            decided |= {"victim_namespace": namespace, "victim_pod": name, "victim_uid": uid}
        return {name: decided.get(name) for name in self.recorded(index)}

    def _victim(self, index: int) -> CountedPod | None:
        """Who was to be killed at this place."""
        uid = self._uids[index]
        if index in self._blamed:
            unused = [u for u in self._outcome.result.victims if u not in self._uids]
            uid = unused[0] if unused else ""
        return next((o for o in self._outcome.pods if o.pod.metadata.uid == uid), None)

    def _wrong_fields(self, index: int, expected: Fields) -> str:
        recorded = self.recorded(index)
        wrong = [name for name in recorded if recorded[name] != expected[name]]
        if not wrong:
            return ""
        if wrong == ["evicted"]:
            return self._kills[index].evicted_why
        if wrong == ["insufficient"]:
            lacked = amounts(self._outcome.requirements)
            told = amounts(self._kills[index].body.insufficient)
            return f"{self._preemptor} lacked {lacked} ({short_of(self._outcome)}), not {told}"
        said = listing(f"{name} {recorded[name]!r}" for name in wrong)
        true = listing(f"{expected[name]!r}" for name in wrong)
        return f"the record names {said} where it was {true}"

    def _because(self, index: int) -> str:
        choice = self._choices.get(self._uids[index])
        need = f"{self._preemptor} ({priority_of(self._case.pod)}) lacked "
        need += f"{amounts(self._outcome.requirements)} ({short_of(self._outcome)})"
        if choice is None:
            return f"{self._name(self._uids[index])} was killed because {need}"
        return f"{choice.who} was killed because {need}: {choice.because}"

    @property
    def _preemptor(self) -> str:
        return self._case.add.full_name


def _gives(outcome: AdmissionOutcome, kills: Sequence[Kill]) -> bool:
    told = (kill.body.insufficient for kill in kills)
    return all(missing == outcome.requirements for missing in told if missing)


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
