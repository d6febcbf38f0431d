"""Preemption: whom the kubelet chose so that a critical pod fits, and what came of it.

1.20 names all victims in one line, as Go dumps of their objects, and not whom they make
room for; that is the pod whose admission is under way, because admission and preemption
run inside the sync loop, one pod after the other. Since 1.33 or so a line a victim names
both. Killing blocks that loop, so its next turn ends the wait for outcomes. Where the log
lost these lines, a victim's status or event tells of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

import msgspec

from kubeledger.ingest.correlate.assembler import Assembler, StructuredHandler
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.holdback import Waiting
from kubeledger.ingest.correlate.links import PodLink
from kubeledger.ingest.correlate.preemption_failure import note_failure
from kubeledger.ingest.correlate.rejections import FAILED_STATUS
from kubeledger.ingest.correlate.victim_signs import is_victim_sign, shown_as_victim
from kubeledger.ingest.messages.podref import (
    PodRef,
    event_line,
    structured_pod,
    structured_pods,
    text_value,
)
from kubeledger.ingest.sources.facts import Fact, Facts
from kubeledger.ingest.sources.items import LogLine
from kubeledger.model.bodies.preemption import InsufficientResource, PodPreempted
from kubeledger.model.units import NS_PER_S

__all__ = ["PreemptionAssembler"]

_VICTIM = re.compile(
    r"(?:^|\} )&Pod\{ObjectMeta:\{(?P<name>\S+) (?P<generate>\S*) (?P<namespace>\S*) "
    r"(?P<link>\S*) (?P<uid>\S*) (?P<version>\S*) (?P<generation>\d+) "
)
_RESOURCE = re.compile(r"\(res: (?P<resource>[^,\s]+), q: (?P<quantity>-?\d+)\)")
_CRITICAL_PRIORITY = 2_000_000_000
_OUTCOME_WAIT_NS = 3600 * NS_PER_S
"""A bound only: the outcome comes within the victim's grace period and a half."""


class PreemptionAssembler(Assembler):
    """Victims, and preemptions that found none."""

    def __init__(self, context: BundleContext) -> None:
        super().__init__(context)
        self._links = context.links
        self._awaited: dict[PodLink, Waiting] = {}
        self._announced: dict[PodLink, Waiting] = {}

    def structured(self) -> Mapping[str, StructuredHandler]:
        """Messages since 1.21, and the event of 1.20."""
        return {
            "Attempting to evict pods in order to free up resources": self._attempt,
            "Preempting pod to free up resources": self._preempting,
            "Pod evicted successfully": partial(self._outcome, evicted=True),
            "Failed to evict pod": partial(self._outcome, evicted=False),
            "Failed to admit pod, unexpected error while attempting to recover from admission"
            " failure": self._failed,
            "Event occurred": self._event,
            "Status Manager: adding pod": self._status_added,
        }

    def finish(self, ts_ns: int) -> Facts:
        """What still waited."""
        return self._links.queue.drain()

    def _release(self, line: LogLine) -> list[Fact]:
        return self._links.queue.release(line.ts_ns)

    # -- the choice -----------------------------------------------------------------------

    def _attempt(self, line: LogLine) -> Facts:
        pods = (line.values or {}).get("pods")
        victims = _dumped(pods) if isinstance(pods, str) else []
        victims = victims or structured_pods(pods)
        missing = _insufficient(text_value(line, "insufficientResources"))
        cut = "insufficientResources" not in (line.values or {})
        self._preempt(line, victims, missing, None, cut=cut)
        return self._release(line)

    def _preempting(self, line: LogLine) -> Facts:
        values = line.values or {}
        victim = structured_pod(values.get("pod"), values.get("podUID"))
        requesting = structured_pod(values.get("requestingPod"))
        missing = _insufficient(text_value(line, "insufficientResources"))
        if victim is not None:
            named = None if requesting is None else self._links.pod(self.context, requesting, line)
            self._preempt(line, [victim], missing, named)
        return self._release(line)

    def _preempt(
        self,
        line: LogLine,
        victims: list[PodRef],
        insufficient: tuple[InsufficientResource, ...],
        named: PodLink | None,
        *,
        cut: bool = False,
    ) -> None:
        preemptor = named or self._preemptor()
        for ref in victims:
            victim = self._links.pod(self.context, ref, line)
            self._choose(
                line, victim, preemptor, insufficient, told=ref, inferred=named is None, cut=cut
            )

    def _choose(
        self,
        line: LogLine,
        victim: PodLink,
        preemptor: PodLink | None,
        insufficient: tuple[InsufficientResource, ...],
        *,
        told: PodRef | None = None,
        inferred: bool,
        cut: bool = False,
    ) -> Waiting:
        body = PodPreempted(
            # The name in the line, even where its UID is another pod's: that is for verify.
            victim_namespace=victim.namespace if told is None else told.namespace,
            victim_pod=victim.name if told is None else told.name,
            victim_uid=victim.uid,
            preemptor_namespace=None if preemptor is None else preemptor.namespace,
            preemptor_pod=None if preemptor is None else preemptor.name,
            preemptor_uid=None if preemptor is None else preemptor.uid,
            preemptor_inferred=inferred and preemptor is not None,
            insufficient=insufficient,
            evicted=None,
            cut=cut,
        )
        cause = None if preemptor is None else preemptor.added
        announced = self._announced.pop(victim, None)
        if announced is not None and announced.fact is not None:
            # The event came first, from a goroutine of its own.
            waiting, fact = announced, announced.fact
            fact.body, fact.cause = body, cause
            waiting.lead(line.evidence)
            for other in self._links.admitting:
                if fact in other.preemptions:
                    other.preemptions.remove(fact)
        else:
            fact = Fact(line.ts_ns, body, (line.evidence,), cause=cause)
            waiting = self._links.queue.hold(fact, _OUTCOME_WAIT_NS)
            self._links.open_preemption(waiting)
        self._awaited[victim] = waiting
        victim.victim = fact
        if preemptor is not None:
            preemptor.preemptions.append(fact)
        return waiting

    def _preemptor(self) -> PodLink | None:
        """Whose admission is under way: the only one, or the only critical one."""
        pods = self._links.admitting
        if len(pods) == 1:
            return pods[0]
        critical = [pod for pod in pods if self._is_critical(pod)]
        return critical[0] if len(critical) == 1 else None

    def _is_critical(self, pod: PodLink) -> bool:
        if pod.is_static:
            return True
        known = self.context.pods.get(pod.uid or "")
        priority = None if known is None else known.spec.get("priority")
        return isinstance(priority, int) and priority >= _CRITICAL_PRIORITY

    # -- the outcome ----------------------------------------------------------------------

    def _outcome(self, line: LogLine, evicted: bool) -> Facts:
        ref = structured_pod((line.values or {}).get("pod"), (line.values or {}).get("podUID"))
        if ref is None:
            return self._release(line)
        victim = self._links.pod(self.context, ref, line)
        waiting = self._awaited.pop(victim, None)
        if waiting is None or waiting.fact is None:
            # At low verbosity the outcome is the only line.
            waiting = self._choose(line, victim, self._preemptor(), (), inferred=True)
            self._awaited.pop(victim, None)
        fact = waiting.fact
        assert fact is not None
        assert isinstance(fact.body, PodPreempted)
        fact.body = msgspec.structs.replace(fact.body, evicted=evicted)
        waiting.join(line.evidence)
        waiting.settle()
        return self._release(line)

    def _event(self, line: LogLine) -> Facts:
        told = is_victim_sign(text_value(line, "reason"), text_value(line, "message"))
        event = event_line(line) if told else None
        if event is not None:
            victim = self._links.pod(self.context, event.pod, line)
            victim.preempted = True
            self._sign(line, victim)
        return self._release(line)

    def _status_added(self, line: LogLine) -> Facts:
        match = FAILED_STATUS.match(text_value(line, "status"))
        victim = self._links.pod_by_uid(self.context, text_value(line, "podUID"))
        if (
            match is not None
            and victim is not None
            and is_victim_sign(match["reason"], match["message"])
        ):
            self._sign(line, victim)
        return self._release(line)

    def _sign(self, line: LogLine, victim: PodLink) -> None:
        """Of a victim of which a line tells, or whose lines are lost or still to come."""
        if victim in self._awaited:
            self._awaited[victim].join(line.evidence)
        elif victim.victim is None and shown_as_victim(self.context, victim) is not False:
            waiting = self._choose(line, victim, self._preemptor(), (), inferred=True)
            self._announced[victim] = waiting
        elif victim.victim is None:
            # Lists show that it lived on, so it is about somebody else, or wrong.
            open_now = [w for w in self._awaited.values() if w.fact is not None and w.due_ns]
            for waiting in open_now[-1:]:
                waiting.join(line.evidence)

    # -- no choice ------------------------------------------------------------------------

    def _failed(self, line: LogLine) -> Facts:
        ref = structured_pod((line.values or {}).get("pod"))
        if ref is not None:
            preemptor = self._links.pod(self.context, ref, line)
            note_failure(self._links, preemptor, line, text_value(line, "err"))
        return self._release(line)


def _insufficient(text: str) -> tuple[InsufficientResource, ...]:
    return tuple(
        InsufficientResource(resource=match["resource"], quantity=int(match["quantity"]))
        for match in _RESOURCE.finditer(text)
    )


def _dumped(pods: str) -> list[PodRef]:
    """The pods of a list that 1.20 dumps with all their fields."""
    return [
        PodRef(pod["namespace"], pod["name"], pod["uid"] or None) for pod in _VICTIM.finditer(pods)
    ]
