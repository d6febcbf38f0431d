"""Which pods would be on the node, or would not, after a changed decision.

The records show the pods that were there. Of each pod that would perhaps have been there
besides, or perhaps not, that is kept until it has left the node. Whether an admission rests on
them is decided again with them: a pod that fits beside all that may have been there fits beside
fewer; one that does not fit beside those alone that surely were does not fit beside more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import combinations
from typing import Final, Literal, NamedTuple

import msgspec

from kubeledger.analyze.whatif.pods import Pods, SpareMemory
from kubeledger.kubelet.kube.pod import Pod
from kubeledger.kubelet.kube.podclass import is_critical_pod, pod_qos
from kubeledger.model.errors import BadInputError
from kubeledger.model.units import NS_PER_S
from kubeledger.verify import Finding
from kubeledger.verify.rules.admission.case import AdmissionCase, AdmissionOutcome, CountedPod

Trust = Literal["sure", "sure but for words", "doubtful"]

_LINGERS_NS: Final = 10 * NS_PER_S
"""A pod that is deleted while it runs is gone by so much later than its grace period ends."""
_SETS_MAX: Final = 4
"""Of so many pods that perhaps live apart all sets are tried."""
_PREEMPTING: Final = "UnexpectedAdmissionError"
_OF_OTHERS: Final = frozenset({_PREEMPTING, "Evicted", "NodePorts", "TopologyAffinityError"})


class _Apart(msgspec.Struct):
    """A pod that diverges from its recorded history.

    Attributes:
        seq: of the change after which it does; ``from_ns`` its time.
        absent: it would perhaps not be on the node while it was.
        besides: it would perhaps be on the node while it was not.
        sure: not only perhaps.
        holds: it would perhaps hold other devices; alone, nothing else of it would be otherwise.
        until_ns: from when on it is as recorded all the same; None: no such time is known.
    """

    seq: int
    from_ns: int
    absent: bool = False
    sure: bool = False
    besides: bool = False
    holds: bool = False
    until_ns: int | None = None


class World:
    """See the module. Memory grows with the pods."""

    def __init__(self, pods: Pods, spare: SpareMemory | None = None) -> None:
        """As recorded.

        Args:
            spare: of memory; None: that is not known.
        """
        self._pods = pods
        self._spare = spare
        self._apart: dict[str, _Apart] = {}
        self._objects: dict[str, Pod] = {}

    # -- who is apart ------------------------------------------------------------------------

    def part(self, subject: str, seq: int, from_ns: int, flags: Collection[str]) -> None:
        """From here on a pod would diverge; ``flags`` of :class:`_Apart`."""
        apart = self._apart.get(subject)
        if apart is not None:
            apart.until_ns = None
        if apart is not None and apart.besides and "absent" in flags:
            if "sure" in flags and not apart.absent:
                del self._apart[subject]  # nor was it there
            else:
                apart.sure = False
            return
        if apart is None or not (apart.absent or apart.besides):
            holds = apart is not None and apart.holds
            first = seq if apart is None else min(apart.seq, seq)
            apart = self._apart[subject] = _Apart(first, from_ns, holds=holds)
            apart.sure = "sure" in flags
        else:
            apart.sure &= "sure" in flags and set(flags) <= _flags(apart)
        for flag in set(flags) - {"sure"}:
            setattr(apart, flag, True)
        apart.sure &= not apart.besides or subject in self._pods.lasts

    def shift_end(self, subject: str, seq: int, from_ns: int, until_ns: int) -> None:
        """A pod would end sooner or later than it did, by then at the latest."""
        apart = self._apart.get(subject)
        if apart is None:
            flags = {"absent": True, "besides": True}
            self._apart[subject] = _Apart(seq, from_ns, until_ns=until_ns, **flags)
        elif apart.until_ns is not None:
            apart.until_ns = max(apart.until_ns, until_ns)

    def part_all(self, seq: int, ts_ns: int) -> None:
        """Any pod would perhaps be killed."""
        for subject, came_ns in self._pods.came.items():
            if came_ns <= ts_ns and not self._has_gone(subject, came_ns, ts_ns):
                self.part(subject, seq, ts_ns, ("absent",))

    def part_by(
        self, finding: Finding, case: AdmissionCase | None, seq: int, *, was_there: bool
    ) -> None:
        """A doubtful admission: the pod, and those that it may preempt.

        Args:
            case: what it rests on; None where that is not known.
            seq: of the change that it follows.
            was_there: the pod that asks was admitted.
        """
        asker = pod_of(finding.subject) if case is None else _subject(case)
        possible = None if case is None else self._possible(case)
        if possible is None:
            self.part(asker, seq, finding.ts_ns, ("absent",) if was_there else ("besides",))
            if case is None or is_critical_pod(case.pod):
                self.part_all(seq, finding.ts_ns)
            return
        if any(each.admit is not was_there for each in possible):
            sure = len({each.admit for each in possible}) == 1
            flag = "absent" if was_there else "besides"
            self.part(asker, seq, finding.ts_ns, (flag, "sure") if sure else (flag,))
        for victim in set().union(*(each.victims for each in possible)):
            every = all(victim in each.victims for each in possible)
            flags = ("absent", "sure") if every else ("absent",)
            self.part(f"pod/{victim}", seq, finding.ts_ns, flags)

    def _possible(self, case: AdmissionCase) -> list[_Possible] | None:
        """What may come of an admission; None: too many things may."""
        come = self._come(case)
        if come is None or case.pressure is not None:
            return None
        refused = _Possible(False, frozenset())
        # Devices, CPUs and memory of its own are given before the rest is asked.
        found = {refused: None} if case.refusal else {}
        for node, others in case.worlds():
            subsets = list(self._pod_subsets(others, come))
            if not subsets:
                return None
            for pods in subsets:
                result = case.outcome_in(node, pods).result
                names = {other.pod.metadata.uid: other.name for other in pods}
                victims = frozenset(names[uid] for uid in result.victims)
                found[_Possible(result.admit, victims)] = None
        return list(found)

    def pass_time(self, now_ns: int) -> None:
        """A pod that has left the node leaves it as it would have been without."""
        for subject, apart in list(self._apart.items()):
            ends_ns = self._pods.grace_ns.get(subject, 0) + _LINGERS_NS if apart.besides else 0
            is_over = apart.until_ns is not None and apart.until_ns < now_ns
            if is_over or self._has_gone(subject, apart.from_ns, now_ns - ends_ns):
                del self._apart[subject]
            elif self._has_gone(subject, apart.from_ns, now_ns):
                apart.sure = False

    def _has_gone(self, subject: str, from_ns: int, now_ns: int) -> bool:
        """Whether one of that name has gone, and none has come since."""
        return any(from_ns < gone <= now_ns for gone in self._pods.gone.get(subject, ()))

    def diverged_at(self, subject: str, now_ns: int) -> int | None:
        """Seq of the change from which a pod's own history follows."""
        apart = self._apart.get(subject)
        if apart is None or not (apart.absent or apart.besides):
            return None
        # One of the same name can have come only when that one had gone.
        return None if self._has_gone(subject, apart.from_ns, now_ns) else apart.seq

    def others(self, subject: str = "") -> int | None:
        """Seq of the first change after which another pod diverges."""
        return self._first(
            s for s, a in self._apart.items() if s != subject and (a.absent or a.besides)
        )

    def weighing(self) -> int | None:
        """The same of pods that count in the sums of the node's cgroups."""
        light = self._pods.weightless
        found = (s for s, a in self._apart.items() if s not in light and (a.absent or a.besides))
        return self._first(found)

    def holders(self, subject: str = "") -> int | None:
        """The same of pods that would hold other devices, CPUs or memory of their own."""
        return self._first(
            s
            for s, a in self._apart.items()
            if s != subject and (a.holds or self._pods.claims.get(s, True))
        )

    def asks_for_none(self, subject: str) -> bool:
        """Whether a pod surely claims no device, CPU or memory of its own."""
        return not self._pods.claims.get(subject, True)

    def _first(self, subjects: Iterator[str]) -> int | None:
        return min((self._apart[subject].seq for subject in subjects), default=None)

    # -- admissions --------------------------------------------------------------------------

    def trust(self, finding: Finding, case: AdmissionCase | None, *, claims_sure: bool) -> Trust:
        """Whether an admission, or whom it preempts, would be what verification says.

        Args:
            case: what it rests on; None where that is not known.
            claims_sure: so were the decisions about the pod's devices, CPUs and memory.
        """
        if case is not None:
            self._learn(case)
        own = pod_of(finding.subject) if case is None else _subject(case)
        if self.others(own) is None and claims_sure:
            return "sure"
        outcome = _outcome(finding)
        if case is None or outcome is None:
            return "doubtful"
        admit, reason = outcome.admit, outcome.reason
        if not admit and finding.verdict != "impossible" and not _rests_on_others(reason):
            return "sure"
        if case.refusal and claims_sure and not admit:
            return "sure"  # whatever other pods there were: the managers decide first
        if finding.verdict == "unverifiable":
            return "doubtful"
        if reason == "Evicted" or case.pressure is not None:
            return "doubtful"
        apart = [a for s, a in self._apart.items() if s != own]
        if not claims_sure and (not admit or any(a.besides or a.holds for a in apart)):
            return "doubtful"  # fewer pods leave more to claim, and that alone is known
        if admit and _kept_out_by_memory(case) and not self.has_memory(finding.ts_ns, own):
            return "doubtful"
        try:
            return self._decided_alike(case, outcome)
        except BadInputError:
            return "doubtful"

    def _learn(self, case: AdmissionCase) -> None:
        self._objects[_subject(case)] = case.pod
        for other in case.others:
            self._objects[f"pod/{other.name}"] = other.pod

    def has_memory(self, now_ns: int, own: str = "") -> bool:
        """Whether no pod that would be there besides can have made the node short of memory."""
        besides = {s: apart for s, apart in self._apart.items() if apart.besides and s != own}
        limits = [self._pods.memory_bytes.get(subject) for subject in besides]
        known = [limit for limit in limits if limit is not None]
        if not besides or self._spare is None or len(known) < len(limits):
            return not besides
        since_ns = min(apart.from_ns for apart in besides.values())
        return self._spare.holds(sum(known), since_ns, now_ns)

    def _decided_alike(self, case: AdmissionCase, outcome: _Outcome) -> Trust:
        """Whether the decision is the same whichever of the diverging pods were there."""
        come = self._come(case)
        if come is None:
            return "doubtful"
        alike = exact = True
        asked = 0
        for node, others in case.worlds():
            was = case.outcome_in(node, others)
            if not outcome.is_of(was):
                continue
            asked += 1
            subsets = list(self._pod_subsets(others, come))
            if not subsets and not was.result.victims:
                # What fits beside more fits beside fewer, and nobody is killed for it.
                subsets = [self._largest(others, come), self._smallest(others, come)]
            for pods in subsets:
                answer = case.outcome_in(node, pods)
                alike &= outcome.is_of(answer) and answer.result.victims == was.result.victims
                exact &= answer.result.message == was.result.message
            if not alike or not subsets:
                return "doubtful"
        if not asked:
            return "doubtful"
        return "sure" if exact else "sure but for words"

    def _largest(
        self, others: Sequence[CountedPod], come: Sequence[CountedPod]
    ) -> tuple[CountedPod, ...]:
        return (*(o for o in others if not self._is_surely(o, "absent")), *come)

    def _smallest(
        self, others: Sequence[CountedPod], come: Sequence[CountedPod]
    ) -> tuple[CountedPod, ...]:
        there = [o for o in others if not self._is(o, "absent")]
        return (*there, *(o for o in come if self._is_surely(o, "besides")))

    def _pod_subsets(
        self, others: Sequence[CountedPod], come: Sequence[CountedPod]
    ) -> Iterator[tuple[CountedPod, ...]]:
        """Who may have been there, all sets; none where that is too many."""
        there = self._smallest(others, come)
        most = self._largest(others, come)
        perhaps = [other for other in most if other not in there]
        if len(perhaps) <= _SETS_MAX:
            for count in range(len(perhaps) + 1):
                for left in combinations(perhaps, count):
                    yield tuple(other for other in most if other not in left)

    def _is_surely(self, other: CountedPod, flag: str) -> bool:
        apart = self._apart.get(f"pod/{other.name}")
        return apart is not None and apart.sure and self._is(other, flag)

    def _is(self, other: CountedPod, flag: str) -> bool:
        return bool(getattr(self._apart.get(f"pod/{other.name}"), flag, False))

    def _come(self, case: AdmissionCase) -> list[CountedPod] | None:
        """Pods that would perhaps be there besides; None: one is not known well enough."""
        there = {other.pod.metadata.uid for other in case.others}
        come = []
        for subject, apart in self._apart.items():
            if not apart.besides or subject == _subject(case):
                continue
            pod = self._objects.get(subject)
            if pod is None:
                return None
            if pod.metadata.uid not in there:
                come.append(CountedPod(subject.removeprefix("pod/"), pod, 0, doubtful=True))
        return come


class _Possible(NamedTuple):
    """What may come of an admission, with the names of those who are killed for it."""

    admit: bool
    victims: frozenset[str]


def _flags(apart: _Apart) -> set[str]:
    return {flag for flag in ("absent", "besides", "holds", "sure") if getattr(apart, flag)}


def _subject(case: AdmissionCase) -> str:
    return f"pod/{case.interval.full_name}"


def _rests_on_others(reason: str) -> bool:
    """Whether a pod is refused so for what others take; all else is between it and the node."""
    return reason.startswith("OutOf") or reason in _OF_OTHERS


def _kept_out_by_memory(case: AdmissionCase) -> bool:
    """Shortage of memory keeps out BestEffort pods only."""
    facts = case.facts
    qos = pod_qos(
        case.pod, status_wins=facts.qos_class_from_status, pod_level=facts.pod_level_resources
    )
    return qos == "BestEffort" and not is_critical_pod(case.pod)


class _Outcome(NamedTuple):
    """What verification under the variant says: admitted or not, why, and whether it kills others.

    ``kills`` is None where that is not said.
    """

    admit: bool
    reason: str = ""
    kills: bool | None = False

    def is_of(self, answer: AdmissionOutcome) -> bool:
        """Whether an answer is that."""
        result = answer.result
        same = result.admit is self.admit and self.kills in (None, bool(result.victims))
        return same and (self.admit or result.reason == self.reason)


def _outcome(finding: Finding) -> _Outcome | None:
    """None: it cannot be said in these words."""
    is_other = finding.verdict == "impossible"
    fields = (finding.expected if is_other else finding.recorded) or {}
    if finding.kind == "preemption.PodPreempted":
        nobody = is_other and fields.get("victim_pod", "") is None
        return _Outcome(True, kills=not nobody) if nobody or not is_other else None
    if finding.kind == "preemption.PreemptionFailed":
        return _Outcome(False, _PREEMPTING) if fields.get("error") else _Outcome(True)
    if fields.get("victims"):
        return None
    if finding.kind == "lifecycle.PodAdmitted" and not is_other:
        return _Outcome(True, kills=None)
    if fields.get("admit") is True:
        return _Outcome(True)
    reason = fields.get("reason")
    return _Outcome(False, reason) if isinstance(reason, str) else None


def pod_of(subject: str) -> str:
    """``pod/NS/NAME`` of a pod's or a container's subject; the subject itself otherwise."""
    kind, *rest = subject.split("/")
    return "/".join(("pod", *rest[:2])) if kind in {"pod", "container"} else subject
