"""What verification reads and says: one finding for each decision, counts, and contradictions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar

import msgspec

from kubeledger.model.record import Evidence, Record
from kubeledger.replay.node.state import NodeState

Reader = Callable[[Collection[str] | None], Iterator[Record]]
"""Opens the records of a node from the first on, in the order of replay: all of them, or (the
argument) only those of some kinds, then in any order."""


class BasedReader(msgspec.Struct, frozen=True):
    """A reader of records that follow on a state, for those before them were dropped.

    Attributes:
        carried: (n,) some of those dropped, on which later decisions rest. Who asks for their
            kinds is given them first; who asks for all records is not.
        state: gives a new copy of the state at each call; it holds what is carried already.
    """

    read: Reader
    carried: Sequence[Record]
    state: Callable[[], NodeState]

    def __call__(self, kinds: Collection[str] | None) -> Iterator[Record]:
        if kinds is not None:
            yield from (record for record in self.carried if record.kind in kinds)
        yield from self.read(kinds)


Verdict = Literal["match", "admissible", "impossible", "unverifiable"]
"""``match``: what ``decide`` gives. ``admissible``: another of the kubelet's possible choices.
``impossible``: none of them. ``unverifiable``: an input is missing, which is named."""

WORKED_OUT: Final = "a line that says so: the import worked it out of what would judge it"
"""What is missing where a verdict would rest on its own conclusion."""

Fields = dict[str, Any]
"""Field of a decision's body -> value, as plain JSON values; only what the rule determines."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One decision, decided again.

    Attributes:
        seq: the decision's record. For a decision that was not taken but had to be: the
            observation that had to lead to it; then ``recorded`` is None.
        subject: what it is about, as ``why`` takes it (``pod/NS/NAME``,
            ``container/NS/POD/C``, ``image/ID``, ``device/RESOURCE/ID``, ``cgroup/PATH``) or
            ``node``.
        expected: what was decided again; None where the decision had not to be taken, or
            nothing can be said.
        recorded: the same fields of the record.
        missing: (n,) inputs that are missing, each as a noun phrase ("the pod's spec").
        why: one sentence that a kubelet developer accepts, for any verdict.
        rule: the kubelet's function that decides so.
        inputs: (n,) seqs of the records that the decision rests on, in order of use.
        file, line: first evidence of the decision's record; None without any.
        inferred: an import worked the decision out, and no line says it: such a finding is counted
            apart, and proves nothing. An impossible admission counts all the same: that the pod
            was synced shows it.
        about: subject -> clause that says what the decision meant for it, where it meant
            something for others than ``subject`` (an image that a collection left: "is in
            use").
    """

    seq: int
    ts_ns: int
    kind: str
    subject: str
    verdict: Verdict
    expected: Fields | None = None
    recorded: Fields | None = None
    missing: tuple[str, ...] = ()
    why: str = ""
    rule: str = ""
    inputs: tuple[int, ...] = ()
    file: str | None = None
    line: int | None = None
    about: dict[str, str] = {}
    inferred: bool = False

    @property
    def is_sound(self) -> bool:
        """The kubelet decided so, or what would judge it gave it in the first place."""
        return self.verdict in {"match", "admissible"} or self.missing == (WORKED_OUT,)

    @property
    def is_wrong(self) -> bool:
        """The kubelet did what it could not have done; what an import inferred it did not do."""
        return self.verdict == "impossible" and not self.inferred

    @property
    def place(self) -> str:
        """``file:line`` of the decision, or ``record SEQ`` for one without evidence."""
        if self.file is None:
            return f"record {self.seq}"
        return self.file if self.line is None else f"{self.file}:{self.line}"


def same_words(one: str, other: str) -> bool:
    """Whether texts differ in blanks alone: where a line is wrapped, some come or go."""
    return "".join(one.split()) == "".join(other.split())


def place_of(record: Record, piece: Evidence | None = None) -> dict[str, Any]:
    """``file`` and ``line`` of a finding about a record: its first evidence, or another piece."""
    found = piece or next(iter(record.evidence), None)
    return {} if found is None else {"file": found.file, "line": found.line}


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """What one source says."""

    seq: int
    says: str


class Contradiction(msgspec.Struct, frozen=True, kw_only=True):
    """Two sources disagree about one fact; verification takes no side silently.

    Attributes:
        ts_ns: time of the later record.
        subject: as in :class:`Finding`.
        sides: (2 or more,) what each says.
    """

    ts_ns: int
    subject: str
    why: str
    sides: tuple[Side, ...]


class Violation(Contradiction, frozen=True, kw_only=True):
    """What can never be, whatever was decided; a side is a record that shows it, one at least.

    Attributes:
        invariant: which, see :mod:`kubeledger.replay.episodes.safety`.
        bugs: (n,) known bugs of that kubelet that do so (``kubernetes#137534``).
    """

    invariant: str
    bugs: tuple[str, ...] = ()


Outcome = Finding | Contradiction


# Counts over the outcomes of a verification.

VERDICTS: tuple[Verdict, ...] = ("match", "admissible", "impossible", "unverifiable")


class Tally:
    """What has been found so far.

    Decisions that an import inferred are in no count but one of their own.

    Attributes:
        by_kind: decision kind -> verdict -> how many.
        missing: missing input -> how many decisions lack it.
        inferred: verdict -> how many decisions that an import inferred.
    """

    def __init__(self) -> None:
        self.by_kind: dict[str, Counter[Verdict]] = {}
        self.missing: Counter[str] = Counter()
        self.inferred: Counter[Verdict] = Counter()
        self.contradictions = self.violations = 0

    def add(self, outcome: Outcome) -> None:
        if isinstance(outcome, Contradiction):
            is_violation = isinstance(outcome, Violation)
            self.violations += is_violation
            self.contradictions += not is_violation
            return
        if outcome.inferred:
            self.inferred[outcome.verdict] += 1
            return
        self.by_kind.setdefault(outcome.kind, Counter())[outcome.verdict] += 1
        self.missing.update(outcome.missing)

    def count(self, verdict: Verdict) -> int:
        return sum(counts[verdict] for counts in self.by_kind.values())

    @property
    def decisions(self) -> int:
        """All findings but those on inferred decisions."""
        return sum(counts.total() for counts in self.by_kind.values())


# Every decision gets exactly one finding, and findings come out in the order of replay.


class PendingFindings:
    """Decisions that wait for their finding.

    Attributes:
        waiting: decisions without a finding, and what follows them.

    A finding may come later than its decision (an image GC run is judged at its end). What
    follows waits with it, so memory is bounded by the longest wait.
    """

    def __init__(self) -> None:
        self.waiting: dict[int, Outcome | Record] = {}
        self._extra = 0

    def enter(self, record: Record) -> None:
        self.waiting[record.seq] = record

    def find(self, finding: Finding) -> None:
        """Give a decision its finding; ValueError where it was not met, or has one already."""
        if not isinstance(self.waiting.get(finding.seq), Record):
            raise ValueError(f"record {finding.seq} does not wait for a finding")
        self.waiting[finding.seq] = finding

    def add(self, outcome: Finding | Contradiction) -> None:
        """Add something that is no answer to a recorded decision, at this point of the replay."""
        self._extra -= 1
        self.waiting[self._extra] = outcome

    def ready(self) -> Iterator[Outcome]:
        waiting = self.waiting
        while waiting:
            key = next(iter(waiting))
            outcome = waiting[key]
            if isinstance(outcome, Record):
                return
            del waiting[key]
            yield outcome

    def close(self) -> Iterator[Outcome]:
        """The replay ended: what has no finding is unverifiable, and says so."""
        for outcome in self.waiting.values():
            if isinstance(outcome, Record):
                yield Finding(
                    seq=outcome.seq,
                    ts_ns=outcome.ts_ns,
                    kind=outcome.kind,
                    subject="node",
                    verdict="unverifiable",
                    recorded=msgspec.to_builtins(outcome.body),
                    missing=("the records after the end of the ledger",),
                    why="the ledger ends before it shows the outcome of this decision",
                    inferred=getattr(outcome.body, "inferred", False),
                )
            else:
                yield outcome
        self.waiting.clear()


# What several sources show of one fact: the comparator that finds contradictions.
#
# A fact (``("cpus", pod, container)``) has one value at a time. One source shows its changes as
# they come; others (a state file, a list, a counter) show the value at some time that is only
# known to within a reach. What they show is compared when that time is over: it must be a value
# that the fact had at some time within the reach. A value that no source shows is open and agrees
# with all. Neither side is believed silently: the caller shows both.

V = TypeVar("V", bound=Hashable)


class Row(NamedTuple, Generic[V]):
    """One source's account of a fact.

    Attributes:
        value: None where the source ends what was known, and the fact is open from then on.
        text: the value in words.
    """

    kind: str
    subject: Hashable
    value: V | None
    seq: int
    ts_ns: int
    text: str


class Witnesses(Generic[V]):
    """Facts of one area. Memory grows with subjects that hold a value, and with open readings.

    Args:
        reach_ns: a reading is of some time up to so long before or after its own.
    """

    def __init__(self, reach_ns: int) -> None:
        self._reach_ns = reach_ns
        self._rows: dict[tuple[str, Hashable], list[Row[V]]] = {}
        self._open: list[Row[V]] = []
        self._yielded: set[tuple[str, Hashable, V | None, V | None]] = set()

    def note_change(self, row: Row[V]) -> None:
        """From now on the fact has this value."""
        rows = self._rows.setdefault((row.kind, row.subject), [])
        rows.append(row)
        while len(rows) > 1 and rows[1].ts_ns < row.ts_ns - 2 * self._reach_ns:
            del rows[0]

    def knows(self, kind: str, subject: Hashable) -> bool:
        return (kind, subject) in self._rows

    def forget(self) -> None:
        """Whatever was known is open from now on, and what was shown until now with it."""
        self._rows.clear()
        self._open.clear()

    def keep(self, before_ns: int, is_asked: Callable[[Hashable], bool]) -> None:
        """Let go what was told by then and nobody compares: of no open reading, nor asked for."""
        waits = {row.subject for row in self._open}
        self._rows = {
            (kind, of): rows
            for (kind, of), rows in self._rows.items()
            if rows[-1].ts_ns >= before_ns or of in waits or is_asked(of)
        }

    def note_reading(self, row: Row[V]) -> None:
        if (row.kind, row.subject) in self._rows:
            self._open.append(row)

    def passed(self, ts_ns: int | None) -> Iterator[tuple[Row[V], Row[V]]]:
        """Changes and readings of longer than the reach ago (None: all) that cannot both be right.

        Each pair once.
        """
        due = [r for r in self._open if ts_ns is None or r.ts_ns + self._reach_ns <= ts_ns]
        self._open = [row for row in self._open if row not in due]
        for reading in due:
            change = self._denied(reading)
            if change is None:
                continue
            pair = (reading.kind, reading.subject, change.value, reading.value)
            if pair not in self._yielded:
                self._yielded.add(pair)
                yield change, reading

    def _denied(self, reading: Row[V]) -> Row[V] | None:
        """The account that a reading denies; None where it may be right."""
        rows = self._rows.get((reading.kind, reading.subject), [])
        from_ns, to_ns = reading.ts_ns - self._reach_ns, reading.ts_ns + self._reach_ns
        if not rows or rows[0].ts_ns > from_ns:
            return None  # before the first account the fact is open
        before = [row for row in rows if row.ts_ns <= from_ns][-1:]
        within = [row for row in rows if from_ns < row.ts_ns <= to_ns]
        for row in (*before, *within):
            if row.value is None or reading.value is None or row.value == reading.value:
                return None
        return before[0]
