"""Verify the records of one node: two readings, one finding a decision."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
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


def verify(
    read: Reader,
    variant: Variant = RECORDED,
    verifiers: Sequence[type[Verifier]] | None = None,
    on_question: Callable[[int, AdmissionCase], None] = lambda _, __: None,
) -> Iterator[Outcome]:
    """Decide every decision of a node again.

    Args:
        read: opens its records; called twice, and once before for their kinds.
        variant: decide under these settings; the recorded ones by default.
        verifiers: only these, for the decisions that they judge; by default all that may have
            something to say.
        on_question: is called with what each admission rests on, before its finding comes: seq of
            the decision, and the question.

    Yields:
        one finding for each decision that is judged, in the order of replay, and between them
        decisions that had to be taken but were not, and contradictions. The same records
        give the same outcomes. Memory grows with the pods a ledger knows, and with nothing
        else.
    """
    context = VerifyContext(variant, on_question)
    if verifiers is None:
        # A module that needs only the types needs no rule.
        from kubeledger.verify.registry import concerned

        verifiers = concerned(read, variant)
    at_work = [verifier(context) for verifier in verifiers]
    judged = {kind for verifier in at_work for kind in verifier.decides}
    prescans: dict[type[Body], list[Prescan]] = {}
    sees: dict[type[Body], list[See]] = {}
    for verifier in at_work:
        for kind, prescan in verifier.prescans().items():
            prescans.setdefault(kind, []).append(prescan)
        for kind, see in verifier.sees().items():
            sees.setdefault(kind, []).append(see)
    _prescan(read, context, prescans)
    state = read.state() if isinstance(read, BasedReader) else NodeState()
    base_seq, pending = state.seq, context.pending
    carried = read.carried if isinstance(read, BasedReader) else ()
    records = chain(carried, read(None))
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
    for verifier in at_work:
        verifier.settle(state)
    yield from pending.close()


def _prescan(
    read: Reader, context: VerifyContext, prescans: dict[type[Body], list[Prescan]]
) -> None:
    """The first reading: what later records show of earlier times."""
    for original in read({kind.kind for kind in (*prescans, *VerifyContext.KINDS)}):
        record = context.prescan(original)
        for prescan in prescans.get(type(record.body), ()):
            prescan(record, record.body)
    context.settle()
