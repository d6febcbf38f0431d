"""Events that tell of one pod, or container, what was decided about another.

A lost line parts one decision and its event. Here two such pairs are parted within seconds: one
event tells what nobody decided, and of one decision of that sort no event tells. That convicts
where the events before and after, of the same process, each go with their decision.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from kubeledger.kubelet.kube.resources import name_key
from kubeledger.model.bodies.eviction import PodPreempted
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerKilled,
    ContainerStarted,
    KubernetesEvent,
    PodEvicted,
    PodRejected,
    RestartBackedOff,
)
from kubeledger.model.bodies.node import KubeletStarted
from kubeledger.model.record import Body, Record
from kubeledger.model.units import NS_PER_S
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.context import See, Verifier, VerifyContext

_REASONS: Final[Mapping[type[Body], tuple[str, ...]]] = {
    ContainerStarted: ("Started",),
    ContainerDied: ("", "Started"),  # what ends at once is not told to have started
    ContainerKilled: ("Killing", "Started"),
    PodEvicted: ("Evicted",),
    PodPreempted: ("Preempting",),
    PodRejected: (),
    RestartBackedOff: ("BackOff",),
}
"""Kind of record -> the reason of its event, and of another that it explains; a refusal has one."""
_BESIDE_NS: Final = 5 * NS_PER_S
_EXPLAINS_NS: Final = 300 * NS_PER_S
"""A relist may stall for minutes, and what it tells of comes so late."""


class _Told(NamedTuple):
    record: Record
    reasons: tuple[str, ...]
    pod: str
    container: str | None
    is_event: bool = False

    def is_shown_with(self, other: _Told) -> bool:
        """Maybe the same container of a pod; an event's own line shows no decision to it."""
        is_one = {self.container, other.container} - {None}
        lines = {(each.file, each.line) for each in other.record.evidence}
        shown = {(each.file, each.line) for each in self.record.evidence}
        is_apart = self.is_event or not other.is_event or not shown or shown - lines
        return len(is_one) < 2 and bool(is_apart)

    def unpaired(self, told: Iterable[_Told], within_ns: int, most: int) -> int:
        """How many more decisions than events there are near it; ``most``: reasons of each."""
        near = (one for one in told if one.pod == self.pod and self.reasons[0] in one.reasons[:most]
                and abs(one.record.ts_ns - self.record.ts_ns) <= within_ns)  # fmt: skip
        return sum(-1 if each.is_event else 1 for each in near if each.is_shown_with(self))


class EventVerifier(Verifier):
    """Compares events with the decisions around them; it holds what ten minutes tell."""

    def __init__(self, context: VerifyContext) -> None:
        super().__init__(context)
        self._recent: deque[_Told] = deque()
        self._events: deque[_Told] = deque()
        self._parted: list[tuple[_Told, _Told]] | None = None

    def sees(self) -> Mapping[type[Body], See]:
        seen: dict[type[Body], See] = dict.fromkeys((KubernetesEvent, *_REASONS), self._take)
        return {KubeletStarted: self._kubelet_started, **seen}

    def _take(self, record: Record, body: Any, _: NodeState) -> None:  # noqa: ANN401 - any body
        is_event = isinstance(body, KubernetesEvent)
        whose = "victim_" if isinstance(body, PodPreempted) else ""
        pod = name_key(getattr(body, f"{whose}namespace"), getattr(body, f"{whose}pod"))
        reasons = _REASONS.get(type(body)) or (body.reason,)
        if isinstance(body, ContainerStarted) and self.context.timeline.is_found(record.ts_ns):
            reasons = _REASONS[ContainerDied]
        told = _Told(record, reasons, pod, getattr(body, "container", None), is_event)
        self._judge_until(record.ts_ns - _EXPLAINS_NS)
        if getattr(body, "sandbox", None) or (is_event and not _is_logged(record, body)):
            return
        self._recent.append(told)
        self._events.extend([told] * is_event)
        while self._recent[0].record.ts_ns < record.ts_ns - 2 * _EXPLAINS_NS:
            self._recent.popleft()

    def settle(self, state: NodeState) -> None:
        self._judge_until(None)

    def _kubelet_started(self, record: Record, body: KubeletStarted, state: NodeState) -> None:
        """Another process tells anew what it finds, and of this one the end may be lost."""
        self._judge_until(None)
        self._recent.clear()
        self._parted = None

    def _judge_until(self, ts_ns: int | None) -> None:
        while self._events and (ts_ns is None or self._events[0].record.ts_ns < ts_ns):
            self._judge(self._events.popleft())

    def _judge(self, event: _Told) -> None:
        if event.unpaired(self._recent, _EXPLAINS_NS, most=2) >= 0:
            for parted in self._parted or ():
                self._contradict(*parted)
            self._parted = []
            return
        beside = (each for each in self._recent if not each.is_event
                  and each.reasons[0] == event.reasons[0]
                  and abs(each.record.ts_ns - event.record.ts_ns) <= _BESIDE_NS
                  and each.unpaired(self._recent, _BESIDE_NS, most=1) > 0)  # fmt: skip
        decided = next(beside, None)
        if self._parted is not None and decided is not None:
            self._parted.append((event, decided))

    def _contradict(self, event: _Told, decided: _Told) -> None:
        at_ns, message = event.record.ts_ns, getattr(event.record.body, "message", "")
        lost = self.context.coverage.missing(at_ns - _EXPLAINS_NS, at_ns + 2 * _BESIDE_NS)
        if lost is None and self.context.timeline.named(*event.pod.split("/")):
            who = "/".join(filter(None, (decided.pod, decided.container)))
            sides = (decided.record.seq, who), (event.record.seq, message)
            why = f"an event tells {event.reasons[0]} of pod {event.pod}, and not of {who}"
            self.context.contradict(at_ns, f"pod/{event.pod}", why, *sides, by_absence=True)


def _is_logged(record: Record, body: KubernetesEvent) -> bool:
    """Whether it is an event in a log, of a pod; there are two that are called ``BackOff``."""
    is_line = not record.evidence or any(each.line is not None for each in record.evidence)
    is_pull = body.reason == "BackOff" and not body.message.startswith("Back-off restarting")
    return is_line and body.object_kind == "Pod" and not is_pull
