"""Verify the records of one node: two readings, one finding a decision."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from kubeledger.model.record import Body, Record
from kubeledger.replay.node.reducer import evolve, steps_without
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.context import Prescan, See, Verifier, VerifyContext
from kubeledger.verify.finding import BasedReader, Outcome, Reader
from kubeledger.verify.variant import RECORDED, Variant

if TYPE_CHECKING:
    from kubeledger.verify.rules.admission.case import AdmissionCase

_STEPS: Final = steps_without("prober")
"""Probe workers are followed as beliefs, so nobody reads those of the state."""

OnQuestion = Callable[[int, "AdmissionCase"], None]


def ask_nothing(seq: int, case: AdmissionCase) -> None:
    """Nobody wants to know what an admission rests on."""


class Verification:
    """All that is known of a node at one record: evidence, beliefs, and its state.

    Evidence is noted from records that are further on, as far as the end of the next stretch, and
    derived again when more was noted; beliefs go from record to record.

    Attributes:
        kinds: of the records that evidence is noted from.
    """

    def __init__(
        self,
        state: NodeState,
        variant: Variant,
        verifiers: Sequence[type[Verifier]],
        on_question: OnQuestion,
    ) -> None:
        """Before the first record; arguments as of :func:`verify`."""
        self._context = VerifyContext(variant, on_question)
        self._at_work = [verifier(self._context) for verifier in verifiers]
        self._state = state
        self._base_seq = state.seq

    @property
    def kinds(self) -> set[str]:
        noted = (kind for verifier in self._at_work for kind in verifier.prescans())
        return {kind.kind for kind in (*noted, *VerifyContext.KINDS)}

    def note(self, records: Iterable[Record], *, is_last: bool = False) -> None:
        """What records show of any time: the first reading, as far as it goes now."""
        prescans: dict[type[Body], list[Prescan]] = {}
        for verifier in self._at_work:
            for kind, prescan in verifier.prescans().items():
                prescans.setdefault(kind, []).append(prescan)
        for original in records:
            record = self._context.prescan(original)
            for prescan in prescans.get(type(record.body), ()):
                prescan(record, record.body)
        self._context.settle(self._state.latest_ts_ns)
        for verifier in self._at_work:
            verifier.derive(self._state)
        if is_last:
            self._context.timeline.let_go()

    def see(self, records: Iterable[Record]) -> Iterator[Outcome]:
        """Decide again what records show: the second reading, as far as it goes now."""
        context, state, base_seq = self._context, self._state, self._base_seq
        variant, pending = context.variant, context.pending
        judged = {kind for verifier in self._at_work for kind in verifier.decides}
        sees: dict[type[Body], list[See]] = {}
        for verifier in self._at_work:
            for kind, see in verifier.sees().items():
                sees.setdefault(kind, []).append(see)
        for record in map(variant.of, records) if variant.changes_pods else records:
            context.observe(record)
            body = record.body
            if type(body) in judged:
                pending.enter(record)
            for see in sees.get(type(body), ()):
                see(record, body, state)
            if record.seq > base_seq:
                evolve(state, record, _STEPS)
            if pending.waiting:
                yield from pending.ready()

    def close(self) -> Iterator[Outcome]:
        for verifier in self._at_work:
            verifier.settle(self._state)
        yield from self._context.pending.close()


class Start(NamedTuple):
    """A stretch begins with the first record, in the order of replay, that has this number or more.

    Attributes:
        seq: of its first record.
        last_seq: of the last record that is written in the same order of time.
    """

    seq: int
    last_seq: int


class Seam(msgspec.Struct):
    """Where all is decided for good that comes before a stretch.

    Attributes:
        seq: all records before this one were seen, and none else.
        latest_ns: the latest time of these.
        noted_seq, noted_ns: the same of those that evidence was noted from.
    """

    seq: int
    latest_ns: int
    noted_seq: int
    noted_ns: int
    at: Verification


OnSeam = Callable[[Seam], None]


def keep_nothing(seam: Seam) -> None:
    """Nobody goes on from there another time."""


def verify(
    read: Reader,
    variant: Variant = RECORDED,
    verifiers: Sequence[type[Verifier]] | None = None,
    on_question: OnQuestion = ask_nothing,
    starts: Sequence[Start] = (),
    on_seam: OnSeam = keep_nothing,
) -> Iterator[Outcome]:
    """Decide every decision of a node again.

    Args:
        read: opens its records; called twice, and once before for their kinds.
        variant: decide under these settings; the recorded ones by default.
        verifiers: only these, for the decisions that they judge; by default all that may have
            something to say.
        on_question: is called with what each admission rests on, before its finding comes: seq of
            the decision, and the question.
        starts: (n,) of stretches, ascending. What is decided before one is judged by what is
            recorded before the next one, and nothing later; what comes then by all.
        on_seam: as of :func:`carry_on`.

    Returns:
        one finding for each decision that is judged, in the order of replay, and between them
        decisions that had to be taken but were not, and contradictions. The same records
        give the same outcomes. Memory grows with the pods a ledger knows, and with nothing
        else.
    """
    if verifiers is None:
        # A module that needs only the types needs no rule.
        from kubeledger.verify.registry import concerned

        verifiers = concerned(read, variant)
    state = read.state() if isinstance(read, BasedReader) else NodeState()
    carried = read.carried if isinstance(read, BasedReader) else ()
    at = Verification(state, variant, verifiers, on_question)
    return carry_on(at, read(at.kinds), chain(carried, read(None)), starts, on_seam)


def carry_on(
    at: Verification,
    ahead: Iterator[Record],
    records: Iterator[Record],
    starts: Sequence[Start],
    on_seam: OnSeam = keep_nothing,
) -> Iterator[Outcome]:
    """What follows on what is known at the beginning of a stretch.

    Args:
        ahead: records of its ``kinds`` that were not noted yet, in the order of replay.
        records: those that were not seen yet, in the order of replay.
        starts: (n,) of the stretches that begin with those, as of :func:`verify`.
        on_seam: is called where all before a stretch is decided for good; what it is given is used
            further afterwards.
    """
    noted, seen = _Stretches(ahead), _Stretches(records)
    for start, following in pairwise(starts):
        at.note(noted.before(following))
        yield from at.see(seen.before(start))
        if noted.is_between and seen.is_between:
            on_seam(Seam(start.seq, seen.latest_ns, following.seq, noted.latest_ns, at))
    at.note(noted.before(None), is_last=True)
    yield from at.see(seen.before(None))
    yield from at.close()


class _Stretches:
    """Records in the order of replay, taken stretch by stretch.

    Attributes:
        is_between: all records before the stretch were taken, and none else.
        latest_ns: the latest time of those that were taken.
    """

    def __init__(self, records: Iterator[Record]) -> None:
        self._records = records
        self._next: Record | None = None
        self.is_between = False
        self.latest_ns = 0

    def before(self, start: Start | None) -> Iterator[Record]:
        """Those that were not taken, up to a stretch; None: all."""
        rest = chain(() if self._next is None else (self._next,), self._records)
        return rest if start is None else self._some(rest, start)

    def _some(self, rest: Iterator[Record], start: Start) -> Iterator[Record]:
        self._next, self.is_between = None, False
        seq, latest_ns = start.seq, self.latest_ns
        for record in rest:
            if record.seq >= seq:
                self._next, self.is_between = record, record.seq <= start.last_seq
                break
            if record.ts_ns > latest_ns:
                latest_ns = record.ts_ns
            yield record
        self.latest_ns = latest_ns
