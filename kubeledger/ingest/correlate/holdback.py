"""Facts that wait a moment for what else the log says about them.

One thing that the kubelet did stands in several lines: the decision, the API event, the
status update. They follow within milliseconds, from several goroutines, so the first line
opens a fact, and the fact leaves when it is settled or when its wait is over. Facts leave
in the order they came in: one that waits holds back those after it, so an assembler's
facts stay in the order of time and a cause is always emitted before its effects.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Generic, Protocol, TypeVar, cast

import msgspec

from kubeledger.ingest.sources.facts import Fact
from kubeledger.model.record import Body, Evidence
from kubeledger.model.units import NS_PER_S

WAIT_NS = NS_PER_S
"""How long a fact waits for more evidence, unless set otherwise."""

B = TypeVar("B", bound=Body)


class Seen(Protocol):
    """A line or an item."""

    @property
    def ts_ns(self) -> int:
        """Its time."""

    @property
    def evidence(self) -> Evidence:
        """Where it stands."""


def shown(seen: Seen, body: Body, *more: Evidence, cause: Fact | None = None) -> Fact:
    """The fact that a line or an item shows, with further evidence."""
    return Fact(seen.ts_ns, body, (seen.evidence, *more), cause)


class Waiting(Generic[B]):
    """A place in the queue: a fact about which more may be said.

    Attributes:
        fact: what will be emitted; once it has left, nothing changes it.
        due_ns: time at which it leaves even if nothing settles it.
        is_open: it has not left, and was not dropped.
        tentative: it leaves only if something more was said of it, or names it as its cause.
    """

    def __init__(self, fact: Fact, wait_ns: int = WAIT_NS) -> None:
        self.fact = fact
        self.due_ns = fact.ts_ns + wait_ns
        self.is_open = True
        self.tentative = False

    @property
    def body(self) -> B:
        """What is known so far."""
        return cast(B, self.fact.body)

    def join(self, *evidence: Evidence) -> None:
        """Add evidence, unless the fact is gone or has it already."""
        if self.is_open:
            new = tuple(piece for piece in evidence if piece not in self.fact.evidence)
            self.fact.evidence += new

    def learn(self, **values: Any) -> None:  # noqa: ANN401 - fields of the body
        """Note more of the fact, unless it is gone."""
        if self.is_open:
            self.fact.body = msgspec.structs.replace(self.fact.body, **values)

    def lead(self, evidence: Evidence) -> None:
        """Put the evidence first that shows the fact best: it is the fact's place."""
        if self.is_open:
            rest = tuple(piece for piece in self.fact.evidence if piece != evidence)
            self.fact.evidence = (evidence, *rest)

    def settle(self) -> None:
        """Nothing more is awaited."""
        self.due_ns = 0

    def drop(self) -> None:
        """It did not happen after all."""
        self.is_open = False
        self.due_ns = 0


W = TypeVar("W", bound=Waiting[Any])


class Holdback:
    """The queue of one assembler.

    Attributes:
        said: how often a fact came, or was said again.
    """

    def __init__(self) -> None:
        self.said = 0
        self._queue: deque[Waiting[Any]] = deque()
        self._last_ns = 0

    def add(self, fact: Fact) -> Fact:
        """Queue a fact that is settled."""
        self.put(Waiting(fact)).settle()
        return fact

    def hold(self, fact: Fact, wait_ns: int = WAIT_NS) -> Waiting[Any]:
        """Queue a fact that may wait until ``wait_ns`` after its time."""
        return self.put(Waiting(fact, wait_ns))

    def put(self, waiting: W) -> W:
        """Queue a place."""
        self.said += 1
        self._queue.append(waiting)
        return waiting

    def tells(self, evidence: Evidence, since: int) -> bool:
        """A fact came since ``said`` was ``since``, or one that waits rests on this evidence."""
        return self.said != since or any(evidence in each.fact.evidence for each in self._queue)

    @property
    def is_empty(self) -> bool:
        """Nothing waits."""
        return not self._queue

    def waiting_since(self) -> int | None:
        """Time of the oldest fact in the queue; None when it holds none."""
        if not self._queue:  # as nearly always
            return None
        return min((each.fact.ts_ns for each in self._queue if each.is_open), default=None)

    def release(self, now_ns: int) -> list[Fact]:
        """What may leave at ``now_ns``; everything, when the clock was set back."""
        if now_ns > self._last_ns:
            self._last_ns = now_ns
        elif now_ns < self._last_ns - WAIT_NS:
            self._last_ns = now_ns
            return self.drain()
        if not self._queue:  # as nearly always
            return []
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
        if waiting.is_open and not (waiting.tentative and not self._is_cause(waiting.fact)):
            facts.append(waiting.fact)
        # A late line may still find this place; what has left does not change any more.
        waiting.is_open = False

    def _is_cause(self, fact: Fact) -> bool:
        """Whether a fact in the queue names this one as its cause."""
        return any(each.is_open and each.fact.cause is fact for each in self._queue)
