"""Verify the records of one node: two readings, one finding a decision."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Final

from kubeledger.model.record import Body
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

    def note(self, records: Iterable[Record]) -> None:
        """What records show of any time: the first reading, as far as it goes now."""
        prescans: dict[type[Body], list[Prescan]] = {}
        for verifier in self._at_work:
            for kind, prescan in verifier.prescans().items():
                prescans.setdefault(kind, []).append(prescan)
        for original in records:
            record = self._context.prescan(original)
            for prescan in prescans.get(type(record.body), ()):
                prescan(record, record.body)
        self._context.settle()
        for verifier in self._at_work:
            verifier.derive()

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
        """The records end."""
        for verifier in self._at_work:
            verifier.settle(self._state)
        yield from self._context.pending.close()


def verify(
    read: Reader,
    variant: Variant = RECORDED,
    verifiers: Sequence[type[Verifier]] | None = None,
    on_question: OnQuestion = lambda _, __: None,
    ends: Sequence[int] = (),
) -> Iterator[Outcome]:
    """Decide every decision of a node again.

    Args:
        read: opens its records; called twice.
        variant: decide under these settings; the recorded ones by default.
        verifiers: only these, for the decisions that they judge; all by default.
        on_question: is called with what each admission rests on, before its finding comes: seq of
            the decision, and the question.
        ends: (n,) last records of stretches, ascending; the records come in the order of seq then.
            What is decided in a stretch is judged by what is recorded up to the end of the next
            one, and nothing later; in the last two by all.

    Yields:
        one finding for each decision that is judged, in the order of replay, and between them
        decisions that had to be taken but were not, and contradictions. The same records
        give the same outcomes. Memory grows with the pods a ledger knows, and with nothing
        else.
    """
    if verifiers is None:
        # All rules are much to import, and a module that needs only the types needs none of them.
        from kubeledger.verify.registry import VERIFIERS

        verifiers = VERIFIERS
    state = read.state() if isinstance(read, BasedReader) else NodeState()
    at = Verification(state, variant, verifiers, on_question)
    carried = read.carried if isinstance(read, BasedReader) else ()
    ahead, records = _Stretches(read(at.kinds)), _Stretches(chain(carried, read(None)))
    for end, next_end in pairwise(ends):
        at.note(ahead.up_to(next_end))
        yield from at.see(records.up_to(end))
    at.note(ahead.up_to(None))
    yield from at.see(records.up_to(None))
    yield from at.close()


class _Stretches:
    """Records in the order of seq, taken up to one of them after the other."""

    def __init__(self, records: Iterator[Record]) -> None:
        self._records = records
        self._next: Record | None = None

    def up_to(self, seq: int | None) -> Iterator[Record]:
        """Those that were not taken; None: all."""
        if seq is None:
            return chain(() if self._next is None else (self._next,), self._records)
        return self._some(seq)

    def _some(self, seq: int) -> Iterator[Record]:
        for record in self.up_to(None):
            self._next = None
            if record.seq > seq:
                self._next = record
                return
            yield record
