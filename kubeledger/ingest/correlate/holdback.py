"""Facts that wait a moment for what else the log says about them.

One thing that the kubelet did stands in several lines: the decision, the API event, the
status update. They follow within milliseconds, from several goroutines, so the first line
opens a fact, and the fact leaves when it is settled or when its wait is over. Facts leave
in the order they came in: one that waits holds back those after it, so an assembler's
facts stay in the order of time and a cause is always emitted before its effects.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

from kubeledger.ingest.sources.facts import Fact
from kubeledger.model.record import Evidence
from kubeledger.model.units import NS_PER_S

__all__ = ["WAIT_NS", "Holdback", "Waiting"]

WAIT_NS = NS_PER_S
"""How long a fact waits for more evidence, unless set otherwise."""


class Waiting:
    """A place in the queue.

    Attributes:
        fact: what will be emitted; None: nothing any more.
        due_ns: time at which it leaves even if nothing settles it.
        tentative: it leaves only if something more was said of it, or names it as its cause.
    """

    __slots__ = ("due_ns", "fact", "tentative")

    def __init__(self, fact: Fact, due_ns: int) -> None:
        self.fact: Fact | None = fact
        self.due_ns = due_ns
        self.tentative = False

    def join(self, *evidence: Evidence) -> None:
        """Add evidence, unless the fact is gone or has it already."""
        if self.fact is not None:
            new = tuple(piece for piece in evidence if piece not in self.fact.evidence)
            self.fact.evidence += new

    def learn(self, **values: Any) -> None:  # noqa: ANN401 - fields of the body
        """Note more of the fact, unless it is gone."""
        if self.fact is not None:
            self.fact.body = msgspec.structs.replace(self.fact.body, **values)

    def lead(self, evidence: Evidence) -> None:
        """Put the evidence first that shows the fact best: it is the fact's place."""
        if self.fact is not None:
            rest = tuple(piece for piece in self.fact.evidence if piece != evidence)
            self.fact.evidence = (evidence, *rest)

    def settle(self) -> None:
        """Nothing more is awaited."""
        self.due_ns = 0

    def drop(self) -> None:
        """It did not happen after all."""
        self.fact = None
        self.due_ns = 0


class Holdback:
    """The queue of one assembler."""

    def __init__(self) -> None:
        self._queue: deque[Waiting] = deque()
        self._last_ns = 0

    def add(self, fact: Fact) -> Fact:
        """Queue a fact that is settled."""
        self._queue.append(Waiting(fact, 0))
        return fact

    def hold(self, fact: Fact, wait_ns: int = WAIT_NS) -> Waiting:
        """Queue a fact that may wait until ``wait_ns`` after its time."""
        waiting = Waiting(fact, fact.ts_ns + wait_ns)
        self._queue.append(waiting)
        return waiting

    def waiting_since(self) -> int | None:
        """Time of the oldest fact in the queue; None when it holds none."""
        if not self._queue:
            return None
        return min((w.fact.ts_ns for w in self._queue if w.fact is not None), default=None)

    def release(self, now_ns: int) -> list[Fact]:
        """What may leave at ``now_ns``; everything, when the clock was set back."""
        if now_ns < self._last_ns - WAIT_NS:
            self._last_ns = now_ns
            return self.drain()
        if now_ns > self._last_ns:
            self._last_ns = now_ns
        facts: list[Fact] = []
        while self._queue and self._queue[0].due_ns <= self._last_ns:
            self._pop(facts)
        return facts

    def drain(self) -> list[Fact]:
        """Everything, at the end of the bundle."""
        facts: list[Fact] = []
        while self._queue:
            self._pop(facts)
        return facts

    def _pop(self, facts: list[Fact]) -> None:
        waiting = self._queue.popleft()
        if waiting.fact is not None and waiting.tentative and not self._is_cause(waiting.fact):
            waiting.fact = None
        if waiting.fact is not None:
            facts.append(waiting.fact)
            # A late line may still find this place; what has left does not change any more.
            waiting.fact = None

    def _is_cause(self, fact: Fact) -> bool:
        """Whether a fact in the queue names this one as its cause."""
        return any(each.fact is not None and each.fact.cause is fact for each in self._queue)
