"""Evictions: a pod that the eviction manager chose, from all the lines about it.

``must evict pod(s)`` names the resource, ``pods ranked for eviction`` the candidates: the
first that is not critical is killed at once, and nothing else before its end is known.
Evictions for local storage have no such lines, but the event and ``is evicted
successfully``. Whichever comes first opens the fact, so it stands before the kills.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from kubeledger.importers.assembler import Assembler, FreeTextHandler, StructuredHandler
from kubeledger.importers.context import BundleContext
from kubeledger.importers.facts import Fact, Facts
from kubeledger.importers.holdback import Waiting
from kubeledger.importers.items import LogLine
from kubeledger.importers.links import PodLink
from kubeledger.importers.podref import (
    FORMATTED_POD,
    PodRef,
    event_line,
    formatted_pod,
    formatted_pods,
    structured_pod,
    structured_pods,
    text_value,
)
from kubeledger.lifecycle.records import PodEvicted
from kubeledger.machine import Evidence
from kubeledger.units import NS_PER_S

__all__ = ["EvictionsAssembler"]

_MUST = re.compile(r"eviction manager: must evict pod\(s\) to reclaim (\S+)")
_RANKED = re.compile(r"eviction manager: pods ranked for eviction: (.*)", re.DOTALL)
_CRITICAL = re.compile(rf"eviction manager: cannot evict a critical pod ({FORMATTED_POD})")
_EVICTED = re.compile(
    rf"eviction manager: pod (?P<pod>{FORMATTED_POD}) (?P<how>is evicted successfully|failed)"
)
_KILL_WAIT_NS = 30 * NS_PER_S
"""The kill is awaited before its success is logged."""


class EvictionsAssembler(Assembler):
    """Pods evicted by the eviction manager."""

    def __init__(self, context: BundleContext) -> None:
        super().__init__(context)
        self._links = context.links
        self._must: tuple[str, Evidence] | None = None
        self._ranked: list[PodRef] = []
        self._because: tuple[Evidence, ...] = ()
        self._resource: str | None = None
        self._open: dict[PodLink, Waiting] = {}

    def structured(self) -> Mapping[str, StructuredHandler]:
        """Messages since 1.21, and the event of 1.20."""
        return {
            "Eviction manager: must evict pod(s) to reclaim": self._must_evict,
            "Eviction manager: pods ranked for eviction": self._rank,
            "Eviction manager: cannot evict a critical pod": self._critical,
            "Eviction manager: pod is evicted successfully": self._evicted,
            "Eviction manager: pod failed to evict": self._evicted,
            "Evicting pod": self._evicting,
            "Event occurred": self._event,
        }

    def free_text(self) -> Mapping[str, Sequence[tuple[re.Pattern[str], FreeTextHandler]]]:
        """Messages of 1.20 and before."""
        return {
            "eviction_manager.go": [
                (_MUST, lambda line, match: self._needs(line, match[1])),
                (_RANKED, lambda line, match: self._choose(line, formatted_pods(match[1]))),
                (_CRITICAL, lambda line, match: self._spare(line, formatted_pod(match[1]))),
                (_EVICTED, self._evicted_text),
            ]
        }

    def finish(self, ts_ns: int) -> Facts:
        """What still waited."""
        return self._links.queue.drain()

    def _release(self, line: LogLine) -> list[Fact]:
        return self._links.queue.release(line.ts_ns)

    # -- the choice -----------------------------------------------------------------------

    def _must_evict(self, line: LogLine) -> Facts:
        return self._needs(line, text_value(line, "resourceName"))

    def _needs(self, line: LogLine, resource: str) -> Facts:
        self._must = (resource, line.evidence)
        return self._release(line)

    def _rank(self, line: LogLine) -> Facts:
        return self._choose(line, structured_pods((line.values or {}).get("pods")))

    def _choose(self, line: LogLine, ranked: list[PodRef]) -> Facts:
        must, self._must = self._must, None
        self._resource = must[0] if must else None
        self._because = (must[1], line.evidence) if must else (line.evidence,)
        self._ranked = ranked
        self._next(line)
        return self._release(line)

    def _next(self, line: LogLine) -> None:
        if self._ranked:
            pod = self._links.pod(self.context, self._ranked.pop(0), line)
            self._decide(pod, line, self._because, self._resource)

    def _critical(self, line: LogLine) -> Facts:
        return self._spare(line, structured_pod((line.values or {}).get("pod")))

    def _spare(self, line: LogLine, ref: PodRef | None) -> Facts:
        """A critical pod is left alone, and the next one is chosen."""
        if ref is not None:
            pod = self._links.pod(self.context, ref, line)
            waiting = self._open.pop(pod, None)
            if waiting is not None:
                waiting.drop()
                pod.evicting, pod.eviction = False, None
                self._next(line)
        return self._release(line)

    # -- what became of it ----------------------------------------------------------------

    def _evicted(self, line: LogLine) -> Facts:
        ref = structured_pod((line.values or {}).get("pod"))
        return self._done(line, ref, done=line.message.endswith("successfully"))

    def _evicted_text(self, line: LogLine, match: re.Match[str]) -> Facts:
        return self._done(line, formatted_pod(match["pod"]), done=match["how"] != "failed")

    def _done(self, line: LogLine, ref: PodRef | None, *, done: bool) -> Facts:
        if ref is not None:
            pod = self._links.pod(self.context, ref, line)
            self._tell(pod, line, evicted=done)
            waiting = self._open.pop(pod, None)
            if waiting is not None:
                waiting.settle()
        return self._release(line)

    def _evicting(self, line: LogLine) -> Facts:
        ref = structured_pod((line.values or {}).get("pod"), (line.values or {}).get("podUID"))
        if ref is not None:
            self._links.pod(self.context, ref, line).evicting = True
        return self._release(line)

    def _event(self, line: LogLine) -> Facts:
        event = event_line(line, ("Evicted",))
        if event is not None:
            pod = self._links.pod(self.context, event.pod, line)
            # The same word is the reason of a refusal under pressure.
            if not pod.admitting and pod.rejected is None:
                self._tell(pod, line, message=event.message)
        return self._release(line)

    # -- the fact -------------------------------------------------------------------------

    def _decide(
        self, pod: PodLink, line: LogLine, evidence: tuple[Evidence, ...], resource: str | None
    ) -> Waiting:
        body = PodEvicted(
            namespace=pod.namespace,
            pod=pod.name,
            pod_uid=pod.uid,
            resource=resource,
            message=None,
            evicted=None,
        )
        fact = Fact(line.ts_ns, body, evidence)
        waiting = self._open[pod] = self._links.queue.hold(fact, _KILL_WAIT_NS)
        pod.evicting, pod.eviction = True, fact
        return waiting

    def _tell(
        self,
        pod: PodLink,
        line: LogLine,
        *,
        message: str | None = None,
        evicted: bool | None = None,
    ) -> None:
        """Take down what a line tells of an eviction; its first line opens the fact."""
        waiting = self._open.get(pod)
        if waiting is None and pod.eviction is not None:
            return  # all of it was told
        waiting = waiting or self._decide(pod, line, (line.evidence,), None)
        fact = waiting.fact
        if fact is None or not isinstance(fact.body, PodEvicted):
            return
        waiting.join(line.evidence)
        fact.body = msgspec.structs.replace(
            fact.body,
            message=fact.body.message if message is None else message,
            evicted=fact.body.evicted if evicted is None else evicted,
        )
