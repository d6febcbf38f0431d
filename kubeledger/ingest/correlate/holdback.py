"""Facts that wait for what else the log says, and those that a kubelet repeats.

One thing that the kubelet did stands in several lines: the decision, the API event, the
status update. They follow within milliseconds, from several goroutines, so the first line
opens a fact, and the fact leaves when it is settled or when its wait is over. Facts leave
in the order they came in: one that waits holds back those after it, so an assembler's
facts stay in the order of time and a cause is always emitted before its effects.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable
from typing import Any, Generic, Protocol, TypeVar, cast

import msgspec

from kubeledger.ingest.sources.items import Fact
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

    def tells(self, seen: Seen, since: int) -> bool:
        """A fact came since ``said`` was ``since``, or one that waits rests on what is seen."""
        if self.said != since or not self._queue:
            return self.said != since
        evidence = seen.evidence
        return any(evidence in each.fact.evidence for each in self._queue)

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


# What a kubelet says again and again: recorded when it begins, changes, goes on and is over.
#
# Several lines may tell the same (a sync error, the runtime's error, an event). Each teller is
# counted by itself, and what happened happened as often as the one says that says it most.

EVERY_NS = 600 * NS_PER_S
"""What goes on is recorded again after so long."""

_EVIDENCE_MAX = 4

K = TypeVar("K", bound=Hashable)
"""A subject."""


class _Run(msgspec.Struct):
    """What is said of one subject since it changed last.

    Attributes:
        same: what two sayings have in common that are told as one.
        body: as it was said last.
        told: teller -> how often it said it.
        recorded: how many of these are recorded.
        since_ns: when the newest record of it was made.
        first_ns, last_ns: of those that are not recorded.
        waiting: the first record, as long as it takes more evidence.
    """

    same: Hashable
    body: Body
    told: dict[str, int]
    recorded: int
    since_ns: int
    first_ns: int
    last_ns: int
    evidence: tuple[Evidence, ...]
    waiting: Waiting[Any]


class Repeated(Generic[K]):
    """Facts of one kind about many subjects."""

    def __init__(
        self,
        queue: Holdback,
        every_ns: int = EVERY_NS,
        *,
        quiet_ns: int | None = None,
        wait_ns: int = WAIT_NS,
    ) -> None:
        """Nothing has been said.

        Args:
            every_ns: how long what goes on is not recorded again.
            quiet_ns: what is not said for so long is over; None: only what is told as over is.
            wait_ns: how long the first record of it takes the evidence of other tellers.
        """
        self._queue = queue
        self._every_ns = every_ns
        self._quiet_ns = quiet_ns
        self._wait_ns = wait_ns
        self._runs: OrderedDict[K, _Run] = OrderedDict()

    def say(self, key: K, same: Hashable, body: Body, teller: str, seen: Seen) -> None:
        """Take in one saying.

        Args:
            key: the subject: of one subject one thing is true at a time.
            same: equal for sayings that differ in nothing that counts.
            body: of the record, should it begin something new: count 1, first and last its time.
            teller: which kind of line or item says so.
        """
        if self.say_again(key, same, teller, seen, body):
            return
        ts_ns = seen.ts_ns
        self.over(key, ts_ns)
        waiting = self._queue.hold(Fact(ts_ns, body, (seen.evidence,)), self._wait_ns)
        self._runs[key] = _Run(same, body, {teller: 1}, 1, ts_ns, ts_ns, ts_ns, (), waiting)

    def say_again(
        self, key: K, same: Hashable, teller: str, seen: Seen, body: Body | None = None
    ) -> bool:
        """As ``say``, of what was said before, by default with its body; False for what is new."""
        run = self._runs.get(key)
        if run is None or run.same != same:
            return False
        self._queue.said += 1
        run.told[teller] = run.told.get(teller, 0) + 1
        if max(run.told.values()) <= run.recorded:
            if len(run.waiting.fact.evidence) < _EVIDENCE_MAX:
                run.waiting.join(seen.evidence)
            return True
        if not run.evidence:
            run.first_ns = seen.ts_ns
        run.last_ns, run.evidence, run.body = seen.ts_ns, (seen.evidence,), body or run.body
        return True

    def over(self, key: K, ts_ns: int, *shows: Evidence, **known: object) -> None:
        """It is not so any more: what is not recorded yet is recorded at ``ts_ns``.

        Args:
            shows: what shows it, if anything does.
            known: fields of the body that only the end tells; they are recorded in any case.
        """
        run = self._runs.pop(key, None)
        if run is not None and known and max(run.told.values()) == run.recorded:
            if run.waiting.is_open and ts_ns <= run.waiting.due_ns:
                run.waiting.learn(**known)
                run.waiting.join(*shows)
                return
            run.first_ns = run.last_ns
        if run is not None:
            run.evidence += shows
            self._record(run, ts_ns, **known)

    def __bool__(self) -> bool:
        """Whether anything is said."""
        return bool(self._runs)

    def is_said(self, key: K) -> bool:
        """Whether something of this subject was said, and is not over."""
        return key in self._runs

    def keys(self) -> list[K]:
        """Subjects of which something is said."""
        return list(self._runs)

    def pass_time(self, now_ns: int) -> None:
        """Record what went on for long; what was not said again is forgotten."""
        if self._quiet_ns is not None:
            since_ns = now_ns - self._quiet_ns
            for each in [key for key, run in self._runs.items() if run.last_ns < since_ns]:
                self.over(each, now_ns)
        while self._runs:
            key, run = next(iter(self._runs.items()))
            if now_ns - run.since_ns < self._every_ns:
                return
            del self._runs[key]
            if run.evidence:
                self._record(run, now_ns)
                run.since_ns = now_ns
                self._runs[key] = run

    def end(self, ts_ns: int) -> None:
        """All is over: the log ends, or the process that said it."""
        for key in list(self._runs):
            self.over(key, ts_ns)

    def _record(self, run: _Run, ts_ns: int, **known: object) -> None:
        total = max(run.told.values())
        if total > run.recorded or known:
            body = msgspec.structs.replace(
                run.body,
                count=total - run.recorded,
                first_ts_ns=run.first_ns,
                last_ts_ns=run.last_ns,
                **known,
            )
            self._queue.add(Fact(max(ts_ns, run.last_ns), body, run.evidence))
            run.recorded, run.evidence = total, ()
