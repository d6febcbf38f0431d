"""Were these the victims? All victims of one preemption are judged together, at its end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from kubeledger.preemption.decider import admissible
from kubeledger.preemption.records import PodPreempted
from kubeledger.verify.admission.choice import choices
from kubeledger.verify.admission.judgement import (
    ENDS,
    OTHER_PODS,
    OTHER_VICTIMS,
    RULE_PREEMPTION,
    Judgement,
    unverifiable,
)
from kubeledger.verify.admission.question import Answer, Other, Question
from kubeledger.verify.admission.words import amounts, fits_because, listing, priority_of, short_of
from kubeledger.verify.finding import Fields, Verdict

__all__ = ["Kill", "judge_victims"]


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


def judge_victims(question: Question, kills: Sequence[Kill], *, all_told: bool) -> list[Judgement]:
    """Judge the victims of one preemption, in the order they were killed.

    Args:
        question: the admission that they were killed for.
        kills: the victims.
        all_told: no other victim can have been lost with the end of the log or of a line.

    Raises:
        BadInputError: a quantity of a pod is none.
    """
    if question.unread:
        missing = tuple(f"the spec of pod {name}" for name in question.unread)
        return [unverifiable(*missing, rule=RULE_PREEMPTION)] * len(kills)
    verdict = _Verdict(question, kills, all_told=all_told)
    return [verdict.of(index) for index in range(len(kills))]


class _Verdict:
    """The world that fits the records best, and who is to blame where none does."""

    def __init__(self, question: Question, kills: Sequence[Kill], *, all_told: bool) -> None:
        self._question = question
        self._kills = kills
        self._all_told = all_told
        best = -1
        self._why = ""
        self._may_lack = False
        for answer in question.answers():
            uids = _uids(answer, kills)
            why = _refuted(question, answer, uids)
            told = sum(_told(answer, kill) for kill in kills)
            score = told + (0 if why else len(kills) + 1)
            if score > best:
                best, self._answer, self._uids, self._why = score, answer, uids, why
            if not why and told == len(kills):
                break
            self._may_lack = self._may_lack or (told == len(kills) and _may_lack(answer, uids))
        self._blamed = self._blame() if self._why else {}
        self._right = self._corrected()
        self._choices = choices(question, self._answer, self._right)

    def of(self, index: int) -> Judgement:
        """The verdict on one victim."""
        kill, answer = self._kills[index], self._answer
        recorded, expected = self._fields(index)
        why = self._blamed.get(index, "")
        if why and not self._question.whole:
            return unverifiable(OTHER_PODS, rule=RULE_PREEMPTION)
        if why and self._question.open_worlds:
            return unverifiable(ENDS, rule=RULE_PREEMPTION)
        if not why:
            why = self._wrong_fields(kill, recorded, expected)
        if why and self._may_lack and not self._all_told:
            return unverifiable(OTHER_VICTIMS, rule=RULE_PREEMPTION)
        verdict: Verdict = "impossible"
        if not why:
            verdict = "match" if self._is_first(index) else "admissible"
            why = self._because(index)
        return Judgement(
            verdict=verdict,
            why=why,
            expected=expected,
            recorded=recorded,
            rule=RULE_PREEMPTION,
            inputs=(*self._question.inputs, *answer.specs, *kill.inputs),
        )

    # -- which victims --------------------------------------------------------------------

    def _is_first(self, index: int) -> bool:
        decided = self._answer.result.victims
        in_place = self._uids[index : index + 1] == list(decided[index : index + 1])
        if self._blamed:
            in_place = self._uids[index] in decided
        return self._answer.first and in_place and self._question.whole

    def _blame(self) -> dict[int, str]:
        """Index of a record that cannot be -> why; as few of them as explain it."""
        question, answer, uids = self._question, self._answer, self._uids
        everyone = dict.fromkeys(range(len(uids)), self._why)
        decided = answer.result.victims
        if not decided:
            return everyone
        unused = [uid for uid in decided if uid not in uids]
        foreign = [index for index, uid in enumerate(uids) if uid not in decided]
        for index in [*foreign, *(i for i in range(len(uids)) if i not in foreign)]:
            for uid in unused:
                other = [*uids[:index], uid, *uids[index + 1 :]]
                if not _refuted(question, answer, other):
                    return {index: self._instead(index, uid)}
        for index in [*foreign, *(i for i in range(len(uids)) if i not in foreign)]:
            rest = [*uids[:index], *uids[index + 1 :]]
            if not _refuted(question, answer, rest):
                enough = f"the missing {amounts(answer.requirements)} is free with"
                gone = f"{enough} {listing(map(self._name, rest))} gone"
                return {index: f"{self._name(uids[index])} was not to be killed: {gone}"}
        if set(uids) < set(decided):
            missing = amounts(answer.requirements)
            why = f"{listing(map(self._name, uids))} cannot free the missing {missing}"
            why = f"{why}: {listing(map(self._name, unused))} is needed, too"
            return {len(uids) - 1: why}
        if foreign:
            return {index: self._why_named() for index in foreign}
        return everyone if set(uids) != set(decided) else {self._misplaced(): self._why_named()}

    def _misplaced(self) -> int:
        decided = self._answer.result.victims
        return next(i for i, uid in enumerate(self._uids) if uid != decided[i])

    def _instead(self, index: int, uid: str) -> str:
        wrong = self._kills[index].body
        name = f"{wrong.victim_namespace}/{wrong.victim_pod}"
        right = [*self._uids[:index], uid, *self._uids[index + 1 :]]
        choice = choices(self._question, self._answer, right).get(uid)
        because = f": {choice.who}, {choice.because}" if choice is not None else ""
        return f"{self._name(uid)} was to be killed, and not {name}{because}"

    def _why_named(self) -> str:
        """The decider's sentence, with names for UIDs."""
        why = self._why
        for other in self._answer.pods:
            uid = other.pod.metadata.uid
            if uid:
                why = why.replace(f"pod {uid}", other.name).replace(uid, other.name)
        return why

    def _corrected(self) -> list[str]:
        """The victims as they were to be, for the sentences."""
        if not self._why:
            return self._uids
        return list(self._answer.result.victims)

    def _name(self, uid: str) -> str:
        names = {
            _unknown(k.body): f"{k.body.victim_namespace}/{k.body.victim_pod}" for k in self._kills
        }
        names |= {o.pod.metadata.uid: o.name for o in self._answer.pods if o.pod.metadata.uid}
        return names.get(uid, uid)

    # -- fields and words -----------------------------------------------------------------

    def _fields(self, index: int) -> tuple[Fields, Fields]:
        body, offer = self._kills[index].body, self._question.offer
        recorded: Fields = {
            "victim_namespace": body.victim_namespace,
            "victim_pod": body.victim_pod,
            "victim_uid": body.victim_uid,
        }
        other = self._victim(index)
        expected: Fields = dict.fromkeys(recorded)
        if other is not None:
            namespace, _, name = other.name.partition("/")
            uid = body.victim_uid and (_uid_of(other) or body.victim_uid)
            expected = {"victim_namespace": namespace, "victim_pod": name, "victim_uid": uid}
        if body.preemptor_pod is not None:
            uid = offer.uid if body.preemptor_uid is not None else None
            expected |= {"preemptor_namespace": offer.namespace, "preemptor_pod": offer.name}
            recorded |= {
                "preemptor_namespace": body.preemptor_namespace,
                "preemptor_pod": body.preemptor_pod,
            }
            if uid is not None:
                expected["preemptor_uid"], recorded["preemptor_uid"] = uid, body.preemptor_uid
        if body.insufficient:
            recorded["insufficient"] = list(msgspec.to_builtins(body.insufficient))
            expected["insufficient"] = list(msgspec.to_builtins(self._answer.requirements))
        evicted = self._kills[index].evicted
        if evicted is not None and body.evicted is not None:
            expected["evicted"], recorded["evicted"] = evicted, body.evicted
        return recorded, expected

    def _victim(self, index: int) -> Other | None:
        """Who was to be killed at this place."""
        if index not in self._blamed:
            uid = self._uids[index]
        else:
            unused = [u for u in self._answer.result.victims if u not in self._uids]
            uid = unused[0] if unused else ""
        return next((o for o in self._answer.pods if o.pod.metadata.uid == uid), None)

    def _wrong_fields(self, kill: Kill, recorded: Fields, expected: Fields) -> str:
        wrong = [name for name in recorded if recorded[name] != expected.get(name)]
        if not wrong:
            return ""
        if wrong == ["evicted"]:
            return kill.evicted_why
        if wrong == ["insufficient"]:
            lacked = amounts(self._answer.requirements)
            told = amounts(kill.body.insufficient)
            return f"{self._preemptor} lacked {lacked} ({short_of(self._answer)}), not {told}"
        said = listing(f"{name} {recorded[name]!r}" for name in wrong)
        true = listing(f"{expected.get(name)!r}" for name in wrong)
        return f"the record names {said} where it was {true}"

    def _because(self, index: int) -> str:
        choice = self._choices.get(self._uids[index])
        need = f"{self._preemptor} ({priority_of(self._question.pod)}) lacked "
        need += f"{amounts(self._answer.requirements)} ({short_of(self._answer)})"
        if choice is None:
            return f"{self._name(self._uids[index])} was killed because {need}"
        return f"{choice.who} was killed because {need}: {choice.because}"

    @property
    def _preemptor(self) -> str:
        return self._question.offer.full_name


def _uids(answer: Answer, kills: Sequence[Kill]) -> list[str]:
    """UIDs of the recorded victims, as the pods of a world have them."""
    return [next(_uids_of(answer, kill.body), _unknown(kill.body)) for kill in kills]


def _unknown(body: PodPreempted) -> str:
    """What stands for the UID of a victim that is none of the world's pods."""
    return body.victim_uid or f"{body.victim_namespace}/{body.victim_pod}"


def _uids_of(answer: Answer, body: PodPreempted) -> Iterator[str]:
    name = f"{body.victim_namespace}/{body.victim_pod}"
    for other in answer.pods:
        uid = other.pod.metadata.uid or ""
        by_name = body.victim_uid is None or not _uid_of(other)
        if uid == body.victim_uid or (by_name and other.name == name):
            yield uid


def _uid_of(other: Other) -> str:
    """Its UID; empty when only its name is known, which stands for it."""
    uid = other.pod.metadata.uid or ""
    return "" if uid == other.name else uid


def _may_lack(answer: Answer, uids: Sequence[str]) -> bool:
    """Whether nobody was killed wrongly and there are too few, of whom some may have died."""
    decided = answer.result.victims
    others = (other for other in answer.pods if (other.pod.metadata.uid or "") not in uids)
    return set(uids) < set(decided) and not all(other.lives for other in others)


def _told(answer: Answer, kill: Kill) -> bool:
    return not kill.body.insufficient or kill.body.insufficient == answer.requirements


def _refuted(question: Question, answer: Answer, uids: Sequence[str]) -> str:
    """Why these cannot be the victims; empty if they can."""
    if not answer.requirements:
        return f"nobody had to be killed: {fits_because(question, answer)}"
    if not answer.result.admit:
        return f"the pod is refused, and nobody is killed for it: {answer.result.message}"
    if not answer.result.victims:
        return "the pod is not critical, and nobody is killed for it"
    pods = [other.pod for other in answer.pods]
    return admissible(question.pod, pods, answer.requirements, uids, question.facts)
