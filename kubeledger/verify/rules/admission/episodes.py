"""Preemptions that are under way or whose victims' end is still awaited.

A victim's containers die while the preemptor's admission waits, and the PLEG tells of it a
little later: its events pass through the loop that waits. So the victims are judged some
seconds after the preemptor was decided.
"""

from __future__ import annotations

from typing import Final

import msgspec

from kubeledger.lifecycle.presence import known
from kubeledger.lifecycle.state import PodState
from kubeledger.machine import Evidence, Record
from kubeledger.node.state import NodeState
from kubeledger.preemption.records import PodPreempted
from kubeledger.units import NS_PER_S
from kubeledger.verify.belief import Judgement, RuleVerifier
from kubeledger.verify.finding import Fields
from kubeledger.verify.rules.admission.adds import PodAdd
from kubeledger.verify.rules.admission.case import AdmissionCase
from kubeledger.verify.rules.admission.judging import RULE_PREEMPTION, judged
from kubeledger.verify.rules.admission.victims import Kill, judge_victims

__all__ = ["Episode", "Episodes"]

_AWAITED_NS: Final = 12 * NS_PER_S
_KILL_WAIT_S: Final = 10
"""The kubelet waits for a kill this long at least, and half as long again as its grace."""
_MARGIN_NS: Final = 10 * NS_PER_S
"""A death is told this late at most."""


class Episode:
    """One preemption.

    Attributes:
        case: the admission it was for, or what is missing of it.
        kills: victims' records, in order.
        decided: place and time of the preemptor's own decision; None before it.
        shown: evidence of that decision.
    """

    def __init__(self, case: AdmissionCase | tuple[str, ...]) -> None:
        self.case = case
        self.kills: list[tuple[Record, PodPreempted]] = []
        self.decided: tuple[int, int] | None = None
        self.shown: tuple[Evidence, ...] | None = None


class Episodes:
    """All that are open; there is hardly ever more than one."""

    def __init__(self, rule: RuleVerifier) -> None:
        """``rule`` gives the findings."""
        self._rule = rule
        self._open: dict[PodAdd, Episode] = {}

    def add(
        self,
        add: PodAdd,
        case: AdmissionCase | tuple[str, ...],
        record: Record,
        body: PodPreempted,
    ) -> None:
        """A victim was killed for a pod that was handed over."""
        episode = self._open.get(add)
        if episode is None:
            episode = self._open[add] = Episode(case)
        episode.kills.append((record, body))

    def victims_of(self, add: PodAdd) -> list[str]:
        """Names of those killed for a pod."""
        episode = self._open.get(add)
        kills = episode.kills if episode is not None else []
        return [f"{body.victim_namespace}/{body.victim_pod}" for _, body in kills]

    def decided(self, add: PodAdd, record: Record) -> None:
        """The preemptor's own admission is over."""
        episode = self._open.get(add)
        if episode is not None:
            episode.decided, episode.shown = (record.seq, record.ts_ns), record.evidence

    def pass_time(self, now_ns: int | None, state: NodeState) -> None:
        """Judge what is no longer awaited; None: the records, or the kubelet, end."""
        for add, episode in list(self._open.items()):
            since_ns = episode.decided[1] if episode.decided else add.turn_ns
            over = since_ns is not None and now_ns is not None and now_ns > since_ns + _AWAITED_NS
            if now_ns is None or over:
                del self._open[add]
                self._judge(episode, now_ns, state)

    def _judge(self, episode: Episode, now_ns: int | None, state: NodeState) -> None:
        kills = [self._kill(episode, record, body, now_ns, state) for record, body in episode.kills]
        for index, (record, _) in enumerate(episode.kills):
            fields: Fields | None = None

            def of_this(case: AdmissionCase, index: int = index) -> Judgement:
                nonlocal fields
                all_told = _all_told(episode, case.add)
                judgement, fields = judge_victims(case, kills, all_told=all_told)[index]
                return judgement

            judgement = judged(episode.case, of_this)
            judgement = msgspec.structs.replace(judgement, rule=RULE_PREEMPTION)
            subject = f"pod/{kills[index].name}"
            self._rule.conclude(record, subject, judgement, recorded=fields)

    def _kill(
        self,
        episode: Episode,
        record: Record,
        body: PodPreempted,
        now_ns: int | None,
        state: NodeState,
    ) -> Kill:
        """What must have come of a kill, by the time it took and the victim's containers."""
        if episode.decided is None or body.evicted is None:
            return Kill(body)
        seq, decided_ns = episode.decided
        took_ns = decided_ns - record.ts_ns
        pod = known(state.lifecycle, body.victim_uid, body.victim_namespace, body.victim_pod)
        name = f"{body.victim_namespace}/{body.victim_pod}"
        if not body.evicted and took_ns < _KILL_WAIT_S * NS_PER_S and not _failed(pod):
            why = (
                f"the kill of {name} cannot have failed: its wait does not run out in "
                f"{took_ns / NS_PER_S:.1f} s, and the kubelet reported no error"
            )
            return Kill(body, True, why, (seq,))
        ran_on = now_ns is not None and now_ns > decided_ns + _MARGIN_NS
        if body.evicted and ran_on and pod is not None and pod.runs() and pod.sandbox_id:
            why = f"the kill of {name} did not succeed: its containers ran on"
            return Kill(body, False, why, (seq,))
        return Kill(body)


def _all_told(episode: Episode, add: PodAdd) -> bool:
    """Whether one line names all victims, is not cut, and the log went on behind it.

    Since 1.33 or so there is a line a victim, any of which may be lost. It names the preemptor.
    """
    last, body = episode.kills[-1]
    if body.cut or not all(b.preemptor_inferred and b.insufficient for _, b in episode.kills):
        return False
    if add.turn_ns is not None or not last.evidence:
        return True
    if episode.shown is None:
        return False
    file, line = last.evidence[0].file, last.evidence[0].line
    return line is None or any(
        place.file == file and place.line is not None and place.line > line
        for place in episode.shown
    )


def _failed(pod: PodState | None) -> bool:
    """Whether an event tells of an error while the pod was killed."""
    return pod is None or bool({"FailedKillPod", "ExceededGracePeriod"} & pod.reasons.keys())
